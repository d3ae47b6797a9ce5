//! The owner of a job processor pushes jobs there, and takes jobs from there.

use std::ptr::NonNull;

use crate::job::{JobHeader, JobRef, Region, Tag};
use crate::queue::Taken;
use crate::scheduler::job_processor::{BREADTH_FIRST, OVERFLOWED};
use crate::scheduler::owner::OwnJobs;
use crate::scheduler::publish::SCOPE_LIMIT;

impl OwnJobs {
    /// Pushes a child job that its pusher does not take back, and publishes it.
    ///
    /// # Safety
    /// 1. The job lives until it has run.
    #[inline(always)]
    pub unsafe fn push(&self, job: JobRef) {
        // SAFETY: (1) the view is the owner's. (2) is our (1). (3) The limit is below the capacity.
        if !unsafe { self.deque.push_public(job.into_raw(), SCOPE_LIMIT) } {
            // SAFETY: (1).
            unsafe { self.push_behind_private(job) };
        }
        self.shared().post_child_job();
    }

    /// [`push`](Self::push) above private jobs, or into a full deque.
    ///
    /// # Safety
    /// 1. As [`push`](Self::push).
    #[cold]
    #[inline(never)]
    unsafe fn push_behind_private(&self, job: JobRef) {
        // Finishes the jobs below, before a scope job lies above them.
        self.finish();
        // SAFETY: `Deque::push`: (1) to (3) as in `push`. `Deque::publish`: (1) the view is the owner's; (2)
        // what is below was just finished, and `job` is no join item, so it is whole.
        unsafe {
            if self.deque.push(job.into_raw(), SCOPE_LIMIT) {
                self.deque.publish(u32::MAX);
            } else {
                self.push_overflow(job);
            }
        }
    }

    pub(super) fn push_overflow(&self, job: JobRef) {
        self.set_flag(OVERFLOWED, true);
        self.overflow.push_back(job);
    }

    /// Puts a child job that this thread may not run into the overflow list, where other threads find it.
    #[cold]
    pub(super) fn leave_to_others(&self, job: JobRef) {
        self.push_overflow(job);
        self.shared().post_child_job();
    }

    /// Takes back the child job at `index`, if it is private. A private one is the youngest, because the push
    /// of a scope job above it would have published it. Returns false if it is not private; then see
    /// [`take_back`](Self::take_back).
    ///
    /// # Safety
    /// 1. The caller has pushed it there and not taken it back, and has taken out all join jobs that came
    ///    afterwards.
    #[inline(always)]
    pub unsafe fn take_back_private(&self, index: u32) -> bool {
        // SAFETY: (1) the view is the owner's. (2), (3) are our (1): above a private job there is no scope
        // job.
        unsafe { self.deque.take_back_private(index) }
    }

    /// Takes back the child job at `index`, the youngest one. Returns `Stolen` if a thief has it.
    ///
    /// # Safety
    /// 1. The caller has pushed it there and not taken it back, and has taken out all that came afterwards.
    pub unsafe fn take_back(&self, index: u32) -> Taken {
        // SAFETY: (1) the view is the owner's. (2) is our (1).
        unsafe {
            let is_public = self.deque.is_public(index);
            let taken = self.deque.take_back(index);
            if is_public {
                self.learn(index, matches!(taken, Taken::Stolen));
            }
            taken
        }
    }

    /// Takes the job that `header` begins from the overflow list, if a thief has moved it there.
    pub fn take_moved(&self, header: NonNull<JobHeader>) -> bool {
        self.overflow.take_first(|job| job.is(header)).is_some()
    }

    /// Takes the youngest scope job at `floor` or above, or else one from the overflow list. That one may be
    /// of a scope around the caller's.
    ///
    /// # Safety
    /// 1. No join job is at `floor` or above.
    #[inline(always)]
    pub unsafe fn pop(&self, floor: u32) -> Option<JobRef> {
        Some(match self.flags.get() {
            // SAFETY: `Deque::pop`: (1) the view is the owner's. (2) is our (1). `from_raw`: (1) and (2) by
            // the invariant of the deque; `pop` claims a scope job.
            0 => unsafe { JobRef::from_raw(self.deque.pop(floor)?) },
            // SAFETY: (1).
            _ => unsafe { self.pop_slowly(floor) }?,
        })
    }

    /// [`pop`](Self::pop) in the rarer cases: the overflow list has a job; the owner goes breadth first, and
    /// takes the oldest job if it is the caller's; a publish budget may rely on the job that is taken; or the
    /// caller may run only jobs with its tag. On a stack that unwinds, the oldest job may be another
    /// computation's, so it goes depth first.
    ///
    /// # Safety
    /// 1. As [`pop`](Self::pop).
    #[inline(never)]
    unsafe fn pop_slowly(&self, floor: u32) -> Option<JobRef> {
        if self.has_flag(BREADTH_FIRST) && !std::thread::panicking() {
            self.publish(u32::MAX);
            return self.steal(self.waits_for());
        }
        if self.has_flag(OVERFLOWED) {
            // While there is room in the deque, its jobs are the younger ones.
            let is_full = self.head() >= SCOPE_LIMIT;
            // SAFETY: (1).
            let youngest = if is_full { None } else { unsafe { self.pop_scope_job(floor) } };
            let job = youngest.or_else(|| self.overflow.take_last(|&job| self.may_take(job)));
            // A thief (`steal_from_below`) or an external thread (`end_external`) may put a child job there
            // at any time, and does not set the flag. This function may then overlook that job. `steal` and
            // `take_overflow` do not overlook it, because they ask the list and not the flag.
            self.set_flag(OVERFLOWED, !self.overflow.is_empty());
            if job.is_some() {
                return job;
            }
        }
        // SAFETY: (1).
        unsafe { self.pop_scope_job(floor) }
    }

