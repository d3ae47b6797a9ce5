//! The queue of the blocking pool: closures wait for a thread, and threads wait for a closure. It also
//! decides which thread fetches the next thread.
//!
//! A closure may block for as long as it likes, also on another closure. So no closure may wait while a
//! thread sleeps or could be started. But waking a thread costs more than most closures, and starting a
//! thread costs ten times that. So threads are fetched one at a time. A thread is *coming* if it was chosen
//! and is not there yet; meanwhile no other thread is fetched. A thread that takes a closure and leaves
//! others behind fetches the next thread before it runs its own closure. For closures that come fast and end
//! fast, that is one wake for each time that a thread needs to come.
//!
//! # States
//! ```text
//!              Start                  a closure                     no closure
//!   (none) ────────────▶ coming ────────────────────▶ working ─────────────────────▶ idle
//!     ▲                   │  ▲ │                        ▲  ▲ ▲                       │ │ │
//!     │                   │  │ └─ new ──▶ starting ─────┘  │ └─ keep-alive over, ─────┘ │ │
//!     │                   │  │           (the user's code) │    but a closure is there  │ │
//!     │                   │  └──────────── chosen: Wake, or to leave ──────────────────┘ │
//!     │                   └── no closure: as a working one that finds none               │
//!     └───────────────────────── keep-alive over; or the pool is closed ─────────────────┘
//! ```
//! A thread that was started calls the user's hook before it takes a closure. The hook may be slow. So
//! meanwhile the thread counts as *starting* and not as coming, and the closure for which it was started
//! stays where other threads can take it. The function of `thread_name_fn` may be slow, too, and comes before
//! there is a thread. So a *helper*, a thread with a fixed name, is started first. It arrives in the new
//! thread's place, makes the name as a starting thread, and starts the new thread, which goes on with the
//! hook.
//!
//! One lock guards all of it: the closures, oldest first; the number of threads, with coming ones, and the
//! number of starting ones; the idle threads, the one that became idle last on top; whether a thread is
//! coming; whether the pool is closed. No step under the lock is longer than a few memory accesses, with one
//! exception: a thread whose keep-alive time is over looks for itself among the idle ones.
//!
//! # Steps
//! ```text
//! Submit (any thread)
//! SubmitClosure   lock; append the closure; Choose
//! SubmitWake      unlock; do the pending wake
//! SubmitPresent   as SubmitClosure, if the system has just refused a thread to the caller: done only if
//!                 there is a thread; Choose without ChooseNew
//!
//! Choose (under the lock)
//! ChooseNobody    a thread is coming, or no closure waits, or the pool is closed: no pending wake
//! ChooseIdle      one is idle: the top one comes; the pending wake is its unpark
//! ChooseNew       below the bound, and more closures wait than threads are starting: a new one comes, one
//!                 thread more; the pending wake is its start
//! ChooseLater     else: no pending wake
//!
//! Work (a thread of the pool)
//! TakeLock        lock; if it was coming, none is; if it is among the idle, leave them; if it was starting,
//!                 it is not
//! TakeClosure     a closure is there: take the oldest; Choose
//! RunClosure      unlock; do the pending wake; run the closure; TakeLock
//! LeavePool       else, if the keep-alive time was over or the pool is closed: leave, a thread less
//! BecomeIdle      else become idle, on top of the others; unlock
//! IdleSleep       sleep until chosen or the keep-alive time is over; TakeLock
//!
//! Arrive (a new thread, or its helper up to the name)
//! NewArrives      lock; no thread is coming; it is starting; Choose
//! NewBegins       unlock; do the pending wake; a name that the user makes; the user's hook; TakeLock
//!
//! Refused (the thread that could not start another)
//! StartRefused    lock; no thread is coming, or, if it was the helper, one less is starting; one thread less
//! FailClosures    no thread is left: take all closures, unlock; they fail
//! IdleInstead     one is idle and closures wait: as ChooseIdle
//!
//! Close (the shutdown)
//! RefuseClosures  lock; no closure is taken, and no thread fetched, from now on
//! KeepExpected    the oldest closures stay: one for each thread that is coming or starting
//! DismissIdle     the idle are chosen, to leave; unlock; they are woken, the other closures dropped
//! ```
//! # Nothing is stranded
//! Whenever the lock is free and a closure waits, one of these holds: **a thread is coming; or none is idle
//! and the number of threads is at the bound**; or none is idle and as many threads are starting as closures
//! wait; or none is idle and the system has refused a thread since. Every step keeps that.
//! - `SubmitClosure`, `NewArrives` and `TakeClosure` end with `Choose`, which makes it true. `ChooseLater` is
//!   left for two cases, both without an idle thread: the number of threads is at the bound, or enough
//!   threads are starting.
//! - `TakeLock` that ends a start takes a closure, if one is there: both numbers fall by one.
//! - `TakeLock` removes the mark of the thread that was coming. If a closure is there, `Choose` follows. If
//!   none is there, there is nothing to show.
//! - `LeavePool` and `BecomeIdle` make one thread less, or one idle thread more. They happen only while no
//!   closure waits.
//! - `StartRefused` removes the mark as well. An idle thread comes in place of the refused one
//!   (`IdleInstead`). It may have become idle, with no closure there, while the refused thread was coming;
//!   then a closure came, and its submitter relied on the refused thread. If no thread is idle, all threads
//!   work or are starting, and each comes to `TakeClosure`.
//! - `StartRefused` of a helper makes one starting thread less. The closure that relied on it goes to the
//!   same threads.
//! - `SubmitPresent` is like `StartRefused`: the system has refused a thread.
//!
//! So a closure that waits is taken. A thread that is coming has only locks before it and, if it is new, or
//! has found a deadlock just before its sleep, the system. Only a starting thread has the user's code before
//! it, a name or a hook, and any thread may take the closure for which it was started. A thread takes the
//! oldest closure. If it leaves others behind, the next thread is coming (`Choose`) before the first closure
//! runs. By induction N closures that all wait for each other run at once, if the bound allows N threads. At
//! the bound, a closure waits for another to end, which is what the bound means.
//!
//! **The race of a wake with the end of the keep-alive time.** A thread's sleep is over just as it is chosen.
//! Choosing a thread takes it off the idle ones, under the lock, so `TakeLock` tells which came first. If the
//! choice came first, the thread comes. It counts as coming until `TakeLock`, whatever ended its sleep. If
//! the end came first, the thread is not among the idle any more, and cannot be chosen. An unpark may still
//! be on its way to a thread that is up already. It makes a later sleep end for nothing: `IdleSleep` looks
//! whether the thread was chosen, and goes on sleeping.
//!
//! **A refused thread.** If all threads work, no thread tries again at once. The next submitter tries again,
//! and so does the next thread that takes a closure and leaves others behind (`ChooseNew`). Until then the
//! closures wait for the threads that exist. That is the one case in which closures that wait for each other
//! may hang below the bound: the system gives them no thread, and no closure ends.
//!
//! **The end.** A closure whose thread is on its way when the pool is closed (`KeepExpected`) counts as
//! begun. Its submitter had a thread fetched for it, and only chance decides how far that thread has come.
//! Another thread may take it first: a thread that is told to leave and finds a closure at `TakeLock`, or a
//! thread whose own closure has ended. As many closures stay as threads are on their way. A thread leaves
//! only when no closure waits, so all of these closures run. If the system refuses one of these threads, the
//! others take its closure. If there are no others, the closure fails (`FailClosures`).
//!
//! # Ordering
//! The lock carries everything. Without the lock, a thread reads only whether it was chosen. That load is
//! Relaxed, because `unpark` comes after the choice and orders it before the end of the sleep. It does no
//! harm if the thread sees the choice sooner, or only in `TakeLock`.
//!
//! # Rejected
//! - *A condition variable.* It wakes the thread that has slept longest. Under a light load all threads take
//!   turns, none is idle for its keep-alive time, and each finds its caches cold.
//! - *A new thread that takes its closure before the hook.* If the hook is slow, the closure waits for it
//!   while other threads become idle.
//! - *Several closures for one lock.* The second would wait behind the first, which may block.
//! - *A wake for each closure while threads are idle*, as in Tokio. The submitter pays for it, more than for
//!   all else.
//! - *A name made by the thread that starts another.* That thread may have taken a closure. The name may wait
//!   for this closure, or for one that an idle thread could run while the new thread is coming.
//! - *The new thread fetches the next one*, so that a chain of starts costs no worker time. It would have to
//!   take the mark along, and the closures would wait one start longer for each thread.
//! - *Two queues, one to submit to and one to take from*, so that submitters and threads do not meet. The
//!   invariant above concerns both queues, so `Choose` would need both locks or fences.

