//! When the owner of a job processor publishes its child jobs.
//!
//! # Sharing
//! A child job that is not published costs no read-modify-write, and a thread that is woken for nothing costs
//! 2 to 6 µs. But a child job that is not published while other workers are hungry leaves a CPU idle. A push
//! applies these rules, in this order:
//! 1. Deep in a recursion ([`EAGER`] child jobs below it), and with something public: the owner does nothing
//!    for as long as that is public. A thief takes the oldest child job, which is the biggest, and the next
//!    push publishes the next one.
//! 2. With something public and no thief hungry: the owner does nothing for a few pushes.
//! 3. A child job that is typically [`SHORT`], by its index, is not worth a theft. So the owner does nothing
//!    for [`PATIENCE`] pushes, and then looks at the clock. It repeats this until the oldest private child
//!    job has proven long.
//! 4. The owner publishes, and wakes a thread (`idle.rs`). While thieves are hungry, it publishes all private
//!    child jobs that are typically long, because the first ones of a recursion are nearly all of its work,
//!    and the owner may be in a long leaf next. Otherwise it publishes one. Then it goes on as in 1, or
//!    applies the rules again at the next push.
//!
//! The owner learns the typical time from published child jobs: the time between publishing one and taking it
//! back measures the other half. Of short child jobs, one in [`PATIENCE`] pushes is published only for this
//! measurement, without a wake. Rule 3 has a price. If child jobs were short at some depth, a long one there
//! is not shared before the owner looks at the clock again, or blocks ([`OwnJobs::expose_child_jobs`]).
//! A child job that is being timed is noted in its slot, so that another one in its place is not taken for
//! it.
//!
//! Few halves of a `join` are ever published. So a push does not write the fields that only a thief needs
//! (the region, the latch, the tag). The push only *begins* the job. [`OwnJobs::finish`] *finishes* the
//! job before it is published, and before the job processor's region changes.
//!
//! These rules hold for halves of a `join`. A scope job is always published when it is pushed, because its
//! pusher may wait for it by other means than its scope.
//!
//! # The publish budget
//! A push that only has to push should cost no more than that. So the owner applies the rules only now and
//! then ([`OwnJobs::push_slowly`]). The rules set a *publish budget*: a number of pushes for which the
//! owner does nothing else. The budget also ends with the poll interval of `split.rs`, so one countdown does
//! for both.
//! ```text
//! left     pushes that are left of the budget: the owner counts it down, by load and store; the thread that
//!          makes it zero ends the budget, and the next push goes through the rules
//! ```
//! A publish budget is never longer than the space for its pushes. Scope jobs leave a part of the deque to
//! halves of a `join` ([`SCOPE_LIMIT`]): `left` + the larger of `head` and this limit never exceeds the
//! capacity.
//!
//! Within a publish budget, a push does not ask whether its computation was cancelled. So a publish budget
//! belongs to one computation, and the thread that cancels that computation ends the publish budget
//! (`parallel/cancel.rs`).
//!
//! A thief makes `left` zero when it has found nothing, or has taken the last public child job
//! ([`JobProcessor::ask`]). The owner makes `left` zero when a publish budget relies on a public child job
//! (rule 1) and the owner takes that job back. The owner may overwrite a thief's zero. So no publish budget
//! is longer than [`PATIENCE`] where there are thieves, and a thief that finds nothing again asks again.

use std::ptr::{NonNull, null};

use crate::job::stack::StackHead;
use crate::job::{JobHeader, JobRef, Region, SpinLatch};
use crate::loom::DEQUE_CAPACITY;
use crate::loom::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::loom::sync::atomic::fence;
use crate::scheduler::estimate::{EAGER, SHORT};
use crate::scheduler::job_processor::{JobProcessor, RELIES_ON_PUBLIC};
use crate::scheduler::owner::OwnJobs;

/// The longest publish budget where there are thieves.
const PATIENCE: u32 = 64;

/// The longest publish budget for a computation that began in another pool. The thread that cancels such a
/// computation does not end the publish budget.
const FOREIGN: u32 = 16;

/// Scope jobs lie only below this index.
pub(super) const SCOPE_LIMIT: u32 = (DEQUE_CAPACITY - if DEQUE_CAPACITY > 4096 { 1024 } else { 1 }) as u32;

