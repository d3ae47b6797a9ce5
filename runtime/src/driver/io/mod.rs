//! Descriptors in, wakers out: mio's `Poll`, and which thread may free a source when.
//!
//! Read `readiness.rs` (the word), `source.rs` (the waiters), then this file (the poller). `interest.rs`
//! holds the two public sets of flags. The types that hold a descriptor and a [`Source`] are built on top, in
//! `io/registered/registration.rs`.
//!
//! # Turns
//! One thread at a time is the poller: the holder of the lock around mio's `Poll`. The poller holds that lock
//! while it sleeps in `epoll_wait`. No thread waits for the lock, because all other threads only try to take
//! it. [`IoDriver::unpark`] ends the sleep of a poller, or keeps the next poller from sleeping. It writes an
//! eventfd, which is an edge-triggered source, whether or not a poller sleeps. So a write between a poller's
//! last look at its queues and its `epoll_wait` is reported at that `epoll_wait`.
//!
//! **The alarm.** A poller that waits for a timer sets an alarm ([`Poller::set_alarm`]), because epoll counts
//! milliseconds. The alarm stays set when the wait ends for another reason, and is not set again for the same
//! time. `alarm_set_to` says when the alarm will go off, or that its event waits to be taken. The thread that
//! takes that event stores [`NOT_SET`] there, so that no poller relies on the alarm any more. A thread that
//! polls beside the poller may store it too late, when the poller has set the alarm anew. Then the alarm is
//! set once more for nothing.
//!
//! **A non-blocking poll beside the poller.** The poller may be woken in `epoll_wait` and get no CPU, because
//! computations have all CPUs. Another thread that has a CPU may then take the events itself
//! ([`IoDriver::poll_nonblocking`]). The system gives each event to one of the two threads. The event of the
//! eventfd or the alarm was meant to end the poller's sleep. If the other thread takes such an event, it
//! writes the eventfd (again). Two threads may then dispatch to one source at once, as a shutdown and the
//! poller may. `readiness.rs` allows that.
//!
//! # Lifetime of a source
//! A token is the address of a [`Source`], so the poller finds the source without a table. The price is that
//! a source must outlive every event that carries its address. Events lie in the poller's buffer from
//! `epoll_wait` to dispatch.
//! ```text
//!   any thread:   SourceDelete epoll_ctl(DEL); SourceRelease push onto `released` (lock)
//!   poller:       TurnFree take `released` (lock), drop them; TurnWait epoll_wait; TurnDispatch; TurnFree …
//!   nonblocking:  TurnWait; TurnDispatch, with a lock that TurnFree needs, too (else the next turn does it)
//! ```
//! After SourceDelete the kernel puts the address into no buffer. A source found at TurnFree was pushed
//! before, so SourceDelete came before TurnFree. Events harvested before SourceDelete were harvested at an
//! earlier TurnWait, whose TurnDispatch is over, because TurnFree excludes turns and non-blocking polls. So
//! no event that could name the source is left, and none will come. A source pushed after TurnFree waits for
//! the next turn. The thread whose push completes a batch of [`RELEASE_BATCH`] unparks the poller, so that
//! released sources do not pile up. If SourceDelete fails (other code has closed the descriptor), the kernel
//! may still report the source. Then the source stays until the driver goes.
//!
//! SourceDelete names a descriptor by its number. If other code has closed it and opened another one, which
//! got the number and is watched, SourceDelete ends that watch, and succeeds. If a copy of the closed one is
//! left, the kernel still reports the source, which is freed. So the caller of `register` keeps the
//! descriptor open until `deregister`. It owns the descriptor, or a duplicate (`io/unix/watched.rs`), or
//! `unsafe` code of the user has promised it.
//!
//! # Rejected
//! - A table of slots with generations: a lock or a second indirection for each event.
//! - Waiting in the dropping thread until the turn is over: a drop that blocks.

mod dispatch;
mod interest;
mod readiness;
mod selector;
mod source;

use std::error::Error;
use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::time::Duration;

use mio::{Events, Registry, Token};

use crate::loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use crate::loom::sync::{Arc, Mutex, MutexGuard};
use crate::util::unwind;

use super::foreign::ForeignWakes;
use selector::{Alarm, NonblockingPoll, Poll, Waker};

