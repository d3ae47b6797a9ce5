//! A scheduler that is a queue behind a lock, and a future that records what happens to it.

use std::alloc::{Layout, alloc, dealloc};
use std::cell::Cell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize as Count;
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::Mutex;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicBool, AtomicUsize};
use runtime::internals::task::{self, Header, Owned, Runnable, Schedule};
use runtime::task::JoinHandle;

use crate::models::plain::Plain;

loom::thread_local! {
    /// The seat (the number of a worker) whose table the calling thread may use: its own, unless it has lent
    /// the table.
    static SEAT: Cell<Option<usize>> = Cell::new(None);
}

/// The scheduler's answers.
#[derive(Clone, Copy, Default)]
pub struct Schedules {
    /// Whether every thread counts as a thread that keeps the scheduler alive by itself.
    pub all_threads_own: bool,
}

/// The tables of tasks that wait: the real ones, and twins.
#[allow(clippy::missing_safety_doc, reason = "the duties are those of the real methods")]
pub trait Tables: Send + Sync {
    unsafe fn enter(&self, task: NonNull<Header>, seat: Option<usize>) -> bool;
    /// For a task that may not have been entered.
    unsafe fn leave(&self, task: NonNull<Header>, seat: Option<usize>);
    unsafe fn lend(&self, seat: usize);
    fn take_back(&self, seat: usize);
    fn close(&self);
    unsafe fn cancel_idle(&self, own: Option<usize>) -> usize;
}

impl Tables for Owned {
    unsafe fn enter(&self, task: NonNull<Header>, seat: Option<usize>) -> bool {
        // SAFETY: the caller guarantees the same.
        unsafe { self.enter(task, seat) }
    }

    unsafe fn leave(&self, task: NonNull<Header>, seat: Option<usize>) {
        // SAFETY: the caller guarantees the same.
        unsafe {
            if task.as_ref().is_owned() {
                self.leave(task, seat);
            }
        }
    }

    unsafe fn lend(&self, seat: usize) {
        // SAFETY: the caller guarantees the same.
        unsafe { self.lend(seat) }
    }

    fn take_back(&self, seat: usize) {
        self.take_back(seat);
    }

    fn close(&self) {
        self.close();
    }

    unsafe fn cancel_idle(&self, own: Option<usize>) -> usize {
        // SAFETY: the caller guarantees the same.
        unsafe { self.cancel_idle(own) }
    }
}

/// The scheduler. Its references are counted by hand, as in the real one: the model's until
/// [`leave`](Board::leave), and each cell's.
pub struct Board {
    queue: Mutex<VecDeque<Runnable>>,
    owned: Option<Box<dyn Tables>>,
    /// Each thread inside reads it, and the last thread to leave writes it, so a race is a use after free.
    is_alive: Plain<bool>,
    references: AtomicUsize,
    schedules: Schedules,
    counts: Arc<Counts>,
}

// SAFETY: the one cell is what the models watch.
unsafe impl Send for Board {}
// SAFETY: as above.
unsafe impl Sync for Board {}

/// The numbers of cells that were made and freed, and of schedulers that ended.
#[derive(Default)]
pub struct Counts {
    made: Count,
    freed: Count,
    ended: Count,
}

impl Counts {
    pub fn assert_ended(&self) {
        assert_eq!(self.freed.load(Relaxed), self.made.load(Relaxed));
        assert_eq!(self.ended.load(Relaxed), 1, "the scheduler has not ended");
    }
}

impl Board {
    pub fn new() -> Arc<Self> {
        Self::with(Schedules::default())
    }

    pub fn with(schedules: Schedules) -> Arc<Self> {
        Self::of(schedules, None)
    }

    /// Makes a scheduler with the real tables, for `seats` workers.
    pub fn with_seats(seats: usize) -> Arc<Self> {
        Self::with_tables(Box::new(Owned::new(seats)))
    }

    pub fn with_tables(owned: Box<dyn Tables>) -> Arc<Self> {
        Self::of(Schedules::default(), Some(owned))
    }

    fn of(schedules: Schedules, owned: Option<Box<dyn Tables>>) -> Arc<Self> {
        Arc::new(Self {
            queue: Mutex::new(VecDeque::new()),
            owned,
            is_alive: Plain::new("the scheduler", true),
            references: AtomicUsize::new(1),
            schedules,
            counts: Arc::default(),
        })
    }

    pub fn owned(&self) -> &dyn Tables {
        self.owned.as_deref().expect("made with tables")
    }

    /// Makes the calling thread the worker of `seat`, once in a model.
    pub fn sit(&self, seat: usize) {
        SEAT.with(|cell| cell.set(Some(seat)));
    }

    /// The seat whose table the calling thread may use.
    pub fn seat() -> Option<usize> {
        SEAT.with(Cell::get)
    }

