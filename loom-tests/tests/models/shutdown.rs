//! The end of a runtime, `scheduler/lifecycle.rs`: every task ends exactly once, and none is left in a queue,
//! whichever threads poll, wake and spawn meanwhile; and the references of `reference.rs` come out right,
//! whichever threads took and dropped them.
//!
//! Tasks, their tables, the injector and the workers' rings are real; the two workers, their steps and the
//! references are copies, with at most one bug. A model fails if a future is not dropped, a cell leaks, a
//! task is left in a queue, or a reference is not given up.
//!
//! Bounds: two workers with a ring, two threads outside: one wakes a task, one spawns one. One task waits,
//! one is newborn in the second worker's ring.

use std::alloc::{Layout, alloc, dealloc};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize as Count;

use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use loom::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize};
use runtime::internals::queue::{Injector, Local};
use runtime::internals::task::{self, Header, Owned, Runnable, Schedule};

use super::once_built::{model, thread};
use super::task::board::{Life, Probe};

/// The bug that was put back.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// The injector takes newborn tasks after the last look at it.
    FinishesWithoutClosing,
    /// A task whose wake is in flight is left.
    WalksOnce,
    /// A worker leaves with its table.
    LeavesWithoutLending,
    /// A worker leaves tasks in its ring.
    LeavesItsRing,
    /// A newborn task from outside is counted after the lock under which it was queued.
    CountsLate,
    /// A newborn task from outside that is refused has no reference.
    RefusesUncounted,
}

/// See `reference.rs`.
const BIAS: i64 = 1 << 32;

loom::thread_local! {
    /// The number of the worker that the calling thread is: its *seat*.
    static WORKER: Cell<Option<usize>> = Cell::new(None);
    /// Whether the worker may use its table, because it has not lent it.
    static IS_SEATED: Cell<bool> = Cell::new(false);
    /// A worker's own count of references.
    static OWN_COUNT: Cell<i64> = Cell::new(0);
}

struct Runtime {
    injector: Injector<Header>,
    rings: [Local<Header>; 2],
    owned: Owned,
    has_begun: AtomicBool,
    running: AtomicUsize,
    /// BIAS, one for the model, and what is in no worker's own count and not among the newborns of the
    /// injector.
    references: AtomicI64,
    /// What [`Fault::CountsLate`] counts.
    late: AtomicUsize,
    /// The numbers of cells that were made and freed.
    made: Count,
    freed: Count,
    fault: Fault,
}

impl Runtime {
    fn new(fault: Fault) -> Arc<Self> {
        Arc::new(Self {
            injector: Injector::new(),
            rings: [Local::new(), Local::new()],
            owned: Owned::new(2),
            has_begun: AtomicBool::new(false),
            running: AtomicUsize::new(2),
            references: AtomicI64::new(BIAS + 1),
            late: AtomicUsize::new(0),
            made: Count::new(0),
            freed: Count::new(0),
            fault,
        })
    }

    /// Makes a task. A worker counts the task's reference here; any other thread counts it in `spawn`.
    fn task(&self) -> (Runnable, Arc<Life>) {
        if Self::is_worker() {
            OWN_COUNT.with(|count| count.set(count.get() + 1));
        }
        let (probe, life) = Probe::new();
        // SAFETY: the models keep the runtime until all threads are joined.
        let (task, join) = unsafe { task::new(probe, NonNull::from(self)) };
        drop(join);
        (task, life)
    }

    /// Makes the calling thread a worker.
    fn sit(&self, index: usize) {
        WORKER.with(|worker| worker.set(Some(index)));
        IS_SEATED.with(|is_seated| is_seated.set(true));
    }

    fn is_worker() -> bool {
        WORKER.with(Cell::get).is_some()
    }

    /// Gives up `count` references. The model keeps one to the end, so this never gives up the last.
    fn subtract(&self, count: i64) {
        let left = self.references.fetch_sub(count, AcqRel) - count;
        assert!(left > 0, "the state is freed too early: {left}");
    }

    fn seat() -> Option<usize> {
        WORKER.with(Cell::get).filter(|_| IS_SEATED.with(Cell::get))
    }

    /// Spawns a task. For any thread.
    fn spawn(&self) -> Arc<Life> {
        let (task, life) = self.task();
        let refused = match WORKER.with(Cell::get) {
            _ if self.has_begun.load(Acquire) => Err(task),
            Some(index) => {
                self.push(index, task);
                Ok(())
            }
            None => {
                let task = task.into_raw();
                // SAFETY: a newborn task is its spawner's, also if it is refused.
                unsafe {
                    let is_queued = match self.fault {
                        Fault::FinishesWithoutClosing => {
                            self.injector.push(task);
                            true
                        }
                        Fault::CountsLate => {
                            let is_queued = self.injector.push_unless_closed(task, false);
                            self.late.fetch_add(usize::from(is_queued), Relaxed);
                            is_queued
                        }
                        _ => self.injector.push_unless_closed(task, true),
                    };
                    if is_queued { Ok(()) } else { Err(Runnable::from_raw(task)) }
                }
            }
        };
        if let Err(task) = refused {
            if !Self::is_worker() && self.fault != Fault::RefusesUncounted {
                self.references.fetch_add(1, AcqRel);
            }
            task.cancel();
        }
        life
    }

