//! A fair count of permits: the common part of a semaphore, a mutex and a bounded channel.
//!
//! # The word
//! ```text
//!  bit 63     62 … 2            1          0
//!  EXCESS     free permits    QUEUED     CLOSED
//! ```
//! QUEUED: a future may wait. While QUEUED is set, only *the holder of the wait list's lock* takes
//! permits, for the first waiter, and only this holder clears QUEUED. So the first waiter is served first,
//! however many permits it needs. Permits come back at any time.
//!
//! # Steps
//! ```text
//! take(n)
//!   PermitTake     not QUEUED, free ≥ n: free -= n (CAS)
//!   PermitQueue    else lock; PermitTake again; set QUEUED (CAS)
//!   PermitJoin     join the wait list; unlock
//!   PermitWait     wait for the outcome
//! give(n)
//!   PermitGive     free += n; it was not QUEUED: done
//!   PermitLock     else lock
//!   PermitGrant    while free ≥ the need of the first waiter: PermitHide; release it
//!   PermitHide     free -= its need, but for what comes of n
//!   PermitSettle   free += what is left of n; the list is empty: clear QUEUED; unlock; wake
//! ```
//! EXCESS is the highest bit of the number of free permits. It says that there are more than `MAX`. That
//! happens only if a program adds permits while others are taken, and then all come back. PermitGive adds
//! blindly, because a compare-and-swap costs more. If it sets EXCESS, its thread does PermitSettle, too. A
//! PermitSettle that leaves EXCESS set makes the number `MAX` afterwards, under the lock. The sum of two
//! numbers up to `MAX` does not overflow. (If several threads overflow it in the same moment, the number gets
//! smaller than `MAX`.)
//!
//! Only PermitSettle and the end of `close` clear QUEUED, under the lock. A future that is dropped in the
//! list leaves it and runs PermitGrant, because the futures behind it may need less. A future that is dropped
//! after it was granted its permits, and before it knew, gives them back. So does a future that finds CLOSED
//! then: after `close`, no future is told of success any more.
//!
//! A task without budget joins the wait list as any other does, but does not take free permits by PermitTake.
//!
//! # The race
//! A taker finds too few permits. Before it waits, a permit comes back, and its giver wakes no
//! taker.
//!
//! # Ordering
//! PermitQueue's CAS sets QUEUED only on a word with too few permits. A PermitGive that comes before the CAS
//! in the word's order is counted in that word. A PermitGive that comes after it sees QUEUED and takes the
//! lock after PermitJoin, unless PermitSettle has cleared QUEUED in between. In that case the wait list was
//! empty after PermitJoin, so the taker was served, or has left.
//!
//! If the first waiter needs more than is free, the next giver looks at it again. That giver's PermitGive
//! comes after PermitGrant's look at the word, so it sees QUEUED and waits for the lock. Between
//! PermitGrant's look and PermitSettle other threads only add permits, so PermitHide finds what it takes. It
//! comes before the release: a future that has its permits does not see them as free.
//!
//! The next taker sees what was done under a permit. All changes of the word are read-modify-writes, those
//! that give are Release, and PermitTake and PermitGrant's look are Acquire. The outcomes pass on what
//! PermitGrant saw.
//!
//! # Rejected
//! Handing single permits to the first waiter as they come: `available_permits` then hides them, and a waiter
//! that gives up has to return them. Always locking in `give`: two more read-modify-writes for each message
//! of a bounded channel. A PermitGive that leaves the word alone while QUEUED is set, so that PermitSettle is
//! a plain store: this PermitGive has to be a load and a CAS, which is a third slower than an addition alone,
//! and fails where many threads give at once.
//!
//! Prior art: Tokio's `batch_semaphore`, from which the idea of one FIFO list for requests of any size comes.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use super::wait_list::{Outcome, WaitList, Waiter, release_in_batches};
use crate::coop;
use crate::loom::const_fn;
use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::{AtomicUsize, Ordering};

const CLOSED: usize = 1;
const QUEUED: usize = 2;
const SHIFT: u32 = 2;
/// The bit of the word that the sum of two valid numbers may set.
const EXCESS: usize = 1 << (usize::BITS - 1);

