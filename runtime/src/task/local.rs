//! `task_local!`: values that a future carries along, whichever thread polls it.

use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;

use pin_project_lite::pin_project;

/// Declares [`LocalKey`]s: values that belong to a task rather than to a thread.
///
/// # Examples
/// ```
/// runtime::task_local! {
///     /// Who made the request.
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
                static SLOT: ::std::cell::RefCell<::std::option::Option<$ty>> =
                    const { ::std::cell::RefCell::new(::std::option::Option::None) };
            }
            $crate::task::LocalKey::__new(&SLOT)
        };
    };
}

/// A value that belongs to a task, declared by [`task_local!`](crate::task_local).
///
/// The value is there only inside [`scope`](Self::scope) and [`sync_scope`](Self::sync_scope); spawned tasks do not
/// inherit it.
pub struct LocalKey<T: 'static> {
    /// Holds the value while the future it belongs to is polled.
    slot: &'static thread::LocalKey<RefCell<Option<T>>>,
}

impl<T: 'static> LocalKey<T> {
    /// Used by the macro.
    #[doc(hidden)]
    pub const fn __new(slot: &'static thread::LocalKey<RefCell<Option<T>>>) -> Self {
        Self { slot }
    }

    /// Wraps `future` so that `value` is there while it is polled and dropped.
    ///
    /// # Cancel safety
    /// As safe as `future`; dropping it drops the value, too.
    pub fn scope<F: Future>(&'static self, value: T, future: F) -> TaskLocalFuture<T, F> {
        TaskLocalFuture { key: self, value: Some(value), future: Some(future) }
    }

    /// Calls `f` while `value` is there.
    ///
    /// # Panics
    /// If the key is borrowed at the moment, that is, called from within [`with`](Self::with).
    #[track_caller]
    pub fn sync_scope<R>(&'static self, value: T, f: impl FnOnce() -> R) -> R {
        let mut value = Some(value);
        match self.swapped(&mut value, f) {
            Ok(result) => result,
            Err(error) => panic!("`sync_scope` cannot set a task-local: {error}"),
        }
    }

    /// Calls `f` with the value.
    ///
    /// # Panics
    /// If there is no value; see [`try_with`](Self::try_with).
    #[track_caller]
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        match self.try_with(f) {
            Ok(result) => result,
            Err(error) => {
                panic!("{error}: call it in a future wrapped by `LocalKey::scope`, or use `try_with`")
            }
        }
    }

    /// Calls `f` with the value.
    ///
    /// # Errors
    /// [`AccessError`] if there is none here; `f` has then not been called.
    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        let access = |slot: &RefCell<Option<T>>| slot.borrow().as_ref().map(f).ok_or(AccessError(()));
        self.slot.try_with(access).unwrap_or(Err(AccessError(())))
    }

    /// Returns a copy of the value.
    ///
    /// # Panics
    /// If there is no value.
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
    /// [`AccessError`] if there is none here.
    pub fn try_get(&'static self) -> Result<T, AccessError>
    where
        T: Clone,
    {
        self.try_with(T::clone)
    }

    /// Calls `f` with `value` in the slot, and swaps it out again, also if `f` panics.
    fn swapped<R>(&'static self, value: &mut Option<T>, f: impl FnOnce() -> R) -> Result<R, AccessError> {
        struct Back<'a, T: 'static>(&'static LocalKey<T>, &'a mut Option<T>);
        impl<T> Drop for Back<'_, T> {
            fn drop(&mut self) {
                // Neither fails: it worked a moment ago, and a thread that ends does not poll.
                self.0.swap(self.1).ok();
            }
        }
        self.swap(value)?;
        let _back = Back(self, value);
        Ok(f())
    }

    fn swap(&'static self, value: &mut Option<T>) -> Result<(), AccessError> {
        let swap = |slot: &RefCell<Option<T>>| match slot.try_borrow_mut() {
            Ok(mut slot) => {
                std::mem::swap(&mut *slot, value);
                Ok(())
            }
            Err(_) => Err(AccessError(())),
        };
        self.slot.try_with(swap).unwrap_or(Err(AccessError(())))
    }
}

impl<T: 'static> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalKey").finish_non_exhaustive()
    }
}

pin_project! {
    /// A future that carries a task-local value; made by [`LocalKey::scope`].
    #[must_use = "futures do nothing unless awaited"]
    pub struct TaskLocalFuture<T: 'static, F> {
        key: &'static LocalKey<T>,
        value: Option<T>,
        #[pin]
        future: Option<F>,
    }

    impl<T: 'static, F> PinnedDrop for TaskLocalFuture<T, F> {
        fn drop(this: Pin<&mut Self>) {
            // The future may use the value in its destructor.
            let mut this = this.project();
            if this.future.is_some() {
                let mut future = this.future.as_mut();
                this.key.swapped(this.value, || future.set(None)).ok();
            }
        }
    }
}

impl<T: 'static, F> TaskLocalFuture<T, F> {
    /// Takes the value out; the future then runs without.
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
        let polled = this.key.swapped(this.value, || {
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

impl<T: 'static, F> fmt::Debug for TaskLocalFuture<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskLocalFuture").finish_non_exhaustive()
    }
}

/// The error of [`LocalKey::try_with`]: no value here, or it is borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessError(());

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the task-local has no value here")
    }
}

impl Error for AccessError {}