impl OwnJobs {
    /// Pushes a child job that its pusher takes back by [`take_back`](Self::take_back), and returns its
    /// index. Returns `None` at the end of a publish budget; the caller then pushes the job by
    /// [`push_slowly`](Self::push_slowly). (Two calls, so that the fast path has no second test.)
    ///
    /// # Safety
    /// 1. The job is begun ([`StackJob::begin`](crate::job::StackJob::begin)), and lives until it has run or
    ///    was taken back.
    #[inline(always)]
    pub unsafe fn push_within_budget(&self, job: NonNull<StackHead<SpinLatch<JobProcessor>>>) -> Option<u32> {
        // Relaxed: a hint.
        let left = self.left.load(Relaxed) - 1;
        if left < 0 {
            return None;
        }
        // Relaxed: this may overwrite a thief's zero; see the module's docs.
        self.left.store(left, Relaxed);
        // SAFETY: (1) the view is the owner's. (2) The deque has space for every push of a publish budget.
        // (3) Every function that publishes the job finishes it first; it is valid by our (1).
        Some(unsafe { self.deque.begin_join_item(job.as_ptr().cast()) })
    }

    /// A push at the end of a publish budget. It is also a split point, and perhaps the end of a poll
    /// interval. Returns `None` if the deque is full.
    ///
    /// # Safety
    /// 1. As [`push_within_budget`](Self::push_within_budget).
    #[cold]
    #[inline(never)]
    pub unsafe fn push_slowly(&self, job: NonNull<StackHead<SpinLatch<JobProcessor>>>) -> Option<u32> {
        // Counts the whole publish budget, also if a thief has ended it early: a poll interval that is too
        // short does no harm.
        if self.poll_interval.pass_many(self.budget.take() + 1) {
            self.look(false);
        }
        if self.head() == DEQUE_CAPACITY as u32 {
            return None;
        }
        let unwinds = self.unwinds();
        if unwinds {
            self.finish_in(self.region.get());
        }
        // SAFETY: (1) and (3) as in `push_within_budget`. (2) There is space.
        let index = unsafe { self.deque.begin_join_item(job.as_ptr().cast()) };
        if unwinds {
            self.finish_in(null());
        }
        self.set_flag(RELIES_ON_PUBLIC, false);
        let room = DEQUE_CAPACITY as u32 - SCOPE_LIMIT.max(index + 1);
        let budget = self.share(index).min(self.poll_interval.left()).min(room);
        self.set_budget(if unwinds { 0 } else { budget });
        Some(index)
    }

    /// Grants this many pushes, if the computation goes on: `SetBudget` to `AskAgain` of
    /// `parallel/cancel.rs`.
    pub fn set_budget(&self, pushes: u32) {
        // SAFETY: it is a part of the job processor's region, which is live.
        let question = unsafe { self.question.get().as_ref() };
        let is_foreign = question.is_some_and(|question| !question.is_of(self.shared_ptr().cast()));
        let pushes = if is_foreign { pushes.min(FOREIGN) } else { pushes };
        // The pushes of the publish budget write without a test of the capacity.
        assert!(
            pushes + SCOPE_LIMIT.max(self.head()) <= DEQUE_CAPACITY as u32,
            "a publish budget is longer than there is room"
        );
        self.budget.set(pushes);
        self.left.store(pushes as i32, Relaxed);
        if question.is_some() {
            // SeqCst: pairs with the fence of `end_budgets`. Either `end_budgets` finds the publish budget,
            // or this finds the mark.
            fence(SeqCst);
            if self.is_to_end() {
                self.end_budget();
            }
        }
    }

    /// Ends the publish budget.
    pub(super) fn end_budget(&self) {
        self.left.store(0, Relaxed);
    }

    /// The owner has taken back a job that was public, so a publish budget by rule 1 ends.
    #[inline]
    pub(super) fn rely_no_more(&self) {
        if self.has_flag(RELIES_ON_PUBLIC) {
            self.set_flag(RELIES_ON_PUBLIC, false);
            self.end_budget();
        }
    }

    /// The publish budget of rule 1. While thieves are hungry, the next child jobs near the root of the
    /// recursion are for them.
    pub(super) fn rely_on_public(&self, is_hungry: bool) -> u32 {
        self.set_flag(RELIES_ON_PUBLIC, true);
        if is_hungry { 2 * EAGER } else { PATIENCE }
    }

