//! Counting the jobs of a scope, without a read-modify-write for jobs that its owner spawns and runs itself.
//!
//! # States
//! ```text
//! own      the owner's plain cell: jobs spawned by it less jobs that it ran
//! others   the other threads' word: BIAS + jobs spawned by others less jobs that others ran (so mostly BIAS
//!          and below)
//! jobs that have not ended = own + others - BIAS
//!
//! AddJob       a job is spawned: own += 1, or others += 1
//! EndJob       it has ended: own -= 1, or others -= 1
//! SumCounts    the owner looks: own + others == BIAS?
//! FoldCount    the owner folds: others += own - BIAS; from now on it counts nothing. Zero: done, else it
//!              waits for the latch
//! SetLast      the thread that brings `others` to zero sets the latch, its last access
//! UnfoldCount  the owner, which has folded, was woken for something else: others += BIAS, unless it is zero
//!              (CAS); from now on the owner counts in its cell again, and folds anew before it sleeps
//! ```
//! Before `FoldCount` and after `UnfoldCount`, `others` is near BIAS, and no thread can bring it to zero from
//! there. So `SetLast` happens only while the count is folded, and only once. At that time no job is left. So
//! there is no `AddJob` either, because `AddJob` needs a job that has not ended, or the owner's body, which
//! ends before `FoldCount`. `UnfoldCount` finds zero and changes nothing: the owner waits for the latch.
//!
//! An owner that runs jobs while it waits is folded only in its sleep. Otherwise each of these jobs would
//! touch a cache line that other threads share. Jobs that run on the owner's thread in that sleep count as
//! those of other threads do. (A waker may run anything there, jobs of the scope too.) The caller has to know
//! whether it is the owner (`is_owner`). An owner that waits in another way counts as one of the others from
//! the beginning, or not at all.
//!
//! # Ordering
//! - *`SumCounts` and `SetLast` are right.* A value of `others` at one point of its order counts some spawns
//!   and some ends. The thread that ends a job has seen its spawn. So if an end is counted, its spawn is
//!   counted, too: in `others` itself, or in `own`, which the owner reads whole. If the sum is zero, each
//!   counted spawn has ended. Suppose that a spawn is not counted. A job of the scope made it, and the spawn
//!   precedes that job's own end in `others`. So that end is not counted, and neither is that job's spawn.
//!   This repeats outwards up to a job that the owner spawned. But that spawn is counted. So there is no such
//!   spawn, and `AddJob` by others needs no ordering (Relaxed), except that it comes before their `EndJob`.
//! - *What the jobs did is seen.* `EndJob` by others is AcqRel: a chain of read-modify-writes, which
//!   `FoldCount` and `UnfoldCount` do not break. `SumCounts` acquires the chain, and `SetLast` continues it
//!   by the latch.
//! - *The frame.* An `EndJob` that does not reach zero is its thread's last access. An `EndJob` that reaches
//!   zero still has the frame, because the owner waits for the latch, and the latch's `set` handles its own
//!   end. If `SumCounts` finds zero, no thread is left that would touch anything.
//!
//! Rejected: one counter for all threads, as in Rayon: two contended read-modify-writes for each job.

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
    /// The owner's count, and whether the owner has folded. Only the owner touches these.
    own: CachePadded<(Cell<i64>, Cell<bool>)>,
    /// Alone on its cache lines, like the owner's cells, because both are written for each job.
    others: CachePadded<AtomicI64>,
    latch: L,
}

// SAFETY: the cells are touched only by unsafe methods, whose callers promise to be the owner.
unsafe impl<L: Sync> Sync for CountLatch<L> {}

impl<L: Latch> CountLatch<L> {
    pub fn new(latch: L) -> Self {
        Self {
            own: CachePadded::new((Cell::new(0), Cell::new(false))),
            others: CachePadded::new(AtomicI64::new(BIAS)),
            latch,
        }
    }

    /// The latch that the owner waits for, once it has folded.
    pub fn latch(&self) -> &L {
        &self.latch
    }

    /// `AddJob`.
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

