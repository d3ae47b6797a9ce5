//! The sleep protocol: which workers are awake, search, sleep or wait for a latch, and which worker a push
//! wakes.
//!
//! A worker without work searches the others' queues; only a few search at a time, because searchers get in
//! each other's way. A searcher that finds nothing sleeps. A thread that pushes work wakes a sleeper, unless
//! a worker searches: the searcher will find the work.
//!
//! ```text
//! outside of computations: in the numbers
//!            no local work             found nothing
//!   running ───────────────▶ searching ─────────────▶ sleeping
//!     ▲  ▲     found work    │       ▲    notified      │  │
//!     │  └───────────────────┘       └──────────────────┘  │
//!     └────────────────────────────────────────────────────┘
//!                 woke by itself: an event, a timer
//!
//! inside a computation: in neither number
//!              needs a stolen job            found nothing
//!   computing ────────────────────▶ looking ─────────────▶ waiting
//!     ▲  ▲      found a job          │  │ ▲    woken         │
//!     │  └───────────────────────────┘  │ └──────────────────┘
//!     └─────────────────────────────────┘
//!                 its latch is set
//! ```
//! One word packs the number of searching workers, of sleeping workers, and the **jobs event counter**. The
//! counter is even if no job was posted since the last worker got sleepy, else odd. It lies in the top bits,
//! so that its overflow falls off. Two bitmaps say which workers sleep and which wait. The numbers count
//! threads that may run anything. A worker that waits for a latch runs jobs and no tasks, so the pusher of a
//! task must not rely on it.
//!
//! **The thread that clears a sleeper's bit takes the sleeper out of the number**: the notifier, or the
//! worker itself when it wakes without having been notified. So the number is never too low, and exact
//! whenever no thread is between the two steps. Waiters are in no number: the thread that clears a waiter's
//! bit unparks the waiter, unless it is the waiter itself.
//!
//! # Steps
//! ```text
//! Post (any thread)                         Sleep (worker i)
//! P1 push the task                          W1 sleeping += 1, and searching -= 1 if it was
//! P2 SeqCst fence                           W2 set bit i
//! P3 searching > 0 or sleeping == 0: done   W3 SeqCst fence
//! P4 searching += 1 (CAS from 0)            W4 look in the injectors, rings and deques again;
//!                                              work: clear bit i, stay awake as a searcher
//! P5 clear a bit; none: searching -= 1,     W5 park
//!    SeqCst fence, and again from P3
//!    unless no bit is set
//! P6 sleeping -= 1, unpark                  Find (a searcher finds work)
//!                                           F1 searching -= 1
//!                                           F2 it was the last: SeqCst fence, look in the queues;
//!                                              tasks: notify (from P3); jobs: notify (from J4)
//!
//! Post a job                                Wait for a latch (worker i)
//! J1 publish it                             S1 the counter is odd: make it even (CAS); remember it
//! J2 from outside: P2                       S2 SeqCst fence; look for jobs again; the latch: UNSET
//!                                              to SLEEPING
//! J3 the counter is even: make it odd (CAS) L1 set bit i among the waiters
//! J4 P3 to P6                               L2 SeqCst fence
//! J5 P3 or P5 saw none: clear a waiter's    L3 read the counter by a read-modify-write; it has
//!    bit, unpark                               changed: clear bit i, look again
//!                                           L4 look in the job injector and at the latch;
//! Fall asleep where there are jobs             tasks wait: as if one was pushed (P3)
//! S1, S2 as beside, then W1 by a CAS        L5 park
//!    that refuses if the counter has        L6 clear bit i; another has: notified
//!    changed; W2 to W5                      N  notified, but it takes another job, or its latch is
//!                                              set: look for jobs, everywhere; there are: from J4
//! ```
//! Roots that no waiter may run (`compute`, detached spawns) leave out J5. **A region too short to share**
//! wakes no worker: its pusher knows that it is short, and does J1 and J3 alone. A worker that is about to
//! sleep looks once more for its jobs; a worker that sleeps already sleeps on. Setting a latch is not part of
//! this protocol: it unparks the owner (`job/latch.rs`).
//!
//! # The races
//! *The glance.* Worker 1 has looked in every queue and found nothing. A thread outside pushes a task, sees
//! no worker asleep, and leaves. Worker 1 goes to sleep. The task waits for ever. P2 and W3 prevent this.
//! Workers push jobs without a fence; there J3 and S1 prevent it: the counter is not what worker 1 remembers.
//!
//! *The distracted searcher.* The thread sees worker 1 searching and relies on it, but worker 1 has just
//! found another task in the last queue it had to look at, and is busy for a second. Hence F2.
//!
//! *The stolen half.* Worker A shares one half of its work and does the other. Worker B steals that half and
//! shares a part of it. A is done with its own half and, while it waits for B, steals that part. B runs out
//! of work and sleeps until A is done with the part. At that very moment A is done, sets the latch, takes B
//! for awake, and sleeps itself until B is done. Neither ever wakes, however many other workers there are. So
//! a latch's owner says *in the latch's word* that it is about to sleep, and the setter sees that in the
//! read-modify-write that sets the latch: one of the two comes first.
//!
//! *The uncounted waiter.* The only thread that is not busy waits for a latch when a task comes. Counted as a
//! sleeper, it would be woken for it, look for jobs, and sleep again, and the task's pusher would be content.
//! It is in no number, so the pusher finds no worker and fetches a spare one. If the task came a moment
//! before the wait, L4 fetches a spare worker.
//!
//! *The errand forgotten.* A root's pusher picks a waiter. Its latch is set as well; it wakes, and goes back
//! to its own computation. Another waiter sleeps on beside the root. Hence N. (Likewise if the picked waiter
//! takes a piece that was not announced, while a worker that blocks has announced another one.)
//!
//! *The errand without end.* Two waiters are in isolated regions and may run only jobs of these. A root
//! comes; each of them wakes, may not run it, and wakes the other, over and over, until a third worker has
//! time. So a waiter that may not run what it finds asks only waiters that J5 picks after it, in the order of
//! their indices. The workers with lower indices were no waiters at J5, and have looked since, or will. (So
//! J5 does not avoid the worker that sits in the driver, as P5 does: the order must not change meanwhile.)
//!
//! *The restricted worker.* A spare worker that serves (`away.rs`) sleeps beside a worker that may run
//! everything, which sits in the driver. A child job comes. The pusher avoids the worker in the driver, and
//! wakes the spare one, which may not run the job, and sleeps again. So a spare worker that may not run
//! everything does not go to sleep as a searcher: it does F1 and F2, and at F2 it wakes only a worker with a
//! lower index. Workers that may run more have lower indices. Each wakes only a lower one, so this ends.
//!
//! *The stand-in.* A worker woke by itself, has cleared its bit, and is still in the number. The pusher of a
//! root sees it there, counts as a searcher (P4) and finds no bit (P5). Between P4 and P5, other threads have
//! pushed a task and a job and relied on that searcher. It is not enough to look at the bits again: there may
//! be sleeping waiters that the job's pusher would have asked, and resting spare workers that the task's
//! pusher would have fetched. So a pusher that gives back asks both, whatever its own work was ([`Pick`]).
//!
//! *The full turn.* Between S1 and L3, while the worker is preempted, the counter moves by 2^32: it looks
//! unchanged.
//!
//! # Why no work from outside is stranded
//! Take a push P1 into the injector by a thread that will not run the task itself. SeqCst fences have one
//! total order.
//! - *P3 saw no sleeper, or P5 found no bit.* For every worker i, compare P2 with i's last W3. If W3 came
//!   first, W1 and W2 are visible at P3 and P5, so sleeper i would have been seen, unless another thread
//!   cleared its bit since: that one was notified, is a searcher that has not looked yet (its search is
//!   ordered behind P2 by the read-modify-writes on the word: P4 of its notifier came before P3, which saw
//!   it, or after, and then see below). If P2 came first, i's W4 sees P1. So no worker sleeps through it; if
//!   all were awake, each will pass W4 before it sleeps.
//! - *P3 saw a searcher.* That searcher leaves the number by W1 or F1 later in the word's modification order
//!   than what P3 read. By W1: its W3 comes after P2 (P2 → P3 reads a value older than W1; were W3 before P2,
//!   P3 would have to see W1), so its W4 sees P1. By F1: if it was not the last searcher, the argument passes
//!   to the others. The last one looks at F2, behind a fence that is likewise after P2, sees P1 and notifies.
//!   By P5's giving back: its fence is after P2, because P3 read a value older than what it gave back. A
//!   worker whose W3 came before P2 thus shows its bit there, and P5 goes on with it; a worker whose W3 comes
//!   later sees P1 at W4. Waiters and spare workers are asked after that fence, so what follows holds as if
//!   P1's own thread had asked them.
//! - A notified worker counts as searching until it has looked, so the duty is handed on, never dropped.
//!
//! **Job injector against sleeper**: the same, word for word; J3 only writes to the word in between. **Job
//! injector against waiter**: if P3 relies on no worker, J5 reads the bits. For every waiter i, compare P2
//! with i's last L2. P2 first: L4 sees J1. L2 first: J5 sees L1, or that the bit was cleared since. Then i
//! was up after L2, and will do L1 and L2 again, after P2, before it sleeps. So if J5 finds no bit, every
//! waiter that sleeps has looked after P2. If it clears one, that waiter sees J1 (its bit and its token order
//! the two), and runs the job or does N. **Latch against sleeper**: `job/latch.rs`; L4's look at the latch
//! only saves a sleep.
//!
//! # What pushes from inside may overlook
//! Pushes into a worker's own ring leave out P2: the load of P3 may be stale and a chance for parallelism be
//! missed, but not the task, because the pusher comes back to its own queue. It looks again every few dozen
//! tasks.
//!
//! Jobs in a deque leave out J2. *A post that writes (J3 finds the counter even) is not overlooked*, since
//! all changes of the word are read-modify-writes, each of which sees what came before it in the word's
//! order, and all that came before that:
//! - a sleeper's W1 after J3 is refused, or, if it got sleepy after J3, has looked after J1. W1 before J3: P3
//!   sees it. (If W2 is still to come, P5 gives back; by the two fences either P5 then sees W2, or W4 sees
//!   J1. So W4 looks in the deques, too.)
//! - a waiter's L3 after J3 sees a new count, or S2 came after J1. L3 before J3: J5 sees L1. A mere load at
//!   L3 would not do.
//! - a searcher's F1 after J3 comes with F2, which sees J1; searchers that are there before J3 leave after
//!   it.
//!
//! A post that finds the counter odd only reads, and what it reads may be stale: a worker may have got sleepy
//! meanwhile. Such a job can be overlooked by all, and a core idles until the next post. It is still run: its
//! pusher takes it back before it waits for anything, and at the latest when its own half is done. So **a
//! worker that blocks, or will be long, with jobs that others could take does J2 to J5** first. With J2, a
//! post that finds the counter odd is not overlooked either. By a sleeper: as a task. By a waiter: if J3
//! reads a value older than S1, J2 comes before the fence of S2, which sees J1; else it finds the counter
//! even, unless another thread has posted since, and L3 sees that post. Two stricter orders were measured
//! with recursive joins. The order of the older Rayon, a SeqCst operation at every push, made them up to 40 %
//! slower; a swap instead of the load made them more than three times as slow.
//!
//! **The full turn** hides a post from L3. L4 finds a job from outside all the same, because the fences do
//! not depend on the counter. A sleeper finds every job at W4. A waiter may overlook a job of a deque, which
//! its pusher comes back to. The word's other fields do not notice.
//!
//! # When no worker is left
//! All workers have a place in this instance, permanent ones and spare ones: they are alike. *Nobody* (P3 saw
//! no sleeper and no searcher, and J5 no waiter) says that every worker that may run the work is awake and
//! busy, has yet to pass W4, or is away. Then a spare worker is fetched, if one is needed (`away.rs`):
//! [`has_waiters`](Idle::has_waiters), read after P2, sees every waiter whose L2 came before; a later one
//! sees P1 at L4. A spare worker that goes to rest does F1 and F2, and looks in the queues after it is listed
//! as resting.
//!
//! A *surplus* thread may sleep here, too: a spare worker that serves while all others are inside of long
//! polls. Work that can wait for the others, such as tasks in the pusher's own ring, wakes no worker if there
//! are no more sleepers than surplus threads. That rule is not part of this protocol: it belongs to the
//! pushers (`Shared::extra`), which come back to what they have pushed.
//!
//! # Rejected
//! A mutex around a stack of sleepers (Tokio): the word has to be atomic all the same, and the lock is one
//! more thing to wait for while a waker is preempted. Counting first and picking a bit in one word: 64
//! workers at most. Waiters in the number of sleepers, as in Rayon, which has no tasks: see *the uncounted
//! waiter*. One sleepy worker at a time, whose index is in the word (older Rayon): no counter that can roll
//! over, but workers fall asleep one after the other, and every event wakes all.
//!
//! # Sources
//! Searching and its throttle: the 2019 Tokio scheduler, after Go's. Packed counters, events counter, and the
//! two-fence argument: Rayon's sleep module and RFC 5; the stolen half and the glance: its older sleep
//! module.

