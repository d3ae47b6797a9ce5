//! The driver without a runtime above it: threads that poll, sources that are pairs of sockets, wakers that
//! count.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Barrier, Weak, mpsc};

use parking_lot::Mutex;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use mio::net::UnixStream;

use super::*;

mod alarm;
mod nonblocking;
mod waiters;

const DEADLINE: Duration = Duration::from_secs(10);

/// Counts wakes; `Arc::strong_count` counts its clones.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Counter {
    fn new() -> (Arc<Self>, Waker) {
        let counter = Arc::new(Self::default());
        (counter.clone(), Waker::from(counter))
    }

    fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

/// Calls a closure when woken.
struct Call<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for Call<F> {
    fn wake(self: Arc<Self>) {
        self.0();
    }
}

fn on_wake(f: impl Fn() + Send + Sync + 'static) -> Waker {
    Waker::from(Arc::new(Call(f)))
}

fn driver() -> Arc<IoDriver> {
    Arc::new(IoDriver::new(64, None).unwrap())
}

/// Does one turn, and the wakes that it leaves to its caller.
fn turn_for(poller: &mut Poller<'_>, timeout: Option<Duration>) -> usize {
    let foreign = ForeignWakes::new();
    let events = poller.turn(timeout, &foreign);
    foreign.wake_all();
    events
}

fn poll_nonblocking(driver: &IoDriver) {
    let foreign = ForeignWakes::new();
    driver.poll_nonblocking(&foreign);
    foreign.wake_all();
}

fn dispatch(source: &super::Arc<Source>, ready: Ready) {
    let foreign = ForeignWakes::new();
    Source::dispatch(source, ready, &foreign);
    foreign.wake_all();
}

fn turn(driver: &IoDriver) -> usize {
    turn_for(&mut driver.try_poller().expect("no other thread polls"), Some(Duration::ZERO))
}

/// One registered end of a pair, and the other end.
fn pair(driver: &IoDriver) -> (UnixStream, super::Arc<Source>, UnixStream) {
    let (mut near, far) = UnixStream::pair().unwrap();
    let source = driver.register(&mut near, Interest::READABLE, Source::new(0, Ready::EMPTY)).unwrap();
    (near, source, far)
}

fn poll_read(source: &Source, waker: &Waker) -> Poll<ReadyEvent> {
    source.poll_ready(&mut Context::from_waker(waker), Direction::Read)
}

#[test]
fn a_turn_that_does_not_wait_takes_no_more_events_than_it_may() {
    let driver = Arc::new(IoDriver::new(64, Some(2)).unwrap());
    let mut pairs: Vec<_> = (0..9).map(|_| pair(&driver)).collect();
    pairs.iter_mut().for_each(|(_, _, far)| far.write_all(b"x").unwrap());
    assert_eq!(turn(&driver), 2);
    let ready = || pairs.iter().filter(|(_, source, _)| poll_read(source, Waker::noop()).is_ready()).count();
    assert_eq!(ready(), 2);
    poll_nonblocking(&driver);
    assert_eq!(ready(), 4);
    assert_eq!(turn_for(&mut driver.try_poller().unwrap(), None), 5);
    assert_eq!(ready(), 9);
}

/// Polls in a thread of its own until told to stop.
struct PollingThread {
    driver: Arc<IoDriver>,
    stop: mpsc::Sender<()>,
    thread: thread::JoinHandle<usize>,
}

impl PollingThread {
    fn start(driver: &Arc<IoDriver>) -> Self {
        let (stop, stopped) = mpsc::channel();
        let polled = driver.clone();
        let thread = thread::spawn(move || {
            let mut events = 0;
            while stopped.try_recv().is_err() {
                // A test that looks whether this thread sleeps may itself be the poller for a moment.
                if let Some(mut poller) = polled.try_poller() {
                    events += turn_for(&mut poller, None);
                }
            }
            events
        });
        Self { driver: driver.clone(), stop, thread }
    }

