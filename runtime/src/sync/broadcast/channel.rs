//! The shared state of a broadcast channel: the ring, the position of its end, and the receivers that wait
//! for more.
//!
//! # State
//! - `tail`, under a lock of its own: the number of receivers.
//! - `end`: the position after the last value, and CLOSED, when no sender is left. Written under the lock of
//!   `tail`, read without.
//! - `waiters`: the receivers that wait. The key of each is the position that it waits for.
//! - `may_wait`: whether a receiver may wait. It is written under the locks of `tail` and `waiters`, so
//!   the holder of either lock may read it. The lock of `waiters` is taken first.
//!
//! # Steps
//! ```text
//! send                                             recv, that finds nothing
//! LockTail     no receivers: Err                   LockWaiters  lock the wait list
//! LockOld      (of the ring) or try again later    ReadEnd      end above its position, or CLOSED: done
//! MoveEnd      end + 1                             SetMark      may_wait not set: lock the tail, ReadEnd
//! FillSlot     (of the ring)                                    again, may_wait := true, unlock the tail
//! ReadMark     may_wait?                           JoinWaiters  join, unlock
//! UnlockTail
//! ReleaseBelow lock the wait list; release those
//!              that wait for less than end
//! ```
//! When the last sender is dropped, it sets CLOSED in MoveEnd's place, and releases all waiters. A
//! subscription and the end of a receiver change the number of receivers under the lock of `tail`. So each
//! value is counted for exactly the receivers that are to have it.
//!
//! The wait list grows at its end, and the positions only grow. So ReleaseBelow stops at the first waiter
//! that waits for a later position. If there are more to wake than one batch holds, it unlocks, wakes, and
//! locks again. ReleaseBelow clears `may_wait` when it finds no waiter at all, so receivers that wait for
//! each value set it once.
//!
//! MoveEnd comes before FillSlot. So a receiver that has taken a value has seen the end above it, and so has
//! any receiver that comes to the wait list later. With the other order, a quick receiver could wait for
//! the next value before a slow one waits for this value, and ReleaseBelow would stop at the quick
//! one. A receiver that comes between the two steps looks again.
//!
//! # The race
//! A receiver finds nothing. Before it waits, a send passes and sees no receiver to wake.
//!
//! # Ordering
//! If `may_wait` is not set, SetMark and the send's locked part exclude each other. If the send comes first,
//! the receiver sees the new end. If SetMark comes first, the send reads it and goes to the wait list, which
//! is locked until the receiver stands in it.
//!
//! If `may_wait` is set, it stays so while the receiver has the wait list's lock. A send that ReadEnd does
//! not see reads `may_wait` and takes that lock. It takes the lock after the receiver, because otherwise
//! ReadEnd would see its MoveEnd. So the send finds the receiver in the list.
//!
//! MoveEnd is Release and pairs with ReadEnd. FillSlot is Release, too, and pairs with LockSlot. So a
//! receiver that finds a value, or finds its value overwritten, sees how far the end has gone.
//!
//! # A slot that is busy
//! A receiver may be cloning the old value of the slot that a send wants to overwrite. The send then lets go
//! of the tail and tries again. So it waits for that clone. A receiver that is dropped waits for it, too, and
//! tells the scheduler that its thread blocks.
//!
//! Rejected: the dropped receiver leaves its CountDown to the receiver that clones. The unlock of a slot
//! would be a read-modify-write instead of a store, which costs each receiver of each value as much as
//! LockSlot.
//!
//! # Cancellation
//! A receiver that is dropped in the list leaves it. A receiver that was released and did not look passes
//! nothing on: the value is there until the receiver takes it, or until it is overwritten.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::ring::{Locked, Missing, Ring};
use crate::loom::sync::atomic::{AtomicBool, AtomicUsize};
use crate::loom::sync::{Mutex, ShortLock};
use crate::sync::backoff::Backoff;
use crate::sync::counts::Counts;
use crate::sync::notify::Notify;
use crate::sync::wait_list::{Outcome, WaitList, release_in_batches};
use crate::util::block_on::blocking;
use crate::util::pad::CachePadded;
use crate::util::unwind::FirstPanic;

/// The bit of `end` that says that no sender is left.
const CLOSED: usize = 1;
/// One position in `end`.
const ONE: usize = 2;

/// Outcome of a waiter that may look again.
pub(super) const COME: Outcome = 1;