use std::iter;
use std::ops::Range;

use crate::loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use crate::loom::sync::atomic::{AtomicU64, AtomicUsize, fence};
use crate::util::pad::CachePadded;

const SEARCHING: u64 = 1;
const SLEEPING: u64 = 1 << 16;
const EVENT: u64 = 1 << 32;
/// Of the searching and of the sleeping.
const FIELD: u64 = 0x7fff;

/// Most threads that the word can count.
pub const MAX_THREADS: usize = FIELD as usize;

/// See the module's docs.
#[derive(Debug)]
pub struct Idle {
    /// The word, and the bits of the first 64 workers beside it.
    hot: CachePadded<Hot>,
    /// The bits of the workers from 64 on.
    more: Box<[Bits]>,
    /// Workers that are there to search and sleep.
    workers: usize,
}

#[derive(Debug)]
struct Hot {
    /// The word: searching in bits 0..15, sleeping in 16..31, the jobs event counter in 32..64, so that its
    /// overflow falls off.
    counts: AtomicU64,
    first: Bits,
    /// How many blocks of `Idle::more` are in use.
    more_used: AtomicUsize,
}

/// The bits of 64 workers: bit `i % 64` is worker `i`'s.
#[derive(Debug)]
struct Bits {
    /// The worker sleeps and has not been notified.
    sleepers: AtomicU64,
    /// The worker waits for a latch, asleep or about to be, and has not been notified.
    waiters: AtomicU64,
}

