//! The budget that makes a busy task yield, and the thread's record of the poll that it is in.
//!
//! A task whose sockets and channels are always ready would never return `Pending`, and would keep its worker
//! for ever. So each poll of a task starts with a budget of 128. Each operation of a leaf future of this
//! crate that makes progress costs one. At zero the leaf futures answer `Pending` and have the task queued
//! again.
//!
//! The record says which task is being polled, what is left of its budget, and whether it asked to be queued
//! again. It belongs to the thread, not to the worker. It is saved and cleared around everything that runs
//! foreign code with a stack of its own, such as a nested `block_on`.
//!
//! **Another executor's `block_on` in the poll of a task** has the task's budget, because nothing tells this
//! crate of it. At zero the executor would be woken, polled, and refused for ever. A combinator with a waker
//! of its own returns to the task after a few refusals. So a caller that is refused [`MOST_REFUSALS`] times
//! in one poll, each time with the same waker, is an executor. It gets a fresh budget. So does one whose
//! futures have wakers of their own, after [`MOST_IN_ALL`] refusals of any of them.
//!
//! Prior art: Tokio's `coop` module, which has the same names.

use std::cell::Cell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::Pin;
use std::ptr::{self, null_mut};
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, RawWakerVTable, Waker, ready};

use pin_project_lite::pin_project;

use crate::loom::thread_cell;

/// The second word of the wakers of all tasks, so that a poll need not store it. `task`, which this module
/// does not know, sets it before the first poll.
static TASK_VTABLE: AtomicPtr<RawWakerVTable> = AtomicPtr::new(null_mut());
/// The vtable of the wakers of `util/block_on.rs`.
static PARKER_VTABLE: AtomicPtr<RawWakerVTable> = AtomicPtr::new(null_mut());

/// The number of operations of leaf futures that one poll of a task may complete.
const BUDGET: u8 = 128;

/// The number of refusals of one waker in a poll, above which it counts as another executor's.
const MOST_REFUSALS: u8 = 8;

/// The number of all refusals in a poll, above which they count as those of another executor. A combinator
/// with so many futures goes on too long once in a while.
const MOST_IN_ALL: u16 = 1024;

/// The thread's record of the poll that it is in.
#[derive(Debug)]
pub struct PollState {
    /// The operations that are left; `None` when nothing limits them. A number above [`BUDGET`] means that
    /// none is left, and counts the refusals: see [`refuse`].
    budget: Cell<Option<u8>>,
    /// The first word of the waker of the task that is being polled; null outside of a poll. The second word
    /// is [`TASK_VTABLE`].
    data: Cell<*const ()>,
    /// Whether the task asked to be queued again as soon as its poll returns `Pending`.
    is_yielding: Cell<bool>,
    /// The first word of the waker that was refused last.
    refused: Cell<*const ()>,
    /// The number of refusals since the budget was used up.
    refusals: Cell<u16>,
}

impl PollState {
    const fn new() -> Self {
        Self {
            budget: Cell::new(None),
            data: Cell::new(std::ptr::null()),
            is_yielding: Cell::new(false),
            refused: Cell::new(std::ptr::null()),
            refusals: Cell::new(0),
        }
    }

    fn restore(&self, saved: &Saved) {
        self.budget.set(saved.budget);
        self.data.set(saved.data);
        self.is_yielding.set(saved.is_yielding);
        self.refused.set(saved.refused);
        self.refusals.set(saved.refusals);
    }

    fn save(&self) -> Saved {
        Saved {
            budget: self.budget.get(),
            data: self.data.get(),
            is_yielding: self.is_yielding.get(),
            refused: self.refused.get(),
            refusals: self.refusals.get(),
        }
    }
}

/// A copy of the thread's record, which is put back when this is dropped.
struct Saved {
    budget: Option<u8>,
    data: *const (),
    is_yielding: bool,
    refused: *const (),
    refusals: u16,
}

impl Drop for Saved {
    fn drop(&mut self) {
        STATE.with(|state| state.restore(self));
    }
}

thread_cell! {
    static STATE: PollState = PollState::new();
}

/// Sets the vtable of the wakers that are given to [`poll_task`].
pub(crate) fn set_task_vtable(vtable: &'static RawWakerVTable) {
    TASK_VTABLE.store((&raw const *vtable).cast_mut(), Relaxed);
}

/// Runs `f` as the poll of the task behind `waker`, with a fresh budget. Returns whether the task asked to be
/// queued again.
///
/// `f` must not unwind: the caller catches panics inside.
#[inline]
pub(crate) fn poll_task<R>(waker: &Waker, f: impl FnOnce() -> R) -> (R, bool) {
    begin_poll(waker.data());
    let result = f();
    (result, end_poll())
}

