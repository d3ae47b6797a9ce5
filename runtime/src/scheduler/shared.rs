//! The state that all workers of a runtime share, and how long it lives.
//!
//! # The life of the shared state
//! The state is freed when nothing can reach it any more: no handle, no cell of a task, no thread, and no
//! registered timer or descriptor (a timer or descriptor holds a handle). If one atomic number counted all of
//! these, every spawn would write a cache line that the whole runtime shares. So a worker counts up and down
//! in a plain cell of its own, and all other threads count in `references`:
//! ```text
//! true count = references - BIAS (until the last worker has left) + the sum of the workers' own counts
//!            + the newborn tasks that came through the injector from outside (until the same moment)
//! ```
//! - A newborn task from outside is counted under the lock that its spawner takes anyway. At that time no
//!   worker can have the task yet, and free it. The last worker to leave closes the injector. From then on
//!   the number of these tasks is final, and that worker adds it to `references`. A later spawner is refused,
//!   and counts its task itself.
//! - A worker adds its own count to `references` when it leaves. The last worker to leave also subtracts
//!   BIAS.
//! - While BIAS is in, `references` cannot reach zero: a runtime would first have to free 2^62 cells on
//!   foreign threads.
//! - Once BIAS is out, `references` is the true count. The thread that brings it to zero frees the state.
//!
//! Every subtraction is AcqRel, so all uses happen before the free. After a subtraction, a thread does not
//! touch the shared state unless it holds another reference. A worker needs no reference until it has left.

use std::alloc::Layout;
use std::num::NonZeroU64;
use std::panic::Location;
use std::ptr::NonNull;

use super::away::{Away, Role};
use super::current_thread::{self, Core};
use super::deadlock::Marks;
use super::external::External;
use super::hints::sampling::Samplers;
use super::hints::spread::Places;
use super::idle::{Idle, Work};
use super::jobs::Jobs;
use super::lifecycle::Lifecycle;
use super::magazine::{self, Depot};
use super::monitor::Monitor;
use super::processor::{Processor, Processors};
use super::seat::Seat;
use super::split::Splits;
use super::worker::Worker;
use crate::config::observer::Observer;
use crate::config::{Config, Flavor, UnhandledPanic};
use crate::driver::Driver;
use crate::loom::sync::atomic::Ordering::{AcqRel, Relaxed};
use crate::loom::sync::atomic::{AtomicI64, AtomicU64};
use crate::queue::Injector;
use crate::scheduler::blocking::Pool;
use crate::scheduler::context;
use crate::task::{self, Header, Id, Owned, Runnable, Schedule};
use crate::util::crowd::Crowd;
use crate::util::unwind;

/// See the module's docs.
const BIAS: i64 = 1 << 62;

/// The shared state of one runtime.
#[derive(Debug)]
pub struct Shared {
    pub config: Config,
    /// Unique in the process.
    pub id: NonZeroU64,
    pub injector: Injector<Header>,
    /// Tasks with long polls, taken from workers that are stuck; see `monitor.rs`.
    pub slow: Injector<Header>,
    pub idle: Idle,
    pub jobs: Jobs,
    pub processors: Processors,
    pub external: External,
    /// The lowest index of a spare worker, and the largest number of spare workers.
    pub first_spare: usize,
    pub max_spares: usize,
    pub owned: Owned,
    pub driver: Driver,
    pub blocking: Pool,
    pub away: Away,
    pub samplers: Samplers,
    pub monitor: Monitor,
    pub splits: Splits,
    pub places: Places,
    pub crowd: Crowd,
    pub marks: Marks,
    pub depot: Depot,
    pub lifecycle: Lifecycle,
    /// The thread that drives a `current_thread` runtime.
    pub core: Core,
    /// Tasks that non-worker threads spawned and the injector refused (the injector counts the others); and
    /// tasks that ended on non-worker threads.
    pub refused_elsewhere: AtomicU64,
    pub ended_elsewhere: AtomicU64,
    /// See the module's docs.
    references: AtomicI64,
}

