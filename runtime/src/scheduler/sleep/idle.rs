//! The sleep protocol: which workers are awake, search, sleep or wait for a latch, and which worker a push
//! wakes.
//!
//! A worker without work searches the others' queues. Only a few workers search at a time, because searchers
//! get in each other's way. A searcher that finds nothing sleeps. A thread that pushes work wakes a sleeper,
//! unless a worker searches: the searcher will find the work.
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
//! One word packs three numbers: searching workers, sleeping workers, and the **jobs event counter**. The
//! counter is even if no job was posted since the last worker got sleepy, else odd. The counter lies in the
//! top bits, so that its overflow falls off. Two bitmaps beside the word say which workers sleep and which
//! wait. The two numbers count threads that may run anything. A worker that waits for a latch runs jobs and
//! no tasks, so the pusher of a task must not rely on it.
//!
//! **The thread that clears a sleeper's bit takes the sleeper out of the number.** This is the notifier, or
//! the worker itself if it wakes without a notification. So the number is never too low, and it is exact
//! whenever no thread is between the two steps. Waiters are in no number. The thread that clears a waiter's
//! bit unparks the waiter, unless it is the waiter itself.
//!
//! # Steps
//! ```text
//! Post (any thread)                             Sleep (worker i)
//! PushTask       push the task                  CountSleeper    sleeping += 1, and searching -= 1 if it was
//! PushFence      SeqCst fence                   ShowSleeper     set bit i
//! ReadCounts     searching > 0, or              SleepFence      SeqCst fence
//!                sleeping == 0: done            SleepLook       look in the injectors, rings and deques
//! CountSearcher  searching += 1 (CAS from 0)                    again; work: clear bit i, stay awake as a
//! ClearSleeper   clear a bit; none:                             searcher
//!                searching -= 1, SeqCst fence,  SleepPark       park
//!                and again from ReadCounts
//!                unless no bit is set           Find (a searcher finds work)
//! UnparkSleeper  sleeping -= 1, unpark          UncountSearcher searching -= 1
//!                                               SearcherLook    it was the last: SeqCst fence, look in the
//!                                                               queues; tasks: notify (from ReadCounts);
//!                                                               jobs: notify (from WakeForJob)
//!
//! Post a job                                    Wait for a latch (worker i)
//! PublishJob     publish it                     GetSleepy       the counter is odd: make it even (CAS);
//! JobFence       from outside: PushFence                        remember it
//! CountPost      the counter is even: make it   SleepyLook      SeqCst fence; look for jobs again; the
//!                odd (CAS)                                      latch: UNSET to SLEEPING
//! WakeForJob     ReadCounts to UnparkSleeper    LatchShow       set bit i among the waiters
//! ClearWaiter    ReadCounts or ClearSleeper     LatchFence      SeqCst fence
//!                saw none: clear a waiter's     LatchReadPosts  read the counter by a read-modify-write; it
//!                bit, unpark                                    has changed: clear bit i, look again
//!                                               LatchLook       look in the job injector and at the latch;
//! Fall asleep where there are jobs                              tasks wait: as if one was pushed
//! GetSleepy and SleepyLook as beside, then                      (ReadCounts)
//! CountSleeper by a CAS that refuses if the     WaiterPark      park
//! counter has changed; ShowSleeper to           LatchHide       clear bit i; another has: notified
//! SleepPark                                     NotifiedLook    notified, but it takes another job, or its
//!                                                               latch is set: look for jobs, everywhere;
//!                                                               there are: from WakeForJob
//! ```
//! An injected job that no waiter may run (`compute`, a detached spawn) leaves out ClearWaiter. **A child job
//! too short to share** wakes no worker. It is published only for a measurement (`publish.rs`), and its
//! pusher does only PublishJob. A worker that is about to sleep may find the job at SleepLook; a worker that
//! sleeps already sleeps on. The pusher takes the job back, or does JobFence to ClearWaiter before it blocks.
//! Setting a latch is not part of this protocol: the thread that sets the latch unparks the latch's owner
//! (`job/latch.rs`).
//!
//! # The races
//! *The glance.* Worker 1 has looked in every queue and found nothing. A thread outside pushes a task, sees
//! no worker asleep, and leaves. Worker 1 goes to sleep. The task waits for ever. PushFence and SleepFence
//! prevent this. Workers push jobs without a fence. There, CountPost and GetSleepy prevent the race: the
//! counter is no longer the one that worker 1 remembers.
//!
//! *The distracted searcher.* The pusher sees worker 1 searching and relies on it. But worker 1 has just
//! found another task in the last queue that it had to look at, and is busy for a second. Hence SearcherLook.
//!
//! *The stolen half.* Worker A shares one half of its work and does the other half. Worker B steals the
//! shared half and shares a part of it. A finishes its own half. While A waits for B, it steals that part. B
//! runs out of work and sleeps until A is done with the part. At that very moment A finishes the part, sets
//! the latch, takes B for awake, and sleeps until B is done. Neither ever wakes, however many other workers
//! there are. So a latch's owner says *in the latch's word* that it is about to sleep. The setter sees this
//! in the read-modify-write that sets the latch, because one of the two comes first.
//!
//! *The uncounted waiter.* Suppose that the only thread that is not busy waits for a latch when a task comes.
//! If the waiter counted as a sleeper, the pusher of the task would wake it and rely on it. The waiter would
//! look for jobs, and sleep again. So the waiter is in no number. The pusher finds no worker, and fetches a
//! spare one. If the task came a moment before the wait, LatchLook fetches the spare worker.
//!
//! *The errand forgotten.* The pusher of an injected job picks a waiter. The waiter's latch is set as well,
//! so the waiter wakes and goes back to its own computation. Another waiter sleeps on beside the job. Hence
//! NotifiedLook. (The same race arises if the picked waiter takes a child job that was not announced, while a
//! worker that blocks has announced another one.)
//!
//! *The errand without end.* Two waiters are in isolated regions and may run only jobs of these regions. An
//! injected job comes. Each waiter wakes, may not run the job, and wakes the other waiter, over and over,
//! until a third worker has time. So a waiter that may not run the job asks only the waiters that ClearWaiter
//! picks after it, in the order of their indices. The workers with lower indices were no waiters at
//! ClearWaiter, and have looked since, or will look. (So ClearWaiter does not avoid the poller, as
//! ClearSleeper does: the order must not change meanwhile.) Nor does it ask a sleeping spare worker. That one
//! may be restricted (below), and would wake the first waiter again. It was asked before any waiter, or has
//! looked since.
//!
//! *The restricted worker.* A spare worker that serves (`away/mod.rs`) sleeps beside a worker that may run
//! everything. That second worker is the poller. A child job comes. The pusher avoids the worker in the
//! driver and wakes the spare one. The spare worker may not run the job, and sleeps again. So a spare worker
//! that may not run everything does not go to sleep as a searcher. It does UncountSearcher and SearcherLook,
//! and at SearcherLook it wakes only a worker with a lower index. Workers that may run more have lower
//! indices. Each wakes only a lower one, so this ends.
//!
//! *The stand-in.* A worker woke by itself, has cleared its bit, and is still in the number. The pusher of an
//! injected job sees it there, counts as a searcher (CountSearcher) and finds no bit (ClearSleeper). Between
//! CountSearcher and ClearSleeper, other threads have pushed a task and a job, and have relied on the pusher
//! as a searcher. It is not enough that the pusher looks at the bits again. There may be sleeping waiters
//! that the job's pusher would have asked, and resting spare workers that the task's pusher would have
//! fetched. So a pusher that gives back asks both, whatever its own work was ([`Pick`]).
//!
//! *The full turn.* A worker is preempted between GetSleepy and LatchReadPosts. Meanwhile the counter moves
//! by 2^32, so that it looks unchanged.
//!
//! # Why no work from outside is stranded
//! Consider a push PushTask into the injector by a thread that will not run the task itself. SeqCst fences
//! have one total order.
//! - *ReadCounts saw no sleeper, or ClearSleeper found no bit.* For every worker i, compare PushFence with
//!   i's last SleepFence.
//!   - If SleepFence came first, CountSleeper and ShowSleeper are visible at ReadCounts and ClearSleeper. So
//!     the pusher would have seen sleeper i, unless another thread has cleared i's bit since. In that case i
//!     was notified: it is a searcher that has not looked yet. Read-modify-writes on the word order its
//!     search behind PushFence: if CountSearcher of its notifier came before ReadCounts, ReadCounts saw it;
//!     if CountSearcher came after ReadCounts, the next point applies.
//!   - If PushFence came first, i's SleepLook sees PushTask.
//!
//!   So no worker sleeps while the task waits. If all workers were awake, each will pass SleepLook before it
//!   sleeps.
//! - *ReadCounts saw a searcher.* That searcher leaves the number later in the word's modification order than
//!   the value that ReadCounts read. It leaves in one of three ways.
//!   - By CountSleeper. Its SleepFence comes after PushFence, because ReadCounts read a value older than
//!     CountSleeper. (If SleepFence were before PushFence, ReadCounts would have to see CountSleeper.) So its
//!     SleepLook sees PushTask.
//!   - By UncountSearcher. If it was not the last searcher, the argument passes to the others. The last one
//!     looks at SearcherLook, behind a fence that is likewise after PushFence. It sees PushTask and notifies.
//!   - By ClearSleeper's giving back. The fence of ClearSleeper is after PushFence, because ReadCounts read a
//!     value older than the one that was given back. A worker whose SleepFence came before PushFence thus
//!     shows its bit there, and ClearSleeper goes on with it. A worker whose SleepFence comes later sees
//!     PushTask at SleepLook. Waiters and spare workers are asked after that fence. So the next two sections
//!     hold as if PushTask's own thread had asked them.
//! - A notified worker counts as searching until it has looked, so the duty is handed on, never dropped.
//!
//! **Job injector against sleeper**: the argument is the same, word for word. CountPost only writes to the
//! word in between.
//!
//! **Job injector against waiter**: if ReadCounts relies on no worker, ClearWaiter reads the bits. For every
//! waiter i, compare PushFence with i's last LatchFence. If PushFence came first, LatchLook sees PublishJob.
//! If LatchFence came first, ClearWaiter sees LatchShow, or that the bit was cleared since. In the latter
//! case i was up after LatchFence, and will do LatchShow and LatchFence again, after PushFence, before it
//! sleeps. So if ClearWaiter finds no bit, every waiter that sleeps has looked after PushFence. If
//! ClearWaiter clears a bit, that waiter sees PublishJob (its bit and its token order the two). It runs the
//! job or does NotifiedLook.
//!
//! **Latch against sleeper**: see `job/latch.rs`. LatchLook's look at the latch only saves a sleep.
//!
//! # What pushes from inside may overlook
//! Pushes into a worker's own ring leave out PushFence. The load of ReadCounts may then be stale, and a
//! chance for parallelism may be missed. The task is not lost, because the pusher comes back to its own
//! queue. The pusher looks for sleepers again at each turn (`worker/turns.rs`).
//!
//! Jobs in a deque leave out JobFence. *A post that writes (CountPost finds the counter even) is not
//! overlooked.* The reason is that all changes of the word are read-modify-writes. Each of them sees the
//! changes before it in the word's order, and everything that came before these changes:
//! - A sleeper's CountSleeper after CountPost is refused; or, if the sleeper got sleepy after CountPost, it
//!   has looked after PublishJob. If CountSleeper is before CountPost, ReadCounts sees it. (If ShowSleeper is
//!   still to come, ClearSleeper gives back. By the two fences, either ClearSleeper then sees ShowSleeper, or
//!   SleepLook sees PublishJob. So SleepLook looks in the deques, too.)
//! - A waiter's LatchReadPosts after CountPost sees a new count, or SleepyLook came after PublishJob. If
//!   LatchReadPosts is before CountPost, ClearWaiter sees LatchShow. A mere load at LatchReadPosts would not
//!   be enough.
//! - A searcher's UncountSearcher after CountPost comes with SearcherLook, which sees PublishJob. Searchers
//!   that are there before CountPost leave after it.
//!
//! A post that finds the counter odd only reads, and its value may be stale: a worker may have got sleepy
//! meanwhile. All workers may overlook such a job. A CPU then idles until the next post, or the monitor's
//! next look (ShareJobs). A pool has no monitor; there, a sleeper looks again by itself (`worker/sleep.rs`).
//! The job is still run: its pusher takes it back before it waits for anything, and at the latest when its
//! own half is done.
//! So **a worker that blocks, or will be long, with jobs that others could take does JobFence to
//! ClearWaiter** first. With JobFence, no worker overlooks a post that finds the counter odd either. For a
//! sleeper, the argument is that of a task. For a waiter, suppose that CountPost reads a value older than
//! GetSleepy: then JobFence comes before the fence of SleepyLook, and SleepyLook sees PublishJob. Otherwise
//! CountPost finds the counter even, unless another thread has posted since; then LatchReadPosts sees that
//! post.
//!
//! Two stricter orders were measured with recursive joins. The order of the older Rayon, a SeqCst operation
//! at every push, made them up to 40 % slower. A swap instead of the load made them more than three times as
//! slow.
//!
//! **The full turn** hides a post from LatchReadPosts. LatchLook finds an injected job all the same, because
//! the fences do not depend on the counter. A sleeper finds every job at SleepLook. A waiter may overlook a
//! job of a deque, but the job's pusher comes back to it. The overflow does not touch the word's other
//! fields.
//!
//! # When no worker is left
//! All workers of a runtime, permanent and spare, have their bits in one [`Idle`], which treats them alike.
//! *No thread was found* ([`Pick::found_none`]) means: ReadCounts saw no sleeper and no searcher, and
//! ClearWaiter saw no waiter. So every worker that may run the work is awake and busy, has yet to pass
//! SleepLook, or is away. Then a spare worker is fetched, if one is needed (`away/mod.rs`):
//! [`has_waiters`](Idle::has_waiters), read after PushFence, sees every waiter whose LatchFence came before.
//! A later waiter sees PushTask at LatchLook. A spare worker that goes to rest does UncountSearcher and
//! SearcherLook. It looks in the queues after it is listed as resting.
//!
//! *Surplus* threads may sleep here, too: spare workers that serve while all others are inside of long
//! polls. Some work can wait for the others, such as tasks in the pusher's own ring. Such work wakes no
//! worker if there are no more sleepers than surplus threads. That rule is not part of this protocol. It
//! belongs to the pushers (`Shared::extra`), because they come back to their own work.
//!
//! # Rejected
//! - A mutex around a stack of sleepers (Tokio): the word has to be atomic all the same, and a thread would
//!   also wait for the lock while a waker is preempted.
//! - Counting and picking a bit in one word: 64 workers at most.
//! - Waiters in the number of sleepers, as in Rayon, which has no tasks: see *the uncounted waiter*.
//! - One sleepy worker at a time, with its index in the word (older Rayon): no counter can roll over, but
//!   workers fall asleep one after the other, and every event wakes all of them.
//!
//! # Sources
//! Searching and its throttle come from the 2019 Tokio scheduler, after Go's. Packed counters, the events
//! counter and the two-fence argument come from Rayon's sleep module and RFC 5. The stolen half and the
//! glance come from Rayon's older sleep module.

