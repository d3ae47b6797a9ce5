//! The computation for which the owner of a job processor works: its region (`job/region.rs`), its tag, and
//! the surroundings of its jobs.

use std::ptr::{NonNull, null};

use crate::job::region::Current;
use crate::job::{HeapRegion, JobRef, Question, Region, Tag};
use crate::scheduler::context;
use crate::scheduler::job_processor::{HELD, OVERFLOWED};
use crate::scheduler::jobs::kept::Kept;
use crate::scheduler::owner::OwnJobs;
use crate::scheduler::reference::Reference;
use crate::scheduler::shared::Shared;

impl OwnJobs {
    #[inline(always)]
    pub fn region(&self) -> *const Region {
        self.region.get()
    }

    #[inline(always)]
    pub fn tag(&self) -> Tag {
        self.tag.get()
    }

    /// The tag that restricts the owner's waits: inside of an isolated region, or on an external thread.
    /// Otherwise none.
    #[inline]
    pub fn waits_for(&self) -> Tag {
        self.held_to(self.tag())
    }

    /// As [`waits_for`](Self::waits_for), when the owner works for `tag`. An external thread's tag restricts
    /// only that thread.
    pub(super) fn held_to(&self, tag: Tag) -> Tag {
        if self.is_external() { tag } else { tag.without_external() }
    }

    /// The tag of the jobs that a job with this tag makes here. On an external thread it is the thread's own
    /// tag, also in a broadcast from another computation.
    pub(super) fn tag_inside(&self, tag: Tag) -> Tag {
        if self.is_external() && tag.without_external() == Tag::NONE { self.tag() } else { tag }
    }

    /// `ExternalLeaves` of `external.rs`: moves the jobs that are left for scopes around the call to a
    /// worker's overflow list. Returns whether there were any.
    ///
    /// # Safety
    /// 1. The call has ended, so there is no join job.
    pub unsafe fn end_external(&self) -> bool {
        let others = &self.shared().job_processor(0).overflow;
        let mut has_moved = false;
        // SAFETY: `pop`: (1) the view is the owner's. (2) is our (1). `from_raw`: (1) and (2) by the
        // invariant of the deque; `pop` claims a scope job.
        let pop = || unsafe { self.deque.pop(0).map(|job| JobRef::from_raw(job)) };
        let next = || pop().or_else(|| self.overflow.pop_front());
        while let Some(job) = next() {
            has_moved = true;
            others.push_back(job);
        }
        self.set_flag(OVERFLOWED, false);
        self.leave_regions();
        self.restart_poll_interval();
        has_moved
    }

    /// The owner leaves the job processor, or a computation around which there is none. A guard that is left
    /// finds out in `Entered::leave` (`context.rs`).
    pub fn leave_regions(&self) {
        // SAFETY: (1) no region.
        unsafe { self.replace_region(null(), Tag::NONE) };
    }

    /// Takes the kept regions, which are freed when they are dropped. The drop may run foreign code: the last
    /// reference to a runtime drops hooks. So it comes last, when nothing relies on the thread any more. The
    /// owner works in no region.
    #[must_use]
    pub fn take_kept_regions(&self) -> Vec<Kept> {
        self.kept.take_all()
    }

    /// The owner, a thread of a pool, begins to run jobs. If it has entered a runtime, around its life or in
    /// the start handler, that runtime is from now on the current one for its jobs of no region, and this
    /// returns a reference to it. So the owner leaves the region of the start handler's guard.
    ///
    /// # Safety
    /// 1. The caller keeps the reference until the owner has left the job processor for good.
    #[must_use = "the reference keeps the runtime"]
    pub unsafe fn adopt_current(&self) -> Option<Reference> {
        let current = context::current();
        self.leave_regions();
        self.entered.set(current.map(NonNull::cast));
        // SAFETY: (1) its entry keeps it.
        current.map(|current| unsafe { Reference::new(current) })
    }

    /// The runtime that is current for jobs of no region on this job processor. A pool is never current.
    fn current_on_thread(&self) -> Option<NonNull<Shared>> {
        let entered = || self.entered.get().map(NonNull::cast);
        self.shared().current_on_threads().or_else(entered)
    }

    /// The runtime that is current for jobs of `region` on this job processor.
    ///
    /// # Safety
    /// 1. `region` is null, or live until this returns.
    pub unsafe fn current_of(&self, region: *const Region) -> Option<NonNull<Shared>> {
        // SAFETY: (1).
        match unsafe { Region::current_of(region) } {
            Current::OfThread => self.current_on_thread(),
            Current::Is(current) => current.map(NonNull::cast),
        }
    }

    /// Runs `f` in surroundings of its own. `f` runs jobs of the owner's region, or of none.
    pub fn in_surroundings<R>(&self, f: impl FnOnce() -> R) -> R {
        // A guard may be dropped in `f`. If its region is used, it keeps the region and the runtime.
        // SAFETY: (1) the owner works in it.
        unsafe { Region::mark_used(self.region()) };
        // SAFETY: `current_of`: (1) the owner's region is live while it is set, and it is set until `f` has
        // ended. `in_surroundings`: (1) as long, its runtime is valid. The job processor's own pool, and the
        // runtime of `adopt_current`, are valid as long as the owner holds the job processor.
        unsafe { context::in_surroundings(self.current_of(self.region()), f) }
    }

    /// Makes `region`, with its tag, the region in which the owner works; returns the former one.
    ///
    /// # Safety
    /// 1. `region` is null, or live until it is replaced.
    pub unsafe fn replace_region(&self, region: *const Region, tag: Tag) -> (*const Region, Tag) {
        // The child jobs that are only begun belong to the former region.
        self.finish();
        // SAFETY: (1).
        self.question.set(unsafe { region.as_ref() }.map_or(null(), Region::asked_at_splits));
        self.end_budget();
        let before = (self.region.replace(region), self.tag.replace(tag));
        self.set_flag(HELD, self.waits_for() != Tag::NONE);
        before
    }

