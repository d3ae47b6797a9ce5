//! Counting the jobs of a scope, without a read-modify-write for jobs that its owner spawns and runs itself.
//!
//! # States
//! ```text
//! own      the owner's plain cell: jobs spawned by it less jobs that it ran
//! others   the other threads' word: BIAS + jobs spawned by others less jobs that others ran (so mostly BIAS
//!          and below)
//! jobs that have not ended = own + others - BIAS
//!
//! N1 a job is spawned: own += 1, or others += 1     N2 it has ended: own -= 1, or others -= 1
//! N3 the owner looks: own + others == BIAS?         N4 the owner folds: others += own - BIAS; from now on
//!                                                      it counts nothing. Zero: done, else it waits for
//!                                                      the latch
//! N5 the thread that brings `others` to zero sets the latch, its last access
//! N6 the owner, which has folded, was woken for something else: others += BIAS, unless it is zero (CAS);
//!    from now on the owner counts in its cell again, and folds anew before it sleeps
//! ```
//! Before N4 and behind N6 `others` is near BIAS, and no thread can take it down to zero from there; so N5
//! happens while the count is folded only, and once: then no job is left, so that there is no N1 either (it
//! needs a job that has not ended, or the owner's body, which ends before N4), and N6 finds zero and changes
//! nothing: the owner waits for the latch.
//!
//! An owner that runs jobs while it waits is folded in its sleep only: else it would share a line, for each
//! of them, with all other threads that run some. What runs on its thread in that sleep (a waker may run
//! anything, jobs of the scope too) counts as others' do: to say `is_owner` is the caller's to know. (An
//! owner that waits otherwise counts as one of the others from the beginning, or not at all.)
//!
//! # Ordering
//! - *N3 and N5 are right.* A value of `others` at one point of its order counts some spawns and ends. The
//!   thread that ends a job has seen its spawn, so an end that is counted has its spawn counted: at `others`
//!   itself, or at `own`, which the owner reads whole. If then the sum is zero, each counted spawn has ended.
//!   An uncounted spawn would be one by a job of the scope, which precedes that job's own end in `others`: so
//!   that one is not counted either, and so on up to a job that the owner spawned, which is. Hence N1 by
//!   others needs no ordering (Relaxed) but its place before their N2.
//! - *What the jobs did is seen.* N2 by others is AcqRel, a chain of read-modify-writes, which N4 and N6 do
//!   not break; N3 acquires it, N5 continues it by the latch.
//! - *The frame.* N2 that does not reach zero is its thread's last access; N2 that reaches zero still has the
//!   frame, for the owner waits for the latch, and the latch's `set` sees to itself. At N3 with zero no
//!   thread is left that would touch anything.
//!
//! Rejected: one counter for all, as in Rayon: two contended read-modify-writes a job.

use std::cell::Cell;

use super::latch::Latch;
use crate::loom::sync::atomic::AtomicI64;
use crate::loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use crate::util::pad::CachePadded;

/// See the module's docs.
const BIAS: i64 = 1 << 62;

/// See the module's docs.
#[derive(Debug)]
pub struct CountLatch<L> {
    /// The owner's alone: the count, and whether it has folded.
    own: CachePadded<(Cell<i64>, Cell<bool>)>,
    /// Alone on its lines, as are the owner's: both are written for each job.
    others: CachePadded<AtomicI64>,
    latch: L,
}

// SAFETY: the cells are touched only by calls with which the caller says that it is the owner.
unsafe impl<L: Sync> Sync for CountLatch<L> {}

impl<L: Latch> CountLatch<L> {
    pub fn new(latch: L) -> Self {
        Self {
            own: CachePadded::new((Cell::new(0), Cell::new(false))),
            others: CachePadded::new(AtomicI64::new(BIAS)),
            latch,
        }
    }

    /// What the owner waits for, once it has folded.
    pub fn latch(&self) -> &L {
        &self.latch
    }

    /// N1.
    ///
    /// # Safety
    /// 1. `is_owner`: the calling thread is the owner, and has not folded. 2. It runs the owner's body, or a
    ///    job of this scope.
    #[inline(always)]
    pub unsafe fn increment(&self, is_owner: bool) {
        if is_owner {
            let (own, is_folded) = &*self.own;
            debug_assert!(!is_folded.get());
            own.set(own.get() + 1);
        } else {
            // Relaxed: see the module's docs.
            self.others.fetch_add(1, Relaxed);
        }
    }

    /// N2, and N5.
    ///
    /// # Safety
    /// 1. `this` is live: the job is counted; afterwards it may be gone. 2. `is_owner`: the calling thread is
    ///    the owner, and has not folded.
    #[inline(always)]
    pub unsafe fn decrement(this: *const Self, is_owner: bool) {
        // SAFETY: (1) until the decrement; and until the latch is set, if that brought the count to zero.
        unsafe {
            if is_owner {
                let (own, is_folded) = &*(*this).own;
                debug_assert!(!is_folded.get());
                own.set(own.get() - 1);
            } else if (*this).others.fetch_sub(1, AcqRel) == 1 {
                L::set(&raw const (*this).latch);
            }
        }
    }

    /// N3: whether all jobs have ended. For the owner, while it is not folded.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.own.0.get() + self.others.load(Acquire) == BIAS
    }

    /// N4. True if jobs are left: unless the owner unfolds before, the latch will be set. For the owner,
    /// while it is not folded.
    pub fn fold(&self) -> bool {
        let (own, is_folded) = &*self.own;
        let change = own.take() - BIAS;
        if self.others.fetch_add(change, AcqRel) + change != 0 {
            is_folded.set(true);
            return true;
        }
        // Relaxed: no thread is left that would read it.
        self.others.store(BIAS, Relaxed);
        false
    }

    /// N6. False if no jobs are left: then the latch is set, or about to be. For the owner, while it is
    /// folded.
    pub fn unfold(&self) -> bool {
        let is_left = |others| if others == 0 { None } else { Some(others + BIAS) };
        // Relaxed: hands nothing over; zero is acquired by the latch.
        let is_unfolded = self.others.fetch_update(Relaxed, Relaxed, is_left).is_ok();
        self.own.1.set(!is_unfolded);
        is_unfolded
    }

    /// Whether the owner has folded. For the owner.
    pub fn is_folded(&self) -> bool {
        self.own.1.get()
    }
}