impl Shared {
    /// Makes the shared state with BIAS and one reference, which is the caller's.
    pub fn new(config: Config, driver: Driver) -> NonNull<Self> {
        task::introduce_wakers();
        let workers = config.workers;
        let spares = config.max_spares();
        let externals = if config.takes_external() { workers } else { 0 };
        let first_spare = workers + externals;
        let has_seats = config.flavor == Flavor::MultiThread;
        let shared = Self {
            injector: Injector::new(),
            slow: Injector::new(),
            idle: Idle::new(workers, first_spare + spares),
            jobs: Jobs::new(),
            processors: Processors::new(workers, externals, spares, has_seats),
            external: External::new(workers, externals),
            first_spare,
            max_spares: spares,
            owned: Owned::new(workers),
            driver,
            blocking: Pool::new(config.max_blocking_threads),
            away: Away::new(first_spare, spares),
            samplers: Samplers::new(),
            monitor: Monitor::new(),
            splits: Splits::new(),
            places: Places::new(config.workers),
            crowd: Crowd::new(),
            marks: Marks::new(),
            depot: Depot::new(),
            lifecycle: Lifecycle::new(config.observer.is_some()),
            core: Core::new(),
            refused_elsewhere: AtomicU64::new(0),
            ended_elsewhere: AtomicU64::new(0),
            references: AtomicI64::new(BIAS + 1),
            id: next_id(),
            config,
        };
        if shared.config.is_pool {
            // No worker of a pool claims its table, because a pool has no tasks that wait. SAFETY: no thread
            // has claimed the tables.
            (0..workers).for_each(|seat| unsafe { shared.owned.lend(seat) });
        }
        let shared = NonNull::from(Box::leak(Box::new(shared)));
        // SAFETY: the state was just made, so no other thread knows the seats that it holds.
        let seats =
            unsafe { shared.as_ref() }.processors.permanent().iter().filter_map(|it| it.seat.as_ref());
        // SAFETY: as above.
        seats.for_each(|seat| unsafe { seat.bind(shared) });
        shared
    }

    /// Takes a reference. The caller has one, or is a worker.
    #[inline]
    pub fn retain(this: NonNull<Self>) {
        context::with_worker_of(this, |worker| match worker {
            Some(worker) => worker.count_references(1),
            // SAFETY: valid by the caller's reference.
            None => unsafe { this.as_ref() }.add_references(1),
        });
    }

    /// Drops a reference.
    ///
    /// # Safety
    /// 1. The caller has a reference, gives it up, and does not touch `this` afterwards unless it has
    ///    another.
    #[inline]
    pub unsafe fn release(this: NonNull<Self>) {
        context::with_worker_of(this, |worker| match worker {
            Some(worker) => worker.count_references(-1),
            // SAFETY: (1).
            None => unsafe { Self::subtract(this, 1) },
        });
    }

    /// Adds references that the caller took elsewhere, or takes new ones. The caller has a reference, or BIAS
    /// stands for it.
    pub fn add_references(&self, count: i64) {
        // AcqRel: a worker's own count may be negative, and then stands for the worker's uses of the state.
        self.references.fetch_add(count, AcqRel);
    }

    /// The last worker has left.
    ///
    /// # Safety
    /// 1. Called once, by the last worker, as its last use of `this`.
    pub unsafe fn give_up_bias(this: NonNull<Self>) {
        // SAFETY: BIAS stands for the reference that is given up.
        unsafe { Self::subtract(this, BIAS) }
    }

    /// # Safety
    /// 1. As [`release`](Self::release), of `count` references.
    #[inline]
    unsafe fn subtract(this: NonNull<Self>, count: i64) {
        // SAFETY: the reference that is given up keeps the state until the subtraction. The thread that gets
        // to zero is the last.
        unsafe {
            if this.as_ref().references.fetch_sub(count, AcqRel) == count {
                unwind::drop_quietly(Box::from_raw(this.as_ptr()));
            }
        }
    }

    /// Whether the runtime has one worker, the thread that is in `block_on`.
    pub fn is_current_thread(&self) -> bool {
        self.config.flavor == Flavor::CurrentThread
    }

    /// The runtime that is current on the threads of this one. A pool of jobs is never the current runtime.
    pub fn current_on_threads(&self) -> Option<NonNull<Self>> {
        (!self.config.is_pool).then(|| NonNull::from(self))
    }

    /// The wheel on which worker `index` registers timers. Spare workers share one wheel with non-worker
    /// threads.
    pub fn wheel(&self, index: usize) -> usize {
        index.min(self.config.workers)
    }

