//! `task_local!`: values that belong to a future, on every thread that polls it.
//!
//! A value lies in its scope: in the frame of `sync_scope`, or in the future. A thread's [`LocalSlot`] points
//! to the value of the innermost scope. Every scope restores the pointer of the scope around it. So a reader
//! needs no lock, and may begin another scope while it reads.
//!
//! The slot also says in which *surroundings* (`scheduler/context.rs`) its scope began. A job that runs on
//! the stack of another call has surroundings of its own, and finds no value there.

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::ptr::null;
use std::task::{Context, Poll};
use std::thread;

use pin_project_lite::pin_project;

use crate::util::surroundings::surroundings;

/// Declares [`LocalKey`]s: values that belong to a task rather than to a thread.
///
/// # Examples
/// ```
/// runtime::task_local! {
///     /// The user that made the request.
///     static USER: String;
/// }
///
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// USER.scope("ada".to_owned(), async {
///     runtime::task::yield_now().await;
///     USER.with(|user| assert_eq!(user, "ada"));
/// })
/// .await;
/// # });
/// ```
///
/// Prior art: `tokio::task_local!`.
#[macro_export]
macro_rules! task_local {
    () => {};
    ($(#[$attr:meta])* $vis:vis static $name:ident: $ty:ty; $($rest:tt)*) => {
        $crate::task_local!($(#[$attr])* $vis static $name: $ty);
        $crate::task_local!($($rest)*);
    };
    ($(#[$attr:meta])* $vis:vis static $name:ident: $ty:ty) => {
        $(#[$attr])*
        $vis static $name: $crate::task::LocalKey<$ty> = {
            ::std::thread_local! {
                static SLOT: $crate::__private::LocalSlot<$ty> =
                    const { $crate::__private::LocalSlot::new() };
            }
            $crate::task::LocalKey::__new(&SLOT)
        };
    };
}

/// A value that belongs to a task, declared by [`task_local!`](crate::task_local).
///
/// The value exists only inside [`scope`](Self::scope) and [`sync_scope`](Self::sync_scope). Spawned tasks do
/// not inherit it.
pub struct LocalKey<T: 'static> {
    /// Points to the value while the future that owns it is polled.
    slot: &'static thread::LocalKey<LocalSlot<T>>,
}

impl<T: 'static> LocalKey<T> {
    /// Used by the macro.
    #[doc(hidden)]
    pub const fn __new(slot: &'static thread::LocalKey<LocalSlot<T>>) -> Self {
        Self { slot }
    }

    /// Wraps `future` so that it finds `value` while it is polled and dropped.
    ///
    /// # Cancel safety
    /// As safe as `future`. If the result is dropped, so is the value.
    ///
    /// # Examples
    /// ```
    /// runtime::task_local! {
    ///     static DEPTH: u32;
    /// }
    ///
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let depth = DEPTH.scope(1, async {
    ///     let inner = DEPTH.scope(2, async { DEPTH.get() }).await;
    ///     (DEPTH.get(), inner)
    /// });
    /// assert_eq!(depth.await, (1, 2));
    /// # });
    /// ```
    pub fn scope<F: Future>(&'static self, value: T, future: F) -> TaskLocalFuture<T, F> {
        TaskLocalFuture { key: self, value: Some(value), future: Some(future), pinned: PhantomPinned }
    }

    /// Calls `f`, which finds `value`. Returns what `f` returns.
    ///
    /// It may be called from within [`with`](Self::with), where Tokio's panics.
    ///
    /// # Panics
    /// If the thread is ending and its thread-locals are gone.
    ///
    /// # Examples
    /// ```
    /// runtime::task_local! {
    ///     static USER: String;
    /// }
    ///
    /// let greeting = USER.sync_scope("ada".to_owned(), || USER.with(|user| format!("hello, {user}")));
    /// assert_eq!(greeting, "hello, ada");
    /// ```
    #[track_caller]
    pub fn sync_scope<R>(&'static self, value: T, f: impl FnOnce() -> R) -> R {
        match self.in_scope(&raw const value, f) {
            Ok(result) => result,
            Err(error) => panic!("`sync_scope` cannot set a task-local: {error}"),
        }
    }

    /// Calls `f` with the value. Returns what `f` returns.
    ///
    /// # Panics
    /// If there is no value here; see [`try_with`](Self::try_with).
    ///
    /// # Examples
    /// ```
    /// runtime::task_local! {
    ///     static USER: String;
    /// }
    ///
    /// let len = USER.sync_scope("ada".to_owned(), || USER.with(String::len));
    /// assert_eq!(len, 3);
    /// ```
    #[track_caller]
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        match self.try_with(f) {
            Ok(result) => result,
            Err(error) => {
                panic!("{error}: call it in a future wrapped by `LocalKey::scope`, or use `try_with`")
            }
        }
    }

    /// Calls `f` with the value. Returns what `f` returns.
    ///
    /// # Errors
    /// [`AccessError`] if there is no value here; `f` has then not been called.
    ///
    /// # Examples
    /// ```
    /// runtime::task_local! {
    ///     static USER: String;
    /// }
    ///
    /// assert!(USER.try_with(String::len).is_err());
    /// assert_eq!(USER.sync_scope("ada".to_owned(), || USER.try_with(String::len)), Ok(3));
    /// ```
    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        let value = self.slot.try_with(LocalSlot::value).map_err(|_| AccessError(()))?;
        // SAFETY: a scope that has not returned on this thread's stack set the pointer. It restores the older
        // pointer when it returns, and keeps the value until then: in its frame, or in a future that is
        // pinned and borrowed exclusively.
        unsafe { value.as_ref() }.map(f).ok_or(AccessError(()))
    }

    /// Returns a copy of the value.
    ///
    /// # Panics
    /// If there is no value here; see [`try_get`](Self::try_get).
    ///
    /// # Examples
    /// ```
    /// runtime::task_local! {
    ///     static DEPTH: u32;
    /// }
    ///
    /// assert_eq!(DEPTH.sync_scope(1, || DEPTH.get()), 1);
    /// ```
    #[track_caller]
    pub fn get(&'static self) -> T
    where
        T: Clone,
    {
        self.with(T::clone)
    }

    /// Returns a copy of the value.
    ///
    /// # Errors
    /// [`AccessError`] if there is no value here.
    ///
    /// # Examples
    /// ```
    /// runtime::task_local! {
    ///     static DEPTH: u32;
    /// }
    ///
    /// assert!(DEPTH.try_get().is_err());
    /// assert_eq!(DEPTH.sync_scope(1, || DEPTH.try_get()), Ok(1));
    /// ```
    pub fn try_get(&'static self) -> Result<T, AccessError>
    where
        T: Clone,
    {
        self.try_with(T::clone)
    }

    /// Calls `f` while the slot points to `value`, which is null for a scope whose value was taken.
    fn in_scope<R>(&'static self, value: *const T, f: impl FnOnce() -> R) -> Result<R, AccessError> {
        struct Leave<T: 'static>(&'static LocalKey<T>, (*const T, u64));
        impl<T> Drop for Leave<T> {
            fn drop(&mut self) {
                // This cannot fail: the slot has no destructor, and was accessible a moment ago.
                self.0.slot.try_with(|slot| slot.replace(self.1)).ok();
            }
        }
        let set = |slot: &LocalSlot<T>| slot.replace((value, surroundings()));
        let outer = self.slot.try_with(set).map_err(|_| AccessError(()))?;
        let _leave = Leave(self, outer);
        Ok(f())
    }
}

/// A thread's state for one key; see the module's docs.
#[derive(Debug)]
pub struct LocalSlot<T> {
    /// The value of the innermost scope, or null.
    value: Cell<*const T>,
    /// The surroundings in which that scope began.
    surroundings: Cell<u64>,
}

impl<T> LocalSlot<T> {
    /// Used by the macro.
    #[allow(clippy::new_without_default, reason = "a constant needs it")]
    pub const fn new() -> Self {
        Self { value: Cell::new(null()), surroundings: Cell::new(0) }
    }

    /// The value for the calling code, or null.
    fn value(&self) -> *const T {
        if self.surroundings.get() == surroundings() { self.value.get() } else { null() }
    }

    fn replace(&self, (value, surroundings): (*const T, u64)) -> (*const T, u64) {
        (self.value.replace(value), self.surroundings.replace(surroundings))
    }
}

impl<T: 'static> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalKey").finish_non_exhaustive()
    }
}

pin_project! {
    /// A future that carries a task-local value; made by [`LocalKey::scope`].
    ///
    /// # Panics
    /// If it is polled after it has completed, or while its thread is ending and the thread-locals are gone.
    #[must_use = "futures do nothing unless awaited"]
    pub struct TaskLocalFuture<T: 'static, F> {
        key: &'static LocalKey<T>,
        value: Option<T>,
        #[pin]
        future: Option<F>,
        // Not `Unpin`, as Tokio's, so that no program relies on `Unpin`.
        #[pin]
        pinned: PhantomPinned,
    }

    impl<T: 'static, F> PinnedDrop for TaskLocalFuture<T, F> {
        fn drop(this: Pin<&mut Self>) {
            // The future may use the value in its destructor.
            let mut this = this.project();
            if this.future.is_some() {
                let mut future = this.future.as_mut();
                this.key.in_scope(pointer(this.value), || future.set(None)).ok();
            }
        }
    }
}

