//! The handles and the error that a spawner gets for a task: a handle that waits for its output, a handle
//! that only cancels it, and the reason why there is no output.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker, ready};

use super::cell::Header;
use super::failure::Failure;
use super::id::Id;
use super::raw::drop_reference;
use super::state::AfterDetach;
use crate::coop;
use crate::util::as_tokio;
use crate::util::unwind::{Payload, drop_quietly};

/// Waits for a task's output: a future that yields it.
///
/// Dropping the handle detaches the task: it runs on, and its output is dropped when it ends.
///
/// # Errors
/// The future yields a [`JoinError`] if the task panicked or was cancelled.
///
/// # Cancel safety
/// Safe: a handle that is awaited by `&mut` and dropped from a `select!` can be awaited again.
///
/// # Panics
/// If it is polled after it has yielded its result.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let handle = runtime::spawn(async { 6 * 7 });
/// assert_eq!(handle.await.unwrap(), 42);
/// # });
/// ```
pub struct JoinHandle<T> {
    /// A reference, and the right that the `JOIN` bit stands for.
    header: NonNull<Header>,
    output: PhantomData<T>,
}

// SAFETY: the handle moves the output to the thread that takes or drops it. It touches nothing else but the
// header.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: through `&JoinHandle` only the header's atomics are reached.
unsafe impl<T: Send> Sync for JoinHandle<T> {}
impl<T> Unpin for JoinHandle<T> {}
impl<T> UnwindSafe for JoinHandle<T> {}
impl<T> RefUnwindSafe for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    /// # Safety
    /// 1. `header` is a cell whose output is a `T`. 2. The caller gives up the handle's reference.
    pub(super) unsafe fn from_raw(header: NonNull<Header>) -> Self {
        Self { header, output: PhantomData }
    }

    fn header(&self) -> &Header {
        // SAFETY: the handle's reference keeps the cell live.
        unsafe { self.header.as_ref() }
    }

    /// Asks the runtime to cancel the task, and does not wait for that. A task that waits is queued, and the
    /// thread that takes it from the queue drops its future instead of polling it. The future of a task that
    /// is being polled is dropped at the task's next yield.
    ///
    /// The handle then yields an error whose [`is_cancelled`](JoinError::is_cancelled) is true, unless the
    /// task completed first. A closure of `spawn_blocking` is cancelled only if it has not begun.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let handle = runtime::spawn(std::future::pending::<()>());
    /// handle.abort();
    /// assert!(handle.await.unwrap_err().is_cancelled());
    /// # });
    /// ```
    pub fn abort(&self) {
        // SAFETY: the handle's reference keeps the cell live for the call.
        unsafe { abort(self.header) }
    }

    /// Returns a handle that can cancel the task, and that does not keep its output.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let handle = runtime::spawn(std::future::pending::<()>());
    /// let abort = handle.abort_handle();
    /// abort.abort();
    /// assert!(handle.await.unwrap_err().is_cancelled());
    /// # });
    /// ```
    pub fn abort_handle(&self) -> AbortHandle {
        self.header().state.add_reference();
        AbortHandle { header: self.header }
    }

    /// Returns whether the task has ended: whether it completed, panicked or was cancelled.
    ///
    /// A task that was aborted is not finished until its future has been dropped.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let handle = runtime::spawn(async {});
    /// assert!(!handle.is_finished());
    /// runtime::task::yield_now().await;
    /// assert!(handle.is_finished());
    /// # });
    /// ```
    pub fn is_finished(&self) -> bool {
        self.header().state.load().is_done()
    }

    /// Returns the id of the task.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let handle = runtime::spawn(async { runtime::task::id() });
    /// let id = handle.id();
    /// assert_eq!(handle.await.unwrap(), id);
    /// # });
    /// ```
    pub fn id(&self) -> Id {
        Id(self.header().id)
    }

    /// Has the task's completer wake `waker`, once. Returns it if the task is done already. For a handle that
    /// was not polled.
    pub(crate) fn set_waker(&mut self, waker: Waker) -> Result<(), Waker> {
        let Header { state, join_waker, .. } = self.header();
        let now = state.load();
        debug_assert!(!now.has_join_waker(), "for a handle that was not polled");
        if now.is_done() {
            return Err(waker);
        }
        // SAFETY: JOIN_WAKER is unset, so the slot is the handle's.
        join_waker.with_mut(|slot| unsafe { *slot = Some(waker) });
        if state.set_join_waker() {
            return Ok(());
        }
        // SAFETY: as before: the completer did not see JOIN_WAKER, so it leaves the slot alone.
        Err(join_waker.with_mut(|slot| unsafe { (*slot).take() }).expect("set above"))
    }

    /// The result of a task whose completer has woken the waker of [`set_waker`](Self::set_waker), or that
    /// was done before.
    pub(crate) fn take_result(&mut self) -> Result<T, JoinError> {
        assert!(self.is_finished(), "a task's completer wakes after `DONE`");
        // SAFETY: `DONE` was just seen with an acquire.
        match unsafe { self.take_output() } {
            Poll::Ready(result) => result,
            Poll::Pending => unreachable!("`take_output` is ready"),
        }
    }

    /// # Safety
    /// 1. The caller saw `DONE` with an acquire.
    #[inline(always)]
    unsafe fn take_output(&self) -> Poll<Result<T, JoinError>> {
        let mut output = MaybeUninit::<Poll<_>>::uninit();
        // SAFETY: (1), and this is the handle; `output` has the type that `take_output` writes.
        unsafe {
            (self.header().vtable.take_output)(self.header, output.as_mut_ptr().cast());
            output.assume_init()
        }
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        ready!(coop::poll_has_budget(cx));
        let header = self.header();
        // SAFETY: (1) this is the handle.
        if !header.state.load().is_done() && !unsafe { poll_done(header, cx) } {
            return Poll::Pending;
        }
        coop::spend();
        // SAFETY: `DONE` was seen with an acquire.
        unsafe { self.take_output() }
    }
}

