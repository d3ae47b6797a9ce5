use crate::job::Tag;
use crate::scheduler::job_processor::{BREADTH_FIRST, HELD, OVERFLOWED};
use crate::scheduler::owner::OwnJobs;
use crate::scheduler::shared::tests::{IdleJob, NoThreads};

/// Calls `f` with the job processor of worker 0, whose owner this thread plays.
fn with_own(f: impl FnOnce(&OwnJobs)) {
    let runtime = NoThreads::new(2);
    // SAFETY: (1) no other thread knows the runtime.
    f(unsafe { runtime.job_processor(0).by_owner() });
}

#[test]
fn each_flag_is_set_and_cleared_by_itself() {
    with_own(|own| {
        let flags = || [BREADTH_FIRST, OVERFLOWED, HELD].map(|flag| own.has_flag(flag));
        assert_eq!(flags(), [false; 3]);
        own.set_flag(OVERFLOWED, true);
        own.set_flag(HELD, true);
        own.set_flag(OVERFLOWED, true);
        assert_eq!(flags(), [false, true, true]);
        own.set_flag(OVERFLOWED, false);
        own.set_flag(OVERFLOWED, false);
        assert_eq!(flags(), [false, false, true]);
    });
}

#[test]
fn a_split_point_is_a_step_of_the_poll_interval() {
    with_own(|own| {
        own.poll_interval.left.set(5);
        own.pass_split(false);
        own.pass_split(true);
        assert_eq!(own.poll_interval.left(), 3);
    });
}

#[test]
fn jobs_that_were_pushed_wait_in_the_deque_the_overflow_list_or_as_detached_ones() {
    let job = IdleJob::new();
    with_own(|own| {
        let waits = || (own.has_child_jobs(), own.has_pending_jobs());
        assert_eq!((waits(), own.head()), ((false, false), 0));
        // SAFETY: (1) the job lives until it was taken out.
        unsafe { own.push(job.tagged(Tag::NONE)) };
        assert_eq!((waits(), own.head()), ((true, true), 1));
        assert!(own.pop_anywhere().is_some());
        own.push_overflow(job.tagged(Tag::NONE));
        assert_eq!(waits(), (true, true));
        assert!(own.take_overflow().is_some());
        own.detached.push_back(job.tagged(Tag::NONE));
        assert_eq!(waits(), (false, true));
        assert!(own.take_detached().is_some());
        assert_eq!(waits(), (false, false));
    });
}