    fn push(&self, index: usize, task: Runnable) {
        // SAFETY: the calling thread is the worker, and owns the task.
        unsafe { self.rings[index].push_back(task.into_raw(), &self.injector) };
    }

    fn pop(&self, index: usize) -> Option<Runnable> {
        // SAFETY: the calling thread is the worker; what is in the ring is `Runnable`s.
        unsafe { self.rings[index].pop().map(|task| Runnable::from_raw(task)) }
    }

    fn inject(&self, task: Runnable) {
        // SAFETY: the caller owns the task.
        unsafe { self.injector.push(task.into_raw()) };
    }

    fn take_injected(&self) -> Option<Runnable> {
        // SAFETY: what is in the injector is `Runnable`s.
        self.injector.pop().map(|task| unsafe { Runnable::from_raw(task) })
    }

    fn cancel_idle(&self) -> usize {
        // SAFETY: this thread is the worker of its seat.
        unsafe { self.owned.cancel_idle(Self::seat()) }
    }

    fn queue_idle(&self) {
        // SAFETY: this thread is the worker of its seat.
        let (idle, _) = unsafe { self.owned.claim_idle(Self::seat()) };
        self.injector.push_batch(idle);
    }

    /// `BeginShutdown`.
    fn begin(&self) {
        self.owned.close();
        self.has_begun.swap(true, SeqCst);
    }

    /// `WindDown`, after the poll that the worker is in; the last worker goes on with `FinishTasks`.
    fn leave(&self, index: usize) {
        let mut has_looked = false;
        loop {
            match self.pop(index) {
                Some(task) if self.fault == Fault::LeavesItsRing => {
                    self.push(index, task);
                    break;
                }
                Some(task) => task.cancel(),
                None if !has_looked => {
                    has_looked = true;
                    self.queue_idle();
                }
                None => match self.take_injected() {
                    Some(task) => task.cancel(),
                    None => break,
                },
            }
        }
        if self.fault != Fault::LeavesWithoutLending {
            // SAFETY: this thread is the worker of its seat, and has not lent it.
            unsafe { self.owned.lend(index) };
        }
        IS_SEATED.with(|is_seated| is_seated.set(false));
        WORKER.with(|worker| worker.set(None));
        self.references.fetch_add(OWN_COUNT.with(Cell::take), AcqRel);
        if self.running.fetch_sub(1, AcqRel) == 1 {
            self.finish();
            self.subtract(BIAS);
        }
    }

    /// `FinishTasks`.
    fn finish(&self) {
        let newborns = self.injector.close() + self.late.load(Relaxed) as u64;
        self.references.fetch_add(newborns as i64, AcqRel);
        loop {
            while let Some(task) = self.take_injected() {
                task.cancel();
            }
            if self.cancel_idle() == 0 && self.injector.is_empty() || self.fault == Fault::WalksOnce {
                break;
            }
            thread::yield_now();
        }
    }
}

// SAFETY: (1) is what the models are about; (2) they keep the runtime.
unsafe impl Schedule for Runtime {
    unsafe fn schedule(this: NonNull<Self>, task: Runnable) {
        // SAFETY: the caller guarantees that it is valid.
        let this = unsafe { this.as_ref() };
        match WORKER.with(Cell::get) {
            Some(index) => this.push(index, task),
            None => this.inject(task),
        }
    }

    unsafe fn reschedule(this: NonNull<Self>, task: Runnable) {
        // SAFETY: the caller guarantees the same.
        unsafe { Self::schedule(this, task) }
    }

    fn is_own_thread(_: NonNull<Self>) -> bool {
        WORKER.with(Cell::get).is_some()
    }

    unsafe fn adopt(this: NonNull<Self>, task: NonNull<Header>) -> bool {
        // SAFETY: `this` is valid by (1). `enter`: (1) this thread is the worker of its seat. (2) is our (2).
        // (3) is our (4).
        unsafe { this.as_ref().owned.enter(task, Self::seat()) }
    }

