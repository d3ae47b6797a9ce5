//! A timer's entry between its future and the wheel: fire against drop, another waker, the same waker, reset,
//! shutdown, another fire. Also the handshake between a thread that is no worker and registers a timer, and
//! the thread that is about to sleep.
//!
//! Bounds: one wheel, one or two timers, two threads, one operation each.
//!
//! loom reorders an access only with the last access to the same atomic. So a thread that loads the state and
//! then stores it hides an earlier load by another thread, and some schedules are not tried. Therefore both
//! threads pass a [`Gate`] first, which lets either go first. Each model notes its [outcomes](Outcomes), so
//! that no outcome is missing unnoticed.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::task::{Wake, Waker};

use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use runtime::internals::driver::ForeignWakes;
use runtime::internals::time::{Deadline, NANOS_PER_TICK as MS, Shard, TimeDriver, TimerEntry, TimerState};

use super::once_built::{model, thread};
use super::plain::Plain;

/// Counts its wakes.
struct Probe(AtomicUsize);

impl Wake for Probe {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn probe() -> (std::sync::Arc<Probe>, Waker) {
    let probe = std::sync::Arc::new(Probe(AtomicUsize::new(0)));
    (probe.clone(), probe.into())
}

impl Probe {
    fn wakes(&self) -> usize {
        self.0.load(SeqCst)
    }
}

/// Both threads of a model pass it before anything else. It orders nothing.
#[derive(Clone)]
struct Gate(Arc<AtomicUsize>);

impl Gate {
    fn new() -> Gate {
        Gate(Arc::new(AtomicUsize::new(0)))
    }

    fn pass(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// Runs `f` on another thread, behind the gate.
    fn spawn<R: 'static>(&self, f: impl FnOnce() -> R + 'static) -> thread::JoinHandle<R> {
        let gate = self.clone();
        thread::spawn(move || {
            gate.pass();
            f()
        })
    }
}

/// A turn of the driver, which wakes foreign wakers at its end.
fn fire(shard: &Shard, now: Deadline) -> usize {
    let foreign = ForeignWakes::new();
    let fired = shard.fire(now, &foreign);
    foreign.wake_all();
    fired
}

fn shut_down(shard: &Shard) {
    let foreign = ForeignWakes::new();
    shard.shut_down(&foreign);
    foreign.wake_all();
}

/// The outcomes in the schedules that were tried.
struct Outcomes<T>(StdMutex<BTreeSet<T>>);

impl<T: Ord + Debug> Outcomes<T> {
    fn new() -> std::sync::Arc<Self> {
        std::sync::Arc::new(Self(StdMutex::new(BTreeSet::new())))
    }

    fn note(&self, outcome: T) {
        self.0.lock().unwrap().insert(outcome);
    }

    fn assert_all(&self, expected: impl IntoIterator<Item = T>) {
        assert_eq!(*self.0.lock().unwrap(), expected.into_iter().collect());
    }
}

/// The operations of a future on its entry. The entry is freed like a future's: at once, as soon as the state
/// allows.
struct Timer {
    shard: Arc<Shard>,
    entry: Box<TimerEntry>,
}

impl Timer {
    fn new(shard: &Arc<Shard>, deadline: Deadline, waker: &Waker) -> Timer {
        let timer = Timer { shard: shard.clone(), entry: Box::new(TimerEntry::new()) };
        assert!(timer.register(deadline, waker.clone()));
        timer
    }

    fn register(&self, deadline: Deadline, waker: Waker) -> bool {
        // SAFETY: (1) the entry is ours, and not registered. (2) It stays in its box, and each model drops
        // the box only after the timer has fired, was cancelled, or was shut down.
        unsafe { self.shard.register(&self.entry, deadline, waker) }.is_ok()
    }

    fn update(&self, waker: &Waker) -> bool {
        // SAFETY: ours, registered in this shard.
        unsafe { self.shard.update(&self.entry, waker) }
    }

    fn will_wake(&self, waker: &Waker) -> bool {
        // SAFETY: ours.
        unsafe { self.entry.will_wake(waker) }
    }

    fn put_off(&self, tick: u64) -> bool {
        // SAFETY: ours.
        unsafe { self.entry.put_off(tick) }
    }