    fn stop(self) -> usize {
        self.stop.send(()).unwrap();
        self.driver.unpark();
        self.thread.join().unwrap()
    }
}

#[track_caller]
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + DEADLINE;
    while !is_so() {
        assert!(std::time::Instant::now() < deadline, "still not: {what}");
        thread::yield_now();
    }
}

#[test]
fn unpark_ends_a_sleep_that_has_begun_and_one_that_has_not() {
    let driver = driver();
    for _ in 0..100 {
        driver.unpark();
        assert_eq!(turn_for(&mut driver.try_poller().unwrap(), None), 0);
    }
    let polling = PollingThread::start(&driver);
    eventually("asleep", || driver.try_poller().is_none());
    assert_eq!(polling.stop(), 0);
}

#[test]
fn an_event_wakes_the_task_that_waits_for_it_while_the_poller_sleeps() {
    let driver = driver();
    let polling = PollingThread::start(&driver);
    let (mut near, source, mut far) = pair(&driver);
    for round in 0..100 {
        far.write_all(b"x").unwrap();
        loop {
            let event = wait(&source, round % 2 == 0);
            match near.read(&mut [0; 8]) {
                Ok(n) => break assert_eq!(n, 1),
                Err(_) => source.clear(event),
            }
        }
    }
    driver.deregister(&source, &mut near).unwrap();
    assert!(polling.stop() > 0);
    assert!(driver.turns() > 0 && driver.events() > 0);
}

#[test]
fn a_late_clear_does_not_lose_the_event_in_between() {
    let source = super::Arc::new(Source::new(0, Ready::EMPTY));
    dispatch(&source, Ready::READABLE);
    let event = source.event(Ready::READABLE).unwrap();
    dispatch(&source, Ready::READABLE);
    source.clear(event);
    assert!(source.event(Ready::READABLE).is_some(), "the second event");
    let event = source.event(Ready::READABLE).unwrap();
    source.clear(event);
    assert!(source.event(Ready::READABLE).is_none());
}

#[test]
fn a_clear_leaves_the_other_direction_and_closed_ones() {
    let source = super::Arc::new(Source::new(0, Ready::EMPTY));
    dispatch(&source, Ready::READABLE | Ready::WRITABLE | Ready::READ_CLOSED);
    source.clear(source.event(Direction::Read.mask()).unwrap());
    let event = source.event(Ready::ALL).unwrap();
    assert_eq!(event.ready, Ready::WRITABLE | Ready::READ_CLOSED);
}

#[test]
fn a_waker_stays_for_the_next_wait_and_goes_with_the_source() {
    let source = super::Arc::new(Source::new(0, Ready::EMPTY));
    let (counter, waker) = Counter::new();
    for round in 1..=3 {
        assert!(poll_read(&source, &waker).is_pending());
        assert!(poll_read(&source, &waker).is_pending(), "a poll without reason");
        assert_eq!(Arc::strong_count(&counter), 3, "us, the waker, its one copy");
        dispatch(&source, Ready::READABLE);
        dispatch(&source, Ready::READABLE);
        assert_eq!(counter.count(), round, "one wake a wait");
        source.clear(source.event(Ready::READABLE).unwrap());
    }
    let (other, other_waker) = Counter::new();
    assert!(poll_read(&source, &other_waker).is_pending());
    assert_eq!((Arc::strong_count(&counter), Arc::strong_count(&other)), (2, 3), "replaced");
    source.detach();
    assert_eq!(Arc::strong_count(&other), 2);
    dispatch(&source, Ready::READABLE);
    {
        let foreign = ForeignWakes::new();
        Source::shut_down(&source, &foreign);
        foreign.wake_all();
    }
    assert_eq!(other.count(), 0, "a source that is gone wakes no task");
}

