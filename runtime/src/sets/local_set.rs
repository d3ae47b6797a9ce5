//! Tasks that stay on the thread that spawned them.

mod calls;
mod current;
mod own;
mod scheduler;

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use self::current::EnteredSet;
use self::scheduler::LocalScheduler;
use crate::config::UnhandledPanic;
use crate::runtime::Runtime;
use crate::runtime::handle::{Handle, Id};
use crate::task::JoinHandle;
use crate::util::as_tokio;

/// Starts a future as a task of the current [`LocalSet`], on this thread. The future need not be `Send`.
///
/// The current set is the set that polls the caller, or the set that was [entered](LocalSet::enter) last. In
/// a [`LocalRuntime`](crate::runtime::LocalRuntime) it is the set of the runtime.
///
/// # Panics
/// If there is no current set.
///
/// # Examples
/// ```
/// use std::rc::Rc;
/// use runtime::task::{LocalSet, spawn_local};
///
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let local = LocalSet::new();
/// let sum = local.run_until(async {
///     let here = Rc::new(41);
///     spawn_local(async move { *here + 1 }).await.unwrap()
/// });
/// assert_eq!(sum.await, 42);
/// # });
/// ```
///
/// Prior art: `tokio::task::spawn_local`.
#[track_caller]
pub fn spawn_local<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let Some(set) = current::current() else {
        panic!(
            "`spawn_local` called from outside of a `task::LocalSet` or `runtime::LocalRuntime`: call it in \
             a future of `run_until`, or in a task of the set. (Local tasks can only be spawned on a \
             LocalRuntime from the thread the runtime was created on.)"
        );
    };
    // SAFETY: (1) and (2): a current set's entry is linked. By duties 3 and 1 of `EnteredSet::enter` the
    // calling thread is the set's owner, and the set is valid.
    unsafe { LocalScheduler::spawn(set, future, Location::caller()) }
}

/// A set of tasks that stay on one thread, so that their futures need not be `Send`.
///
/// The tasks are polled while the set is polled: by [`run_until`](Self::run_until), by
/// [`block_on`](Self::block_on), or by awaiting the set, which ends when all its tasks have ended.
///
/// The set belongs to the thread that made it. So it cannot be in a future that is [spawned](crate::spawn).
/// It can be in a future of a `block_on`, on any thread that may block: a program's main thread, a thread of
/// [`spawn_blocking`](crate::task::spawn_blocking), inside of [`block_in_place`](crate::task::block_in_place)
/// or [`compute`](fn@crate::compute). A task that blocks holds up the other tasks of its set, and those of a
/// `current_thread` runtime, and no others.
///
/// Dropping the set drops its tasks; their handles yield a cancellation. Wakers that outlive the set do
/// nothing.
///
/// # Examples
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
/// use runtime::task::{LocalSet, yield_now};
///
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let count = Rc::new(Cell::new(0));
/// let local = LocalSet::new();
/// for _ in 0..3 {
///     let count = count.clone();
///     local.spawn_local(async move {
///         yield_now().await;
///         count.set(count.get() + 1);
///     });
/// }
/// local.await;
/// assert_eq!(count.get(), 3);
/// # });
/// ```
///
/// Prior art: `tokio::task::LocalSet`.
pub struct LocalSet {
    /// The set's own reference.
    shared: NonNull<LocalScheduler>,
    id: Id,
    /// The owner is a thread, so the set is not `Send`.
    not_send: PhantomData<*const ()>,
}

// A panic that passes a call leaves no call half done.
impl UnwindSafe for LocalSet {}
impl RefUnwindSafe for LocalSet {}

impl LocalSet {
    /// Makes a set of the calling thread, without tasks.
    pub fn new() -> Self {
        Self { shared: LocalScheduler::new(), id: Id::next(), not_send: PhantomData }
    }

    fn shared(&self) -> &LocalScheduler {
        // SAFETY: the set's reference keeps it.
        unsafe { self.shared.as_ref() }
    }