    /// Puts back the region in which the owner worked before, with its tag. If the guard of that region was
    /// dropped meanwhile, the owner leaves it at once. So no job is made there that would see the runtime of a
    /// later guard; see `kept.rs`.
    ///
    /// # Safety
    /// 1. As [`replace_region`](Self::replace_region).
    #[inline]
    pub unsafe fn put_region_back(&self, region: *const Region, tag: Tag) {
        // SAFETY: (1).
        unsafe { self.replace_region(region, tag) };
        self.leave_kept_regions();
    }

    /// A region inside of the owner's, in which `shared` is current. A frame (`is_frame`) frees its region,
    /// so it gets a new one.
    pub fn region_to_enter(&self, shared: NonNull<Shared>, is_frame: bool) -> HeapRegion {
        let (parent, tag) = (self.region(), self.tag());
        // SAFETY: (1) the region around is live. When it ends, this one is freed, or kept and not used until
        // it is taken again: see `kept.rs`.
        let kept = || unsafe { self.kept.take(parent, tag, shared.cast()) };
        // SAFETY: (1) as above.
        let new = || HeapRegion::new(unsafe { Region::entered(parent, tag, Some(shared.cast())) });
        let kept = if is_frame { None } else { kept() };
        kept.unwrap_or_else(new)
    }

    /// Keeps the region of a guard that is dropped; see `kept.rs`.
    ///
    /// # Safety
    /// 1. `shared`, the runtime that the guard has entered, is valid until this returns.
    pub unsafe fn keep_region(&self, region: HeapRegion, shared: NonNull<Shared>) {
        // SAFETY: (1).
        let hold = unsafe { Reference::new(shared) };
        self.kept.keep(region, shared.cast(), Box::new(hold));
    }

    #[inline]
    pub fn has_kept_regions(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Leaves the kept regions in which the owner works: their guards are gone.
    #[inline]
    pub fn leave_kept_regions(&self) {
        while let Some(around) = self.kept.around(self.region()) {
            // A guard that leaves it must keep it: jobs may refer to the region that this thread leaves.
            // SAFETY: (1) as in `Entered::leave`: the owner works in a region inside of it.
            unsafe {
                Region::mark_used(around);
                self.replace_region(around, self.tag());
            }
        }
    }

    /// Frees the kept regions, unless the owner works in the region of a guard that is left, which may be
    /// inside of one. The caller is outside of all computations. The drop of hooks is foreign code: see
    /// [`take_kept_regions`](Self::take_kept_regions).
    #[cold]
    pub fn free_regions(&self) {
        self.leave_kept_regions();
        if self.region().is_null() {
            drop(self.take_kept_regions());
        }
    }

    /// Whether the owner works in a computation that was cancelled, and that may be ended by unwinding.
    #[inline(always)]
    pub fn is_to_end(&self) -> bool {
        // SAFETY: it is a part of the job processor's region, which is live.
        unsafe { self.question.get().as_ref() }.is_some_and(Question::is_cancelled)
    }

    /// Runs a job as the owner, in the job's region, or around it if its guard was dropped: see `kept.rs`.
    ///
    /// # Safety
    /// 1. The caller has claimed the job.
    #[inline]
    pub unsafe fn run(&self, job: JobRef) {
        self.pass_split(true);
        // SAFETY: `run_inside`: (1) is our (1). `run_elsewhere`: (1) is our (1), because `run_inside` has not
        // run the job if it returns false.
        unsafe {
            // Mostly the job belongs to the computation that this thread works for already.
            if !job.run_inside(self.region(), self.tag()) {
                self.run_elsewhere(job);
            }
        }
    }

    /// Runs a job of another region than the owner's.
    ///
    /// # Safety
    /// 1. As [`run`](Self::run).
    #[inline(never)]
    unsafe fn run_elsewhere(&self, job: JobRef) {
        // SAFETY: `JobRef::region`, `JobRef::run`: (1) is our (1), and the job runs once.
        // `without_forgotten`, `replace_region`, `current_of`: (1) the region of a job that was claimed is
        // live until the job has ended, and so are those around. The owner's former region is live, because a
        // call on this stack works in it. Jobs do not unwind, so it is put back. `Reference::new`: (1) as
        // long as the region is live, its runtime is valid. `spill`: (1) `floor` was the head before the job,
        // which has taken back its own join jobs.
        unsafe {
            let inside = self.tag_inside(job.tag());
            let (region, tag) = self.replace_region(Region::without_forgotten(job.region()), inside);
            let (is_foreign, floor) = (self.held_to(inside) != self.held_to(tag), self.head());
            let current = self.current_of(self.region());
            // A job that ends the wait of a frame of another pool ends the region, too, and that frame may
            // drop the runtime that is current here before this thread has left the job.
            let mut _hold = None;
            if current == self.current_of(region) {
                job.run();
            } else {
                _hold = current.filter(|&current| current != self.shared_ptr()).map(|it| Reference::new(it));
                self.in_surroundings(|| job.run());
            }
            if is_foreign && self.head() > floor {
                // The jobs that are left belong to an isolated region, which waits for them and sees only the
                // oldest job of a deque. This thread may need what the region holds before it comes to these
                // jobs.
                self.spill(floor);
                self.shared().idle.fence_push();
                self.shared().post_child_job();
            }
            self.put_region_back(region, tag);
        }
    }
}
