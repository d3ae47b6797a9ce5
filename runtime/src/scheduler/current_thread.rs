//! A runtime without threads of its own: the thread that is in `block_on` runs the tasks and the driver.
//!
//! A `current_thread` runtime has one processor and no thread of its own. The caller of `block_on` takes the
//! *core*, which is the right to be the runtime's worker. It drives tasks, timers and descriptors while it
//! waits for its future. Further callers wait beside it for their own futures. When it gives the core back,
//! one of them takes the core over. A `block_on` inside of a `block_on` (not inside of a task) uses the core
//! that its thread has already. If the core has an owner (`LocalRuntime`), all other threads wait beside it.
//!
//! **No future is forgotten.** A wake of the future of a `block_on` sets `is_woken` (`MainWoken`), then
//! unparks the future's thread: as the worker if `is_driving` (`MainUnpark`), else as a thread. A thread that
//! drives sets `is_driving` (`MainDrives`), then clears `is_woken` (`MainClears`) before it sleeps.
//! `MainWoken` and `MainClears` are read-modify-writes of one word. Either `MainClears` finds the value that
//! `MainWoken` set, or `MainWoken` acquires `MainClears`'s release, and `MainUnpark` sees `MainDrives`.
//!
//! **A `block_on` inside of a foreign waker keeps no other waker of its turn** (`driver/foreign.rs`). The
//! nested call may wait for one of them, and no other thread calls them. So the nested call calls them, one
//! after each poll of its future. When its future is ready, it leaves the rest to the frame below.
//!
//! **Destructors at the end run on one stack.** While the runtime ends, a `block_on` in the destructor of a
//! task (in `block_in_place`) cancels the other tasks, and runs their destructors on top of its own frame. So
//! a destructor may wait for the end of another task, but not for one whose destructor waits, too: that one
//! may be further down on the stack.
//!
//! That stack is the one of the thread that ends the runtime. If another thread drives the runtime at that
//! time, the ending thread says that it waits for the core (`EndWaits`) before it begins the shutdown, and
//! the driving thread hands it over when it would put it down (`EndGiven`). So a destructor may wait for what
//! the frames below a `block_on` still have to do. The ending thread does not wait if it must not
//! (`shutdown_background`, or a drop inside of a runtime), or if the driving thread is in the poll of its own
//! future, which may wait for the ending thread. Then the destructors run on the stack of the driving thread.
//! `OwnPoll`, a fence and the look whether the shutdown has begun come one after the other, and so do
//! `BeginShutdown`, its fence (`CloseFence`) and the look for `OwnPoll`. So either the ending thread sees
//! `OwnPoll`, or the driving thread sees the shutdown and does not poll its future before it has put the core
//! down.
//!
//! **The core is not left unused.** One lock guards both steps of giving it back: putting the core down, and
//! unparking a waiter. A caller of `block_on` looks for the core under that lock when it becomes a waiter,
//! after the poll of its future. So a waiter that is unparked comes at once: it is in no poll, which may
//! block for another waiter.
//!
//! A token of `thread::park` is only a hint. A future may park its thread in its poll (std's channels do),
//! and use up a token that was meant for the caller of `block_on`. So after a poll, a caller that is about to
//! park looks once more whether it was woken or called for the core.

use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use super::belonging::outside_of_computations;
use super::enter;
use super::reference::Reference;
use super::shared::Shared;
use super::worker::Worker;
use crate::coop;
use crate::loom::sync::atomic::AtomicBool;
use crate::loom::sync::atomic::Ordering::SeqCst;
use crate::loom::thread::{self, Thread};
use crate::scheduler::context;
use crate::util::erased_future::ErasedFuture;

/// Runs `future` to its end on the calling thread, and the runtime's tasks meanwhile.
///
/// # Panics
/// If the future panics. Also if the runtime was ended by the panic of a task (`Core::check_panicked`).
pub fn block_on(handle: &Reference, future: ErasedFuture<'_>) {
    let root = Arc::new(Root {
        is_woken: AtomicBool::new(true),
        is_driving: AtomicBool::new(false),
        thread: thread::current(),
        handle: handle.clone(),
    });
    let mut root = RootFuture { waker: Waker::from(root.clone()), root, future };
    let shared = handle.shared();
    let _seeded = shared.config.rng_seed.as_ref().map(|seed| shared.core.seed_thread(seed));
    // The record that `coop.rs` has of an outer poll is put back afterwards.
    coop::suspended(|| root.run(handle.shared_ptr()));
}

/// A task of a runtime that was built to end by a panic has panicked: ends the runtime, and the calls of
/// `block_on`, by a panic. Called by the thread that has the core.
#[cold]
pub fn end_by_panic(shared: &Shared) {
    shared.core.tell_of_panic();
    shared.begin_shutdown();
}