/// The jobs event counter as a sleepy worker saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobEvents(u32);

/// The kind of work that a push has made visible: it says which workers may run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A task: for workers outside of computations.
    Task,
    /// A job, or a root that waiters run too: for any worker, also for a worker that waits for a latch.
    Job,
    /// A root that no waiter runs (`compute`, a detached spawn): for workers outside of computations.
    DetachedRoot,
}

/// The worker that a push has to wake.
#[must_use = "who was picked has to be unparked"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pick {
    /// To be unparked: a sleeper, which counts as searching now, or a latch waiter.
    pub unparks: Option<usize>,
    /// No searcher, sleeper or waiter was found: a spare worker may be needed.
    pub is_nobody: bool,
}

/// What P3 to P6 came to.
enum Found {
    /// P6.
    Sleeper(usize),
    /// P3: a worker searches.
    Searcher,
    /// P3: no worker searches or sleeps.
    Nobody,
    /// P5 found no bit: as `Nobody`, but meanwhile others may have relied on us as a searcher, with work of
    /// any kind.
    GaveBack,
}

impl Idle {
    /// `workers` throttles searching; `threads` is how many indices there are.
    pub fn new(workers: usize, threads: usize) -> Self {
        Self::with_events(workers, threads, 0)
    }

    /// As [`new`](Self::new), with the jobs event counter at `events`: for models of its roll-over.
    pub fn with_events(workers: usize, threads: usize, events: u32) -> Self {
        assert!(threads <= MAX_THREADS);
        let counts = AtomicU64::new(u64::from(events) * EVENT);
        Self {
            hot: CachePadded::new(Hot {
                counts,
                first: Bits::new(),
                more_used: AtomicUsize::new(workers.saturating_sub(1) / 64),
            }),
            more: (1..threads.div_ceil(64)).map(|_| Bits::new()).collect(),
            workers,
        }
    }

