use super::{Injected, InjectedJobs};
use crate::job::Tag;
use crate::scheduler::shared::tests::IdleJob;

#[test]
fn the_workers_leave_when_the_shutdown_has_begun_and_nothing_is_counted_or_visible() {
    let jobs = InjectedJobs::new();
    assert!(!jobs.is_any_live());
    assert!(jobs.try_begin() && jobs.is_any_live());
    assert!(jobs.try_begin());
    assert!(!jobs.end(), "the shutdown has not begun");
    jobs.begin_closing();
    assert!(!jobs.try_close(|| unreachable!("a job is counted")));
    assert!(jobs.try_begin(), "a job may begin another one");
    assert!(!jobs.end(), "one is left");
    assert!(jobs.end(), "the last one unparks the workers");
    assert!(jobs.is_any_live(), "the workers look whether they may leave");
    assert!(!jobs.try_close(|| false), "work is visible");
    assert!(!jobs.is_closed());
    assert!(jobs.try_close(|| true) && jobs.is_closed());
    assert!(jobs.try_close(|| unreachable!("it is closed")));
}

#[test]
fn no_job_is_counted_once_the_workers_leave() {
    let jobs = InjectedJobs::new();
    jobs.begin_closing();
    assert!(jobs.try_begin());
    assert!(jobs.end());
    assert!(jobs.try_close(|| true));
    assert!(!jobs.try_begin() && !jobs.try_begin());
    assert!(jobs.is_closed());
    // Nothing was counted, so the end of one that was not counted would be seen.
    assert!(jobs.try_close(|| false));
}

#[test]
fn a_job_that_is_counted_while_a_worker_looks_keeps_the_workers() {
    let jobs = InjectedJobs::new();
    jobs.begin_closing();
    assert!(!jobs.try_close(|| jobs.try_begin()));
    assert!(!jobs.is_closed());
    assert!(jobs.end());
    // Another worker closes.
    assert!(jobs.try_close(|| jobs.try_close(|| true)));
}

#[test]
fn after_the_last_worker_no_job_is_counted() {
    let jobs = InjectedJobs::new();
    assert!(!jobs.is_closed());
    jobs.close();
    assert!(jobs.is_closed() && !jobs.is_any_live());
    assert!(!jobs.try_begin());
}

#[test]
fn a_waiter_takes_an_install_that_it_may_run() {
    let jobs = InjectedJobs::new();
    let [one, another] = [(); 2].map(|()| IdleJob::new());
    let [first, second, third] = [1, 2, 3].map(Tag::new);
    assert!(!jobs.has_installs() && !jobs.has_any());
    jobs.installs.push_back(one.tagged(first));
    jobs.installs.push_back(another.tagged(second));
    assert!(jobs.has_installs() && jobs.has_any() && !jobs.has_injected());
    assert_eq!([first, second, third].map(|tag| jobs.has_install(tag)), [true, true, false]);
    assert!(jobs.take_install(third).is_none());
    assert_eq!(jobs.take_install(second).map(|job| job.tag()), Some(second));
    assert_eq!([first, second].map(|tag| jobs.has_install(tag)), [true, false]);
    assert_eq!(jobs.take_install(Tag::NONE).map(|job| job.tag()), Some(first));
    assert!(!jobs.has_any());
}

#[test]
fn jobs_that_no_thread_waits_for_are_taken_in_their_order() {
    let jobs = InjectedJobs::new();
    let [one, another] = [(); 2].map(|()| IdleJob::new());
    let tags = [1, 2].map(Tag::new);
    jobs.injected.push_back(Injected::Spawn(one.tagged(tags[0])));
    jobs.injected.push_back(Injected::Spawn(another.tagged(tags[1])));
    assert!(jobs.has_injected() && jobs.has_any() && !jobs.has_installs());
    let taken = [(); 2].map(|()| match jobs.take_injected() {
        Some(Injected::Spawn(job)) => job.tag(),
        other => panic!("{other:?}"),
    });
    assert_eq!(taken, tags);
    assert!(jobs.take_injected().is_none() && !jobs.has_injected());
}