    /// Returns the waker, if it was still registered.
    fn cancel(&self) -> Option<Waker> {
        if self.entry.state() != TimerState::Registered {
            return None;
        }
        // SAFETY: ours, registered in this shard.
        unsafe { self.shard.cancel(&self.entry) }
    }
}

/// Dropped while it fires: it is woken or cancelled, never both, and its memory may be reused at once.
#[test]
fn a_timer_is_not_touched_after_it_let_its_future_go() {
    let outcomes = Outcomes::new();
    let noted = outcomes.clone();
    model(move || {
        let shard = Arc::new(Shard::new());
        let (probe, waker) = probe();
        let timer = Timer::new(&shard, MS, &waker);
        let gate = Gate::new();
        let driver = gate.spawn(move || fire(&shard, MS));
        gate.pass();
        let had_fired = timer.entry.state() == TimerState::Fired;
        let cancelled = timer.cancel();
        assert_eq!(
            timer.entry.state(),
            if cancelled.is_some() { TimerState::Idle } else { TimerState::Fired }
        );
        // Dropping the entry writes to it. The model refuses this if the driver may still access it.
        drop(timer);
        let fired = driver.join().unwrap();
        assert_eq!(fired, usize::from(cancelled.is_none()));
        assert_eq!(probe.wakes(), fired);
        noted.note((had_fired, fired));
    });
    outcomes.assert_all([(false, 0), (false, 1), (true, 1)]);
}

/// Polled again with another waker while it fires: the waker of the last poll that said `Pending` is woken.
#[test]
fn the_waker_given_last_is_woken() {
    let outcomes = Outcomes::new();
    let noted = outcomes.clone();
    model(move || {
        let shard = Arc::new(Shard::new());
        let ((old, old_waker), (new, new_waker)) = (probe(), probe());
        let timer = Timer::new(&shard, MS, &old_waker);
        let gate = Gate::new();
        let driver = gate.spawn(move || fire(&shard, MS));
        gate.pass();
        let is_pending = timer.update(&new_waker);
        if !is_pending {
            assert_eq!(timer.entry.state(), TimerState::Fired);
        }
        assert_eq!(driver.join().unwrap(), 1);
        assert_eq!((old.wakes(), new.wakes()), if is_pending { (0, 1) } else { (1, 0) });
        noted.note(is_pending);
    });
    outcomes.assert_all([false, true]);
}

/// Polled again with the same waker while it fires: either the wake is yet to come, or the poll sees that the
/// timer has fired.
#[test]
fn a_waker_that_is_there_already_will_be_woken() {
    let outcomes = Outcomes::new();
    let noted = outcomes.clone();
    model(move || {
        let shard = Arc::new(Shard::new());
        let (probe, waker) = probe();
        let timer = Timer::new(&shard, MS, &waker);
        let gate = Gate::new();
        let driver = gate.spawn(move || fire(&shard, MS));
        gate.pass();
        let before = probe.wakes();
        let is_pending = timer.will_wake(&waker);
        let state = timer.entry.state();
        assert!(is_pending || state == TimerState::Fired);
        assert_eq!(driver.join().unwrap(), 1);
        assert!(!is_pending || probe.wakes() > before, "waits for a wake that has been");
        noted.note((is_pending, state == TimerState::Fired));
    });
    outcomes.assert_all([(false, true), (true, false), (true, true)]);
}

/// Put off while it fires: it fires at the old time, and its owner can tell; or it fires only at the new
/// time.
#[test]
fn a_timer_that_is_put_off_while_it_fires_is_not_over_too_soon() {
    let outcomes = Outcomes::new();
    let noted = outcomes.clone();
    model(move || {
        let shard = Arc::new(Shard::new());
        let (probe, waker) = probe();
        let timer = Timer::new(&shard, MS, &waker);
        let gate = Gate::new();
        let driver = gate.spawn({
            let shard = shard.clone();
            move || fire(&shard, MS)
        });
        gate.pass();
        assert!(timer.put_off(2));
        let fired = driver.join().unwrap();
        assert_eq!(probe.wakes(), fired);
        assert!(!timer.entry.is_over(), "over before its time");
        if fired > 0 {
            assert_eq!(timer.entry.state(), TimerState::Fired);
            assert!(timer.register(2 * MS, waker));
        }
        assert!(shard.next_deadline() <= 2 * MS);
        assert_eq!(fire(&shard, 2 * MS), 1);
        assert!(timer.entry.is_over());
        noted.note(fired);
    });
    outcomes.assert_all([0, 1]);
}

/// Put off, and then wanted sooner again, while the wheel looks at it: it does not fire late.
#[test]
fn a_timer_that_is_put_off_and_then_wanted_sooner_is_not_late() {
    let outcomes = Outcomes::new();
    let noted = outcomes.clone();
    model(move || {
        let shard = Arc::new(Shard::new());
        let (probe, waker) = probe();
        let timer = Timer::new(&shard, MS, &waker);
        let gate = Gate::new();
        let driver = gate.spawn({
            let shard = shard.clone();
            move || fire(&shard, MS)
        });
        gate.pass();
        assert!(timer.put_off(9));
        let sooner = timer.put_off(2);
        assert!(!sooner, "the wheel may hold it under the later tick");
        let waiting = timer.cancel();
        let was_waiting = waiting.is_some();
        assert!(timer.register(2 * MS, waiting.unwrap_or(waker)));
        let fired = driver.join().unwrap();
        assert_eq!((fired, probe.wakes()), (usize::from(!was_waiting), fired));
        assert_eq!(fire(&shard, 2 * MS), 1);
        assert!(timer.entry.is_over());
        noted.note(was_waiting);
    });
    outcomes.assert_all([false, true]);
}

/// Reset to a later time while it fires: it fires at the old time, and the task polls again; or it fires only
/// at the new time.
#[test]
fn a_reset_loses_no_wake() {
    let outcomes = Outcomes::new();
    let noted = outcomes.clone();
    model(move || {
        let shard = Arc::new(Shard::new());
        let (probe, waker) = probe();
        let timer = Timer::new(&shard, MS, &waker);
        let gate = Gate::new();
        let driver = gate.spawn({
            let shard = shard.clone();
            move || fire(&shard, MS)
        });
        gate.pass();
        let waiting = timer.cancel();
        let was_waiting = waiting.is_some();
        assert!(timer.register(2 * MS, waiting.unwrap_or(waker)));
        assert_eq!(driver.join().unwrap(), usize::from(!was_waiting));
        assert_eq!(probe.wakes(), usize::from(!was_waiting));
        // A cancelled timer may have left its own deadline behind.
        assert!(shard.next_deadline() <= 2 * MS);
        assert_eq!(fire(&shard, 2 * MS), 1);
        assert_eq!(timer.entry.state(), TimerState::Fired);
        noted.note(was_waiting);
    });
    outcomes.assert_all([false, true]);
}

/// Two threads fire the same wheel: each timer fires once.
#[test]
fn two_drivers_fire_each_timer_once() {
    let outcomes = Outcomes::new();
    let noted = outcomes.clone();
    model(move || {
        let shard = Arc::new(Shard::new());
        let ((first, first_waker), (second, second_waker)) = (probe(), probe());
        let timers = [Timer::new(&shard, MS, &first_waker), Timer::new(&shard, 70 * MS, &second_waker)];
        let gate = Gate::new();
        let driver = gate.spawn({
            let shard = shard.clone();
            move || fire(&shard, 70 * MS)
        });
        gate.pass();
        let here = fire(&shard, MS);
        let there = driver.join().unwrap();
        assert_eq!((here + there, first.wakes(), second.wakes()), (2, 1, 1));
        assert!(timers.iter().all(|timer| timer.entry.state() == TimerState::Fired));
        assert_eq!(shard.next_deadline(), Deadline::MAX);
        noted.note((here, there));
    });
    outcomes.assert_all([(0, 2), (1, 1)]);
}

/// Registered while another timer fires: the deadline that sleepers read is not after the new timer.
#[test]
fn a_timer_registered_while_others_fire_is_seen() {
    model(|| {
        let shard = Arc::new(Shard::new());
        let (_, waker) = probe();
        let _due = Timer::new(&shard, MS, &waker);
        let gate = Gate::new();
        let driver = gate.spawn({
            let shard = shard.clone();
            move || fire(&shard, MS)
        });
        gate.pass();
        let later = Timer::new(&shard, 5 * MS, &waker);
        assert!(shard.next_deadline() <= 5 * MS);
        driver.join().unwrap();
        assert_eq!(shard.next_deadline(), 5 * MS);
        drop(later.cancel());
    });
}

/// Registered while the driver ends: the timer is refused, or woken.
#[test]
fn shutdown_leaves_nobody_asleep() {
    let outcomes = Outcomes::new();
    let noted = outcomes.clone();
    model(move || {
        let shard = Arc::new(Shard::new());
        let (probe, waker) = probe();
        let gate = Gate::new();
        let driver = gate.spawn({
            let shard = shard.clone();
            move || shut_down(&shard)
        });
        let timer = Timer { shard, entry: Box::new(TimerEntry::new()) };
        gate.pass();
        let is_registered = timer.register(MS, waker);
        driver.join().unwrap();
        assert_eq!(probe.wakes(), usize::from(is_registered));
        assert_eq!(timer.entry.state(), if is_registered { TimerState::ShutDown } else { TimerState::Idle });
        noted.note(is_registered);
    });
    outcomes.assert_all([false, true]);
}

/// A thread that is no worker registers while another thread is about to sleep: the sleeper sees the timer,
/// or is unparked.
#[test]
fn a_sleeper_learns_of_a_foreign_timer() {
    let outcomes = Outcomes::new();
    let noted = outcomes.clone();
    model(move || {
        let driver = Arc::new(TimeDriver::new(2, true));
        let sleeps_until = Arc::new(AtomicUsize::new(AWAKE));
        let gate = Gate::new();
        let sleeper = gate.spawn({
            let (driver, sleeps_until) = (driver.clone(), sleeps_until.clone());
            move || {
                sleeps_until.store(FOR_EVER, Relaxed);
                loom::sync::atomic::fence(SeqCst);
                driver.earliest() == Deadline::MAX
            }
        });
        let entry = Box::new(TimerEntry::new());
        gate.pass();
        // SAFETY: ours, boxed, new, and cancelled before it is freed.
        let must_unpark =
            unsafe { driver.register(&entry, driver.shard(1), 5 * MS, Waker::noop().clone()) }.unwrap();
        assert!(must_unpark);
        // TimerFence, which the caller does.
        loom::sync::atomic::fence(SeqCst);
        let unparks = sleeps_until.load(Relaxed) == FOR_EVER;
        let sleeps = sleeper.join().unwrap();
        assert!(!sleeps || unparks, "sleeps past a timer that it did not see");
        // SAFETY: as above; registered in wheel 1.
        drop(unsafe { driver.shard(1).cancel(&entry) });
        noted.note((sleeps, unparks));
    });
    outcomes.assert_all([(false, false), (false, true), (true, true)]);
}

const AWAKE: usize = 0;
const FOR_EVER: usize = usize::MAX;

/// A small copy of the protocol, with at most one bug put back.
mod twin {
    use std::sync::atomic::Ordering::{Acquire, Release};