pub use interest::{Interest, Ready};
#[cfg(loom)]
pub use readiness::{Arm, Finish, Hold, Readiness};
pub use readiness::{Direction, ReadyEvent};
pub use source::{Retracted, Source, SourceKind, WaitReady};

/// The token of the eventfd behind [`IoDriver::unpark`]; no source has this address.
const UNPARK: Token = Token(0);
/// The token of the alarm, likewise.
const ALARM: Token = Token(1);

/// The alarm will not go off.
const NOT_SET: u64 = 0;

/// The number of released sources at which the poller is unparked.
const RELEASE_BATCH: usize = 32;

/// The driver for descriptors: one epoll instance and every source registered with it.
pub struct IoDriver {
    /// The thread that holds this lock is the poller.
    poller: Mutex<Inner>,
    /// For the thread that polls beside the poller.
    nonblocking: Mutex<NonblockingPoll>,
    registry: Registry,
    waker: Waker,
    /// Ends a wait for a timer, if the driver has timers and the system allows it.
    alarm: Option<Alarm>,
    /// The system's time at which the alarm goes off, or has gone off if no thread has taken the event; or
    /// [`NOT_SET`].
    alarm_set_to: AtomicU64,
    sources: Mutex<Sources>,
    /// Length of `Sources::live`: a hint that needs no lock.
    live: AtomicUsize,
    /// `Sources::is_shutdown`, likewise.
    is_shutdown: AtomicBool,
    /// Whether the poller dispatches events. Written by the poller alone.
    is_dispatching: AtomicBool,
    /// Whether a thread beside the poller dispatches events. Written under the lock of `nonblocking`.
    is_nonblocking_dispatching: AtomicBool,
    /// Turns and events so far. Written by the poller alone; its lock orders one poller's writes before the
    /// next's.
    turns: AtomicU64,
    events: AtomicU64,
    /// Polls beside the poller so far, and their events. Written under the lock of `nonblocking`.
    nonblocking_polls: AtomicU64,
    nonblocking_events: AtomicU64,
}

struct Inner {
    poll: Poll,
    events: Events,
    /// The buffer for a turn that does not wait, if it takes another number of events.
    busy_events: Option<Events>,
    /// Empty. Swapped with `Sources::released`, so that neither side allocates again and again.
    spare: Vec<Arc<Source>>,
}

struct Sources {
    /// Every source that may get an event. `Source::index` is its place in here.
    live: Vec<Arc<Source>>,
    /// Sources that get no new event, but may be named by one in the poller's buffer.
    released: Vec<Arc<Source>>,
    is_shutdown: bool,
    /// How many descriptors have been registered and deregistered.
    registered: u64,
    deregistered: u64,
}

impl IoDriver {
    /// Makes a driver whose poller takes up to `events` events a turn, or `busy_events` in a turn that does
    /// not wait. Neither is 0.
    ///
    /// # Errors
    /// The system's error if it has no descriptors left; none stays open then.
    pub fn new(events: usize, busy_events: Option<usize>) -> io::Result<IoDriver> {
        let (poll, registry, waker) = selector::open(UNPARK)?;
        let inner = Inner {
            poll,
            events: Events::with_capacity(events),
            busy_events: busy_events.map(Events::with_capacity),
            spare: Vec::new(),
        };
        let at_once = busy_events.unwrap_or(events);
        let sources = Sources {
            live: Vec::new(),
            released: Vec::new(),
            is_shutdown: false,
            registered: 0,
            deregistered: 0,
        };
        Ok(IoDriver {
            poller: Mutex::new(inner),
            nonblocking: Mutex::new(NonblockingPoll::new(at_once)),
            registry,
            waker,
            alarm: None,
            alarm_set_to: AtomicU64::new(NOT_SET),
            sources: Mutex::new(sources),
            live: AtomicUsize::new(0),
            is_shutdown: AtomicBool::new(false),
            is_dispatching: AtomicBool::new(false),
            is_nonblocking_dispatching: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            events: AtomicU64::new(0),
            nonblocking_polls: AtomicU64::new(0),
            nonblocking_events: AtomicU64::new(0),
        })
    }

    /// Opens the alarm.
    pub fn with_alarm(self) -> IoDriver {
        let alarm = Alarm::open(&self.registry, ALARM);
        IoDriver { alarm, ..self }
    }