/// A waker may poll, or cause another event, in the middle of being woken.
#[test]
fn a_waker_may_come_back_to_the_source_that_wakes_it() {
    let source = Arc::new(Source::new(0, Ready::EMPTY));
    let stored: Arc<Mutex<Option<Waker>>> = Arc::default();
    let count = Arc::new(AtomicUsize::new(0));
    let waker = on_wake({
        let (source, stored, count) = (source.clone(), stored.clone(), count.clone());
        move || {
            let waker = stored.lock().clone().unwrap();
            if count.fetch_add(1, SeqCst) < 3 {
                source.clear(source.event(Ready::READABLE).unwrap());
                assert!(poll_read(&source, &waker).is_pending(), "armed again while being woken");
                dispatch(&source, Ready::READABLE);
            }
        }
    });
    *stored.lock() = Some(waker.clone());
    assert!(poll_read(&source, &waker).is_pending());
    dispatch(&source, Ready::READABLE);
    assert_eq!(count.load(SeqCst), 4, "once by each event");
    // A task with another waker that comes in the middle of a wake must not overwrite the waker in use. It is
    // woken to come back.
    source.clear(source.event(Ready::READABLE).unwrap());
    let (stranger, stranger_waker) = Counter::new();
    let waker = on_wake({
        let source = source.clone();
        move || {
            source.clear(source.event(Ready::READABLE).unwrap());
            assert!(poll_read(&source, &stranger_waker).is_pending());
        }
    });
    assert!(poll_read(&source, &waker).is_pending());
    dispatch(&source, Ready::READABLE);
    assert_eq!(stranger.count(), 1);
    stored.lock().take();
    source.detach();
}

#[test]
fn a_panicking_waker_takes_neither_the_poller_nor_the_other_events_along() {
    let driver = driver();
    let panicking = on_wake(|| std::panic::panic_any("a waker's panic"));
    let mut sources: Vec<_> = (0..4).map(|_| pair(&driver)).collect();
    let (counter, waker) = Counter::new();
    for (i, (_, source, far)) in sources.iter_mut().enumerate() {
        let waker = if i % 2 == 0 { &panicking } else { &waker };
        assert!(poll_read(source, waker).is_pending());
        let mut listed = std::pin::pin!(source.ready(Ready::READABLE));
        assert!(listed.as_mut().poll(&mut Context::from_waker(&panicking)).is_pending());
        // This future is dropped before its first poll, so it was never in the list. `listed` leaves the list
        // at the end of this round, before the turn dispatches the event.
        drop(source.ready(Ready::READABLE));
        far.write_all(b"x").unwrap();
    }
    assert_eq!(turn(&driver), 4);
    assert_eq!(counter.count(), 2);
    let (_, source, _) = &sources[0];
    let mut bad = std::pin::pin!(source.ready(Ready::PRIORITY));
    let mut good = std::pin::pin!(source.ready(Ready::PRIORITY));
    assert!(bad.as_mut().poll(&mut Context::from_waker(&panicking)).is_pending());
    assert!(good.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    dispatch(source, Ready::PRIORITY);
    assert_eq!(counter.count(), 3);
    driver.unpark();
    assert_eq!(turn_for(&mut driver.try_poller().unwrap(), None), 0, "the poller lives");
}

/// A waker whose clone panics must not keep the slot for ever.
#[test]
fn a_waker_that_panics_when_cloned_leaves_the_slot_usable() {
    use std::task::{RawWaker, RawWakerVTable};
    static VTABLE: RawWakerVTable =
        RawWakerVTable::new(|_| panic!("a clone's panic"), |_| {}, |_| {}, |_| {});
    // SAFETY: the functions do nothing.
    let bad = unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &VTABLE)) };
    let source = super::Arc::new(Source::new(0, Ready::EMPTY));
    let (counter, waker) = Counter::new();
    assert!(poll_read(&source, &waker).is_pending());
    assert!(crate::util::unwind::catch(|| poll_read(&source, &bad)).is_err());
    assert_eq!(counter.count(), 1, "it was disarmed, so it has to look");
    assert!(poll_read(&source, &waker).is_pending());
    dispatch(&source, Ready::READABLE);
    assert_eq!(counter.count(), 2);
    source.detach();
}