/// Outcome of a waiter that got its permits.
pub(super) const GRANTED: Outcome = 1;
/// Outcome of a waiter that will not get its permits any more.
pub(super) const REFUSED: Outcome = 2;

/// Why no permit was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TakeError {
    Closed,
    TooFew,
}

/// The error of a take after `close`.
#[derive(Debug)]
pub(super) struct Closed;

/// The free permits, and the wait list of the futures that wait for permits.
pub(super) struct Permits {
    word: AtomicUsize,
    pub(super) waiters: Mutex<WaitList>,
}

impl Permits {
    /// The largest number of permits. EXCESS is left unused, so that the sum of two valid numbers cannot
    /// overflow.
    pub(super) const MAX: usize = usize::MAX >> (SHIFT + 1);

    const_fn! {
        /// Creates `free` permits, at most [`MAX`](Self::MAX).
        pub(super) const fn new(free: usize) -> Self {
            Self { word: AtomicUsize::new(free << SHIFT), waiters: Mutex::new(WaitList::new()) }
        }
    }

    const_fn! {
        /// Creates closed permits: there is none, and there will be none.
        pub(super) const fn new_closed() -> Self {
            Self { word: AtomicUsize::new(CLOSED), waiters: Mutex::new(WaitList::new()) }
        }
    }

    /// The number of free permits. A hint as soon as it is read.
    pub(super) fn free(&self) -> usize {
        self.word.load(Ordering::Acquire) >> SHIFT
    }

    pub(super) fn is_closed(&self) -> bool {
        self.word.load(Ordering::Acquire) & CLOSED != 0
    }