    /// `EndJob`, and `SetLast`.
    ///
    /// # Safety
    /// 1. `this` is live: the job is counted; afterwards it may be gone. 2. `is_owner`: the calling thread is
    ///    the owner, and has not folded. 3. What the latch refers to is valid until this returns, as
    ///    [`Latch::set`] asks.
    #[inline(always)]
    pub unsafe fn decrement(this: *const Self, is_owner: bool) {
        // SAFETY: by (1) `this` is live until the decrement, and by (2) the owner's cells are ours. If the
        // decrement brought the count to zero, the owner waits for the latch, so `this` is live until the
        // latch is set. `set`: (1) by the same argument; (2) is our (3); (3) `SetLast` happens once.
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

    /// `SumCounts`: whether all jobs have ended.
    ///
    /// # Safety
    /// 1. The calling thread is the owner, and has not folded.
    #[inline]
    pub unsafe fn is_done(&self) -> bool {
        self.own.0.get() + self.others.load(Acquire) == BIAS
    }

    /// `FoldCount`. Returns true if jobs are left: the latch will be set, unless the owner unfolds before.
    ///
    /// # Safety
    /// 1. The calling thread is the owner, and has not folded. 2. The owner's body has ended: from now on
    ///    only jobs of this scope spawn jobs.
    pub unsafe fn fold(&self) -> bool {
        let (own, is_folded) = &*self.own;
        let change = own.take() - BIAS;
        if self.others.fetch_add(change, AcqRel) + change != 0 {
            is_folded.set(true);
            return true;
        }
        // Relaxed: no thread is left that would read this.
        self.others.store(BIAS, Relaxed);
        false
    }

    /// `UnfoldCount`. Returns false if no jobs are left: then the latch is set, or about to be.
    ///
    /// # Safety
    /// 1. The calling thread is the owner, and has folded.
    pub unsafe fn unfold(&self) -> bool {
        let is_left = |others| if others == 0 { None } else { Some(others + BIAS) };
        // Relaxed: this hands nothing over. The latch acquires zero.
        let is_unfolded = self.others.fetch_update(Relaxed, Relaxed, is_left).is_ok();
        self.own.1.set(!is_unfolded);
        is_unfolded
    }

    /// Whether the owner has folded.
    ///
    /// # Safety
    /// 1. The calling thread is the owner.
    pub unsafe fn is_folded(&self) -> bool {
        self.own.1.get()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::job::latch::tests::Bell;

    fn rung(count: &CountLatch<Bell>) -> u32 {
        count.latch().rung()
    }

    /// A count that is used by one thread, in the role of the owner and of the others.
    struct World(CountLatch<Bell>);

    impl World {
        fn new() -> Self {
            Self(CountLatch::new(Bell::default()))
        }

        fn add(&self, is_owner: bool) {
            // SAFETY: (1) each test ends the owner's calls before it folds; (2) the tests play the scope.
            unsafe { self.0.increment(is_owner) }
        }

        fn end(&self, is_owner: bool) {
            // SAFETY: (1) the count is live; (2) as above; (3) the latch refers to nothing.
            unsafe { CountLatch::decrement(&raw const self.0, is_owner) }
        }

        fn is_done(&self) -> bool {
            // SAFETY: (1) as above.
            unsafe { self.0.is_done() }
        }

        fn fold(&self) -> bool {
            // SAFETY: (1) as above; (2) from here on the tests add no job.
            unsafe { self.0.fold() }
        }

        fn unfold(&self) -> bool {
            // SAFETY: (1) the tests have folded.
            unsafe { self.0.unfold() }
        }

        fn is_folded(&self) -> bool {
            // SAFETY: (1) this thread is the owner, too.
            unsafe { self.0.is_folded() }
        }
    }

    #[test]
    fn a_job_counts_whichever_thread_adds_and_ends_it() {
        for (is_added_by_owner, is_ended_by_owner) in
            [(true, true), (true, false), (false, true), (false, false)]
        {
            let world = World::new();
            assert!(world.is_done());
            for _ in 0..3 {
                world.add(is_added_by_owner);
                assert!(!world.is_done());
                world.add(is_added_by_owner);
                world.end(is_ended_by_owner);
                assert!(!world.is_done());
                world.end(is_ended_by_owner);
                assert!(world.is_done());
            }
            assert_eq!((world.fold(), world.is_folded(), rung(&world.0)), (false, false, 0));
        }
    }

    #[test]
    fn the_last_job_sets_the_latch_once_the_owner_has_folded() {
        let world = World::new();
        [true, true, false].into_iter().for_each(|is_owner| world.add(is_owner));
        world.end(false);
        assert!(!world.is_folded() && world.fold() && world.is_folded());
        world.end(false);
        assert_eq!(rung(&world.0), 0, "a job is left");
        world.end(false);
        assert_eq!(rung(&world.0), 1);
        assert!(!world.unfold() && world.is_folded(), "the latch is set");
    }

    #[test]
    fn a_fold_without_jobs_leaves_the_count_as_new() {
        let world = World::new();
        world.add(false);
        world.end(true);
        assert!(!world.fold());
        world.add(true);
        assert!(!world.is_done());
        world.end(false);
        assert!(world.is_done() && !world.fold());
        assert_eq!(rung(&world.0), 0);
    }

    #[test]
    fn an_owner_that_unfolds_counts_in_its_cell_again() {
        let world = World::new();
        (0..3).for_each(|_| world.add(false));
        for _ in 0..2 {
            assert!(world.fold());
            world.end(false);
            assert!(world.unfold() && !world.is_folded() && !world.is_done());
        }
        world.end(true);
        assert!(world.is_done() && !world.fold());
        assert_eq!(rung(&world.0), 0);
    }
}