/// The first half of [`poll_task`]. The halves are compiled once, not for each future.
#[inline]
fn begin_poll(data: *const ()) {
    STATE.with(|state| {
        state.budget.set(Some(BUDGET));
        state.data.set(data);
        state.is_yielding.set(false);
    });
}

/// The second half of [`poll_task`]. Returns whether the task asked to be queued again.
#[inline]
fn end_poll() -> bool {
    STATE.with(|state| {
        state.budget.set(None);
        state.data.set(std::ptr::null());
        state.is_yielding.get()
    })
}

/// Runs `f` as foreign code on a stack of its own: without a task, without a budget. The record is put back
/// afterwards.
pub(crate) fn suspended<R>(f: impl FnOnce() -> R) -> R {
    let _saved = replace(None);
    f()
}

/// Runs `f`, a poll of a `block_on` future, with a fresh budget.
pub(crate) fn with_budget<R>(f: impl FnOnce() -> R) -> R {
    let _saved = replace(Some(BUDGET));
    f()
}

/// Sets the record of a thread that polls no task. It is compiled once, not for each closure.
fn replace(budget: Option<u8>) -> Saved {
    STATE.with(|state| {
        let saved = state.save();
        state.budget.set(budget);
        state.data.set(std::ptr::null());
        saved
    })
}

/// Whether the calling thread is inside a poll of a task, and not in a nested `block_on` or a blocking
/// closure.
pub(crate) fn is_polling_task() -> bool {
    STATE.with(|state| !state.data.get().is_null())
}

/// Whether the calling thread is inside a poll of a task or of a `block_on` future. [`unconstrained`] hides
/// the latter.
pub(crate) fn is_polling() -> bool {
    STATE.with(|state| !state.data.get().is_null() || state.budget.get().is_some())
}

/// The data word of the waker of the task that is being polled, or null.
#[inline]
pub(crate) fn current_task_data() -> *const () {
    STATE.with(|state| state.data.get())
}

/// Whether `waker` belongs to a task of this crate, of any runtime.
#[inline]
pub(crate) fn is_of_task(waker: &Waker) -> bool {
    // Relaxed: a caller with a waker of a task got it from a runtime that was built after the store.
    ptr::eq(waker.vtable(), TASK_VTABLE.load(Relaxed))
}

/// Wakes `waker`, which is no task's, if a dispatch may call it at once: if it is that of a `block_on` which
/// sleeps on its own, it takes no lock for long, and runs no foreign code. Returns whether it is.
#[cold]
#[inline(never)]
pub(crate) fn wake_if_harmless(waker: &Waker) -> bool {
    // Relaxed: as above.
    let is_harmless = ptr::eq(waker.vtable(), PARKER_VTABLE.load(Relaxed));
    if is_harmless {
        waker.wake_by_ref();
    }
    is_harmless
}

/// Notes that `waker` is that of a `block_on` which sleeps on its own.
#[inline]
pub(crate) fn introduce_parker(waker: &Waker) {
    let vtable = (&raw const *waker.vtable()).cast_mut();
    // If the compiler made several vtables, some of these wakers count as foreign.
    if !ptr::eq(PARKER_VTABLE.load(Relaxed), vtable) {
        PARKER_VTABLE.store(vtable, Relaxed);
    }
}

/// Has the task behind `waker` polled again, after other tasks had their turn.
///
/// A waker that does not belong to the task being polled is woken: that of a `block_on`, or one that a
/// combinator wraps.
#[inline]
pub(crate) fn yield_to_others(waker: &Waker) {
    if !(is_of_task(waker) && requeue_current(waker.data())) {
        waker.wake_by_ref();
    }
}

/// The budget is used up: has the task behind `waker` polled again later. Returns false if `waker` is another
/// executor's, which now has a fresh budget.
#[cold]
fn refuse(state: &PollState, waker: &Waker) -> bool {
    if is_of_task(waker) && requeue_current(waker.data()) {
        return true;
    }
    let before = state.budget.get().unwrap_or(0).saturating_sub(BUDGET);
    let refusals = if state.refused.replace(waker.data()) == waker.data() { before + 1 } else { 1 };
    let in_all = if before == 0 { 1 } else { state.refusals.get() + 1 };
    state.refusals.set(in_all);
    if refusals > MOST_REFUSALS || in_all > MOST_IN_ALL {
        state.budget.set(Some(BUDGET));
        return false;
    }
    state.budget.set(Some(BUDGET + refusals));
    waker.wake_by_ref();
    true
}

/// Whether `budget` allows one more operation.
#[inline(always)]
fn is_left(budget: u8) -> bool {
    budget.wrapping_sub(1) < BUDGET
}

