//! What every worker of a runtime sees, and how long it lives.
//!
//! # The life of the shared state
//! It is freed when nothing can reach it any more: no handle, no cell of a task, no registered timer or descriptor (those
//! hold handles), no thread. Counting each with one atomic number would have every spawn write a line that the whole
//! runtime shares. So a worker counts in a plain cell of its own, up and down, and everybody else in `references`:
//! ```text
//! true count = references - BIAS (until the last worker has left) + the sum of the workers' own counts
//!            + the newborn tasks that came through the injector from outside (until the last worker has left)
//! ```
//! - A newborn task from outside is counted under the lock that it passes anyway, before a worker can have it, and free it. The last
//!   worker to leave closes the injector: then their number is final, and it adds it to `references`. Who comes later is refused, and
//!   counts its task itself.
//! - A worker adds its own count to `references` when it leaves; the last one to leave also subtracts BIAS.
//! - While BIAS is in, `references` cannot reach zero: a runtime would have to free 2^62 cells on foreign threads first.
//! - Once it is out, `references` is the true count, and whoever brings it to zero frees.
//!
//! Every subtraction is AcqRel, so all uses happen before the free. A thread that subtracts does not touch the shared state
//! afterwards unless it holds another reference; a worker, until it has left, needs none.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::OnceLock;

use super::current_thread::Core;
use super::deadlock::Marks;
use super::idle::{Idle, Pick, Work};
use super::jobs::Jobs;
use super::magazine::{self, Depot};
use super::monitor::Monitor;
use super::processor::Processor;
use super::relief::Relief;
use super::seat::Seat;
use super::shutdown::Shutdown;
use super::split::Splits;
use super::spread::Places;
use super::worker::Worker;
use crate::blocking::Pool;
use crate::builder::{Config, Flavor};
use crate::context;
use crate::driver::Driver;
use crate::loom::sync::atomic::Ordering::{AcqRel, Relaxed};
use crate::loom::sync::atomic::{AtomicI64, AtomicU64};
use crate::queue::Injector;
use crate::task::{self, Header, Owned, Runnable, Schedule};
use crate::util::crowd::Crowd;
use crate::util::unwind;

/// See the module's docs.
const BIAS: i64 = 1 << 62;

/// The shared state of one runtime.
#[derive(Debug)]
pub struct Shared {
    pub config: Config,
    pub injector: Injector<Header>,
    /// Of the seats.
    pub idle: Idle,
    /// Of relief threads, which run tasks only.
    pub relief_idle: Idle,
    /// None on `current_thread` runtimes, which have no jobs of their own.
    pub seats: Box<[Seat]>,
    /// Seats are lent; see `guest.rs`.
    pub takes_guests: bool,
    pub jobs: Jobs,
    pub processors: Processors,
    pub owned: Owned,
    pub driver: Driver,
    pub blocking: Pool,
    pub relief: Relief,
    pub monitor: Monitor,
    pub splits: Splits,
    pub places: Places,
    pub crowd: Crowd,
    pub marks: Marks,
    pub depot: Depot,
    pub shutdown: Shutdown,
    /// Who drives a `current_thread` runtime.
    pub core: Core,
    /// Tasks spawned on threads that are no workers, but refused by the injector, which counts the others; and tasks ended on
    /// threads that are no workers.
    pub refused_elsewhere: AtomicU64,
    pub ended_elsewhere: AtomicU64,
    /// See the module's docs.
    references: AtomicI64,
}

