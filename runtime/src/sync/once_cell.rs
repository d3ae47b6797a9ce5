//! A value that is made once, by the first task that wants it: one permit for the maker, and the value
//! (`once.rs`).

use std::fmt;

use super::once::{Once, act_as_option};
use super::permits::{Permits, TakeError};
use crate::coop;
use crate::loom::const_fn;

/// A value that is made by the first that asks for it, while the others wait.
///
/// If the future that makes it panics, fails or is dropped, the next one in line makes it. Reading a value
/// that is there costs one load.
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

    /// Creates a cell with `value`, if there is one.
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

    /// The value, if there is one.
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

    /// The value, if there is one, to be changed: a `&mut OnceCell` is alone.
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

    /// The value; if there is none, the one that the future of `f` makes, or that another task is making.
    ///
    /// `f` must not ask the same cell for its value: it would wait for itself.
    ///
    /// # Panics
    /// If `f` or its future does; then the next in line makes the value.
    ///
    /// # Cancel safety
    /// If it is dropped while it makes the value, that begins anew with the next in line. Else it loses its
    /// place in line.
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

    /// As [`get_or_init`](Self::get_or_init), with a future that may fail.
    ///
    /// # Errors
    /// What the future of `f` fails with; then the cell has no value, and the next in line makes it.
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

    /// Waits until the value is there (`None`), or the caller may make it.
    async fn make(&self) -> Option<Maker<'_>> {
        self.once.permits.take(1).await.ok().map(|()| Maker::of_taken(&self.once.permits))
    }

    /// Takes the value out, if there is one.
    ///
    /// # Examples
    /// ```
    /// assert_eq!(runtime::sync::OnceCell::from(1).into_inner(), Some(1));
    /// ```
    pub fn into_inner(self) -> Option<T> {
        self.once.into_inner()
    }

    /// Takes the value out, if there is one, and leaves the cell without.
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

/// The permit of a cell, given back when dropped.
struct Maker<'a>(&'a Permits);

impl<'a> Maker<'a> {
    fn of_taken(permits: &'a Permits) -> Self {
        Self(permits)
    }

    /// Sets the value. The permit stays taken, for there is nothing more to make.
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

/// Why a cell was not set; with the value.
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