/// One channel, shared by its handles.
pub(super) struct Channel<T> {
    pub(super) ring: Ring<T>,
    sending: CachePadded<Sending>,
    pub(super) waiters: Mutex<WaitList>,
    pub(super) senders: Counts,
    /// Notified when the last receiver leaves.
    abandoned: Notify,
}

/// What a sender writes with each value.
struct Sending {
    tail: ShortLock<Tail>,
    end: AtomicUsize,
    may_wait: AtomicBool,
}

/// The count and the end change only while this is locked.
struct Tail {
    receivers: usize,
}

/// Why a receiver takes no value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Nothing {
    /// The value has not come.
    Empty,
    /// Another thread is at the value, or is writing it, at this moment.
    Busy,
    /// The value will not come.
    Closed,
    /// `missed` values were overwritten. The next is at `oldest`.
    Lagged { missed: usize, oldest: usize },
}

impl<T> Channel<T> {
    /// Creates a channel with one sender and the given number of receivers, which begin at position 0. `None`
    /// if there is no memory.
    pub(super) fn new(capacity: usize, receivers: usize) -> Option<Self> {
        let sending = Sending {
            tail: ShortLock::new(Tail { receivers }),
            end: AtomicUsize::new(0),
            may_wait: AtomicBool::new(false),
        };
        Some(Self {
            ring: Ring::new(capacity)?,
            sending: CachePadded::new(sending),
            waiters: Mutex::new(WaitList::new()),
            senders: Counts::new(),
            abandoned: Notify::new(),
        })
    }

    /// Puts `value` in and returns how many receivers are to have it. Returns `value` if there are none.
    pub(super) fn send(&self, value: T) -> Result<usize, T> {
        let mut backoff = Backoff::new();
        loop {
            // LockTail.
            let tail = self.sending.tail.lock();
            let receivers = tail.receivers;
            if receivers == 0 {
                return Err(value);
            }
            // Relaxed: `end` changes under the lock only.
            let end = self.sending.end.load(Relaxed);
            // SAFETY: (1) one thread at a time, by the lock, until `fill`; `end` goes up by one for each
            // value.
            if let Some(room) = unsafe { self.ring.reserve(end / ONE) } {
                // MoveEnd, pairs with ReadEnd.
                self.sending.end.store(end + ONE, Release);
                // Dropped at the end, because the drop may panic.
                let _old = room.fill(receivers, value);
                // ReadMark. Relaxed: `may_wait` changes under the lock only.
                let may_wait = self.sending.may_wait.load(Relaxed);
                drop(tail);
                if may_wait {
                    self.release_below(end / ONE + 1);
                }
                return Ok(receivers);
            }
            drop(tail);
            backoff.snooze();
        }
    }

    /// ReleaseBelow.
    #[inline(never)]
    fn release_below(&self, position: usize) {
        self.release(|key| key < position);
    }

    /// Releases, from the front, the waiters with a key in `range`.
    fn release(&self, range: impl Fn(usize) -> bool) {
        let mut is_first = true;
        release_in_batches(&self.waiters, |waiters, wakers| {
            if std::mem::take(&mut is_first) && waiters.is_empty() {
                let _tail = self.sending.tail.lock();
                // Relaxed: under both locks.
                self.sending.may_wait.store(false, Relaxed);
            }
            while !wakers.is_full() && waiters.front_key().is_some_and(&range) {
                waiters.release_front(COME, wakers);
            }
            wakers.is_full()
        });
    }

    /// Called when the last sender leaves.
    pub(super) fn close(&self) {
        let may_wait = {
            let _tail = self.sending.tail.lock();
            // Pairs with ReadEnd.
            self.sending.end.fetch_or(CLOSED, Release);
            // Relaxed: `may_wait` changes under the lock only.
            self.sending.may_wait.load(Relaxed)
        };
        if may_wait {
            self.release(|_| true);
        }
    }

    /// The position after the last value.
    pub(super) fn end(&self) -> usize {
        // ReadEnd.
        self.sending.end.load(Acquire) / ONE
    }

    /// The position of the oldest value, for a receiver that has seen that its value was overwritten.
    fn oldest(&self) -> usize {
        self.end() - self.ring.capacity()
    }

    /// ReadEnd. Whether there is a value, or the end, for a receiver at `position`.
    fn has_news(&self, position: usize) -> bool {
        let end = self.sending.end.load(Acquire);
        end & CLOSED != 0 || end / ONE > position
    }

