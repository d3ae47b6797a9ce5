//! The one sleep protocol: who is awake, who searches, who sleeps, and whom a push wakes.
//!
//! A worker without work searches the others' queues; few search at a time, since searchers get in each other's way. One
//! that finds nothing sleeps. Whoever makes work wakes a sleeper, unless somebody searches: that one will find it.
//!
//! ```text
//!            no local work             found nothing
//!   running ───────────────▶ searching ─────────────▶ sleeping
//!     ▲  ▲     found work    │       ▲    notified      │  │
//!     │  └───────────────────┘       └──────────────────┘  │
//!     └────────────────────────────────────────────────────┘
//!                 woke by itself: an event, a timer
//! ```
//! One word packs the number of searching and of sleeping workers; a bitmap says which sleep. Only threads that may run
//! any work count; a worker that waits inside a computation will be in neither number and have bits of its own, and so
//! will an events counter for jobs have the upper half of the word.
//!
//! **Whoever clears a sleeper's bit takes it out of the number**: the notifier, or the worker itself when it wakes
//! without having been notified. So the number is exact whenever nobody is between the two steps, and never too low.
//!
//! # Steps
//! ```text
//! Post (any thread)                         Sleep (worker i)
//! P1 push the task                          W1 sleeping += 1, and searching -= 1 if it was
//! P2 SeqCst fence                           W2 set bit i
//! P3 searching > 0 or sleeping == 0: done   W3 SeqCst fence
//! P4 searching += 1 (CAS from 0)            W4 look in the injector and the rings again;
//!                                              work: clear bit i, stay awake as a searcher
//! P5 clear a bit; none: searching -= 1,     W5 park
//!    SeqCst fence, and again from P3
//!    unless no bit is set
//! P6 sleeping -= 1, unpark                  Find (a searcher finds work)
//!                                           F1 searching -= 1
//!                                           F2 it was the last: SeqCst fence, look in the queues;
//!                                              work: notify (from P3)
//! ```
//! # The race
//! Worker 1 has looked in every queue and found nothing. A thread outside pushes a task, sees nobody asleep, and leaves.
//! Worker 1 goes to sleep. The task waits for ever. Or: the thread sees worker 1 searching and relies on it, but worker 1
//! has just found another task in the last queue it had to look at, and is busy for a second.
//!
//! # Why no task from outside is stranded
//! Take a push P1 into the injector by a thread that will not run the task itself. SeqCst fences have one total order.
//! - *P3 saw nobody asleep, or P5 found no bit.* For every worker i, compare P2 with i's last W3. If W3 came first, W1 and
//!   W2 are visible at P3 and P5, so sleeper i would have been seen, unless another thread cleared its bit since: that
//!   one was notified, is a searcher that has not looked yet (its search is ordered behind P2 by the read-modify-writes
//!   on the word: P4 of its notifier came before P3, which saw it, or after, and then see below). If P2 came first, i's W4
//!   sees P1. So no worker sleeps through it; if all were awake, each will pass W4 before it sleeps.
//! - *P3 saw a searcher.* That one leaves the number by W1 or F1 later in the word's modification order than what P3 read.
//!   By W1: its W3 comes after P2 (P2 → P3 reads a value older than W1; were W3 before P2, P3 would have to see W1), so
//!   its W4 sees P1. By F1: if it was not the last, the argument passes to the others, the last of which looks at F2,
//!   behind a fence that is likewise after P2, sees P1 and notifies. By P5's giving back: its fence is after P2, because P3 read
//!   a value older than what it gave back. A worker whose W3 came before P2 thus shows its bit there, and P5 goes on with it;
//!   one whose W3 comes later sees P1 at W4.
//! - A notified worker counts as searching until it has looked, so the duty is handed on, never dropped.
//!
//! Pushes into a worker's own ring leave out P2: the load of P3 may be stale and a chance for parallelism be missed, but
//! not the task, because the pusher comes back to its own queue. It looks again every few dozen tasks.
//!
//! # Rejected
//! A mutex around a stack of sleepers (Tokio): the word has to be atomic all the same, and the lock is one more thing to
//! wait for while a waker is preempted. Counting first and picking a bit in one word: 64 workers at most.
//!
//! # Sources
//! Searching and its throttle: the 2019 Tokio scheduler, after Go's. Packed counters and the two-fence argument: Rayon's
//! sleep module.

use crate::loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use crate::loom::sync::atomic::{AtomicU64, fence};

const SEARCHING: u64 = 1;
const SLEEPING: u64 = 1 << 16;
const FIELD: u64 = 0xffff;

/// Most threads that the word can count.
pub const MAX_THREADS: usize = FIELD as usize;

/// See the module's docs.
#[derive(Debug)]
pub struct Idle {
    /// Searching in bits 0..16, sleeping in 16..32; the rest is for the events counter of jobs.
    counts: AtomicU64,
    /// Bit `i % 64` of word `i / 64`: worker `i` sleeps and has not been notified.
    sleepers: Box<[AtomicU64]>,
    /// Workers that are there to search and sleep.
    workers: usize,
}