/// Returns whether the task is done; if not, its completer will wake `cx`. It is a function of its own,
/// because mostly a handle is polled twice, and the second time the task is done.
///
/// # Safety
/// 1. The caller is the task's handle.
#[inline(never)]
unsafe fn poll_done(header: &Header, cx: &mut Context<'_>) -> bool {
    let now = header.state.load();
    if now.is_done() {
        return true;
    }
    // The waker may be touched while JOIN_WAKER is unset and DONE was not seen, because `try_complete` leaves
    // it alone then.
    if now.has_join_waker() && !header.state.unset_join_waker() {
        return true;
    }
    let replaced = header.join_waker.with_mut(|slot| {
        // SAFETY: JOIN_WAKER is unset, so by (1) the slot is the handle's, and there is one handle.
        let slot = unsafe { &mut *slot };
        match slot {
            Some(waker) if waker.will_wake(cx.waker()) => None,
            _ => slot.replace(cx.waker().clone()),
        }
    });
    let is_done = !header.state.set_join_waker();
    // Foreign code, so last.
    drop(replaced);
    if is_done {
        // SAFETY: (1) is our (1). (2) The waker was not set, because the task is done.
        unsafe { drop_late_waker(header) };
    }
    is_done
}

/// Drops the waker that the handle has put into the slot too late.
///
/// # Safety
/// 1. The caller is the task's handle. 2. The task was done before JOIN_WAKER could be set.
#[cold]
#[inline(never)]
unsafe fn drop_late_waker(header: &Header) {
    // SAFETY: by (2) the completer has left the slot to the handle, which is (1).
    drop(header.join_waker.with_mut(|slot| unsafe { (*slot).take() }));
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        let header = self.header();
        match header.state.detach() {
            AfterDetach::Nothing => return,
            AfterDetach::DropWaker => {
                // SAFETY: `JOIN` and `JOIN_WAKER` are unset, so no other thread touches the slot. The handle
                // still has its reference.
                drop_quietly(header.join_waker.with_mut(|slot| unsafe { (*slot).take() }));
            }
            // SAFETY: `DONE` was seen with an acquire, and this is the handle.
            AfterDetach::DropOutput => unsafe { (header.vtable.drop_output)(self.header) },
        }
        // SAFETY: except for `Nothing`, the handle's reference is still ours.
        unsafe { drop_reference(self.header) }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("id", &self.id()).finish()
    }
}

/// Cancels a task, without the right to its output. Made by [`JoinHandle::abort_handle`].
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let handle = runtime::spawn(std::future::pending::<()>());
/// let abort = handle.abort_handle();
/// assert_eq!(abort.id(), handle.id());
/// abort.clone().abort();
/// assert!(handle.await.unwrap_err().is_cancelled());
/// assert!(abort.is_finished());
/// # });
/// ```
pub struct AbortHandle {
    /// A reference.
    header: NonNull<Header>,
}

// SAFETY: the handle reaches only the header's atomics. The last reference may be dropped on any thread,
// because by then the future is gone and the output, if any, was `Send` or dropped.
unsafe impl Send for AbortHandle {}
// SAFETY: as above.
unsafe impl Sync for AbortHandle {}
impl UnwindSafe for AbortHandle {}
impl RefUnwindSafe for AbortHandle {}

impl AbortHandle {
    fn header(&self) -> &Header {
        // SAFETY: the handle's reference keeps the cell live.
        unsafe { self.header.as_ref() }
    }

    /// Cancels the task, as [`JoinHandle::abort`].
    pub fn abort(&self) {
        // SAFETY: the handle's reference keeps the cell live for the call.
        unsafe { abort(self.header) }
    }

    /// Returns whether the task has ended, as [`JoinHandle::is_finished`].
    pub fn is_finished(&self) -> bool {
        self.header().state.load().is_done()
    }

    /// Returns the id of the task.
    pub fn id(&self) -> Id {
        Id(self.header().id)
    }
}