    /// Says why a receiver at `position` found its value `missing`.
    pub(super) fn explain(&self, position: usize, missing: Missing) -> Nothing {
        match missing {
            Missing::Busy => Nothing::Busy,
            Missing::Overwritten => {
                let oldest = self.oldest();
                Nothing::Lagged { missed: oldest - position, oldest }
            }
            // ReadEnd. It comes after the look at the slot. The receiver takes a value that came in between
            // the next time.
            Missing::NotYet => match self.sending.end.load(Acquire) {
                end if end == position * ONE + CLOSED => Nothing::Closed,
                end if end / ONE > position => Nothing::Busy,
                _ => Nothing::Empty,
            },
        }
    }

    /// LockWaiters to SetMark. Returns `None` if there is a value, or the end, for a receiver at `position`.
    /// Otherwise the receiver may wait, and will be released.
    pub(super) fn waiters_for(&self, position: usize) -> Option<crate::loom::sync::MutexGuard<'_, WaitList>> {
        let waiters = self.waiters.lock();
        if self.has_news(position) {
            return None;
        }
        // Relaxed: `may_wait` changes under the wait list's lock only.
        if !self.sending.may_wait.load(Relaxed) {
            let _tail = self.sending.tail.lock();
            if self.has_news(position) {
                return None;
            }
            // Relaxed: under both locks.
            self.sending.may_wait.store(true, Relaxed);
        }
        Some(waiters)
    }

    pub(super) fn receivers(&self) -> usize {
        self.sending.tail.lock().receivers
    }

    /// Counts one more receiver. Returns the position at which it begins.
    pub(super) fn subscribe(&self) -> usize {
        let mut tail = self.sending.tail.lock();
        tail.receivers += 1;
        // Relaxed: `end` changes under the lock only.
        self.sending.end.load(Relaxed) / ONE
    }

    /// Called when a receiver at `position` leaves. Takes the values that are left for that receiver.
    pub(super) fn unsubscribe(&self, mut position: usize) {
        let (receivers, end) = {
            let mut tail = self.sending.tail.lock();
            tail.receivers -= 1;
            // Relaxed: `end` changes under the lock only.
            (tail.receivers, self.sending.end.load(Relaxed) / ONE)
        };
        let mut panic = FirstPanic::new();
        while position < end {
            match self.lock_patiently(position) {
                Some(locked) => {
                    let last = locked.count_down();
                    panic.catch(|| drop(last));
                    position += 1;
                }
                None => position = self.oldest(),
            }
        }
        if receivers == 0 {
            panic.catch(|| self.abandoned.notify_waiters());
        }
        panic.resume();
    }

    /// Locks the value at `position`, which was sent. Waits while another thread is at the value. `None` if
    /// the value was overwritten.
    fn lock_patiently(&self, position: usize) -> Option<Locked<'_, T>> {
        let try_lock = || match self.ring.lock(position) {
            Ok(locked) => Some(Some(locked)),
            Err(Missing::Overwritten) => Some(None),
            Err(Missing::Busy | Missing::NotYet) => None,
        };
        let mut backoff = Backoff::new();
        while !backoff.is_spent() {
            if let Some(result) = try_lock() {
                return result;
            }
            backoff.snooze();
        }
        // Another receiver's clone takes its time, so this lets other threads run this thread's tasks.
        blocking(|| {
            loop {
                match try_lock() {
                    Some(result) => return result,
                    None => backoff.snooze(),
                }
            }
        })
    }

    /// Waits until there is no receiver.
    pub(super) async fn abandoned(&self) {
        while self.receivers() > 0 {
            // Made before the second look, because `notify_waiters` releases it from its creation on.
            let notified = self.abandoned.notified();
            if self.receivers() == 0 {
                break;
            }
            notified.await;
        }
    }

    /// Counts the values that at least one receiver has still to take.
    pub(super) fn len(&self) -> usize {
        // No sender puts values in while this is held.
        let _tail = self.sending.tail.lock();
        // Relaxed: `end` changes under the lock only.
        let end = self.sending.end.load(Relaxed) / ONE;
        // Older values leave before younger ones. So the values that are left are the last ones before the
        // end. (A receiver that is being dropped may still take values while younger ones, which are not
        // counted for it, have left. Then the number is a guess.)
        let (mut low, mut high) = (end.saturating_sub(self.ring.capacity()), end);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.ring.is_taken(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        end - low
    }
}

// A panic leaves the ring and the wait list as their methods do.
impl<T> std::panic::UnwindSafe for Channel<T> {}
impl<T> std::panic::RefUnwindSafe for Channel<T> {}

#[cfg(all(test, not(loom)))]
mod tests;
