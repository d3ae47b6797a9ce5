//! The capacity of a bounded channel: permits, one for each value that may be sent.
//!
//! # The word
//! The number of free permits, up to 65,535, is in the word of the queue's tail (`queue.rs`). So one
//! read-modify-write sends a value: it takes a permit and a position at once.
//! ```text
//!  FREE      permits that are free
//!  QUEUED    a future may wait: permits are taken only through the wait list
//!  CLOSED    no permit is given out any more
//! ```
//! While QUEUED is set, only the holder of the wait list's lock takes permits, and only this holder clears
//! QUEUED. Permits come back at any time.
//!
//! # Steps
//! ```text
//! take(n)
//!   CapacityTake     not QUEUED, FREE ≥ n: FREE -= n (CAS)
//!   CapacityQueue    else lock; CapacityTake again; set QUEUED (CAS)
//!   CapacityJoin     join the wait list; unlock
//!   CapacityWait     wait for the outcome
//! give(n)
//!   CapacityGive     FREE += n; it was not QUEUED: done
//!   CapacityLock     else lock
//!   CapacityGrant    release waiters from the front while FREE ≥ their need
//!   CapacitySettle   the list is empty: clear QUEUED; unlock; wake
//! ```
//! These are the steps of `permits.rs`, with one difference: CapacityGive comes before the lock in each case.
//! The word has other bits that change meanwhile, so CapacityGrant and CapacitySettle are read-modify-writes
//! anyway. A waiter that leaves the wait list runs CapacityLock to CapacitySettle.
//!
//! # The race
//! A taker finds too few permits. Before it waits, a permit comes back, and its giver wakes no
//! taker.
//!
//! # Ordering
//! CapacityQueue sets QUEUED by a compare-and-swap on a word with too few permits. A CapacityGive that comes
//! before it in the word's order is counted in that word. A CapacityGive that comes after it sees QUEUED,
//! unless CapacitySettle has cleared QUEUED in between. In that case the wait list was empty after
//! CapacityJoin, so the taker was served, or has left. A giver that sees QUEUED takes the lock. The taker
//! holds the lock from before CapacityQueue until after CapacityJoin, so the giver gets it after
//! CapacityJoin. The giver's CapacityGrant reads the word after its own CapacityGive.
//!
//! If QUEUED is set already when the taker has the lock, the taker joins without CapacityQueue, behind other
//! waiters. A giver that left the lock before, and left QUEUED set, comes back for its next batch, or has
//! found that the first waiter needs more than FREE.
//!
//! If the first waiter needs more than FREE, the thread that raises FREE looks at it again. The CapacityGive
//! of that thread comes after CapacityGrant's look in the word's order, so it sees QUEUED and waits for the
//! lock. CapacitySettle clears QUEUED only on an empty list, under the lock, and does not touch FREE. So a
//! permit that came back unseen stays in the word for CapacityTake.
//!
//! The next taker sees what was done under a permit: all steps are AcqRel, and CapacityGrant's outcome passes
//! it on.
//!
//! # More capacity than fits
//! A channel for more than 65,535 values has its permits in a word of their own (`permits.rs`), and FREE is
//! 0. FREE is also 0 in a channel without a bound.
//!
//! # Rejected
//! A word of its own for the permits of every channel: a send needs two read-modify-writes instead of one,
//! and two threads write to a second cache line with each value. The receiver's position in a word of its
//! own, which senders read only when there is no permit: the receiver then needs a fence for each value,
//! because it must see the waiters. The fence costs as much as CapacityGive.

use std::pin::Pin;
use std::task::{Poll, Waker};

use super::queue::{CLOSED, MOST_FREE, ONE_FREE, QUEUED, free_in};
use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::permits::{Closed, GRANTED, Permits, REFUSED, Source, TakeError};
use crate::sync::wait_list::{WaitList, Waiter, release_in_batches};

