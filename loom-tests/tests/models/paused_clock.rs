//! A paused clock: it does not pass a task that a blocking closure has woken.
//!
//! Real: the driver, its clock, and the parker. The queue of tasks is one flag, relaxed, so that only the
//! clock's counter makes it visible. The model is the sleep of the driving thread against the end of a
//! closure. The twin is the same model, where the driving thread relies on a look that came too early.
//!
//! Bounds: one timer, one closure, one sleep after the other until the driving thread sees the wake.

use std::sync::Arc;
use std::task::Waker;

use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::Relaxed;
use runtime::internals::driver::{Driver, ForeignWakes, IoDriver, TimeDriver, TimerEntry};
use runtime::internals::scheduler::Parker;

use super::once_built::{model, thread};

const MILLISECOND: u64 = 1_000_000;

#[derive(Default)]
struct World {
    parker: Parker,
    /// A task was woken. Stands for `Shared::has_visible_tasks`.
    is_woken: AtomicBool,
}

/// `sleep_with_paused_clock` against the end of a closure. `looks_last`: the driving thread looks for work
/// after it has read the counter, as it should.
fn a_closure_ends(looks_last: bool) {
    model(move || {
        let driver = Driver::new(Some(IoDriver::new(1, None).unwrap()), Some(TimeDriver::new(2, true)));
        let world = Arc::new((World::default(), driver));
        let (World { parker, is_woken }, driver) = &*world;
        let time = driver.time().expect("the model has time");
        parker.adopt_current_thread();
        let timer = Box::new(TimerEntry::new());
        // SAFETY: (1) a new entry, which this thread owns. (2) It stays in its box until it is cancelled
        // below.
        unsafe { time.register(&timer, time.shard(0), MILLISECOND, Waker::noop().clone()) }.unwrap();
        time.inhibit_auto_advance();
        let closure = thread::spawn({
            let world = world.clone();
            move || {
                let (World { parker, is_woken }, driver) = &*world;
                // AdvanceWork, and the unpark of a thread that wakes.
                is_woken.store(true, Relaxed);
                parker.unpark(driver);
                // AdvanceAllow, as `end` of `blocking/threads.rs`.
                driver.time().expect("the model has time").allow_auto_advance();
                driver.unpark();
            }
        });
        let mut is_needed = false;
        while !is_needed && time.now() == 0 {
            let looks = || if looks_last { is_woken.load(Relaxed) } else { is_needed };
            let mut poller = driver.try_become_poller(0).expect("no other thread polls");
            if !driver.auto_advance(looks) {
                parker.park_in_driver(|| poller.wait(&ForeignWakes::new(), looks));
            }
            is_needed = is_woken.load(Relaxed);
        }
        closure.join().unwrap();
        // SAFETY: this thread owns the entry, and registered it in this wheel.
        drop(unsafe { time.shard(0).cancel(&timer) });
        assert_eq!(time.now(), 0, "time has passed a task that was woken");
    });
}

#[test]
fn a_paused_clock_does_not_pass_a_task_that_a_closure_woke() {
    a_closure_ends(true);
}

/// The twin: the look for work comes before the look at the counter.
#[test]
#[should_panic(expected = "time has passed a task that was woken")]
fn twin_a_look_for_work_before_the_look_at_the_counter() {
    a_closure_ends(false);
}