/// Ends the runtime: at once if no thread drives it, else when the driving thread notices. `limit`: how long
/// the caller waits for that thread.
pub fn shutdown(handle: &Reference, limit: Option<Duration>) {
    let shared = handle.shared();
    if context::with_worker_of(handle.shared_ptr(), |own| own.is_some()) {
        // The calling thread drives. It ends the runtime when it returns from its `block_on`.
        return shared.begin_shutdown();
    }
    shared.core.expect_end();
    let closures = shared.begin_shutdown_keeping_closures();
    let end = || {
        if shared.core.take_to_end(limit) {
            // SAFETY: (1) we have just taken the core. (2) `handle` is borrowed, and keeps the state.
            drop(unsafe { Taken::new(handle.shared_ptr()) });
        }
    };
    shared.drop_closures_beside(closures, end);
}

/// The core, taken by this thread; put down when dropped.
struct Taken {
    worker: Worker,
}

impl Taken {
    /// # Safety
    /// 1. The caller took the core. 2. The caller's handle keeps the state valid for as long as the result
    ///    lives.
    unsafe fn new(shared: NonNull<Shared>) -> Self {
        // SAFETY: (1) is our (2). (2) By our (1) no other thread is the owner of the processor.
        let worker = unsafe { Worker::new(shared, 0) };
        worker.processor().parker.adopt_current_thread();
        Self { worker }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.worker.end_busy();
        let shared = self.worker.shared();
        // SAFETY: (1) the caller of `block_on` has a reference. (2) The number is the worker's own count.
        unsafe { shared.add_references(self.worker.take_references()) };
        let mut state = shared.core.state.lock();
        // Under the lock: the thread that begins the shutdown looks there afterwards whether the core is
        // taken.
        if shared.lifecycle.has_begun() && !state.is_finished {
            if shared.core.give_to_end(&mut state) {
                return;
            }
            drop(state);
            let drain =
                || outside_of_computations(|| enter::enter_worker(&self.worker, || self.worker.drain()));
            // SAFETY: (1) the caller's handle keeps the state.
            unsafe { context::enter_runtime(self.worker.shared_ptr(), drain) };
            // SAFETY: (1) `running` counts the builder for this worker. This happens once: the core is put
            // down only after `is_finished` is set, and then no thread takes it; and it is handed over only
            // before this. The caller's handle keeps the state valid afterwards. (2) `enter_worker` has
            // ended.
            unsafe { Shared::leave(self.worker.shared_ptr(), self.worker.take_references()) };
            state = shared.core.state.lock();
            shared.core.finish(&mut state);
        }
        state.is_taken = false;
        // No thread takes the core of a finished runtime. But another waiter may still wait until a called
        // waiter passes the call on.
        state.unpark_a_waiter();
    }
}

/// The part of a `block_on` call that its waker reaches.
struct Root {
    is_woken: AtomicBool,
    /// Whether the root's thread has the core.
    is_driving: AtomicBool,
    thread: Thread,
    /// The handle keeps the worker's parker.
    handle: Reference,
}

impl Wake for Root {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // `MainWoken`. A wake that was not seen yet stands for this wake, too.
        if self.is_woken.swap(true, SeqCst) {
            return;
        }
        // `MainUnpark`.
        if self.is_driving.load(SeqCst) {
            let shared = self.handle.shared();
            shared.processor(0).parker.unpark(&shared.driver);
        } else {
            self.thread.unpark();
        }
    }
}

/// A `block_on` future and its waker.
struct RootFuture<'a> {
    root: Arc<Root>,
    waker: Waker,
    future: ErasedFuture<'a>,
}

