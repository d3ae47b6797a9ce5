//! The state of a watch channel: the value, its version, and the receivers that wait for the next
//! value.
//!
//! # The word
//! ```text
//! bit 63 … 5      4         3        2 … 0
//!  version     CLOSED   WAITING     of the lock (`big_reader_lock.rs`)
//! ```
//! The version counts the changes of the value. CLOSED says that no sender is left; it is never cleared.
//! WAITING says that receivers may wait. A receiver remembers the version that it has seen.
//!
//! The version is in the word of the lock. So one read-modify-write lets readers in, publishes the version
//! and tells whether a receiver waits. The version that a reader finds when it enters is that of the value
//! that it reads.
//!
//! # Steps
//! ```text
//! send                                             changed
//! RaiseWriter  (of the lock)                       CompareVersion  other version, or CLOSED: done
//! …            change the value                    MarkWaiting     lock the wait list; CompareVersion again;
//! LowerWriter  version + 1; was WAITING set?                       set WAITING (CAS)
//! ReleaseOlder lock the wait list; release all     JoinChanged     join, unlock
//!              that have seen an older version
//! ```
//! When the last sender is dropped, it does the same as a send, but sets CLOSED instead of the version, and
//! releases all waiters. The wait list grows at its end and versions only grow. So ReleaseOlder stops at the
//! first receiver that has seen the new version. If there are more to wake than one batch holds, it unlocks,
//! wakes, and locks again.
//!
//! ReleaseOlder clears WAITING when it finds no receiver at all. So a receiver that waits for each value sets
//! it once.
//!
//! # The race
//! A receiver finds its version unchanged. Before it waits, a send passes and sees no receiver to
//! wake.
//!
//! # Ordering
//! MarkWaiting's CAS expects the very word that CompareVersion judged. If LowerWriter comes before the CAS,
//! it changes the word, so the CAS fails and the receiver looks again. If LowerWriter comes after the CAS, it
//! sees WAITING and takes the wait list's lock, which the receiver holds until it has joined.
//!
//! If WAITING is set already, the receiver need not set it, because a thread needs the lock to clear it. The
//! word that the receiver judged may be older than the newest. Then the send that changed it saw WAITING, and
//! has still to take the lock. If that send had taken the lock before the receiver, the receiver would see
//! its version.
//!
//! LowerWriter and the closing are Release, and CompareVersion is Acquire. So the receivers that a send
//! releases see what happened before it. The lock guards the value itself.
//!
//! The versions have 59 bits. They do not wrap: with one send each nanosecond that would take 18 years.
//!
//! # Cancellation
//! A receiver that is dropped in the list leaves it. A receiver that was released and did not look passes
//! nothing on, because it can still see the version.
//!
//! # Rejected
//! Eight wait lists, as Tokio has, against contention on one list: a send takes eight locks although no
//! receiver waits, and the wake of a task costs more than its place in the queue. A version beside the lock:
//! one more read-modify-write.

use std::cell::UnsafeCell;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::big_reader_lock::{BigReaderLock, OWNERS_SHIFT, Reading};
use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::AtomicUsize;
use crate::loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::notify::Notify;
use crate::sync::wait_list::{Outcome, WaitList, Waiter, release_in_batches};

const WAITING: usize = 1 << OWNERS_SHIFT;
const CLOSED: usize = WAITING << 1;
const VERSION: usize = CLOSED << 1;

/// Outcome of a waiter that may look again.
const CHANGED: Outcome = 1;

/// A version of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version(usize);

impl Version {
    #[inline]
    fn of(word: usize) -> Self {
        Self(word / VERSION)
    }

    /// A version that is not the current one, if `self` is or was the current one.
    pub(super) fn before(self) -> Self {
        Self(self.0.wrapping_sub(1))
    }
}

/// No sender is left, and there is no unseen value.
#[derive(Debug)]
pub(super) struct Closed;

/// One channel, shared by its handles.
pub(super) struct Channel<T> {
    lock: BigReaderLock,
    /// Guarded by `lock`.
    value: UnsafeCell<T>,
    /// The receivers that wait. The key of each is the version that it has seen.
    waiters: Mutex<WaitList>,
    pub(super) senders: AtomicUsize,
    receivers: AtomicUsize,
    /// Notified when the last receiver leaves.
    abandoned: Notify,
}

// SAFETY: the value moves with the channel.
unsafe impl<T: Send> Send for Channel<T> {}
// SAFETY: readers share the value between threads, and a sender replaces it from any thread.
unsafe impl<T: Send + Sync> Sync for Channel<T> {}

