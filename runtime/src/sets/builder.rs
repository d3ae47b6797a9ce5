//! Spawning with a name.

use std::future::Future;
use std::io;

use super::local_set::{LocalSet, spawn_local};
use crate::runtime::handle::Handle;
use crate::runtime::spawn::{spawn, spawn_blocking};
use crate::task::JoinHandle;

/// Spawns tasks with a name, for programs that were written for Tokio's `task::Builder`.
///
/// Nothing in this crate shows names of tasks, so the name is dropped: tasks are known by their id and by the
/// line that spawned them. No method fails. They return an [`io::Result`] because Tokio's do.
///
/// # Examples
/// ```
/// # #[runtime::main]
/// # async fn main() -> std::io::Result<()> {
/// let sum = runtime::task::Builder::new().name("sum").spawn(async { 1 + 2 })?;
/// assert_eq!(sum.await?, 3);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Builder<'a> {
    #[expect(dead_code, reason = "only `Debug` shows it")]
    name: Option<&'a str>,
}

impl<'a> Builder<'a> {
    /// Creates a builder without a name.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the name.
    pub fn name(&self, name: &'a str) -> Self {
        Self { name: Some(name) }
    }

    /// Spawns a task as [`spawn`](crate::spawn) does.
    ///
    /// # Panics
    /// As `spawn`, outside of a runtime.
    #[track_caller]
    pub fn spawn<F>(self, future: F) -> io::Result<JoinHandle<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Ok(spawn(future))
    }

    /// Spawns a task as [`Handle::spawn`] does.
    #[track_caller]
    pub fn spawn_on<F>(self, future: F, handle: &Handle) -> io::Result<JoinHandle<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Ok(handle.spawn(future))
    }

    /// Spawns a task as [`spawn_local`](crate::task::spawn_local) does.
    ///
    /// # Panics
    /// As `spawn_local`, outside of a [`LocalSet`].
    #[track_caller]
    pub fn spawn_local<F>(self, future: F) -> io::Result<JoinHandle<F::Output>>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        Ok(spawn_local(future))
    }

    /// Spawns a task as [`LocalSet::spawn_local`] does.
    #[track_caller]
    pub fn spawn_local_on<F>(self, future: F, local_set: &LocalSet) -> io::Result<JoinHandle<F::Output>>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        Ok(local_set.spawn_local(future))
    }

    /// Runs a closure as [`spawn_blocking`](crate::task::spawn_blocking) does.
    ///
    /// # Panics
    /// As `spawn_blocking`, outside of a runtime.
    #[track_caller]
    pub fn spawn_blocking<F, R>(self, function: F) -> io::Result<JoinHandle<R>>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        Ok(spawn_blocking(function))
    }

    /// Runs a closure as [`Handle::spawn_blocking`] does.
    #[track_caller]
    pub fn spawn_blocking_on<F, R>(self, function: F, handle: &Handle) -> io::Result<JoinHandle<R>>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        Ok(handle.spawn_blocking(function))
    }
}
