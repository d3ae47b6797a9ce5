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
//! nothing tells whether it will. If the marked threads wait for such a thread, its work belongs in a
//! `block_on`, a blocking closure, or `blocking`.
//!
//! # Steps
//! ```text
//! Announce
//! MarkShow         asleep: ParkShow of `park.rs`
//!                  marked: the thread has exposed its queues; under the lock, the mark is in the list
//!                  a `block_on`, a closure, `blocking`, a timer, a descriptor has ended, under its lock
//! MarkCount        read the number of marks: if there are any, Look
//!
//! Look (any thread)
//! DeadlockLock     take the lock; not reported yet, a mark is there
//! DeadlockSleeps   each worker is asleep or marked; remember which sleep it is
//! DeadlockNothing  nothing to come: no task in any queue, no job that a sleeper could run, no timer, no
//!                  descriptor, no closure
//! DeadlockSame     DeadlockSleeps again: each is in the same sleep as then
//! DeadlockTold     note that it is reported; give the lock back; call the handler. If others rely on this
//!                  thread, have another thread call it (`elsewhere.rs`)
//! ```
//! **No thread becomes awake unseen.** Every thread leaves its announced state before it acts. An unpark
//! swaps the parker's word before it touches the thread (UnparkSwap). A sleeper that wakes by itself swaps
//! that word before it fires a timer (ParkTake), and hands out events while a flag is up (`driver/io`). The
//! call that takes a mark back takes it out of the list before it returns.
//!
//! # Why no deadlock is reported falsely
//! `DeadlockSleeps` and `DeadlockSame` read the parkers' words by read-modify-writes, so each reading is
//! exact at its moment. If the number of a worker's sleeps is the same, the worker slept from
//! `DeadlockSleeps` to `DeadlockSame`. In between, no thread of ours ran. `DeadlockNothing` sees what each
//! thread did before its sleep, because it comes after `DeadlockSleeps` has acquired that. So if
//! `DeadlockNothing` finds nothing, there was nothing. Only a thread outside can have pushed later.
//!
//! A latch that was set, but whose owner has not woken yet, is no exception. The thread that set it unparked
//! the owner before it went to sleep itself or was marked. If a thread of another pool set the latch, the
//! owner counted as awake.
//!
//! # Why no deadlock is missed
//! Consider the last `MarkShow` of a deadlock, in the order of the steps that complete it. Its thread looks
//! afterwards, unless `MarkCount` reads no mark. It reads one if a mark was announced before. Take a
//! `MarkShow` on a parker and a `MarkShow` of a mark. Either `DeadlockSleeps` of the mark's look sees the
//! sleeper, or `DeadlockSleeps` read the word before ParkShow, and ParkShow acquires the number of marks from
//! `DeadlockSleeps`. The other pairs meet in locks. So the look finds every other thread announced. It may
//! fail because a sleeper has just woken for nothing; that sleeper goes to sleep again, and then its
//! `MarkShow` is the last.
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
//! - Calling the handler under the lock, as rustc's fork of Rayon did: the handler could not take back a
//!   mark.

use std::mem::{self, ManuallyDrop};
use std::panic::Location;
use std::time::Instant;

use super::OnChildJobs;
use super::marks::{MarkTable, Marked, MarkedAs, Report};
use crate::config::{Blocked, Deadlock};
use crate::loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use crate::scheduler::blocking::queue::Counts;
use crate::scheduler::context;
use crate::scheduler::in_place;
use crate::scheduler::job_processor::JobProcessor;
use crate::scheduler::reference::Reference;
use crate::scheduler::shared::Shared;
use crate::scheduler::worker::Worker;

/// A mark that stands. It keeps the shared state of its runtime.
#[derive(Debug)]
pub struct AnnouncedMark {
    handle: Reference,
    number: u64,
}

/// Marks the calling thread, which has shared its child jobs, as blocked. Returns `None` if no runtime knows
/// the thread. A thread that is no worker is known only to its current runtime, in a `block_on` or a blocking
/// closure of that runtime, and only if that runtime has a deadlock handler.
pub fn mark(location: &'static Location<'static>) -> Option<AnnouncedMark> {
    context::with_worker(|newest| {
        if let Some(current) = context::current() {
            if let Some(mark) =
                context::with_worker_of(current, |worker| worker.map(|worker| mark_worker(worker, location)))
            {
                return Some(mark);
            }
            // SAFETY: (1) the current runtime is valid until it is left (duty 1 of `Entry::enter`).
            let handle = unsafe { Reference::new(current) };
            if let Some(marked_as) = handle.shared().as_what_it_blocks() {
                let number = handle.shared().begin_mark(marked_as, false, location).0;
                handle.shared().announce(number);
                return Some(AnnouncedMark { handle, number });
            }
        }
        newest.map(|worker| mark_worker(worker, location))
    })
}