    /// Takes the youngest scope job of the deque at `floor` or above that may be run here. Jobs that may not
    /// be run here, made in an isolated region for a scope around it, go to the overflow list. If there is no
    /// job left, the next push gets index `floor` or a lower one.
    ///
    /// # Safety
    /// 1. As [`pop`](Self::pop).
    #[inline]
    pub unsafe fn pop_scope_job(&self, floor: u32) -> Option<JobRef> {
        let tag = self.waits_for();
        loop {
            // SAFETY: `Deque::pop`: (1) the view is the owner's. (2) is our (1). `from_raw`: (1) and (2) as
            // in `pop`.
            let job = unsafe { JobRef::from_raw(self.deque.pop(floor)?) };
            self.rely_no_more();
            if tag.may_run(job.tag()) {
                return Some(job);
            }
            self.leave_to_others(job);
        }
    }

    /// Takes a child job of this job processor: the youngest if it is a scope job, else the oldest.
    pub fn pop_anywhere(&self) -> Option<JobRef> {
        let tag = self.waits_for();
        // An isolated region tests the tag of each job, and can do so only at the old end.
        let is_lifo = tag == Tag::NONE && !self.has_flag(BREADTH_FIRST);
        // SAFETY: (1) the view is the owner's.
        let youngest = if is_lifo { unsafe { self.deque.pop_if_scope_item() } } else { None };
        self.rely_no_more();
        // SAFETY: (1) and (2) by the invariant of the deque; `pop_if_scope_item` has claimed the job.
        youngest.map(|job| unsafe { JobRef::from_raw(job) }).or_else(|| {
            self.publish(u32::MAX);
            self.steal(tag)
        })
    }

    /// Moves the scope jobs from `floor` on into the overflow list. Other threads find them there, and they
    /// do not hinder this thread.
    ///
    /// # Safety
    /// 1. As [`pop`](Self::pop).
    pub unsafe fn spill(&self, floor: u32) {
        // SAFETY: (1).
        while let Some(job) = unsafe { self.pop_scope_job(floor) } {
            self.leave_to_others(job);
        }
    }

    /// Queues a job for `spawn_fifo`. Returns a token for it.
    ///
    /// # Safety
    /// 1. The job processor outlives the token's run. 2. The token is pushed, and run once.
    pub unsafe fn push_fifo(&self, job: JobRef) -> JobRef {
        // SAFETY: (1) is our (1), because the queue is a part of the job processor. (2) is our (2). (3) Only
        // the owner has the view, and owners come one after the other.
        unsafe { self.fifo.push(job) }
    }

    /// Takes a detached job of this job processor, in the owner's order.
    pub fn take_detached(&self) -> Option<JobRef> {
        match self.has_flag(BREADTH_FIRST) {
            true => self.detached.pop_front(),
            false => self.detached.pop_back(),
        }
    }

    /// Takes a job from the overflow list, where thieves put some.
    pub fn take_overflow(&self) -> Option<JobRef> {
        if self.overflow.is_empty() { None } else { self.overflow.pop_front() }
    }

    /// Takes a child job from the overflow list, if the waiting holder may run it. A thief may have moved it
    /// there ([`steal_from_below`](JobProcessor::steal_from_below)).
    pub fn take_from_overflow(&self) -> Option<JobRef> {
        self.overflow.take_first(|&job| self.may_take(job))
    }

    /// Whether the waiting holder may run `job`, which is in the overflow list. There may be jobs of any
    /// computation. On a stack that unwinds, it runs only those of its own: see `wait.rs`.
    fn may_take(&self, job: JobRef) -> bool {
        // SAFETY: `JobRef::region`: (1) the job is in the list, whose lock the caller holds.
        // `Region::computation`: (1) so the job has not run, and its region is live. The holder's region is
        // live while it is set.
        let is_own = || unsafe { Region::computation(job.region()) == Region::computation(self.region()) };
        self.waits_for().may_run(job.tag()) && (!std::thread::panicking() || is_own())
    }

    /// Takes a job that only this job processor may run, if the waiting holder may run it.
    pub fn take_broadcast(&self) -> Option<JobRef> {
        let tag = self.waits_for().without_external();
        self.broadcasts.take_first(|job| tag.may_run(job.tag()))
    }

    /// Whether [`take_broadcast`](Self::take_broadcast) would find something.
    pub fn has_broadcast(&self) -> bool {
        let tag = self.waits_for().without_external();
        self.broadcasts.has(|job| tag.may_run(job.tag()))
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
