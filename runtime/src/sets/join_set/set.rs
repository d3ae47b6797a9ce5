//! Sets of tasks that are awaited together, in the order in which they end.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{self, RefUnwindSafe, UnwindSafe};
use std::task::{Context, Poll, ready};

use super::entries::Entries;
use crate::coop;
use crate::runtime::handle::Handle;
use crate::runtime::spawn::spawn_blocking;
use crate::sets::local_set::{LocalSet, spawn_local};
use crate::task::{AbortHandle, Id, JoinError, JoinHandle};

/// A set of tasks. It yields their results in the order in which the tasks end.
///
/// All tasks have the same type of output. Dropping the set aborts the tasks that have not ended.
///
/// A set costs each task a few instructions and no allocation of its own. A task that ends announces it
/// without a lock. The set wakes up once for all tasks that end before it looks.
///
/// # Examples
/// ```
/// use runtime::task::JoinSet;
///
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let mut set = JoinSet::new();
/// for i in 0..10 {
///     set.spawn(async move { i });
/// }
/// let mut sum = 0;
/// while let Some(result) = set.join_next().await {
///     sum += result.unwrap();
/// }
/// assert_eq!(sum, 45);
/// # });
/// ```
///
/// Prior art: `tokio::task::JoinSet`.
pub struct JoinSet<T> {
    entries: Entries<T>,
}

// A panic that passes a call leaves no call half done.
impl<T> UnwindSafe for JoinSet<T> {}
impl<T> RefUnwindSafe for JoinSet<T> {}

impl<T> JoinSet<T> {
    /// Makes a set without tasks.
    pub fn new() -> Self {
        Self { entries: Entries::new() }
    }

    /// Returns the number of tasks in the set. It includes tasks that have ended and were not joined yet.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the set has no tasks.
    ///
    /// # Examples
    /// ```
    /// use runtime::task::JoinSet;
    ///
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut set = JoinSet::new();
    /// assert!(set.is_empty());
    /// set.spawn(async { 1 });
    /// assert_eq!(set.len(), 1);
    /// # });
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: 'static> JoinSet<T> {
    /// Starts a future as a task of the current runtime and of the set, as [`spawn`](crate::spawn).
    ///
    /// # Panics
    /// Outside of a runtime.
    ///
    /// # Examples
    /// ```
    /// use runtime::task::JoinSet;
    ///
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut set = JoinSet::new();
    /// set.spawn(async { 7 });
    /// assert_eq!(set.join_next().await.unwrap().unwrap(), 7);
    /// # });
    /// ```
    #[track_caller]
    pub fn spawn<F>(&mut self, task: F) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
        T: Send,
    {
        self.insert(crate::spawn(task))
    }

    /// Starts a future as a task of the runtime of `handle` and of the set, as [`Handle::spawn`].
    ///
    /// # Examples
    /// ```
    /// use runtime::task::JoinSet;
    ///
    /// let runtime = runtime::Builder::new_current_thread().build()?;
    /// let mut set = JoinSet::new();
    /// set.spawn_on(async { 7 }, runtime.handle());
    /// assert_eq!(runtime.block_on(set.join_all()), [7]);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn spawn_on<F>(&mut self, task: F, handle: &Handle) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
        T: Send,
    {
        self.insert(handle.spawn(task))
    }

    /// Starts a future as a task of the current [`LocalSet`] and of the set, as [`spawn_local`].
    ///
    /// # Panics
    /// If there is no current [`LocalSet`].
    ///
    /// # Examples
    /// ```
    /// use std::rc::Rc;
    /// use runtime::task::{JoinSet, LocalSet};
    ///
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let local = LocalSet::new();
    /// let outputs = local.run_until(async {
    ///     let mut set = JoinSet::new();
    ///     let here = Rc::new(7);
    ///     set.spawn_local(async move { *here });
    ///     set.join_all().await
    /// });
    /// assert_eq!(outputs.await, [7]);
    /// # });
    /// ```
    #[track_caller]
    pub fn spawn_local<F>(&mut self, task: F) -> AbortHandle
    where
        F: Future<Output = T> + 'static,
    {
        self.insert(spawn_local(task))
    }

    /// Starts a future as a task of `local_set` and of the set, as [`LocalSet::spawn_local`].
    ///
    /// The task begins when `local_set` is driven.
    ///
    /// # Examples
    /// ```
    /// use runtime::task::{JoinSet, LocalSet};
    ///
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let local = LocalSet::new();
    /// let mut set = JoinSet::new();
    /// set.spawn_local_on(async { 7 }, &local);
    /// assert_eq!(local.run_until(set.join_all()).await, [7]);
    /// # });
    /// ```
    #[track_caller]
    pub fn spawn_local_on<F>(&mut self, task: F, local_set: &LocalSet) -> AbortHandle
    where
        F: Future<Output = T> + 'static,
    {
        self.insert(local_set.spawn_local(task))
    }