    /// Makes the calling thread the poller, unless there is one.
    pub fn try_poller(&self) -> Option<Poller<'_>> {
        Some(Poller { inner: self.poller.try_lock()?, driver: self })
    }

    /// Dispatches what is ready, without waiting, although another thread is the poller; see the module's
    /// docs. Does nothing while a third thread does the same. Foreign wakers go to `foreign`.
    pub fn poll_nonblocking(&self, foreign: &ForeignWakes) {
        let Some(mut nonblocking) = self.nonblocking.try_lock() else {
            return;
        };
        // Relaxed, and Release below: as in `dispatch_events`.
        self.is_nonblocking_dispatching.store(true, Relaxed);
        let mut dispatched = 0;
        nonblocking.take(&self.registry, ALARM, |token, ready| {
            if token == ALARM {
                self.alarm_set_to.store(NOT_SET, Relaxed);
            }
            if token == ALARM || token == UNPARK {
                return self.unpark();
            }
            self.see_sources();
            // SAFETY: (1) every other token is a registered source's. The source is alive: it is among the
            // live ones, or was released, but no thread frees released ones while this thread holds the lock
            // of `nonblocking`.
            let source = unsafe { source_of(token) };
            Source::dispatch(&source, ready, foreign);
            dispatched += 1;
        });
        self.is_nonblocking_dispatching.store(false, Release);
        add(&self.nonblocking_polls, 1);
        add(&self.nonblocking_events, dispatched);
    }

    /// Ends the sleep of the poller, or the next sleep if no poller sleeps now.
    pub fn unpark(&self) {
        // mio handles a full counter itself. The system does not interrupt a call that does not wait, but a
        // sandbox that supervises calls may. Any other error means that the descriptor is not ours any more.
        // A wake-up that is lost here would be a hang without a visible cause.
        while let Err(error) = self.waker.wake() {
            if error.kind() != io::ErrorKind::Interrupted {
                unwind::abort(&format!("cannot wake the I/O driver: {error}"));
            }
        }
    }

    /// Ends every wait, and refuses new sources from now on. Descriptors may still be deregistered. Foreign
    /// wakers go to `foreign`.
    pub fn shutdown(&self, foreign: &ForeignWakes) {
        let live = {
            let mut sources = self.sources.lock();
            sources.is_shutdown = true;
            self.is_shutdown.store(true, Relaxed);
            sources.live.clone()
        };
        for source in live {
            Source::shut_down(&source, foreign);
        }
    }

    /// Whether [`shutdown`](Self::shutdown) was called; a hint.
    pub fn is_shutdown(&self) -> bool {
        self.is_shutdown.load(Relaxed)
    }

    /// Whether a turn could find an event: a hint. While it is false, a worker need not poll.
    pub fn has_sources(&self) -> bool {
        self.live.load(Relaxed) > 0
    }

    /// Whether no descriptor is registered, and no event of a former one will wake a task. This is no hint:
    /// the caller sees what the poller's last wakes did, and what was done before the last descriptor was
    /// deregistered.
    pub fn is_quiet(&self) -> bool {
        // A dispatch that took wakers out did so before the source was detached, which orders its flag before
        // the lock. A dispatch after the detachment finds no waker.
        let is_dispatching =
            || self.is_dispatching.load(Acquire) || self.is_nonblocking_dispatching.load(Acquire);
        self.sources.lock().live.is_empty() && !is_dispatching()
    }

    /// The number of turns so far.
    pub fn turns(&self) -> u64 {
        self.turns.load(Relaxed)
    }

    /// The number of turns and of polls beside the poller so far.
    pub fn polls(&self) -> u64 {
        self.turns() + self.nonblocking_polls.load(Relaxed)
    }

    /// The number of events so far that a turn, or a poll beside the poller, has dispatched.
    pub fn events(&self) -> u64 {
        self.events.load(Relaxed) + self.nonblocking_events.load(Relaxed)
    }

    /// The numbers of descriptors that were registered and deregistered so far.
    pub fn registrations(&self) -> (u64, u64) {
        let sources = self.sources.lock();
        (sources.registered, sources.deregistered)
    }

    /// Starts to watch `io`. The events go to `source`, which is [new](Source::new) and of this driver,
    /// number 0.
    ///
    /// # Errors
    /// [`shut_down_error`] after shutdown, or the system's error.
    pub fn register(
        &self,
        io: &mut impl mio::event::Source,
        interest: Interest,
        source: Source,
    ) -> io::Result<Arc<Source>> {
        let source = Arc::new(source);
        // First into the list: from `epoll_ctl` on, the poller may follow the address.
        self.insert(&source)?;
        let address = Arc::as_ptr(&source).expose_provenance();
        if let Err(error) = self.registry.register(io, Token(address), interest.to_mio()) {
            let mut sources = self.sources.lock();
            sources.remove(&source, &self.live);
            sources.registered -= 1;
            return Err(error);
        }
        Ok(source)
    }

    /// Stops watching `io`, and drops the wakers of `source`.
    ///
    /// # Errors
    /// The system's error; then `source` stays until the driver goes.
    pub fn deregister(&self, source: &Arc<Source>, io: &mut impl mio::event::Source) -> io::Result<()> {
        debug_assert_eq!(source.driver(), 0, "there is one driver");
        let result = self.registry.deregister(io);
        source.detach();
        result?;
        let is_batch_full = {
            let mut sources = self.sources.lock();
            let removed = sources.remove(source, &self.live);
            sources.released.push(removed);
            sources.deregistered += 1;
            sources.released.len() % RELEASE_BATCH == 0
        };
        if is_batch_full {
            // The source is not freed here. A thread that holds the poller's lock, even for a moment, must be
            // ready to poll; a worker that finds the lock taken would go to sleep elsewhere.
            self.unpark();
        }
        Ok(())
    }

    /// Dispatches the events of a turn. Returns how many of them were of sources. Out of line, so that its
    /// instructions can be counted.
    #[inline(never)]
    fn dispatch_events(&self, events: &Events, foreign: &ForeignWakes) -> usize {
        // Relaxed: published by what the dispatch does. The Release below pairs with `is_quiet`.
        self.is_dispatching.store(true, Relaxed);
        self.see_sources();
        let mut dispatched = 0;
        for event in events {
            // One comparison for most events.
            if event.token() <= ALARM {
                if event.token() == ALARM {
                    self.alarm_set_to.store(NOT_SET, Relaxed);
                }
                continue;
            }
            // SAFETY: (1) every other token is a registered source's. The source is alive: it is among the
            // live ones, or it was released after this turn freed what had been released before. The poller's
            // lock, which the caller holds, keeps the next turn from freeing it.
            let source = unsafe { source_of(event.token()) };
            Source::dispatch(&source, Ready::from_event(event), foreign);
            dispatched += 1;
        }
        self.is_dispatching.store(false, Release);
        add(&self.events, dispatched as u64);
        dispatched
    }

    /// Orders what was done before a source was inserted before the events that name it. The system
    /// guarantees that order, because `epoll_ctl` comes before the events. The memory model does not know it.
    fn see_sources(&self) {
        self.live.load(Acquire);
    }

    fn insert(&self, source: &Arc<Source>) -> io::Result<()> {
        let mut sources = self.sources.lock();
        if sources.is_shutdown {
            return Err(shut_down_error());
        }
        source.index.store(sources.live.len(), Relaxed);
        sources.live.push(source.clone());
        sources.registered += 1;
        // Release: pairs with `see_sources`.
        self.live.store(sources.live.len(), Release);
        Ok(())
    }
}

