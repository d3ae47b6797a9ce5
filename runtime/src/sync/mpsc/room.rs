//! The room (capacity) of a bounded channel: permits, one for each value that may be sent.
//!
//! # The word
//! The number of free permits, up to 65,535, is in the word of the queue's tail (`queue.rs`). So one
//! read-modify-write sends a value: it takes a permit and a position at once.
//! ```text
//!  FREE      permits that are free
//!  QUEUED    a future may stand in line: permits are taken only through the line
//!  CLOSED    no permit is given out any more
//! ```
//! While QUEUED is set, only the holder of the line's lock takes permits, and only this holder clears QUEUED.
//! Permits come back at any time.
//!
//! # Steps
//! ```text
//! take(n)                                        give(n)
//! T1 not QUEUED, FREE ≥ n: FREE -= n (CAS)       G1 FREE += n; it was not QUEUED: done
//! T2 else lock; T1 again; set QUEUED (CAS)       G2 else lock
//! T3 join the line; unlock                       G3 release waiters from the front while FREE ≥ their need
//! T4 wait for the outcome                        G4 line empty: clear QUEUED; unlock; wake
//! ```
//! These are the steps of `permits.rs`, with one difference: G1 comes before the lock in each case. The word
//! has other bits that change meanwhile, so G3 and G4 are read-modify-writes anyway. A waiter that leaves the
//! line runs G2 to G4.
//!
//! # The race
//! A taker finds too few permits. Before it stands in line, a permit comes back, and its giver wakes no
//! taker.
//!
//! # Ordering
//! T2 sets QUEUED by a compare-and-swap on a word with too few permits. A G1 that comes before it in the
//! word's order is counted in that word. A G1 that comes after it sees QUEUED, unless G4 has cleared QUEUED
//! in between. In that case the line was empty after T3, so the taker was served, or has left. A giver that
//! sees QUEUED takes the lock after T3, or it took the lock before T2 and another G1 or T2 set the order. In
//! each case G3 reads the word after every G1 whose giver relies on it.
//!
//! If the first in line needs more than FREE, the thread that raises FREE looks at it again. The G1 of that
//! thread comes after G3's look in the word's order, so it sees QUEUED and waits for the lock. G4 clears
//! QUEUED only on an empty line, under the lock, and does not touch FREE. So a permit that came back unseen
//! stays in the word for T1.
//!
//! The next taker sees what was done under a permit: all steps are AcqRel, and G3's outcome passes it on.
//!
//! # More room than fits
//! A channel for more than 65,535 values has its permits in a word of their own (`permits.rs`), and FREE is
//! 0. FREE is also 0 in a channel without a bound.
//!
//! # Rejected
//! A word of its own for the permits of every channel: a send needs two read-modify-writes instead of one,
//! and two threads write to a second cache line with each value. The receiver's position in a word of its
//! own, which senders read only when they run out of room: the receiver then needs a fence for each value,
//! because it must see the waiters. The fence costs as much as G1.

use std::pin::Pin;
use std::task::{Poll, Waker};

use super::queue::{CLOSED, MOST_FREE, ONE_FREE, QUEUED, free_in};
use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::permits::{Closed, GRANTED, Permits, REFUSED, Source, TakeError};
use crate::sync::wait_list::{Line, Waiter, release_in_batches};

/// The capacity of a bounded channel.
pub(super) struct Room {
    pub(super) max: usize,
    permits: Kind,
    /// The receiver's waker, while the channel is closed and senders hold permits; see `channel.rs`.
    pub(super) last_permits: Mutex<Option<Waker>>,
}

/// The place of the permits.
enum Kind {
    /// In the tail's word.
    Narrow(Mutex<Line>),
    /// In a word of their own.
    Wide(Permits),
}

impl Room {
    /// Creates room for `max` values. `max` must not be above [`Permits::MAX`].
    pub(super) fn new(max: usize) -> Self {
        let permits = match max <= MOST_FREE {
            true => Kind::Narrow(Mutex::new(Line::new())),
            false => Kind::Wide(Permits::new(max)),
        };
        Self { max, permits, last_permits: Mutex::new(None) }
    }

    /// The first value of FREE.
    pub(super) fn free_in_tail(&self) -> usize {
        match self.permits {
            Kind::Narrow(_) => self.max,
            Kind::Wide(_) => 0,
        }
    }

    /// This room, with the tail's word of its channel.
    pub(super) fn with<'a>(&'a self, tail: &'a AtomicUsize) -> Desk<'a> {
        Desk { room: self, tail }
    }
}

/// The place where permits of one channel are taken and given back.
#[derive(Clone, Copy)]
pub(super) struct Desk<'a> {
    room: &'a Room,
    tail: &'a AtomicUsize,
}