    /// PermitTake: takes `n` permits if they are free and no future waits. 0 permits are always free.
    #[inline]
    pub(super) fn try_take(&self, n: usize) -> Result<(), TakeError> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & CLOSED != 0 {
                return Err(TakeError::Closed);
            }
            if word & QUEUED != 0 || word >> SHIFT < n {
                // A request for no permits takes none from the first waiter, so it does not wait.
                return if n == 0 { Ok(()) } else { Err(TakeError::TooFew) };
            }
            // Acquire: pairs with the Release of the givers of these permits.
            match self.word.compare_exchange_weak(
                word,
                word - (n << SHIFT),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(actual) => word = actual,
            }
        }
    }

    /// Waits until `n` permits are free and every earlier request has been served, and takes them.
    pub(super) async fn take(&self, n: usize) -> Result<(), Closed> {
        if coop::has_budget_remaining() && self.try_take(n).is_ok() {
            // Mostly the permits are free, and no waiter is needed.
            coop::spend();
            return Ok(());
        }
        Take::new(self, n).await
    }

    /// Gives `n` permits back that were taken, at most [`MAX`](Self::MAX). If more than `MAX` would be free,
    /// `MAX` are.
    #[inline]
    pub(super) fn give(&self, n: usize) {
        // Relaxed: a hint. If it says that a future waits, PermitGive can be done together with PermitSettle.
        if self.word.load(Ordering::Relaxed) & QUEUED != 0 {
            return self.give_and_serve(n);
        }
        // PermitGive. Release: pairs with PermitTake and PermitGrant.
        let before = self.word.fetch_add(n << SHIFT, Ordering::Release);
        if before.wrapping_add(n << SHIFT) & (QUEUED | EXCESS) != 0 {
            self.give_and_serve(0);
        }
    }

    /// Adds `n` permits. Panics if there would be more than [`MAX`](Self::MAX), and then changes nothing.
    pub(super) fn add(&self, n: usize) {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let free = (word >> SHIFT).saturating_add(n);
            assert!(free <= Self::MAX, "a semaphore holds at most {} permits, not {free}", Self::MAX);
            // PermitGive.
            let next = word + (n << SHIFT);
            match self.word.compare_exchange_weak(word, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) if word & QUEUED != 0 => return self.give_and_serve(0),
                Ok(_) => return,
                Err(actual) => word = actual,
            }
        }
    }

    /// PermitLock to PermitSettle, with a PermitGive of `n` included.
    #[inline(never)]
    fn give_and_serve(&self, mut n: usize) {
        release_in_batches(&self.waiters, |waiters, wakers| {
            let word = self.word.load(Ordering::Acquire);
            let mut change = std::mem::take(&mut n);
            let mut free = (word >> SHIFT) + change;
            // Once closed, `close` empties the wait list. Without QUEUED the wait list is empty.
            while word & (CLOSED | QUEUED) == QUEUED && !wakers.is_full() {
                match waiters.front_key() {
                    Some(need) if need <= free => {
                        free -= need;
                        let shown = need.saturating_sub(change);
                        change -= need - shown;
                        self.hide(shown);
                    }
                    _ => break,
                }
                waiters.release_front(GRANTED, wakers);
            }
            // No other thread clears QUEUED while this thread has the lock.
            let ended = if waiters.is_empty() { word & QUEUED } else { 0 };
            // PermitSettle.
            let settled = (change << SHIFT).wrapping_sub(ended);
            let before = self.word.fetch_add(settled, Ordering::Release);
            // Other threads may have given permits since the look.
            if before.wrapping_add(settled) & EXCESS != 0 {
                self.remove_excess();
            }
            wakers.is_full()
        });
    }

    /// PermitHide: takes `n` permits, which the word shows as free, for a waiter that is about to be released.
    /// Called under the lock, with QUEUED set.
    fn hide(&self, n: usize) {
        if n > 0 {
            // Relaxed: it gives no permits, and a change between other changes passes on what they released.
            self.word.fetch_sub(n << SHIFT, Ordering::Relaxed);
        }
    }

    /// Makes the number of free permits [`MAX`](Self::MAX) if it is larger. Called under the lock.
    #[cold]
    fn remove_excess(&self) {
        // Relaxed: it gives no permits, and a change between other changes passes on what they released.
        _ = self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            (word & EXCESS != 0).then_some(Self::MAX << SHIFT | word & (QUEUED | CLOSED))
        });
    }

    /// Takes up to `n` free permits away for good, and returns how many.
    pub(super) fn forget(&self, n: usize) -> usize {
        // With QUEUED set, only the holder of the lock takes permits.
        let _waiters = self.waiters.lock();
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let taken = n.min(word >> SHIFT);
            let less = word - (taken << SHIFT);
            match self.word.compare_exchange_weak(word, less, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return taken,
                Err(actual) => word = actual,
            }
        }
    }

    /// Refuses all waiting and later requests. Permits may still be given back.
    pub(super) fn close(&self) {
        self.close_with(|| ());
    }

    /// Closes the permits as [`close`](Self::close) does. If they were not closed before, it first calls
    /// `first` under the lock. A thread that sees the permits closed sees what `first` did.
    pub(super) fn close_with(&self, first: impl FnOnce()) {
        let mut first = Some(first);
        release_in_batches(&self.waiters, |waiters, wakers| {
            // Relaxed: CLOSED is set under the lock.
            if self.word.load(Ordering::Relaxed) & CLOSED == 0 {
                if let Some(first) = first.take() {
                    first();
                }
            }
            // Release: pairs with `is_closed`.
            self.word.fetch_or(CLOSED, Ordering::Release);
            while !wakers.is_full() && waiters.release_front(REFUSED, wakers) {}
            if waiters.is_empty() {
                self.word.fetch_and(!QUEUED, Ordering::Release);
            }
            wakers.is_full()
        });
    }
}

// SAFETY: (1) `join` puts the waiter into `waiters` or nowhere. PermitGrant and `close` release it with one
// of the two outcomes.
unsafe impl Source for &Permits {
    fn try_take(&self, n: usize) -> Result<(), TakeError> {
        Permits::try_take(self, n)
    }

    fn must_wait(&self, n: usize) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        n > 0 && word & CLOSED == 0 && (word & QUEUED != 0 || word >> SHIFT < n)
    }

    fn is_closed(&self) -> bool {
        Permits::is_closed(self)
    }

    fn waiters(&self) -> &Mutex<WaitList> {
        &self.waiters
    }

    unsafe fn join(&self, waiter: Pin<&Waiter>, waker: Waker) -> Poll<Result<(), Closed>> {
        // `waker` is a parameter, so it is dropped after the lock if it is not needed.
        let mut waiters = self.waiters.lock();
        let mut word = self.word.load(Ordering::Relaxed);
        while word & QUEUED == 0 {
            if word & CLOSED != 0 {
                return Poll::Ready(Err(Closed));
            }
            let is_free = word >> SHIFT >= waiter.key();
            let next = if is_free { word - (waiter.key() << SHIFT) } else { word | QUEUED };
            match self.word.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) if is_free => return Poll::Ready(Ok(())),
                Ok(_) => break,
                Err(actual) => word = actual,
            }
        }
        if word & CLOSED != 0 {
            // The permits are closed, and `close` has still to empty the wait list. So the waiter does not
            // join the wait list.
            return Poll::Ready(Err(Closed));
        }
        // SAFETY: (1), (2).
        unsafe { waiters.join(waiter, Some(waker)) };
        Poll::Pending
    }

    fn give(&self, n: usize) {
        Permits::give(self, n);
    }

    fn serve(&self) {
        self.give_and_serve(0);
    }
}

