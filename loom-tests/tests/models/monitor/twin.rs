//! A copy of `RestShow` to `RestSleep` and `AwakeShow` to `AwakeWakes`, with at most one bug.

use std::sync::Arc;

use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, fence};

use crate::models::once_built::{model, thread};

/// The bug that was put back.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// No `RestFence`.
    RestsWithoutFence,
    /// `RestLooks` before `RestShow`.
    LooksBeforeItRests,
    /// No `AwakeFence`.
    WakesWithoutFence,
    /// `AwakeWakes` before `AwakeShow`.
    TellsBeforeItCounts,
    /// A worker whose sleep is called off at SleepLook does not do `AwakeWakes`.
    CallsOffQuietly,
    /// `RestLooks` asks the number of sleepers, which a notifier leaves last.
    AsksTheNumber,
    /// A worker that blocks no more does not do `AwakeWakes`.
    ReturnsQuietly,
    /// A worker that blocks no more does `AwakeWakes` before `SayBack`.
    TellsBeforeItReturns,
    /// `RestLooks` only reads whether a worker blocks.
    ReadsWhichBlocks,
    /// `SayBack` is no acquire.
    ReturnsRelaxed,
    /// The thread that takes back the last mark writes the number without reading it.
    UnmarksByStore,
    /// A worker that blocks leaves the driver and does not do `AwakeFence` and `AwakeWakes`.
    LeavesDriverQuietly,
    /// A worker that blocks leaves the driver without `AwakeFence`.
    LeavesDriverWithoutFence,
    /// A worker that blocks does `AwakeFence` and `AwakeWakes` before it leaves the driver.
    TellsBeforeItLeaves,
}

/// How the worker comes to be awake.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// By itself, from its sleep.
    Woken,
    /// The worker finds something at SleepLook.
    CalledOff,
    /// As `CalledOff`, while another thread notifies the worker.
    Notified,
    /// From a call that blocks.
    Returned,
    /// The worker was marked, and another thread takes the mark back.
    Unmarked,
    /// The worker goes on blocking, but leaves the driver, where it slept for a latch.
    LeavesDriver,
}

struct World {
    /// The worker's bit, and the number in the word once the searchers have left it.
    is_shown: AtomicBool,
    sleepers: AtomicUsize,
    /// Not 0: the worker is in a call that blocks.
    blocked_state: AtomicU32,
    /// Not 0: it is marked.
    marks: AtomicU32,
    /// A worker is the poller.
    is_driven: AtomicBool,
    is_resting: AtomicBool,
    /// The monitor's token.
    is_unparked: AtomicBool,
    fault: Fault,
}

impl World {
    fn is_blocked(&self) -> bool {
        self.blocked_state.fetch_add(0, AcqRel) != 0 || self.marks.fetch_add(0, AcqRel) != 0
    }

    fn all_asleep(&self) -> bool {
        match self.fault {
            Fault::AsksTheNumber => self.sleepers.load(Relaxed) == 1,
            Fault::ReadsWhichBlocks => self.is_shown.load(Relaxed) || self.blocked_state.load(Acquire) != 0,
            _ => self.is_shown.load(Relaxed) || self.is_blocked() && self.is_driven.load(Relaxed),
        }
    }

    /// Returns whether the monitor is at rest, until another thread unparks it.
    fn rest(&self) -> bool {
        if self.fault == Fault::LooksBeforeItRests {
            let all_asleep = self.all_asleep();
            self.is_resting.store(true, Relaxed);
            fence(SeqCst);
            return all_asleep;
        }
        self.is_resting.store(true, Relaxed);
        if self.fault != Fault::RestsWithoutFence {
            fence(SeqCst);
        }
        let all_asleep = self.all_asleep();
        if !all_asleep {
            self.is_resting.store(false, Relaxed);
        }
        all_asleep
    }

    /// CountSleeper, ShowSleeper.
    fn lie_down(&self) {
        self.sleepers.fetch_add(1, SeqCst);
        self.is_shown.swap(true, AcqRel);
    }

    /// `AwakeShow`, or ClearSleeper and UnparkSleeper of a notifier.
    fn count_out(&self) {
        if self.is_shown.swap(false, AcqRel) {
            self.sleepers.fetch_sub(1, SeqCst);
        }
    }

    /// `AwakeFence`, `AwakeWakes`.
    fn tell(&self) {
        if self.fault != Fault::WakesWithoutFence {
            fence(SeqCst);
        }
        self.tell_at_once();
    }

    /// `AwakeWakes`.
    fn tell_at_once(&self) {
        if self.is_resting.load(Relaxed) && self.is_resting.swap(false, Relaxed) {
            self.is_unparked.swap(true, AcqRel);
        }
    }