impl Sources {
    /// Takes `source` from the live ones, and stores in `live` how many are left.
    fn remove(&mut self, source: &Arc<Source>, live: &AtomicUsize) -> Arc<Source> {
        let index = source.index.load(Relaxed);
        let removed = self.live.swap_remove(index);
        debug_assert!(Arc::ptr_eq(source, &removed), "a source is where its index says");
        if let Some(moved) = self.live.get(index) {
            moved.index.store(index, Relaxed);
        }
        live.store(self.live.len(), Release);
        removed
    }
}

impl fmt::Debug for IoDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoDriver")
            .field("sources", &self.live.load(Relaxed))
            .field("is_shutdown", &self.is_shutdown())
            .finish_non_exhaustive()
    }
}

/// The right to poll, for as long as it lives.
pub struct Poller<'a> {
    inner: MutexGuard<'a, Inner>,
    driver: &'a IoDriver,
}

impl Poller<'_> {
    /// One turn: waits at most `timeout` (`None`: until unparked or an event comes), dispatches readiness,
    /// wakes tasks. Other wakers go to `foreign`. Returns the number of events; 0 also if a signal
    /// interrupted the wait.
    ///
    /// Rounds `timeout` up to whole milliseconds, as epoll counts; the [alarm](Self::set_alarm) is more
    /// exact. Aborts the process if epoll is broken, because a runtime that cannot wait can only burn its CPU
    /// or hang.
    pub fn turn(&mut self, timeout: Option<Duration>, foreign: &ForeignWakes) -> usize {
        self.free_released();
        let Inner { poll, events, busy_events, .. } = &mut *self.inner;
        let events = match busy_events {
            Some(busy_events) if timeout == Some(Duration::ZERO) => busy_events,
            _ => events,
        };
        match poll.poll(events, timeout) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => events.clear(),
            Err(error) => unwind::abort(&format!("cannot wait for I/O events: {error}")),
        }

        let dispatched = if events.is_empty() { 0 } else { self.driver.dispatch_events(events, foreign) };
        add(&self.driver.turns, 1);
        dispatched
    }

    /// Has the next turn end when the system's clock says `nanos`, to the microsecond. Returns false if there
    /// is no alarm; then the turn's timeout has to end it. Calls the system only if the alarm is set to
    /// another time.
    pub fn set_alarm(&mut self, nanos: u64) -> bool {
        let Some(alarm) = &self.driver.alarm else { return false };
        let set_to = &self.driver.alarm_set_to;
        // Relaxed: the poller alone sets it. A thread that polls beside the poller makes it `NOT_SET` and
        // then unparks the poller, which looks here again.
        if set_to.load(Relaxed) != nanos {
            // Stored first, because the event that makes it `NOT_SET` may be taken at once.
            set_to.store(nanos, Relaxed);
            alarm.set(nanos);
        }
        true
    }

    /// Whether the alarm is set, and no thread has seen it go off.
    pub fn is_alarm_set(&self) -> bool {
        self.driver.alarm_set_to.load(Relaxed) != NOT_SET
    }

    /// Drops what was released before this turn: no event that names it is in the buffer.
    fn free_released(&mut self) {
        // A thread that polls beside the poller may have events that name them.
        let Some(_no_nonblocking_poll) = self.driver.nonblocking.try_lock() else {
            return;
        };
        let spare = std::mem::take(&mut self.inner.spare);
        let mut released = {
            let mut sources = self.driver.sources.lock();
            if sources.released.is_empty() {
                drop(sources);
                self.inner.spare = spare;
                return;
            }
            std::mem::replace(&mut sources.released, spare)
        };
        released.clear();
        self.inner.spare = released;
    }
}

