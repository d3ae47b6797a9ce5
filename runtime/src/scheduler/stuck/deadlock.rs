//! Marks of threads that block, and the search for a state in which nothing is left that could unblock them.
//!
//! A runtime cannot see what a thread waits for outside of it. But suppose that a thread says that it is
//! blocked, that every other thread that works for the runtime sleeps or says the same, and that nothing
//! under way would wake one of them. Then only a thread that the runtime does not know can unblock it. That
//! is a deadlock, which is reported once.
//!
//! # Which threads count
//! ```text
//! worker of any kind              asleep: its parker says so, `park.rs`          marked          else awake
//! thread in a `block_on`          (any thread may wake its future)               marked          else awake
//! closure of `spawn_blocking`     (what it waits for is not known)               marked          else awake
//! ```
//! Two more cases count as awake: a thread inside of [`blocking`](crate::parallel::blocking), and a worker
//! that waits for another pool. A spare worker whose thread has ended, or has not begun, does not count. A
//! thread that is none of these, and only holds a `Handle` or a waker, may push or wake at any time, and
//! nothing tells whether it will. If the marked threads wait for such a thread, its work belongs into a
//! `block_on`, a blocking closure, or `blocking`.
//!
//! # Steps
//! ```text
//! Announce                                             Look (any thread)
//! A1 asleep: K1 of `park.rs`                           D1 take the lock; not reported yet, a mark is there
//!    marked: the thread has exposed its queues;        D2 each worker is asleep or marked; remember which
//!       under the lock, the mark is in the list           sleep it is
//!    a `block_on`, a closure, `blocking`, a timer, a   D3 nothing to come: no task in any queue, no job
//!       descriptor has ended, under its lock              that a sleeper could run, no timer, no
//! A2 read the number of marks: if there are any, Look     descriptor, no closure
//!                                                      D4 D2 again: each is in the same sleep as then
//!                                                      D5 note that it is reported; give the lock back;
//!                                                         call the handler
//! ```
//! **No thread becomes awake unseen.** Every thread leaves its announced state before it acts. An unpark
//! swaps the parker's word before it touches the thread (U1). A sleeper that wakes by itself swaps that word
//! before it fires a timer (K3), and hands out events while a flag is up (`driver/io`). The call that takes a
//! mark back takes it out of the list before it returns.
//!
//! # Why none is reported falsely
//! D2 and D4 read the parkers' words by read-modify-writes, so each reading is exact at its moment. If the
//! number of a worker's sleeps is the same, the worker slept from D2 to D4. In between, no thread of ours
//! ran. D3 sees what each thread did before its sleep, because it comes after D2 has acquired that. So if D3
//! finds nothing, there was nothing. Only a thread outside can have pushed later.
//!
//! A latch that was set, but whose owner has not woken yet, is no exception. The thread that set it unparked
//! the owner before it went to sleep itself or was marked. If a thread of another pool set the latch, the
//! owner counted as awake.
//!
//! # Why none is missed
//! Consider the last A1 of a deadlock, in the order of the steps that complete it. Its thread looks
//! afterwards, unless A2 reads no mark. But marks are announced as well. Consider A1 on a parker and A1 of a
//! mark. Either D2 of the mark's look sees the sleeper, or D2 read the word before K1, and K1 acquires the
//! number of marks from D2. The other pairs meet in locks. So the look finds every other thread announced. It
//! may fail because a sleeper has just woken for nothing; that sleeper goes to sleep again, and then its A1
//! is the last.
//!
//! Three cases are not noticed: a thread that is blocked without a mark; work that is runnable but that no
//! thread will run, such as tasks when all spare workers are blocked; and any deadlock after a worker has
//! left at shutdown.
//!
//! **Once for each deadlock**: after a report, no thread looks until a mark has come or gone. If the same
//! marks block the same threads, it is the same deadlock, whatever else has run meanwhile.
//!
//! While nothing is marked, this costs a relaxed load before each sleep. Without a handler it never costs
//! more.
//!
//! Rejected:
//! - Counters of active and blocked threads, updated at each sleep and wake (Rayon's older sleep module):
//!   every sleep pays for them, and the waker would have to count the woken thread as active on its behalf.
//! - Calling the handler under the lock, as Rayon did: the handler could not take back a mark.

use std::fmt;
use std::panic::Location;
use std::ptr::NonNull;
use std::time::Instant;

use crate::config::{Blocked, Deadlock, DeadlockHandler};
use crate::coop;
use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::AtomicUsize;
use crate::loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use crate::scheduler::blocking::crew::Counts;
use crate::scheduler::context;
use crate::scheduler::in_place;
use crate::scheduler::reference::Reference;
use crate::scheduler::seat::Seat;
use crate::scheduler::shared::Shared;
use crate::scheduler::worker::Worker;
use crate::util::unwind;