use std::fmt;
use std::mem;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::AtomicU8;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::loom::thread::{self, Thread};
use crate::queue::{IntrusiveList, Linked};
use crate::util::pad::CachePadded;

/// The thread was chosen or is being started: it is on its way to the lock.
const COMING: u8 = 0;
const WORKING: u8 = 1;
const IDLE: u8 = 2;
/// The thread is new, and in the user's hook; or it is yet to be named by the user's function.
const STARTING: u8 = 3;

/// The closures that wait and the threads of a pool. See the module's docs.
pub struct PoolQueue<T: Linked> {
    state: CachePadded<Mutex<PoolState<T>>>,
    /// The bound: the most threads that there may be.
    most: usize,
}

struct PoolState<T: Linked> {
    /// Oldest first.
    closures: IntrusiveList<T>,
    /// The number of threads that live or are being started.
    threads: usize,
    /// The number of these that are [`STARTING`].
    starting: usize,
    /// The [`IDLE`] threads, which wait to be chosen. The thread that became idle last is at the end.
    idle: Vec<Arc<PoolThread>>,
    /// Whether a thread was chosen, or is being started, and has not come to `TakeLock` (a new one: to
    /// `NewArrives`).
    is_coming: bool,
    is_closed: bool,
    /// How often a thread was chosen, and how often a thread was to be started.
    wakes: u64,
    starts: u64,
}