/// If the task whose waker has this `data` is being polled, has its worker queue it again when the poll
/// returns. Returns whether it is being polled.
///
/// So a task that wakes itself costs a flag. No ordering is needed, because the thread that polls the task
/// wrote all that the task wrote before.
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
/// A leaf future calls this first, and calls [`RestoreOnPending::made_progress`] once its operation has
/// completed. Without that call, dropping the result gives the operation back.
///
/// # Examples
/// A future of your own that takes part in the budget:
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
        None => Poll::Ready(RestoreOnPending::new(None)),
        Some(left) if is_left(left) || !refuse(state, cx.waker()) => {
            let left = if is_left(left) { left } else { BUDGET };
            state.budget.set(Some(left - 1));
            Poll::Ready(RestoreOnPending::new(Some(left)))
        }
        Some(_) => Poll::Pending,
    })
}

/// Answers `Pending`, and has the task polled again later, if the budget is used up.
///
/// As [`poll_proceed`], for callers that [`spend`] the operation once it has completed. They have nothing to
/// give back, which is cheaper for operations that mostly do not complete.
#[inline]
pub(crate) fn poll_has_budget(cx: &mut Context<'_>) -> Poll<()> {
    if has_budget_remaining() || STATE.with(|state| !refuse(state, cx.waker())) {
        return Poll::Ready(());
    }
    Poll::Pending
}

/// Takes one operation from the budget, for an operation that need not wait and has completed already.
///
/// With [`has_budget_remaining`] before it, this is [`poll_proceed`] without a `Context` or a way back.
#[inline(always)]
pub(crate) fn spend() {
    STATE.with(|state| {
        if let Some(left) = state.budget.get().filter(|&left| is_left(left)) {
            state.budget.set(Some(left - 1));
        }
    });
}

/// One operation taken from the budget. It is given back when this is dropped, unless the operation [made
/// progress](RestoreOnPending::made_progress), or the budget was used up inside of it.
#[derive(Debug)]
#[must_use]
pub struct RestoreOnPending {
    /// The budget before the operation, if there was a budget and the operation is to be given back.
    before: Cell<Option<u8>>,
    /// The budget belongs to the thread.
    _not_send: PhantomData<*mut ()>,
}

impl RestoreOnPending {
    #[inline]
    fn new(before: Option<u8>) -> Self {
        Self { before: Cell::new(before), _not_send: PhantomData }
    }

    /// Keeps the operation taken: dropping this does not give it back.
    ///
    /// # Examples
    /// ```
    /// use std::task::{Context, Poll, ready};
    /// use runtime::task::coop::poll_proceed;
    ///
    /// fn poll_count(cx: &mut Context<'_>, count: &mut u32) -> Poll<u32> {
    ///     let coop = ready!(poll_proceed(cx));
    ///     *count += 1;
    ///     coop.made_progress();
    ///     Poll::Ready(*count)
    /// }
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut count = 0;
    /// assert_eq!(std::future::poll_fn(|cx| poll_count(cx, &mut count)).await, 1);
    /// # });
    /// ```
    #[inline]
    pub fn made_progress(&self) {
        self.before.set(None);
    }
}

impl Drop for RestoreOnPending {
    #[inline]
    fn drop(&mut self) {
        if let Some(before) = self.before.get() {
            STATE.with(|state| {
                // A refusal of a leaf future inside of this operation has put a count of refusals there. The
                // count stays, because another executor is recognised by it. Without a budget, the poll whose
                // budget it was is over, or this is inside of `unconstrained`.
                if state.budget.get().is_some_and(|now| now <= BUDGET) {
                    state.budget.set(Some(before));
                }
            });
        }
    }
}

/// Returns whether the running task may complete more operations before it must yield.
///
/// The future of a `block_on` has a budget, too. Returns true where no budget is counted: outside of both,
/// and inside [`unconstrained`].
///
/// # Examples
/// ```
/// assert!(runtime::task::coop::has_budget_remaining());
/// ```
#[inline]
pub fn has_budget_remaining() -> bool {
    STATE.with(|state| state.budget.get().is_none_or(is_left))
}

/// Takes one operation from the budget. If the budget is used up, lets other tasks run first.
///
/// It is for loops that compute and never wait: call it once a round.
///
/// # Cancel safety
/// Safe: if it is dropped, nothing is lost.
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
/// A future that is always ready then keeps its worker for ever, and other tasks starve.
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

/// Makes `future` take one operation from the budget when it completes, for leaf futures of other crates.
///
/// While the budget is used up, `future` is not polled. The task is polled again after other tasks.
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
