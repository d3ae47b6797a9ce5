//! A copy of `Waking`, of the monitor's looks at it, of its rest beside a worker that blocks, and of the last
//! wakes (`scheduler/elsewhere.rs`), with at most one bug.
//!
//! A waker that blocks ends its thread: that thread never comes back from it.

use std::collections::VecDeque;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize as Count;

use loom::sync::Mutex;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use loom::sync::atomic::{AtomicBool, AtomicUsize, fence};

use crate::models::once_built::{model, thread};

/// The bug that was put back.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// A thread takes all wakers out before it calls the first.
    TakesAll,
    /// A thread takes a waker out when it has called it.
    TakesLate,
    /// What is kept replaces what an earlier dispatch has left.
    AddsOver,
    /// The monitor has the wakers of a worker called elsewhere once.
    HelpsOnce,
    /// A worker that blocks does not do `AwakeWakes` for its wakers.
    AddsQuietly,
    /// It does so before it puts them there.
    TellsBeforeItAdds,
    /// The monitor does not ask for wakers before it rests.
    AsksForNoWakers,
    /// It asks before `RestShow`.
    AsksBeforeItRests,
    /// At the end, a thread counts itself out after it has asked whether another one is free.
    AsksBeforeItCounts,
    /// At the end, a thread that begins a call still counts as free.
    StaysFree,
    /// At the end, a thread that is started does not count.
    StartsUncounted,
}

#[derive(Default)]
struct Left {
    wakes: VecDeque<usize>,
    taken: u64,
}

#[derive(Default)]
struct Waking(Mutex<Left>);

impl Waking {
    fn of(wakes: &[usize]) -> Self {
        let left = Left { wakes: wakes.iter().copied().collect(), taken: 0 };
        Self(Mutex::new(left))
    }

    fn next(&self) -> Option<usize> {
        let mut left = self.0.lock().unwrap();
        left.taken += 1;
        left.wakes.pop_front()
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap().wakes.is_empty()
    }

    fn taken(&self) -> Option<u64> {
        let left = self.0.lock().unwrap();
        (!left.wakes.is_empty()).then_some(left.taken)
    }
}

struct Looks {
    /// What the last look saw.
    seen: Option<u64>,
    /// A bound of the model.
    helpers_left: usize,
}

struct World {
    waking: Waking,
    /// The threads at the end that take wakers, and are not inside of one.
    free: AtomicUsize,
    /// The waker that blocks for no time. Those below block for good.
    last: usize,
    /// Numbers that the model does not see.
    calls: Vec<Count>,
    helpers: std::sync::Mutex<Vec<thread::JoinHandle<()>>>,
    fault: Fault,
}

impl World {
    fn new(fault: Fault, last: usize, waking: Waking) -> Arc<Self> {
        Arc::new(Self {
            waking,
            free: AtomicUsize::new(1),
            last,
            calls: (0..=last).map(|_| Count::new(0)).collect(),
            helpers: std::sync::Mutex::default(),
            fault,
        })
    }

    /// Returns whether the waker returns.
    fn call(&self, waker: usize, blocks: bool) -> bool {
        self.calls[waker].fetch_add(1, Relaxed);
        !blocks
    }

    fn add(&self, wakes: &[usize]) {
        let mut left = self.waking.0.lock().unwrap();
        if self.fault == Fault::AddsOver {
            left.wakes.clear();
        }
        left.wakes.extend(wakes);
    }

    /// As `Waking::wake_rest`.
    fn wake_rest(&self) {
        let waking = &self.waking;
        match self.fault {
            Fault::TakesAll => {
                let all = std::mem::take(&mut waking.0.lock().unwrap().wakes);
                _ = all.into_iter().all(|waker| self.call(waker, waker < self.last));
            }
            Fault::TakesLate => {
                let front = || waking.0.lock().unwrap().wakes.front().copied();
                while let Some(waker) = front()
                    && self.call(waker, waker < self.last)
                {
                    waking.next();
                }
            }
            _ => _ = iter::from_fn(|| waking.next()).all(|waker| self.call(waker, waker < self.last)),
        }
    }

    fn start(self: &Arc<Self>, f: impl FnOnce(&Arc<Self>) + 'static) {
        let world = self.clone();
        self.helpers.lock().unwrap().push(thread::spawn(move || f(&world)));
    }

    fn join_helpers(&self) {
        while let Some(helper) = { self.helpers.lock().unwrap().pop() } {
            helper.join().unwrap();
        }
    }

    /// One look of the monitor.
    fn look(self: &Arc<Self>, looks: &mut Looks) {
        let now = self.waking.taken();
        if now.is_some() && now == looks.seen && looks.helpers_left > 0 {
            looks.helpers_left = if self.fault == Fault::HelpsOnce { 0 } else { looks.helpers_left - 1 };
            self.start(|world| world.wake_rest());
        }
        looks.seen = now;
    }

    /// Whether the thread that begins a call is the last that was free.
    fn counts_out(&self) -> bool {
        match self.fault {
            Fault::AsksBeforeItCounts => {
                let is_last = self.free.load(Relaxed) == 1;
                self.free.fetch_sub(1, Relaxed);
                is_last
            }
            Fault::StaysFree => false,
            _ => self.free.fetch_sub(1, Relaxed) == 1,
        }
    }