/// The marks of one runtime or pool; see the module's docs.
#[derive(Debug)]
pub struct Marks {
    /// The number of marks that stand. 0 without a handler.
    standing: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    marks: Vec<Entry>,
    /// The number of marks made so far.
    made: u64,
    /// The threads in a `block_on`, one entry for each call. Only with a handler.
    block_ons: Vec<ThreadToken>,
    /// The number of calls that announce something outside that goes on.
    expecting: usize,
    /// Whether nothing was marked or unmarked since the last report.
    is_reported: bool,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    who: Who,
    thread: ThreadToken,
    /// Whether the thread has exposed its queues, so that it counts as blocked.
    stands: bool,
    /// Whether `away.rs` counts the worker as blocked, once for all its marks of this kind.
    is_relieved: bool,
    blocked: Blocked,
}

/// The role in which a thread is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Worker(usize),
    BlockOn,
    Closure,
}

/// Identifies a live thread.
type ThreadToken = usize;

impl Marks {
    pub fn new() -> Self {
        let state =
            State { marks: Vec::new(), made: 0, block_ons: Vec::new(), expecting: 0, is_reported: false };
        Self { standing: AtomicUsize::new(0), state: Mutex::new(state) }
    }
}

/// A mark that stands. It keeps the shared state of its runtime.
#[derive(Debug)]
pub struct Standing {
    handle: Reference,
    number: u64,
}

/// Marks the calling thread as blocked, if a runtime knows the thread.
pub fn mark(location: &'static Location<'static>) -> Option<Standing> {
    // Also the child jobs of an external thread, and those made since an outer call has exposed the earlier
    // ones.
    context::expose_pieces();
    context::with_worker(|newest| {
        if let Some(current) = context::current() {
            if let Some(mark) =
                context::with_worker_of(current, |worker| worker.map(|worker| mark_worker(worker, location)))
            {
                return Some(mark);
            }
            // SAFETY: an entered runtime is valid.
            let handle = unsafe { Reference::new(current) };
            if let Some(who) = handle.shared().as_what_it_blocks() {
                let number = handle.shared().begin_mark(who, false, location).0;
                handle.shared().let_stand(number);
                return Some(Standing { handle, number });
            }
        }
        newest.map(|worker| mark_worker(worker, location))
    })
}

fn mark_worker(worker: &Worker, location: &'static Location<'static>) -> Standing {
    let shared = worker.shared();
    let is_relieved = !shared.is_current_thread() && !worker.is_blocked();
    let (number, is_first) = shared.begin_mark(Who::Worker(worker.index()), is_relieved, location);
    if is_relieved {
        worker.begin_marked();
        in_place::mark(worker, is_first);
    }
    shared.let_stand(number);
    // SAFETY: the state is valid, because this thread is its worker.
    Standing { handle: unsafe { Reference::new(worker.shared_ptr()) }, number }
}

impl Drop for Standing {
    /// Any thread may drop it. The mark may be void already.
    fn drop(&mut self) {
        self.handle.shared().end_marks(|entry| entry.number == self.number);
    }
}

impl Shared {
    /// The role of the calling thread, which is no worker, in this runtime. None without a handler.
    fn as_what_it_blocks(&self) -> Option<Who> {
        self.config.deadlock_handler.as_ref()?;
        if self.marks.state.lock().block_ons.contains(&context::thread_token()) {
            return Some(Who::BlockOn);
        }
        context::is_blocking_thread_of(NonNull::from(self)).then_some(Who::Closure)
    }

    /// Enters a mark that does not stand yet. Returns its number, and whether it is the worker's first mark
    /// that is relieved.
    fn begin_mark(&self, who: Who, is_relieved: bool, location: &'static Location<'static>) -> (u64, bool) {
        let blocked = Blocked {
            thread_name: std::thread::current().name().map(str::to_owned),
            seat: match who {
                Who::Worker(index) => Some(index).filter(|&index| index < self.config.workers),
                Who::BlockOn | Who::Closure => None,
            },
            location,
            since: Instant::now(),
        };
        let mut state = self.marks.state.lock();
        let is_first = is_relieved && !state.marks.iter().any(|entry| entry.who == who && entry.is_relieved);
        let number = state.made;
        state.made += 1;
        let thread = context::thread_token();
        state.marks.push(Entry { number, who, thread, stands: false, is_relieved, blocked });
        if let Who::Worker(index) = who {
            let marks = &self.processor(index).marks;
            marks.fetch_add(1, Relaxed);
        }
        (number, is_first)
    }

