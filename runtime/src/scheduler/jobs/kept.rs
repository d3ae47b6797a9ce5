//! The regions of guards that were dropped, and to which jobs may still refer.
//!
//! A frame waits for the jobs that were made in its region, so its region ends with it. A guard that enters a
//! runtime (`Handle::enter`) waits for nothing, and may be dropped at any place of its thread. If jobs may
//! refer to its region ([`Region::mark_used`]), or the thread works in a region inside of it, the region
//! stays on the job processor. It is freed when the thread is outside of all computations and regions: then
//! no frame on its stack is left that could wait for such a job.
//!
//! Until then, each kept region holds its runtime, because a thread that begins a job may be about to enter
//! that runtime. And it serves the next guard that would make an equal region, so that a long computation
//! that enters a runtime again and again keeps a few. It does not serve a frame, which frees its region at
//! its end.
//!
//! A guard may also be dropped when its thread has left the job processor (`Entered::leave`). No frame that
//! worked there is left then, and its region is freed at once. A thread that leaves its job processor for
//! good takes the kept regions along. Their drop is foreign code, so it comes when nothing relies on the
//! thread.
//!
//! A frame that ends, or a guard, may put a kept region back as the present one. The thread leaves it at once
//! ([`put_region_back`](crate::scheduler::OwnJobs::put_region_back)). A thread that comes to a job of a kept
//! region works in the region around it. Otherwise it would make jobs in a region that names no runtime,
//! until the next guard that takes the region makes one current for them. This may still happen on another
//! thread that was in the region already when the guard was dropped: it stays there until its job ends, and
//! so do jobs of the region that it begins meanwhile.

use std::cell::RefCell;
use std::fmt;
use std::ptr::NonNull;

use crate::job::{HeapRegion, Region, Tag};

#[derive(Default)]
pub struct KeptRegions(RefCell<Vec<Kept>>);

pub struct Kept {
    region: HeapRegion,
    runtime: NonNull<()>,
    /// A reference to the runtime.
    _hold: Box<dyn Send>,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").field("region", &self.region).finish_non_exhaustive()
    }
}

impl KeptRegions {
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Keeps a region in which `runtime` was current. From now on, that of the region around is.
    pub fn keep(&self, region: HeapRegion, runtime: NonNull<()>, hold: Box<dyn Send>) {
        region.set_current(None);
        // A guard that takes it again must keep it, too.
        // SAFETY: (1) it is live.
        unsafe { Region::mark_used(region.as_ptr()) };
        self.0.borrow_mut().push(Kept { region, runtime, _hold: hold });
    }

    /// Takes a kept region that is a part of `parent` with `tag`, and in which `runtime` was current. It is
    /// again. `parent` may be another region than before, at the same address.
    ///
    /// # Safety
    /// 1. As [`Region::entered`].
    pub unsafe fn take(&self, parent: *const Region, tag: Tag, runtime: NonNull<()>) -> Option<HeapRegion> {
        let mut all = self.0.borrow_mut();
        let is_equal = |kept: &Kept| kept.runtime == runtime && kept.region.is_part_of(parent, tag);
        let place = all.iter().position(is_equal)?;
        let region = all.swap_remove(place).region;
        // SAFETY: (1).
        unsafe { region.renew_parent(parent) };
        region.set_current(Some(runtime));
        Some(region)
    }

    /// The region around `region`, if `region` is a kept one.
    pub fn around(&self, region: *const Region) -> Option<*const Region> {
        let all = self.0.borrow();
        all.iter().find(|kept| std::ptr::eq(kept.region.as_ptr(), region)).map(|kept| kept.region.parent())
    }

    #[must_use = "they are freed when they are dropped"]
    pub fn take_all(&self) -> Vec<Kept> {
        self.0.take()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::ptr::null;
    use std::sync::Arc;

    use super::*;
    use crate::job::region::Current;

    fn runtime(number: usize) -> NonNull<()> {
        NonNull::new(std::ptr::without_provenance_mut(number * 8)).unwrap()
    }

    fn region(parent: *const Region, current: NonNull<()>) -> HeapRegion {
        // SAFETY: (1) the tests keep the parents.
        HeapRegion::new(unsafe { Region::entered(parent, Tag::NONE, Some(current)) })
    }

    #[test]
    fn an_equal_region_is_taken_again_and_no_other() {
        let kept = KeptRegions::default();
        let outer = region(null(), runtime(1));
        let inner = region(outer.as_ptr(), runtime(2));
        let address = inner.as_ptr();
        let current = || {
            // SAFETY: (1) it is kept.
            unsafe { Region::current_of(address) }
        };
        assert!(!inner.is_used() && kept.around(address).is_none());
        kept.keep(inner, runtime(2), Box::new(()));
        assert_eq!(current(), Current::Is(Some(runtime(1))));
        // SAFETY: (1) it is kept, and `outer` lives.
        let works_in = || unsafe { Region::without_forgotten(address) };
        assert!(!outer.is_used() && std::ptr::eq(works_in(), outer.as_ptr()) && outer.is_used());
        assert_eq!((kept.around(address), kept.around(outer.as_ptr())), (Some(outer.as_ptr()), None));
        // SAFETY: (1) the tests keep the parents.
        let take = |parent, tag, runtime| unsafe { kept.take(parent, tag, runtime) };
        assert!(take(null(), Tag::NONE, runtime(2)).is_none());
        assert!(take(outer.as_ptr(), Tag::new(1), runtime(2)).is_none());
        assert!(take(outer.as_ptr(), Tag::NONE, runtime(1)).is_none());
        let again = take(outer.as_ptr(), Tag::NONE, runtime(2)).expect("there is an equal one");
        assert!(std::ptr::eq(again.as_ptr(), address) && again.is_used() && kept.is_empty());
        assert!(std::ptr::eq(works_in(), address));
        assert_eq!(current(), Current::Is(Some(runtime(2))));
    }

    #[test]
    fn a_kept_region_holds_its_runtime() {
        let (kept, hold) = (KeptRegions::default(), Arc::new(()));
        (1..3).for_each(|number| {
            kept.keep(region(null(), runtime(number)), runtime(number), Box::new(hold.clone()));
        });
        // SAFETY: (1) null.
        drop(unsafe { kept.take(null(), Tag::NONE, runtime(1)) });
        assert_eq!((Arc::strong_count(&hold), kept.is_empty()), (2, false));
        drop(kept.take_all());
        assert_eq!((Arc::strong_count(&hold), kept.is_empty()), (1, true));
    }
}