    #[inline]
    pub fn processor(&self, index: usize) -> &Processor {
        self.processors.get(index)
    }

    /// The jobs of worker `index`, or of an external thread.
    pub fn seat(&self, index: usize) -> &Seat {
        self.processor(index).seat.as_ref().expect("only runtimes with workers have jobs")
    }

    /// The jobs of all workers and external threads. Empty if the runtime has no jobs.
    pub fn seats(&self) -> impl Iterator<Item = &Seat> {
        self.processors.iter().filter_map(|processor| processor.seat.as_ref())
    }

    /// The permanent worker that spare worker `index` belongs to. Where threads are kept on CPUs, both have
    /// the same CPU.
    pub fn worker_of_spare(&self, index: usize) -> usize {
        index % self.config.workers
    }

    /// Queues a task in the injector, for any worker.
    pub fn inject(&self, task: Runnable) {
        // SAFETY: the runnable owns its task, so no other thread uses its link.
        unsafe { self.injector.push(task.into_raw()) };
        self.fetch_strictly(Work::Task);
    }

    /// Queues a newborn task as [`inject`](Self::inject) does. Once the last worker has left, gives the task
    /// back instead. A task that `is_from_outside` is counted, unless it is given back.
    #[inline]
    fn inject_newborn(&self, task: Runnable, is_from_outside: bool) -> Result<(), Runnable> {
        let raw = task.into_raw();
        // SAFETY: the runnable owns its task, so no other thread uses its link; if it is refused, it is ours
        // again.
        unsafe {
            if !self.injector.push_unless_closed(raw, is_from_outside) {
                return Err(Runnable::from_raw(raw));
            }
        }
        self.fetch_strictly(Work::Task);
        Ok(())
    }

    /// As [`fetch`](Self::fetch), with P2 of `idle.rs` before it. For a push into a queue that
    /// the caller does not drain itself.
    pub fn fetch_strictly(&self, work: Work) -> bool {
        self.idle.fence_push();
        self.fetch(work)
    }

    /// P3 to P6, and J5, of `idle.rs`, and `Admit` of `away.rs`: wakes or starts a thread for `work`, unless
    /// a worker already searches. Returns whether it did.
    #[inline]
    pub fn fetch(&self, work: Work) -> bool {
        // A cheap test first: mostly no worker is asleep or away.
        (self.idle.has_sleepers() || self.is_anybody_away()) && self.fetch_somebody(work)
    }

    fn fetch_somebody(&self, work: Work) -> bool {
        let pick = self.idle.pick_for(work, self.driver.sitter());
        self.unpark_picked(pick.unparks);
        let is_admitted = pick.is_nobody && self.is_anybody_away() && self.admit(None);
        pick.unparks.is_some() || is_admitted
    }

    /// As [`fetch_strictly`](Self::fetch_strictly), for work of any kind. It does not rely on workers that
    /// search.
    pub fn fetch_anyway(&self) {
        self.idle.fence_push();
        if let Some(index) = self.idle.pick_anyway(self.driver.sitter()) {
            return self.unpark_picked(Some(index));
        }
        // This thread was counted as a searcher for a moment. Pushers of any kind of work may have relied on
        // it: see `Pick`. The fence of the pick comes before this.
        self.unpark_picked(self.idle.pick_waiter(0));
        self.fetch(Work::Task);
    }

    /// F2 of worker `index`, which may not run every kind of work.
    pub fn leave_to_lower(&self, index: usize) {
        let picked = self.idle.pick_below(index, self.driver.sitter());
        if picked.is_some() {
            return self.unpark_picked(picked);
        }
        // The fence of the pick comes before this.
        self.unpark_picked(self.idle.pick_waiter(0));
        if self.is_anybody_away() {
            self.admit(None);
        }
    }

    /// Worker `index` waits for a latch, and may not run the jobs that it was woken for. Picks a worker in
    /// its place.
    pub fn pass_errand_on(&self, index: usize) {
        let pick = self.idle.pass_errand_on(index, self.driver.sitter());
        self.unpark_picked(pick.unparks);
        if pick.is_nobody {
            self.admit(None);
        }
    }

    #[inline]
    pub fn unpark_picked(&self, picked: Option<usize>) {
        if let Some(index) = picked {
            self.processor(index).parker.unpark(&self.driver);
        }
    }

