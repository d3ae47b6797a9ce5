//! The threads of a runtime, from their start to their end.

use std::io;
use std::ptr::{NonNull, null};
use std::sync::Arc;

use super::exit::Exit;
use super::monitor;
use super::reference::Reference;
use super::shared::Shared;
use super::worker::Worker;
use crate::config::hooks::Hooks;
use crate::job::{Region, Tag};
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::loom::thread;
use crate::scheduler::context::{self, Entry};
use crate::scheduler::enter;
use crate::util::thread_probe::ThreadProbe;
use crate::util::{rand, unwind};

/// A worker that is counted and has yet to run, on the thread that calls [`run`](Self::run). If it is dropped
/// instead, it leaves like a worker that has run.
#[derive(Debug)]
pub struct WorkerStart {
    /// Valid: this worker has not left.
    shared: NonNull<Shared>,
    index: usize,
    /// The `Exit` outlives the shared state.
    exit: Arc<Exit>,
    has_run: bool,
}

// SAFETY: the shared state is `Sync`, and valid until the worker has left.
unsafe impl Send for WorkerStart {}

impl WorkerStart {
    /// Counts a worker with the processor `index`.
    ///
    /// # Safety
    /// 1. The caller counts as a worker until this returns, so that `shared` is valid. 2. Processor `index`
    ///    has no other owner until this worker has left its loop.
    pub unsafe fn new(shared: NonNull<Shared>, index: usize) -> Self {
        // SAFETY: (1).
        let state = unsafe { shared.as_ref() };
        state.lifecycle.thread_starts();
        Self { shared, index, exit: state.lifecycle.exit(), has_run: false }
    }

    pub fn index(&self) -> usize {
        self.index
    }

    /// The pool that waits for this worker.
    pub fn shared(&self) -> &Shared {
        // SAFETY: see the field.
        unsafe { self.shared.as_ref() }
    }

    /// The monitor's whole life, on the calling thread. Its index means nothing.
    pub fn watch(mut self) {
        self.has_run = true;
        // SAFETY: (1) `new` has counted the monitor as a worker, and `leave` comes below.
        let watch = || unsafe { monitor::watch(self.shared) };
        // The user's hooks and handlers find the runtime here as they do on a worker's thread. If one of them
        // drops a runtime, that runtime must not wait for this thread.
        // SAFETY: (1) counted by `new`, so the state is valid until `leave`.
        let life = || unsafe { context::enter_runtime(self.shared, || context::enter_block_on(watch)) };
        if let Err(payload) = unwind::catch(life) {
            std::mem::forget(payload);
            unwind::abort("the monitor panicked");
        }
        // SAFETY: (1) counted by `new`; the last use. (2) This thread is no worker.
        unsafe { Shared::leave(self.shared, 0) };
    }

    /// The worker's whole life, on the calling thread.
    pub fn run(mut self) {
        self.has_run = true;
        // SAFETY: (1) `new` has counted this worker, which is run once. (2) is duty 2 of `new`.
        unsafe { run_worker(self.shared, self.index) };
    }
}

impl Drop for WorkerStart {
    fn drop(&mut self) {
        if !self.has_run {
            // SAFETY: (1) counted by `new`; the last use. (2) If this thread is a worker of the same state,
            // that worker has not left, so this is not the last to leave.
            unsafe { Shared::leave(self.shared, 0) };
        }
        self.exit.leave();
    }
}

/// Starts the thread of worker `index`, permanent or spare.
///
/// # Errors
/// The system's error if it refuses a thread.
///
/// # Safety
/// 1. The caller counts as a worker until this returns, so that `shared` is valid. 2. Processor `index` has
///    no other owner until this worker has left its loop.
pub unsafe fn start_worker(shared: NonNull<Shared>, index: usize) -> io::Result<thread::JoinHandle<()>> {
    // SAFETY: (1), (2).
    let start = unsafe { WorkerStart::new(shared, index) };
    // SAFETY: (1). If the system refuses the thread, `start` is dropped there.
    unsafe { shared.as_ref() }.config.start_thread(move || start.run())
}

/// Starts the monitor's thread.
///
/// # Errors
/// The system's error if it refuses a thread.
///
/// # Safety
/// 1. The caller counts as a worker until this returns, so that `shared` is valid.
pub unsafe fn start_monitor(shared: NonNull<Shared>) -> io::Result<thread::JoinHandle<()>> {
    // SAFETY: (1) is ours. (2) The monitor has no processor.
    let start = unsafe { WorkerStart::new(shared, usize::MAX) };
    // SAFETY: (1). If the system refuses the thread, `start` is dropped there.
    unsafe { shared.as_ref() }.config.start_monitor(move || start.watch())
}