/// The address of a source stays valid while an event in the poller's buffer names it. This holds although
/// its descriptor is closed by then and the number belongs to another source.
#[test]
fn an_event_for_a_source_that_is_gone_reaches_nobody_else() {
    type Parts = (UnixStream, super::Arc<Source>, UnixStream);
    let driver = driver();
    // Either source may come first in the poller's buffer. Its waker then releases the other one.
    let slots: [Arc<Mutex<Option<Parts>>>; 2] = Default::default();
    let freed: Arc<Mutex<Vec<Weak<Source>>>> = Arc::default();
    let newcomers: Arc<Mutex<Vec<Parts>>> = Arc::default();
    for me in 0..2 {
        let other = slots[1 - me].clone();
        // Weak, because the driver owns the source, and the source owns the waker.
        let (weak, freed, newcomers) = (Arc::downgrade(&driver), freed.clone(), newcomers.clone());
        let waker = on_wake(move || {
            let driver = weak.upgrade().unwrap();
            let Some((mut io, source, far)) = other.lock().take() else { return };
            let number = io.as_raw_fd();
            driver.deregister(&source, &mut io).unwrap();
            freed.lock().push(Arc::downgrade(&source));
            drop((io, source, far));
            let newcomer = pair(&driver);
            // This is likely but not certain, because other tests open descriptors at the same time.
            let _is_reused = [newcomer.0.as_raw_fd(), newcomer.2.as_raw_fd()].contains(&number);
            newcomers.lock().push(newcomer);
        });
        let (near, source, mut far) = pair(&driver);
        assert!(poll_read(&source, &waker).is_pending());
        far.write_all(b"x").unwrap();
        *slots[me].lock() = Some((near, source, far));
    }

    assert_eq!(turn(&driver), 2, "both events were in one buffer");
    let freed = freed.lock();
    assert!((1..=2).contains(&freed.len()), "its own waker may be on its way");
    assert!(freed[0].upgrade().is_some(), "not freed in the turn whose buffer named it");
    let newcomers = newcomers.lock();
    assert!(newcomers[0].1.event(Ready::ALL).is_none(), "nothing has happened to the newcomer");
    turn(&driver);
    assert!(freed[0].upgrade().is_none(), "freed by the next turn");
}

/// For a stream, the flags of an error are final. For a datagram socket, they are over with the error. A FIFO
/// may be opened again.
#[test]
fn what_an_operation_that_would_block_takes_back_depends_on_the_kind() {
    let error = Ready::ERROR | Ready::WRITABLE | Ready::WRITE_CLOSED;
    for (kind, wakes_readers, is_final) in [
        (SourceKind::Stream, false, true),
        (SourceKind::Pipe, false, false),
        (SourceKind::Datagrams, true, false),
    ] {
        let source = super::Arc::new(Source::new(0, Ready::EMPTY).of_kind(kind));
        let (counter, waker) = Counter::new();
        assert!(poll_read(&source, &waker).is_pending());
        dispatch(&source, error);
        assert_eq!(counter.count(), usize::from(wakes_readers), "{kind:?}");
        let event = source.event(Direction::Write.mask()).unwrap();
        assert!(event.ready.is_write_closed());
        let retracted = if is_final { Retracted::Stays } else { Retracted::Cleared };
        assert_eq!(source.retract(event, Direction::Write.mask()), retracted, "{kind:?}");
        assert_eq!(source.event(Direction::Write.mask()).is_some(), is_final, "{kind:?}");
        // An event that came since is not taken back.
        dispatch(&source, error);
        source.retract(event, Direction::Write.mask());
        assert!(source.event(Ready::WRITABLE).is_some());
        // Closed for reading: final, but a FIFO is closed only while it has no writer.
        dispatch(&source, Ready::READ_CLOSED);
        let event = source.event(Direction::Read.mask()).unwrap();
        let retracted = match kind {
            SourceKind::Stream => Retracted::Stays,
            SourceKind::Pipe => Retracted::Cleared,
            SourceKind::Datagrams => Retracted::Ended,
        };
        // If it may have been a send, that does not end what is received.
        let either = Direction::Read.mask() | Direction::Write.mask();
        assert_ne!(source.retract(event, either), Retracted::Ended, "{kind:?}");
        dispatch(&source, Ready::READ_CLOSED);
        let event = source.event(Direction::Read.mask()).unwrap();
        assert_eq!(source.retract(event, Direction::Read.mask()), retracted, "{kind:?}");
        let stays = kind != SourceKind::Pipe;
        assert_eq!(source.event(Ready::READ_CLOSED).is_some(), stays, "{kind:?}");
        source.detach();
    }
}