impl fmt::Debug for Poller<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller").finish_non_exhaustive()
    }
}

/// The source whose address is `token`.
///
/// # Safety
/// 1. The source was registered, and is alive as long as the result.
unsafe fn source_of(token: Token) -> ManuallyDrop<Arc<Source>> {
    let source = std::ptr::with_exposed_provenance::<Source>(token.0);
    // SAFETY: the source is alive by (1). The address was exposed when it was registered. It comes from an
    // `Arc`, whose count is left alone.
    ManuallyDrop::new(unsafe { Arc::from_raw(source) })
}

/// Adds to a counter that only the caller writes.
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed) + n, Relaxed);
}

/// The error of an operation on a source after the driver has been shut down.
#[cold]
pub fn shut_down_error() -> io::Error {
    io::Error::other(ShutDown)
}

/// Whether `error` is [`shut_down_error`], or has it as its source.
pub fn is_shut_down_error(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|error| {
        let error: &(dyn Error + 'static) = error;
        error.is::<ShutDown>()
            || error.source().and_then(|source| source.downcast_ref()).is_some_and(is_shut_down_error)
    })
}

/// See [`shut_down_error`].
#[derive(Debug)]
struct ShutDown;

impl fmt::Display for ShutDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the runtime that watched this descriptor was shut down")
    }
}

impl Error for ShutDown {}

#[cfg(all(test, not(loom)))]
mod tests;