impl RootFuture<'_> {
    fn run(&mut self, shared: NonNull<Shared>) {
        context::with_worker_of(shared, |worker| match worker {
            // This thread has the core already.
            Some(worker) => {
                let is_ready = self.drive(worker, true);
                assert!(is_ready, "a nested call drives to its future's end");
            }
            None => self.wait(shared),
        });
    }

    /// `MainClears`, and a poll if the future was woken. Returns whether the future is ready.
    fn poll(&mut self) -> bool {
        self.root.is_woken.swap(false, SeqCst)
            && coop::with_budget(|| self.future.poll(&mut Context::from_waker(&self.waker))).is_ready()
    }

    /// As [`poll`](Self::poll), for a thread that has the core and is in no other poll. Returns `None` if the
    /// shutdown has begun: the core has to be put down first.
    fn poll_own(&mut self, shared: &Shared) -> Option<bool> {
        // `OwnPoll`.
        let _polling = shared.core.begin_own_poll();
        (!shared.lifecycle.has_begun()).then(|| self.poll())
    }

    /// As [`poll`](Self::poll), for a call inside of another one, or of a task.
    ///
    /// # Panics
    /// If the runtime was ended by the panic of a task.
    fn poll_nested(&mut self, shared: &Shared) -> bool {
        let check_panicked = |must_end| {
            if shared.lifecycle.has_begun() {
                shared.core.check_panicked(must_end);
            }
        };
        check_panicked(false);
        let is_ready = self.poll();
        if !is_ready {
            check_panicked(true);
        }
        is_ready
    }

    /// Waits for the future, and drives the runtime whenever no other thread does.
    fn wait(&mut self, shared: NonNull<Shared>) {
        // SAFETY: the root holds a handle.
        let core = &unsafe { shared.as_ref() }.core;
        loop {
            if core.try_take() {
                // SAFETY: (1) we have just taken the core. (2) The root holds a handle.
                let taken = unsafe { Taken::new(shared) };
                if enter::enter_worker(&taken.worker, || self.drive(&taken.worker, false)) {
                    return;
                }
                continue;
            }
            core.check_panicked(false);
            if self.poll() {
                return;
            }
            let Some(waiting) = core.wait() else { continue };
            core.check_panicked(true);
            // The poll may have called code that parked this thread. That code may have taken the token of a
            // wake, or of a call to the core.
            if !self.root.is_woken.load(SeqCst) && waiting.is_uncalled() {
                thread::park();
            }
        }
    }

    /// Drives the runtime until the future is ready, or until the runtime is shut down. Returns whether the
    /// future is ready.
    ///
    /// A nested call goes on after the shutdown, because the runtime cannot finish before the outer calls
    /// return. So that the outer calls return, all tasks are cancelled, now or when they are next run.
    fn drive(&mut self, worker: &Worker, is_nested: bool) -> bool {
        /// Puts the mark back, also if the future panics.
        struct Driving(Arc<Root>);
        impl Drop for Driving {
            fn drop(&mut self) {
                self.0.is_driving.store(false, SeqCst);
            }
        }
        // `MainDrives`.
        self.root.is_driving.store(true, SeqCst);
        let _driving = Driving(self.root.clone());
        let mut is_over = false;
        loop {
            if is_nested {
                if self.poll_nested(worker.shared()) {
                    return true;
                }
                if !is_over && worker.shared().lifecycle.has_begun() {
                    is_over = true;
                    worker.queue_idle();
                }
            } else {
                match self.poll_own(worker.shared()) {
                    None => return false,
                    Some(true) => return true,
                    Some(false) => {}
                }
            }
            // The tasks do not see the context that the frames below have set up.
            let run_tasks = || outside_of_computations(|| self.run_tasks(worker, is_over));
            // SAFETY: (1) the root holds a handle.
            unsafe { context::in_surroundings(Some(worker.shared_ptr()), run_tasks) };
        }
    }

    /// Runs a number of tasks, or sleeps if there are none. Inside of a foreign waker, it calls another waker
    /// of that turn instead, as long as there are some. `is_over`: the tasks were cancelled after the
    /// shutdown began.
    fn run_tasks(&self, worker: &Worker, is_over: bool) {
        if worker.calls_next_waker() {
            return;
        }
        if self.root.is_woken.load(SeqCst) {
            // Mostly the future has yielded.
            worker.has_yielded.set(true);
        }
        for _ in 0..worker.shared().config.event_interval {
            if !is_over && worker.shared().lifecycle.has_begun() {
                return;
            }
            worker.maintain_at_times();
            match worker.next_task() {
                Some(task) if is_over => worker.cancel_task(task),
                Some(task) => worker.run_task(task),
                None if self.root.is_woken.load(SeqCst) => return,
                None => return self.sleep(worker, is_over),
            }
        }
    }

    /// CountSleeper to SleepPark of `idle.rs`, for the only worker.
    fn sleep(&self, worker: &Worker, is_over: bool) {
        let shared = worker.shared();
        if !worker.run_park_hook() {
            return;
        }
        shared.idle.announce_sleep(worker.index(), false);
        let is_needed = || {
            shared.has_visible_tasks()
                || self.root.is_woken.load(SeqCst)
                || !is_over && shared.lifecycle.has_begun()
        };
        let is_awake = is_needed();
        if !is_awake {
            if shared.driver.time().is_some_and(|time| time.is_paused()) {
                worker.sleep_with_paused_clock(is_needed);
            } else {
                worker.sleep();
            }
        }
        if !shared.idle.end_sleep(worker.index()) {
            // The worker was notified, so it counts as a searcher. There is no other worker to steal from.
            shared.idle.stop_searching();
        }
        if is_awake && shared.config.hooks.has_park() {
            // A hook may wake the future each time. If each `block_on` is short, this thread would then never
            // come to the driver.
            worker.maintain();
        }
        worker.call_foreign();
        worker.run_unpark_hook();
    }
}