    /// From now on a thread may have the bits of worker `index`.
    pub fn cover(&self, index: usize) {
        // Relaxed: the thread itself, and fences behind it, come later.
        self.hot.more_used.fetch_max(index / 64, Relaxed);
    }

    /// Joins the searchers, unless half of the workers search already.
    pub fn start_searching(&self) -> bool {
        // Relaxed: a throttle, not a promise.
        if 2 * searching(self.word().load(Relaxed)) >= self.workers {
            return false;
        }
        self.add_searcher();
        true
    }

    fn add_searcher(&self) {
        // SeqCst, as every change of the word: see the module's docs.
        self.word().fetch_add(SEARCHING, SeqCst);
    }

    /// F1: a searcher found work. Says whether it was the last searcher, which has to do F2.
    pub fn stop_searching(&self) -> bool {
        let before = self.word().fetch_sub(SEARCHING, SeqCst);
        debug_assert!(searching(before) > 0);
        searching(before) == 1
    }

    /// W1 to W3: worker `index` is about to sleep and has to look in the queues once more (W4).
    pub fn announce_sleep(&self, index: usize, is_searching: bool) {
        self.word().fetch_add(lies_down(is_searching), SeqCst);
        self.show_sleeper(index);
    }

    /// W4 found work: worker `index` does not sleep, it searches. Others may have relied on it as a searcher
    /// before W1, so it has to leave the searchers by F1 like any other.
    pub fn cancel_sleep(&self, index: usize) {
        if clear(&self.bits(index).sleepers, index) {
            self.word().fetch_sub(SLEEPING - SEARCHING, SeqCst);
        }
    }