    /// Whether to wake another worker for work that the calling worker could also do later: a hint.
    pub fn is_worth_notifying(&self) -> bool {
        self.idle.is_worth_notifying(|| self.extra())
    }

    /// Whether a worker, awake or not, has no work: a hint.
    pub fn is_hungry(&self) -> bool {
        self.idle.is_anybody_idle(|| self.extra())
    }

    /// Whether there is a task in a queue that any worker may take from: F2 and W4 of `idle.rs`.
    pub fn has_visible_tasks(&self) -> bool {
        let has_ring = || self.processors.iter().any(|processor| !processor.ring.is_empty());
        !self.injector.is_empty() || !self.slow.is_empty() || has_ring()
    }

    /// As [`has_visible_tasks`](Self::has_visible_tasks), for the queues that a worker with this role may
    /// take from.
    pub fn has_tasks_for(&self, role: Role) -> bool {
        match role {
            Role::Full | Role::Begins => self.has_visible_tasks(),
            Role::Serves | Role::Surplus => !self.injector.is_empty(),
        }
    }
}

/// A number that is unique among all runtimes and local sets of the process.
pub fn next_id() -> NonZeroU64 {
    // Not of `loom`: no order depends on it.
    static LAST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    // Relaxed: a number by itself.
    NonZeroU64::new(LAST.fetch_add(1, Relaxed) + 1).expect("2^64 runtimes are not made")
}

/// Queues a task that the calling thread has woken. That thread is no worker of the runtime, or a worker that
/// does not come back to its queues soon, or one that is also a worker of another runtime.
///
/// # Safety
/// 1. `shared` is valid for the whole call.
#[inline(never)]
unsafe fn schedule_elsewhere(shared: NonNull<Shared>, task: Runnable) {
    context::with_worker_of(shared, |worker| match worker {
        Some(worker) if worker.takes_tasks() => worker.push(task),
        // SAFETY: (1).
        _ => unsafe { shared.as_ref() }.inject(task),
    });
}

// SAFETY: (1) a task goes to a ring, a LIFO slot or the injector, which the workers drain, and which are
// drained at shutdown; (2) cells are counted as references.
unsafe impl Schedule for Shared {
    #[inline]
    unsafe fn schedule(this: NonNull<Self>, task: Runnable) {
        context::with_worker(|newest| match newest {
            Some(worker) if worker.shared_ptr() == this && worker.is_here() => worker.push(task),
            // SAFETY: valid for the call, by the caller's word.
            _ => unsafe { schedule_elsewhere(this, task) },
        });
    }

    #[inline]
    unsafe fn reschedule(this: NonNull<Self>, task: Runnable) {
        context::with_worker_of(this, |worker| match worker {
            Some(worker) if worker.takes_tasks() => worker.requeue(task),
            // SAFETY: valid for the call, by the caller's word.
            _ => unsafe { this.as_ref() }.inject(task),
        });
    }

    #[inline]
    fn is_own_thread(this: NonNull<Self>) -> bool {
        context::with_worker_of(this, |worker| worker.is_some())
    }

    #[inline]
    unsafe fn adopt(this: NonNull<Self>, task: NonNull<Header>) -> bool {
        context::with_worker_of(this, |worker| {
            // SAFETY: both are valid, by the word of the caller, which owns the task's `SCHEDULED`. The
            // worker is the calling thread, and its table is not lent. A task is adopted once.
            unsafe { this.as_ref().owned.enter(task, worker.and_then(Worker::table)) }
        })
    }

    #[inline]
    unsafe fn release(this: NonNull<Self>, task: NonNull<Header>) {
        // SAFETY: both are live, by the word of the caller, which owns the task's `SCHEDULED`.
        let (state, header) = unsafe { (this.as_ref(), task.as_ref()) };
        context::with_worker_of(this, |worker| {
            match worker {
                Some(worker) => worker.processor().metrics.ended.add(1),
                // Relaxed: a number by itself.
                None => _ = state.ended_elsewhere.fetch_add(1, Relaxed),
            }
            if header.is_owned() {
                // SAFETY: the worker is the calling thread, and its table is not lent; the task was entered.
                unsafe { state.owned.leave(task, worker.and_then(Worker::table)) };
                if let Some(observer) = &state.config.observer {
                    observer.on_terminate(header.id(), header.spawned_at());
                }
            }
        });
    }

