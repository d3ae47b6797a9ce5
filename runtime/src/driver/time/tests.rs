//! The driver without a runtime: a paused clock, and wheels used from several threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use parking_lot::Mutex;
use std::task::Wake;

use super::entry::TimerState;
use super::*;
use crate::driver::Driver;
use crate::driver::io::IoDriver;
use crate::util::joined::joined_scope;

const MS: u64 = NANOS_PER_MILLI;

/// Counts its wakes, and notes them in a journal that several probes share.
struct Probe {
    id: usize,
    wakes: AtomicUsize,
    journal: Arc<Mutex<Vec<usize>>>,
}

impl Wake for Probe {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, SeqCst);
        self.journal.lock().push(self.id);
    }
}

fn probes(count: usize) -> (Vec<Arc<Probe>>, Arc<Mutex<Vec<usize>>>) {
    let journal = Arc::new(Mutex::new(Vec::new()));
    let probe = |id| Arc::new(Probe { id, wakes: AtomicUsize::new(0), journal: journal.clone() });
    ((0..count).map(probe).collect(), journal)
}

/// A registered timer, cancelled when dropped.
struct Timer<'a> {
    driver: &'a TimeDriver,
    wheel: usize,
    entry: Box<TimerEntry>,
    must_unpark: bool,
}

impl<'a> Timer<'a> {
    fn new(driver: &'a TimeDriver, wheel: usize, deadline: Deadline, waker: Waker) -> Self {
        let entry = Box::new(TimerEntry::new());
        // SAFETY: (1) the entry is new, so it is ours and not registered. (2) It is boxed, and the drop
        // cancels it before it is freed.
        let must_unpark = unsafe { driver.register(&entry, driver.shard(wheel), deadline, waker) }.unwrap();
        Self { driver, wheel, entry, must_unpark }
    }

    fn update(&self, waker: &Waker) -> bool {
        // SAFETY: (1) the entry is ours, and was registered in `wheel`.
        unsafe { self.driver.shard(self.wheel).update(&self.entry, waker) }
    }
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        if self.entry.state() == TimerState::Registered {
            // SAFETY: (1) the entry is ours, and was registered in `wheel`.
            unsafe { self.driver.shard(self.wheel).cancel(&self.entry) };
        }
    }
}

fn advance(driver: &TimeDriver, nanos: u64) {
    driver.advance(Duration::from_nanos(nanos)).unwrap();
}

/// Fires what is due, and wakes all wakers.
fn fire_due(driver: &TimeDriver) -> usize {
    let foreign = ForeignWakes::new();
    let fired = driver.fire_due(&foreign);
    foreign.wake_all();
    fired
}

fn shutdown(driver: &TimeDriver) {
    let foreign = ForeignWakes::new();
    driver.shutdown(&foreign);
    foreign.wake_all();
}

#[test]
fn a_timer_fires_at_its_deadline_rounded_up_and_not_before() {
    let driver = TimeDriver::new(2, true);
    let (probes, _) = probes(1);
    let timer = Timer::new(&driver, 0, 5 * MS + 1, probes[0].clone().into());
    assert_eq!(driver.earliest(), 6 * MS);
    assert_eq!(driver.until(driver.earliest()), Some(Duration::from_millis(6)));
    advance(&driver, 6 * MS - 1);
    assert_eq!((probes[0].wakes.load(SeqCst), timer.entry.state()), (0, TimerState::Registered));
    advance(&driver, 1);
    assert_eq!((probes[0].wakes.load(SeqCst), timer.entry.state()), (1, TimerState::Fired));
    assert_eq!((driver.earliest(), driver.until(driver.earliest())), (Deadline::MAX, None));
}

