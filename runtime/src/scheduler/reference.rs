//! A counted reference to the shared state of a runtime, which is what a handle holds; and how long that
//! state lives.
//!
//! # The life of the shared state
//! The state is freed when nothing can reach it any more: no handle, no cell of a task, no thread, and no
//! registered timer or descriptor (a timer or descriptor holds a handle). If one atomic number counted all of
//! these, every spawn would write a cache line that the whole runtime shares. So a worker counts up and down
//! in a plain cell of its own, and all other threads count in `references`:
//! ```text
//! true count = references - BIAS (until the last worker has left) + the sum of the workers' own counts
//!            + the newborn tasks that came through the injector from outside (until the same moment)
//! ```
//! - A newborn task from outside is counted under the lock that its spawner takes anyway. At that time no
//!   worker can have the task yet, and free it. The last worker to leave closes the injector. From then on
//!   the number of these tasks is final, and that worker adds it to `references`. A later spawner is refused,
//!   and counts its task itself.
//! - A worker adds its own count to `references` when it leaves. The last worker to leave also subtracts
//!   BIAS.
//! - While BIAS is in, `references` cannot reach zero: a runtime would first have to free 2^62 cells on
//!   foreign threads.
//! - Once BIAS is out, `references` is the true count. The thread that brings it to zero frees the state.
//!
//! Every subtraction is AcqRel, so all uses happen before the free. After a subtraction, a thread does not
//! touch the shared state unless it holds another reference. A worker needs no reference until it has left.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;

use super::context;
use super::shared::Shared;

/// A reference to the shared state; see the module's docs.
#[derive(Debug)]
pub struct Reference {
    shared: NonNull<Shared>,
}

// SAFETY: `Shared` is `Sync`, so any thread may use the state. Nothing in the state belongs to one thread, so
// any thread may free it.
unsafe impl Send for Reference {}
// SAFETY: as above.
unsafe impl Sync for Reference {}
impl UnwindSafe for Reference {}
impl RefUnwindSafe for Reference {}

impl Reference {
    /// # Safety
    /// 1. `shared` is valid until this returns.
    #[inline]
    pub unsafe fn new(shared: NonNull<Shared>) -> Self {
        // SAFETY: (1) by our (1): what keeps the state valid until this returns is a reference, or a worker.
        unsafe { Shared::retain(shared) };
        Self { shared }
    }

    /// Takes over the reference that [`Shared::new`] returns.
    ///
    /// # Safety
    /// 1. The caller has a reference, and gives it up.
    #[inline]
    pub unsafe fn adopt(shared: NonNull<Shared>) -> Self {
        Self { shared }
    }

    #[inline]
    pub fn shared(&self) -> &Shared {
        // SAFETY: our reference keeps it.
        unsafe { self.shared.as_ref() }
    }

    #[inline]
    pub fn shared_ptr(&self) -> NonNull<Shared> {
        self.shared
    }
}

impl Clone for Reference {
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: (1) our reference stays until this returns.
        unsafe { Shared::retain(self.shared) };
        Self { shared: self.shared }
    }
}

impl Drop for Reference {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: (1) our reference is given up here, and `self`, the only way to it, ends with this call.
        unsafe { Shared::release(self.shared) }
    }
}

impl Shared {
    /// Takes a reference.
    ///
    /// # Safety
    /// 1. The caller has a reference, or is a worker of `this`. The reference or worker of another frame
    ///    counts as the caller's, if it keeps `this` valid until this returns.
    #[inline]
    pub unsafe fn retain(this: NonNull<Self>) {
        context::with_worker_of(this, |worker| match worker {
            Some(worker) => worker.count_references(1),
            // SAFETY: valid by (1): no worker calls this, so it is by the caller's reference.
            // `add_references`: (1) that reference; (2) the number is positive.
            None => unsafe { this.as_ref().add_references(1) },
        });
    }

    /// Drops a reference.
    ///
    /// # Safety
    /// 1. The caller has a reference, gives it up, and does not touch `this` afterwards unless it has
    ///    another.
    #[inline]
    pub unsafe fn release(this: NonNull<Self>) {
        context::with_worker_of(this, |worker| match worker {
            Some(worker) => worker.count_references(-1),
            // SAFETY: (1).
            None => unsafe { Self::release_elsewhere(this) },
        });
    }

    /// Adds references that the caller took elsewhere, or takes new ones.
    ///
    /// # Safety
    /// 1. The caller has a reference, or BIAS keeps the state. 2. If `count` is negative, a worker gave up so
    ///    many references more than it took, and adds up its own count.
    pub unsafe fn add_references(&self, count: i64) {
        self.references.add(count);
    }

    /// The last worker has left.
    ///
    /// # Safety
    /// 1. Called once, by the last worker, as its last use of `this`.
    pub unsafe fn give_up_bias(this: NonNull<Self>) {
        // SAFETY: BIAS keeps the state until it is given up. `free_state`: (1) no reference is left, and all
        // workers have left, so no other thread uses the state.
        unsafe {
            if this.as_ref().references.end_bias() {
                Self::free_state(this);
            }
        }
    }

    /// [`release`](Self::release) on a thread that is no worker.
    ///
    /// # Safety
    /// 1. As [`release`](Self::release).
    #[inline]
    pub(super) unsafe fn release_elsewhere(this: NonNull<Self>) {
        // SAFETY: the reference of our (1) keeps the state until it is given up. `free_state`: (1) that
        // reference was the last, so no other thread uses the state.
        unsafe {
            if this.as_ref().references.release() {
                Self::free_state(this);
            }
        }
    }

    /// # Safety
    /// 1. No thread uses `this` any more, and no reference is left.
    unsafe fn free_state(this: NonNull<Self>) {
        // SAFETY: (1); `Shared::new` has made a box of it.
        let state = unsafe { Box::from_raw(this.as_ptr()) };
        // It contains the user's hooks and handlers.
        context::drop_foreign(state);
    }
}