impl Desk<'_> {
    pub(super) fn free(self) -> usize {
        match &self.room.permits {
            Kind::Narrow(_) => free_in(self.tail.load(Ordering::Acquire)),
            Kind::Wide(permits) => permits.free(),
        }
    }

    pub(super) fn is_closed(self) -> bool {
        match &self.room.permits {
            Kind::Narrow(_) => self.tail.load(Ordering::Acquire) & CLOSED != 0,
            Kind::Wide(permits) => permits.is_closed(),
        }
    }

    /// T1: takes `n` permits if they are free and no future stands in line.
    pub(super) fn try_take(self, n: usize) -> Result<(), TakeError> {
        if let Kind::Wide(permits) = &self.room.permits {
            return permits.try_take(n);
        }
        let mut word = self.tail.load(Ordering::Relaxed);
        loop {
            if word & CLOSED != 0 {
                return Err(TakeError::Closed);
            }
            if word & QUEUED != 0 || free_in(word) < n {
                return Err(TakeError::TooFew);
            }
            match self.swap(word, word - n * ONE_FREE) {
                Ok(_) => return Ok(()),
                Err(actual) => word = actual,
            }
        }
    }

    /// Gives back `n` permits that were not used.
    pub(super) fn drop_permits(self, n: usize) {
        // D1.
        self.give(n);
        // D2.
        if self.is_closed() {
            // D3.
            let waker = self.room.last_permits.lock().take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Gives back `n` permits.
    #[inline(always)]
    pub(super) fn give(self, n: usize) {
        match &self.room.permits {
            Kind::Narrow(line) => {
                // G1. The sum cannot overflow, because there are `max` permits in all.
                let word = self.tail.fetch_add(n * ONE_FREE, Ordering::AcqRel);
                debug_assert!(free_in(word) + n <= self.room.max, "more permits than room: {word:#x} + {n}");
                if word & QUEUED != 0 {
                    self.serve_line(line);
                }
            }
            Kind::Wide(permits) => permits.give(n),
        }
    }

    /// G2 to G4.
    #[inline(never)]
    fn serve_line(self, line: &Mutex<Line>) {
        release_in_batches(line, |line, wakers| {
            while !wakers.is_full() {
                let word = self.tail.load(Ordering::Acquire);
                match line.front_key() {
                    None => {
                        // G4.
                        self.tail.fetch_and(!QUEUED, Ordering::AcqRel);
                        return false;
                    }
                    // Once closed, `close` empties the line.
                    Some(need) if word & CLOSED == 0 && need <= free_in(word) => {
                        // G3.
                        if self.swap(word, word - need * ONE_FREE).is_ok() {
                            line.release_front(GRANTED, wakers);
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
        let line = match &self.room.permits {
            Kind::Narrow(line) => line,
            Kind::Wide(permits) => return permits.close(),
        };
        release_in_batches(line, |line, wakers| {
            self.tail.fetch_or(CLOSED, Ordering::AcqRel);
            while !wakers.is_full() && line.release_front(REFUSED, wakers) {}
            if line.is_empty() {
                self.tail.fetch_and(!QUEUED, Ordering::AcqRel);
            }
            wakers.is_full()
        });
    }

    fn swap(self, word: usize, next: usize) -> Result<usize, usize> {
        self.tail.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed)
    }
}

// SAFETY: (1) `join` puts the waiter into `line()` or nowhere. G3 and `close` release it with one of the two
// outcomes.
unsafe impl Source for Desk<'_> {
    fn try_take(&self, n: usize) -> Result<(), TakeError> {
        (*self).try_take(n)
    }

    fn must_wait(&self, n: usize) -> bool {
        match &self.room.permits {
            Kind::Narrow(_) => {
                let word = self.tail.load(Ordering::Relaxed);
                word & CLOSED == 0 && (word & QUEUED != 0 || free_in(word) < n)
            }
            Kind::Wide(permits) => Source::must_wait(&permits, n),
        }
    }

    fn is_closed(&self) -> bool {
        (*self).is_closed()
    }

    fn line(&self) -> &Mutex<Line> {
        match &self.room.permits {
            Kind::Narrow(line) => line,
            Kind::Wide(permits) => &permits.line,
        }
    }

    unsafe fn join(&self, waiter: Pin<&Waiter>, waker: Waker) -> Poll<Result<(), Closed>> {
        let line = match &self.room.permits {
            Kind::Narrow(line) => line,
            // SAFETY: (1), (2).
            Kind::Wide(permits) => return unsafe { Source::join(&permits, waiter, waker) },
        };
        // `waker` is a parameter, so it is dropped after the lock if it is not needed.
        let mut line = line.lock();
        let mut word = self.tail.load(Ordering::Relaxed);
        // T2.
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
        // T3. SAFETY: (1), (2).
        unsafe { line.join(waiter, Some(waker)) };
        Poll::Pending
    }

    fn give(&self, n: usize) {
        self.drop_permits(n);
    }

    fn serve(&self) {
        match &self.room.permits {
            Kind::Narrow(line) => self.serve_line(line),
            Kind::Wide(permits) => Source::serve(&permits),
        }
    }
}