#[test]
fn only_an_earlier_timer_of_a_foreign_thread_unparks() {
    let driver = TimeDriver::new(3, true);
    let (probes, _) = probes(1);
    let new = |wheel, deadline| Timer::new(&driver, wheel, deadline, probes[0].clone().into());
    let own = [new(0, 9 * MS), new(1, 5 * MS), new(0, MS)];
    assert!(own.iter().all(|timer| !timer.must_unpark));
    let foreign = [new(2, 9 * MS), new(2, 9 * MS), new(2, 10 * MS), new(2, 8 * MS)];
    assert_eq!(foreign.each_ref().map(|timer| timer.must_unpark), [true, false, false, true]);
    assert_eq!([0, 1, 2].map(|wheel| driver.deadline_of(wheel)), [MS, 5 * MS, 8 * MS]);
    assert_eq!(driver.earliest(), MS);
}

#[test]
fn a_cancelled_timer_leaves_an_early_deadline_which_firing_corrects() {
    let driver = TimeDriver::new(2, true);
    let (probes, _) = probes(2);
    let kept = Timer::new(&driver, 0, 7 * MS, probes[0].clone().into());
    drop(Timer::new(&driver, 0, 3 * MS, probes[1].clone().into()));
    assert_eq!(Arc::strong_count(&probes[1]), 1, "its waker was dropped");
    assert_eq!(driver.earliest(), 3 * MS);
    advance(&driver, 3 * MS);
    assert_eq!(driver.earliest(), 7 * MS);
    assert_eq!(kept.entry.state(), TimerState::Registered);
}

#[test]
fn time_does_not_advance_for_a_cancelled_timer() {
    let driver = TimeDriver::new(2, true);
    let (probes, _) = probes(2);
    let kept = Timer::new(&driver, 1, 7 * MS, probes[0].clone().into());
    drop(Timer::new(&driver, 0, 3 * MS, probes[1].clone().into()));
    assert!(driver.auto_advance(|| false));
    assert_eq!((driver.now(), fire_due(&driver)), (7 * MS, 1));
    drop(kept);
    assert!(!driver.auto_advance(|| false), "there is no timer left");
    let never = Timer::new(&driver, 1, Deadline::MAX, probes[0].clone().into());
    assert!(!driver.auto_advance(|| false), "a timer that never fires is no reason to advance");
    assert_eq!(driver.now(), 7 * MS);
    drop(never);
}

#[test]
fn blocking_work_inhibits_auto_advance_until_all_has_ended() {
    let driver = TimeDriver::new(2, true);
    let (probes, _) = probes(1);
    let _timer = Timer::new(&driver, 0, 7 * MS, probes[0].clone().into());
    driver.inhibit_auto_advance();
    driver.inhibit_auto_advance();
    driver.allow_auto_advance();
    assert!(!driver.auto_advance(|| false));
    driver.allow_auto_advance();
    assert!(driver.auto_advance(|| false));
}

/// A closure may wake a task just before it lets the clock go. So the look for work comes last.
#[test]
fn the_look_for_work_comes_after_the_look_at_what_inhibits_the_clock() {
    let driver = TimeDriver::new(2, true);
    let (probes, _) = probes(1);
    let _timer = Timer::new(&driver, 0, 7 * MS, probes[0].clone().into());
    driver.inhibit_auto_advance();
    assert!(!driver.auto_advance(|| unreachable!("the closure may still wake a task after this look")));
    driver.allow_auto_advance();
    assert!(!driver.auto_advance(|| true));
    assert_eq!(driver.now(), 0);
    assert!(driver.auto_advance(|| false));
    assert_eq!(driver.now(), 7 * MS);
}

/// The same, for a closure that ends while the driving thread is on its way into the sleep.
#[test]
fn a_wait_in_the_driver_moves_no_clock_while_there_is_work() {
    let driver = Driver::new(Some(IoDriver::new(1, None).unwrap()), Some(TimeDriver::new(2, true)));
    let time = driver.time().unwrap();
    let (probes, _) = probes(1);
    let _timer = Timer::new(time, 0, 7 * MS, probes[0].clone().into());
    let wait = |is_needed| driver.try_become_poller(0).unwrap().wait(&ForeignWakes::new(), || is_needed);
    driver.unpark();
    assert_eq!((wait(true), time.now()), (0, 0));
    assert_eq!((wait(false), time.now()), (0, 7 * MS));
}