    /// Worker `index` woke. True if it did so by itself; false if it was notified: then it counts as
    /// searching.
    pub fn end_sleep(&self, index: usize) -> bool {
        let is_by_itself = clear(&self.bits(index).sleepers, index);
        if is_by_itself {
            self.word().fetch_sub(SLEEPING, SeqCst);
        }
        is_by_itself
    }

    /// P2: orders a push before what follows. For pushes into queues that the pusher does not drain itself.
    pub fn fence_push(&self) {
        fence(SeqCst);
    }

    /// Whether no worker searches, and more than `extra` workers sleep: a hint for a worker that has more
    /// than it can do.
    pub fn is_worth_notifying(&self, extra: impl FnOnce() -> usize) -> bool {
        let counts = self.word().load(Relaxed);
        searching(counts) == 0 && sleeping(counts) > 0 && sleeping(counts) > extra()
    }

    /// Numbers of searching and sleeping workers: exact at rest.
    #[allow(dead_code, reason = "called by tests and models")]
    pub fn counts(&self) -> (usize, usize) {
        let counts = self.word().load(SeqCst);
        (searching(counts), sleeping(counts))
    }

    /// W2, W3.
    fn show_sleeper(&self, index: usize) {
        self.bits(index).sleepers.fetch_or(bit(index), AcqRel);
        fence(SeqCst);
    }

    /// P3 to P6.
    fn find_sleeper(&self, avoided: Option<usize>) -> Found {
        let mut nobody = Found::Nobody;
        let mut counts = self.word().load(Relaxed);
        loop {
            if searching(counts) > 0 {
                return Found::Searcher;
            }
            if sleeping(counts) == 0 {
                return nobody;
            }
            if let Err(actual) = self.word().compare_exchange(counts, counts + SEARCHING, SeqCst, Relaxed) {
                counts = actual;
                continue;
            }
            if let Some(index) = self.take_bit(|bits| &bits.sleepers, 0..usize::MAX, avoided) {
                self.word().fetch_sub(SLEEPING, SeqCst);
                return Found::Sleeper(index);
            }
            // The sleeper is between W1 and W2, or between clearing its own bit and leaving the number.
            // Meanwhile others may have relied on us as a searcher, so look again, with their pushes in view.
            self.word().fetch_sub(SEARCHING, SeqCst);
            nobody = Found::GaveBack;
            fence(SeqCst);
            crate::loom::hint::spin_loop();
            counts = self.word().load(Relaxed);
            if self.all_bits().all(|bits| bits.sleepers.load(Relaxed) == 0) {
                return if searching(counts) > 0 { Found::Searcher } else { nobody };
            }
        }
    }