// A panic leaves the word and the wait list as their methods do, so other threads may look at them
// afterwards.
impl std::panic::UnwindSafe for Permits {}
impl std::panic::RefUnwindSafe for Permits {}

impl fmt::Debug for Permits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permits").field("free", &self.free()).field("is_closed", &self.is_closed()).finish()
    }
}

/// The source of a [`Take`]: a count of permits and the wait list for it.
///
/// # Safety
/// 1. `join` puts its waiter into the wait list that `waiters` returns, or nowhere, and the code that takes
///    the waiter out of it releases it with [`GRANTED`] or [`REFUSED`].
pub(super) unsafe trait Source {
    /// PermitTake: takes `n` permits if they are free and no future waits. 0 permits are always free.
    fn try_take(&self, n: usize) -> Result<(), TakeError>;

    /// Whether PermitTake would find too few permits, or other futures in the list; a hint.
    fn must_wait(&self, n: usize) -> bool;

    /// Whether the source was closed.
    fn is_closed(&self) -> bool;

    fn waiters(&self) -> &Mutex<WaitList>;

    /// PermitQueue and PermitJoin. Returns `Pending` if `waiter` is now in the list.
    ///
    /// # Safety
    /// 1. `waiter` has never joined a wait list. 2. Once `Pending` was returned, it leaves the wait list
    ///    before it is freed, unless it has seen its outcome.
    unsafe fn join(&self, waiter: Pin<&Waiter>, waker: Waker) -> Poll<Result<(), Closed>>;

    /// Gives back `n` permits that were not used.
    fn give(&self, n: usize);

    /// PermitGrant and PermitSettle, after a waiter has left the wait list.
    fn serve(&self);
}

/// The state of a [`Take`].
#[derive(Debug)]
enum TakeState {
    Apart,
    /// In the list, or released and not polled since.
    Queued,
    /// The future took its permits, or learned that it never will.
    Done,
}

/// Waits until the given number of permits of a [`Source`] is free and every earlier request has been served,
/// and takes them.
///
/// If it is dropped in the list, it loses its place. Permits that it was granted and did not see go back.
#[derive(Debug)]
pub(super) struct Take<S: Source> {
    source: S,
    waiter: Waiter,
    state: TakeState,
}

impl<S: Source> Take<S> {
    pub(super) fn new(source: S, n: usize) -> Self {
        Self { source, waiter: Waiter::new(n), state: TakeState::Apart }
    }
}

impl<S: Source> Future for Take<S> {
    type Output = Result<(), Closed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the waiter is not moved out of. The other fields are not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: the waiter is a field of a pinned struct, and never moved.
        let waiter = unsafe { Pin::new_unchecked(&this.waiter) };
        // A task without budget waits all the same. Otherwise tasks that come later would go first.
        let must_queue = matches!(this.state, TakeState::Apart)
            && !coop::has_budget_remaining()
            && this.source.must_wait(waiter.key());
        if !must_queue {
            ready!(coop::poll_has_budget(cx));
        }
        let result = match this.state {
            TakeState::Apart => match this.source.try_take(waiter.key()) {
                Ok(()) => Ok(()),
                Err(TakeError::Closed) => Err(Closed),
                // SAFETY: (1) the state is `Apart`, so the waiter has never joined. (2) After `Pending` the
                // state is `Queued`, so `drop` calls `leave`.
                Err(TakeError::TooFew) => match unsafe { this.source.join(waiter, cx.waker().clone()) } {
                    Poll::Ready(result) => result,
                    Poll::Pending => {
                        this.state = TakeState::Queued;
                        return Poll::Pending;
                    }
                },
            },
            // SAFETY: (1) the state says that the waiter has joined the source's list. It leaves only in
            // `drop`.
            TakeState::Queued => match ready!(unsafe { waiter.poll_outcome(this.source.waiters(), cx) }) {
                GRANTED if this.source.is_closed() => {
                    // The state is set first, because `give` may wake other tasks, whose wakers may panic.
                    this.state = TakeState::Done;
                    this.source.give(waiter.key());
                    Err(Closed)
                }
                GRANTED => Ok(()),
                _ => Err(Closed),
            },
            TakeState::Done => panic!("a future was polled after it had completed"),
        };
        this.state = TakeState::Done;
        coop::spend();
        Poll::Ready(result)
    }
}