    /// Makes this set the current one of the thread until the guard is dropped, so that [`spawn_local`]
    /// spawns here.
    ///
    /// The tasks are polled when the set is polled. Guards may be dropped in any order. A task that is
    /// spawned while a guard is alive but the set is gone is cancelled.
    ///
    /// # Examples
    /// ```
    /// use runtime::task::{LocalSet, spawn_local};
    ///
    /// let local = LocalSet::new();
    /// let task = {
    ///     let _guard = local.enter();
    ///     spawn_local(async { 7 })
    /// };
    /// let runtime = runtime::Builder::new_current_thread().build()?;
    /// assert_eq!(local.block_on(&runtime, task).unwrap(), 7);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn enter(&self) -> LocalEnterGuard {
        // SAFETY: (1) the set is `!Send`, so this thread is its owner. (2) The set is not dropped yet.
        unsafe { self.shared().retain() };
        // SAFETY: (1) this thread is the owner, and gives the reference that it has just taken to the guard.
        LocalEnterGuard(unsafe { Linked::new(EnteredSet::new(self.shared, None)) })
    }

    /// Returns the identity of the set, which no other set and no runtime of the process has or had.
    ///
    /// # Examples
    /// ```
    /// use runtime::task::LocalSet;
    ///
    /// assert_ne!(LocalSet::new().id(), LocalSet::new().id());
    /// ```
    pub fn id(&self) -> Id {
        self.id
    }

    /// Makes this set the one in which [`spawn_local`] spawns while the runtime of `handle` is the current
    /// one.
    pub(crate) fn stand_in(&self, handle: &Handle) -> StandIn {
        // SAFETY: (1) and (2) as in `enter`.
        unsafe { self.shared().retain() };
        // SAFETY: (1) as in `enter`; the reference goes to the `StandIn`. Its handle keeps the runtime.
        let linked = unsafe { Linked::new(EnteredSet::new(self.shared, Some(handle.shared_ptr()))) };
        StandIn { _linked: linked, _handle: handle.clone() }
    }

    /// Says what a panic in one of the set's tasks does. By default nothing: the panic is in the task's
    /// `JoinHandle`.
    ///
    /// With [`UnhandledPanic::ShutdownRuntime`] the next poll of the set, or of a `run_until`, cancels the
    /// other tasks and panics; tasks that are spawned later are cancelled at once.
    ///
    /// # Examples
    /// ```should_panic
    /// use runtime::runtime::UnhandledPanic;
    /// use runtime::task::LocalSet;
    ///
    /// # let runtime = runtime::Builder::new_current_thread().build().unwrap();
    /// let mut set = LocalSet::new();
    /// set.unhandled_panic(UnhandledPanic::ShutdownRuntime);
    /// set.spawn_local(async { panic!("boom") });
    /// set.block_on(&runtime, std::future::pending::<()>());
    /// ```
    pub fn unhandled_panic(&mut self, behavior: UnhandledPanic) -> &mut Self {
        // SAFETY: (1) the set is `!Send`, so this thread is its owner.
        unsafe { self.shared().end_by_panic(behavior == UnhandledPanic::ShutdownRuntime) };
        self
    }

    /// Whether a task has panicked whose panic is the end of the set.
    pub(crate) fn has_panicked(&self) -> bool {
        // SAFETY: (1) the set is `!Send`, so this thread is its owner.
        unsafe { self.shared().has_panicked() }
    }

    /// Cancels all tasks, and every task that is spawned from now on.
    pub(crate) fn shut_down(&self) {
        // SAFETY: (1) the set is `!Send`, so this thread is its owner.
        self.poll_with(|| unsafe { self.shared().shut_down() });
    }

    /// Starts a future as a task of this set. The task is polled when the set is polled.
    ///
    /// # Examples
    /// ```
    /// use runtime::task::LocalSet;
    ///
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let local = LocalSet::new();
    /// let task = local.spawn_local(async { 7 });
    /// assert_eq!(local.run_until(task).await.unwrap(), 7);
    /// # });
    /// ```
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        // SAFETY: (1) the set is `!Send`, so this thread is its owner. (2) The set's reference keeps it.
        unsafe { LocalScheduler::spawn(self.shared, future, Location::caller()) }
    }

    /// Runs `future` to its end in a `block_on` of `rt`, and the set's tasks meanwhile; as
    /// `rt.block_on(local.run_until(future))`.
    ///
    /// # Panics
    /// As [`Runtime::block_on`].
    ///
    /// # Examples
    /// ```
    /// use runtime::task::{LocalSet, spawn_local};
    ///
    /// let runtime = runtime::Builder::new_current_thread().build()?;
    /// let local = LocalSet::new();
    /// let output = local.block_on(&runtime, async { spawn_local(async { 7 }).await.unwrap() });
    /// assert_eq!(output, 7);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn block_on<F>(&self, rt: &Runtime, future: F) -> F::Output
    where
        F: Future,
    {
        rt.block_on(self.run_until(future))
    }

    /// Runs `future` to its end, and the set's tasks meanwhile. Tasks that have not ended then stay in the
    /// set.
    ///
    /// Several calls may go on at a time, in tasks of their own. The set's tasks wake the call that was
    /// polled last. If that call ends, it wakes the others.
    ///
    /// A call that was polled must be polled when it is woken, or be dropped. A call that its task keeps and
    /// polls no more may hold up the others, if it was polled last: no other call learns of a wake then.
    ///
    /// # Cancel safety
    /// As safe as `future`. The tasks stay in the set.
    ///
    /// # Examples
    /// ```
    /// use std::rc::Rc;
    /// use runtime::task::{LocalSet, spawn_local};
    ///
    /// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let local = LocalSet::new();
    /// let here = Rc::new(41);
    /// let sum = local.run_until(async { spawn_local(async move { *here + 1 }).await.unwrap() });
    /// assert_eq!(sum.await, 42);
    /// # });
    /// ```
    pub async fn run_until<F>(&self, future: F) -> F::Output
    where
        F: Future,
    {
        RunUntil { set: self, number: None, future }.await
    }

    /// Runs `f` as a poll of the set.
    fn poll_with<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Leave<'a>(&'a LocalScheduler, &'a EnteredSet);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.1.leave();
                // SAFETY: (1) as below: this drop is on the same thread.
                unsafe { self.0.note_poll(false) };
            }
        }
        let entry = EnteredSet::of_poll(self.shared);
        // SAFETY: `note_poll`: (1) the set is `!Send`, so this thread is its owner. `enter`: (1) the entry
        // stays in this frame, and `self` keeps the set, until `Leave` is dropped. (2) The entry is new. (3)
        // As (1) of `note_poll`.
        unsafe {
            self.shared().note_poll(true);
            entry.enter();
        }
        let _leave = Leave(self.shared(), &entry);
        as_tokio::in_local_set(f)
    }

    /// Runs the set's tasks for a round, and has `cx` woken when a task has to be polled. Returns whether all
    /// tasks have ended. If they have, and this is no poll of a `call`, it wakes no waker.
    fn run_tasks(&self, cx: &mut Context<'_>, call: Option<usize>) -> bool {
        // SAFETY: (1) the set is `!Send`, so this thread is its owner.
        let (has_more, is_done) = unsafe { (self.shared().run_round(), self.shared().is_done()) };
        let is_over = is_done && call.is_none();
        // The wait clones a waker and drops one. That is foreign code, which may wake a task of this set.
        // SAFETY: (1) as above. (2) This is a poll of `call`, or of the set.
        let is_repeated = || unsafe { !self.shared().wait(cx.waker(), call) || self.shared().has_queued() };
        if has_more {
            // SAFETY: (1) and (2) as above.
            unsafe { self.shared().note_busy(call) };
        }
        if !is_over && (has_more || is_repeated()) {
            cx.waker().wake_by_ref();
        }
        is_done
    }
}