fn mark_worker(worker: &Worker, location: &'static Location<'static>) -> AnnouncedMark {
    let shared = worker.shared();
    let is_compensated = !shared.is_current_thread() && !worker.is_blocked();
    let (number, is_first) = shared.begin_mark(MarkedAs::Worker(worker.index()), is_compensated, location);
    if is_compensated {
        worker.begin_marked();
        in_place::mark(worker, is_first);
    } else if !shared.is_current_thread() {
        // The call that blocks is no short one.
        shared.count_blocked(worker.index());
    }
    shared.announce(number);
    // SAFETY: (1) the state is valid, because this thread is its worker.
    AnnouncedMark { handle: unsafe { Reference::new(worker.shared_ptr()) }, number }
}

impl Drop for AnnouncedMark {
    /// Any thread may drop it. The mark may be void already.
    fn drop(&mut self) {
        self.handle.shared().end_marks(|entry| entry.number == self.number);
    }
}

/// The mark of an external thread: until it is dropped, the thread counts as in
/// [`expose_while_blocked`](crate::scheduler::OwnJobs::expose_while_blocked). Any thread may drop it.
#[derive(Debug)]
pub struct ExternalMark(Reference);

impl ExternalMark {
    /// Shares the child jobs of the calling thread, also those made since an outer call has shared the earlier
    /// ones. None if it is no external thread.
    pub fn begin() -> Option<Self> {
        // SAFETY: `job_processor`, `expose_while_blocked`: (1) used in this call only. `Reference::new`: (1)
        // the external thread's call keeps its pool.
        unsafe {
            mem::forget(context::expose_while_blocked()?);
            context::job_processor().map(|external| Self(Reference::new(external.shared_ptr())))
        }
    }
}

impl Drop for ExternalMark {
    fn drop(&mut self) {
        drop(OnChildJobs::of(&self.0.shared().away));
    }
}

impl Shared {
    /// The role of the calling thread, which is no worker, in this runtime. None if it has none, or without
    /// a handler.
    fn as_what_it_blocks(&self) -> Option<MarkedAs> {
        self.config.deadlock_handler.as_ref()?;
        if self.marks.state.lock().block_ons.contains(&context::thread_token()) {
            return Some(MarkedAs::BlockOn);
        }
        context::is_blocking_thread_of(self.ptr()).then_some(MarkedAs::Closure)
    }

    /// Enters a mark that does not stand yet. Returns its number, and whether it is the worker's first mark
    /// that is compensated.
    fn begin_mark(
        &self,
        marked_as: MarkedAs,
        is_compensated: bool,
        location: &'static Location<'static>,
    ) -> (u64, bool) {
        let blocked = Blocked {
            thread_name: std::thread::current().name().map(str::to_owned),
            worker: match marked_as {
                MarkedAs::Worker(index) => Some(index).filter(|&index| index < self.config.workers),
                MarkedAs::BlockOn | MarkedAs::Closure => None,
            },
            location,
            since: Instant::now(),
        };
        let mut state = self.marks.state.lock();
        let is_first = is_compensated
            && !state.marks.iter().any(|entry| entry.marked_as == marked_as && entry.is_compensated);
        let number = state.made;
        state.made += 1;
        let is_in_closure = marked_as == MarkedAs::Closure || context::is_blocking_thread_of(self.ptr());
        state.marks.push(Marked {
            number,
            marked_as,
            thread: context::thread_token(),
            is_in_closure,
            is_announced: false,
            is_compensated,
            blocked,
        });
        if let MarkedAs::Worker(index) = marked_as {
            let marks = &self.processor(index).marks;
            marks.fetch_add(1, Relaxed);
        }
        (number, is_first)
    }

    /// `MarkShow` of a mark, and `MarkCount`.
    fn announce(&self, number: u64) {
        let mut state = self.marks.state.lock();
        let entry = state.marks.iter_mut().find(|entry| entry.number == number);
        entry.expect("no other thread knows it").is_announced = true;
        self.marks_changed(&mut state);
        drop(state);
        self.report_deadlock();
    }