    /// Runs a closure that may block, on a thread for that purpose, as a task of the set; as
    /// [`spawn_blocking`](crate::task::spawn_blocking).
    ///
    /// # Panics
    /// Outside of a runtime.
    ///
    /// # Examples
    /// ```
    /// use runtime::task::JoinSet;
    ///
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut set = JoinSet::new();
    /// set.spawn_blocking(|| std::fs::read_to_string("/proc/self/status"));
    /// assert!(set.join_next().await.unwrap().unwrap().is_ok());
    /// # });
    /// ```
    #[track_caller]
    pub fn spawn_blocking<F>(&mut self, f: F) -> AbortHandle
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send,
    {
        self.insert(spawn_blocking(f))
    }

    /// Runs a closure that may block, on a thread of the runtime of `handle`, as a task of the set; as
    /// [`Handle::spawn_blocking`].
    ///
    /// # Examples
    /// ```
    /// use runtime::task::JoinSet;
    ///
    /// let runtime = runtime::Builder::new_current_thread().build()?;
    /// let mut set = JoinSet::new();
    /// set.spawn_blocking_on(|| 7, runtime.handle());
    /// assert_eq!(runtime.block_on(set.join_all()), [7]);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn spawn_blocking_on<F>(&mut self, f: F, handle: &Handle) -> AbortHandle
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send,
    {
        self.insert(handle.spawn_blocking(f))
    }

    /// Adds a task by its handle. The handle has not been polled.
    pub(crate) fn insert(&mut self, handle: JoinHandle<T>) -> AbortHandle {
        let abort = handle.abort_handle();
        self.entries.insert(handle);
        abort
    }

