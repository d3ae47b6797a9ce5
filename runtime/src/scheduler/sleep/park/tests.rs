use std::time::Instant;

use super::*;
use crate::driver::foreign::ForeignWakes;
use crate::driver::io::IoDriver;
use crate::util::joined::joined_scope;

/// Longer than any test.
const LONG: Duration = Duration::from_secs(10_000);

fn until_asleep(parker: &Parker) {
    while !parker.is_asleep() {
        thread::yield_now();
    }
}

#[test]
fn a_thread_that_was_unparked_does_not_sleep_once() {
    let (parker, driver) = (Parker::default(), Driver::new(None, None));
    parker.adopt_current_thread();
    parker.unpark(&driver);
    parker.unpark(&driver);
    parker.park_if(None, || unreachable!("it was unparked"));
    assert_eq!(parker.park_in_driver(|| 1), Some(1), "both unparks are used up");
    parker.unpark(&driver);
    assert_eq!(parker.park_in_driver(|| 1), None);
}

#[test]
fn others_see_a_thread_asleep_until_its_sleep_ends_or_is_ended() {
    let (parker, driver) = (Parker::default(), Driver::new(None, None));
    parker.adopt_current_thread();
    assert!(!parker.is_asleep());
    let sees = || {
        let asleep = parker.is_asleep();
        parker.unpark(&driver);
        (asleep, parker.is_asleep())
    };
    let mut seen = None;
    parker.park_if(None, || {
        seen = Some(sees());
        false
    });
    assert_eq!(seen, Some((true, false)));
    assert_eq!(parker.park_in_driver(sees), Some((true, false)));
    assert!(!parker.is_asleep());
    // The unpark was for the sleep that it has ended.
    let mut sleeps = false;
    parker.park_if(Some(Duration::ZERO), || {
        sleeps = true;
        true
    });
    assert!(sleeps);
}

#[test]
fn a_sleep_lasts_until_its_timeout() {
    let parker = Parker::default();
    // A park may end early. Mostly it does not.
    let lasts = || {
        let begin = Instant::now();
        parker.park(Some(Duration::from_millis(1)));
        begin.elapsed() >= Duration::from_millis(1)
    };
    assert!((0..100).any(|_| lasts()));
}

#[test]
fn an_unpark_ends_a_sleep_on_the_token() {
    let (parker, driver) = (Parker::default(), Driver::new(None, None));
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            parker.adopt_current_thread();
            // May end early.
            parker.park(Some(LONG));
        });
        until_asleep(&parker);
        assert_eq!(parker.thread_id(), Some(sleeper.thread().id()));
        parker.unpark(&driver);
        assert!(!parker.is_asleep());
        sleeper.join().unwrap();
    });
}

#[test]
fn an_unpark_ends_a_sleep_in_the_driver() {
    let parker = Parker::default();
    let driver = Driver::new(Some(IoDriver::new(16, None).unwrap()), None);
    joined_scope(|scope| {
        scope.spawn(|| {
            let foreign = ForeignWakes::new();
            let mut poller = driver.try_become_poller(0).unwrap();
            _ = parker.park_in_driver(|| poller.sleep(Some(LONG), &foreign));
        });
        until_asleep(&parker);
        parker.unpark(&driver);
    });
}