use std::iter;
use std::ops::Range;

use crate::loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use crate::loom::sync::atomic::{AtomicU64, AtomicUsize, fence};
use crate::util::pad::CachePadded;

const SEARCHING: u64 = 1;
const SLEEPING: u64 = 1 << 16;
const EVENT: u64 = 1 << 32;
/// The bits of the number of searching workers; those of the sleeping number are as many.
const FIELD: u64 = 0x7fff;

/// The largest number of threads that the word can count.
pub const MAX_THREADS: usize = FIELD as usize;

/// See the module's docs.
#[derive(Debug)]
pub struct Idle {
    /// The word, and the bits of the first 64 workers beside it.
    hot: CachePadded<Hot>,
    /// The bits of the workers from 64 on.
    more: Box<[Bits]>,
    /// How many workers there are, without spare ones: a bound for the searchers.
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
#[derive(Debug, Default)]
struct Bits {
    /// The worker sleeps and has not been notified.
    sleepers: AtomicU64,
    /// The worker waits for a latch, asleep or about to be. It has not been notified.
    waiters: AtomicU64,
}

/// The jobs event counter as a worker saw it when it got sleepy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobEvents(u32);

/// The kind of work that a push has made visible. It says which workers may run the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A task, or an injected job that no waiter runs (`compute`, a detached spawn): for workers outside of
    /// computations.
    Task,
    /// A job, or an injected job that waiters run too: for any worker, also for a worker that waits for a
    /// latch.
    Job,
}