    unsafe fn release(this: NonNull<Self>, task: NonNull<Header>) {
        // SAFETY: `this` is valid by (1), and the task is live by (2). `leave`: (1) this thread is the worker
        // of its seat. (2) is our (2). (3) `is_owned`: the task was entered. By our (4) it has not left.
        unsafe {
            if task.as_ref().is_owned() {
                this.as_ref().owned.leave(task, Self::seat());
            }
        }
    }

    unsafe fn allocate(this: NonNull<Self>, layout: Layout) -> NonNull<u8> {
        // SAFETY: the caller guarantees that it is valid. A cell is no empty type.
        unsafe {
            this.as_ref().made.fetch_add(1, Relaxed);
            NonNull::new(alloc(layout)).expect("models are small")
        }
    }

    unsafe fn free(this: NonNull<Self>, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: the memory comes from `allocate`.
        unsafe {
            dealloc(memory.as_ptr(), layout);
            this.as_ref().freed.fetch_add(1, Relaxed);
        }
        match Self::is_worker() {
            true => OWN_COUNT.with(|count| count.set(count.get() - 1)),
            // SAFETY: the models keep the runtime.
            false => unsafe { this.as_ref() }.subtract(1),
        }
    }
}

/// What the threads outside do.
#[derive(Clone, Copy)]
enum Outside {
    Wakes,
    Spawns,
    SpawnsAndWakes,
}

/// The first worker's thread begins the shutdown. The second worker polls one more task if it does not see
/// yet that the shutdown has begun.
fn a_shutdown(fault: Fault, outside: Outside) {
    model(move || {
        let runtime = Runtime::new(fault);
        runtime.sit(0);
        // One task waits, in the first worker's table.
        let (task, waiting) = runtime.task();
        task.run();
        let waker = waiting.waker();
        waiting.drop_waker();
        let mut lives = vec![waiting.clone()];
        let second = thread::spawn({
            let runtime = runtime.clone();
            move || {
                runtime.sit(1);
                let life = runtime.spawn();
                let next = || runtime.pop(1).or_else(|| runtime.take_injected());
                let task = if runtime.has_begun.load(Acquire) { None } else { next() };
                task.into_iter().for_each(Runnable::run);
                runtime.leave(1);
                life
            }
        });
        let mut spawner = None;
        let mut waking = None;
        if matches!(outside, Outside::Spawns | Outside::SpawnsAndWakes) {
            let runtime = runtime.clone();
            spawner = Some(thread::spawn(move || runtime.spawn()));
        }
        if matches!(outside, Outside::Wakes | Outside::SpawnsAndWakes) {
            let waiting = waiting.clone();
            waking = Some(thread::spawn(move || waiting.make_ready_then(|| waker.wake())));
        } else {
            drop(waker);
        }
        runtime.begin();
        runtime.leave(0);
        lives.push(second.join().unwrap());
        lives.extend(spawner.map(|spawner| spawner.join().unwrap()));
        if let Some(waking) = waking {
            waking.join().unwrap();
        }
        for life in lives {
            life.drop_waker();
            life.assert_ended();
        }
        assert!(runtime.injector.is_empty() && runtime.rings.iter().all(Local::is_empty), "left in a queue");
        assert_eq!(runtime.freed.load(Relaxed), runtime.made.load(Relaxed), "a cell leaks");
        assert_eq!(runtime.references.load(Relaxed), 1, "the state leaks, or is freed twice");
    });
}

#[test]
fn a_shutdown_against_a_wake_from_outside() {
    a_shutdown(Fault::None, Outside::Wakes);
}

#[test]
fn a_shutdown_against_a_spawn_from_outside() {
    a_shutdown(Fault::None, Outside::Spawns);
}

#[test]
fn a_shutdown_against_a_spawn_and_a_wake_from_outside() {
    a_shutdown(Fault::None, Outside::SpawnsAndWakes);
}

/// A twin for each fault.
macro_rules! refused {
    ($($name:ident: $fault:expr, $outside:expr, $text:literal;)*) => {$(
        #[test]
        #[should_panic(expected = $text)]
        fn $name() {
            a_shutdown($fault, $outside);
        }
    )*};
}

refused! {
    a_finish_without_closing: Fault::FinishesWithoutClosing, Outside::Spawns, "the future was never dropped";
    a_newborn_that_is_counted_late: Fault::CountsLate, Outside::Spawns, "the state is freed too early";
    a_newborn_that_is_refused_uncounted: Fault::RefusesUncounted, Outside::Spawns,
        "the state is freed too early";
    a_finish_that_walks_once: Fault::WalksOnce, Outside::Wakes, "the future was never dropped";
    a_worker_that_leaves_without_lending: Fault::LeavesWithoutLending, Outside::Wakes,
        "the future was never dropped";
    a_worker_that_leaves_its_ring: Fault::LeavesItsRing, Outside::Wakes, "the future was never dropped";
}