    /// `SayBlocked`, `SayBack`, `AwakeWakes`.
    fn block(&self) {
        self.blocked_state.swap(1, SeqCst);
        if self.fault == Fault::TellsBeforeItReturns {
            self.tell_at_once();
        }
        self.blocked_state.swap(0, if self.fault == Fault::ReturnsRelaxed { Relaxed } else { AcqRel });
        if !matches!(self.fault, Fault::ReturnsQuietly | Fault::TellsBeforeItReturns) {
            self.tell_at_once();
        }
    }

    /// Another thread takes the mark back; `AwakeWakes`.
    fn unmark(&self) {
        if self.fault == Fault::UnmarksByStore {
            self.marks.store(0, Release);
        } else {
            self.marks.fetch_sub(1, AcqRel);
        }
        self.tell_at_once();
    }

    /// The end of a sleep in the driver, inside of a call that blocks.
    fn leave_driver(&self) {
        if self.fault == Fault::TellsBeforeItLeaves {
            self.tell();
        }
        self.is_driven.store(false, Relaxed);
        match self.fault {
            Fault::LeavesDriverQuietly | Fault::TellsBeforeItLeaves => {}
            Fault::LeavesDriverWithoutFence => self.tell_at_once(),
            _ => self.tell(),
        }
    }

    fn wake_up(&self) {
        if self.fault == Fault::TellsBeforeItCounts {
            self.tell();
            self.count_out();
        } else {
            self.count_out();
            self.tell();
        }
    }
}

/// The worker sleeps, or is about to, and is awake for good then.
fn a_worker_wakes(fault: Fault, way: Way) {
    model(move || {
        let world = Arc::new(World {
            is_shown: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            blocked_state: AtomicU32::new(u32::from(way == Way::LeavesDriver)),
            marks: AtomicU32::new(u32::from(way == Way::Unmarked)),
            is_driven: AtomicBool::new(true),
            is_resting: AtomicBool::new(false),
            is_unparked: AtomicBool::new(false),
            fault,
        });
        if way == Way::Woken {
            world.lie_down();
        }
        let monitor = {
            let world = world.clone();
            thread::spawn(move || world.rest())
        };
        let notifier = (way == Way::Notified).then(|| {
            let world = world.clone();
            thread::spawn(move || world.count_out())
        });
        if way == Way::Woken {
            world.wake_up();
        } else if way == Way::Returned {
            world.block();
        } else if way == Way::Unmarked {
            world.unmark();
        } else if way == Way::LeavesDriver {
            world.leave_driver();
        } else {
            world.lie_down();
            // SleepLook finds something.
            world.count_out();
            if fault != Fault::CallsOffQuietly {
                world.tell();
            }
        }
        let rests = monitor.join().unwrap();
        notifier.into_iter().for_each(|notifier| notifier.join().unwrap());
        assert!(!rests || world.is_unparked.load(Acquire), "the monitor rests beside a worker that is awake");
    });
}

#[test]
fn a_twin_without_a_fault_passes() {
    for way in [Way::Woken, Way::CalledOff, Way::Notified, Way::Returned, Way::Unmarked, Way::LeavesDriver] {
        a_worker_wakes(Fault::None, way);
    }
}

/// A twin for each fault.
macro_rules! refused {
    ($($name:ident: $fault:ident, $way:ident;)*) => {$(
        #[test]
        #[should_panic(expected = "the monitor rests beside a worker that is awake")]
        fn $name() {
            a_worker_wakes(Fault::$fault, Way::$way);
        }
    )*};
}

refused! {
    a_mark_that_is_taken_back_by_a_store: UnmarksByStore, Unmarked;
    a_blocked_worker_that_leaves_the_driver_quietly: LeavesDriverQuietly, LeavesDriver;
    a_blocked_worker_that_leaves_the_driver_without_a_fence: LeavesDriverWithoutFence, LeavesDriver;
    a_blocked_worker_that_tells_before_it_leaves_the_driver: TellsBeforeItLeaves, LeavesDriver;
    a_monitor_that_rests_without_a_fence: RestsWithoutFence, Woken;
    a_monitor_that_looks_before_it_rests: LooksBeforeItRests, Woken;
    a_worker_that_wakes_without_a_fence: WakesWithoutFence, Woken;
    a_worker_that_tells_before_it_counts: TellsBeforeItCounts, Woken;
    a_worker_that_calls_its_sleep_off_quietly: CallsOffQuietly, CalledOff;
    a_monitor_that_asks_the_number: AsksTheNumber, Notified;
    a_worker_that_returns_quietly: ReturnsQuietly, Returned;
    a_worker_that_tells_before_it_returns: TellsBeforeItReturns, Returned;
    a_monitor_that_only_reads_which_worker_blocks: ReadsWhichBlocks, Returned;
    a_worker_that_returns_without_an_acquire: ReturnsRelaxed, Returned;
}