    use loom::sync::Mutex;
    use loom::sync::atomic::{AtomicU8, AtomicU64, fence};

    use super::*;

    const REGISTERED: u8 = 1;
    const FIRED: u8 = 2;

    #[derive(Clone, Copy, PartialEq)]
    enum Bug {
        None,
        /// TimerFire takes the waker when the state is stored and the lock released.
        TouchAfterStore,
        /// TimerFire stores the state without Release.
        RelaxedStore,
        /// The owner looks at the state without Acquire.
        RelaxedLook,
        /// TimerCancel and the update trust the state that they saw before the lock.
        NoSecondLook,
        /// TimerCompare compares the wakers and does not look at the state.
        NoLookAtAll,
        /// TimerFire clears the waker when it takes it.
        FireClears,
        /// A timer that has fired counts as over, for whatever tick it fired.
        FiredIsOver,
        /// A timer is moved to a sooner tick without the lock.
        PutForward,
    }

    /// One entry that was registered, and the lock of its wheel.
    struct Mini {
        lock: Mutex<()>,
        state: AtomicU8,
        waker: Plain<Option<Waker>>,
        /// The tick that the wheel knows; guarded by the lock while registered.
        tick: AtomicU64,
        due: AtomicU64,
        bug: Bug,
    }

    // SAFETY: the cell is what the model checks.
    unsafe impl Send for Mini {}
    // SAFETY: as above.
    unsafe impl Sync for Mini {}