impl Clone for AbortHandle {
    fn clone(&self) -> Self {
        self.header().state.add_reference();
        Self { header: self.header }
    }
}

impl Drop for AbortHandle {
    fn drop(&mut self) {
        // SAFETY: the reference is the handle's to drop.
        unsafe { drop_reference(self.header) }
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortHandle").field("id", &self.id()).finish()
    }
}

/// # Safety
/// 1. The caller has a reference until this returns.
unsafe fn abort(header: NonNull<Header>) {
    // SAFETY: (1) keeps the cell live, and with it the scheduler. If `cancel` returns true, we own
    // `SCHEDULED`.
    unsafe {
        let Header { state, vtable, .. } = header.as_ref();
        let seen = state.load();
        if state.cancel() {
            (vtable.schedule)(header);
        } else if seen.is_scheduled() && !seen.is_done() {
            (vtable.hurry)(header);
        }
    }
}

/// The reason why a task has no output: it was cancelled, or it panicked. The text names the line that
/// spawned the task.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let error = runtime::spawn(async { panic!("boom") }).await.unwrap_err();
/// assert!(error.is_panic());
/// # });
/// ```
pub struct JoinError {
    id: u64,
    spawned_at: &'static Location<'static>,
    failure: Failure,
}

// SAFETY: a `&JoinError` gives access to the payload only through its text, which is a plain string.
unsafe impl Sync for JoinError {}

impl JoinError {
    pub(super) fn new(id: u64, spawned_at: &'static Location<'static>, failure: Failure) -> Self {
        Self { id, spawned_at, failure }
    }

    /// Returns whether the task was cancelled. It is cancelled by `abort`, by the shutdown of its runtime, or
    /// if its runtime was shut down when it was spawned. A blocking closure is cancelled also if the system
    /// refuses a thread for it.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let handle = runtime::spawn(std::future::pending::<()>());
    /// handle.abort();
    /// let error = handle.await.unwrap_err();
    /// assert!(error.is_cancelled() && !error.is_panic());
    /// # });
    /// ```
    pub fn is_cancelled(&self) -> bool {
        !self.is_panic()
    }

    /// Returns whether the task panicked, in its future or in its future's destructor.
    pub fn is_panic(&self) -> bool {
        matches!(self.failure, Failure::Panic(_))
    }

    /// Returns the payload of the panic, for `std::panic::resume_unwind`.
    ///
    /// # Panics
    /// If the task did not panic; see [`try_into_panic`](Self::try_into_panic).
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let error = runtime::spawn(async { panic!("boom") }).await.unwrap_err();
    /// assert_eq!(error.into_panic().downcast_ref(), Some(&"boom"));
    /// # });
    /// ```
    #[track_caller]
    pub fn into_panic(self) -> Box<dyn Any + Send + 'static> {
        match self.try_into_panic() {
            Ok(payload) => payload,
            Err(error) => panic!("`into_panic` needs a task that panicked; {error}: ask `is_panic` first"),
        }
    }

    /// Returns the payload of the panic.
    ///
    /// # Errors
    /// The error itself, if the task did not panic.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let handle = runtime::spawn(std::future::pending::<()>());
    /// handle.abort();
    /// let error = handle.await.unwrap_err().try_into_panic().unwrap_err();
    /// assert!(error.is_cancelled());
    /// # });
    /// ```
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send + 'static>, Self> {
        match self.failure {
            Failure::Panic(payload) => Ok(payload),
            _ => Err(self),
        }
    }

    /// Returns the id of the task.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let handle = runtime::spawn(async { panic!("boom") });
    /// let id = handle.id();
    /// assert_eq!(handle.await.unwrap_err().id(), id);
    /// # });
    /// ```
    pub fn id(&self) -> Id {
        Id(self.id)
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}, spawned at {}, ", self.id, self.spawned_at)?;
        match &self.failure {
            Failure::Cancelled => f.write_str("was cancelled"),
            Failure::Refused(error) => {
                write!(f, "was not started: no thread for blocking closures: {error}")
            }
            Failure::Panic(payload) => match text_of(payload) {
                Some(text) => write!(f, "panicked with message {text:?}"),
                None => f.write_str("panicked"),
            },
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.failure, as_tokio::IS_STRICT) {
            (_, false) => write!(f, "JoinError({self})"),
            (Failure::Panic(payload), true) => match text_of(payload) {
                Some(text) => write!(f, "JoinError::Panic({:?}, {text:?}, ...)", self.id()),
                None => write!(f, "JoinError::Panic({:?}, ...)", self.id()),
            },
            (_, true) => write!(f, "JoinError::Cancelled({:?})", self.id()),
        }
    }
}

impl std::error::Error for JoinError {}

impl From<JoinError> for io::Error {
    fn from(error: JoinError) -> Self {
        Self::other(error)
    }
}

/// The text of a panic, if it carries one.
fn text_of(payload: &Payload) -> Option<&str> {
    payload.downcast_ref::<String>().map(String::as_str).or_else(|| payload.downcast_ref::<&str>().copied())
}