    /// As `Shared::help_to_wake`. The first waker returns, the others but the last block.
    fn help_at_the_end(self: &Arc<Self>) {
        while let Some(waker) = self.waking.next() {
            if self.counts_out() && !self.waking.is_empty() {
                if self.fault != Fault::StartsUncounted {
                    self.free.fetch_add(1, Relaxed);
                }
                self.start(Self::help_at_the_end);
            }
            if !self.call(waker, waker > 0 && waker < self.last) {
                return;
            }
            self.free.fetch_add(1, Relaxed);
        }
        self.free.fetch_sub(1, Relaxed);
    }

    fn assert_called(&self) {
        for (waker, calls) in self.calls.iter().enumerate() {
            let calls = calls.load(Relaxed);
            assert!(calls > 0, "waker {waker} is never called");
            assert!(calls == 1, "waker {waker} is called twice");
        }
    }
}

/// A worker has left one waker for later, and calls it together with two others.
fn wakers_behind_others(fault: Fault) {
    model(move || {
        let world = World::new(fault, 2, Waking::of(&[0]));
        let worker = {
            let world = world.clone();
            thread::spawn(move || {
                world.add(&[1, 2]);
                world.wake_rest();
            })
        };
        let mut looks = Looks { seen: None, helpers_left: 3 };
        world.look(&mut looks);
        worker.join().unwrap();
        for _ in 0..5 {
            world.look(&mut looks);
            world.join_helpers();
        }
        world.assert_called();
    });
}

/// A worker that blocks puts a waker there, while the monitor goes to rest.
fn wakers_beside_a_rest(fault: Fault) {
    model(move || {
        let world = World::new(fault, 0, Waking::default());
        let [is_resting, is_unparked] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let monitor = {
            let (world, is_resting) = (world.clone(), is_resting.clone());
            thread::spawn(move || {
                let has_no_wakers = || world.waking.is_empty();
                let before = fault != Fault::AsksBeforeItRests || has_no_wakers();
                is_resting.store(true, Relaxed);
                fence(SeqCst);
                before
                    && (matches!(fault, Fault::AsksForNoWakers | Fault::AsksBeforeItRests) || has_no_wakers())
            })
        };
        let tell = || {
            fence(SeqCst);
            if is_resting.load(Relaxed) && is_resting.swap(false, Relaxed) {
                is_unparked.swap(true, AcqRel);
            }
        };
        if fault == Fault::TellsBeforeItAdds {
            tell();
        }
        world.add(&[0]);
        if !matches!(fault, Fault::TellsBeforeItAdds | Fault::AddsQuietly) {
            tell();
        }
        let rests = monitor.join().unwrap();
        assert!(!rests || is_unparked.load(Acquire), "the monitor rests beside wakers that wait");
    });
}

/// The first waker returns, two block, and the last one waits behind them.
fn last_wakes(fault: Fault) {
    model(move || {
        let world = World::new(fault, 3, Waking::of(&[0, 1, 2, 3]));
        world.help_at_the_end();
        world.join_helpers();
        world.assert_called();
    });
}

#[test]
fn a_twin_without_a_fault_passes() {
    wakers_behind_others(Fault::None);
    wakers_beside_a_rest(Fault::None);
    last_wakes(Fault::None);
}

/// A twin for each fault, the model that must refuse it, and what the model says.
macro_rules! refused {
    ($($name:ident: $model:ident($fault:ident), $text:literal;)*) => {$(
        #[test]
        #[should_panic(expected = $text)]
        fn $name() {
            $model(Fault::$fault);
        }
    )*};
}

refused! {
    a_thread_that_takes_all_wakers_at_once: wakers_behind_others(TakesAll), "waker 1 is never called";
    a_thread_that_takes_a_waker_when_it_was_called: wakers_behind_others(TakesLate),
        "waker 0 is called twice";
    a_dispatch_that_replaces_what_was_left: wakers_behind_others(AddsOver), "waker 0 is never called";
    a_monitor_that_helps_once: wakers_behind_others(HelpsOnce), "waker 2 is never called";
    a_blocked_worker_that_adds_quietly: wakers_beside_a_rest(AddsQuietly),
        "the monitor rests beside wakers that wait";
    a_blocked_worker_that_tells_before_it_adds: wakers_beside_a_rest(TellsBeforeItAdds),
        "the monitor rests beside wakers that wait";
    a_monitor_that_asks_for_no_wakers: wakers_beside_a_rest(AsksForNoWakers),
        "the monitor rests beside wakers that wait";
    a_monitor_that_asks_before_it_rests: wakers_beside_a_rest(AsksBeforeItRests),
        "the monitor rests beside wakers that wait";
    a_last_thread_that_asks_before_it_counts: last_wakes(AsksBeforeItCounts), "waker 3 is never called";
    a_last_thread_that_stays_free: last_wakes(StaysFree), "waker 2 is never called";
    a_last_thread_that_starts_another_one_uncounted: last_wakes(StartsUncounted), "waker 3 is never called";
}