/// The capacity of a bounded channel.
pub(super) struct Capacity {
    pub(super) max: usize,
    permits: PermitStore,
    /// The receiver's waker, while the channel is closed and senders hold permits; see `channel.rs`.
    pub(super) last_permits: Mutex<Option<Waker>>,
}

/// Where the permits are counted.
enum PermitStore {
    /// In the tail's word.
    Narrow(Mutex<WaitList>),
    /// In a word of their own.
    Wide(Permits),
}

impl Capacity {
    /// Creates a capacity of `max` values. `max` must not be above [`Permits::MAX`].
    pub(super) fn new(max: usize) -> Self {
        let permits = match max <= MOST_FREE {
            true => PermitStore::Narrow(Mutex::new(WaitList::new())),
            false => PermitStore::Wide(Permits::new(max)),
        };
        Self { max, permits, last_permits: Mutex::new(None) }
    }

    /// The first value of FREE.
    pub(super) fn free_in_tail(&self) -> usize {
        match self.permits {
            PermitStore::Narrow(_) => self.max,
            PermitStore::Wide(_) => 0,
        }
    }

    /// The permits of this capacity; `tail` is the tail's word of its channel.
    pub(super) fn with<'a>(&'a self, tail: &'a AtomicUsize) -> CapacityPermits<'a> {
        CapacityPermits { capacity: self, tail }
    }
}

/// The permits of one channel: taken and given back here.
#[derive(Clone, Copy)]
pub(super) struct CapacityPermits<'a> {
    capacity: &'a Capacity,
    tail: &'a AtomicUsize,
}

impl CapacityPermits<'_> {
    pub(super) fn free(self) -> usize {
        match &self.capacity.permits {
            PermitStore::Narrow(_) => free_in(self.tail.load(Ordering::Acquire)),
            PermitStore::Wide(permits) => permits.free(),
        }
    }

    pub(super) fn is_closed(self) -> bool {
        match &self.capacity.permits {
            PermitStore::Narrow(_) => self.tail.load(Ordering::Acquire) & CLOSED != 0,
            PermitStore::Wide(permits) => permits.is_closed(),
        }
    }

    /// CapacityTake: takes `n` permits if they are free and no future waits. 0 permits are always free.
    pub(super) fn try_take(self, n: usize) -> Result<(), TakeError> {
        if let PermitStore::Wide(permits) = &self.capacity.permits {
            return permits.try_take(n);
        }
        let mut word = self.tail.load(Ordering::Relaxed);
        loop {
            if word & CLOSED != 0 {
                return Err(TakeError::Closed);
            }
            if word & QUEUED != 0 || free_in(word) < n {
                // A request for no permits takes none from the first waiter, so it does not wait.
                return if n == 0 { Ok(()) } else { Err(TakeError::TooFew) };
            }
            match self.swap(word, word - n * ONE_FREE) {
                Ok(_) => return Ok(()),
                Err(actual) => word = actual,
            }
        }
    }

    /// Gives back `n` permits that were not used.
    pub(super) fn drop_permits(self, n: usize) {
        // LastGive.
        self.give(n);
        // LastClosed.
        if self.is_closed() {
            // LastWake.
            let waker = self.capacity.last_permits.lock().take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Gives back `n` permits.
    #[inline(always)]
    pub(super) fn give(self, n: usize) {
        match &self.capacity.permits {
            PermitStore::Narrow(waiters) => {
                // CapacityGive. The sum cannot overflow, because there are `max` permits in all.
                let word = self.tail.fetch_add(n * ONE_FREE, Ordering::AcqRel);
                debug_assert!(
                    free_in(word) + n <= self.capacity.max,
                    "more permits than room: {word:#x} + {n}"
                );
                if word & QUEUED != 0 {
                    self.serve_waiters(waiters);
                }
            }
            PermitStore::Wide(permits) => permits.give(n),
        }
    }

    /// CapacityLock to CapacitySettle.
    #[inline(never)]
    fn serve_waiters(self, waiters: &Mutex<WaitList>) {
        release_in_batches(waiters, |waiters, wakers| {
            while !wakers.is_full() {
                let word = self.tail.load(Ordering::Acquire);
                match waiters.front_key() {
                    None => {
                        // CapacitySettle.
                        self.tail.fetch_and(!QUEUED, Ordering::AcqRel);
                        return false;
                    }
                    // Once closed, `close` empties the wait list.
                    Some(need) if word & CLOSED == 0 && need <= free_in(word) => {
                        // CapacityGrant.
                        if self.swap(word, word - need * ONE_FREE).is_ok() {
                            waiters.release_front(GRANTED, wakers);
                        }
                    }
                    Some(_) => return false,
                }
            }
            true
        });
    }

    /// Refuses all waiting and later requests. Permits may still be given back.
    pub(super) fn close(self) {
        let waiters = match &self.capacity.permits {
            PermitStore::Narrow(waiters) => waiters,
            PermitStore::Wide(permits) => return permits.close(),
        };
        release_in_batches(waiters, |waiters, wakers| {
            self.tail.fetch_or(CLOSED, Ordering::AcqRel);
            while !wakers.is_full() && waiters.release_front(REFUSED, wakers) {}
            if waiters.is_empty() {
                self.tail.fetch_and(!QUEUED, Ordering::AcqRel);
            }
            wakers.is_full()
        });
    }

    fn swap(self, word: usize, next: usize) -> Result<usize, usize> {
        self.tail.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed)
    }
}