    /// Removes the marks that `is_meant` selects: their threads are awake.
    fn end_marks(&self, is_meant: impl Fn(&Marked) -> bool) {
        let mut returned = Vec::new();
        let mut is_any_free = false;
        {
            let mut state = self.marks.state.lock();
            while let Some(place) = state.marks.iter().position(&is_meant) {
                let entry = state.marks.swap_remove(place);
                self.marks_changed(&mut state);
                let MarkedAs::Worker(index) = entry.marked_as else {
                    continue;
                };
                let is_same = |other: &Marked| other.marked_as == entry.marked_as && other.is_compensated;
                if entry.is_compensated && !state.marks.iter().any(is_same) {
                    returned.push(index);
                }
                let marks = &self.processor(index).marks;
                // Release: pairs with `Worker::is_unmarked`. A read-modify-write that acquires: `AwakeShow`
                // of `monitor/mod.rs`.
                is_any_free |= marks.fetch_sub(1, AcqRel) == 1;
            }
        }
        if is_any_free {
            self.monitor.worker_returned(&self.driver);
        }
        returned.into_iter().for_each(|_: usize| self.one_less_blocked());
    }

    fn marks_changed(&self, state: &mut MarkTable) {
        state.is_reported = false;
        if self.config.deadlock_handler.is_some() {
            let announced = state.marks.iter().filter(|entry| entry.is_announced).count();
            // Relaxed: read behind a ParkShow that acquires, or behind a lock.
            self.marks.announced.store(announced, Relaxed);
        }
    }

    /// The worker is back in its loop, so it is not blocked, and its marks are void.
    pub fn void_marks_of(&self, index: usize) {
        if self.processor(index).marks.load(Acquire) > 0 {
            self.end_marks(|entry| entry.marked_as == MarkedAs::Worker(index));
        }
    }

    /// A blocking closure has ended on this thread.
    pub fn closure_ended(&self) {
        // Relaxed: the thread's own marks.
        if self.marks.announced.load(Relaxed) > 0 {
            let thread = context::thread_token();
            self.end_marks(|entry| entry.marked_as == MarkedAs::Closure && entry.thread == thread);
        }
    }

    /// Looks for a deadlock, and reports it on this thread. Costs a relaxed load if nothing is marked.
    #[inline]
    pub fn report_deadlock(&self) {
        if let Some(report) = self.find_deadlock() {
            report.deliver();
        }
    }

    /// `DeadlockLock` to `DeadlockTold`: returns what to report, if there is a deadlock that has not been
    /// reported.
    #[inline]
    pub fn find_deadlock(&self) -> Option<Report> {
        // Relaxed: see the module's docs, `MarkCount`.
        if self.marks.announced.load(Relaxed) == 0 { None } else { self.look_for_deadlock() }
    }

    #[cold]
    fn look_for_deadlock(&self) -> Option<Report> {
        let handler = self.config.deadlock_handler.clone()?;
        let mut state = self.marks.state.lock();
        if state.is_reported || state.expecting > 0 || !state.marks.iter().any(|entry| entry.is_announced) {
            return None;
        }
        let is_marked = |thread| state.marks.iter().any(|entry| entry.is_announced && entry.thread == thread);
        if !state.block_ons.iter().all(|&thread| is_marked(thread)) {
            return None;
        }
        let sleeps = self.sleeps(&state)?;
        if self.has_anything_to_come(&state) || self.sleeps(&state)? != sleeps {
            return None;
        }
        state.is_reported = true;
        let mut blocked: Vec<_> = state.marks.iter().filter(|entry| entry.is_announced).collect();
        blocked.sort_by_key(|entry| entry.number);
        let blocked = blocked.into_iter().map(|entry| entry.blocked.clone()).collect();
        Some(Report { handler, deadlock: Deadlock { blocked } })
    }