    /// Clears a bit of the bitmap `which`, of an index in `range`; that of `avoided` only if there is no
    /// other.
    fn take_bit(
        &self,
        which: fn(&Bits) -> &AtomicU64,
        range: Range<usize>,
        avoided: Option<usize>,
    ) -> Option<usize> {
        // Low indices first: the same few workers stay busy, warm, and the others asleep.
        let others = self.all_bits().enumerate().skip(range.start / 64).find_map(|(i, bits)| {
            let avoided = avoided.filter(|avoided| avoided / 64 == i).map_or(0, bit);
            let below = if range.start / 64 == i { bit(range.start) - 1 } else { 0 };
            let within = match range.end.saturating_sub(64 * i) {
                left @ ..64 => bit(left) - 1,
                _ => u64::MAX,
            };
            take_lowest(which(bits), within & !(avoided | below)).map(|bit| 64 * i + bit)
        });
        others.or_else(|| {
            let avoided =
                avoided.filter(|avoided| range.contains(avoided) && avoided / 64 <= self.more.len())?;
            take_lowest(which(self.bits(avoided)), bit(avoided)).map(|_| avoided)
        })
    }

    fn word(&self) -> &AtomicU64 {
        &self.hot.counts
    }

    fn bits(&self, index: usize) -> &Bits {
        match index / 64 {
            0 => &self.hot.first,
            block => &self.more[block - 1],
        }
    }

    /// The bits of all blocks that are in use.
    fn all_bits(&self) -> impl Iterator<Item = &Bits> {
        // Relaxed: see `cover`.
        let used = self.hot.more_used.load(Relaxed);
        iter::once(&self.hot.first).chain(&self.more[..used])
    }
}

/// For jobs and for workers that wait for latches.
impl Idle {
    /// S1: makes the jobs event counter even, if it is not, and remembers it. The caller looks in the queues
    /// once more (S2).
    pub fn get_sleepy(&self) -> JobEvents {
        // Acquire, also on failure: pairs with J3, so that S2 sees the jobs of all events that we remember.
        let mut counts = self.word().load(Acquire);
        while is_posted(counts) {
            match self.word().compare_exchange(counts, counts.wrapping_add(EVENT), SeqCst, Acquire) {
                Ok(_) => return events(counts.wrapping_add(EVENT)),
                Err(actual) => counts = actual,
            }
        }
        events(counts)
    }

    /// The fence of S2: before a worker that is going to wait for a latch looks once more.
    pub fn fence_look(&self) {
        // Pairs with J2. (A sleeper has W3.)
        fence(SeqCst);
    }

    /// As [`announce_sleep`](Self::announce_sleep), unless a job was posted since `seen`: then says false and
    /// changes nothing.
    pub fn announce_sleep_unless(&self, index: usize, is_searching: bool, seen: JobEvents) -> bool {
        self.lie_down_if(index, lies_down(is_searching), |counts| events(counts) == seen)
    }

    /// W1 by a CAS, `change` being added, unless `may` refuses; then W2 and W3. Says whether it lies.
    fn lie_down_if(&self, index: usize, change: u64, may: impl Fn(u64) -> bool) -> bool {
        let mut counts = self.word().load(Acquire);
        while may(counts) {
            match self.word().compare_exchange(counts, counts + change, SeqCst, Acquire) {
                Ok(_) => {
                    self.show_sleeper(index);
                    return true;
                }
                Err(actual) => counts = actual,
            }
        }
        false
    }

    /// J3: a job is in a queue; a worker that got sleepy before looks once more. It wakes no worker: J4 is
    /// [`pick_for`](Self::pick_for).
    #[inline]
    pub fn post_job(&self) {
        // Relaxed: if this is stale and odd, the job is overlooked, which its pusher is told about in the
        // module's docs.
        let mut counts = self.word().load(Relaxed);
        while !is_posted(counts) {
            match self.word().compare_exchange(counts, counts.wrapping_add(EVENT), SeqCst, Relaxed) {
                Ok(_) => return,
                Err(actual) => counts = actual,
            }
        }
    }

    /// L1 to L3: worker `index` is about to sleep until a latch is set; false if a job was posted since
    /// `seen`: then it does not. After true it looks in the job injector and at its latch once more (L4).
    pub fn announce_wait(&self, index: usize, seen: JobEvents) -> bool {
        self.bits(index).waiters.fetch_or(bit(index), AcqRel);
        fence(SeqCst);
        // A write, though of nothing new: pairs with J3. If J3 comes later, it sees L1.
        let now = events(self.word().fetch_add(0, SeqCst));
        // If a notifier has taken the bit, the sleep ends at once, and `end_wait` says why.
        now == seen || !self.end_wait(index)
    }

