//! What a runtime tells of each of its tasks, if it was asked to: hooks, and how long polls take.
//!
//! A runtime without hooks and histogram pays nothing for this. A spawn tests one flag, which is set once the
//! shutdown has begun (`Lifecycle::spawns_slowly`); in a runtime that observes its tasks the flag is always
//! set. Then the spawner gives the task the vtable whose `run` calls [`Observer::around_poll`], and enters it
//! among the owned tasks at once: the end of an owned task calls [`Observer::on_terminate`].

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;
use std::time::Instant;

use crate::coop;
use crate::histogram::{Histogram, HistogramConfiguration};
use crate::task::Id;
use crate::util::unwind;

/// What a task hook is told about the task.
///
/// # Examples
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use std::sync::Arc;
///
/// let polls = Arc::new(AtomicUsize::new(0));
/// let seen = polls.clone();
/// let runtime = runtime::Builder::new_current_thread()
///     .on_before_task_poll(move |task| {
///         println!("task {}, spawned at {}, is polled", task.id(), task.spawned_at());
///         seen.fetch_add(1, Ordering::Relaxed);
///     })
///     .build()?;
/// runtime.block_on(runtime.spawn(async { runtime::task::yield_now().await }))?;
/// assert_eq!(polls.load(Ordering::Relaxed), 2);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct TaskMeta<'a> {
    id: Id,
    spawned_at: &'static Location<'static>,
    // So that a reference into the task may be added.
    not_static: PhantomData<&'a ()>,
}

impl TaskMeta<'_> {
    /// The task's id.
    pub fn id(&self) -> Id {
        self.id
    }

    /// Where the task was spawned.
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.spawned_at
    }
}

/// What the user wants to be called with.
pub type TaskHook = Arc<dyn Fn(&TaskMeta<'_>) + Send + Sync>;

/// What the builder was told.
#[derive(Clone, Default)]
pub struct TaskHooks {
    pub spawn: Option<TaskHook>,
    pub before_poll: Option<TaskHook>,
    pub after_poll: Option<TaskHook>,
    pub terminate: Option<TaskHook>,
}

/// What a runtime observes of its tasks.
pub struct Observer {
    hooks: TaskHooks,
    /// Of each worker, the lengths of its polls; empty unless they are measured.
    poll_times: Vec<Histogram>,
}

impl Observer {
    /// None if there is nothing to observe.
    pub fn new(
        hooks: &TaskHooks,
        poll_times: Option<&HistogramConfiguration>,
        workers: usize,
    ) -> Option<Arc<Self>> {
        let TaskHooks { spawn, before_poll, after_poll, terminate } = hooks;
        let has_hooks = [spawn, before_poll, after_poll, terminate].iter().any(|hook| hook.is_some());
        (has_hooks || poll_times.is_some()).then(|| {
            let poll_times =
                poll_times.map_or(Vec::new(), |scale| (0..workers).map(|_| Histogram::new(scale)).collect());
            Arc::new(Self { hooks: hooks.clone(), poll_times })
        })
    }

    /// The histogram of permanent worker `worker`, if poll times are measured.
    pub fn poll_times(&self, worker: usize) -> Option<&Histogram> {
        self.poll_times.get(worker)
    }

    /// A task was made, and is about to be queued.
    pub fn on_spawn(&self, id: Id, spawned_at: &'static Location<'static>) {
        call(&self.hooks.spawn, id, spawned_at);
    }

    /// A task has ended: its future is gone, and its output not there yet.
    pub fn on_terminate(&self, id: Id, spawned_at: &'static Location<'static>) {
        call(&self.hooks.terminate, id, spawned_at);
    }

    /// Calls `poll`, which polls a task, and does not unwind. `worker` is the index of the worker that polls.
    pub fn around_poll(
        &self,
        worker: Option<usize>,
        id: Id,
        spawned_at: &'static Location<'static>,
        poll: impl FnOnce(),
    ) {
        call(&self.hooks.before_poll, id, spawned_at);
        // What a spare worker polls is counted for the worker that it belongs to.
        let histogram = worker.and_then(|index| self.poll_times(index.checked_rem(self.poll_times.len())?));
        let began = histogram.map(|_| Instant::now());
        poll();
        if let (Some(histogram), Some(began)) = (histogram, began) {
            histogram.record(began.elapsed());
        }
        call(&self.hooks.after_poll, id, spawned_at);
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("poll_times", &self.poll_times.len()).finish_non_exhaustive()
    }
}

/// Calls a hook. A panic in it is caught and reported by the panic hook alone, as with the other hooks: it is
/// not the task's. The hook is no part of a poll, so it may block.
fn call(hook: &Option<TaskHook>, id: Id, spawned_at: &'static Location<'static>) {
    if let Some(hook) = hook {
        let meta = TaskMeta { id, spawned_at, not_static: PhantomData };
        unwind::drop_quietly(coop::suspended(|| unwind::catch(|| hook(&meta))));
    }
}
