//! Descriptors in, wakers out: mio's `Poll`, and which thread may free a source when.
//!
//! Read `readiness.rs` (the word), `source.rs` (the waiters), then this file (the poller). `interest.rs`
//! holds the two public sets of flags. Whatever holds a descriptor and a [`Source`] is built on top, in
//! `io/registered.rs`.
//!
//! # Turns
//! One thread at a time is the poller: the one that has the lock around mio's `Poll`. It sleeps in
//! `epoll_wait` holding that lock, which is fine since all other threads only try to take it.
//! [`Driver::unpark`] ends the sleep of a poller, or keeps the next one from sleeping: its eventfd is an
//! edge-triggered source, written whether or not a poller sleeps, so a write between a poller's last look at
//! its queues and its `epoll_wait` is reported there.
//!
//! **The alarm.** A poller that waits for a timer sets an alarm, since epoll counts milliseconds
//! ([`Poller::set_alarm`]). It stays set when the wait ends for another reason, and is not set again for the
//! same time: `alarm_set_to` says when it will go off, or that its event waits to be taken. The thread that
//! takes that event says first that the alarm is not set ([`NOT_SET`]), so that no poller relies on it any
//! more. A thread that glances may say so too late, when the poller has set the alarm anew: then it is set
//! once more for nothing.
//!
//! **A glance beside the poller.** The poller may sleep in `epoll_wait`, be woken there, and get no CPU,
//! because computations have them all. A thread that has a CPU may then take the events itself
//! ([`Driver::glance`]): the system gives each to one of the two. If it takes the eventfd's or the alarm's,
//! which was meant to end the poller's sleep, it writes the eventfd (again). Two threads may then dispatch to
//! one source at once, as a shutdown may beside the poller: `readiness.rs` is made for it.
//!
//! # Lifetime of a source
//! A token is the address of a [`Source`], so the poller finds it without a table. The price: a source must
//! outlive every event that carries its address, and events sit in the poller's buffer from `epoll_wait` to
//! dispatch.
//! ```text
//!   any thread:  D1 epoll_ctl(DEL)   D2 push onto `released` (lock)
//!   poller:      T1 take `released` (lock), drop them   T2 epoll_wait   T3 dispatch    T1 …
//!   glance:      with a lock that T1 needs, too, or leaves it for the next turn:   T2   T3
//! ```
//! After D1 the kernel puts the address into no buffer. A source found at T1 was pushed, so D1 came before
//! T1; events harvested before D1 were harvested at an earlier T2, whose T3 is over, because T1 excludes
//! turns and glances. So no event that could name it is left, and none will come. A source pushed after T1
//! waits for the next turn. At most [`RELEASE_BATCH`] of them wait: the thread that pushes the last one
//! unparks the poller. If D1 fails (other code closed the descriptor behind our back) the kernel may report
//! it yet: then the source stays until the driver goes.
//!
//! Rejected: a table of slots with generations (a lock or a second indirection for each event); waiting in
//! the dropping thread until the turn is over (a drop that blocks).

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
use selector::{Alarm, Glance, Poll, Waker};

pub use interest::{Interest, Ready};
#[cfg(loom)]
pub use readiness::{Arm, Finish, Hold, Readiness};
pub use readiness::{Direction, ReadyEvent};
pub use source::{Kind, Retracted, Source, WaitReady};

/// The token of the eventfd behind [`Driver::unpark`]; no source has this address.
const UNPARK: Token = Token(0);
/// The token of the alarm, likewise.
const ALARM: Token = Token(1);

/// The alarm will not go off.
const NOT_SET: u64 = 0;

/// Released sources that may pile up while the poller sleeps.
const RELEASE_BATCH: usize = 32;

/// What watches descriptors: one epoll instance and every source registered with it.
pub struct Driver {
    /// The thread that has it is the poller.
    poller: Mutex<Inner>,
    /// For the thread that looks beside the poller.
    glance: Mutex<Glance>,
    registry: Registry,
    waker: Waker,
    /// What ends a wait for a timer, if the driver has timers and the system lets it.
    alarm: Option<Alarm>,
    /// The system's time at which the alarm goes off, or has gone off without any thread taking its event; or
    /// [`NOT_SET`].
    alarm_set_to: AtomicU64,
    sources: Mutex<Sources>,
    /// Length of `Sources::live`, a hint for threads that have no time for the lock.
    live: AtomicUsize,
    /// `Sources::is_shutdown`, likewise.
    is_shutdown: AtomicBool,
    /// The poller hands out events. Written by the poller alone.
    is_dispatching: AtomicBool,
    /// A thread that glances hands out events. Written with the lock of `glance`.
    is_glancing: AtomicBool,
    /// Turns and events so far. Written by the poller alone; its lock orders one poller's writes before the
    /// next's.
    turns: AtomicU64,
    events: AtomicU64,
}