    /// L6: worker `index` waits no more, or is up to look. True if it is so by itself; false if it was
    /// notified: a job is left to it (see the module's docs).
    pub fn end_wait(&self, index: usize) -> bool {
        clear(&self.bits(index).waiters, index)
    }

    /// J5: picks a latch waiter to be unparked by the caller, the lowest from `first` on.
    pub fn pick_waiter(&self, first: usize) -> Option<usize> {
        self.take_bit(|bits| &bits.waiters, first..usize::MAX, None)
    }

    /// As [`pick_for`](Self::pick_for) a job, for waiter `index`, which was picked itself and may not run it:
    /// only for waiters that J5 would pick after it, so that the search ends if no waiter may run the job.
    pub fn pass_errand_on(&self, index: usize, avoided: Option<usize>) -> Pick {
        self.pick(Work::Job, avoided, index + 1)
    }

    /// P4 to P6, also if a worker searches already: for the monitor, when the searchers do not come. If no
    /// bit is set, the caller does what a pusher does that gives back: see *the stand-in*.
    pub fn pick_anyway(&self, avoided: Option<usize>) -> Option<usize> {
        self.pick_below(usize::MAX, avoided)
    }

    /// As [`pick_anyway`](Self::pick_anyway), of the workers below `end`: see *the restricted worker*.
    ///
    /// If there is none, this was a searcher for a moment, on which pushers may have relied. So it looks at
    /// the bits again, behind a fence, with their pushes in view: see *the stand-in*.
    pub fn pick_below(&self, end: usize, avoided: Option<usize>) -> Option<usize> {
        loop {
            self.add_searcher();
            let picked = self.take_bit(|bits| &bits.sleepers, 0..end, avoided);
            self.word().fetch_sub(if picked.is_some() { SLEEPING } else { SEARCHING }, SeqCst);
            if picked.is_some() {
                return picked;
            }
            fence(SeqCst);
            if !self.has_sleeper_below(end) {
                return None;
            }
        }
    }

    /// Whether a worker below `end` shows that it sleeps.
    fn has_sleeper_below(&self, end: usize) -> bool {
        self.all_bits().enumerate().any(|(i, bits)| {
            let mask = match end.saturating_sub(64 * i) {
                left @ ..64 => bit(left) - 1,
                _ => u64::MAX,
            };
            bits.sleepers.load(Relaxed) & mask != 0
        })
    }

    /// Whether a worker waits for a latch, asleep or about to be.
    #[inline]
    pub fn has_waiters(&self) -> bool {
        // Relaxed: a task push has done P2 before.
        self.all_bits().any(|bits| bits.waiters.load(Relaxed) != 0)
    }

    /// P3 to P6, or J4 and J5: picks the worker that a push of `work` has to wake.
    ///
    /// `avoided` (the worker that sits in the driver) is picked only if there is no other.
    pub fn pick_for(&self, work: Work, avoided: Option<usize>) -> Pick {
        self.pick(work, avoided, 0)
    }

    /// [`pick_for`](Self::pick_for) that takes a waiter only from `first` on.
    fn pick(&self, work: Work, avoided: Option<usize>, first: usize) -> Pick {
        match self.find_sleeper(avoided) {
            Found::Sleeper(index) => Pick { unparks: Some(index), is_nobody: false },
            Found::Searcher => Pick { unparks: None, is_nobody: false },
            Found::Nobody => {
                let unparks = if work == Work::Job { self.pick_waiter(first) } else { None };
                Pick { unparks, is_nobody: unparks.is_none() }
            }
            Found::GaveBack => Pick { unparks: self.pick_waiter(0), is_nobody: true },
        }
    }
}

impl Bits {
    fn new() -> Self {
        Self { sleepers: AtomicU64::new(0), waiters: AtomicU64::new(0) }
    }
}

/// Clears the bit of worker `index`. Says whether it was set.
fn clear(word: &AtomicU64, index: usize) -> bool {
    // A load first: a worker that was notified need not write.
    word.load(Acquire) & bit(index) != 0 && word.fetch_and(!bit(index), AcqRel) & bit(index) != 0
}