#[test]
fn urgent_data_is_remembered() {
    let source = super::Arc::new(Source::new(0, Ready::EMPTY));
    dispatch(&source, Ready::READABLE | Ready::WRITABLE);
    assert!(!source.has_urgent());
    dispatch(&source, Ready::READABLE | Ready::PRIORITY);
    source.clear(source.event(Ready::ALL).unwrap());
    assert!(source.has_urgent());
    source.detach();
}

#[test]
fn released_sources_do_not_pile_up_while_the_poller_sleeps() {
    let driver = driver();
    let release = |n| -> Vec<Weak<Source>> {
        let parts: Vec<_> = (0..n).map(|_| pair(&driver)).collect();
        let all = parts.iter().map(|(_, source, _)| Arc::downgrade(source)).collect();
        for (mut io, source, _far) in parts {
            driver.deregister(&source, &mut io).unwrap();
        }
        all
    };
    let polling = PollingThread::start(&driver);
    eventually("asleep", || driver.try_poller().is_none());
    // The poller may take some of them before it sleeps. It is woken for the next batch.
    let released = release(2 * RELEASE_BATCH);
    let left = || released.iter().filter(|source| source.upgrade().is_some()).count();
    eventually("freed by the poller", || left() < RELEASE_BATCH);
    polling.stop();
    assert!(!driver.has_sources());
}

#[test]
fn a_source_that_the_system_does_not_let_go_stays() {
    let driver = driver();
    let (mut near, source, _far) = pair(&driver);
    let (mut stranger, _) = UnixStream::pair().unwrap();
    let weak = Arc::downgrade(&source);
    let (counter, waker) = Counter::new();
    assert!(poll_read(&source, &waker).is_pending());
    assert!(driver.deregister(&source, &mut stranger).is_err());
    assert_eq!(Arc::strong_count(&counter), 2, "its waker goes nevertheless");
    drop(source);
    turn(&driver);
    assert!(weak.upgrade().is_some());
    let _ = driver.registry.deregister(&mut near);
    drop((driver, near));
    assert!(weak.upgrade().is_none(), "it goes with the driver");
}

#[test]
fn shutdown_ends_every_wait_and_refuses_new_sources() {
    let driver = driver();
    let (mut near, source, _far) = pair(&driver);
    let (slot, slot_waker) = Counter::new();
    let (list, list_waker) = Counter::new();
    assert!(poll_read(&source, &slot_waker).is_pending());
    let mut listed = Box::pin(source.ready(Ready::WRITABLE));
    assert!(listed.as_mut().poll(&mut Context::from_waker(&list_waker)).is_pending());
    {
        let foreign = ForeignWakes::new();
        driver.shutdown(&foreign);
        foreign.wake_all();
    }
    assert!(driver.is_shutdown());
    assert_eq!((slot.count(), list.count()), (1, 1));
    assert_eq!(Arc::strong_count(&slot), 2, "the slot has no waker any more: ours and this");
    let Poll::Ready(event) = poll_read(&source, &slot_waker) else { panic!("must not wait any more") };
    assert!(event.is_shutdown);
    source.clear(event);
    assert!(poll_read(&source, &slot_waker).is_ready(), "for ever");
    assert!(listed.as_mut().poll(&mut Context::from_waker(&list_waker)).is_ready());
    drop(listed);

    let (mut late, _far) = UnixStream::pair().unwrap();
    let error = driver.register(&mut late, Interest::READABLE, Source::new(0, Ready::EMPTY)).unwrap_err();
    assert!(error.to_string().contains("shut down"), "{error}");
    driver.deregister(&source, &mut near).unwrap();
}