    /// `DeadlockSleeps`: which sleep each worker is in. None if a worker is awake.
    fn sleeps(&self, state: &MarkTable) -> Option<Vec<(usize, u64)>> {
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

    /// `DeadlockNothing`: whether there is something that a sleeper will be woken for.
    fn has_anything_to_come(&self, state: &MarkTable) -> bool {
        let Counts { threads, idle, queued, .. } = self.blocking.queue.counts();
        self.has_visible_tasks()
            || self.processors.iter().any(|processor| processor.lifo.is_occupied())
            || self.processors.iter().any(|processor| !processor.waking.is_empty())
            || self.has_job_for_a_sleeper(state)
            || queued > 0
            || threads - idle > state.marked_closures()
            || self.driver.time().is_some_and(|time| time.has_timers())
            || self.driver.io().is_some_and(|io| !io.is_quiet())
    }

    /// Whether a job is there that the job processor of a worker that is not marked could run.
    fn has_job_for_a_sleeper(&self, state: &MarkTable) -> bool {
        let sleepers =
            || self.job_processors().filter(|job_processor| !state.is_worker_marked(job_processor.index()));
        let has_child_jobs = self.injected_jobs.has_installs()
            || self.job_processors().any(JobProcessor::has_public_child_jobs);
        // No waiter runs these.
        let has_detached = self.injected_jobs.has_injected()
            || self.job_processors().any(|job_processor| !job_processor.detached.is_empty());
        has_child_jobs && sleepers().next().is_some()
            || has_detached && sleepers().any(|job_processor| !self.idle.is_waiter(job_processor.index()))
            || sleepers().any(|job_processor| !job_processor.broadcasts.is_empty())
    }

    /// The calling thread is in a `block_on` of this runtime until the result is dropped. None without a
    /// handler, or if the thread is a worker of a runtime with several workers.
    pub fn enter_block_on(&self) -> Option<InBlockOn<'_>> {
        let is_counted = self.config.deadlock_handler.is_some()
            && (self.is_current_thread() || context::with_worker_of(self.ptr(), |worker| worker.is_none()));
        is_counted.then(|| {
            self.marks.state.lock().block_ons.push(context::thread_token());
            InBlockOn(self)
        })
    }

    /// Until the result is dropped, something outside goes on that will wake a thread of this runtime. None
    /// without a handler.
    pub fn expect(&self) -> Option<Expecting<'_>> {
        self.config.deadlock_handler.as_ref()?;
        self.marks.state.lock().expecting += 1;
        Some(Expecting(self))
    }
}

/// See [`Shared::enter_block_on`].
#[derive(Debug)]
pub struct InBlockOn<'a>(&'a Shared);

impl Drop for InBlockOn<'_> {
    fn drop(&mut self) {
        let thread = context::thread_token();
        let is_over = {
            let block_ons = &mut self.0.marks.state.lock().block_ons;
            if let Some(place) = block_ons.iter().rposition(|&other| other == thread) {
                block_ons.remove(place);
            }
            !block_ons.contains(&thread)
        };
        if is_over {
            // On a `current_thread` runtime this thread was the worker.
            let is_any = self.0.is_current_thread();
            self.0.end_marks(|entry| {
                entry.thread == thread && (is_any || entry.marked_as == MarkedAs::BlockOn)
            });
        }
        self.0.report_deadlock();
    }
}

/// See [`Shared::expect`].
#[derive(Debug)]
pub struct Expecting<'a>(&'a Shared);

impl<'a> Expecting<'a> {
    /// Takes over a result of [`Shared::expect`] that was forgotten. None without a handler.
    pub fn of(shared: &'a Shared) -> Option<Self> {
        shared.config.deadlock_handler.is_some().then(|| Self(shared))
    }

    /// The awaited event outside has happened. Returns a deadlock that the caller has to report, itself or on
    /// another thread.
    pub fn end(self) -> Option<Report> {
        // Without the drop, which would uncount once more.
        ManuallyDrop::new(self).uncount()
    }

    fn uncount(&self) -> Option<Report> {
        self.0.marks.state.lock().expecting -= 1;
        self.0.find_deadlock()
    }
}

impl Drop for Expecting<'_> {
    fn drop(&mut self) {
        self.uncount().into_iter().for_each(Report::deliver);
    }
}

/// As [`Expecting`], for the current runtime, if there is one. It may be dropped on any thread, which then
/// reports the deadlock if there is one.
#[derive(Debug)]
pub struct CurrentExpects(Option<Reference>);

impl CurrentExpects {
    pub fn begin() -> Self {
        // SAFETY: (1) the current runtime is valid until it is left (duty 1 of `Entry::enter`).
        let current = context::current().map(|current| unsafe { Reference::new(current) });
        let is_expecting = |current: &Reference| current.shared().expect().map(mem::forget).is_some();
        Self(current.filter(is_expecting))
    }
}

impl Drop for CurrentExpects {
    fn drop(&mut self) {
        drop(self.0.as_ref().and_then(|runtime| Expecting::of(runtime.shared())));
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