impl Shared {
    /// Makes the shared state, with one reference, the caller's, and BIAS.
    pub fn new(config: Config, driver: Driver) -> NonNull<Self> {
        task::introduce_wakers();
        let workers = config.workers;
        let reliefs = config.max_relief_threads();
        let seats = if config.flavor == Flavor::CurrentThread { 0 } else { workers };
        let shared = Self {
            injector: Injector::new(),
            idle: Idle::new(workers, workers),
            relief_idle: Idle::new(workers, workers + reliefs),
            seats: (0..seats).map(Seat::new).collect(),
            takes_guests: config.takes_guests(),
            jobs: Jobs::new(),
            processors: Processors::new(workers, reliefs),
            owned: Owned::new(workers),
            driver,
            blocking: Pool::new(config.max_blocking_threads),
            relief: Relief::new(workers, reliefs),
            monitor: Monitor::new(),
            splits: Splits::new(),
            places: Places::new(config.workers),
            crowd: Crowd::new(),
            marks: Marks::new(),
            depot: Depot::new(),
            shutdown: Shutdown::new(),
            core: Core::new(),
            refused_elsewhere: AtomicU64::new(0),
            ended_elsewhere: AtomicU64::new(0),
            references: AtomicI64::new(BIAS + 1),
            config,
        };
        if shared.config.is_pool {
            // No worker of a pool claims its table: tasks do not wait there.
            // SAFETY: nobody has claimed them.
            (0..workers).for_each(|seat| unsafe { shared.owned.lend(seat) });
        }
        let shared = NonNull::from(Box::leak(Box::new(shared)));
        // SAFETY: just made, so nobody else knows the seats, which the state has.
        unsafe { shared.as_ref().seats.iter().for_each(|seat| seat.bind(shared)) };
        shared
    }

    /// Takes a reference; the caller has one, or is a worker.
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
    /// 1. The caller has a reference, gives it up, and does not touch `this` afterwards unless it has another.
    #[inline]
    pub unsafe fn release(this: NonNull<Self>) {
        context::with_worker_of(this, |worker| match worker {
            Some(worker) => worker.count_references(-1),
            // SAFETY: (1).
            None => unsafe { Self::subtract(this, 1) },
        });
    }

