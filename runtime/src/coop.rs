//! The budget that makes a busy task yield, and the thread's record of the poll it is in.
//!
//! A task whose sockets and channels are always ready would never return `Pending` and keep its worker for ever.
//! So each poll of a task starts with a budget of 128; each operation of a leaf future of this crate that makes
//! progress costs one; at zero the leaf futures answer `Pending` and have the task queued again.
//!
//! The record (which task is being polled, what is left of its budget, whether it asked to be queued again) belongs
//! to the thread, not to the worker: it is saved and cleared around everything that runs foreign code with a stack
//! of its own, such as a nested `block_on`.
//!
//! Prior art: Tokio's `coop` module, whose names these are.

use std::cell::Cell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::ptr::{self, null_mut};
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, RawWakerVTable, Waker, ready};

use pin_project_lite::pin_project;

use crate::loom::thread_cell;

/// The second word of the wakers of all tasks: told by `task`, which this module does not know, before the first poll, so
/// that a poll need not store it.
static TASK_VTABLE: AtomicPtr<RawWakerVTable> = AtomicPtr::new(null_mut());

/// Operations of leaf futures that one poll of a task may complete.
const BUDGET: u8 = 128;

/// What a thread knows of the poll it is in.
#[derive(Debug)]
pub struct PollState {
    /// Operations left; `None` when nothing limits them.
    budget: Cell<Option<u8>>,
    /// The first word of the waker of the task being polled; null outside of a poll. The second is [`TASK_VTABLE`].
    data: Cell<*const ()>,
    /// The task asked to be queued again as soon as its poll returns `Pending`.
    is_yielding: Cell<bool>,
}

impl PollState {
    const fn new() -> Self {
        Self { budget: Cell::new(None), data: Cell::new(std::ptr::null()), is_yielding: Cell::new(false) }
    }

    fn restore(&self, saved: &Saved) {
        self.budget.set(saved.budget);
        self.data.set(saved.data);
        self.is_yielding.set(saved.is_yielding);
    }

    fn save(&self) -> Saved {
        Saved { budget: self.budget.get(), data: self.data.get(), is_yielding: self.is_yielding.get() }
    }
}

/// A copy of the thread's record, put back when dropped.
struct Saved {
    budget: Option<u8>,
    data: *const (),
    is_yielding: bool,
}

impl Drop for Saved {
    fn drop(&mut self) {
        STATE.with(|state| state.restore(self));
    }
}

thread_cell! {
    static STATE: PollState = PollState::new();
}

/// Tells which vtable the wakers have that are given to [`poll_task`].
pub(crate) fn set_task_vtable(vtable: &'static RawWakerVTable) {
    TASK_VTABLE.store((&raw const *vtable).cast_mut(), Relaxed);
}

/// Runs `f` as the poll of the task behind `waker`, with a fresh budget, and says whether the task asked to be queued
/// again.
///
/// `f` must not unwind: the caller catches panics inside.
#[inline]
pub(crate) fn poll_task<R>(waker: &Waker, f: impl FnOnce() -> R) -> (R, bool) {
    STATE.with(|state| {
        state.budget.set(Some(BUDGET));
        state.data.set(waker.data());
        state.is_yielding.set(false);
        let result = f();
        state.budget.set(None);
        state.data.set(std::ptr::null());
        (result, state.is_yielding.get())
    })
}

/// Runs `f` as foreign code on a stack of its own: no task, no budget; the record is put back afterwards.
pub(crate) fn suspended<R>(f: impl FnOnce() -> R) -> R {
    let _saved = STATE.with(|state| {
        let saved = state.save();
        state.budget.set(None);
        state.data.set(std::ptr::null());
        saved
    });
    f()
}

/// Runs `f`, a poll of a `block_on` future, with a fresh budget.
pub(crate) fn with_budget<R>(f: impl FnOnce() -> R) -> R {
    let _saved = STATE.with(|state| {
        let saved = state.save();
        state.budget.set(Some(BUDGET));
        state.data.set(std::ptr::null());
        saved
    });
    f()
}

/// Whether the calling thread is inside a poll of a task (and not in a nested `block_on` or a blocking closure).
pub(crate) fn is_polling_task() -> bool {
    STATE.with(|state| !state.data.get().is_null())
}

/// The data word of the waker of the task being polled, or null.
#[inline]
pub(crate) fn current_task_data() -> *const () {
    STATE.with(|state| state.data.get())
}

/// Has the task behind `waker` polled again, after others had their turn.
///
/// Any waker that is not that of the task being polled (but of `block_on`, or wrapped by a combinator) is woken.
#[inline]
pub(crate) fn yield_to_others(waker: &Waker) {
    // Relaxed: whoever polls a task got it from a runtime that was built after the store. Without it the waker is woken.
    let is_of_task = ptr::eq(waker.vtable(), TASK_VTABLE.load(Relaxed));
    if !(is_of_task && requeue_current(waker.data())) {
        waker.wake_by_ref();
    }
}

/// Has the task whose waker has this `data` queued again by its worker when its poll returns, if it is the task being polled; says
/// whether it is.
///
/// So a task that wakes itself costs a flag: what it wrote before, the thread that polls it has written.
#[inline]
pub(crate) fn requeue_current(data: *const ()) -> bool {
    STATE.with(|state| {
        let is_current = state.data.get() == data;
        if is_current {
            state.is_yielding.set(true);
        }
        is_current
    })
}