impl Idle {
    /// `workers` throttles searching; `threads` is how many indices there are.
    pub fn new(workers: usize, threads: usize) -> Self {
        assert!(threads <= MAX_THREADS);
        Self {
            counts: AtomicU64::new(0),
            sleepers: (0..threads.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            workers,
        }
    }

    /// Joins the searchers, unless half of the workers search already.
    pub fn start_searching(&self) -> bool {
        // Relaxed: a throttle, not a promise.
        if 2 * searching(self.counts.load(Relaxed)) >= self.workers {
            return false;
        }
        // SeqCst, as every change of the word: see the module's docs.
        self.counts.fetch_add(SEARCHING, SeqCst);
        true
    }

    /// F1: a searcher found work. Says whether it was the last, who has to do F2.
    pub fn stop_searching(&self) -> bool {
        let before = self.counts.fetch_sub(SEARCHING, SeqCst);
        debug_assert!(searching(before) > 0);
        searching(before) == 1
    }

    /// W1 to W3: worker `index` is about to sleep and has to look in the queues once more (W4).
    pub fn announce_sleep(&self, index: usize, is_searching: bool) {
        let change = if is_searching { SLEEPING - SEARCHING } else { SLEEPING };
        self.counts.fetch_add(change, SeqCst);
        self.word(index).fetch_or(bit(index), AcqRel);
        fence(SeqCst);
    }

    /// W4 found work: worker `index` does not sleep, it searches. Others may have relied on it as a searcher before W1, so
    /// it has to leave the searchers by F1 like any other.
    pub fn cancel_sleep(&self, index: usize) {
        if self.word(index).fetch_and(!bit(index), AcqRel) & bit(index) != 0 {
            self.counts.fetch_sub(SLEEPING - SEARCHING, SeqCst);
        }
    }

    /// Worker `index` woke. True if it did so by itself; false if it was notified: then it counts as searching.
    pub fn end_sleep(&self, index: usize) -> bool {
        // A load first: a notified worker need not write.
        if self.word(index).load(Acquire) & bit(index) == 0
            || self.word(index).fetch_and(!bit(index), AcqRel) & bit(index) == 0
        {
            return false;
        }
        self.counts.fetch_sub(SLEEPING, SeqCst);
        true
    }

    /// P2: orders a push before what follows. For pushes into queues that the pusher does not drain itself.
    pub fn fence_push(&self) {
        fence(SeqCst);
    }

    /// P3 to P6: picks a sleeper to be unparked by the caller, if one is needed. It then counts as searching.
    ///
    /// `avoided` (who sits in the driver) is picked only if no other sleeps.
    pub fn pick_sleeper(&self, avoided: Option<usize>) -> Option<usize> {
        let mut counts = self.counts.load(Relaxed);
        loop {
            if searching(counts) > 0 || sleeping(counts) == 0 {
                return None;
            }
            if let Err(actual) = self.counts.compare_exchange(counts, counts + SEARCHING, SeqCst, Relaxed) {
                counts = actual;
                continue;
            }
            if let Some(index) = self.clear_a_bit(avoided) {
                self.counts.fetch_sub(SLEEPING, SeqCst);
                return Some(index);
            }
            // The sleeper is between W1 and W2, or between clearing its own bit and leaving the number. Meanwhile others
            // may have relied on us as a searcher, so look again, with their pushes in view.
            self.counts.fetch_sub(SEARCHING, SeqCst);
            fence(SeqCst);
            crate::loom::hint::spin_loop();
            counts = self.counts.load(Relaxed);
            if self.sleepers.iter().all(|word| word.load(Relaxed) == 0) {
                return None;
            }
        }
    }

    /// Whether nobody searches and somebody sleeps: a hint for a worker that has more than it can do.
    pub fn is_worth_notifying(&self) -> bool {
        let counts = self.counts.load(Relaxed);
        searching(counts) == 0 && sleeping(counts) > 0
    }

    /// Numbers of searching and sleeping workers: exact at rest.
    #[allow(dead_code, reason = "called by tests and models")]
    pub fn counts(&self) -> (usize, usize) {
        let counts = self.counts.load(SeqCst);
        (searching(counts), sleeping(counts))
    }

    fn clear_a_bit(&self, avoided: Option<usize>) -> Option<usize> {
        // Low indices first: the same few workers stay busy, warm, and the others asleep.
        let others = self.sleepers.iter().enumerate().find_map(|(i, word)| {
            let avoided = avoided.filter(|avoided| avoided / 64 == i).map_or(0, bit);
            take_lowest(word, !avoided).map(|bit| 64 * i + bit)
        });
        others.or_else(|| {
            let avoided = avoided?;
            let word = self.sleepers.get(avoided / 64)?;
            take_lowest(word, bit(avoided)).map(|_| avoided)
        })
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        &self.sleepers[index / 64]
    }
}

/// Clears the lowest set bit within `mask`.
fn take_lowest(word: &AtomicU64, mask: u64) -> Option<usize> {
    let mut now = word.load(Acquire);
    while now & mask != 0 {
        let lowest = (now & mask).trailing_zeros();
        // AcqRel: pairs with W2, and orders the unpark behind it.
        let before = word.fetch_and(!(1 << lowest), AcqRel);
        if before & (1 << lowest) != 0 {
            return Some(lowest as usize);
        }
        now = before;
    }
    None
}

fn bit(index: usize) -> u64 {
    1 << (index % 64)
}

fn searching(counts: u64) -> usize {
    (counts & FIELD) as usize
}

fn sleeping(counts: u64) -> usize {
    ((counts / SLEEPING) & FIELD) as usize
}