#[test]
fn a_signal_only_interrupts_a_turn() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: all zero is a valid `sigaction`, with neither flags nor mask. The handler does nothing, and no
    // other test of this binary uses the signal.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
    let driver = driver();
    let (number, tell) = mpsc::channel();
    let (done, is_done) = mpsc::channel();
    let polled = driver.clone();
    let thread = thread::spawn(move || {
        // SAFETY: this call has no precondition.
        number.send(unsafe { libc::pthread_self() }).unwrap();
        done.send(turn_for(&mut polled.try_poller().unwrap(), None)).unwrap();
    });
    let polling_thread = tell.recv().unwrap();
    let mut sent = 0;
    eventually("interrupted", || {
        sent += 1;
        // SAFETY: `pthread_kill` needs the number of a thread that was not joined. The join comes below.
        unsafe { libc::pthread_kill(polling_thread, libc::SIGUSR1) };
        match is_done.recv_timeout(Duration::from_millis(1)) {
            Ok(events) => events == 0,
            Err(_) => false,
        }
    });
    thread.join().unwrap();
}

/// Rounds of "event, wake, clear, wait again". Events and clears are as close together as two threads get
/// them. A lost event stops the rounds.
#[test]
fn no_event_is_lost_between_threads() {
    const ROUNDS: usize = 20_000;
    let source = Arc::new(Source::new(0, Ready::EMPTY));
    // What the kernel would know: the number of bytes to read.
    let bytes = Arc::new(AtomicUsize::new(0));
    let start = Arc::new(Barrier::new(2));
    let poller = {
        let (source, bytes, start) = (source.clone(), bytes.clone(), start.clone());
        thread::spawn(move || {
            start.wait();
            for round in 0..ROUNDS {
                bytes.fetch_add(1, SeqCst);
                dispatch(&source, Ready::READABLE);
                if round % 64 == 0 {
                    eventually("read", || bytes.load(SeqCst) == 0);
                }
            }
        })
    };
    start.wait();
    let mut read = 0;
    while read < ROUNDS {
        let in_list = read % 2 == 0;
        let event = wait(&source, in_list);
        match bytes.swap(0, SeqCst) {
            0 => source.clear(event),
            n => read += n,
        }
    }
    poller.join().unwrap();
    source.detach();
}

fn wait(source: &Source, in_list: bool) -> ReadyEvent {
    let me = thread::current();
    let woken = Arc::new(AtomicUsize::new(0));
    let waker = on_wake({
        let woken = woken.clone();
        move || {
            woken.fetch_add(1, SeqCst);
            me.unpark();
        }
    });
    let mut listed = std::pin::pin!(source.ready(Ready::READABLE));
    loop {
        let cx = &mut Context::from_waker(&waker);
        let poll = if in_list { listed.as_mut().poll(cx) } else { source.poll_ready(cx, Direction::Read) };
        if let Poll::Ready(event) = poll {
            return event;
        }
        let deadline = std::time::Instant::now() + DEADLINE;
        while woken.swap(0, SeqCst) == 0 {
            assert!(std::time::Instant::now() < deadline, "an event was lost");
            thread::park_timeout(DEADLINE);
        }
    }
}
