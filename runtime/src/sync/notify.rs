//! Tells one task, or all tasks that wait, that something happened, but not what.
//!
//! # The word
//! ```text
//!  bit 63 … 2          1 … 0
//!  generation          EMPTY: no future waits
//!                      WAITING: a future may wait; only the holder of the wait list's lock changes the word
//!                      STORED: no future waits, and the next one need not: one notification is kept
//! ```
//! The generation counts the calls of `notify_waiters`. A future remembers the generation in which it was
//! created. It is done as soon as the generation of the word is another. In the list, the generations only
//! grow from front to back.
//!
//! # Steps
//! ```text
//! wait
//!   NotifyPassed      other generation: done
//!   NotifyUseStored   STORED: → EMPTY, done
//!   NotifyQueue       lock; NotifyPassed, NotifyUseStored again; EMPTY → WAITING (CAS)
//!   NotifyJoin        join the wait list; unlock
//! notify_one
//!   NotifyStore       not WAITING: → STORED (CAS), done
//!   NotifyOwed        else lock; release all that are older than the word
//!   NotifyOne         release the first, or store; unlock; wake
//! notify_waiters
//!   NotifyAllFree     not WAITING: generation + 1 (CAS), done
//!   NotifyAllLocked   else lock; generation + 1
//!   NotifyAllOlder    release all that are older, from the front; unlock; wake
//! ```
//! If NotifyAllOlder or NotifyOwed has more to wake than one batch holds, it unlocks, wakes, and locks again.
//! Meanwhile futures may leave the wait list and new ones may join it. The new futures are of the new
//! generation, so NotifyAllOlder stops before them, and NotifyOne does not spend its notification on a future
//! that is owed the broadcast. No list is moved, so no future's place in the queue changes.
//!
//! # The race
//! A future looks and finds nothing. Before it waits, a notification comes and finds no future.
//!
//! # Ordering
//! NotifyQueue's CAS expects the very word that it has judged, generation included. If NotifyStore or
//! NotifyAllFree comes first, it changes the word, so the CAS fails and the future looks again. If
//! NotifyStore or NotifyAllFree comes later, it sees WAITING and takes the lock, which is held from before
//! NotifyQueue until after NotifyJoin. If the word says WAITING already, it stays so while the lock is held,
//! and NotifyQueue has nothing to set.
//!
//! NotifyStore, NotifyAllFree and NotifyAllLocked are Release, and so are the stores of NotifyOne.
//! NotifyPassed's load and NotifyUseStored's CAS are Acquire. So a released future sees what happened before
//! its notification; a future in the list sees it by the outcome. NotifyStore writes even if STORED is set
//! already, so that the future that takes it also sees what happened before the second call. A future that
//! reads NotifyAllFree's generation when it is made sees what happened before NotifyAllFree. So "create,
//! check the condition, await" misses nothing.
//!
//! # Cancellation
//! A future may be dropped after `notify_one` released it and before it knew. It then passes the notification
//! on: it runs NotifyStore to NotifyOne itself, at the same end of the wait list. A future that is owed a
//! broadcast passes nothing on.
//!
//! Prior art: Tokio's `Notify`, which has the same interface. It moves the list of waiters to a guarded list,
//! and counts no generations.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use super::wait_list::{Outcome, WaitList, Waiter, release_in_batches};
use crate::coop;
use crate::loom::const_fn;
use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::{AtomicUsize, Ordering};
use crate::util::wake_list::WakeList;

const EMPTY: usize = 0;
const WAITING: usize = 1;
const STORED: usize = 2;
const STATE: usize = 3;
const GENERATION: usize = 4;

/// Outcomes of a waiter: released by `notify_one`, `notify_last` or `notify_waiters`.
const BY_ONE: Outcome = 1;
const BY_LAST: Outcome = 2;
const BY_ALL: Outcome = 3;

/// Wakes tasks that wait for something to happen.
///
/// [`notify_one`](Self::notify_one) wakes one waiting task. If no task waits, it keeps the notification, and
/// the next task need not wait. At most one notification is kept. [`notify_waiters`](Self::notify_waiters)
/// wakes all tasks that wait, and keeps nothing.
///
/// To wait for a condition, create the future first, then check the condition, then await the future:
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use runtime::sync::Notify;
///
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let notify = Arc::new(Notify::new());
/// let is_open = Arc::new(AtomicBool::new(false));
/// let (theirs, open) = (notify.clone(), is_open.clone());
/// runtime::spawn(async move {
///     open.store(true, Ordering::Release);
///     theirs.notify_waiters();
/// });
/// loop {
///     let notified = notify.notified();
///     if is_open.load(Ordering::Acquire) {
///         break;
///     }
///     notified.await;
/// }
/// # });
/// ```
pub struct Notify {
    word: AtomicUsize,
    waiters: Mutex<WaitList>,
}

