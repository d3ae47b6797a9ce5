//! Latches: each is set once, and one thread waits for it.
//!
//! # States
//! ```text
//!             owner falls asleep               set
//!   UNSET ───────────────────────▶ SLEEPING ──────▶ SET
//!     │ ▲        owner wakes          │
//!     │ └─────────────────────────────┘
//!     └──────────────────────────────────── set ──▶ SET
//! ```
//! # Steps
//! ```text
//! Owner
//! LatchSleep     UNSET → SLEEPING; if SET: done
//! LatchAnnounce  (a worker) announce the wait, look for jobs
//! LatchPark      park on the thread's token
//! LatchWake      SLEEPING → UNSET, unless SET
//!
//! Setter
//! LatchReadOwner read from the latch which thread to wake
//! LatchSet       swap SET (Release)
//! LatchUnpark    it was SLEEPING: unpark the owner
//! ```
//! **No lost wake.** `LatchSleep` and `LatchSet` are read-modify-writes of one word. If `LatchSleep` comes
//! first, `LatchSet` finds SLEEPING, and `LatchUnpark` leaves a token that ends `LatchPark`, whether
//! `LatchPark` has begun or not. If `LatchSet` comes first, `LatchSleep` finds SET. An owner that was woken
//! for another reason does `LatchWake` and may sleep again.
//!
//! **Nothing of the latch is touched after `LatchSet`.** The owner may see SET at once and return, and its
//! frame, with the latch, is gone. So `set` takes a raw pointer, because a reference would promise that the
//! latch outlives the call. For the same reason `LatchReadOwner` comes before `LatchSet`. `LatchUnpark` uses
//! the parker of the owner's processor, or its thread handle, which must live on by other means. A worker
//! that sets a latch of its own pool keeps that pool itself. A thread that sets the latch of another pool's
//! worker takes a reference to that pool at `LatchReadOwner`.
//!
//! **What the job did is seen.** `LatchSet` releases, and the owner acquires SET by its load or by
//! `LatchSleep`.
//!
//! Rayon's latch has a fourth state, SLEEPY, between UNSET and SLEEPING. There the owner decides to sleep
//! under a lock, and SLEEPY says that the owner is about to. With a token, there is nothing between
//! `LatchSleep` and `LatchPark` that a setter would have to wait for.
//!
//! Sources: Rayon's RFC 5, appendix A.

use std::ptr::NonNull;

use crate::loom::sync::atomic::AtomicU32;
use crate::loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::loom::thread::{self, Thread};
use crate::loom::{LATCH_SPINS, hint};

const UNSET: u32 = 0;
const SLEEPING: u32 = 1;
const SET: u32 = 2;

/// A signal that is set when a job ends.
pub trait Latch {
    /// Sets the latch. Its owner may go on, and free the latch, before this returns.
    ///
    /// # Safety
    /// 1. `this` is live until its owner sees that it is set. 2. What the latch refers to is valid until this
    ///    returns: see the implementation. 3. It is called as often as the latch expects, mostly once.
    unsafe fn set(this: *const Self);
}

/// The state word; see the module's docs.
#[derive(Debug)]
pub struct CoreLatch(AtomicU32);

impl CoreLatch {
    #[inline(always)]
    pub fn new() -> Self {
        Self(AtomicU32::new(UNSET))
    }

    #[inline(always)]
    pub fn is_set(&self) -> bool {
        self.0.load(Acquire) == SET
    }

    /// `LatchSleep`. Returns false if the latch is set.
    pub fn fall_asleep(&self) -> bool {
        // Acquire if it fails: what came before `LatchSet`. Relaxed if it succeeds: the waking thread reads
        // our thread at `LatchReadOwner`, and the parker orders the rest.
        self.0.compare_exchange(UNSET, SLEEPING, Relaxed, Acquire).is_ok()
    }

    /// `LatchWake`.
    pub fn wake_up(&self) {
        // Relaxed: the thread that looks for SET acquires it.
        _ = self.0.compare_exchange(SLEEPING, UNSET, Relaxed, Relaxed);
    }

    /// `LatchSet`. Returns true if the owner is asleep; the caller then has to unpark it.
    ///
    /// # Safety
    /// 1. As [`Latch::set`].
    #[inline]
    pub unsafe fn set(this: *const Self) -> bool {
        // SAFETY: (1): live until the swap.
        // Release: a thread that sees SET sees what came before.
        unsafe { (*this).0.swap(SET, Release) == SLEEPING }
    }
}

/// The thread that sleeps on a [`SpinLatch`].
///
/// # Safety
/// 1. `unpark` works from any thread for as long as the owner's pool is kept. 2. The result of `hold` keeps
///    it.
pub unsafe trait Owner {
    /// Keeps the owner's pool.
    type Hold;

    /// # Safety
    /// 1. The owner's pool is kept until this returns.
    unsafe fn hold(owner: NonNull<Self>) -> Self::Hold;

    /// Ends one sleep of the owner.
    ///
    /// # Safety
    /// 1. The owner's pool is kept until this returns.
    unsafe fn unpark(owner: NonNull<Self>);
}

/// The latch of a worker, which runs other jobs while it waits. `IS_CROSS`: a thread that does not keep the
/// owner's pool may set it. (This is no field, because each `join` would have to write it.)
#[derive(Debug)]
pub struct SpinLatch<O, const IS_CROSS: bool = false> {
    core: CoreLatch,
    owner: NonNull<O>,
}

/// The latch of a worker, for jobs that run in another pool.
pub type CrossLatch<O> = SpinLatch<O, true>;

