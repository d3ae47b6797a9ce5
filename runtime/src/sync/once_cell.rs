//! A value that the first task to want it makes: one permit for the maker, and the value (`once.rs`).

use std::fmt;

use super::once::{Once, act_as_option};
use super::permits::{Permits, TakeError};
use crate::coop;
use crate::loom::const_fn;

/// A value that the first task to ask for it makes, while the other tasks wait.
///
/// If the future that makes the value panics, fails or is dropped, the next task that waits makes the value.
/// Reading a value that is there costs one load.
///
/// # Examples
/// ```
/// use runtime::sync::OnceCell;
///
/// static SETTINGS: OnceCell<String> = OnceCell::const_new();
///
/// async fn settings() -> &'static str {
///     SETTINGS.get_or_init(|| async { String::from("loaded once") }).await
/// }
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// assert_eq!(settings().await, "loaded once");
/// # });
/// ```
pub struct OnceCell<T> {
    /// The holder of the permit may set the value.
    once: Once<T>,
}

act_as_option!(OnceCell);

impl<T> OnceCell<T> {
    /// Creates a cell without a value.
    ///
    /// # Examples
    /// ```
    /// let cell = runtime::sync::OnceCell::<i32>::new();
    /// assert!(cell.get().is_none());
    /// ```
    pub fn new() -> Self {
        Self::const_new()
    }

    const_fn! {
        /// Creates a cell without a value in a constant, for instance in a `static`.
        ///
        /// # Examples
        /// ```
        /// static NAME: runtime::sync::OnceCell<String> = runtime::sync::OnceCell::const_new();
        /// ```
        pub const fn const_new() -> Self {
            Self { once: Once::new(1) }
        }
    }

    /// Creates a cell that holds `value`, or none for `None`.
    ///
    /// # Examples
    /// ```
    /// assert_eq!(runtime::sync::OnceCell::new_with(Some(1)).get(), Some(&1));
    /// ```
    pub fn new_with(value: Option<T>) -> Self {
        value.map_or_else(Self::new, Self::from)
    }

    const_fn! {
        /// Creates a cell with `value` in a constant, for instance in a `static`.
        ///
        /// # Examples
        /// ```
        /// static LIMIT: runtime::sync::OnceCell<u32> = runtime::sync::OnceCell::const_new_with(100);
        /// assert_eq!(LIMIT.get(), Some(&100));
        /// ```
        pub const fn const_new_with(value: T) -> Self {
            Self { once: Once::with(value) }
        }
    }

    /// Returns whether there is a value.
    ///
    /// # Examples
    /// ```
    /// assert!(!runtime::sync::OnceCell::<i32>::new().initialized());
    /// ```
    pub fn initialized(&self) -> bool {
        self.once.is_set()
    }

