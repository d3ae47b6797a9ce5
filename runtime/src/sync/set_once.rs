//! A value that any task sets once, while other tasks wait for it. It is a `Once` without a permit
//! (`once.rs`): a task that waits for a permit never gets one, and is released when the value is there.

use std::fmt;

use super::once::{Once, act_as_option};
use crate::coop;
use crate::loom::const_fn;

/// A value that is set once, and for which many tasks may wait.
///
/// The waiting tasks do not know how to make the value, unlike those of a [`OnceCell`](super::OnceCell).
/// Reading a value that is there costs one load.
///
/// # Examples
/// ```
/// use runtime::sync::SetOnce;
///
/// static STARTED: SetOnce<u16> = SetOnce::const_new();
///
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// runtime::spawn(async { STARTED.set(8080).unwrap() });
/// assert_eq!(STARTED.wait().await, &8080);
/// # });
/// ```
pub struct SetOnce<T> {
    once: Once<T>,
}

act_as_option!(SetOnce);

impl<T> SetOnce<T> {
    /// Creates a `SetOnce` without a value.
    ///
    /// # Examples
    /// ```
    /// let once = runtime::sync::SetOnce::<i32>::new();
    /// assert!(once.get().is_none());
    /// ```
    pub fn new() -> Self {
        Self::const_new()
    }

    const_fn! {
        /// Creates a `SetOnce` without a value in a constant, for instance in a `static`.
        ///
        /// # Examples
        /// ```
        /// static NAME: runtime::sync::SetOnce<String> = runtime::sync::SetOnce::const_new();
        /// ```
        pub const fn const_new() -> Self {
            Self { once: Once::new(0) }
        }
    }

    /// Creates a `SetOnce` that holds `value`, or none for `None`.
    ///
    /// # Examples
    /// ```
    /// assert_eq!(runtime::sync::SetOnce::new_with(Some(1)).get(), Some(&1));
    /// ```
    pub fn new_with(value: Option<T>) -> Self {
        value.map_or_else(Self::new, Self::from)
    }

    const_fn! {
        /// Creates a `SetOnce` with `value` in a constant, for instance in a `static`.
        ///
        /// # Examples
        /// ```
        /// static LIMIT: runtime::sync::SetOnce<u32> = runtime::sync::SetOnce::const_new_with(100);
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
    /// assert!(!runtime::sync::SetOnce::<i32>::new().initialized());
    /// ```
    pub fn initialized(&self) -> bool {
        self.once.is_set()
    }

    /// Returns the value, or `None` if there is none.
    ///
    /// # Examples
    /// ```
    /// let once = runtime::sync::SetOnce::new();
    /// assert_eq!(once.get(), None);
    /// once.set(1).unwrap();
    /// assert_eq!(once.get(), Some(&1));
    /// ```
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.once.get()
    }

    /// Sets the value and wakes all tasks that wait for it, unless there is a value already.
    ///
    /// # Errors
    /// The new `value`, if there is a value already.
    ///
    /// # Examples
    /// ```
    /// let once = runtime::sync::SetOnce::new();
    /// once.set(1).unwrap();
    /// assert_eq!(once.set(2).unwrap_err().0, 2);
    /// ```
    pub fn set(&self, value: T) -> Result<(), SetOnceError<T>> {
        if self.initialized() {
            return Err(SetOnceError(value));
        }
        self.once.set(value).map_err(SetOnceError)
    }

    /// Returns the value, or `None` if there is none.
    ///
    /// # Examples
    /// ```
    /// assert_eq!(runtime::sync::SetOnce::from(1).into_inner(), Some(1));
    /// ```
    pub fn into_inner(self) -> Option<T> {
        self.once.into_inner()
    }

    /// Waits until there is a value.
    ///
    /// # Cancel safety
    /// Safe.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let once = std::sync::Arc::new(runtime::sync::SetOnce::new());
    /// let theirs = once.clone();
    /// runtime::spawn(async move { theirs.set(1).unwrap() });
    /// assert_eq!(once.wait().await, &1);
    /// # });
    /// ```
    pub async fn wait(&self) -> &T {
        if let Some(value) = self.get() {
            coop::spend();
            return value;
        }
        let closed = self.once.permits.take(1).await;
        debug_assert!(closed.is_err(), "there are no permits to take");
        self.get().expect("the permits are closed when there is a value")
    }
}

/// The error of [`SetOnce::set`]: there is a value already. It has the new value.
#[derive(Debug, PartialEq, Eq)]
pub struct SetOnceError<T>(pub T);

impl<T> fmt::Display for SetOnceError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value is already set")
    }
}

impl<T: fmt::Debug> std::error::Error for SetOnceError<T> {}