/// The worker that a push has to wake.
#[must_use = "the worker that was picked has to be unparked"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pick {
    /// The worker to unpark: a sleeper, which counts as searching now, or a latch waiter.
    pub unparks: Option<usize>,
    /// No searcher, sleeper or waiter was found: a spare worker may be needed.
    pub found_none: bool,
}

/// The result of ReadCounts to UnparkSleeper.
enum Found {
    /// UnparkSleeper.
    Sleeper(usize),
    /// ReadCounts: a worker searches.
    Searcher,
    /// ReadCounts: no worker searches or sleeps.
    NoThread,
    /// ClearSleeper found no bit. As `NoThread`, but meanwhile others may have relied on this thread as a
    /// searcher, for any kind of work.
    GaveBack,
}

impl Idle {
    /// About half of `workers` may search at a time. `threads` is how many indices there are, at most
    /// [`MAX_THREADS`].
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
                first: Bits::default(),
                more_used: AtomicUsize::new(workers.saturating_sub(1) / 64),
            }),
            more: (1..threads.div_ceil(64)).map(|_| Bits::default()).collect(),
            workers,
        }
    }

    /// A thread may use the bits of worker `index` from now on.
    pub fn cover(&self, index: usize) {
        // Relaxed: the thread itself, and fences behind it, come later.
        self.hot.more_used.fetch_max(index / 64, Relaxed);
    }

    /// Joins the searchers, unless half of the workers search already. Returns whether the caller joined.
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

    /// UncountSearcher: a searcher has found work. Returns whether it was the last searcher, which has to do
    /// SearcherLook.
    pub fn stop_searching(&self) -> bool {
        let before = self.word().fetch_sub(SEARCHING, SeqCst);
        debug_assert!(searching(before) > 0);
        searching(before) == 1
    }

    /// CountSleeper to SleepFence: worker `index` is about to sleep and has to look in the queues once more
    /// (SleepLook).
    pub fn announce_sleep(&self, index: usize, is_searching: bool) {
        self.word().fetch_add(sleep_change(is_searching), SeqCst);
        self.show_sleeper(index);
    }

    /// SleepLook found work: worker `index` does not sleep, but searches. Others may have relied on it as a
    /// searcher before CountSleeper. So it leaves the searchers by UncountSearcher like any other.
    pub fn cancel_sleep(&self, index: usize) {
        if clear(&self.bits(index).sleepers, index) {
            self.word().fetch_sub(SLEEPING - SEARCHING, SeqCst);
        }
    }

    /// Worker `index` woke. Returns true if it woke by itself, and false if it was notified. A notified
    /// worker counts as searching.
    pub fn end_sleep(&self, index: usize) -> bool {
        let is_by_itself = clear(&self.bits(index).sleepers, index);
        if is_by_itself {
            self.word().fetch_sub(SLEEPING, SeqCst);
        }
        is_by_itself
    }

    /// PushFence: orders a push before what follows. For a push into a queue that the pusher does not drain
    /// itself.
    pub fn fence_push(&self) {
        fence(SeqCst);
    }

    /// Whether no worker searches, and more than `extra` workers sleep: a hint for a worker that has more
    /// work than it can do.
    pub fn is_worth_notifying(&self, extra: impl FnOnce() -> usize) -> bool {
        let counts = self.word().load(Relaxed);
        searching(counts) == 0 && sleeping(counts) > 0 && sleeping(counts) > extra()
    }

    /// The numbers of searching and sleeping workers. They are exact at rest.
    #[allow(dead_code, reason = "called by tests and models")]
    pub fn counts(&self) -> (usize, usize) {
        let counts = self.word().load(SeqCst);
        (searching(counts), sleeping(counts))
    }

    /// ShowSleeper, SleepFence.
    fn show_sleeper(&self, index: usize) {
        self.bits(index).sleepers.fetch_or(bit(index), AcqRel);
        fence(SeqCst);
    }

    /// ReadCounts to UnparkSleeper, for a sleeper in `range`.
    fn find_sleeper(&self, range: Range<usize>, avoided: Option<usize>) -> Found {
        let mut no_thread = Found::NoThread;
        let mut counts = self.word().load(Relaxed);
        loop {
            if searching(counts) > 0 {
                return Found::Searcher;
            }
            if sleeping(counts) == 0 {
                return no_thread;
            }
            if let Err(actual) = self.word().compare_exchange(counts, counts + SEARCHING, SeqCst, Relaxed) {
                counts = actual;
                continue;
            }
            if let Some(index) = self.take_bit(|bits| &bits.sleepers, range.clone(), avoided) {
                self.word().fetch_sub(SLEEPING, SeqCst);
                return Found::Sleeper(index);
            }
            // The sleeper is between CountSleeper and ShowSleeper, or between clearing its own bit and
            // leaving the number. Meanwhile others may have relied on us as a searcher, so look again, with
            // their pushes in view.
            self.word().fetch_sub(SEARCHING, SeqCst);
            no_thread = Found::GaveBack;
            fence(SeqCst);
            crate::loom::hint::spin_loop();
            counts = self.word().load(Relaxed);
            if self.sleepers_in(range.clone()) == 0 {
                return if searching(counts) > 0 { Found::Searcher } else { no_thread };
            }
        }
    }

    /// Clears one bit of the bitmap `which` whose index is in `range`. Clears the bit of `avoided` only if
    /// there is no other.
    fn take_bit(
        &self,
        which: fn(&Bits) -> &AtomicU64,
        range: Range<usize>,
        avoided: Option<usize>,
    ) -> Option<usize> {
        // Low indices first: the same few workers stay busy, warm, and the others asleep.
        let others = self.all_bits().enumerate().find_map(|(block, bits)| {
            let avoided = avoided.filter(|avoided| avoided / 64 == block).map_or(0, bit);
            take_lowest(which(bits), within(block, &range) & !avoided).map(|bit| 64 * block + bit)
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
    /// GetSleepy: makes the jobs event counter even, and returns it. The caller then looks in the queues once
    /// more (SleepyLook).
    pub fn get_sleepy(&self) -> JobEvents {
        // Acquire, also on failure: pairs with CountPost, so that SleepyLook sees the jobs of all events that
        // we remember.
        let mut counts = self.word().load(Acquire);
        while is_posted(counts) {
            match self.word().compare_exchange(counts, counts.wrapping_add(EVENT), SeqCst, Acquire) {
                Ok(_) => return events(counts.wrapping_add(EVENT)),
                Err(actual) => counts = actual,
            }
        }
        events(counts)
    }

    /// The fence of SleepyLook. The caller is about to wait for a latch, and looks once more after this.
    pub fn fence_look(&self) {
        // Pairs with JobFence. (A sleeper has SleepFence.)
        fence(SeqCst);
    }

    /// As [`announce_sleep`](Self::announce_sleep), with CountSleeper by a CAS, unless a job was posted since
    /// `seen`. In that case it changes nothing and returns false.
    pub fn announce_sleep_unless(&self, index: usize, is_searching: bool, seen: JobEvents) -> bool {
        let change = sleep_change(is_searching);
        let mut counts = self.word().load(Acquire);
        while events(counts) == seen {
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

    /// CountPost: a job is in a queue, so a worker that got sleepy before looks once more. This wakes no
    /// worker: WakeForJob is [`pick_for`](Self::pick_for).
    #[inline]
    pub fn post_job(&self) {
        // Relaxed: if this is stale and odd, all workers may overlook the job; see *what pushes from inside
        // may overlook* in the module's docs.
        let mut counts = self.word().load(Relaxed);
        while !is_posted(counts) {
            match self.word().compare_exchange(counts, counts.wrapping_add(EVENT), SeqCst, Relaxed) {
                Ok(_) => return,
                Err(actual) => counts = actual,
            }
        }
    }

    /// LatchShow to LatchReadPosts: worker `index` is about to sleep until a latch is set. Returns false if a
    /// job was posted since `seen`, and no notifier has picked the worker yet; the worker is no waiter then,
    /// and does not sleep. After true, the worker looks in the job injector and at its latch once more
    /// (LatchLook).
    pub fn announce_wait(&self, index: usize, seen: JobEvents) -> bool {
        self.bits(index).waiters.fetch_or(bit(index), AcqRel);
        fence(SeqCst);
        // A write, though of nothing new: pairs with CountPost. If CountPost comes later, it sees LatchShow.
        let now = events(self.word().fetch_add(0, SeqCst));
        // If a notifier has taken the bit, the sleep ends at once, and `end_wait` says why.
        now == seen || !self.end_wait(index)
    }

    /// LatchHide: worker `index` stops waiting, or gets up to look for jobs. Returns true if it does so by
    /// itself, and false if it was notified. A notified worker has a job to see to (see the module's docs).
    pub fn end_wait(&self, index: usize) -> bool {
        clear(&self.bits(index).waiters, index)
    }

    /// ClearWaiter: picks the lowest latch waiter from `first` on. The caller unparks it.
    pub fn pick_waiter(&self, first: usize) -> Option<usize> {
        self.take_bit(|bits| &bits.waiters, first..usize::MAX, None)
    }

    /// As [`pick_for`](Self::pick_for) a job, on behalf of waiter `index`, which was picked and may not run
    /// the job. Picks only a waiter that ClearWaiter would pick after it, or a sleeper below `end`, which may
    /// run everything. So the search ends if no waiter may run the job.
    pub fn pass_errand_on(&self, index: usize, end: usize, avoided: Option<usize>) -> Pick {
        let is_any_asleep = self.sleepers_in(0..end) > 0;
        let found = match searching(self.word().load(Relaxed)) > 0 {
            true => Found::Searcher,
            false if is_any_asleep => self.find_sleeper(0..end, avoided),
            false => Found::NoThread,
        };
        self.or_waiter(found, Work::Job, index + 1)
    }

    /// CountSearcher to UnparkSleeper, also if a worker searches already. The monitor calls this when the
    /// searchers do not come. If no bit is set, the caller repeats the search like a pusher that gives back:
    /// see *the stand-in*.
    pub fn pick_anyway(&self, avoided: Option<usize>) -> Option<usize> {
        self.pick_below(usize::MAX, avoided)
    }

    /// As [`pick_anyway`](Self::pick_anyway), among the workers below `end`: see *the restricted worker*.
    ///
    /// If there is none, the caller counted as a searcher for a moment, and pushers may have relied on it. So
    /// this looks at the bits again, behind a fence that makes their pushes visible: see *the stand-in*.
    pub fn pick_below(&self, end: usize, avoided: Option<usize>) -> Option<usize> {
        loop {
            self.add_searcher();
            let picked = self.take_bit(|bits| &bits.sleepers, 0..end, avoided);
            self.word().fetch_sub(if picked.is_some() { SLEEPING } else { SEARCHING }, SeqCst);
            if picked.is_some() {
                return picked;
            }
            fence(SeqCst);
            if self.sleepers_in(0..end) == 0 {
                return None;
            }
        }
    }

    /// Whether a worker waits for a latch. It may be asleep, or about to sleep.
    #[inline]
    pub fn has_waiters(&self) -> bool {
        // Relaxed: a task push has done PushFence before.
        self.all_bits().any(|bits| bits.waiters.load(Relaxed) != 0)
    }

    /// ReadCounts to UnparkSleeper, or WakeForJob and ClearWaiter: picks the worker that a push of `work` has
    /// to wake.
    ///
    /// Picks `avoided` (the poller) only if there is no other.
    pub fn pick_for(&self, work: Work, avoided: Option<usize>) -> Pick {
        self.or_waiter(self.find_sleeper(0..usize::MAX, avoided), work, 0)
    }

    /// WakeForJob and ClearWaiter, from waiter `first` on.
    fn or_waiter(&self, found: Found, work: Work, first: usize) -> Pick {
        match found {
            Found::Sleeper(index) => Pick { unparks: Some(index), found_none: false },
            Found::Searcher => Pick { unparks: None, found_none: false },
            Found::NoThread => {
                let unparks = if work == Work::Job { self.pick_waiter(first) } else { None };
                Pick { unparks, found_none: unparks.is_none() }
            }
            Found::GaveBack => Pick { unparks: self.pick_waiter(0), found_none: true },
        }
    }
}

/// Clears the bit of worker `index`. Returns whether it was set.
fn clear(word: &AtomicU64, index: usize) -> bool {
    // A load first: a worker that was notified need not write.
    word.load(Acquire) & bit(index) != 0 && word.fetch_and(!bit(index), AcqRel) & bit(index) != 0
}

/// Clears the lowest set bit within `mask`.
fn take_lowest(word: &AtomicU64, mask: u64) -> Option<usize> {
    let mut now = word.load(Acquire);
    while now & mask != 0 {
        let lowest = (now & mask).trailing_zeros();
        // AcqRel: pairs with ShowSleeper and LatchShow, and orders the unpark behind it.
        let before = word.fetch_and(!(1 << lowest), AcqRel);
        if before & (1 << lowest) != 0 {
            return Some(lowest as usize);
        }
        now = before;
    }
    None
}

/// CountSleeper.
fn sleep_change(is_searching: bool) -> u64 {
    if is_searching { SLEEPING - SEARCHING } else { SLEEPING }
}

fn bit(index: usize) -> u64 {
    1 << (index % 64)
}

/// The bits of the workers in `range` whose bits are in block `block`.
fn within(block: usize, range: &Range<usize>) -> u64 {
    let below = |end: usize| match end.saturating_sub(64 * block) {
        left @ ..64 => bit(left) - 1,
        _ => u64::MAX,
    };
    below(range.end) & !below(range.start)
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

/// What a worker asks before it shares child jobs.
impl Idle {
    /// Whether CountPost to ClearWaiter would change anything: a hint. `extra` sleepers are not to be woken
    /// for jobs.
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
    pub fn is_any_searching(&self) -> bool {
        searching(self.word().load(Relaxed)) > 0
    }

    /// Whether a worker searches, or sleeps while it waits for a latch, or more than `extra` workers sleep: a
    /// hint.
    pub fn is_any_idle(&self, extra: impl FnOnce() -> usize) -> bool {
        let counts = self.word().load(Relaxed);
        searching(counts) > 0 || sleeping(counts) > 0 && sleeping(counts) > extra() || self.has_waiters()
    }

    /// How many workers show that they sleep: a hint, unless the caller is behind a fence. The number in the
    /// word may be too high: a woken worker may already see that its bit is gone, before its notifier has
    /// done UnparkSleeper.
    pub fn sleepers(&self) -> usize {
        self.sleepers_in(0..usize::MAX)
    }

    /// As [`sleepers`](Self::sleepers), of the workers with the indices in `range`.
    pub fn sleepers_in(&self, range: Range<usize>) -> usize {
        let count = |(block, bits): (usize, &Bits)| {
            (bits.sleepers.load(Relaxed) & within(block, &range)).count_ones() as usize
        };
        self.all_bits().enumerate().map(count).sum()
    }

    /// Whether worker `index` shows that it sleeps. A hint, as [`sleepers`](Self::sleepers) is.
    pub fn is_sleeper(&self, index: usize) -> bool {
        self.bits(index).sleepers.load(Relaxed) & bit(index) != 0
    }

    /// Whether worker `index` sleeps while it waits for a latch, and has not been notified.
    pub fn is_waiter(&self, index: usize) -> bool {
        // Acquire: as in `clear`. The search for a deadlock knows from elsewhere that the worker sleeps; for
        // other callers this is a hint.
        self.bits(index).waiters.load(Acquire) & bit(index) != 0
    }

    /// How many workers sleep while they wait for a latch, except those with the indices `but`: a hint.
    pub fn waiters(&self, but: Range<usize>) -> usize {
        let count = |(block, bits): (usize, &Bits)| {
            (bits.waiters.load(Relaxed) & !within(block, &but)).count_ones() as usize
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