impl Notify {
    /// Creates a `Notify` that keeps no notification.
    ///
    /// # Examples
    /// ```
    /// let notify = runtime::sync::Notify::new();
    /// # drop(notify);
    /// ```
    pub fn new() -> Self {
        Self::const_new()
    }

    const_fn! {
        /// Creates a `Notify` in a constant, for instance in a `static`.
        ///
        /// # Examples
        /// ```
        /// static CONFIG_CHANGED: runtime::sync::Notify = runtime::sync::Notify::const_new();
        /// ```
        pub const fn const_new() -> Self {
            Self { word: AtomicUsize::new(EMPTY), waiters: Mutex::new(WaitList::new()) }
        }
    }

    /// Waits for a notification.
    ///
    /// [`notify_waiters`](Self::notify_waiters) releases the future from its creation on.
    /// [`notify_one`](Self::notify_one) may release it from its first poll, or [`enable`](Notified::enable),
    /// on.
    ///
    /// # Cancel safety
    /// The future loses its place in the queue. If a `notify_one` released it and it did not see that, the
    /// notification goes to the next task.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let notify = runtime::sync::Notify::new();
    /// notify.notify_one();
    /// notify.notified().await;
    /// # });
    /// ```
    pub fn notified(&self) -> Notified<'_> {
        Notified { wait: Wait::new(self) }
    }

    /// Waits for a notification as [`notified`](Self::notified) does, with a future that keeps the `Notify`
    /// alive.
    ///
    /// # Cancel safety
    /// As [`notified`](Self::notified).
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let notify = std::sync::Arc::new(runtime::sync::Notify::new());
    /// let waiting = runtime::spawn(notify.clone().notified_owned());
    /// notify.notify_waiters();
    /// waiting.await.unwrap();
    /// # });
    /// ```
    pub fn notified_owned(self: Arc<Self>) -> OwnedNotified {
        OwnedNotified { wait: Wait::new(self) }
    }

    /// Wakes the task that has waited longest. If no task waits, it keeps the notification for the next task.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let notify = runtime::sync::Notify::new();
    /// notify.notify_one();
    /// notify.notify_one(); // at most one is kept
    /// notify.notified().await;
    /// # });
    /// ```
    pub fn notify_one(&self) {
        self.notify_single(BY_ONE);
    }

    /// Wakes the task that began to wait last. If no task waits, it keeps the notification for the next task.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let notify = runtime::sync::Notify::new();
    /// notify.notify_last();
    /// notify.notified().await;
    /// # });
    /// ```
    pub fn notify_last(&self) {
        self.notify_single(BY_LAST);
    }

    /// Wakes all tasks that wait, and releases every [`Notified`] that exists. Later futures get nothing.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let notify = runtime::sync::Notify::new();
    /// let (first, second) = (notify.notified(), notify.notified());
    /// notify.notify_waiters();
    /// first.await;
    /// second.await;
    /// # });
    /// ```
    pub fn notify_waiters(&self) {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & STATE != WAITING {
            // NotifyAllFree.
            match self.word.compare_exchange_weak(
                word,
                word.wrapping_add(GENERATION),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(actual) => word = actual,
            }
        }
        let mut ours = None;
        release_in_batches(&self.waiters, |waiters, wakers| {
            // NotifyAllLocked, in the first round.
            let ours = *ours.get_or_insert_with(|| {
                self.word.fetch_add(GENERATION, Ordering::AcqRel).wrapping_add(GENERATION) / GENERATION
            });
            release_older(ours, waiters, wakers);
            self.settle(waiters);
            wakers.is_full()
        });
    }

    fn notify_single(&self, by: Outcome) {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & STATE != WAITING {
            match self.store(word) {
                Ok(_) => return,
                Err(actual) => word = actual,
            }
        }
        release_in_batches(&self.waiters, |waiters, wakers| {
            let mut word = self.word.load(Ordering::Acquire);
            // The last waiter left before this thread had the lock. No future can join the wait list now.
            while word & STATE != WAITING {
                match self.store(word) {
                    Ok(_) => return false,
                    Err(actual) => word = actual,
                }
            }
            // NotifyOwed.
            release_older(word / GENERATION, waiters, wakers);
            if wakers.is_full() {
                return true;
            }
            // NotifyOne.
            let is_taken = match by {
                BY_LAST => waiters.release_back(by, wakers),
                _ => waiters.release_front(by, wakers),
            };
            let state = match waiters.is_empty() {
                _ if !is_taken => STORED,
                true => EMPTY,
                false => WAITING,
            };
            self.word.store((word & !STATE) | state, Ordering::Release);
            false
        });
    }

    /// NotifyStore, on a word that says that no future waits.
    fn store(&self, word: usize) -> Result<usize, usize> {
        self.word.compare_exchange_weak(word, (word & !STATE) | STORED, Ordering::Release, Ordering::Relaxed)
    }

    /// Makes the word EMPTY if the wait list is empty, so that the next notification need not lock. Called
    /// under the lock.
    fn settle(&self, waiters: &WaitList) {
        if waiters.is_empty() && self.word.load(Ordering::Relaxed) & STATE == WAITING {
            self.word.fetch_and(!STATE, Ordering::Release);
        }
    }

    /// NotifyPassed and NotifyUseStored. Returns whether a future of `generation` is done.
    fn try_pass(&self, generation: usize) -> bool {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            if word / GENERATION != generation {
                return true;
            }
            if word & STATE != STORED {
                return false;
            }
            match self.word.compare_exchange_weak(word, word & !STATE, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return true,
                Err(actual) => word = actual,
            }
        }
    }

    /// NotifyQueue and NotifyJoin. Returns `Pending` if `waiter` is now in the list.
    ///
    /// # Safety
    /// 1. `waiter` has never joined a wait list. 2. Once `Pending` was returned, it leaves `self.waiters`
    ///    before it is freed, unless it has seen its outcome.
    unsafe fn join(&self, waiter: Pin<&Waiter>, waker: Option<Waker>) -> Poll<()> {
        // `waker` is a parameter, so it is dropped after the lock if it is not needed.
        let mut waiters = self.waiters.lock();
        loop {
            if self.try_pass(waiter.key()) {
                return Poll::Ready(());
            }
            let judged = waiter.key() * GENERATION;
            // Under the lock, a word that says WAITING does not change. Relaxed: if it says anything else,
            // `try_pass` looks again.
            if self.word.load(Ordering::Relaxed) == judged | WAITING {
                break;
            }
            let next = judged | WAITING;
            if self.word.compare_exchange(judged | EMPTY, next, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                break;
            }
        }
        // SAFETY: (1), (2).
        unsafe { waiters.join(waiter, waker) };
        Poll::Pending
    }
}