    /// Returns the value, or `None` if there is none.
    ///
    /// # Examples
    /// ```
    /// let cell = runtime::sync::OnceCell::new();
    /// assert_eq!(cell.get(), None);
    /// cell.set(1).unwrap();
    /// assert_eq!(cell.get(), Some(&1));
    /// ```
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.once.get()
    }

    /// Returns the value for changes, or `None` if there is none. A `&mut OnceCell` excludes all other
    /// access.
    ///
    /// # Examples
    /// ```
    /// let mut cell = runtime::sync::OnceCell::from(1);
    /// *cell.get_mut().unwrap() += 1;
    /// assert_eq!(cell.into_inner(), Some(2));
    /// ```
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.once.get_mut()
    }

    /// Sets the value, unless there is one or a task is making one.
    ///
    /// # Errors
    /// `value`, in [`SetError::AlreadyInitializedError`] or [`SetError::InitializingError`].
    ///
    /// # Examples
    /// ```
    /// let cell = runtime::sync::OnceCell::new();
    /// cell.set(1).unwrap();
    /// assert!(cell.set(2).unwrap_err().is_already_init_err());
    /// ```
    pub fn set(&self, value: T) -> Result<(), SetError<T>> {
        match self.once.permits.try_take(1) {
            Ok(()) => {
                Maker::of_taken(&self.once.permits).finish(&self.once, value);
                Ok(())
            }
            Err(TakeError::TooFew) => Err(SetError::InitializingError(value)),
            Err(TakeError::Closed) => Err(SetError::AlreadyInitializedError(value)),
        }
    }

    /// Returns the value. If there is none, it runs the future of `f` to make it, or waits for the task that
    /// is making it.
    ///
    /// `f` must not ask the same cell for its value, because it would wait for itself.
    ///
    /// # Panics
    /// If `f` or its future panics. The next task that waits makes the value then.
    ///
    /// # Cancel safety
    /// If the future is dropped while it makes the value, the next task that waits begins anew. Otherwise it
    /// loses its place in the queue.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let cell = runtime::sync::OnceCell::new();
    /// assert_eq!(cell.get_or_init(|| async { 1 }).await, &1);
    /// assert_eq!(cell.get_or_init(|| async { 2 }).await, &1);
    /// # });
    /// ```
    pub async fn get_or_init<F, Fut>(&self, f: F) -> &T
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = T>,
    {
        if let Some(value) = self.get() {
            coop::spend();
            return value;
        }
        if let Some(maker) = self.make().await {
            let value = f().await;
            maker.finish(&self.once, value);
        }
        self.get().expect("it was made, or found")
    }

    /// Returns the value as [`get_or_init`](Self::get_or_init) does, with a future that may fail.
    ///
    /// # Errors
    /// The error of the future of `f`. The cell has no value then, and the next task that waits makes it.
    ///
    /// # Panics
    /// As [`get_or_init`](Self::get_or_init).
    ///
    /// # Cancel safety
    /// As [`get_or_init`](Self::get_or_init).
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let cell = runtime::sync::OnceCell::new();
    /// assert_eq!(cell.get_or_try_init(|| async { Err("not yet") }).await, Err("not yet"));
    /// assert_eq!(cell.get_or_try_init(|| async { Ok::<_, ()>(1) }).await, Ok(&1));
    /// # });
    /// ```
    pub async fn get_or_try_init<E, F, Fut>(&self, f: F) -> Result<&T, E>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        if let Some(value) = self.get() {
            coop::spend();
            return Ok(value);
        }
        if let Some(maker) = self.make().await {
            let value = f().await?;
            maker.finish(&self.once, value);
        }
        Ok(self.get().expect("it was made, or found"))
    }

    /// Waits until the value is there (`None`), or until the caller may make it.
    async fn make(&self) -> Option<Maker<'_>> {
        self.once.permits.take(1).await.ok().map(|()| Maker::of_taken(&self.once.permits))
    }

    /// Returns the value, or `None` if there is none.
    ///
    /// # Examples
    /// ```
    /// assert_eq!(runtime::sync::OnceCell::from(1).into_inner(), Some(1));
    /// ```
    pub fn into_inner(self) -> Option<T> {
        self.once.into_inner()
    }

    /// Takes the value out, if there is one. The cell is empty then.
    ///
    /// # Examples
    /// ```
    /// let mut cell = runtime::sync::OnceCell::from(1);
    /// assert_eq!(cell.take(), Some(1));
    /// assert!(!cell.initialized());
    /// ```
    pub fn take(&mut self) -> Option<T> {
        std::mem::take(self).into_inner()
    }
}

/// The permit of a cell. The drop gives it back.
struct Maker<'a>(&'a Permits);

impl<'a> Maker<'a> {
    fn of_taken(permits: &'a Permits) -> Self {
        Self(permits)
    }

    /// Sets the value. The permit stays taken, because there is nothing more to make.
    fn finish<T>(self, once: &Once<T>, value: T) {
        std::mem::forget(self);
        let set = once.set(value);
        debug_assert!(set.is_ok(), "a cell was set without its permit");
    }
}

impl Drop for Maker<'_> {
    fn drop(&mut self) {
        self.0.give(1);
    }
}

/// The error of [`OnceCell::set`], with the value that was not set.
#[derive(Debug, PartialEq, Eq)]
pub enum SetError<T> {
    /// There is a value.
    AlreadyInitializedError(T),
    /// A task is making a value.
    InitializingError(T),
}

impl<T> SetError<T> {
    /// Returns whether there is a value.
    ///
    /// # Examples
    /// ```
    /// assert!(runtime::sync::OnceCell::from(1).set(2).unwrap_err().is_already_init_err());
    /// ```
    pub fn is_already_init_err(&self) -> bool {
        matches!(self, Self::AlreadyInitializedError(_))
    }

    /// Returns whether a task is making a value.
    ///
    /// # Examples
    /// ```
    /// assert!(!runtime::sync::OnceCell::from(1).set(2).unwrap_err().is_initializing_err());
    /// ```
    pub fn is_initializing_err(&self) -> bool {
        matches!(self, Self::InitializingError(_))
    }
}

impl<T> fmt::Display for SetError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AlreadyInitializedError(_) => "the cell is already initialized",
            Self::InitializingError(_) => "the cell is being initialized",
        })
    }
}

impl<T: fmt::Debug> std::error::Error for SetError<T> {}
