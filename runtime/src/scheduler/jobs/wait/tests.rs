//! What a waiter may take. Tags tell the jobs apart.

use std::ptr::null;

use super::*;
use crate::scheduler::shared::tests::{IdleJob, NoThreads};

/// What waiter `own` finds in its last look before a sleep.
fn find_anywhere(own: &OwnJobs) -> Option<u16> {
    // SAFETY: (1) the tests push no join job.
    let job = unsafe { own.find_child_job_anywhere(Host::External, 0) };
    job.map(|job| job.tag().number())
}

/// `job` with each of these tags lies on a job processor, the first as the oldest.
fn push(own: &OwnJobs, job: &IdleJob, tags: [Tag; 2]) {
    // SAFETY: (1) the tests take the jobs out before they drop them.
    tags.into_iter().for_each(|tag| unsafe { own.push(job.tagged(tag)) });
}

#[test]
fn a_waiter_of_an_isolated_region_takes_its_job_from_below_an_older_one() {
    let (runtime, job) = (NoThreads::new(2), IdleJob::new());
    // SAFETY: (1) no other thread knows the runtime.
    let [own, victim] = [0, 1].map(|index| unsafe { runtime.job_processor(index).by_owner() });
    push(victim, &job, [1, 2].map(Tag::new));
    // SAFETY: (1) no region.
    unsafe { own.replace_region(null(), Tag::new(2)) };
    assert_eq!(find_anywhere(own), Some(2));
    assert_eq!(victim.overflow.take_first(|_| true).map(|job| job.tag().number()), Some(1));
}

#[test]
fn an_external_thread_leaves_the_jobs_of_other_calls_in_their_deque() {
    let (runtime, job) = (NoThreads::new(2), IdleJob::new());
    [0, 1].into_iter().for_each(|index| runtime.idle.announce_sleep(index, false));
    let (external, tag) = runtime.take_external().unwrap();
    // SAFETY: (1) no region.
    unsafe { external.replace_region(null(), tag) };
    // SAFETY: (1) no other thread knows the runtime.
    let victim = unsafe { runtime.job_processor(0).by_owner() };
    push(victim, &job, [Tag::new(1), tag]);
    assert_eq!(find_anywhere(external), None);
    assert!(victim.overflow.is_empty());
    assert_eq!(victim.steal(Tag::NONE).map(|job| job.tag().number()), Some(1));
    assert_eq!(find_anywhere(external), Some(tag.number()), "now its own is the oldest");

    push(victim, &job, [Tag::new(1), tag]);
    runtime.monitor.set_jobs_wait(true);
    assert_eq!(find_anywhere(external), Some(tag.number()), "no worker may come to it");
    assert_eq!(victim.overflow.take_first(|_| true).map(|job| job.tag().number()), Some(1));
}

#[test]
fn on_top_of_many_waits_a_waiter_takes_only_its_own_jobs() {
    let (runtime, job) = (NoThreads::new(2), IdleJob::new());
    // SAFETY: (1) no other thread knows the runtime.
    let [own, other] = [0, 1].map(|index| unsafe { runtime.job_processor(index).by_owner() });
    push(other, &job, [1, 2].map(Tag::new));
    push(own, &job, [3, 4].map(Tag::new));
    own.waits.set(DEEPEST + 1);
    assert_eq!([(); 3].map(|()| find_anywhere(own)), [Some(4), Some(3), None]);
    own.waits.set(DEEPEST);
    assert_eq!([(); 3].map(|()| find_anywhere(own)), [Some(1), Some(2), None]);
}