// A panic leaves the word and the wait list as their methods do, and the value as the closure that panicked
// left it.
impl<T> std::panic::UnwindSafe for Channel<T> {}
impl<T> std::panic::RefUnwindSafe for Channel<T> {}

impl<T> Channel<T> {
    /// Creates a channel with one sender and `receivers` receivers.
    pub(super) fn new(value: T, receivers: usize) -> Self {
        Self {
            lock: BigReaderLock::new(),
            value: UnsafeCell::new(value),
            waiters: Mutex::new(WaitList::new()),
            senders: AtomicUsize::new(1),
            receivers: AtomicUsize::new(receivers),
            abandoned: Notify::new(),
        }
    }

    #[inline]
    fn word(&self) -> &AtomicUsize {
        self.lock.word()
    }

    pub(super) fn version(&self) -> Version {
        Version::of(self.word().load(Acquire))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.word().load(Acquire) & CLOSED != 0
    }

    /// Waits until no thread writes, and returns access to the value with its version.
    #[inline]
    #[track_caller]
    pub(super) fn read(&self) -> (Reading<'_>, Version) {
        let (reading, word) = self.lock.read();
        (reading, Version::of(word))
    }

    /// Returns the value.
    ///
    /// # Safety
    /// 1. The result is not used after `_reading`, of this channel, was dropped.
    #[inline]
    pub(super) unsafe fn value(&self, _reading: &Reading<'_>) -> &T {
        // SAFETY: no thread writes while there is a `Reading`, which outlives the result by (1).
        unsafe { &*self.value.get() }
    }

    /// Changes the value by `modify`. If `modify` returns `true`, all receivers learn of the change. Returns
    /// the result of `modify`.
    #[track_caller]
    pub(super) fn modify(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        let writing = self.lock.write();
        // SAFETY: the writer is alone until `writing` is dropped. If `modify` panics, `writing` is dropped,
        // and the version stays.
        if !modify(unsafe { &mut *self.value.get() }) {
            return false;
        }
        let word = writing.finish(VERSION);
        if word & WAITING != 0 {
            self.release_older(Version::of(word.wrapping_add(VERSION)));
        }
        true
    }

    /// ReleaseOlder.
    #[inline(never)]
    fn release_older(&self, version: Version) {
        self.release(|key| key < version.0);
    }

    /// Releases, from the front, the waiters with a key in `range`.
    fn release(&self, range: impl Fn(usize) -> bool) {
        let mut is_first = true;
        release_in_batches(&self.waiters, |waiters, wakers| {
            if std::mem::take(&mut is_first) && waiters.is_empty() {
                // Relaxed: the lock orders this with MarkWaiting.
                self.word().fetch_and(!WAITING, Relaxed);
            }
            while !wakers.is_full() && waiters.front_key().is_some_and(&range) {
                waiters.release_front(CHANGED, wakers);
            }
            wakers.is_full()
        });
    }

    /// CompareVersion: if the current version is not `seen`, marks it as seen. Returns `None` if there is
    /// nothing new.
    #[inline]
    pub(super) fn look(&self, seen: &mut Version) -> Option<Result<(), Closed>> {
        // Acquire: pairs with LowerWriter and the closing.
        let word = self.word().load(Acquire);
        let version = Version::of(word);
        if version != *seen {
            *seen = version;
            return Some(Ok(()));
        }
        (word & CLOSED != 0).then_some(Err(Closed))
    }

    /// CompareVersion, without marking anything. An error once no sender is left.
    pub(super) fn has_unseen(&self, seen: Version) -> Result<bool, Closed> {
        // Acquire: as in `look`.
        let word = self.word().load(Acquire);
        if word & CLOSED == 0 { Ok(Version::of(word) != seen) } else { Err(Closed) }
    }

    /// MarkWaiting and JoinChanged. Returns `Pending` if `waiter` is now in the list. Otherwise there is
    /// something to see.
    ///
    /// # Safety
    /// 1. `waiter` has never joined a wait list. 2. Once `Pending` was returned, it leaves `self.waiters`
    ///    before it is freed, unless it has seen its outcome.
    unsafe fn join(&self, waiter: Pin<&Waiter>, waker: Waker) -> Poll<()> {
        // `waker` is a parameter, so it is dropped after the lock if it is not needed.
        let mut waiters = self.waiters.lock();
        let mut word = self.word().load(Acquire);
        loop {
            if Version::of(word) != Version(waiter.key()) || word & CLOSED != 0 {
                return Poll::Ready(());
            }
            if word & WAITING != 0 {
                break;
            }
            match self.word().compare_exchange_weak(word, word | WAITING, Acquire, Acquire) {
                Ok(_) => break,
                Err(actual) => word = actual,
            }
        }
        // SAFETY: (1), (2).
        unsafe { waiters.join(waiter, Some(waker)) };
        Poll::Pending
    }