    impl Mini {
        fn new(bug: Bug, waker: Waker) -> Arc<Self> {
            let (lock, state) = (Mutex::new(()), AtomicU8::new(REGISTERED));
            let (tick, due) = (AtomicU64::new(1), AtomicU64::new(1));
            Arc::new(Self {
                lock,
                state,
                waker: Plain::new("the timer's waker", Some(waker)),
                tick,
                due,
                bug,
            })
        }

        fn clone_waker(&self) -> Waker {
            // SAFETY: the model checks this access.
            self.waker.with(|slot| unsafe { (*slot).clone() }).unwrap()
        }

        /// TimerCompare.
        fn will_wake(&self, waker: &Waker) -> bool {
            (self.bug == Bug::NoLookAtAll || self.look() == REGISTERED)
                // SAFETY: the model checks this access.
                && self.waker.with(|slot| unsafe { (*slot).as_ref().unwrap().will_wake(waker) })
        }

        /// TimerFire for a timer that may be put off, at tick `now`: fires it, or moves it to the due tick.
        fn fire_or_move(&self, now: u64) {
            let guard = self.lock.lock().unwrap();
            if self.state.load(Relaxed) != REGISTERED || self.tick.load(Relaxed) > now {
                return;
            }
            let due = self.due.load(Relaxed);
            if due > self.tick.load(Relaxed) {
                return self.tick.store(due, Relaxed);
            }
            let waker = match self.bug {
                Bug::FireClears => self.replace(None).unwrap(),
                _ => self.clone_waker(),
            };
            self.state.store(FIRED, Release);
            drop(guard);
            waker.wake();
        }

