//! Spawning into a [`JoinSet`] with a name.

use std::fmt;
use std::future::Future;
use std::io;

use super::set::JoinSet;
use crate::runtime::handle::Handle;
use crate::sets::builder;
use crate::sets::local_set::LocalSet;
use crate::task::AbortHandle;

/// Spawns a task into a [`JoinSet`] with a name; made by [`JoinSet::build_task`]. The name is dropped, and no
/// call fails, as with [`task::Builder`](crate::task::Builder).
#[must_use = "builders do nothing unless used to spawn a task"]
pub struct Builder<'a, T> {
    set: &'a mut JoinSet<T>,
    builder: builder::Builder<'a>,
}

impl<T> JoinSet<T> {
    /// Creates a builder that spawns a task into this set.
    ///
    /// # Examples
    /// ```
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut set = runtime::task::JoinSet::new();
    /// set.build_task().name("answer").spawn(async { 42 })?;
    /// assert_eq!(set.join_next().await.unwrap()?, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn build_task(&mut self) -> Builder<'_, T> {
        Builder { set: self, builder: builder::Builder::new() }
    }
}

impl<'a, T: 'static> Builder<'a, T> {
    /// Sets the name.
    pub fn name(self, name: &'a str) -> Self {
        let builder = self.builder.name(name);
        Self { builder, ..self }
    }

    /// Spawns a task as [`JoinSet::spawn`] does.
    ///
    /// # Panics
    /// As [`JoinSet::spawn`], outside of a runtime.
    #[track_caller]
    pub fn spawn<F>(self, future: F) -> io::Result<AbortHandle>
    where
        F: Future<Output = T> + Send + 'static,
        T: Send,
    {
        Ok(self.set.insert(self.builder.spawn(future)?))
    }

    /// Spawns a task as [`JoinSet::spawn_on`] does.
    #[track_caller]
    pub fn spawn_on<F>(self, future: F, handle: &Handle) -> io::Result<AbortHandle>
    where
        F: Future<Output = T> + Send + 'static,
        T: Send,
    {
        Ok(self.set.insert(self.builder.spawn_on(future, handle)?))
    }

    /// Runs a closure as [`JoinSet::spawn_blocking`] does.
    ///
    /// # Panics
    /// As [`JoinSet::spawn_blocking`], outside of a runtime.
    #[track_caller]
    pub fn spawn_blocking<F>(self, f: F) -> io::Result<AbortHandle>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send,
    {
        Ok(self.set.insert(self.builder.spawn_blocking(f)?))
    }

    /// Runs a closure as [`JoinSet::spawn_blocking_on`] does.
    #[track_caller]
    pub fn spawn_blocking_on<F>(self, f: F, handle: &Handle) -> io::Result<AbortHandle>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send,
    {
        Ok(self.set.insert(self.builder.spawn_blocking_on(f, handle)?))
    }

    /// Spawns a task as [`JoinSet::spawn_local`] does.
    ///
    /// # Panics
    /// As [`JoinSet::spawn_local`], if there is no current [`LocalSet`].
    #[track_caller]
    pub fn spawn_local<F>(self, future: F) -> io::Result<AbortHandle>
    where
        F: Future<Output = T> + 'static,
    {
        Ok(self.set.insert(self.builder.spawn_local(future)?))
    }

    /// Spawns a task as [`JoinSet::spawn_local_on`] does.
    #[track_caller]
    pub fn spawn_local_on<F>(self, future: F, local_set: &LocalSet) -> io::Result<AbortHandle>
    where
        F: Future<Output = T> + 'static,
    {
        Ok(self.set.insert(self.builder.spawn_local_on(future, local_set)?))
    }
}

impl<T> fmt::Debug for Builder<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("set", &self.set).field("builder", &self.builder).finish()
    }
}