impl<S: Source> Drop for Take<S> {
    fn drop(&mut self) {
        let TakeState::Queued = self.state else { return };
        // SAFETY: a pinned future is dropped where it is.
        let waiter = unsafe { Pin::new_unchecked(&self.waiter) };
        // SAFETY: (1) the state says that it has joined, and it leaves only here. The waker is dropped last,
        // because its drop may panic.
        let (outcome, _waker) = unsafe { self.source.waiters().lock().leave(waiter) };
        match outcome {
            Some(GRANTED) => self.source.give(waiter.key()),
            Some(_) => {}
            None => self.source.serve(),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::pin::pin;

    use super::*;

    /// A future that waits for `n` of the permits.
    fn waiting(permits: &Permits, n: usize) -> Pin<Box<Take<&Permits>>> {
        let mut take = Box::pin(Take::new(permits, n));
        assert!(take.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        take
    }

    /// Imitates permits that come back between PermitTake and PermitQueue.
    #[test]
    fn permits_that_are_free_at_the_second_look_are_taken() {
        let permits = Permits::new(5);
        let join = |n| {
            let waiter = pin!(Waiter::new(n));
            // SAFETY: (1) it has never joined; (2) if it joins now, it leaves below.
            let joined = unsafe { Source::join(&&permits, waiter.as_ref(), Waker::noop().clone()) };
            // SAFETY: (1) it has joined, and not left.
            let left = joined.is_pending().then(|| unsafe { permits.waiters.lock().leave(waiter.as_ref()) });
            (matches!(joined, Poll::Ready(Ok(()))), left.is_some(), permits.free())
        };
        assert_eq!([join(3), join(2), join(0)], [(true, false, 2), (true, false, 0), (true, false, 0)]);
        assert!(permits.try_take(0).is_ok() && permits.try_take(1) == Err(TakeError::TooFew));
        permits.give(1);
        assert!(permits.try_take(1).is_ok(), "no future waits");
    }

    /// Permits were added while others were taken, and all come back.
    #[test]
    fn permits_that_come_back_beyond_the_maximum_are_dropped() {
        let max = Permits::MAX;
        for first in [0, 1, max] {
            let permits = Permits::new(max);
            permits.give(first);
            assert_eq!(permits.free(), max);
            permits.give(max);
            assert_eq!((permits.free(), permits.try_take(max), permits.free()), (max, Ok(()), 0));
        }
        // A waiter is served first.
        let permits = Permits::new(max - 1);
        let waiting = waiting(&permits, max);
        permits.give(max);
        assert_eq!(permits.free(), max - 1);
        permits.close();
        permits.give(2);
        assert_eq!((permits.free(), permits.is_closed()), (max, true));
        drop(waiting);
        assert_eq!(permits.free(), max);
    }

    #[test]
    fn a_request_must_wait_if_it_needs_more_than_is_free_or_others_wait() {
        let must_wait = |permits: &Permits| [0, 1, 2, 3, 4].map(|n| Source::must_wait(&permits, n));
        let permits = Permits::new(2);
        assert_eq!(must_wait(&permits), [false, false, false, true, true]);
        let waiting = waiting(&permits, 3);
        assert_eq!(must_wait(&permits), [false, true, true, true, true]);
        drop(waiting);
        assert_eq!(must_wait(&permits), [false, false, false, true, true]);
        permits.close();
        assert_eq!(must_wait(&permits), [false; 5]);
        assert_eq!(must_wait(&Permits::new(1)), [false, false, true, true, true]);
    }
}
