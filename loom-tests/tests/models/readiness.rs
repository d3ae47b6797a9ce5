//! The readiness word of a source: events, tasks that wait in a slot or in the list, shutdown, the end of a
//! source.
//!
//! A lost wake-up would be a deadlock, which loom reports by aborting. So no thread blocks here. At the end,
//! when all threads have been joined, each sleeping task must have nothing to do, or must have been woken
//! since it fell asleep.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc as StdArc;
use std::sync::atomic::AtomicUsize as StdAtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use runtime::internals::driver::ForeignWakes;
use runtime::internals::io::{
    Arm, Direction, Finish, Hold, Readiness, Ready, ReadyEvent, Retracted, Source, SourceKind,
};

use super::once_built::{self, thread};
use super::plain::Plain;

/// Counts wakes, unseen by loom. It is read only when all threads have been joined, or by the thread that is
/// woken.
#[derive(Default)]
struct Counter(StdAtomicUsize);

impl Wake for Counter {
    fn wake(self: StdArc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// A task that reads. It polls until it finds nothing, but at most `polls` times.
struct Reader {
    counter: StdArc<Counter>,
    /// The number of wakes before the poll that answered `Pending`.
    asleep_since: Option<usize>,
}

impl Reader {
    fn new() -> Self {
        Self { counter: StdArc::default(), asleep_since: None }
    }

    fn waker(&self) -> Waker {
        Waker::from(self.counter.clone())
    }

    fn run(
        &mut self,
        polls: usize,
        source: &Source,
        bytes: &AtomicBool,
        clear: impl Fn(&Source, ReadyEvent),
    ) {
        let waker = self.waker();
        self.asleep_since = None;
        for _ in 0..polls {
            let wakes = self.counter.0.load(Relaxed);
            match source.poll_ready(&mut Context::from_waker(&waker), Direction::Read) {
                Poll::Ready(event) => {
                    // Acquire-release, as the kernel's lock.
                    if !bytes.swap(false, SeqCst) {
                        clear(source, event);
                    }
                }
                Poll::Pending => {
                    self.asleep_since = Some(wakes);
                    return;
                }
            }
        }
    }

    /// Whether it sleeps and no thread has woken it.
    fn is_asleep(&self) -> bool {
        self.asleep_since.is_some_and(|since| self.counter.0.load(Relaxed) == since)
    }
}

fn source() -> Arc<Source> {
    Arc::new(Source::new(0, Ready::EMPTY))
}

/// Explores with three preemptions at least. With two, no schedule shows the event that the twin without a
/// tick loses.
fn model(f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.map_or(3, |bound| bound.max(3)));
    builder.check(f);
}

/// Two events against a task that reads, clears and waits again.
fn no_event_is_lost(clear: impl Fn(&Source, ReadyEvent) + Copy + Send + Sync + 'static) {
    no_event_of_kind_is_lost(SourceKind::Stream, Ready::READABLE, clear);
}

/// A turn of the driver, which wakes foreign wakers at its end.
fn dispatch(source: &Arc<Source>, ready: Ready) {
    let foreign = ForeignWakes::new();
    Source::dispatch(source, ready, &foreign);
    foreign.wake_all();
}

fn shut_down(source: &Arc<Source>) {
    let foreign = ForeignWakes::new();
    Source::shut_down(source, &foreign);
    foreign.wake_all();
}

/// As [`no_event_is_lost`], on a source of some kind, where the events say `flag`.
fn no_event_of_kind_is_lost(
    kind: SourceKind,
    flag: Ready,
    clear: impl Fn(&Source, ReadyEvent) + Copy + Send + Sync + 'static,
) {
    let mut builder = loom::model::Builder::new();
    // With two preemptions loom does not reach the twin's schedule.
    builder.preemption_bound = builder.preemption_bound.map(|bound| bound.max(3));
    builder.check(move || {
        // As for a stream that was accepted, the first operation is tried without an event.
        let source = Arc::new(Source::new(0, flag).of_kind(kind));
        let bytes = Arc::new(AtomicBool::new(false));
        let poller = {
            let (source, bytes) = (source.clone(), bytes.clone());
            thread::spawn(move || {
                for _ in 0..2 {
                    bytes.store(true, SeqCst);
                    dispatch(&source, flag);
                }
            })
        };
        let mut reader = Reader::new();
        reader.run(6, &source, &bytes, clear);
        poller.join().unwrap();
        assert!(!(reader.is_asleep() && bytes.load(SeqCst)), "asleep, with bytes to read");
    });
}

#[test]
fn a_task_in_a_slot_misses_no_event() {
    no_event_is_lost(|source, event| source.clear(event));
}

/// A FIFO whose writers come and go. `bytes` stands for "there is no writer", which a reader takes for the
/// end of the stream. A reader that finds a writer clears the flag.
#[test]
fn a_task_at_a_pipe_misses_no_close() {
    no_event_of_kind_is_lost(SourceKind::Pipe, Ready::READ_CLOSED, |source, event| {
        assert_eq!(source.retract(event, Ready::READABLE), Retracted::Cleared, "nothing is closed for good");
    });
}

/// The twin: the task clears the present flags, not those on which the operation relied.
#[test]
#[should_panic(expected = "asleep, with bytes to read")]
fn twin_a_close_is_lost_if_it_is_cleared_without_its_tick() {
    no_event_of_kind_is_lost(SourceKind::Pipe, Ready::READ_CLOSED, |source, _| {
        if let Some(now) = source.event(Ready::READ_CLOSED) {
            source.retract(now, Ready::READABLE);
        }
    });
}

/// The twin: the task clears the present flags, not those on which the operation relied.
#[test]
#[should_panic(expected = "asleep, with bytes to read")]
fn twin_a_clear_without_its_tick_loses_an_event() {
    no_event_is_lost(|source, _| {
        if let Some(now) = source.event(Ready::READABLE) {
            source.clear(now);
        }
    });
}

/// Two tasks in one slot, and an event. One writer at a time accesses the wakers (loom watches the cells),
/// and at least one of the tasks is woken.
#[test]
fn two_tasks_in_one_slot_do_not_both_sleep_on() {
    model(|| {
        let (source, bytes) = (source(), Arc::new(AtomicBool::new(false)));
        let mut first = Reader::new();
        let threads = [
            {
                let (source, bytes) = (source.clone(), bytes.clone());
                thread::spawn(move || {
                    let mut second = Reader::new();
                    second.run(1, &source, &bytes, Source::clear);
                    second
                })
            },
            {
                let (source, bytes) = (source.clone(), bytes.clone());
                thread::spawn(move || {
                    bytes.store(true, SeqCst);
                    dispatch(&source, Ready::READABLE);
                    Reader::new()
                })
            },
        ];
        first.run(1, &source, &bytes, Source::clear);
        let [second, _] = threads.map(|thread| thread.join().unwrap());
        if bytes.load(SeqCst) {
            assert!(!(first.is_asleep() && second.is_asleep()), "both asleep, with bytes to read");
        }
        let wakers = [first.counter, second.counter];
        source.detach();
        assert!(wakers.iter().all(|counter| StdArc::strong_count(counter) == 1), "a waker is left");
    });
}

/// A task sleeps in the slot. Another task comes while an event is waking the first. It must not overwrite
/// the waker in use (loom watches the cells), and it must be woken.
#[test]
fn a_stranger_does_not_overwrite_a_waker_in_use() {
    model(|| {
        let (source, bytes) = (source(), Arc::new(AtomicBool::new(false)));
        let (mut first, mut stranger) = (Reader::new(), Reader::new());
        first.run(1, &source, &bytes, Source::clear);
        let poller = {
            let (source, bytes) = (source.clone(), bytes.clone());
            thread::spawn(move || {
                dispatch(&source, Ready::READABLE);
                bytes.store(true, SeqCst);
                dispatch(&source, Ready::READABLE);
            })
        };
        stranger.run(3, &source, &bytes, Source::clear);
        poller.join().unwrap();
        assert!(!(stranger.is_asleep() && bytes.load(SeqCst)), "asleep, with bytes to read");
        source.detach();
        assert_eq!(StdArc::strong_count(&first.counter), 1);
        assert_eq!(StdArc::strong_count(&stranger.counter), 1);
    });
}

/// An event and the shutdown against a task that comes back while it is being woken. The thread that wakes
/// first also wakes for the other.
#[test]
fn shutdown_is_seen_by_a_task_that_is_being_woken() {
    model(|| {
        let (source, bytes) = (source(), Arc::new(AtomicBool::new(false)));
        let mut reader = Reader::new();
        reader.run(1, &source, &bytes, Source::clear);
        assert!(reader.is_asleep());
        let threads = [
            {
                let source = source.clone();
                thread::spawn(move || dispatch(&source, Ready::READABLE))
            },
            {
                let source = source.clone();
                thread::spawn(move || shut_down(&source))
            },
        ];
        reader.run(3, &source, &bytes, Source::clear);
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(!reader.is_asleep(), "asleep in a runtime that was shut down");
        assert_eq!(StdArc::strong_count(&reader.counter), 1, "a waker that is never used is left");
        source.detach();
    });
}

/// The shutdown against a task with a waker of its own, and an event. The waker in the slot is dropped once,
/// and never while another thread reads it.
#[test]
fn the_shutdown_leaves_no_waker_in_a_slot() {
    model(|| {
        let (source, bytes) = (source(), Arc::new(AtomicBool::new(false)));
        let (mut first, mut stranger) = (Reader::new(), Reader::new());
        first.run(1, &source, &bytes, Source::clear);
        let threads = [
            {
                let source = source.clone();
                thread::spawn(move || dispatch(&source, Ready::READABLE))
            },
            {
                let source = source.clone();
                thread::spawn(move || shut_down(&source))
            },
        ];
        stranger.run(3, &source, &bytes, Source::clear);
        for thread in threads {
            thread.join().unwrap();
        }
        // The first task may sleep on, if the stranger took its place.
        assert!(!stranger.is_asleep(), "asleep in a runtime that was shut down");
        let counters = [first.counter, stranger.counter];
        assert!(counters.iter().all(|counter| StdArc::strong_count(counter) == 1), "a waker is left");
    });
}

/// The end of a source against an event and the shutdown, which are waking, and a task that has come back
/// meanwhile. One of them drops the waker, once, and never while another reads it.
#[test]
fn the_end_of_a_source_drops_its_wakers() {
    model(|| {
        let (source, bytes) = (source(), Arc::new(AtomicBool::new(false)));
        let mut reader = Reader::new();
        reader.run(1, &source, &bytes, Source::clear);
        let threads = [
            {
                let source = source.clone();
                thread::spawn(move || dispatch(&source, Ready::READABLE))
            },
            {
                let source = source.clone();
                thread::spawn(move || shut_down(&source))
            },
        ];
        reader.run(2, &source, &bytes, Source::clear);
        source.detach();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(StdArc::strong_count(&reader.counter), 1, "the waker is gone with the source");
    });
}

/// A task in the list and one in the slot against an event; then the one in the list goes away.
#[test]
fn a_task_in_the_list_misses_no_event() {
    model(|| {
        let source = source();
        let poller = {
            let source = source.clone();
            thread::spawn(move || dispatch(&source, Ready::READABLE))
        };
        let other = {
            let source = source.clone();
            thread::spawn(move || {
                let reader = Reader::new();
                let mut wait = pin!(source.ready(Ready::WRITABLE));
                assert!(wait.as_mut().poll(&mut Context::from_waker(&reader.waker())).is_pending());
            })
        };
        let reader = Reader::new();
        {
            let mut wait = pin!(source.ready(Ready::READABLE));
            let is_pending = wait.as_mut().poll(&mut Context::from_waker(&reader.waker())).is_pending();
            poller.join().unwrap();
            let is_woken = reader.counter.0.load(Relaxed) == 1;
            assert!(!is_pending || is_woken, "asleep, with bytes to read");
        }
        other.join().unwrap();
        assert_eq!(StdArc::strong_count(&reader.counter), 1);
    });
}

/// A copy of the list's waiter. An event takes the waker and clears `is_linked`. The task then frees the
/// waiter without the lock. The twin breaks the rule `clears_last`.
fn a_waiter_is_freed_by_its_task(clears_last: bool) {
    once_built::model(move || {
        struct Waiter {
            waker: Plain<Option<u32>>,
            is_linked: AtomicBool,
        }
        let waiter = Arc::new(Waiter {
            waker: Plain::new("the waiter's waker", Some(7)),
            is_linked: AtomicBool::new(true),
        });
        let event = {
            let waiter = waiter.clone();
            thread::spawn(move || {
                let take = || {
                    // SAFETY: loom checks that no other thread accesses it meanwhile.
                    waiter.waker.with_mut(|waker| unsafe { (*waker).take() })
                };
                if clears_last {
                    take();
                    waiter.is_linked.store(false, Release);
                } else {
                    waiter.is_linked.store(false, Release);
                    take();
                }
            })
        };
        if !waiter.is_linked.load(Acquire) {
            // SAFETY: as above.
            waiter.waker.with_mut(|waker| assert!(unsafe { (*waker).is_none() }));
        }
        event.join().unwrap();
    });
}

#[test]
fn a_waiter_out_of_the_list_belongs_to_its_task() {
    a_waiter_is_freed_by_its_task(true);
}

/// The twin: the event clears `is_linked` before it takes the waker.
#[test]
#[should_panic(expected = "data race on the waiter's waker")]
fn twin_a_waiter_touched_after_it_was_unlinked() {
    a_waiter_is_freed_by_its_task(false);
}

/// A small copy of a slot. The thread that holds it writes it, and the thread that wakes reads it. The twin
/// breaks the rule `minds_waking`.
fn a_slot_has_one_writer(minds_waking: bool) {
    model(move || {
        let readiness = Arc::new(Readiness::new(Ready::EMPTY));
        let slot = Arc::new(Plain::new("the readable slot", 0));
        let write = move |readiness: &Readiness, slot: &Plain<i32>| {
            let Hold::Held { is_waking } = readiness.hold(Direction::Read) else { return };
            if is_waking && minds_waking {
                readiness.release(Direction::Read);
                return;
            }
            // SAFETY: the model checks this access.
            slot.with_mut(|slot| unsafe { *slot += 1 });
            readiness.arm(Direction::Read);
        };
        write(&readiness, &slot);
        let poller = {
            let (readiness, slot) = (readiness.clone(), slot.clone());
            thread::spawn(move || {
                if readiness.add(Ready::READABLE).slot(Direction::Read) {
                    // SAFETY: the model checks this access.
                    slot.with(|slot| assert_ne!(unsafe { *slot }, 0));
                    readiness.finish_wake(Direction::Read);
                }
            })
        };
        let event = loop {
            match readiness.event(Direction::Read.mask()) {
                Some(event) => break event,
                None => thread::yield_now(),
            }
        };
        readiness.clear(event);
        write(&readiness, &slot);
        poller.join().unwrap();
    });
}

#[test]
fn a_slot_is_written_by_nobody_while_it_is_read() {
    a_slot_has_one_writer(true);
}

/// The twin: a task with another waker writes the slot although an event is waking from it.
#[test]
#[should_panic(expected = "data race on the readable slot")]
fn twin_a_slot_written_while_an_event_is_waking() {
    a_slot_has_one_writer(false);
}

/// A small copy of a slot, at the shutdown. The last thread that has the slot empties it, once. The twin
/// breaks the rule `minds_others`.
fn a_slot_is_emptied_by_the_last(minds_others: bool) {
    model(move || {
        let readiness = Arc::new(Readiness::new(Ready::EMPTY));
        let slot = Arc::new(Plain::new("the held slot", 0));
        // SAFETY: the model checks this access.
        let empty = |slot: &Plain<i32>| slot.with_mut(|slot| unsafe { *slot += 1 });
        let holder = {
            let (readiness, slot) = (readiness.clone(), slot.clone());
            thread::spawn(move || {
                if let Hold::Held { .. } = readiness.hold(Direction::Read) {
                    // SAFETY: the model checks this access.
                    slot.with(|slot| _ = unsafe { *slot });
                    if let Arm::Last(_) = readiness.arm(Direction::Read) {
                        empty(&slot);
                    }
                }
            })
        };
        let is_taken = readiness.shut_down().slot(Direction::Read);
        if !minds_others || is_taken && readiness.finish_wake(Direction::Read) == Finish::Last {
            empty(&slot);
        }
        holder.join().unwrap();
        // SAFETY: the other thread has been joined.
        assert_eq!(slot.with(|slot| unsafe { *slot }), 1, "emptied once");
    });
}

#[test]
fn a_slot_is_emptied_by_nobody_while_it_is_held() {
    a_slot_is_emptied_by_the_last(true);
}

/// The twin: the shutdown empties a slot that a task holds.
#[test]
#[should_panic(expected = "data race on the held slot")]
fn twin_a_slot_emptied_while_it_is_held() {
    a_slot_is_emptied_by_the_last(false);
}