#[test]
fn the_latest_waker_is_woken_and_the_old_one_dropped() {
    let driver = TimeDriver::new(2, true);
    let (probes, journal) = probes(2);
    let timer = Timer::new(&driver, 0, MS, probes[0].clone().into());
    assert!(timer.update(&probes[0].clone().into()));
    assert!(timer.update(&probes[1].clone().into()));
    assert_eq!(Arc::strong_count(&probes[0]), 1);
    advance(&driver, MS);
    assert_eq!(*journal.lock(), [1]);
    assert!(!timer.update(&probes[0].clone().into()), "it has fired");
    assert_eq!((Arc::strong_count(&probes[0]), Arc::strong_count(&probes[1])), (1, 1));
}

#[test]
fn a_hundred_thousand_timers_fire_once_each_in_order() {
    const COUNT: usize = 100_000;
    let driver = TimeDriver::new(2, true);
    let (probes, journal) = probes(COUNT);
    let mut rand = crate::util::rand::FastRand::from_seed(3);
    let deadlines: Vec<_> = (0..COUNT).map(|_| u64::from(rand.below(5_000_000)) * MS / 100).collect();
    let timers: Vec<_> = deadlines
        .iter()
        .zip(&probes)
        .map(|(&deadline, probe)| Timer::new(&driver, 0, deadline, probe.clone().into()))
        .collect();
    let mut steps = 0;
    while driver.auto_advance(|| false) {
        fire_due(&driver);
        steps += 1;
    }
    assert!(steps <= 50_001, "{steps} steps: time stops only where there is a timer");
    let journal = journal.lock();
    assert_eq!(journal.len(), COUNT);
    assert!(probes.iter().all(|probe| probe.wakes.load(SeqCst) == 1));
    let tick = |id: &usize| deadlines[*id].div_ceil(MS);
    assert!(journal.is_sorted_by_key(tick));
    assert!(timers.iter().all(|timer| timer.entry.state() == TimerState::Fired));
}

#[test]
fn a_panicking_waker_keeps_no_other_asleep() {
    struct Bomb;
    impl Wake for Bomb {
        fn wake(self: Arc<Self>) {
            panic!("boom");
        }
    }
    let driver = TimeDriver::new(2, true);
    let (probes, _) = probes(100);
    let timers: Vec<_> = (0..100)
        .map(|i| {
            let waker = if i % 3 == 0 { Arc::new(Bomb).into() } else { probes[i].clone().into() };
            Timer::new(&driver, 0, MS, waker)
        })
        .collect();
    advance(&driver, MS);
    for (i, (probe, timer)) in probes.iter().zip(&timers).enumerate() {
        assert_eq!(probe.wakes.load(SeqCst), usize::from(i % 3 != 0));
        assert_eq!(timer.entry.state(), TimerState::Fired);
    }
}

#[test]
fn a_waker_may_call_the_driver() {
    struct Reentrant(Arc<TimeDriver>);
    impl Wake for Reentrant {
        fn wake(self: Arc<Self>) {
            drop(Timer::new(&self.0, 0, 9 * MS, Waker::noop().clone()));
            fire_due(&self.0);
        }
    }
    let driver = Arc::new(TimeDriver::new(2, true));
    let _timer = Timer::new(&driver, 0, MS, Arc::new(Reentrant(driver.clone())).into());
    driver.clock.advance(Duration::from_millis(1)).unwrap();
    assert_eq!(fire_due(&driver), 1);
}

#[test]
fn shutdown_wakes_all_and_refuses_more() {
    let driver = TimeDriver::new(3, true);
    let (probes, _) = probes(100);
    let timers: Vec<_> = probes
        .iter()
        .map(|probe| {
            let deadline = if probe.id % 7 == 0 { Deadline::MAX } else { 1 << (probe.id % 60) };
            Timer::new(&driver, probe.id % 3, deadline, probe.clone().into())
        })
        .collect();
    shutdown(&driver);
    shutdown(&driver);
    assert!(probes.iter().all(|probe| probe.wakes.load(SeqCst) == 1));
    assert!(timers.iter().all(|timer| timer.entry.state() == TimerState::ShutDown));
    assert!(!timers[0].update(Waker::noop()));
    assert_eq!(driver.earliest(), Deadline::MAX);
    let entry = TimerEntry::new();
    // SAFETY: (1) the entry is new, so it is ours and not registered. (2) It outlives the call, which does
    // not register it.
    assert!(unsafe { driver.register(&entry, driver.shard(0), MS, Waker::noop().clone()) }.is_err());
}

