//! Who runs what on which thread, and who sleeps.
//!
//! Read in this order: `processor.rs` (what a worker owns), `worker.rs` (the loop), `idle.rs` (who is woken), `park.rs` (how
//! a thread sleeps), `shared.rs` (what all see, and how long it lives), `shutdown.rs`.
//!
//! **A task's way.** Spawned or woken by a task: into the LIFO slot of the worker at hand, the task that was there into the
//! ring, from where others steal; too many: half of the ring into the injector. Woken by another thread: into the injector.
//! It is polled by the worker that takes it out. A task that waits is in no queue.
//!
//! **A worker's life.** Local work, the injector, search, sleep; see `worker.rs`. A processor belongs to one thread for
//! good; what it holds can be stolen, also while its thread is blocked. Relief threads (`relief.rs`) are workers that come
//! when others block and go when those return.

pub mod current_thread;
pub mod idle;
pub mod magazine;
pub mod metrics;
pub mod park;
pub mod processor;
pub mod relief;
pub mod shared;
pub mod shutdown;
pub mod worker;

pub use shared::Shared;
pub use worker::Worker;

use std::io;
use std::ptr::NonNull;

use crate::context::{self, Entry};
use crate::loom::thread;
use crate::util::unwind;

/// Starts the thread of worker `index`, a seat or a relief thread.
///
/// # Errors
/// What the system says if it refuses a thread.
///
/// # Safety
/// 1. The caller counts as a worker until this returns, so that `shared` is valid. 2. Processor `index` has no owner.
pub unsafe fn start_worker(shared: NonNull<Shared>, index: usize) -> io::Result<thread::JoinHandle<()>> {
    struct Pointer(NonNull<Shared>);
    // SAFETY: the shared state is `Sync`, and valid until the new worker has left.
    unsafe impl Send for Pointer {}
    let pointer = Pointer(shared);
    // SAFETY: (1).
    let state = unsafe { shared.as_ref() };
    state.shutdown.worker_starts();
    let exit = state.shutdown.exit();
    let result = state.config.start_thread(move || {
        let pointer = pointer;
        let exit = exit;
        // SAFETY: `worker_starts` keeps the state until `run_worker` has left; (2) is the caller's.
        unsafe { run_worker(pointer.0, index) };
        exit.leave();
    });
    if result.is_err() {
        state.shutdown.worker_not_started();
    }
    result
}

/// The whole life of a worker thread.
///
/// # Safety
/// 1. This worker was counted by `worker_starts`. 2. Processor `index` has no other owner.
unsafe fn run_worker(shared: NonNull<Shared>, index: usize) {
    // SAFETY: by (1) the state is valid until `leave`; (2).
    let worker = unsafe { Worker::new(shared, index) };
    worker.processor().parker.adopt_current_thread();
    let entry = Entry::new(shared);
    // SAFETY: the entry stays in this frame until `leave`, and the state valid.
    unsafe { entry.enter() };
    // The hooks run outside of the worker's context: what they spawn goes to the injector, whose drains they cannot miss.
    let hooks = &worker.shared().config.hooks;
    hooks.on_thread_start();
    // A panic here is our own bug: what is foreign has its own `catch`. The queues would be left in disorder.
    if let Err(payload) = unwind::catch(|| context::enter_worker(&worker, || worker.run())) {
        std::mem::forget(payload);
        unwind::abort("a worker panicked outside of a task");
    }
    hooks.on_thread_stop();
    entry.leave();
    // SAFETY: (1), and this is the last use.
    unsafe { Shared::leave(shared, worker.take_references()) };
}