    /// Waits until a task ends, and returns its result; `None` if the set is empty.
    ///
    /// # Errors
    /// A [`JoinError`] in the result if the task panicked or was cancelled.
    ///
    /// # Cancel safety
    /// Safe: if it is dropped in a `select!`, no task has left the set.
    ///
    /// # Examples
    /// ```
    /// use runtime::task::{JoinSet, yield_now};
    ///
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut set = JoinSet::new();
    /// set.spawn(async {
    ///     yield_now().await;
    ///     "second"
    /// });
    /// set.spawn(async { "first" });
    /// assert_eq!(set.join_next().await.unwrap().unwrap(), "first");
    /// assert_eq!(set.join_next().await.unwrap().unwrap(), "second");
    /// assert!(set.join_next().await.is_none());
    /// # });
    /// ```
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        poll_fn(|cx| self.poll_join_next(cx)).await
    }

    /// Waits until a task ends, and returns its id and its output; `None` if the set is empty.
    ///
    /// # Errors
    /// A [`JoinError`] in the result if the task panicked or was cancelled. The error knows the
    /// [id](JoinError::id), too.
    ///
    /// # Cancel safety
    /// As [`join_next`](Self::join_next).
    ///
    /// # Examples
    /// ```
    /// use runtime::task::JoinSet;
    ///
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut set = JoinSet::new();
    /// let id = set.spawn(async { "output" }).id();
    /// assert_eq!(set.join_next_with_id().await.unwrap().unwrap(), (id, "output"));
    /// # });
    /// ```
    pub async fn join_next_with_id(&mut self) -> Option<Result<(Id, T), JoinError>> {
        poll_fn(|cx| self.poll_join_next_with_id(cx)).await
    }

    /// Returns the result of a task that has ended, or `None` if no task has ended or the set is empty.
    ///
    /// # Errors
    /// As [`join_next`](Self::join_next), in the result.
    ///
    /// # Examples
    /// ```
    /// use runtime::task::JoinSet;
    ///
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut set = JoinSet::new();
    /// set.spawn(async { 1 });
    /// assert!(set.try_join_next().is_none());
    /// runtime::task::yield_now().await;
    /// assert_eq!(set.try_join_next().unwrap().unwrap(), 1);
    /// # });
    /// ```
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.entries.take_ended().map(|mut handle| handle.take_result())
    }

    /// Returns the id and the output of a task that has ended, or `None` if no task has ended or the set is
    /// empty.
    ///
    /// # Errors
    /// As [`join_next_with_id`](Self::join_next_with_id), in the result.
    ///
    /// # Examples
    /// ```
    /// use runtime::task::JoinSet;
    ///
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut set = JoinSet::new();
    /// let id = set.spawn(async { 1 }).id();
    /// runtime::task::yield_now().await;
    /// assert_eq!(set.try_join_next_with_id().unwrap().unwrap(), (id, 1));
    /// # });
    /// ```
    pub fn try_join_next_with_id(&mut self) -> Option<Result<(Id, T), JoinError>> {
        self.entries.take_ended().map(result_with_id)
    }

    /// Polls for a task that has ended.
    ///
    /// - `Ready(Some(…))`: the result of a task, which has left the set.
    /// - `Ready(None)`: the set is empty.
    /// - `Pending`: the waker of `cx` is woken when a task ends. Only the waker of the last call is woken.
    ///
    /// # Examples
    /// ```
    /// use std::future::poll_fn;
    /// use runtime::task::JoinSet;
    ///
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut set = JoinSet::new();
    /// set.spawn(async { 1 });
    /// assert_eq!(poll_fn(|cx| set.poll_join_next(cx)).await.unwrap().unwrap(), 1);
    /// # });
    /// ```
    pub fn poll_join_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        self.poll_ended(cx).map(|ended| ended.map(|mut handle| handle.take_result()))
    }

    /// Polls for a task that has ended, as [`poll_join_next`](Self::poll_join_next), with the id of the task.
    ///
    /// # Examples
    /// ```
    /// use std::future::poll_fn;
    /// use runtime::task::JoinSet;
    ///
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut set = JoinSet::new();
    /// let id = set.spawn(async { 1 }).id();
    /// assert_eq!(poll_fn(|cx| set.poll_join_next_with_id(cx)).await.unwrap().unwrap(), (id, 1));
    /// # });
    /// ```
    pub fn poll_join_next_with_id(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<(Id, T), JoinError>>> {
        self.poll_ended(cx).map(|ended| ended.map(result_with_id))
    }

    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<Option<JoinHandle<T>>> {
        if self.is_empty() {
            return Poll::Ready(None);
        }
        ready!(coop::poll_has_budget(cx));
        loop {
            if let Some(handle) = self.entries.take_ended() {
                coop::spend();
                return Poll::Ready(Some(handle));
            }
            if self.entries.wait(cx.waker()) {
                return Poll::Pending;
            }
        }
    }

    /// Aborts all tasks and waits until they have ended.
    ///
    /// It also waits for a blocking closure that has begun, because such a closure cannot be aborted.
    ///
    /// # Cancel safety
    /// Safe: if it is dropped, the tasks are aborted. The tasks for which it has not waited are still in the
    /// set.
    ///
    /// # Examples
    /// ```
    /// use runtime::task::JoinSet;
    ///
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut set = JoinSet::new();
    /// set.spawn(std::future::pending::<()>());
    /// set.shutdown().await;
    /// assert!(set.is_empty());
    /// # });
    /// ```
    pub async fn shutdown(&mut self) {
        self.abort_all();
        while self.join_next().await.is_some() {}
    }

    /// Waits for all tasks, and returns their outputs in the order in which the tasks ended.
    ///
    /// # Panics
    /// If a task panicked, with the payload of that panic; and if a task was cancelled. The tasks that have
    /// not ended are then aborted.
    ///
    /// # Cancel safety
    /// Not safe: if it is dropped, so is the set, and all outputs are lost.
    ///
    /// # Examples
    /// ```
    /// use runtime::task::JoinSet;
    ///
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let set: JoinSet<_> = (0..3).map(|i| async move { i }).collect();
    /// assert_eq!(set.join_all().await.into_iter().sum::<i32>(), 3);
    /// # });
    /// ```
    pub async fn join_all(mut self) -> Vec<T> {
        let mut outputs = Vec::with_capacity(self.len());
        while let Some(result) = self.join_next().await {
            match result {
                Ok(output) => outputs.push(output),
                Err(error) => match error.try_into_panic() {
                    Ok(payload) => panic::resume_unwind(payload),
                    Err(error) => panic!("{error}"),
                },
            }
        }
        outputs
    }

    /// Aborts all tasks. They stay in the set, and [`join_next`](Self::join_next) returns them as cancelled,
    /// except tasks that have ended before.
    ///
    /// # Examples
    /// ```
    /// use runtime::task::JoinSet;
    ///
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut set = JoinSet::new();
    /// set.spawn(std::future::pending::<()>());
    /// set.abort_all();
    /// assert!(set.join_next().await.unwrap().unwrap_err().is_cancelled());
    /// # });
    /// ```
    pub fn abort_all(&mut self) {
        self.entries.for_each(JoinHandle::abort);
    }

    /// Takes all tasks out of the set without aborting them. They run on, and their outputs are dropped.
    ///
    /// # Examples
    /// ```
    /// use runtime::task::JoinSet;
    ///
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut set = JoinSet::new();
    /// let task = set.spawn(runtime::task::yield_now());
    /// set.detach_all();
    /// assert!(set.is_empty() && !task.is_finished());
    /// # });
    /// ```
    pub fn detach_all(&mut self) {
        self.entries.drain(drop);
    }
}

fn result_with_id<T>(mut handle: JoinHandle<T>) -> Result<(Id, T), JoinError> {
    let id = handle.id();
    handle.take_result().map(|output| (id, output))
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        self.entries.drain(|handle| handle.abort());
    }
}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinSet").field("len", &self.len()).finish()
    }
}

impl<T> Default for JoinSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Spawns each future, as [`JoinSet::spawn`].
impl<T, F> FromIterator<F> for JoinSet<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    fn from_iter<I: IntoIterator<Item = F>>(tasks: I) -> Self {
        let mut set = Self::new();
        set.extend(tasks);
        set
    }
}

/// Spawns each future, as [`JoinSet::spawn`].
impl<T, F> Extend<F> for JoinSet<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    fn extend<I: IntoIterator<Item = F>>(&mut self, tasks: I) {
        tasks.into_iter().for_each(|task| _ = self.spawn(task));
    }
}