    /// Lends the table of the calling thread, which sleeps, blocks or leaves. Returns its seat.
    pub fn lend(&self) -> usize {
        let seat = SEAT.with(Cell::take).expect("sits, and has not lent");
        // SAFETY: this thread is the seat's worker, and has not lent its table.
        unsafe { self.owned().lend(seat) };
        seat
    }

    pub fn take_back(&self, seat: usize) {
        self.owned().take_back(seat);
        self.sit(seat);
    }

    /// Cancels the tasks that wait, in the tables that this thread may use. Returns how many tasks are left
    /// there.
    pub fn cancel_idle(&self) -> usize {
        // SAFETY: this thread is the worker of its seat.
        unsafe { self.owned().cancel_idle(Self::seat()) }
    }

    /// Starts a task and polls it once, so that it waits; `life` has its waker.
    pub fn start(self: &Arc<Self>) -> (JoinHandle<Output>, Arc<Life>) {
        let (task, join, life) = self.make();
        task.run();
        (join, life)
    }

    /// Makes a task that has not been polled, with its handle.
    pub fn newborn_with_handle(self: &Arc<Self>) -> (Runnable, JoinHandle<Output>, Arc<Life>) {
        self.make()
    }

    /// Makes a task that has not been polled, without a handle.
    pub fn newborn(self: &Arc<Self>) -> (Runnable, Arc<Life>) {
        let (task, _, life) = self.make();
        (task, life)
    }

    fn make(self: &Arc<Self>) -> (Runnable, JoinHandle<Output>, Arc<Life>) {
        let (probe, life) = Probe::new();
        self.references.fetch_add(1, Relaxed);
        // SAFETY: the model keeps the board until all threads are joined. `is_alive` tells whether it *could*
        // have ended before.
        let (task, join) = unsafe { task::new(probe, NonNull::from(&**self)) };
        (task, join, life)
    }

    /// Runs queued tasks until the queue is empty.
    pub fn run_queued(&self) {
        loop {
            let task = self.queue.lock().unwrap().pop_front();
            match task {
                Some(task) => task.run(),
                None => return,
            }
        }
    }

    pub fn assert_freed(&self) {
        assert_eq!(
            self.counts.freed.load(Relaxed),
            self.counts.made.load(Relaxed),
            "cells leak, or are freed twice"
        );
    }

    /// Gives up the model's own reference.
    pub fn leave(&self) -> Arc<Counts> {
        let counts = self.counts.clone();
        self.release();
        counts
    }

    fn release(&self) {
        if self.references.fetch_sub(1, AcqRel) == 1 {
            // SAFETY: the cell checks that no other thread accesses it.
            self.is_alive.with_mut(|is_alive| unsafe { *is_alive = false });
            self.counts.ended.fetch_add(1, Relaxed);
        }
    }

    fn assert_alive(&self) {
        // SAFETY: the cell checks that no other thread writes.
        assert!(self.is_alive.with(|is_alive| unsafe { *is_alive }), "used after its end");
    }
}

// SAFETY: (1) the models run queued tasks; (2) they keep the board.
unsafe impl Schedule for Board {
    unsafe fn schedule(this: NonNull<Self>, task: Runnable) {
        // SAFETY: the caller guarantees that it is valid.
        let this = unsafe { this.as_ref() };
        this.assert_alive();
        this.queue.lock().unwrap().push_back(task);
        // This stands for choosing and unparking a worker.
        this.assert_alive();
    }

    unsafe fn reschedule(this: NonNull<Self>, task: Runnable) {
        // SAFETY: the caller guarantees the same.
        unsafe { Self::schedule(this, task) }
    }

    fn is_own_thread(this: NonNull<Self>) -> bool {
        // SAFETY: the caller's cell keeps the scheduler.
        unsafe { this.as_ref() }.schedules.all_threads_own
    }

    unsafe fn adopt(this: NonNull<Self>, task: NonNull<Header>) -> bool {
        // SAFETY: `this` is valid by (1). `enter`: (1) this thread is the worker of its seat. (2) is our (2).
        // (3) is our (4) for the real tables. Twins know their tasks themselves.
        unsafe { this.as_ref().owned.as_ref().is_none_or(|owned| owned.enter(task, Self::seat())) }
    }

    unsafe fn release(this: NonNull<Self>, task: NonNull<Header>) {
        // SAFETY: `this` is valid by (1), and the task is live by (2). `leave`: (1) this thread is the worker
        // of its seat. (2) is our (2). (3) The tables ask whether the task was entered, and by our (4) it has
        // not left.
        unsafe {
            if let Some(owned) = &this.as_ref().owned {
                owned.leave(task, Self::seat());
            }
        }
    }

    unsafe fn allocate(this: NonNull<Self>, layout: Layout) -> NonNull<u8> {
        // SAFETY: the caller guarantees that it is valid. A cell is no empty type.
        unsafe {
            this.as_ref().counts.made.fetch_add(1, Relaxed);
            NonNull::new(alloc(layout)).expect("models are small")
        }
    }