struct Inner {
    poll: Poll,
    events: Events,
    /// The events of a turn that does not wait, if it takes another number.
    busy_events: Option<Events>,
    /// Empty; swapped with `Sources::released` so that neither side allocates again and again.
    spare: Vec<Arc<Source>>,
}

struct Sources {
    /// Every source that may get an event. `Source::index` is the place in here.
    live: Vec<Arc<Source>>,
    /// Sources that get no new event, but may be named by one in the poller's buffer.
    released: Vec<Arc<Source>>,
    is_shutdown: bool,
    /// How many descriptors have been registered, and deregistered.
    registered: u64,
    deregistered: u64,
}

impl Driver {
    /// A driver with a poller that takes up to `events` events a turn, or `busy_events` in a turn that does
    /// not wait. Neither is 0.
    ///
    /// # Errors
    /// What the system says when it has no descriptors left; none stays open then.
    pub fn new(events: usize, busy_events: Option<usize>) -> io::Result<Driver> {
        let (poll, registry, waker) = selector::open(UNPARK)?;
        let inner = Inner {
            poll,
            events: Events::with_capacity(events),
            busy_events: busy_events.map(Events::with_capacity),
            spare: Vec::new(),
        };
        let at_a_glance = busy_events.unwrap_or(events);
        let sources = Sources {
            live: Vec::new(),
            released: Vec::new(),
            is_shutdown: false,
            registered: 0,
            deregistered: 0,
        };
        Ok(Driver {
            poller: Mutex::new(inner),
            glance: Mutex::new(Glance::new(at_a_glance)),
            registry,
            waker,
            alarm: None,
            alarm_set_to: AtomicU64::new(NOT_SET),
            sources: Mutex::new(sources),
            live: AtomicUsize::new(0),
            is_shutdown: AtomicBool::new(false),
            is_dispatching: AtomicBool::new(false),
            is_glancing: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            events: AtomicU64::new(0),
        })
    }

    /// Opens the alarm.
    pub fn with_alarm(self) -> Driver {
        let alarm = Alarm::open(&self.registry, ALARM);
        Driver { alarm, ..self }
    }

    /// Makes the calling thread the poller, unless there is one.
    pub fn try_poller(&self) -> Option<Poller<'_>> {
        Some(Poller { inner: self.poller.try_lock()?, driver: self })
    }

    /// Dispatches what is ready, without waiting, though another thread is the poller; see the module's docs.
    /// Does nothing while a third one does the same. Foreign wakers go to `foreign`.
    pub fn glance(&self, foreign: &mut ForeignWakes) {
        let Some(mut glance) = self.glance.try_lock() else {
            return;
        };
        // As in `turn`.
        self.is_glancing.store(true, Relaxed);
        glance.take(&self.registry, ALARM, |token, ready| {
            if token == ALARM {
                self.alarm_set_to.store(NOT_SET, Relaxed);
            }
            if token == ALARM || token == UNPARK {
                return self.unpark();
            }
            self.see_sources();
            // SAFETY: (1) the source is alive: it is among the live ones, or was released, but no thread
            // frees those while we have the lock.
            let source = unsafe { source_of(token) };
            Source::dispatch(&source, ready, foreign);
        });
        self.is_glancing.store(false, Release);
    }

    /// Ends the sleep of the poller, or the next sleep if no poller sleeps.
    pub fn unpark(&self) {
        // A full counter is mio's business. Anything else means that the descriptor is not ours any more, and
        // a wake-up that is lost here is a hang without a visible cause.
        if let Err(error) = self.waker.wake() {
            unwind::abort(&format!("cannot wake the I/O driver: {error}"));
        }
    }

    /// Ends every wait, and refuses new sources from now on. Descriptors may still be deregistered.
    pub fn shutdown(&self, foreign: &mut ForeignWakes) {
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

    /// Whether a turn could find an event; a hint. While there is none, a worker need not look.
    pub fn has_sources(&self) -> bool {
        self.live.load(Relaxed) > 0
    }

    /// Whether no descriptor is registered, and no event of a former one wakes any task any more. Not a hint:
    /// what the poller woke before, and what was done before the last descriptor was deregistered, is seen by
    /// the caller.
    pub fn is_quiet(&self) -> bool {
        // A dispatch that took wakers out did so before the source was detached, which orders its flag before
        // the lock. A dispatch that comes after the detachment finds none.
        let is_dispatching = || self.is_dispatching.load(Acquire) || self.is_glancing.load(Acquire);
        self.sources.lock().live.is_empty() && !is_dispatching()
    }

    /// Turns so far.
    pub fn turns(&self) -> u64 {
        self.turns.load(Relaxed)
    }

    /// Events dispatched so far.
    pub fn events(&self) -> u64 {
        self.events.load(Relaxed)
    }

    /// How many descriptors have been registered so far, and how many deregistered.
    pub fn registrations(&self) -> (u64, u64) {
        let sources = self.sources.lock();
        (sources.registered, sources.deregistered)
    }

    /// Starts to watch `io`. The events go to `source`, which is [new](Source::new) and of this driver,
    /// number 0.
    ///
    /// # Errors
    /// [`shut_down_error`] after shutdown, or what the system says.
    pub fn register(
        &self,
        io: &mut impl mio::event::Source,
        interest: Interest,
        source: Source,
    ) -> io::Result<Arc<Source>> {
        let source = Arc::new(source);
        // The list comes first: from `epoll_ctl` on, the poller may follow the address.
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

    /// Ends the watch over `io`, and drops the wakers of `source`.
    ///
    /// # Errors
    /// What the system says; then `source` stays until the driver goes.
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
            // Not freed here: a thread that holds the poller's lock, however shortly, must be ready to poll,
            // or a worker that finds it taken would go to sleep elsewhere.
            self.unpark();
        }
        Ok(())
    }

    /// Dispatches what a turn has brought, and says how many events of sources were among it. Out of line, so
    /// that its instructions can be counted.
    #[inline(never)]
    fn dispatch_events(&self, events: &Events, foreign: &mut ForeignWakes) -> usize {
        // Relaxed: published by what the dispatch does. Release: pairs with `is_quiet`.
        self.is_dispatching.store(true, Relaxed);
        self.see_sources();
        let mut dispatched = 0;
        for event in events.iter().filter(|event| event.token() != UNPARK) {
            if event.token() == ALARM {
                self.alarm_set_to.store(NOT_SET, Relaxed);
                continue;
            }
            // SAFETY: (1) the source is alive: either it is among the live ones, or it was released after
            // this turn freed what had been released before.
            let source = unsafe { source_of(event.token()) };
            Source::dispatch(&source, Ready::from_event(event), foreign);
            dispatched += 1;
        }
        self.is_dispatching.store(false, Release);
        add(&self.events, dispatched as u64);
        dispatched
    }

    /// What was done before a source was inserted comes before the events that name it. The system sees to
    /// that, since `epoll_ctl` comes before them; this says so to the memory model, which does not know.
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
    /// Takes `source` from the live ones; `live` is told how many are left.
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

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("sources", &self.live.load(Relaxed))
            .field("is_shutdown", &self.is_shutdown())
            .finish_non_exhaustive()
    }
}