/// Takes one operation from the budget, or answers `Pending` and has the task polled again later.
///
/// A leaf future calls this first, and [`RestoreOnPending::made_progress`] once its operation completed; without
/// that, dropping the result gives the operation back.
///
/// # Examples
/// A future of your own that takes part:
/// ```
/// use std::task::{Context, Poll, ready};
/// use runtime::task::coop::poll_proceed;
///
/// fn poll_next(cx: &mut Context<'_>, queue: &mut Vec<u32>) -> Poll<u32> {
///     let coop = ready!(poll_proceed(cx));
///     match queue.pop() {
///         Some(item) => {
///             coop.made_progress();
///             Poll::Ready(item)
///         }
///         None => Poll::Pending,
///     }
/// }
/// ```
#[inline]
pub fn poll_proceed(cx: &mut Context<'_>) -> Poll<RestoreOnPending> {
    STATE.with(|state| match state.budget.get() {
        None => Poll::Ready(RestoreOnPending { before: Cell::new(None) }),
        Some(0) => {
            yield_to_others(cx.waker());
            Poll::Pending
        }
        Some(left) => {
            state.budget.set(Some(left - 1));
            Poll::Ready(RestoreOnPending { before: Cell::new(Some(left)) })
        }
    })
}

/// Answers `Pending`, and has the task polled again later, if the budget is used up.
///
/// As [`poll_proceed`] for those who [`spend`] the operation once it has completed: there is nothing to give back then, which is
/// cheaper for what mostly does not complete.
#[inline]
pub(crate) fn poll_has_budget(cx: &mut Context<'_>) -> Poll<()> {
    if has_budget_remaining() {
        return Poll::Ready(());
    }
    yield_to_others(cx.waker());
    Poll::Pending
}

/// Takes one operation from the budget, for one that need not wait and has been done already.
///
/// With [`has_budget_remaining`] before it, this is [`poll_proceed`] without a `Context` or a way back.
#[inline(always)]
pub(crate) fn spend() {
    STATE.with(|state| {
        if let Some(left) = state.budget.get() {
            state.budget.set(Some(left.saturating_sub(1)));
        }
    });
}

/// One operation taken from the budget; given back when dropped, unless it [made
/// progress](RestoreOnPending::made_progress).
#[derive(Debug)]
#[must_use]
pub struct RestoreOnPending {
    /// The budget before the operation, if there was one and it is to be given back.
    before: Cell<Option<u8>>,
}

impl RestoreOnPending {
    /// Keeps the operation taken.
    #[inline]
    pub fn made_progress(&self) {
        self.before.set(None);
    }
}

impl Drop for RestoreOnPending {
    #[inline]
    fn drop(&mut self) {
        if let Some(before) = self.before.get() {
            STATE.with(|state| state.budget.set(Some(before)));
        }
    }
}

/// Says whether the running task may complete more operations before it must yield.
///
/// True outside of a task and inside [`unconstrained`].
///
/// # Examples
/// ```
/// assert!(runtime::task::coop::has_budget_remaining());
/// ```
#[inline]
pub fn has_budget_remaining() -> bool {
    STATE.with(|state| state.budget.get() != Some(0))
}

/// Takes one operation from the budget and, if it is used up, lets other tasks run first.
///
/// For loops that compute and never wait: call it once a round.
///
/// # Cancel safety
/// Safe: nothing is lost when it is dropped.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let mut sum = 0_u64;
/// for n in 0..1000 {
///     sum += n;
///     runtime::task::coop::consume_budget().await;
/// }
/// # assert_eq!(sum, 499_500);
/// # });
/// ```
pub async fn consume_budget() {
    poll_fn(|cx| {
        let coop = ready!(poll_proceed(cx));
        coop.made_progress();
        Poll::Ready(())
    })
    .await;
}

/// Switches the budget off while `future` is polled.
///
/// A future that is always ready then keeps its worker for ever; its neighbours starve.
///
/// # Cancel safety
/// As safe as `future`.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let sum = runtime::task::coop::unconstrained(async { 1 + 1 }).await;
/// # assert_eq!(sum, 2);
/// # });
/// ```
pub fn unconstrained<F>(future: F) -> Unconstrained<F> {
    Unconstrained { future }
}

pin_project! {
    /// The future returned by [`unconstrained`].
    #[must_use = "futures do nothing unless awaited"]
    #[derive(Debug)]
    pub struct Unconstrained<F> {
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for Unconstrained<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        struct Restore(Option<u8>);
        impl Drop for Restore {
            fn drop(&mut self) {
                STATE.with(|state| state.budget.set(self.0));
            }
        }
        let _restore = Restore(STATE.with(|state| state.budget.replace(None)));
        self.project().future.poll(cx)
    }
}

/// Makes `future` take one operation from the budget each time it completes, for leaf futures written elsewhere.
///
/// # Cancel safety
/// As safe as `future`.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let sum = runtime::task::coop::cooperative(async { 1 + 1 }).await;
/// # assert_eq!(sum, 2);
/// # });
/// ```
pub fn cooperative<F: Future>(future: F) -> Coop<F> {
    Coop { future }
}

pin_project! {
    /// The future returned by [`cooperative`].
    #[must_use = "futures do nothing unless awaited"]
    pub struct Coop<F> {
        #[pin]
        future: F,
    }
}

impl<F> fmt::Debug for Coop<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coop").finish_non_exhaustive()
    }
}

impl<F: Future> Future for Coop<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let coop = ready!(poll_proceed(cx));
        let result = self.project().future.poll(cx);
        if result.is_ready() {
            coop.made_progress();
        }
        result
    }
}
