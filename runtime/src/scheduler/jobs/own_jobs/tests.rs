//! Scope jobs and detached jobs of one job processor. Their tags tell them apart.

use std::ptr::{NonNull, null};

use super::*;
use crate::job::Question;
use crate::loom::sync::atomic::AtomicBool;
use crate::scheduler::job_processor::HELD;
use crate::scheduler::shared::tests::{IdleJob, NoThreads};

/// Calls `f` with the job processor of worker 0, whose owner this thread plays.
fn with_own(f: impl FnOnce(&NoThreads, &OwnJobs)) {
    let runtime = NoThreads::new(2);
    // SAFETY: (1) no other thread knows the runtime.
    f(&runtime, unsafe { runtime.job_processor(0).by_owner() });
}

/// The number of the tag of a job.
fn number(job: Option<JobRef>) -> Option<u16> {
    job.map(|job| job.tag().number())
}

fn push(own: &OwnJobs, job: &IdleJob, number: u16) {
    // SAFETY: (1) the tests take the jobs out before they drop them.
    unsafe { own.push(job.tagged(Tag::new(number))) };
}

fn pop(own: &OwnJobs, floor: u32) -> Option<u16> {
    // SAFETY: (1) the tests push no join job.
    number(unsafe { own.pop(floor) })
}

/// The owner works in the isolated region with this number from now on; 0 stands for none.
fn isolate(own: &OwnJobs, number: u16) {
    // SAFETY: (1) no region.
    unsafe { own.replace_region(null(), Tag::new(number)) };
}

#[test]
fn the_owner_takes_its_youngest_scope_job_down_to_a_floor() {
    let job = IdleJob::new();
    with_own(|runtime, own| {
        runtime.idle.announce_sleep(1, false);
        (1..=3).for_each(|number| push(own, &job, number));
        assert_eq!(runtime.unparked(), [1], "a job is posted");
        assert_eq!([(); 3].map(|()| pop(own, 1)), [Some(3), Some(2), None]);
        assert_eq!([(); 2].map(|()| pop(own, 0)), [Some(1), None]);
    });
}

#[test]
fn breadth_first_the_oldest_job_comes_first() {
    let job = IdleJob::new();
    with_own(|_, own| {
        own.set_flag(BREADTH_FIRST, true);
        (1..=4).for_each(|number| push(own, &job, number));
        assert_eq!([pop(own, 0), pop(own, 0), number(own.pop_anywhere())], [1, 2, 3].map(Some));
        assert_eq!(pop(own, 0), Some(4));
        (5..=6).for_each(|number| own.detached.push_back(job.tagged(Tag::new(number))));
        assert_eq!([(); 2].map(|()| number(own.take_detached())), [Some(5), Some(6)]);
    });
}

#[test]
fn the_youngest_detached_job_comes_first() {
    let job = IdleJob::new();
    with_own(|_, own| {
        (5..=6).for_each(|number| own.detached.push_back(job.tagged(Tag::new(number))));
        assert_eq!([(); 3].map(|()| number(own.take_detached())), [Some(6), Some(5), None]);
    });
}

#[test]
fn jobs_in_the_overflow_list_come_behind_those_in_a_deque_with_room() {
    let job = IdleJob::new();
    with_own(|_, own| {
        push(own, &job, 1);
        (2..=4).for_each(|number| own.push_overflow(job.tagged(Tag::new(number))));
        assert_eq!(number(own.take_overflow()), Some(2), "others take the oldest");
        assert_eq!([(); 4].map(|()| pop(own, 0)), [Some(1), Some(4), Some(3), None]);
        assert!(!own.has_flag(OVERFLOWED) && own.take_overflow().is_none());
    });
}

#[test]
fn an_isolated_owner_takes_only_its_own_jobs() {
    let job = IdleJob::new();
    with_own(|_, own| {
        [1, 7, 1].into_iter().for_each(|number| push(own, &job, number));
        (0..2).for_each(|_| own.push_overflow(job.tagged(Tag::new(7))));
        own.push_overflow(job.tagged(Tag::new(1)));
        isolate(own, 7);
        assert!(own.has_flag(HELD));
        assert_eq!([(); 3].map(|()| pop(own, 0)), [Some(7); 3]);
        assert_eq!(pop(own, 0), None, "the others went to the overflow list");
        isolate(own, 0);
        let left: Vec<_> = std::iter::from_fn(|| number(own.take_overflow())).collect();
        assert_eq!(left, [1, 1, 1]);
    });
}

