//! Thieves: how a thread takes child jobs from another job processor.
//!
//! # Tiny child jobs
//! An owner runs a scope job that does next to nothing in 20 ns. A thief needs several times as long, because
//! the job, its memory, and the word of the deque come from the owner's cache. The owner needs these cache
//! lines again, and loses as much. So a thief measures the jobs that it has stolen, and takes several short
//! ones at once ([`BATCH`]). When they were [`TINY`], the thief stays away for a while ([`PAUSE`]). It does
//! not stay away for good, because the pusher of a job may wait for it.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::job::{JobRef, Tag};
use crate::loom::hint;
use crate::scheduler::job_processor::JobProcessor;
use crate::scheduler::owner::OwnJobs;
use crate::scheduler::publish::SCOPE_LIMIT;

/// Nanoseconds of work that a thief takes at once: several short scope jobs, or one job.
const BATCH: u128 = 2_000;

/// Nanoseconds of work, the theft included, below which a scope job is hardly worth a theft. A full batch of
/// longer jobs takes as long as [`PAUSE`].
pub(super) const TINY: u128 = 250;

/// How long a thief stays away after it has stolen tiny child jobs.
pub(super) const PAUSE: Duration = Duration::from_micros(8);

impl JobProcessor {
    /// Whether thieves find a child job here: a hint.
    pub fn has_public_child_jobs(&self) -> bool {
        !self.deque.is_nothing_public() || !self.overflow.is_empty()
    }

    /// Steals the oldest public child job that a thread inside the isolated region `tag` may run.
    pub fn steal(&self, tag: Tag) -> Option<JobRef> {
        let is_wanted = |job| tag.may_run(JobRef::tag_of(job));
        // SAFETY: (1) and (2) by the invariant of the deque; `Deque::steal` has claimed the job.
        let stolen = self.deque.steal(is_wanted).map(|job| unsafe { JobRef::from_raw(job) });
        if stolen.is_some() {
            self.ask_if_empty();
        }
        stolen.or_else(|| self.overflow.take_first(|job| tag.may_run(job.tag())))
    }

    /// As [`steal`](Self::steal), but also looks behind older child jobs. Older ones that may not be run here
    /// go to the overflow list, which can be searched by tag. Their owner finds them there as if they were
    /// stolen. So this is for threads that would sleep otherwise.
    pub fn steal_from_below(&self, tag: Tag) -> Option<JobRef> {
        let mut has_moved = false;
        let stolen = loop {
            // SAFETY: (1) and (2) as in `steal`.
            match self.deque.steal(|_| true).map(|job| unsafe { JobRef::from_raw(job) }) {
                Some(job) if !tag.may_run(job.tag()) => self.overflow.push_back(job),
                stolen => break stolen,
            }
            has_moved = true;
        };
        self.ask_if_empty();
        if has_moved {
            self.tell_of_moved();
        }
        stolen.or_else(|| self.overflow.take_first(|job| tag.may_run(job.tag())))
    }

    /// Wakes threads for child jobs that were moved to the overflow list. During the move no thread could see
    /// them; and their pusher may wait for one that only the pusher may run now (see
    /// [`take_moved`](OwnJobs::take_moved)).
    fn tell_of_moved(&self) {
        let shared = self.shared();
        shared.idle.fence_push();
        shared.post_child_job();
        shared.unpark_picked(Some(self.index()));
    }
}

/// The thief's own job processor.
impl OwnJobs {
    /// Takes at most `most` child jobs from `victim`. Returns the oldest and pushes the others here.
    ///
    /// # Safety
    /// 1. The caller is in no job.
    pub unsafe fn steal_several(&self, victim: &JobProcessor, most: u32) -> Option<JobRef> {
        let taken = Cell::new(1);
        let put = |job| {
            taken.set(taken.get() + 1);
            // SAFETY: `push`: (1) the view is the owner's. (2) The job's pusher keeps it until it has run.
            // (3) The limit is below the capacity. By our (1) no frame has a join job below, which it would
            // take back from under them. `from_raw`: (1) and (2) by the invariant of the victim's deque,
            // which gives the claimed job to this function; `push` has not taken it.
            unsafe {
                if !self.deque.push(job, SCOPE_LIMIT) {
                    self.push_overflow(JobRef::from_raw(job));
                }
            }
        };
        // Child jobs of isolated regions are taken one by one. In the deque of a thread that blocks, other
        // jobs could hide them.
        let is_open = |job| {
            let tag = JobRef::tag_of(job);
            tag == Tag::NONE || tag.is_external()
        };
        let job = match victim.deque.steal_several(most, is_open, put) {
            Some(job) => {
                victim.ask_if_empty();
                // SAFETY: (1) and (2) by the invariant of the victim's deque; `steal_several` has claimed the
                // job.
                unsafe { JobRef::from_raw(job) }
            }
            None => victim.steal(Tag::NONE)?,
        };
        self.theft.begin(taken.get(), Instant::now());
        // Publishes them, so that other threads find them here.
        if self.publish(u32::MAX) > 0 {
            self.shared().post_child_job();
        }
        Some(job)
    }

    /// The first job that `steal` takes from another job processor, beginning at `start`. Asks each job
    /// processor without a public job to publish one.
    pub fn steal_from_others(
        &self,
        start: usize,
        steal: impl Fn(&JobProcessor) -> Option<JobRef>,
    ) -> Option<JobRef> {
        let others = self.shared().processors.iter_from(start).filter(|&(index, _)| index != self.index());
        others.filter_map(|(_, processor)| processor.job_processor.as_ref()).find_map(|victim| {
            let job = steal(victim);
            match job {
                Some(_) => self.restart_poll_interval(),
                None => victim.ask(),
            }
            job
        })
    }

    /// How many child jobs the owner should steal at once, for about [`BATCH`] of work. Estimated from the
    /// last theft. If the last jobs were tiny, this pauses first.
    pub fn end_batch(&self) -> u32 {
        let Some((began, each)) = self.theft.end() else {
            return 1;
        };
        if each < TINY {
            self.pause_until(began + PAUSE);
        }
        (BATCH / each.max(1)).clamp(1, 32) as u32
    }

    /// Leaves the other job processors alone until then. It ends early if work has come from outside, because
    /// the work's pusher may rely on this thread.
    #[cold]
    fn pause_until(&self, end: Instant) {
        let shared = self.shared();
        while Instant::now() < end && shared.injector.is_empty() && !shared.injected_jobs.has_any() {
            hint::spin_loop();
        }
    }
}
