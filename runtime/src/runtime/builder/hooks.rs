//! What a runtime calls: closures at events of threads, tasks and workers.

use std::sync::Arc;

use super::settings::Builder;
use crate::config::{Deadlock, Stall, TaskMeta};
#[cfg(doc)]
use crate::runtime::Handle;

/// Closures that the runtime calls.
impl Builder {
    /// Calls `f` on each worker, spare worker and blocking thread of the runtime when the thread begins.
    ///
    /// On a worker, a parallel call inside of `f`, such as [`join`](crate::parallel::join) or
    /// [`ThreadPool::install`](crate::parallel::ThreadPool::install), runs sequentially, because all other
    /// workers may be inside of `f`, too. If all threads wait inside of `f` for a task, a computation, a
    /// timer or a socket of the runtime, none is left to run it.
    ///
    /// The panic hook reports a panic in `f`, and then the panic is swallowed.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let started = Arc::new(AtomicUsize::new(0));
    /// let counter = started.clone();
    /// let runtime = runtime::Builder::new_multi_thread()
    ///     .worker_threads(2)
    ///     .on_thread_start(move || _ = counter.fetch_add(1, Ordering::Relaxed))
    ///     .build()?;
    /// // The drop waits for the workers.
    /// drop(runtime);
    /// assert_eq!(started.load(Ordering::Relaxed), 2);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn on_thread_start(&mut self, f: impl Fn() + Send + Sync + 'static) -> &mut Self {
        self.hooks.thread_start = Some(Arc::new(f));
        self
    }

    /// Calls `f` on each worker, spare worker and blocking thread of the runtime before the thread ends.
    ///
    /// When the runtime ends, no thread looks after its timers and sockets any more, and none runs its tasks.
    /// If `f` waits for these, the wait ends as in any thread that outlives a runtime: a task counts as
    /// cancelled, a socket gives an error, and a timer panics. `f` may wait for a runtime of its own.
    ///
    /// The panic hook reports a panic in `f`, and then the panic is swallowed.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread()
    ///     .on_thread_stop(|| println!("{:?} ends", std::thread::current().id()))
    ///     .build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn on_thread_stop(&mut self, f: impl Fn() + Send + Sync + 'static) -> &mut Self {
        self.hooks.thread_stop = Some(Arc::new(f));
        self
    }

    /// Calls `f` on a worker before it goes to sleep.
    ///
    /// If `f` makes work for this worker, the worker runs that work and does not go to sleep. `f` must not
    /// wait for tasks, timers or sockets of the runtime, because other workers that find no work come to `f`,
    /// too. The panic hook reports a panic in `f`, and then the panic is swallowed.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread()
    ///     .on_thread_park(|| println!("{:?} goes to sleep", std::thread::current().id()))
    ///     .build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn on_thread_park(&mut self, f: impl Fn() + Send + Sync + 'static) -> &mut Self {
        self.hooks.thread_park = Some(Arc::new(f));
        self
    }

    /// Calls `f` on a worker after it woke, or when it does not sleep after all. So each call of the function
    /// of [`on_thread_park`](Self::on_thread_park) is followed by one call of `f`. As there, `f` must not
    /// wait for tasks, timers or sockets of the runtime.
    ///
    /// The panic hook reports a panic in `f`, and then the panic is swallowed.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread()
    ///     .on_thread_unpark(|| println!("{:?} is awake", std::thread::current().id()))
    ///     .build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn on_thread_unpark(&mut self, f: impl Fn() + Send + Sync + 'static) -> &mut Self {
        self.hooks.thread_unpark = Some(Arc::new(f));
        self
    }

    /// Calls `f` when a worker is found stuck: it has been in one poll of a task for at least 2.5 ms, while
    /// something waits for a worker, such as tasks, due timers or the driver.
    ///
    /// Other workers take over what waits. The purpose of `f` is to find the task that holds its worker. `f`
    /// gets the id of the task and the line that spawned it. The runtime calls `f` once for each poll in
    /// which a worker is found stuck.
    ///
    /// `f` is not called while a worker runs a [computation](crate::compute()), is inside of
    /// [`block_in_place`](crate::task::block_in_place), or is marked by
    /// [`mark_blocked`](crate::parallel::mark_blocked), because the program has said there that it takes
    /// long. Closures of [`spawn_blocking`](crate::task::spawn_blocking) and the future of a `block_on` are
    /// not watched. Nor is a `current_thread` runtime, because no thread could take over there.
    ///
    /// `f` runs as a closure of [`spawn_blocking`](crate::task::spawn_blocking) does, on a blocking thread of
    /// the runtime. So it may spawn and may block. The end of the runtime waits for an `f` that has begun. A
    /// runtime that is dropped by `f` itself waits for nothing. The panic hook reports a panic in `f`, and
    /// then the panic is swallowed.
    ///
    /// A worker may get no CPU for that long, because other processes have it. The CPU time of the worker
    /// shows this, and it is not reported.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread()
    ///     .on_stall(|stall| eprintln!("{stall}"))
    ///     .build()?;
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// Prior art: Go's `sysmon`, which takes the processor of a thread that is in a long system call, and
    /// reports nothing; `tokio::runtime::Builder::on_before_task_poll` and `on_after_task_poll` with a clock
    /// of the program's own.
    pub fn on_stall(&mut self, f: impl Fn(&Stall) + Send + Sync + 'static) -> &mut Self {
        self.hooks.stall = Some(Arc::new(f));
        self
    }

    /// Calls `f` when the runtime is deadlocked: every thread of the runtime is asleep or marked as blocked,
    /// at least one is marked, and nothing is left that would wake one. See
    /// [`parallel::mark_blocked`](crate::parallel::mark_blocked).
    ///
    /// Nothing is left if no task is in a queue, no timer is armed, no descriptor is registered, and no
    /// blocking closure and no `block_on` runs on a thread that is not marked. So a runtime that has a
    /// listener, or listens to signals, is never deadlocked. The runtime does not know a thread that only
    /// holds a [`Handle`] or a waker; see [`parallel::blocking`](crate::parallel::blocking). The thread that
    /// reads [standard input](crate::io::stdin) is one of these.
    ///
    /// `f` is called once for each deadlock, and again only after a thread was marked or unmarked. It runs on
    /// the thread that was the last to fall asleep or to be marked, or on a thread that is started for the
    /// call. That thread holds no lock. It may be the very thread that is needed once the deadlock is
    /// resolved, so `f` should not wait. The panic hook reports a panic in `f`, and then the panic is
    /// swallowed.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread()
    ///     .deadlock_handler(|deadlock| {
    ///         eprintln!("{deadlock}");
    ///         std::process::abort();
    ///     })
    ///     .build()?;
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// Prior art: the deadlock handler of Rayon's older sleep module and of rustc's copy of it.
    pub fn deadlock_handler(&mut self, f: impl Fn(&Deadlock) + Send + Sync + 'static) -> &mut Self {
        self.deadlock_handler = Some(Arc::new(f));
        self
    }

    /// Calls `f` for each spawned task, on the thread that spawns it, before the task is queued. By default
    /// there is no hook.
    ///
    /// The runtime calls the task hooks for the tasks of [`spawn`](crate::spawn) and its like. It does not
    /// call them for the tasks of a [`LocalSet`](crate::task::LocalSet), for `spawn_blocking`, for
    /// `block_on`, or for a task that is spawned once the shutdown has begun. The runtime catches a panic in
    /// a hook. Only the panic hook reports it.
    ///
    /// The drop of a `process::Child` that still runs spawns a task, too, which waits for the child.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread()
    ///     .on_task_spawn(|task| println!("{} spawned {}", task.spawned_at(), task.id()))
    ///     .on_task_terminate(|task| println!("{} has ended", task.id()))
    ///     .build()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_task_spawn(&mut self, f: impl Fn(&TaskMeta<'_>) + Send + Sync + 'static) -> &mut Self {
        self.task_hooks.spawn = Some(Arc::new(f));
        self
    }

    /// Calls `f` before each poll of a task, on the thread that polls it. By default there is no hook.
    ///
    /// See [`on_task_spawn`](Self::on_task_spawn) for the tasks that have hooks.
    ///
    /// # Examples
    /// ```
    /// use std::cell::Cell;
    /// use std::time::{Duration, Instant};
    ///
    /// thread_local! {
    ///     static BEGAN: Cell<Option<Instant>> = Cell::new(None);
    /// }
    ///
    /// let runtime = runtime::Builder::new_multi_thread()
    ///     .on_before_task_poll(|_| BEGAN.set(Some(Instant::now())))
    ///     .on_after_task_poll(|task| {
    ///         let duration = BEGAN.take().map_or(Duration::ZERO, |began| began.elapsed());
    ///         if duration > Duration::from_millis(10) {
    ///             eprintln!("task {} of {} computed for {duration:?}", task.id(), task.spawned_at());
    ///         }
    ///     })
    ///     .build()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_before_task_poll(&mut self, f: impl Fn(&TaskMeta<'_>) + Send + Sync + 'static) -> &mut Self {
        self.task_hooks.before_poll = Some(Arc::new(f));
        self
    }

    /// Calls `f` after each poll of a task, on the thread that has polled it, also if the poll panicked. By
    /// default there is no hook.
    ///
    /// See [`on_task_spawn`](Self::on_task_spawn) for the tasks that have hooks.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let polls = Arc::new(AtomicUsize::new(0));
    /// let seen = polls.clone();
    /// let runtime = runtime::Builder::new_current_thread()
    ///     .on_after_task_poll(move |_| {
    ///         seen.fetch_add(1, Ordering::Relaxed);
    ///     })
    ///     .build()?;
    /// runtime.block_on(runtime.spawn(runtime::task::yield_now()))?;
    /// assert_eq!(polls.load(Ordering::Relaxed), 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_after_task_poll(&mut self, f: impl Fn(&TaskMeta<'_>) + Send + Sync + 'static) -> &mut Self {
        self.task_hooks.after_poll = Some(Arc::new(f));
        self
    }

    /// Calls `f` once for each task at its end: after its future was dropped, and before its `JoinHandle`
    /// returns. It does so whether the task returned, panicked or was cancelled. By default there is no hook.
    ///
    /// See [`on_task_spawn`](Self::on_task_spawn) for the tasks that have hooks.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let ended = Arc::new(AtomicUsize::new(0));
    /// let seen = ended.clone();
    /// let runtime = runtime::Builder::new_current_thread()
    ///     .on_task_terminate(move |_| {
    ///         seen.fetch_add(1, Ordering::Relaxed);
    ///     })
    ///     .build()?;
    /// runtime.block_on(runtime.spawn(async {}))?;
    /// assert_eq!(ended.load(Ordering::Relaxed), 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_task_terminate(&mut self, f: impl Fn(&TaskMeta<'_>) + Send + Sync + 'static) -> &mut Self {
        self.task_hooks.terminate = Some(Arc::new(f));
        self
    }
}