    /// Applies the rules to the push at `index`, and returns the publish budget.
    fn share(&self, index: u32) -> u32 {
        let shared = self.shared();
        if shared.config.workers == 1 {
            return u32::MAX;
        }
        let is_hungry = shared.is_hungry();
        if !self.deque.is_nothing_public() {
            if index >= EAGER {
                return self.rely_on_public(is_hungry);
            }
            if !is_hungry {
                return 2 * EAGER;
            }
        }
        // SAFETY: (1) the view is the owner's.
        let oldest = unsafe { self.deque.first_private() };
        let estimate = self.estimates.at(oldest);
        let known_for = self.known_for(oldest);
        if known_for.is_none() {
            self.finish();
            // SAFETY: (1) the view is the owner's. (2) There is a private job at this index: the one that was
            // just pushed, or an older one. Scope jobs are public, so it is a join job. It was just finished.
            unsafe { self.deque.note(oldest) };
        }
        if estimate.is_short() {
            if known_for.is_none_or(|nanos| nanos < SHORT) {
                if known_for.is_none() {
                    estimate.begin(oldest);
                }
                if oldest == index {
                    self.publish(1);
                }
                return PATIENCE;
            }
            estimate.set_long();
        }
        let long = (oldest..=index).take_while(|&index| !self.estimates.at(index).is_short()).count();
        self.publish(if is_hungry { long as u32 } else { 1 });
        shared.post_child_job();
        if known_for.is_none() {
            // After the wake, which takes microseconds.
            estimate.begin(oldest);
        }
        if index + 1 < EAGER { 0 } else { self.rely_on_public(is_hungry) }
    }

    /// For how many nanoseconds the child job at `index` has been there, if it is being timed.
    pub(super) fn known_for(&self, index: u32) -> Option<u32> {
        // SAFETY: (1) the view is the owner's.
        self.estimates.at(index).known_for(index, || unsafe { self.deque.is_noted(index) })
    }

    /// Learns from a published child job that was taken back, or stolen.
    pub(super) fn learn(&self, index: u32, is_stolen: bool) {
        if let Some(nanos) = self.known_for(index) {
            self.estimates.at(index).learn(index, nanos);
        }
        if is_stolen {
            self.end_budget();
        }
        self.rely_no_more();
    }

    /// Whether the owner is in a destructor, or the like, of a computation that may be cancelled. As in
    /// `enter::region_of`: this stack cannot go on with a cancellation of a job that is pushed now.
    fn unwinds(&self) -> bool {
        !self.question.get().is_null() && std::thread::panicking()
    }

    /// Writes the missing fields of the child jobs that are only begun. On a stack that unwinds, some of them
    /// may have been pushed within a publish budget that was left. So none of them gets a region. An older
    /// one then runs on after a cancellation, and its result is dropped. Each of them, also one of a `join` in
    /// a destructor, finds no runtime that was entered, if another thread takes it.
    #[inline]
    pub(super) fn finish(&self) {
        self.finish_in(if self.unwinds() { null() } else { self.region.get() });
    }

    /// As [`finish`](Self::finish), for jobs of `region`: the present one, or none.
    fn finish_in(&self, region: *const Region) {
        let finish = |job: *mut JobHeader| {
            // SAFETY: `mark_used`: (1) the owner works in it. `finish`: (1) the deque passes only jobs that
            // are begun and private, so no other thread knows them. (2) They were pushed in the present
            // region, because `replace_region` comes here first. The `join` that pushed a job ends inside of
            // that region. `JobRef::new`: (1) is duty 1 of the push. (2) The deque gives each item out once.
            unsafe {
                Region::mark_used(region);
                let job = NonNull::new_unchecked(job.cast());
                StackHead::<SpinLatch<JobProcessor>>::finish(job, region, SpinLatch::new(self));
                JobRef::new(job.cast(), self.tag.get()).into_raw()
            }
        };
        // SAFETY: (1) the view is the owner's.
        unsafe { self.deque.finish(finish) };
    }

    /// Publishes the oldest `n` private child jobs, or all if there are fewer. Returns how many it published.
    #[inline]
    pub(super) fn publish(&self, n: u32) -> u32 {
        self.finish();
        // SAFETY: (1) the view is the owner's. (2) Just finished.
        unsafe { self.deque.publish(n) }
    }

    /// Publishes all child jobs, because the owner will not come back soon. Returns whether one was private.
    pub fn publish_all(&self) -> bool {
        self.publish(u32::MAX) > 0
    }
}

/// What thieves write.
impl JobProcessor {
    /// A thief wants a job, so the next push applies the rules.
    pub fn ask(&self) {
        if self.left.load(Relaxed) > 0 {
            self.left.store(0, Relaxed);
        }
    }

    /// A thief has taken a job. If it was the last public one, the owner may have relied on it.
    pub(super) fn ask_if_empty(&self) {
        if self.deque.is_nothing_public() {
            self.ask();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