/// A thread of the pool.
#[derive(Debug)]
pub struct PoolThread {
    /// Written under the queue's lock. The thread itself reads it without the lock.
    state: AtomicU8,
    handle: Thread,
}

/// A pending wake or start of a thread. The caller performs it without the lock and before anything that may
/// block.
#[derive(Debug)]
#[must_use = "no other thread is fetched until this one comes"]
pub enum PendingWake {
    Nothing,
    Wake(Arc<PoolThread>),
    /// Starts a thread, whose first step is [`PoolQueue::arrive`]. If that fails, the caller calls
    /// [`PoolQueue::refused`].
    Start,
}

/// A thread that the system refuses, or that cannot be named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// No thread has arrived in its place.
    Coming,
    /// A helper has.
    Starting,
}

/// What a thread of the pool does next.
#[derive(Debug)]
pub enum Next<T> {
    /// It performs the pending wake and runs the closure.
    Run(NonNull<T>, PendingWake),
    /// It sleeps, by [`PoolThread::sleep`].
    Sleep,
    /// It ends, and is not counted any more.
    Leave,
}

/// The numbers of the pool at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Counts {
    /// The number of threads that live or are being started.
    pub threads: usize,
    /// The number of threads that sleep and have not been chosen.
    pub idle: usize,
    /// The number of closures that wait.
    pub queued: usize,
    /// How often a thread has been woken for a closure.
    pub wakes: u64,
    /// How often a thread has been started, or was refused.
    pub starts: u64,
}

impl<T: Linked> PoolQueue<T> {
    /// Makes a queue of at most `most` threads. It begins with none.
    pub fn new(most: usize) -> Self {
        let state = PoolState {
            closures: IntrusiveList::new(),
            threads: 0,
            starting: 0,
            idle: Vec::new(),
            is_coming: false,
            is_closed: false,
            wakes: 0,
            starts: 0,
        };
        Self { state: CachePadded::new(Mutex::new(state)), most }
    }

    pub fn counts(&self) -> Counts {
        let state = self.state.lock();
        Counts {
            threads: state.threads,
            idle: state.idle.len(),
            queued: state.closures.len(),
            wakes: state.wakes,
            starts: state.starts,
        }
    }

    /// `SubmitClosure`: appends `closure`. Returns `None` if the queue is closed; then it has done nothing.
    ///
    /// # Safety
    /// 1. `closure` is live, and stays so at its place until it has been given out. 2. It is in no queue, and
    ///    its right ([`Linked`]) is the caller's. Both end if it is refused.
    pub unsafe fn submit(&self, closure: NonNull<T>) -> Option<PendingWake> {
        let mut state = self.state.lock();
        if state.is_closed {
            return None;
        }
        // SAFETY: (1) is our (1), because a closure is popped before it is given out. (2) is our (2).
        unsafe { state.closures.push_back(closure) };
        Some(state.choose(self.most))
    }

    /// `SubmitPresent`: appends `closure` for a thread that is there or on its way. Returns `None` if there
    /// is none, or if the queue is closed; then it has done nothing. Never returns [`PendingWake::Start`].
    ///
    /// # Safety
    /// As for [`submit`](Self::submit).
    pub unsafe fn submit_to_present(&self, closure: NonNull<T>) -> Option<PendingWake> {
        let mut state = self.state.lock();
        if state.is_closed || state.threads == 0 {
            return None;
        }
        // SAFETY: as in `submit`.
        unsafe { state.closures.push_back(closure) };
        Some(state.choose(0))
    }