impl<O: Owner, const IS_CROSS: bool> SpinLatch<O, IS_CROSS> {
    #[inline(always)]
    pub fn new(owner: &O) -> Self {
        Self { core: CoreLatch::new(), owner: NonNull::from(owner) }
    }

    #[inline(always)]
    pub fn core(&self) -> &CoreLatch {
        &self.core
    }
}

impl<O: Owner, const IS_CROSS: bool> Latch for SpinLatch<O, IS_CROSS> {
    #[inline]
    unsafe fn set(this: *const Self) {
        // SAFETY: the latch is live until the swap, and until then its owner waits in its pool. Afterwards
        // the pool is kept by the hold, or by the caller, which is a worker of it.
        unsafe {
            let owner = (*this).owner;
            let _hold = IS_CROSS.then(|| O::hold(owner));
            if CoreLatch::set(&raw const (*this).core) {
                O::unpark(owner);
            }
        }
    }
}

/// The latch of a thread that is no worker: it sleeps until it is set.
#[derive(Debug)]
pub struct ThreadLatch {
    core: CoreLatch,
    thread: Thread,
}

impl ThreadLatch {
    pub fn new() -> Self {
        Self { core: CoreLatch::new(), thread: thread::current() }
    }

    /// Waits until the latch is set.
    pub fn wait(&self) {
        for _ in 0..LATCH_SPINS {
            if self.core.is_set() {
                return;
            }
            hint::spin_loop();
        }
        while self.core.fall_asleep() {
            // May end early: any code may unpark this thread.
            thread::park();
            self.core.wake_up();
        }
    }
}

impl Latch for ThreadLatch {
    unsafe fn set(this: *const Self) {
        // SAFETY: the latch is live until the swap; the handle is our own.
        unsafe {
            let thread = (*this).thread.clone();
            if CoreLatch::set(&raw const (*this).core) {
                thread.unpark();
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
pub mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::util::joined::joined_scope;

    /// A latch that counts how often it is set.
    #[derive(Debug, Default)]
    pub struct Bell(AtomicU32);

    impl Bell {
        pub fn rung(&self) -> u32 {
            self.0.load(Acquire)
        }
    }

    impl Latch for Bell {
        unsafe fn set(this: *const Self) {
            // SAFETY: (1).
            unsafe { (*this).0.fetch_add(1, Release) };
        }
    }

    #[test]
    fn an_owner_falls_asleep_and_wakes_up_until_its_latch_is_set() {
        let latch = CoreLatch::new();
        for _ in 0..3 {
            assert!(!latch.is_set() && latch.fall_asleep() && !latch.is_set());
            latch.wake_up();
        }
        // SAFETY: (1) the latch is live.
        assert!(!unsafe { CoreLatch::set(&raw const latch) }, "the owner is awake");
        latch.wake_up();
        assert!(latch.is_set() && !latch.fall_asleep());
    }

    #[test]
    fn the_setter_learns_that_the_owner_sleeps() {
        let latch = CoreLatch::new();
        assert!(latch.fall_asleep());
        // SAFETY: (1) the latch is live.
        assert!(unsafe { CoreLatch::set(&raw const latch) });
        latch.wake_up();
        assert!(latch.is_set() && !latch.fall_asleep());
    }

    /// Counts what setters do to it.
    #[derive(Default)]
    struct Sleeper {
        held: AtomicU32,
        unparked: AtomicU32,
    }

    // SAFETY: (1) the tests keep it; (2) so there is nothing to keep.
    unsafe impl Owner for Sleeper {
        type Hold = ();

        unsafe fn hold(owner: NonNull<Self>) {
            // SAFETY: (1).
            unsafe { owner.as_ref() }.held.fetch_add(1, Relaxed);
        }

        unsafe fn unpark(owner: NonNull<Self>) {
            // SAFETY: (1).
            unsafe { owner.as_ref() }.unparked.fetch_add(1, Relaxed);
        }
    }

    /// Sets a latch whose owner sleeps or is awake. Returns how often it was held and unparked.
    fn held_and_unparked<const IS_CROSS: bool>(sleeps: bool) -> (u32, u32) {
        let owner = Sleeper::default();
        let latch = SpinLatch::<_, IS_CROSS>::new(&owner);
        assert!(!sleeps || latch.core().fall_asleep());
        // SAFETY: (1) latch and (2) owner are live; (3) it is called once.
        unsafe { Latch::set(&raw const latch) };
        assert!(latch.core().is_set());
        (owner.held.into_inner(), owner.unparked.into_inner())
    }

    #[test]
    fn a_setter_unparks_only_an_owner_that_sleeps_and_holds_only_another_pool() {
        assert_eq!([held_and_unparked::<false>(false), held_and_unparked::<false>(true)], [(0, 0), (0, 1)]);
        assert_eq!([held_and_unparked::<true>(false), held_and_unparked::<true>(true)], [(1, 0), (1, 1)]);
    }

    #[test]
    fn a_thread_waits_until_its_latch_is_set_also_if_it_is_woken_for_something_else() {
        let (latch, has_returned) = (ThreadLatch::new(), AtomicBool::new(false));
        let was_set = joined_scope(|scope| {
            scope.spawn(|| {
                let sleeps = || latch.core.0.load(Relaxed) == SLEEPING;
                while !sleeps() && !has_returned.load(Relaxed) {
                    std::thread::yield_now();
                }
                latch.thread.unpark();
                // SAFETY: (1) and (2) the latch outlives the scope; (3) it is called once.
                unsafe { Latch::set(&raw const latch) };
            });
            latch.wait();
            let was_set = latch.core.is_set();
            has_returned.store(true, Relaxed);
            was_set
        });
        assert!(was_set);
    }
}