impl Default for LocalSet {
    fn default() -> Self {
        Self::new()
    }
}

/// It is ready when all tasks of the set have ended.
impl Future for LocalSet {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.poll_with(|| self.run_tasks(cx, None)) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

impl Drop for LocalSet {
    fn drop(&mut self) {
        self.shut_down();
        // SAFETY: (1) the set is `!Send`, so this thread is its owner, and it drops the set.
        unsafe { LocalScheduler::leave(self.shared) };
    }
}

impl fmt::Debug for LocalSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSet").finish_non_exhaustive()
    }
}

pin_project! {
    /// The future of [`LocalSet::run_until`].
    struct RunUntil<'a, F> {
        set: &'a LocalSet,
        // Among the set's calls, since the first poll.
        number: Option<usize>,
        #[pin]
        future: F,
    }

    impl<F> PinnedDrop for RunUntil<'_, F> {
        fn drop(this: Pin<&mut Self>) {
            if let Some(number) = this.number {
                // SAFETY: (1) the set is `!Send`, so this thread is its owner. (2) `poll` has the number from
                // `begin_call`, and a future is dropped once.
                unsafe { this.set.shared().end_call(number) };
            }
        }
    }
}

impl<F: Future> Future for RunUntil<'_, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let set = *this.set;
        let number = *this.number.get_or_insert_with(|| {
            // SAFETY: (1) the set is `!Send`, so this thread is its owner.
            unsafe { set.shared().begin_call() }
        });
        set.poll_with(|| {
            let result = this.future.poll(cx);
            if result.is_pending() {
                // Before the set's last look for tasks, because the clone of a waker is foreign code.
                // SAFETY: (1) as above. (2) This is a poll of call `number`.
                unsafe { set.shared().keep_waker(number, cx.waker()) };
                set.run_tasks(cx, Some(number));
            }
            result
        })
    }
}