    /// A1 of a mark, and A2.
    fn let_stand(&self, number: u64) {
        let mut state = self.marks.state.lock();
        let entry = state.marks.iter_mut().find(|entry| entry.number == number);
        entry.expect("nobody else knows it").stands = true;
        self.marks_changed(&mut state);
        drop(state);
        self.report_deadlock();
    }

    /// Removes the marks that `is_meant` selects: their threads are awake.
    fn end_marks(&self, is_meant: impl Fn(&Entry) -> bool) {
        let mut returned = Vec::new();
        let mut is_any_free = false;
        {
            let mut state = self.marks.state.lock();
            while let Some(place) = state.marks.iter().position(&is_meant) {
                let entry = state.marks.swap_remove(place);
                self.marks_changed(&mut state);
                let Who::Worker(index) = entry.who else {
                    continue;
                };
                let is_same = |other: &Entry| other.who == entry.who && other.is_relieved;
                if entry.is_relieved && !state.marks.iter().any(is_same) {
                    returned.push(index);
                }
                let marks = &self.processor(index).marks;
                // Release: pairs with `Worker::is_unmarked`. A read-modify-write that acquires: A1 of
                // `monitor.rs`, for a mark that ends.
                is_any_free |= marks.fetch_sub(1, AcqRel) == 1;
            }
        }
        if is_any_free {
            self.monitor.somebody_returned(&self.driver);
        }
        returned.into_iter().for_each(|_: usize| self.one_less_blocked());
    }

    fn marks_changed(&self, state: &mut State) {
        state.is_reported = false;
        if self.config.deadlock_handler.is_some() {
            let standing = state.marks.iter().filter(|entry| entry.stands).count();
            // Relaxed: read behind a K1 that acquires, or behind a lock.
            self.marks.standing.store(standing, Relaxed);
        }
    }

    /// The worker is back in its loop, so it is not blocked, and its marks are void.
    pub fn void_marks_of(&self, index: usize) {
        if self.processor(index).marks.load(Acquire) > 0 {
            self.end_marks(|entry| entry.who == Who::Worker(index));
        }
    }

    /// A blocking closure has ended on this thread.
    pub fn closure_ended(&self) {
        // Relaxed: the thread's own marks.
        if self.marks.standing.load(Relaxed) > 0 {
            let thread = context::thread_token();
            self.end_marks(|entry| entry.who == Who::Closure && entry.thread == thread);
        }
    }

    /// Looks for a deadlock, and reports it on this thread. Costs a relaxed load if nothing is marked.
    #[inline]
    pub fn report_deadlock(&self) {
        if let Some(report) = self.find_deadlock() {
            report.deliver();
        }
    }

    /// D1 to D5: returns what to report, if there is a deadlock that has not been reported.
    #[inline]
    pub fn find_deadlock(&self) -> Option<Report> {
        // Relaxed: see the module's docs, A2.
        if self.marks.standing.load(Relaxed) == 0 { None } else { self.look_for_deadlock() }
    }

    #[cold]
    fn look_for_deadlock(&self) -> Option<Report> {
        let handler = self.config.deadlock_handler.clone()?;
        let mut state = self.marks.state.lock();
        if state.is_reported || state.expecting > 0 || !state.marks.iter().any(|entry| entry.stands) {
            return None;
        }
        let is_marked = |thread| state.marks.iter().any(|entry| entry.stands && entry.thread == thread);
        if !state.block_ons.iter().all(|&thread| is_marked(thread)) {
            return None;
        }
        let sleeps = self.sleeps(&state)?;
        if self.has_anything_to_come(&state) || self.sleeps(&state)? != sleeps {
            return None;
        }
        state.is_reported = true;
        let mut blocked: Vec<_> = state.marks.iter().filter(|entry| entry.stands).collect();
        blocked.sort_by_key(|entry| entry.number);
        let blocked = blocked.into_iter().map(|entry| entry.blocked.clone()).collect();
        Some(Report { handler, deadlock: Deadlock { blocked } })
    }

    /// D2: which sleep each worker is in. None if a worker is awake.
    fn sleeps(&self, state: &State) -> Option<Vec<(usize, u64)>> {
        let mut sleeps = Vec::new();
        if self.is_current_thread() {
            // The thread that is its worker is in a `block_on`.
            return Some(sleeps);
        }
        for (index, processor) in self.processors.indices().map(|index| (index, self.processor(index))) {
            if self.away.is_absent(index) || state.is_worker_marked(index) {
                continue;
            }
            if !processor.parker.is_asleep() {
                return None;
            }
            sleeps.push((index, processor.metrics.parks.get()));
        }
        Some(sleeps)
    }