impl<T: 'static, F> TaskLocalFuture<T, F> {
    /// Takes the value out of the future, which then runs without it. Returns `None` if it was taken before.
    ///
    /// # Examples
    /// ```
    /// runtime::task_local! {
    ///     static USER: String;
    /// }
    ///
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut greeting = std::pin::pin!(USER.scope("ada".to_owned(), async { USER.try_get().is_ok() }));
    /// assert_eq!(greeting.as_mut().take_value().as_deref(), Some("ada"));
    /// assert!(!greeting.await);
    /// # });
    /// ```
    pub fn take_value(self: Pin<&mut Self>) -> Option<T> {
        self.project().value.take()
    }
}

impl<T: 'static, F: Future> Future for TaskLocalFuture<T, F> {
    type Output = F::Output;

    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        let mut slot = this.future.as_mut();
        let polled = this.key.in_scope(pointer(this.value), || {
            let future =
                slot.as_mut().as_pin_mut().expect("polled a `TaskLocalFuture` after it had completed");
            let polled = future.poll(cx);
            if polled.is_ready() {
                slot.set(None);
            }
            polled
        });
        match polled {
            Ok(polled) => polled,
            Err(error) => panic!("a scope cannot set its task-local: {error}"),
        }
    }
}

/// A pointer to the value; null if it was taken.
fn pointer<T>(value: &Option<T>) -> *const T {
    value.as_ref().map_or(null(), |value| value)
}

impl<T: 'static, F> fmt::Debug for TaskLocalFuture<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskLocalFuture").finish_non_exhaustive()
    }
}

/// The error of [`LocalKey::try_with`] and [`LocalKey::try_get`]: the task-local has no value here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessError(());

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the task-local has no value here")
    }
}

impl Error for AccessError {}