/// Keeps a [`LocalSet`] current; made by [`LocalSet::enter`].
///
/// It belongs to its thread, so it is not `Send`.
#[must_use = "the set is left when the guard is dropped"]
pub struct LocalEnterGuard(#[expect(dead_code, reason = "it is dropped")] Linked);

impl fmt::Debug for LocalEnterGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalEnterGuard").finish_non_exhaustive()
    }
}

/// Makes a set the set of a [`LocalRuntime`](crate::runtime::LocalRuntime); made by [`LocalSet::stand_in`].
pub(crate) struct StandIn {
    _linked: Linked,
    /// Keeps the runtime's address from being given to another runtime.
    _handle: Handle,
}

/// An entry in a chain of the thread, with a reference to its set; both end when it is dropped.
struct Linked {
    entry: NonNull<EnteredSet>,
    /// An entry belongs to one thread.
    not_send: PhantomData<*const ()>,
}

impl Linked {
    /// # Safety
    /// 1. The caller is the owner of the entry's set, and gives up a reference to it.
    unsafe fn new(entry: EnteredSet) -> Self {
        let entry = NonNull::from(Box::leak(Box::new(entry)));
        // SAFETY: (1) the entry is freed in `drop`, which leaves first, on this thread. The reference keeps
        // the set. A guard that is forgotten leaks entry and reference. (2) The entry is new. (3) By our (1).
        unsafe { entry.as_ref().enter() };
        Self { entry, not_send: PhantomData }
    }
}

impl Drop for Linked {
    fn drop(&mut self) {
        // SAFETY: `new` made the entry from a box, and it is freed only here, after it was unlinked.
        // `release`: (1) `new` got the reference.
        unsafe {
            self.entry.as_ref().leave();
            let entry = Box::from_raw(self.entry.as_ptr());
            LocalScheduler::release(entry.set());
        }
    }
}