// SAFETY: (1) `join` puts the waiter into `waiters()` or nowhere. CapacityGrant and `close` release it with
// one of the two outcomes. Permits in a word of their own are those of `permits.rs`, which does the same.
unsafe impl Source for CapacityPermits<'_> {
    fn try_take(&self, n: usize) -> Result<(), TakeError> {
        (*self).try_take(n)
    }

    fn must_wait(&self, n: usize) -> bool {
        match &self.capacity.permits {
            PermitStore::Narrow(_) => {
                let word = self.tail.load(Ordering::Relaxed);
                n > 0 && word & CLOSED == 0 && (word & QUEUED != 0 || free_in(word) < n)
            }
            PermitStore::Wide(permits) => Source::must_wait(&permits, n),
        }
    }

    fn is_closed(&self) -> bool {
        (*self).is_closed()
    }

    fn waiters(&self) -> &Mutex<WaitList> {
        match &self.capacity.permits {
            PermitStore::Narrow(waiters) => waiters,
            PermitStore::Wide(permits) => &permits.waiters,
        }
    }

    unsafe fn join(&self, waiter: Pin<&Waiter>, waker: Waker) -> Poll<Result<(), Closed>> {
        let waiters = match &self.capacity.permits {
            PermitStore::Narrow(waiters) => waiters,
            // SAFETY: (1), (2).
            PermitStore::Wide(permits) => return unsafe { Source::join(&permits, waiter, waker) },
        };
        // `waker` is a parameter, so it is dropped after the lock if it is not needed.
        let mut waiters = waiters.lock();
        let mut word = self.tail.load(Ordering::Relaxed);
        // CapacityQueue.
        while word & (QUEUED | CLOSED) == 0 {
            let is_free = free_in(word) >= waiter.key();
            let next = if is_free { word - waiter.key() * ONE_FREE } else { word | QUEUED };
            match self.swap(word, next) {
                Ok(_) if is_free => return Poll::Ready(Ok(())),
                Ok(_) => break,
                Err(actual) => word = actual,
            }
        }
        if word & CLOSED != 0 {
            return Poll::Ready(Err(Closed));
        }
        // CapacityJoin. SAFETY: (1), (2).
        unsafe { waiters.join(waiter, Some(waker)) };
        Poll::Pending
    }

    fn give(&self, n: usize) {
        self.drop_permits(n);
    }

    fn serve(&self) {
        match &self.capacity.permits {
            PermitStore::Narrow(waiters) => self.serve_waiters(waiters),
            PermitStore::Wide(permits) => Source::serve(&permits),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