    pub(super) fn receiver_count(&self) -> usize {
        // Acquire: pairs with the end of a receiver.
        self.receivers.load(Acquire)
    }

    pub(super) fn add_receiver(&self) {
        // Relaxed: only a number; a thread that sees the receiver got it by other means.
        self.receivers.fetch_add(1, Relaxed);
    }

    pub(super) fn remove_receiver(&self) {
        // Release: pairs with `receiver_count`.
        if self.receivers.fetch_sub(1, Release) == 1 {
            self.abandoned.notify_waiters();
        }
    }

    /// Waits until there is no receiver.
    pub(super) async fn abandoned(&self) {
        while self.receiver_count() > 0 {
            // Made before the second look, because `notify_waiters` releases it from its creation on.
            let notified = self.abandoned.notified();
            if self.receiver_count() == 0 {
                break;
            }
            notified.await;
        }
    }

    pub(super) fn remove_sender(&self) {
        // AcqRel: what every sender did comes before the end.
        if self.senders.fetch_sub(1, AcqRel) == 1 {
            // Pairs with CompareVersion.
            let word = self.word().fetch_or(CLOSED, Release);
            if word & WAITING != 0 {
                self.release(|_| true);
            }
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Channel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Channel");
        match self.lock.try_read() {
            // SAFETY: (1) `reading` is a reading of this channel, and lives until the end of the arm.
            Some(reading) => debug.field("value", unsafe { self.value(&reading) }),
            None => debug.field("value", &format_args!("<locked>")),
        };
        debug
            .field("version", &self.version().0)
            .field("is_closed", &self.is_closed())
            .field("receivers", &self.receiver_count())
            .finish_non_exhaustive()
    }
}

/// The state of a [`Changed`].
#[derive(Debug)]
enum ChangedState {
    Apart,
    /// In the list, or released and not polled since.
    Queued,
    Done,
}

/// Waits until the version of the value is not `seen`, and marks it as seen. It takes no part in the budget.
#[derive(Debug)]
pub(super) struct Changed<'a, T> {
    channel: &'a Channel<T>,
    seen: &'a mut Version,
    /// Its key is the version that the receiver has seen.
    waiter: Waiter,
    state: ChangedState,
}

impl<'a, T> Changed<'a, T> {
    pub(super) fn new(channel: &'a Channel<T>, seen: &'a mut Version) -> Self {
        let waiter = Waiter::new(seen.0);
        Self { channel, seen, waiter, state: ChangedState::Apart }
    }
}

impl<T> Future for Changed<'_, T> {
    type Output = Result<(), Closed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the waiter is not moved out of. The other fields are not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: the waiter is a field of a pinned struct, and never moved.
        let waiter = unsafe { Pin::new_unchecked(&this.waiter) };
        let mut result = None;
        if let ChangedState::Apart = this.state {
            result = this.channel.look(this.seen);
            if result.is_none() {
                // SAFETY: (1) the state is `Apart`, so the waiter has never joined. (2) After `Pending` the
                // state is `Queued`, so `drop` calls `leave`.
                if unsafe { this.channel.join(waiter, cx.waker().clone()) }.is_pending() {
                    this.state = ChangedState::Queued;
                    return Poll::Pending;
                }
            }
        } else if let ChangedState::Queued = this.state {
            // SAFETY: (1) the state is `Queued`: the waiter has joined this list, and leaves only in `drop`.
            if unsafe { waiter.poll_outcome(&this.channel.waiters, cx) }.is_pending() {
                return Poll::Pending;
            }
        }
        this.state = ChangedState::Done;
        let result = result.or_else(|| this.channel.look(this.seen));
        Poll::Ready(result.expect("a receiver is released when there is something to see"))
    }
}

impl<T> Drop for Changed<'_, T> {
    fn drop(&mut self) {
        let ChangedState::Queued = self.state else { return };
        // SAFETY: a pinned future is dropped where it is.
        let waiter = unsafe { Pin::new_unchecked(&self.waiter) };
        // SAFETY: (1) the state says that it has joined, and it leaves only here. The waker is dropped last,
        // because its drop may panic.
        let (_outcome, _waker) = unsafe { self.channel.waiters.lock().leave(waiter) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