/// Clears the lowest set bit within `mask`.
fn take_lowest(word: &AtomicU64, mask: u64) -> Option<usize> {
    let mut now = word.load(Acquire);
    while now & mask != 0 {
        let lowest = (now & mask).trailing_zeros();
        // AcqRel: pairs with W2 and L1, and orders the unpark behind it.
        let before = word.fetch_and(!(1 << lowest), AcqRel);
        if before & (1 << lowest) != 0 {
            return Some(lowest as usize);
        }
        now = before;
    }
    None
}

/// W1.
fn lies_down(is_searching: bool) -> u64 {
    if is_searching { SLEEPING - SEARCHING } else { SLEEPING }
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

fn events(counts: u64) -> JobEvents {
    JobEvents((counts / EVENT) as u32)
}

/// The counter is odd: a job was posted since the last worker got sleepy.
fn is_posted(counts: u64) -> bool {
    counts & EVENT != 0
}

/// What a worker asks before it shares pieces.
impl Idle {
    /// Whether J3 to J5 would change anything: a hint. `extra` sleepers are not to be woken.
    #[inline(always)]
    pub fn is_job_news(&self, extra: impl FnOnce() -> usize) -> bool {
        let counts = self.word().load(Relaxed);
        // Mostly no worker searches or sleeps: the lower half has the numbers.
        if is_posted(counts) && counts as u32 == 0 && !self.may_have_waiters() {
            return false;
        }
        self.is_job_news_to(counts, extra)
    }

    #[inline(never)]
    fn is_job_news_to(&self, counts: u64, extra: impl FnOnce() -> usize) -> bool {
        !is_posted(counts)
            || searching(counts) == 0
                && (self.may_have_waiters() || sleeping(counts) > 0 && sleeping(counts) > extra())
    }

    #[inline(always)]
    fn may_have_waiters(&self) -> bool {
        // Relaxed: a hint.
        self.hot.first.waiters.load(Relaxed) != 0 || self.hot.more_used.load(Relaxed) != 0
    }

    /// Whether a worker sleeps: a hint.
    #[inline(always)]
    pub fn has_sleepers(&self) -> bool {
        self.word().load(Relaxed) & (FIELD * SLEEPING) != 0
    }

    /// Whether a worker searches: a hint.
    pub fn is_anybody_searching(&self) -> bool {
        searching(self.word().load(Relaxed)) > 0
    }

    /// Whether a worker searches, or waits for a latch in its sleep, or more than `extra` workers sleep: a
    /// hint.
    pub fn is_anybody_idle(&self, extra: impl FnOnce() -> usize) -> bool {
        let counts = self.word().load(Relaxed);
        searching(counts) > 0 || sleeping(counts) > 0 && sleeping(counts) > extra() || self.has_waiters()
    }

    /// How many workers show that they sleep: a hint, unless the caller is behind a fence. The number in the
    /// word may be too high: a woken worker has seen that its bit is gone, while its notifier may not have
    /// done P6 yet.
    pub fn sleepers(&self) -> usize {
        self.all_bits().map(|bits| bits.sleepers.load(Relaxed).count_ones() as usize).sum()
    }

    /// Whether worker `index` shows that it sleeps: as [`sleepers`](Self::sleepers).
    pub fn is_sleeper(&self, index: usize) -> bool {
        self.bits(index).sleepers.load(Relaxed) & bit(index) != 0
    }

    /// Whether worker `index` waits for a latch in its sleep, and has not been notified.
    pub fn is_waiter(&self, index: usize) -> bool {
        // Acquire: as the other ways to look at the bits; the caller knows from elsewhere that the worker
        // sleeps.
        self.bits(index).waiters.load(Acquire) & bit(index) != 0
    }

    /// How many workers wait for a latch in their sleep, but for those with the indices `but`: a hint.
    pub fn waiters(&self, but: Range<usize>) -> usize {
        let is_meant = |index: usize| !but.contains(&index);
        let count = |(block, bits): (usize, &Bits)| {
            let waiters = bits.waiters.load(Relaxed);
            match waiters {
                0 => 0,
                _ => (0..64).filter(|bit| waiters & 1 << bit != 0 && is_meant(64 * block + bit)).count(),
            }
        };
        self.all_bits().enumerate().map(count).sum()
    }

    /// Whether a job was posted since a worker last got sleepy.
    pub fn is_job_posted(&self) -> bool {
        is_posted(self.word().load(Relaxed))
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