/// The whole life of a worker thread.
///
/// # Safety
/// 1. This worker was counted by `Lifecycle::thread_starts`. 2. Processor `index` has no other owner until
///    this worker has left its loop.
unsafe fn run_worker(shared: NonNull<Shared>, index: usize) {
    // Before the worker allocates anything, so that its memory lies close to the CPU.
    // SAFETY: by (1) the state is valid until `leave`, and then by the reference below.
    unsafe { shared.as_ref() }.config.pins.iter().for_each(|pins| pins.pin(index));
    // SAFETY: as above.
    let seed = unsafe { shared.as_ref() }.config.rng_seed.as_ref();
    let _seeded = seed.map(|seed| rand::seed_thread(seed.of(index as u64)));
    // SAFETY: (1) as above; from `leave` to its last use, the reference below keeps the state, and then the
    // worker is only dropped, which does not touch the state. (2) is our (2); after its loop the worker
    // touches no queue and no job processor.
    let worker = unsafe { Worker::new(shared, index) };
    worker.processor().parker.adopt_current_thread();
    worker.processor().yield_parker.adopt_current_thread();
    // Relaxed: the monitor reads this number by itself.
    worker.processor().thread.store(ThreadProbe::current().to_raw(), Relaxed);
    worker.processor().metrics.thread_begins();
    let state = worker.shared();
    match worker.is_permanent() {
        true => state.away.permanent_comes(),
        false => worker.begin_short_slices(),
    }
    // `AwakeShow` to `AwakeWakes`: the monitor counts a permanent worker from now on, and a spare worker
    // since it was called.
    state.monitor.worker_woke(&state.driver);
    // A pool of jobs is never the current runtime: it has no tasks, and no handle.
    let entry = (!state.config.is_pool).then(|| Entry::new(shared));
    // SAFETY: (1) the entry stays in this frame until it is left, and the state valid. (2) The entry is new.
    entry.iter().for_each(|entry| unsafe { entry.enter() });
    // The hooks run outside of the worker's context. So what they spawn goes to the injector, which is always
    // drained. A pool's handlers run inside of the worker's context, so that the jobs that they begin are on
    // the job processor. If a hook or a handler drops a runtime, that runtime must not wait for this thread.
    let hooks = &state.config.hooks;
    call_start_hook(hooks);
    if !worker.is_permanent() {
        state.spare_has_started(index);
    }
    let mut entered = Vec::new();
    let life = || {
        let pool_thread = worker.job_processor().filter(|_| state.config.is_pool);
        // SAFETY: (1) `entered` is kept until the worker has left.
        let adopt_current = || pool_thread.and_then(|pool_thread| unsafe { pool_thread.adopt_current() });
        entered.extend(adopt_current());
        state.call_handler(&state.config.start_handler, index);
        entered.extend(adopt_current());
        let run = || {
            let has_index = worker.run();
            state.call_handler(&state.config.exit_handler, index);
            has_index
        };
        // In a pool, what was adopted last is current in the jobs of no region and in the exit handler, also
        // if a job drops the guard that has entered it.
        let has_index = match pool_thread {
            Some(pool_thread) => pool_thread.in_surroundings(run),
            None => run(),
        };
        if has_index {
            worker.leave_regions();
        }
        has_index
    };
    // A panic here is a bug of this crate, because foreign code has its own `catch`. The queues would be in
    // disorder.
    let has_index = unwind::catch(|| enter::enter_worker(&worker, life)).unwrap_or_else(|payload| {
        std::mem::forget(payload);
        unwind::abort("a worker panicked outside of a task")
    });
    debug_assert!(
        worker.table().is_none(),
        "a worker leaves, and `FinishTasks` of `lifecycle.rs` cannot see its table"
    );
    // The last hooks may wait for a timer or a descriptor, whose wait `ShutDriver` ends. So the worker leaves
    // first, and is a thread like any other that has a reference.
    // SAFETY: (1) the worker has not left.
    let reference = unsafe { Reference::new(shared) };
    // SAFETY: (1) by our (1) this worker was counted, and what follows uses the reference. (2) `enter_worker`
    // has ended.
    unsafe { Shared::leave(shared, worker.take_references()) };
    context::enter_block_on(|| {
        drop((worker.take_kept_regions(), entered));
        if has_index {
            // For the last call of the park hook. No other worker may be there any more to help this thread,
            // so scopes of the hook go elsewhere.
            hooks.on_unpark();
        }
        hooks.on_thread_stop();
    });
    if has_index {
        worker.end_counters();
    }
    entry.iter().for_each(Entry::leave);
    drop(reference);
}

/// Calls the user's hook for the start of a worker. All workers may be inside of that hook, and a spare
/// worker that was called would come to it first. So the hook's parallel calls run in place.
fn call_start_hook(hooks: &Hooks) {
    // SAFETY: (1) null.
    let region = unsafe { Region::isolated(null(), Tag::SOLITARY) };
    let (outer, tag) = context::replace_region(&region, Tag::SOLITARY);
    // Catches panics, so the region is taken back.
    context::enter_block_on(|| hooks.on_thread_start());
    context::replace_region(outer, tag);
}

/// Makes the calling thread the owner of a pool's job processor 0 for good. The thread never runs the loop.
/// It runs the jobs that it begins itself. It runs other jobs only while it waits for its own, or yields.
/// Meanwhile other workers can steal from its queues.
///
/// # Safety
/// 1. `shared` is valid for ever: the caller counts as a worker and does not leave. 2. Processor 0 has no
///    owner. 3. The thread is no worker.
pub unsafe fn become_permanent_worker(shared: NonNull<Shared>) {
    // SAFETY: (1), (2).
    let worker = unsafe { Worker::new_for_good(shared, 0) };
    // Destructors of thread-locals may still look for the job processor's owner, so the worker lives as long
    // as the thread.
    let worker: &'static Worker = Box::leak(Box::new(worker));
    worker.processor().parker.adopt_current_thread();
    enter::become_worker(worker);
}