    /// D3: whether there is something that a sleeper will be woken for.
    fn has_anything_to_come(&self, state: &State) -> bool {
        let Counts { threads, idle, queued, .. } = self.blocking.counts();
        let closures = state.marked_threads(Who::Closure);
        self.has_visible_tasks()
            || self.processors.iter().any(|processor| processor.lifo.is_occupied())
            || self.has_job_for_a_sleeper(state)
            || queued > 0
            || threads - idle > closures
            || self.driver.time().is_some_and(|time| time.has_timers())
            || self.driver.io().is_some_and(|io| !io.is_quiet())
    }

    /// Whether a job is there that an unmarked seat could run.
    fn has_job_for_a_sleeper(&self, state: &State) -> bool {
        let sleepers = || self.seats().filter(|seat| !state.is_worker_marked(seat.index()));
        let has_pieces = self.jobs.has_installs() || self.seats().any(Seat::has_public_pieces);
        // No waiter runs these.
        let has_detached = self.jobs.has_roots() || self.seats().any(|seat| !seat.detached.is_empty());
        has_pieces && sleepers().next().is_some()
            || has_detached && sleepers().any(|seat| !self.idle.is_waiter(seat.index()))
            || sleepers().any(|seat| !seat.broadcasts.is_empty())
    }

    /// The calling thread is in a `block_on` of this runtime until the result is dropped.
    pub fn enter_block_on(&self) -> InBlockOn<'_> {
        let is_counted = self.config.deadlock_handler.is_some()
            && (self.is_current_thread()
                || context::with_worker_of(NonNull::from(self), |worker| worker.is_none()));
        if is_counted {
            self.marks.state.lock().block_ons.push(context::thread_token());
        }
        InBlockOn { shared: self, is_counted }
    }

    /// Until the result is dropped, something outside goes on that will wake a thread of this runtime.
    pub fn expect(&self) -> Expecting<'_> {
        let is_counted = self.config.deadlock_handler.is_some();
        if is_counted {
            self.marks.state.lock().expecting += 1;
        }
        Expecting { shared: self, is_counted }
    }
}

impl State {
    fn is_worker_marked(&self, index: usize) -> bool {
        self.marks.iter().any(|entry| entry.stands && entry.who == Who::Worker(index))
    }

    /// How many threads are marked as `who`.
    fn marked_threads(&self, who: Who) -> usize {
        let is_meant = |entry: &&Entry| entry.stands && entry.who == who;
        let mut threads: Vec<_> = self.marks.iter().filter(is_meant).map(|entry| entry.thread).collect();
        threads.sort_unstable();
        threads.dedup();
        threads.len()
    }
}

/// See [`Shared::enter_block_on`].
#[derive(Debug)]
pub struct InBlockOn<'a> {
    shared: &'a Shared,
    is_counted: bool,
}

impl Drop for InBlockOn<'_> {
    fn drop(&mut self) {
        if !self.is_counted {
            return;
        }
        let thread = context::thread_token();
        let is_over = {
            let block_ons = &mut self.shared.marks.state.lock().block_ons;
            if let Some(place) = block_ons.iter().rposition(|&other| other == thread) {
                block_ons.remove(place);
            }
            !block_ons.contains(&thread)
        };
        if is_over {
            // On a `current_thread` runtime this thread was the worker.
            let is_any = self.shared.is_current_thread();
            self.shared.end_marks(|entry| entry.thread == thread && (is_any || entry.who == Who::BlockOn));
        }
        self.shared.report_deadlock();
    }
}

/// See [`Shared::expect`].
#[derive(Debug)]
pub struct Expecting<'a> {
    shared: &'a Shared,
    is_counted: bool,
}

impl Expecting<'_> {
    /// The awaited event outside has happened. Returns a deadlock that the caller has to report, itself or on
    /// another thread.
    pub fn end(mut self) -> Option<Report> {
        self.uncount()
    }

    fn uncount(&mut self) -> Option<Report> {
        if !std::mem::take(&mut self.is_counted) {
            return None;
        }
        self.shared.marks.state.lock().expecting -= 1;
        self.shared.find_deadlock()
    }
}

impl Drop for Expecting<'_> {
    fn drop(&mut self) {
        self.uncount().into_iter().for_each(Report::deliver);
    }
}

/// A deadlock that the handler has yet to be told of.
#[must_use = "it counts as reported"]
pub struct Report {
    handler: DeadlockHandler,
    deadlock: Deadlock,
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report").field("deadlock", &self.deadlock).finish_non_exhaustive()
    }
}

impl Report {
    /// Calls the handler on this thread. The thread holds no lock.
    pub fn deliver(self) {
        let Self { handler, deadlock } = self;
        // As for a hook: the panic hook has reported a panic already.
        unwind::drop_quietly(unwind::catch(|| coop::suspended(|| handler(&deadlock))));
    }
}