        fn is_over(&self) -> bool {
            let fired_in_time = || self.tick.load(Relaxed) >= self.due.load(Relaxed);
            self.look() == FIRED && (self.bug == Bug::FiredIsOver || fired_in_time())
        }

        /// TimerPutOff; with the lock if the tick is sooner. Returns false if the timer has fired.
        fn reset(&self, tick: u64) -> bool {
            if tick >= self.due.load(Relaxed) || self.bug == Bug::PutForward {
                self.due.store(tick, Relaxed);
                return self.look() == REGISTERED;
            }
            let _guard = self.lock.lock().unwrap();
            self.due.store(tick, Relaxed);
            let is_registered = self.look() == REGISTERED;
            if is_registered {
                self.tick.store(tick, Relaxed);
            }
            is_registered
        }

        fn replace(&self, waker: Option<Waker>) -> Option<Waker> {
            // SAFETY: the model checks this access.
            self.waker.with_mut(|slot| unsafe { std::mem::replace(&mut *slot, waker) })
        }

        fn look(&self) -> u8 {
            self.state.load(if self.bug == Bug::RelaxedLook { Relaxed } else { Acquire })
        }

        fn fire(&self) {
            let guard = self.lock.lock().unwrap();
            if self.state.load(Relaxed) != REGISTERED {
                return;
            }
            let waker = match self.bug {
                Bug::TouchAfterStore => {
                    self.state.store(FIRED, Release);
                    drop(guard);
                    return self.replace(None).into_iter().for_each(Waker::wake);
                }
                bug => {
                    let waker = self.replace(None);
                    self.state.store(FIRED, if bug == Bug::RelaxedStore { Relaxed } else { Release });
                    waker
                }
            };
            drop(guard);
            waker.into_iter().for_each(Waker::wake);
        }

        /// Registers another waker. Returns false if the timer has fired.
        fn update(&self, waker: Waker) -> bool {
            if self.look() != REGISTERED {
                return false;
            }
            let guard = self.lock.lock().unwrap();
            if self.bug != Bug::NoSecondLook && self.look() != REGISTERED {
                return false;
            }
            let old = self.replace(Some(waker));
            drop(guard);
            drop(old);
            true
        }

        /// The drop of the future: cancels, then uses the memory.
        fn drop_by_owner(&self) {
            if self.look() == REGISTERED {
                let _guard = self.lock.lock().unwrap();
                self.state.store(0, Relaxed);
            }
            self.replace(None);
        }
    }

    fn fire_against_drop(bug: Bug) {
        model(move || {
            let mini = Mini::new(bug, probe().1);
            let gate = Gate::new();
            let driver = gate.spawn({
                let mini = mini.clone();
                move || mini.fire()
            });
            gate.pass();
            mini.drop_by_owner();
            driver.join().unwrap();
        });
    }

    fn fire_against_update(bug: Bug) {
        model(move || {
            let ((old, old_waker), (new, new_waker)) = (probe(), probe());
            let mini = Mini::new(bug, old_waker);
            let gate = Gate::new();
            let driver = gate.spawn({
                let mini = mini.clone();
                move || mini.fire()
            });
            gate.pass();
            let is_pending = mini.update(new_waker);
            driver.join().unwrap();
            let woken = if is_pending { (0, 1) } else { (1, 0) };
            assert_eq!((old.wakes(), new.wakes()), woken, "the wrong waker is woken");
        });
    }

