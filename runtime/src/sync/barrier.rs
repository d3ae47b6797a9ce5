//! Lets a number of tasks go on together.
//!
//! `arrivals` counts all calls of `wait`, under the lock of the wait list. The arrivals form groups of `n`,
//! and the number of a group, from 0 on, is its *generation*. The last arrival of a generation, the leader,
//! releases the waiters of that generation. If they are more than one batch of wakers holds, the leader
//! unlocks between two batches. Tasks that arrive in between are of the next generation and stand behind, so
//! the leader stops before them.
//!
//! # Ordering
//! Each arrival takes the lock, and the leader takes it last. So what happened before any arrival happens
//! before the leader goes on. The outcomes pass it on to the other waiters.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::wait_list::{Outcome, WaitList, Waiter, release_in_batches};
use crate::coop;
use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::AtomicUsize;
use crate::loom::sync::atomic::Ordering::Relaxed;

/// Outcome of a waiter whose generation is complete.
const COMPLETE: Outcome = 1;

/// Lets tasks wait until a given number of them have come, and then go on together. It can be used again and
/// again.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use runtime::sync::Barrier;
///
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let barrier = Arc::new(Barrier::new(3));
/// let tasks: Vec<_> = (0..3)
///     .map(|_| {
///         let barrier = barrier.clone();
///         runtime::spawn(async move { barrier.wait().await.is_leader() })
///     })
///     .collect();
/// let mut leaders = 0;
/// for task in tasks {
///     leaders += u32::from(task.await.unwrap());
/// }
/// assert_eq!(leaders, 1);
/// # });
/// ```
pub struct Barrier {
    n: usize,
    /// All calls of `wait`. Touched under the lock of `waiters` only, so the accesses are Relaxed.
    arrivals: AtomicUsize,
    /// The waiters; the key of each is its generation.
    waiters: Mutex<WaitList>,
}

// A panic leaves the count and the wait list as the methods do.
impl std::panic::UnwindSafe for Barrier {}
impl std::panic::RefUnwindSafe for Barrier {}

impl Barrier {
    /// Creates a barrier for `n` tasks. 0 is the same as 1, and then no task waits.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// assert!(runtime::sync::Barrier::new(1).wait().await.is_leader());
    /// # });
    /// ```
    #[track_caller]
    pub fn new(n: usize) -> Self {
        Self { n: n.max(1), arrivals: AtomicUsize::new(0), waiters: Mutex::new(WaitList::new()) }
    }

    /// Waits until the last task of the group has come. The result tells that task that it is the leader.
    ///
    /// # Cancel safety
    /// Not cancel safe: a future that is dropped after its first poll counts as an arrival all the same, so
    /// the other tasks go on without it.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let barrier = runtime::sync::Barrier::new(2);
    /// let (first, second) = runtime::join!(barrier.wait(), barrier.wait());
    /// assert!(!first.is_leader());
    /// assert!(second.is_leader());
    /// # });
    /// ```
    pub async fn wait(&self) -> BarrierWaitResult {
        Wait { barrier: self, waiter: None }.await
    }

    /// Counts an arrival. Returns the generation of the arrival, and whether the arrival completes it.
    fn arrive(&self) -> (usize, bool) {
        let arrivals = self.arrivals.load(Relaxed) + 1;
        self.arrivals.store(arrivals, Relaxed);
        ((arrivals - 1) / self.n, arrivals % self.n == 0)
    }

    /// Releases the waiters of `generation`.
    fn release(&self, generation: usize) {
        release_in_batches(&self.waiters, |waiters, wakers| {
            while !wakers.is_full() && waiters.front_key().is_some_and(|key| key <= generation) {
                waiters.release_front(COMPLETE, wakers);
            }
            wakers.is_full()
        });
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _waiters = self.waiters.lock();
        let arrivals = self.arrivals.load(Relaxed);
        f.debug_struct("Barrier")
            .field("n", &self.n)
            .field("arrived", &(arrivals % self.n))
            .finish_non_exhaustive()
    }
}

/// An arrival, which waits for the others.
struct Wait<'a> {
    barrier: &'a Barrier,
    /// There once the arrival waits.
    waiter: Option<Waiter>,
}

impl Future for Wait<'_> {
    type Output = BarrierWaitResult;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the waiter is not moved once it is there. The reference is not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        let waiters = &this.barrier.waiters;
        let Some(waiter) = &this.waiter else {
            // A clone is foreign code, which may panic. So it comes before the arrival counts.
            let waker = cx.waker().clone();
            let mut waiters = waiters.lock();
            let (generation, is_last) = this.barrier.arrive();
            if is_last {
                drop(waiters);
                coop::spend();
                this.barrier.release(generation);
                return Poll::Ready(BarrierWaitResult(true));
            }
            let waiter = this.waiter.insert(Waiter::new(generation));
            // SAFETY: (1) the waiter is new, and pinned as `self` is. (2) `drop` calls `leave`, unless it
            // finds an outcome.
            unsafe { waiters.join(Pin::new_unchecked(waiter), Some(waker)) };
            return Poll::Pending;
        };
        ready!(coop::poll_has_budget(cx));
        // SAFETY: (1) the waiter joined when it was made, and leaves only in `drop`.
        match unsafe { waiter.poll_outcome(waiters, cx) } {
            Poll::Ready(_) => {
                coop::spend();
                Poll::Ready(BarrierWaitResult(false))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let Some(waiter) = &self.waiter else { return };
        // SAFETY: a pinned future is dropped where it is.
        let waiter = unsafe { Pin::new_unchecked(waiter) };
        if waiter.outcome().is_none() {
            // SAFETY: (1) the waiter joined when it was made, and leaves only here. The waker is dropped
            // last, because its drop may panic.
            let (_outcome, _waker) = unsafe { self.barrier.waiters.lock().leave(waiter) };
        }
    }
}

/// The result of [`Barrier::wait`].
#[derive(Debug, Clone)]
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// Returns whether this task was the last of its group. Each group has one leader.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// assert!(runtime::sync::Barrier::new(1).wait().await.is_leader());
    /// # });
    /// ```
    pub fn is_leader(&self) -> bool {
        self.0
    }
}