    unsafe fn free(this: NonNull<Self>, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: the memory comes from `allocate`; the cell's reference is dropped here.
        unsafe {
            dealloc(memory.as_ptr(), layout);
            this.as_ref().counts.freed.fetch_add(1, Relaxed);
            this.as_ref().release();
        }
    }
}

/// The record that a task's future leaves behind.
pub struct Life {
    /// The waking thread writes it. Relaxed, so that only the wake makes it visible.
    is_ready: AtomicBool,
    has_ended: AtomicBool,
    /// Whether a probe that is not ready wakes itself in its second poll.
    wakes_itself: StdMutex<bool>,
    waker: StdMutex<Option<Waker>>,
    has_finished: Count,
    futures_dropped: Count,
    outputs_made: Count,
    outputs_dropped: Count,
}

impl Life {
    fn new() -> Self {
        Self {
            wakes_itself: StdMutex::new(false),
            is_ready: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            waker: StdMutex::new(None),
            has_finished: Count::new(0),
            futures_dropped: Count::new(0),
            outputs_made: Count::new(0),
            outputs_dropped: Count::new(0),
        }
    }

    /// Has the probe wake itself in its second poll, if it is not ready then.
    pub fn wake_itself(&self) {
        *self.wakes_itself.lock().unwrap() = true;
    }

    /// A clone of the waker of the first poll.
    pub fn waker(&self) -> Waker {
        self.waker.lock().unwrap().clone().expect("the task has been polled")
    }

    pub fn drop_waker(&self) {
        let waker = self.waker.lock().unwrap().take();
        drop(waker);
    }

    pub fn make_ready_then(&self, wake: impl FnOnce()) {
        self.is_ready.store(true, Relaxed);
        wake();
    }

    /// Whether the future is gone, so that the task is about to be done.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Acquire)
    }

    pub fn assert_finished(&self) {
        assert_eq!(self.has_finished.load(Relaxed), 1, "a wake was lost");
        self.assert_ended();
    }

    pub fn assert_ended(&self) {
        let dropped = self.futures_dropped.load(Relaxed);
        assert!(dropped > 0, "the future was never dropped");
        assert_eq!(dropped, 1, "the future was dropped twice");
    }

    pub fn assert_outputs_dropped(&self) {
        assert_eq!(self.outputs_dropped.load(Relaxed), self.outputs_made.load(Relaxed));
    }
}

/// Ready once `is_ready` is seen.
pub struct Probe {
    life: Arc<Life>,
    /// Touched by the thread that polls or drops.
    polls: Plain<u32>,
}

// SAFETY: the one cell is what the models watch.
unsafe impl Send for Probe {}

impl Probe {
    pub fn new() -> (Self, Arc<Life>) {
        let life = Arc::new(Life::new());
        (Self { life: life.clone(), polls: Plain::new("the future", 0) }, life)
    }
}

impl Future for Probe {
    type Output = Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Output> {
        let life = &self.life;
        // The cell is held over the load, because another poller would come in there.
        let (polls, is_ready) = self.polls.with_mut(|polls| {
            // SAFETY: the cell checks that no other thread accesses it.
            unsafe { *polls += 1 };
            // SAFETY: as above.
            (unsafe { *polls }, life.is_ready.load(Relaxed))
        });
        if is_ready {
            life.has_finished.fetch_add(1, Relaxed);
            life.outputs_made.fetch_add(1, Relaxed);
            // This drop is in a poll, so the reference goes into the task's reserve, if no thread has dropped
            // the waker before.
            life.drop_waker();
            return Poll::Ready(Output { life: life.clone(), value: Plain::new("the output", 7) });
        }
        if polls == 1 {
            // Two wakers exist at once; one of the two references goes back into the reserve.
            let _spare = cx.waker().clone();
            *life.waker.lock().unwrap() = Some(cx.waker().clone());
        } else if polls == 2 && *life.wakes_itself.lock().unwrap() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // SAFETY: the cell checks that no other thread accesses it.
        self.polls.with_mut(|polls| unsafe { *polls += 1 });
        self.life.futures_dropped.fetch_add(1, Relaxed);
        self.life.has_ended.store(true, Release);
    }
}

/// The output of the task.
pub struct Output {
    life: Arc<Life>,
    /// The task writes it, and the handle reads it.
    value: Plain<u32>,
}

// SAFETY: the one cell is what the models watch.
unsafe impl Send for Output {}

impl Output {
    pub fn check(&self) {
        // SAFETY: the cell checks that no other thread writes.
        assert_eq!(self.value.with(|value| unsafe { *value }), 7);
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // SAFETY: the cell checks that no other thread accesses it.
        self.value.with_mut(|value| unsafe { *value = 0 });
        self.life.outputs_dropped.fetch_add(1, Relaxed);
    }
}

/// A waker that records its wakes.
#[derive(Default)]
pub struct Alarm(Count);

impl Alarm {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub fn has_rung(&self) -> bool {
        self.0.load(Relaxed) > 0
    }

    /// No waker is left.
    pub fn is_forgotten(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}