    fn fire_against_poll(bug: Bug) {
        model(move || {
            let (probe, waker) = probe();
            let mini = Mini::new(bug, waker.clone());
            let gate = Gate::new();
            let driver = gate.spawn({
                let mini = mini.clone();
                move || mini.fire_or_move(1)
            });
            gate.pass();
            let before = probe.wakes();
            let is_pending = mini.will_wake(&waker);
            driver.join().unwrap();
            assert!(!is_pending || probe.wakes() > before, "waits for a wake that has been");
        });
    }

    /// Resets a timer to each of `ticks` while the wheel is at the first tick.
    fn fire_against_resets(bug: Bug, ticks: [u64; 2]) {
        model(move || {
            let mini = Mini::new(bug, probe().1);
            let gate = Gate::new();
            let driver = gate.spawn({
                let mini = mini.clone();
                move || mini.fire_or_move(1)
            });
            gate.pass();
            let is_registered = ticks.map(|tick| mini.reset(tick))[1];
            driver.join().unwrap();
            assert!(!mini.is_over(), "over before its time");
            if is_registered && mini.look() == REGISTERED {
                // At the last tick that it was reset to; several times, because the wheel may hold it under
                // an earlier tick.
                (0..3).for_each(|_| mini.fire_or_move(ticks[1]));
                assert!(mini.is_over(), "a timer is late");
            }
        });
    }

    fn register_against_sleep(has_fences: bool) {
        model(move || {
            let fence = move || {
                if has_fences {
                    fence(SeqCst);
                }
            };
            let next_deadline = Arc::new(AtomicUsize::new(FOR_EVER));
            let sleeps_until = Arc::new(AtomicUsize::new(AWAKE));
            let sleeper = thread::spawn({
                let (next_deadline, sleeps_until) = (next_deadline.clone(), sleeps_until.clone());
                move || {
                    sleeps_until.store(FOR_EVER, Relaxed);
                    fence();
                    next_deadline.load(Relaxed) == FOR_EVER
                }
            });
            next_deadline.store(5, Relaxed);
            fence();
            let unparks = sleeps_until.load(Relaxed) == FOR_EVER;
            assert!(!sleeper.join().unwrap() || unparks, "sleeps past a timer that it did not see");
        });
    }

    #[test]
    fn without_a_bug_the_twins_pass() {
        fire_against_drop(Bug::None);
        fire_against_update(Bug::None);
        fire_against_poll(Bug::None);
        fire_against_resets(Bug::None, [5, 5]);
        fire_against_resets(Bug::None, [5, 3]);
        register_against_sleep(true);
    }

    #[test]
    #[should_panic(expected = "data race on the timer's waker")]
    fn touching_an_entry_after_the_store_is_caught() {
        fire_against_drop(Bug::TouchAfterStore);
    }

    #[test]
    #[should_panic(expected = "data race on the timer's waker")]
    fn a_relaxed_store_is_caught() {
        fire_against_drop(Bug::RelaxedStore);
    }

    #[test]
    #[should_panic(expected = "data race on the timer's waker")]
    fn a_relaxed_look_is_caught() {
        fire_against_drop(Bug::RelaxedLook);
    }

    #[test]
    #[should_panic(expected = "the wrong waker is woken")]
    fn a_waker_given_to_a_fired_timer_is_caught() {
        fire_against_update(Bug::NoSecondLook);
    }

    #[test]
    #[should_panic(expected = "waits for a wake that has been")]
    fn comparing_wakers_without_a_look_at_the_state_is_caught() {
        fire_against_poll(Bug::NoLookAtAll);
    }

    #[test]
    #[should_panic(expected = "data race on the timer's waker")]
    fn clearing_a_waker_that_the_owner_compares_is_caught() {
        fire_against_poll(Bug::FireClears);
    }

    #[test]
    #[should_panic(expected = "over before its time")]
    fn taking_a_timer_that_fired_for_an_old_deadline_for_over_is_caught() {
        fire_against_resets(Bug::FiredIsOver, [5, 5]);
    }

    #[test]
    #[should_panic(expected = "a timer is late")]
    fn putting_a_timer_forward_without_the_lock_is_caught() {
        fire_against_resets(Bug::PutForward, [5, 3]);
    }

    #[test]
    #[should_panic(expected = "sleeps past a timer that it did not see")]
    fn a_handshake_without_fences_is_caught() {
        register_against_sleep(false);
    }
}