// A panic leaves the word and the wait list as their methods do, so other threads may look at them
// afterwards.
impl std::panic::UnwindSafe for Notify {}
impl std::panic::RefUnwindSafe for Notify {}

/// Releases, from the front, the waiters that are older than `generation`, as far as `wakers` has room.
fn release_older(generation: usize, waiters: &mut WaitList, wakers: &mut WakeList) {
    while !wakers.is_full() && waiters.front_key().is_some_and(|key| key < generation) {
        waiters.release_front(BY_ALL, wakers);
    }
}

impl Default for Notify {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word.load(Ordering::Relaxed);
        f.debug_struct("Notify")
            .field("has_waiters", &(word & STATE == WAITING))
            .field("has_stored", &(word & STATE == STORED))
            .finish_non_exhaustive()
    }
}

/// The state of a [`Wait`].
#[derive(Debug)]
enum WaitState {
    Apart,
    /// In the list, or released and not polled since.
    Queued,
    Done,
}

/// The common part of [`Notified`] and [`OwnedNotified`].
#[derive(Debug)]
struct Wait<N: Deref<Target = Notify>> {
    /// A reference or an `Arc`. It never changes, so it always leads to the same `Notify`.
    notify: N,
    /// Its key is the generation in which it was made.
    waiter: Waiter,
    state: WaitState,
}

impl<N: Deref<Target = Notify>> Wait<N> {
    fn new(notify: N) -> Self {
        // Acquire: pairs with NotifyAllFree and NotifyAllLocked, as the module docs say.
        let generation = notify.word.load(Ordering::Acquire) / GENERATION;
        Self { notify, waiter: Waiter::new(generation), state: WaitState::Apart }
    }