    /// Adds references that the caller took elsewhere, or takes some; the caller has one, or BIAS is in for it.
    pub fn add_references(&self, count: i64) {
        // AcqRel: a worker's own count may be negative, and stand for uses by it.
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
        // SAFETY: the reference that is given up keeps the state until the subtraction. Whoever gets to zero is the last.
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

    /// The wheel that worker `index` registers timers on; relief threads share one with those that are no workers.
    pub fn wheel(&self, index: usize) -> usize {
        index.min(self.config.workers)
    }

    pub fn processor(&self, index: usize) -> &Processor {
        self.processors.get(index)
    }

    /// Queues a task for whichever worker comes first.
    pub fn inject(&self, task: Runnable) {
        // SAFETY: the runnable owns its task, so nobody else uses its link.
        unsafe { self.injector.push(task.into_raw()) };
        self.notify_strictly();
    }

    /// Queues a newborn task as [`inject`](Self::inject); gives it back once the last worker has left. It is counted if it
    /// `is_from_outside`, unless it is given back.
    #[inline]
    fn inject_newborn(&self, task: Runnable, is_from_outside: bool) -> Result<(), Runnable> {
        let raw = task.into_raw();
        // SAFETY: the runnable owns its task, so nobody else uses its link; if it is refused, it is ours again.
        unsafe {
            if !self.injector.push_unless_closed(raw, is_from_outside) {
                return Err(Runnable::from_raw(raw));
            }
        }
        self.notify_strictly();
        Ok(())
    }

    /// P2 to P6 of `idle.rs`, after a push into a queue that the caller does not drain itself.
    pub fn notify_strictly(&self) {
        self.idle.fence_push();
        self.notify();
    }

    /// P3 to P6 of `idle.rs`: wakes a worker if one is needed. Says whether it did.
    #[inline]
    pub fn notify(&self) -> bool {
        // P3 at a glance: mostly nobody is asleep, and no computation keeps the seats.
        let is_anybody_away = self.idle.has_sleepers()
            || self.relief_idle.has_sleepers()
            || self.jobs.is_any_live()
            || self.idle.has_waiters();
        is_anybody_away && self.notify_somebody()
    }

    /// The rest of [`notify`](Self::notify): seats first, then relief threads that are awake or sleep, then those that rest.
    fn notify_somebody(&self) -> bool {
        let sitter = self.driver.sitter();
        let mut pick = self.idle.pick_for(Work::Task, sitter);
        pick.unparks.inspect(|&index| self.unpark_holder(index));
        if pick.asks_relief {
            pick = self.relief_idle.pick_for(Work::Task, sitter);
            self.unpark_picked(pick.unparks);
            if pick.asks_relief && (self.idle.has_waiters() || self.is_computing()) {
                self.admit_relief();
            }
        }
        pick.unparks.is_some()
    }

    /// As [`notify_strictly`](Self::notify_strictly), or [`notify_for`](Self::notify_for) a job, but relies on nobody who searches.
    pub fn notify_anyway(&self, work: Work) {
        self.idle.fence_push();
        let sitter = self.driver.sitter();
        let seat = self.idle.pick_anyway(sitter);
        self.unpark_picked(seat);
        if seat.is_some() {
            return;
        }
        let relief = if work == Work::Task { self.relief_idle.pick_anyway(sitter) } else { None };
        self.unpark_picked(relief);
        // Meanwhile others may have relied on us: with a job also if a relief thread was found, which runs none.
        self.idle.fence_push();
        if relief.is_none() {
            self.notify();
        }
        match work {
            Work::Job => _ = self.idle.pick_waiter(0).inspect(|&index| self.unpark_holder(index)),
            Work::Task | Work::DetachedRoot => self.notify_for(Work::Job),
        }
    }

    /// Whether nobody searches who would find a task, and somebody sleeps: a hint.
    pub fn is_worth_notifying(&self) -> bool {
        self.idle.is_worth_notifying()
            || !self.idle.is_anybody_searching() && self.relief_idle.is_worth_notifying()
    }

    /// Wakes a worker for a job, or for a root.
    pub fn notify_for(&self, work: Work) {
        self.unpark_for_job(self.idle.pick_for(work, self.driver.sitter()));
    }

    /// The worker `index`, which waits for a latch, may not run the jobs that it was woken for.
    pub fn pass_errand_on(&self, index: usize) {
        self.unpark_for_job(self.idle.pass_errand_on(index, self.driver.sitter()));
    }

    fn unpark_for_job(&self, Pick { unparks, asks_relief }: Pick) {
        unparks.inspect(|&index| self.unpark_holder(index));
        if asks_relief {
            // Somebody relied on us with a task meanwhile.
            self.notify();
        }
    }

    /// Unparks who holds seat `index`, and sleeps on a latch or was picked from the seats' instance: its owner, or a guest.
    pub fn unpark_holder(&self, index: usize) {
        match self.seats.get(index).filter(|seat| seat.loan.is_lent()) {
            Some(seat) => seat.loan.parker.unpark(&self.driver),
            None => self.unpark_picked(Some(index)),
        }
    }

    #[inline]
    pub fn unpark_picked(&self, picked: Option<usize>) {
        if let Some(index) = picked {
            self.processor(index).parker.unpark(&self.driver);
        }
    }

    /// Whether there is a task in the injector or in any ring: F2 and W4 of `idle.rs`.
    pub fn has_visible_tasks(&self) -> bool {
        !self.injector.is_empty() || self.processors.iter().any(|processor| !processor.ring.is_empty())
    }
}

/// Queues a task that is woken by a thread which is not, or not only, a worker that comes back to its queues soon.
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

// SAFETY: (1) a task goes to a ring, a LIFO slot or the injector, which the workers drain, and which are drained at
// shutdown; (2) cells are counted as references.
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
            Some(worker) if worker.takes_tasks() => worker.push_back(task),
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
            // SAFETY: valid, by the caller's word, who owns the task's `SCHEDULED`; the worker is the calling thread, and its
            // seat is not lent. A task is adopted once.
            unsafe { this.as_ref().owned.enter(task, worker.and_then(Worker::seat)) }
        })
    }

    #[inline]
    unsafe fn release(this: NonNull<Self>, task: NonNull<Header>) {
        // SAFETY: both are live, by the caller's word, who owns the task's `SCHEDULED`.
        let (state, header) = unsafe { (this.as_ref(), task.as_ref()) };
        context::with_worker_of(this, |worker| {
            match worker {
                Some(worker) => worker.processor().metrics.ended.add(1),
                // Relaxed: a number by itself.
                None => _ = state.ended_elsewhere.fetch_add(1, Relaxed),
            }
            if header.is_owned() {
                // SAFETY: the worker is the calling thread, and its seat is not lent; the task was entered.
                unsafe { state.owned.leave(task, worker.and_then(Worker::seat)) };
            }
        });
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
    /// `free` on a thread that is no worker.
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

    /// Queues a newborn task that goes into no worker's own queue, or cancels it once the runtime ends. If its spawner is no worker, the
    /// task `is_from_outside`, and its cell's reference is taken here; the spawner has one.
    #[inline(never)]
    pub fn take_newborn(&self, task: Runnable, is_from_outside: bool) {
        let refused = match self.shutdown.has_begun() {
            true => Err(task),
            false => self.inject_newborn(task, is_from_outside),
        };
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

/// All processors: those of the seats, made at once, and those of relief threads, made when first needed.
#[derive(Debug)]
pub struct Processors {
    seats: Box<[Processor]>,
    reliefs: Box<[OnceLock<Box<Processor>>]>,
}

impl Processors {
    fn new(seats: usize, reliefs: usize) -> Self {
        Self {
            seats: (0..seats).map(|_| Processor::new()).collect(),
            reliefs: (0..reliefs).map(|_| OnceLock::new()).collect(),
        }
    }

    /// The processor `index`, made if it is not there yet.
    pub fn get(&self, index: usize) -> &Processor {
        match self.seats.get(index) {
            Some(seat) => seat,
            None => self.reliefs[index - self.seats.len()].get_or_init(|| Box::new(Processor::new())),
        }
    }

    /// How many there are at least: indices below are worth a thief's look.
    pub fn len(&self) -> usize {
        self.seats.len() + self.reliefs.iter().take_while(|relief| relief.get().is_some()).count()
    }

    /// Those that have been made.
    pub fn iter(&self) -> impl Iterator<Item = &Processor> {
        let reliefs = self.reliefs.iter().map_while(|relief| relief.get().map(|relief| &**relief));
        self.seats.iter().chain(reliefs)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::{Duration, Instant};

    use crate::{Builder, Runtime};

    /// Waits until `runtime` counts `sleeping` sleepers, as many set bits, and nobody who searches.
    #[track_caller]
    fn assert_rests(runtime: &Runtime, sleeping: usize) {
        let begin = Instant::now();
        while runtime.handle().shared().idle.counts() != (0, sleeping) {
            let counts = runtime.handle().shared().idle.counts();
            assert!(begin.elapsed() < Duration::from_secs(20), "searching and sleeping: {counts:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        // And it stays so: what is asleep is not counted twice.
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(runtime.handle().shared().idle.counts(), (0, sleeping));
    }

    #[test]
    fn the_counts_of_searching_and_sleeping_workers_are_exact_at_rest() {
        let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
        for round in 0..200_u64 {
            let tasks: Vec<_> = (0..round % 17)
                .map(|i| {
                    runtime.spawn(async move {
                        if i % 5 == 0 {
                            crate::time::sleep(Duration::from_micros(10 * i)).await;
                        }
                        crate::task::yield_now().await;
                    })
                })
                .collect();
            for task in tasks {
                runtime.block_on(task).unwrap();
            }
            if round % 10 == 0 {
                assert_rests(&runtime, 4);
            }
        }
        assert_rests(&runtime, 4);
    }

    #[test]
    fn the_counts_are_exact_after_workers_were_blocked() {
        let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
        for _ in 0..20 {
            let tasks: Vec<_> = (0..6)
                .map(|_| {
                    runtime.spawn(async {
                        crate::task::block_in_place(|| std::thread::sleep(Duration::from_micros(100)));
                    })
                })
                .collect();
            for task in tasks {
                runtime.block_on(task).unwrap();
            }
        }
        assert_rests(&runtime, 2);
        // Relief threads sleep in an instance of their own, until they find that they are not needed.
        let shared = runtime.handle().shared();
        let begin = Instant::now();
        while shared.relief_idle.counts() != (0, shared.relief.counts().active) {
            let (counts, active) = (shared.relief_idle.counts(), shared.relief.counts().active);
            assert!(
                begin.elapsed() < Duration::from_secs(20),
                "searching and sleeping: {counts:?} of {active}"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_current_thread_runtime_counts_nobody_outside_of_block_on() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        for _ in 0..10 {
            runtime.block_on(async {
                crate::spawn(async { crate::time::sleep(Duration::from_millis(1)).await }).await.unwrap();
            });
            assert_eq!(runtime.handle().shared().idle.counts(), (0, 0));
        }
    }
}