    /// `NewArrives` for a thread that has just been started. The thread performs the pending wake, then
    /// whatever may be slow. Then it comes to [`next`](Self::next) as a new [`PoolThread`]. A helper starts
    /// another thread, which does so.
    pub fn arrive(&self) -> PendingWake {
        let mut state = self.state.lock();
        state.is_coming = false;
        state.starting += 1;
        state.choose(self.most)
    }

    /// `TakeLock` to `BecomeIdle` for the thread of `thread`. `is_overdue` says that it has been idle for the
    /// keep-alive time. It leaves for that reason only if it was not chosen meanwhile.
    pub fn next(&self, thread: &Arc<PoolThread>, is_overdue: bool) -> Next<T> {
        let mut state = self.state.lock();
        let before = thread.state.load(Relaxed);
        match before {
            COMING => state.is_coming = false,
            IDLE => state.idle.retain(|other| !Arc::ptr_eq(other, thread)),
            STARTING => state.starting -= 1,
            _ => {}
        }
        thread.state.store(WORKING, Relaxed);
        // `TakeClosure`.
        if let Some(closure) = state.closures.pop_front() {
            return Next::Run(closure, state.choose(self.most));
        }
        if state.is_closed || is_overdue && before == IDLE {
            state.threads -= 1;
            return Next::Leave;
        }
        thread.state.store(IDLE, Relaxed);
        state.idle.push(thread.clone());
        Next::Sleep
    }

    /// `StartRefused` to `IdleInstead`: the thread that was to be started will not come. Returns the closures
    /// that no thread will run.
    pub fn refused(&self, refused: Refused) -> (PendingWake, IntrusiveList<T>) {
        let mut state = self.state.lock();
        match refused {
            Refused::Coming => state.is_coming = false,
            Refused::Starting => state.starting -= 1,
        }
        state.threads -= 1;
        if state.threads == 0 {
            return (PendingWake::Nothing, mem::replace(&mut state.closures, IntrusiveList::new()));
        }
        // As if the number of threads were at the bound, because the system would refuse another thread as
        // well.
        (state.choose(0), IntrusiveList::new())
    }

    /// `RefuseClosures` to `DismissIdle`: takes no closure from now on, and has every thread leave that has
    /// nothing to run. Returns the closures for which no thread is on its way.
    pub fn close(&self) -> IntrusiveList<T> {
        let mut state = self.state.lock();
        state.is_closed = true;
        let on_their_way = state.starting + usize::from(state.is_coming);
        let closures = state.closures.split_off(on_their_way);
        let idle = mem::take(&mut state.idle);
        for thread in &idle {
            thread.state.store(COMING, Relaxed);
        }
        drop(state);
        idle.iter().for_each(|thread| thread.handle.unpark());
        closures
    }
}

impl<T: Linked> PoolState<T> {
    /// `ChooseNobody` to `ChooseLater`.
    fn choose(&mut self, most: usize) -> PendingWake {
        if self.is_coming || self.is_closed || self.closures.is_empty() {
            return PendingWake::Nothing;
        }
        if let Some(thread) = self.idle.pop() {
            thread.state.store(COMING, Relaxed);
            self.is_coming = true;
            self.wakes += 1;
            return PendingWake::Wake(thread);
        }
        if self.closures.len() > self.starting && self.threads < most {
            self.threads += 1;
            self.is_coming = true;
            self.starts += 1;
            return PendingWake::Start;
        }
        PendingWake::Nothing
    }
}

impl<T: Linked> fmt::Debug for PoolQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolQueue").field("most", &self.most).field("counts", &self.counts()).finish()
    }
}

impl PoolThread {
    /// Makes the `PoolThread` of the calling thread, which has [arrived](PoolQueue::arrive) and comes to its
    /// first [`next`](PoolQueue::next).
    pub fn new() -> Arc<Self> {
        Arc::new(Self { state: AtomicU8::new(STARTING), handle: thread::current() })
    }

    /// Ends the thread's sleep, after it was chosen.
    pub fn wake(&self) {
        self.handle.unpark();
    }

    /// `IdleSleep`, on the thread itself. Returns false if the thread was chosen, and true if `give_up` came
    /// first. `None` is no limit.
    pub fn sleep(&self, give_up: Option<Instant>) -> bool {
        // Relaxed: see *ordering* in the module's docs.
        while self.state.load(Relaxed) == IDLE {
            let Some(give_up) = give_up else {
                thread::park();
                continue;
            };
            let left = give_up.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::park_timeout(left);
        }
        false
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