#[test]
fn threads_register_cancel_and_fire_at_the_same_time() {
    const THREADS: usize = 4;
    const EACH: usize = if cfg!(miri) { 50 } else { 5_000 };
    let driver = TimeDriver::new(THREADS + 1, true);
    let fired = AtomicUsize::new(0);
    let kept = AtomicUsize::new(0);
    let (probes, _) = probes(THREADS);
    joined_scope(|scope| {
        for (thread, probe) in probes.iter().enumerate() {
            let (driver, fired, kept) = (&driver, &fired, &kept);
            scope.spawn(move || {
                let mut rand = crate::util::rand::FastRand::from_seed(thread as u64 + 11);
                for _ in 0..EACH {
                    let wheel = rand.below(THREADS as u32 + 1) as usize;
                    let deadline = driver.now() + u64::from(rand.below(3)) * MS;
                    let timer = Timer::new(driver, wheel, deadline, probe.clone().into());
                    match rand.below(3) {
                        0 => drop(timer),
                        1 => advance(driver, MS / 2),
                        _ => {
                            while timer.entry.state() == TimerState::Registered {
                                driver.clock.advance(Duration::from_millis(1)).unwrap();
                                fire_due(driver);
                            }
                            kept.fetch_add(1, SeqCst);
                        }
                    }
                    fired.fetch_add(fire_due(driver), SeqCst);
                }
            });
        }
    });
    // Each count is a part, because other threads fire too. Each timer that was waited for has woken its
    // waker.
    let wakes: usize = probes.iter().map(|probe| probe.wakes.load(SeqCst)).sum();
    assert!(wakes >= kept.load(SeqCst) && wakes >= fired.load(SeqCst));
    assert!(probes.iter().all(|probe| Arc::strong_count(probe) == 1), "every waker was woken or dropped");
}

#[test]
fn a_running_clock_cannot_be_moved_and_a_multi_thread_one_not_paused() {
    let mut driver = TimeDriver::new(2, false);
    assert_eq!(driver.pause(), Err(ClockError::CannotPause));
    assert_eq!(driver.resume(), Err(ClockError::NotPaused));
    assert_eq!(driver.advance(Duration::from_secs(1)), Err(ClockError::NotPaused));
    assert!(!driver.is_paused() && !driver.auto_advance(|| false));
    driver.allow_pausing();
    assert_eq!(driver.pause(), Ok(()));
    assert_eq!(driver.pause(), Err(ClockError::AlreadyPaused));
    let stopped = driver.now();
    assert_eq!(stopped % MS, 0);
    advance(&driver, 5);
    assert_eq!(driver.now(), stopped + 5);
    driver.advance(Duration::MAX).unwrap();
    assert_eq!(driver.now(), Deadline::MAX);
    // There is no whole millisecond after this one.
    driver.resume().unwrap();
    driver.pause().unwrap();
    assert_eq!(driver.now(), Deadline::MAX);
}

#[test]
fn instants_and_deadlines_agree_and_do_not_overflow() {
    let driver = TimeDriver::new(2, true);
    let start = driver.now_instant();
    assert_eq!(driver.deadline_at(start), 0);
    assert_eq!(driver.deadline_at(start - Duration::from_secs(1)), 0);
    assert_eq!(driver.deadline_at(start + Duration::from_secs(1)), 1_000 * MS);
    assert_eq!(driver.deadline_at(start + Duration::from_secs(600 * 366 * 86_400)), Deadline::MAX);
    advance(&driver, 30 * 86_400 * 1_000 * MS);
    assert_eq!(driver.now_instant() - start, Duration::from_secs(30 * 86_400));
}