/// The right to poll, for as long as it lives.
pub struct Poller<'a> {
    inner: MutexGuard<'a, Inner>,
    driver: &'a Driver,
}

impl Poller<'_> {
    /// One turn: waits at most `timeout` (`None`: until unparked or an event comes), dispatches readiness,
    /// wakes tasks; other wakers go to `foreign`. Says how many events there were; zero also if a signal
    /// interrupted the wait.
    ///
    /// Rounds `timeout` up to whole milliseconds, as epoll counts; the [alarm](Self::set_alarm) is more
    /// exact. Aborts the process if epoll is broken: a runtime that cannot wait can do nothing but burn its
    /// processor or hang.
    pub fn turn(&mut self, timeout: Option<Duration>, foreign: &mut ForeignWakes) -> usize {
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

    /// Has the next turn end when the system's clock says `nanos`, to the microsecond; false if that cannot
    /// be, and its time-out has to do it. Calls the system only if the alarm is not set to that yet.
    pub fn set_alarm(&mut self, nanos: u64) -> bool {
        let Some(alarm) = &self.driver.alarm else { return false };
        let set_to = &self.driver.alarm_set_to;
        // Relaxed: the poller alone sets it. A thread that glances makes it `NOT_SET` and unparks the poller
        // then, which looks here again.
        if set_to.load(Relaxed) != nanos {
            // Before: the event that makes it `NOT_SET` may be taken at once.
            set_to.store(nanos, Relaxed);
            alarm.set(nanos);
        }
        true
    }

    /// Whether the alarm has not gone off yet, as far as any thread has seen.
    pub fn is_alarm_set(&self) -> bool {
        self.driver.alarm_set_to.load(Relaxed) != NOT_SET
    }

    /// Drops what was released before: no event that names it is in the buffer.
    fn free_released(&mut self) {
        // A thread that glances may have events that name them.
        let Some(_no_glance) = self.driver.glance.try_lock() else {
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

/// The source whose address `token` is.
///
/// # Safety
/// 1. It was registered, and is alive as long as the result.
unsafe fn source_of(token: Token) -> ManuallyDrop<Arc<Source>> {
    let source = std::ptr::with_exposed_provenance::<Source>(token.0);
    // SAFETY: (1); the address was exposed when it was registered, and comes from an `Arc`, whose count is
    // left alone.
    ManuallyDrop::new(unsafe { Arc::from_raw(source) })
}

/// Adds to a counter that only the caller writes.
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed) + n, Relaxed);
}

/// What an operation on a source fails with once the driver has been shut down.
#[cold]
pub fn shut_down_error() -> io::Error {
    io::Error::other(ShutDown)
}

/// Whether `error` is [`shut_down_error`], or has it for its source.
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
