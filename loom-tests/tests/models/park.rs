//! Sleeping: no unpark is lost, wherever the thread sleeps, and the sleeper sees what came before the unpark.
//! The worker that sleeps in the driver is up in time for the timers that other workers leave to it.
//!
//! A model has no time: a limit below an hour is over at once, a longer one never. So a sleep that lasts too
//! long is a deadlock, which loom reports. The report ends the whole process. So the twins do not sleep; they
//! say where they would.
//!
//! Bounds: one sleeper with two sleeps, two threads that unpark; one sleep in the driver against one timer.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, fence};
use runtime::internals::driver::{Driver, ForeignWakes, IoDriver, TimeDriver, TimerEntry};
use runtime::internals::scheduler::Parker;

use super::once_built::{model, thread};

const SECOND: u64 = 1_000_000_000;
/// Over at once.
const NEAR: u64 = SECOND;
/// Never over.
const FAR: u64 = 100_000 * SECOND;

fn driver() -> Driver {
    Driver::new(Some(IoDriver::new(1, None).unwrap()), Some(TimeDriver::new(2, false)))
}

/// Two threads each set a flag and unpark; the sleeper sleeps until it has seen both.
fn two_unparks(is_in_driver_first: bool) {
    model(move || {
        let world = Arc::new((Parker::default(), driver(), [AtomicBool::new(false), AtomicBool::new(false)]));
        world.0.adopt_current_thread();
        let threads = [0, 1].map(|i| {
            let world = world.clone();
            thread::spawn(move || {
                let (parker, driver, flags) = &*world;
                flags[i].store(true, Relaxed);
                parker.unpark(driver);
            })
        });
        let (parker, driver, flags) = &*world;
        let mut is_in_driver = is_in_driver_first;
        while !flags.iter().all(|flag| flag.load(Relaxed)) {
            if is_in_driver {
                let mut poller = driver.try_become_poller(0).expect("no other thread polls");
                parker.park_in_driver(|| poller.sleep(None, &ForeignWakes::new()));
            } else {
                parker.park(None);
            }
            is_in_driver = !is_in_driver;
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn no_unpark_is_lost_in_the_driver_then_on_the_token() {
    two_unparks(true);
}

#[test]
fn no_unpark_is_lost_on_the_token_then_in_the_driver() {
    two_unparks(false);
}

/// The bug that was put back into the parker.
#[derive(Clone, Copy, PartialEq)]
enum Parked {
    Rightly,
    /// The unparker looks before it writes.
    UnparkLooksFirst,
    UnparkIsRelaxed,
    /// ParkShow overwrites an unpark that came first.
    BeginStores,
    BeginIsRelaxed,
    EndIsRelaxed,
}

const EMPTY: u32 = 0;
const PARKED: u32 = 1;
const NOTIFIED: u32 = 3;

/// A copy of the parker with one place to sleep. It does not sleep, but says that it would.
struct Twin {
    state: AtomicU32,
    /// The token of the place to sleep. Orders nothing by itself.
    is_token_set: AtomicBool,
    fault: Parked,
}

impl Twin {
    fn unless(&self, fault: Parked, strong: std::sync::atomic::Ordering) -> std::sync::atomic::Ordering {
        if self.fault == fault { Relaxed } else { strong }
    }

    /// Returns false where the thread would sleep on.
    fn park(&self) -> bool {
        if self.fault == Parked::BeginStores {
            self.state.store(PARKED, Release);
        } else {
            if self.state.compare_exchange(EMPTY, PARKED, Release, Relaxed).is_err() {
                self.state.swap(EMPTY, self.unless(Parked::BeginIsRelaxed, AcqRel));
                return true;
            }
        }
        if !self.is_token_set.swap(false, Relaxed) {
            return false;
        }
        self.state.swap(EMPTY, self.unless(Parked::EndIsRelaxed, AcqRel));
        true
    }

    fn unpark(&self) {
        if self.fault == Parked::UnparkLooksFirst && self.state.load(Acquire) == EMPTY {
            return self.state.store(NOTIFIED, Release);
        }
        if self.state.swap(NOTIFIED, self.unless(Parked::UnparkIsRelaxed, AcqRel)) == PARKED {
            // A swap, since loom lets a load return either of a store and a swap that nothing orders.
            self.is_token_set.swap(true, Relaxed);
        }
    }
}

/// As [`two_unparks`], with a twin: if the sleeper sleeps on at the end, a token is there that ends the
/// sleep.
fn two_unparks_of_a_twin(fault: Parked) {
    model(move || {
        let twin = Twin { state: AtomicU32::new(EMPTY), is_token_set: AtomicBool::new(false), fault };
        let world = Arc::new((twin, [AtomicBool::new(false), AtomicBool::new(false)]));
        let threads = [0, 1].map(|i| {
            let world = world.clone();
            thread::spawn(move || {
                world.1[i].store(true, Relaxed);
                world.0.unpark();
            })
        });
        let (twin, flags) = &*world;
        let has_seen_all = || flags.iter().all(|flag| flag.load(Relaxed));
        let mut is_over = true;
        while is_over && !has_seen_all() {
            is_over = twin.park();
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        if !is_over {
            assert!(twin.is_token_set.swap(false, Relaxed), "an unpark was lost");
        }
    });
}

#[test]
fn a_twin_without_a_fault_passes() {
    two_unparks_of_a_twin(Parked::Rightly);
}

/// A twin for each fault.
macro_rules! refused {
    ($($name:ident: $model:ident($fault:expr), $text:literal;)*) => {$(
        #[test]
        #[should_panic(expected = $text)]
        fn $name() {
            $model($fault);
        }
    )*};
}

refused! {
    an_unpark_that_looks_before_it_writes: two_unparks_of_a_twin(Parked::UnparkLooksFirst),
        "an unpark was lost";
    an_unpark_without_release: two_unparks_of_a_twin(Parked::UnparkIsRelaxed), "an unpark was lost";
    a_sleep_that_overwrites_an_unpark: two_unparks_of_a_twin(Parked::BeginStores), "an unpark was lost";
    a_sleep_that_begins_without_acquire: two_unparks_of_a_twin(Parked::BeginIsRelaxed), "an unpark was lost";
    a_sleep_that_ends_without_acquire: two_unparks_of_a_twin(Parked::EndIsRelaxed), "an unpark was lost";
}

/// A timer for a thread that never waits for it.
struct Timer<'a> {
    entry: Box<TimerEntry>,
    wheel: usize,
    driver: &'a Driver,
}

impl<'a> Timer<'a> {
    /// Registers a timer. Also returns whether the poller has to be told.
    fn register(driver: &'a Driver, wheel: usize, deadline: u64) -> (Self, bool) {
        let timer = Self { entry: Box::new(TimerEntry::new()), wheel, driver };
        let time = driver.time().expect("the models have time");
        // SAFETY: (1) a new entry, which this timer owns. (2) It stays in its box until `drop` has taken it
        // out of the wheel; a timer that is forgotten leaks the box.
        let registered =
            unsafe { time.register(&timer.entry, time.shard(wheel), deadline, Waker::noop().clone()) };
        let must_tell = registered.expect("not shut down");
        (timer, must_tell)
    }
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        let time = self.driver.time().expect("the models have time");
        // SAFETY: this timer owns the entry, and registered it in this wheel.
        drop(unsafe { time.shard(self.wheel).cancel(&self.entry) });
    }
}

/// A thread that is no worker registers a timer, sooner than the one there is or the only one, while a worker
/// goes to sleep in the driver.
fn a_foreign_timer(has_far_timer: bool) {
    model(move || {
        let driver = Arc::new(driver());
        let far = has_far_timer.then(|| Timer::register(&driver, 0, FAR).0);
        let foreign = thread::spawn({
            let driver = driver.clone();
            move || {
                let (timer, must_tell) = Timer::register(&driver, 1, NEAR);
                if must_tell {
                    driver.timer_registered(NEAR);
                }
                std::mem::forget(timer);
            }
        });
        // Goes to sleep again and again until it sees the timer, as a worker does.
        while driver.time().unwrap().earliest() > NEAR {
            driver.try_become_poller(0).expect("no other thread polls").sleep(None, &ForeignWakes::new());
        }
        foreign.join().unwrap();
        drop(far);
    });
}

#[test]
fn a_sleep_in_the_driver_ends_for_a_foreign_timer() {
    a_foreign_timer(false);
}

#[test]
fn a_long_sleep_in_the_driver_ends_for_a_sooner_foreign_timer() {
    a_foreign_timer(true);
}

/// A worker registers a timer on its own wheel and finds the driver taken: either it sleeps timed, or the
/// worker that is the poller does.
#[test]
fn a_worker_sleeps_untimed_only_if_the_poller_is_up_in_time() {
    model(|| {
        let driver = Arc::new(driver());
        let poller = thread::spawn({
            let driver = driver.clone();
            move || {
                _ = driver
                    .try_become_poller(1)
                    .expect("no other thread polls")
                    .sleep(None, &ForeignWakes::new())
            }
        });
        let (timer, _) = Timer::register(&driver, 0, NEAR);
        if driver.own_timeout(0).is_some() {
            // This worker sleeps timed, and the poller may sleep for ever: its sleep is ended here.
            driver.unpark();
        }
        poller.join().unwrap();
        drop(timer);
    });
}

/// The bug that was put back into the handshake of timers.
#[derive(Clone, Copy, PartialEq)]
enum Timed {
    Rightly,
    PollerWithoutFence,
    PollerLooksOnce,
    RegistersWithoutFence,
}

/// The handshake alone: two numbers. Returns whether the poller is up in time, by itself or because it is
/// told.
fn a_timer_of_a_twin(fault: Timed) {
    const AWAKE: u64 = 0;
    model(move || {
        // The earliest deadline of all wheels, and until when the poller sleeps.
        let numbers = Arc::new((AtomicU64::new(FAR), AtomicU64::new(AWAKE)));
        let poller = thread::spawn({
            let numbers = numbers.clone();
            move || {
                let (earliest, until) = &*numbers;
                let published = earliest.load(Relaxed); // PollerEarliest
                until.store(published, Relaxed); // PollerPublish
                if fault != Timed::PollerWithoutFence {
                    fence(SeqCst); // PollerFence
                }
                match fault {
                    Timed::PollerLooksOnce => published,
                    _ => earliest.load(Relaxed).min(published), // PollerAgain
                }
            }
        });
        let (earliest, until) = &*numbers;
        earliest.store(NEAR, Relaxed); // TokenTimerSet
        if fault != Timed::RegistersWithoutFence {
            fence(SeqCst); // TokenTimerFence
        }
        let until = until.load(Relaxed); // TokenTimerRead
        let tells = until != AWAKE && until > NEAR;
        let limit = poller.join().unwrap();
        assert!(tells || limit <= NEAR, "the timer is overslept");
    });
}

#[test]
fn a_twin_of_the_timers_handshake_without_a_fault_passes() {
    a_timer_of_a_twin(Timed::Rightly);
}

refused! {
    a_poller_without_a_fence: a_timer_of_a_twin(Timed::PollerWithoutFence), "the timer is overslept";
    a_poller_that_looks_once: a_timer_of_a_twin(Timed::PollerLooksOnce), "the timer is overslept";
    a_timer_registered_without_a_fence: a_timer_of_a_twin(Timed::RegistersWithoutFence),
        "the timer is overslept";
}

const _: () = assert!(Duration::from_nanos(FAR).as_secs() > 3600);
