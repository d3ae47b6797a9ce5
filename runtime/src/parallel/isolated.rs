//! `isolated`: a part of a computation whose waits run only its own jobs.
//!
//! The part is a region with a tag of its own (`job/region.rs`). The word of each job that is made inside
//! holds the tag, and a thread that waits inside takes only jobs with its tag. A region inside another has a
//! tag of its own, too. Its jobs descend from both regions, but a job of the outer region may want what the
//! inner one holds.
//!
//! If a thread has no job processor, the thread's context holds its region, and the jobs that it sends to a
//! pool carry the region along.
//!
//! Tags are 16 bits of a word, so 65,534 regions can be open at once. Any further region is *solitary*: it
//! shares nothing, so it waits for nothing. Its thread counts as a thread without a job processor, and its
//! calls run in place. A region inside of a solitary one is solitary, too, even if there is a tag again. With
//! a tag it would hide the solitary part around it, and calls inside would look for the job processor that
//! the thread has put away.

use crate::job::{Region, Tag};
use crate::scheduler::OwnJobs;
use crate::scheduler::context;
use crate::util::numbers::Numbers;

/// Runs a closure in such a way that a thread that waits inside of it runs only parts of the closure.
///
/// While a thread waits for the second half of a [`join`](super::join) or the end of a `scope`, it runs any
/// other work on the same stack. If the code below holds a lock that this work needs, the thread waits for
/// itself, for ever. The same is true of a `RefCell`, a thread-local, or anything else that must not be
/// entered twice. Inside of `isolated`, the waiting thread takes only work that the closure has split off. So
/// does every thread that runs a part of the closure. If there is no such work, the thread sleeps.
///
/// Isolated parts can be nested. The inner part does not run work of the outer one. The closure runs on the
/// calling thread. A cancellation does not unwind code inside, because that would leave locks poisoned and
/// data half done. Such code can ask [`is_cancelled`](super::is_cancelled). Jobs that are spawned without a
/// scope, or in an outer scope, are no parts of the closure.
///
/// A `broadcast` inside has to wait for threads that are in other isolated parts. So two such broadcasts wait
/// for each other for ever.
///
/// There may be 65,534 isolated parts at a time in the process. Further ones run sequentially on their
/// threads.
///
/// # Examples
/// ```
/// use parking_lot::Mutex;
/// use runtime::parallel::{isolated, join};
///
/// static TOTAL: Mutex<u64> = Mutex::new(0);
///
/// fn add(numbers: &[u64]) {
///     if numbers.len() > 100 {
///         let (left, right) = numbers.split_at(numbers.len() / 2);
///         join(|| add(left), || add(right));
///         return;
///     }
///     let mut total = TOTAL.lock();
///     let (left, right) = numbers.split_at(numbers.len() / 2);
///     // Without `isolated`, a thread that waits here could begin another `add`, and lock again
///     // what it holds.
///     let (left, right) = isolated(|| join(|| left.iter().sum::<u64>(), || right.iter().sum::<u64>()));
///     *total += left + right;
/// }
///
/// # runtime::Runtime::new().unwrap().block_on(async {
/// let numbers: Vec<u64> = (0..10_000).collect();
/// runtime::compute(move || add(&numbers)).await.unwrap();
/// assert_eq!(*TOTAL.lock(), 49_995_000);
/// # });
/// ```
///
/// Prior art: `tbb::this_task_arena::isolate`.
pub fn isolated<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: (1) used in this call only.
    let processor = unsafe { context::job_processor() };
    let (outer, _) = super::cancel::current_region(processor);
    let number = if context::region().1 == Tag::SOLITARY { None } else { NUMBERS.take() };
    let Some(number) = number else {
        return solitary(outer, f);
    };
    // SAFETY: (1) the region around outlives this call, and so the region that is made here.
    let region = unsafe { Region::isolated(outer, Tag::new(number.get())) };
    let _inside = Inside::enter(processor, &region);
    f()
}

#[cold]
fn solitary<R>(outer: *const Region, f: impl FnOnce() -> R) -> R {
    /// Restores the thread's job processor when dropped.
    struct Hidden(*const OwnJobs);
    impl Drop for Hidden {
        fn drop(&mut self) {
            // SAFETY: (1) this pointer was there before, so a frame further out keeps it.
            unsafe { context::replace_job_processor(self.0) };
        }
    }
    // If a call inside blocks, it does not find the job processor. So the child jobs there are published
    // first.
    context::expose_child_jobs();
    // SAFETY: (1) null; `Hidden` puts the former value back.
    let _hidden = Hidden(unsafe { context::replace_job_processor(std::ptr::null()) });
    // SAFETY: as in `isolated`.
    let region = unsafe { Region::isolated(outer, Tag::SOLITARY) };
    let _inside = Inside::enter(None, &region);
    f()
}

/// The calling thread is in a region until this is dropped.
struct Inside<'a> {
    processor: Option<&'a OwnJobs>,
    outer: (*const Region, Tag),
}

impl<'a> Inside<'a> {
    /// The job processor is the calling thread's.
    fn enter(processor: Option<&'a OwnJobs>, region: &'a Region) -> Self {
        let outer = match processor {
            // SAFETY: (1) the region outlives `Self`, whose drop replaces it.
            Some(processor) => unsafe { processor.replace_region(region, region.tag) },
            None => context::replace_region(region, region.tag),
        };
        Self { processor, outer }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let (region, tag) = self.outer;
        match self.processor {
            // SAFETY: (1) the outer region is around this call, so it is live.
            Some(processor) => unsafe { processor.put_region_back(region, tag) },
            None => _ = context::replace_region(region, tag),
        }
    }
}

/// The numbers of tags. They are unique in the process, because pools share jobs. 0 is the number of
/// [`Tag::NONE`]. When a number is given back, all jobs of its region have ended, so no word holds it any
/// more.
static NUMBERS: Numbers = Numbers::below(Tag::SOLITARY.number());