#[test]
fn a_job_from_anywhere_is_the_youngest_unless_the_owner_is_isolated() {
    let job = IdleJob::new();
    with_own(|_, own| {
        (1..=3).for_each(|number| push(own, &job, number));
        assert_eq!(number(own.pop_anywhere()), Some(3));
        isolate(own, 1);
        assert_eq!(number(own.pop_anywhere()), Some(1), "the oldest, which may be run");
        assert_eq!(number(own.pop_anywhere()), None, "it is another region's");
        isolate(own, 0);
        assert_eq!(pop(own, 0), Some(2));
    });
}

#[test]
fn a_job_that_was_moved_is_found_by_its_address() {
    let [job, another] = [(); 2].map(|()| IdleJob::new());
    with_own(|_, own| {
        own.push_overflow(job.tagged(Tag::new(1)));
        own.push_overflow(another.tagged(Tag::new(2)));
        assert!(own.take_moved(another.header()) && !own.take_moved(another.header()));
        assert_eq!(number(own.take_overflow()), Some(1));
    });
}

#[test]
fn a_broadcast_waits_for_an_owner_that_may_run_it() {
    let job = IdleJob::new();
    with_own(|_, own| {
        assert!(!own.has_broadcast() && own.take_broadcast().is_none());
        (1..=2).for_each(|number| own.broadcasts.push_back(job.tagged(Tag::new(number))));
        isolate(own, 2);
        assert!(own.has_broadcast());
        assert_eq!([(); 2].map(|()| number(own.take_broadcast())), [Some(2), None]);
        assert!(!own.has_broadcast());
        isolate(own, 0);
        assert!(own.has_broadcast());
        assert_eq!(number(own.take_broadcast()), Some(1));
    });
}

#[test]
fn a_job_for_others_is_posted() {
    let job = IdleJob::new();
    with_own(|runtime, own| {
        runtime.idle.announce_sleep(1, false);
        own.leave_to_others(job.tagged(Tag::new(1)));
        assert_eq!((runtime.unparked(), number(own.take_overflow())), (vec![1], Some(1)));
    });
}

/// Calls `f` while this thread unwinds.
fn on_a_stack_that_unwinds(f: impl FnOnce()) {
    struct CallOnDrop<F: FnOnce()>(Option<F>);

    impl<F: FnOnce()> Drop for CallOnDrop<F> {
        fn drop(&mut self) {
            assert!(std::thread::panicking());
            self.0.take().unwrap()();
        }
    }

    let call = CallOnDrop(Some(f));
    let panics = || {
        let _call = call;
        std::panic::resume_unwind(Box::new(()));
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
}

#[test]
fn a_stack_that_unwinds_takes_no_job_of_another_computation_from_the_overflow_list() {
    let has_begun = AtomicBool::new(false);
    // SAFETY: (1) the question is not asked.
    let question = || unsafe { Question::new(NonNull::dangling(), NonNull::dangling(), (&has_begun).into()) };
    let [ours, theirs] = [(); 2].map(|()| Region::cancellable(question()));
    // SAFETY: (1) `ours` lives to the end of this test.
    let inner = unsafe { Region::entered(&ours, Tag::NONE, None) };
    let jobs = [null(), &raw const theirs, &raw const ours, &raw const inner].map(IdleJob::of);
    with_own(|_, own| {
        (1..).zip(&jobs).for_each(|(number, job)| own.push_overflow(job.tagged(Tag::new(number))));
        on_a_stack_that_unwinds(|| {
            assert_eq!((pop(own, 0), number(own.take_from_overflow())), (Some(1), None));
            // SAFETY: (1) it lives to the end of this test.
            unsafe { own.replace_region(&ours, Tag::NONE) };
            assert_eq!(
                (pop(own, 0), number(own.take_from_overflow()), pop(own, 0)),
                (Some(4), Some(3), None)
            );
            // SAFETY: (1) no region.
            unsafe { own.replace_region(null(), Tag::NONE) };
        });
        assert_eq!(number(own.take_from_overflow()), Some(2));
    });
}

#[test]
fn a_stack_that_unwinds_goes_depth_first() {
    let job = IdleJob::new();
    with_own(|_, own| {
        own.set_flag(BREADTH_FIRST, true);
        (1..=3).for_each(|number| push(own, &job, number));
        on_a_stack_that_unwinds(|| assert_eq!([(); 3].map(|()| pop(own, 1)), [Some(3), Some(2), None]));
        assert_eq!(pop(own, 1), Some(1));
    });
}