    /// Returns whether the wait is done. If not, the future now waits; `cx`, if any, will be woken.
    fn poll(self: Pin<&mut Self>, cx: Option<&mut Context<'_>>) -> Poll<()> {
        // SAFETY: the waiter is not moved out of. The other fields are not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        let notify: &Notify = &this.notify;
        // SAFETY: the waiter is a field of a pinned struct, and never moved.
        let waiter = unsafe { Pin::new_unchecked(&this.waiter) };
        match this.state {
            WaitState::Apart if notify.try_pass(waiter.key()) => {}
            // SAFETY: (1) the state is `Apart`, so the waiter has never joined. (2) After `Pending` the state
            // is `Queued`, and the drop takes the waiter out of the same list.
            WaitState::Apart => match unsafe { notify.join(waiter, cx.map(|cx| cx.waker().clone())) } {
                Poll::Ready(()) => {}
                Poll::Pending => {
                    this.state = WaitState::Queued;
                    return Poll::Pending;
                }
            },
            WaitState::Queued => match cx {
                Some(cx) => {
                    // SAFETY: (1) the state is `Queued`: the waiter has joined this list, and leaves only in
                    // the drop.
                    let outcome = unsafe { waiter.poll_outcome(&notify.waiters, cx) };
                    ready!(outcome);
                }
                None if waiter.outcome().is_none() => return Poll::Pending,
                None => {}
            },
            WaitState::Done => {}
        }
        this.state = WaitState::Done;
        Poll::Ready(())
    }

    /// The poll of a leaf future, which takes part in the budget.
    fn poll_in_budget(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let coop = ready!(coop::poll_proceed(cx));
        ready!(self.poll(Some(cx)));
        coop.made_progress();
        Poll::Ready(())
    }
}

impl<N: Deref<Target = Notify>> Drop for Wait<N> {
    /// Passes on a notification that the future got and did not see.
    fn drop(&mut self) {
        let WaitState::Queued = self.state else { return };
        let notify: &Notify = &self.notify;
        // SAFETY: `poll` has queued the waiter, so `self` is pinned. A pinned value is dropped where it is.
        let waiter = unsafe { Pin::new_unchecked(&self.waiter) };
        // The waker is dropped last, because its drop may panic.
        let (outcome, _waker) = {
            let mut waiters = notify.waiters.lock();
            // SAFETY: (1) the state says that it has joined this list, and it leaves only here.
            let left = unsafe { waiters.leave(waiter) };
            notify.settle(&waiters);
            left
        };
        if let Some(by @ (BY_ONE | BY_LAST)) = outcome {
            notify.notify_single(by);
        }
    }
}

/// Waits for a notification of a [`Notify`]: see [`Notify::notified`].
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct Notified<'a> {
    wait: Wait<&'a Notify>,
}

impl<'a> Notified<'a> {
    /// Joins the wait list without being polled, and returns whether a notification has come already.
    ///
    /// From now on [`notify_one`](Notify::notify_one) may choose this future. A future that returned `true`
    /// is done.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let notify = runtime::sync::Notify::new();
    /// let mut notified = std::pin::pin!(notify.notified());
    /// assert!(!notified.as_mut().enable());
    /// notify.notify_one();
    /// notified.await;
    /// # });
    /// ```
    pub fn enable(self: Pin<&mut Self>) -> bool {
        self.project().poll(None).is_ready()
    }

    fn project(self: Pin<&mut Self>) -> Pin<&mut Wait<&'a Notify>> {
        // SAFETY: `wait` is pinned with the whole and never moved out of.
        unsafe { self.map_unchecked_mut(|this| &mut this.wait) }
    }
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.project().poll_in_budget(cx)
    }
}

/// Waits for a notification as [`Notified`] does, and keeps the [`Notify`] alive: see
/// [`Notify::notified_owned`].
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct OwnedNotified {
    wait: Wait<Arc<Notify>>,
}

impl OwnedNotified {
    /// Joins the wait list as [`Notified::enable`] does.
    ///
    /// # Examples
    /// ```
    /// let notify = std::sync::Arc::new(runtime::sync::Notify::new());
    /// let mut notified = Box::pin(notify.clone().notified_owned());
    /// assert!(!notified.as_mut().enable());
    /// notify.notify_waiters();
    /// assert!(notified.as_mut().enable());
    /// ```
    pub fn enable(self: Pin<&mut Self>) -> bool {
        self.project().poll(None).is_ready()
    }

    fn project(self: Pin<&mut Self>) -> Pin<&mut Wait<Arc<Notify>>> {
        // SAFETY: as in `Notified`.
        unsafe { self.map_unchecked_mut(|this| &mut this.wait) }
    }
}

impl Future for OwnedNotified {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.project().poll_in_budget(cx)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
