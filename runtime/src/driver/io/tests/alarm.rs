//! The alarm ends a wait of the poller.

use super::*;

/// The time in nanoseconds on the clock that an alarm follows.
fn system_nanos() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live local, and the call writes one `timespec` to it.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) }, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn driver_with_alarm() -> Arc<IoDriver> {
    Arc::new(IoDriver::new(64, None).unwrap().with_alarm())
}

#[test]
fn an_alarm_ends_a_wait_and_never_early_and_need_not_count_milliseconds() {
    let driver = driver_with_alarm();
    let mut poller = driver.try_poller().unwrap();
    let mut wait = || {
        let (start, after) = (system_nanos(), 300_000);
        assert!(poller.set_alarm(start + after));
        assert_eq!(turn_for(&mut poller, None), 0, "the alarm's event is for no source");
        let took = system_nanos() - start;
        assert!(took >= after, "{took} ns");
        assert!(!poller.is_alarm_set());
        took
    };
    // In whole milliseconds, the second and the third wait would take a millisecond each. On a busy machine
    // it may take some tries.
    let mut least = u64::MAX;
    for _ in 0..10_000 {
        least = least.min(wait() + wait() + wait());
        if least < 1_800_000 {
            return;
        }
    }
    panic!("three waits of 300 µs took at least {least} ns");
}

#[test]
fn an_alarm_in_the_past_goes_off_at_once() {
    let driver = driver_with_alarm();
    let mut poller = driver.try_poller().unwrap();
    for time in [1, 2, system_nanos()] {
        assert!(poller.set_alarm(time));
        turn_for(&mut poller, None);
        assert!(!poller.is_alarm_set());
    }
}

#[test]
fn an_alarm_outlives_a_wait_that_ended_for_another_reason() {
    let driver = driver_with_alarm();
    let time = system_nanos() + 20_000_000;
    for _ in 0..3 {
        let mut poller = driver.try_poller().unwrap();
        assert!(poller.set_alarm(time));
        driver.unpark();
        turn_for(&mut poller, None);
        assert!(poller.is_alarm_set() || system_nanos() >= time, "the unpark took the alarm");
    }
    let mut poller = driver.try_poller().unwrap();
    assert!(poller.set_alarm(time));
    turn_for(&mut poller, None);
    assert!(system_nanos() >= time && !poller.is_alarm_set());
    // The same time once more: the alarm is set anew, although it was set to that time before.
    assert!(poller.set_alarm(time));
    turn_for(&mut poller, None);
    assert!(!poller.is_alarm_set());
}

#[test]
fn an_alarm_that_is_put_off_does_not_go_off_for_its_old_time() {
    let driver = driver_with_alarm();
    let mut poller = driver.try_poller().unwrap();
    assert!(poller.set_alarm(1));
    let time = system_nanos() + 5_000_000;
    assert!(poller.set_alarm(time));
    turn_for(&mut poller, None);
    assert!(system_nanos() >= time);
}

#[test]
fn a_nonblocking_poll_does_not_swallow_the_alarm_of_the_poller() {
    let driver = driver_with_alarm();
    let mut poller = driver.try_poller().unwrap();
    assert!(poller.set_alarm(1));
    poll_nonblocking(&driver);
    // Waits for ever if the non-blocking poll took the alarm.
    turn_for(&mut poller, None);
    assert!(!poller.is_alarm_set());
    assert!(poller.set_alarm(1));
    turn_for(&mut poller, None);
    assert!(!poller.is_alarm_set());
}