    unsafe fn around_poll(
        this: NonNull<Self>,
        id: Id,
        spawned_at: &'static Location<'static>,
        poll: impl FnOnce(),
    ) {
        // SAFETY: (1).
        let observer = unsafe { this.as_ref() }.config.observer.as_ref();
        let worker = context::with_worker_of(this, |worker| worker.map(Worker::index));
        observer.expect("tasks are observed").around_poll(worker, id, spawned_at, poll);
    }

    unsafe fn after_panic(this: NonNull<Self>) {
        // SAFETY: (1).
        let state = unsafe { this.as_ref() };
        if state.config.unhandled_panic == UnhandledPanic::ShutdownRuntime {
            current_thread::end_by_panic(state);
        }
    }

    #[inline]
    unsafe fn allocate(this: NonNull<Self>, layout: Layout) -> NonNull<u8> {
        context::with_worker_of(this, |worker| match worker {
            Some(worker) => worker.magazine().allocate(layout, &worker.shared().depot),
            // SAFETY: (1).
            None => magazine::allocate_outside(layout, unsafe { &this.as_ref().depot }),
        })
    }

    #[inline]
    unsafe fn free(this: NonNull<Self>, memory: NonNull<u8>, layout: Layout) {
        context::with_worker_of(this, |worker| match worker {
            Some(worker) => {
                worker.count_references(-1);
                // SAFETY: (2); the worker keeps the shared state.
                unsafe { worker.magazine().free_by(memory, layout, || &worker.shared().depot) };
            }
            // SAFETY: (2), and (1).
            None => unsafe { Self::free_elsewhere(this, memory, layout) },
        });
    }
}

impl Shared {
    /// `free` on a non-worker thread.
    ///
    /// # Safety
    /// As [`Schedule::free`].
    #[inline(never)]
    unsafe fn free_elsewhere(this: NonNull<Self>, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: (2), and (1): the cell's reference is given up.
        unsafe {
            magazine::free_outside(memory, layout, &this.as_ref().depot);
            Self::subtract(this, 1);
        }
    }

    /// Queues a newborn task in the injector, or cancels it if the shutdown has begun. If the spawner is no
    /// worker, the task `is_from_outside`, and the reference of the task's cell is taken here. The spawner
    /// itself has a reference.
    #[inline(never)]
    pub fn take_newborn(&self, task: Runnable, is_from_outside: bool) {
        if let Some(observer) = &self.config.observer {
            return self.take_observed(task, is_from_outside, observer);
        }
        let refused = match self.lifecycle.has_begun() {
            true => Err(task),
            false => self.inject_newborn(task, is_from_outside),
        };
        if let Err(task) = refused {
            self.refuse(task, is_from_outside);
        }
    }

    /// [`take_newborn`](Self::take_newborn) in a runtime that observes its tasks. All newborn tasks come here.
    fn take_observed(&self, task: Runnable, is_from_outside: bool, observer: &Observer) {
        if self.lifecycle.has_begun() {
            // Neither its beginning nor its end is told: a hook that replaces each task that ends would go on
            // for ever.
            return self.refuse(task, is_from_outside);
        }
        let (this, id, spawned_at) = (NonNull::from(self), Id(task.id()), task.spawned_at());
        // SAFETY: the task is new, and the spawner, which has its handle, is here.
        unsafe { task.observe() };
        observer.on_spawn(id, spawned_at);
        // SAFETY: the runnable owns its task, which is adopted here and nowhere else: its own poll adopts only a
        // task that is not owned.
        if !unsafe { Self::adopt(this, task.header()) } {
            self.refuse(task, is_from_outside);
            return observer.on_terminate(id, spawned_at);
        }
        let refused = context::with_worker_of(this, |worker| match worker {
            Some(worker) if worker.takes_tasks() => {
                worker.push(task);
                Ok(())
            }
            _ => self.inject_newborn(task, is_from_outside),
        });
        if let Err(task) = refused {
            self.refuse(task, is_from_outside);
        }
    }

    #[cold]
    fn refuse(&self, task: Runnable, is_from_outside: bool) {
        if is_from_outside {
            self.add_references(1);
            // Relaxed: a number by itself.
            self.refused_elsewhere.fetch_add(1, Relaxed);
        }
        task.cancel();
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
