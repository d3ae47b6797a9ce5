//! Tells one task, or all tasks that wait, that something happened, but not what.
//!
//! # The word
//! ```text
//!  bit 63 … 2          1 … 0
//!  generation          EMPTY: no future waits
//!                      WAITING: a future may be in line; only the holder of the line's lock changes the word
//!                      STORED: no future waits, and the next one need not: one notification is kept
//! ```
//! The generation counts the calls of `notify_waiters`. A future remembers the generation in which it was
//! created. It is done as soon as the generation of the word is another. In line, the generations only grow
//! from front to back.
//!
//! # Steps
//! ```text
//! wait                                   notify_one                       notify_waiters
//! W1 other generation: done              N1 not WAITING: → STORED         B1 not WAITING: generation + 1
//! W2 STORED: → EMPTY, done                  (CAS), done                      (CAS), done
//! W3 lock; W1, W2 again;                 N2 else lock; release all that   B2 else lock; generation + 1
//!    EMPTY → WAITING (CAS)                  are older than the word       B3 release all that are older,
//! W4 join the line; unlock               N3 release the first, or            from the front; unlock; wake
//!                                           store; unlock; wake
//! ```
//! If B3 or N2 has more to wake than one batch holds, it unlocks, wakes, and locks again. Meanwhile futures
//! may leave the line and new ones may join it. The new futures are of the new generation, so B3 stops before
//! them, and N3 does not spend its notification on a future that is owed the broadcast. No list is moved, so
//! no future's place in line changes.
//!
//! # The race
//! A future looks and finds nothing. Before it stands in line, a notification comes and finds no future.
//!
//! # Ordering
//! W3's CAS expects the very word that it has judged, generation included. If N1 or B1 comes first, it
//! changes the word, so the CAS fails and the future looks again. If N1 or B1 comes later, it sees WAITING
//! and takes the lock, which is held from before W3 until after W4. If the word says WAITING already, it
//! stays so while the lock is held, and W3 has nothing to set.
//!
//! N1, B1 and B2 are Release, and so are the stores of N3. W1's load and W2's CAS are Acquire. So a released
//! future sees what happened before its notification; a future in line sees it by the outcome. N1 writes even
//! if STORED is set already, so that the future that takes it also sees what happened before the second call.
//! A future that reads B1's generation when it is made sees what happened before B1. So "create, check the
//! condition, await" misses nothing.
//!
//! # Cancellation
//! A future may be dropped after `notify_one` released it and before it knew. It then runs N1 again, from the
//! same end of the line. A future that is owed a broadcast passes nothing on.
//!
//! Prior art: Tokio's `Notify`, which has the same interface. It moves the list of waiters to a guarded list,
//! and counts no generations.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use super::wait_list::{Line, Outcome, Waiter, release_in_batches};
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
    line: Mutex<Line>,
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
            Self { word: AtomicUsize::new(EMPTY), line: Mutex::new(Line::new()) }
        }
    }

    /// Waits for a notification.
    ///
    /// [`notify_waiters`](Self::notify_waiters) releases the future from its creation on.
    /// [`notify_one`](Self::notify_one) may release it from its first poll, or [`enable`](Notified::enable),
    /// on.
    ///
    /// # Cancel safety
    /// The future loses its place in line. If a `notify_one` released it and it did not see that, the
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
        Notified { notify: self, wait: Wait::new(self) }
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
        let wait = Wait::new(&self);
        OwnedNotified { notify: self, wait }
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
            // B1.
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
        release_in_batches(&self.line, |line, wakers| {
            // B2, in the first round.
            let ours = *ours.get_or_insert_with(|| {
                self.word.fetch_add(GENERATION, Ordering::AcqRel).wrapping_add(GENERATION) / GENERATION
            });
            release_older(ours, line, wakers);
            self.settle(line);
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
        release_in_batches(&self.line, |line, wakers| {
            let mut word = self.word.load(Ordering::Acquire);
            // The line went away before this thread had the lock. No future can join the line now.
            while word & STATE != WAITING {
                match self.store(word) {
                    Ok(_) => return false,
                    Err(actual) => word = actual,
                }
            }
            // N2.
            release_older(word / GENERATION, line, wakers);
            if wakers.is_full() {
                return true;
            }
            // N3.
            let is_taken = match by {
                BY_LAST => line.release_back(by, wakers),
                _ => line.release_front(by, wakers),
            };
            let state = match line.is_empty() {
                _ if !is_taken => STORED,
                true => EMPTY,
                false => WAITING,
            };
            self.word.store((word & !STATE) | state, Ordering::Release);
            false
        });
    }

    /// N1, on a word that says that no future waits.
    fn store(&self, word: usize) -> Result<usize, usize> {
        self.word.compare_exchange_weak(word, (word & !STATE) | STORED, Ordering::Release, Ordering::Relaxed)
    }

    /// Makes the word EMPTY if the line is empty, so that the next notification need not lock. Called under
    /// the lock.
    fn settle(&self, line: &Line) {
        if line.is_empty() && self.word.load(Ordering::Relaxed) & STATE == WAITING {
            self.word.fetch_and(!STATE, Ordering::Release);
        }
    }

    /// W1 and W2. Returns whether a future of `generation` is done.
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

    /// W3 and W4. Returns `Pending` if `waiter` is now in line.
    ///
    /// # Safety
    /// 1. `waiter` has not joined a line. 2. Once `Pending` was returned, it leaves `self.line` before it is
    ///    freed, unless it has seen its outcome.
    unsafe fn join(&self, waiter: Pin<&Waiter>, waker: Option<Waker>) -> Poll<()> {
        // `waker` is a parameter, so it is dropped after the lock if it is not needed.
        let mut line = self.line.lock();
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
        unsafe { line.join(waiter, waker) };
        Poll::Pending
    }
}

// A panic leaves the word and the line as their methods do, so other threads may look at them afterwards.
impl std::panic::UnwindSafe for Notify {}
impl std::panic::RefUnwindSafe for Notify {}

/// Releases, from the front, the waiters that are older than `generation`, as far as `wakers` has room.
fn release_older(generation: usize, line: &mut Line, wakers: &mut WakeList) {
    while !wakers.is_full() && line.front_key().is_some_and(|key| key < generation) {
        line.release_front(BY_ALL, wakers);
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
enum State {
    Apart,
    /// In line, or released and not polled since.
    Queued,
    Done,
}

/// The common part of [`Notified`] and [`OwnedNotified`]. Each passes the same `Notify` to every call.
#[derive(Debug)]
struct Wait {
    /// Its key is the generation in which it was made.
    waiter: Waiter,
    state: State,
}

impl Wait {
    fn new(notify: &Notify) -> Self {
        // Acquire: pairs with B1 and B2, as the module docs say.
        let generation = notify.word.load(Ordering::Acquire) / GENERATION;
        Self { waiter: Waiter::new(generation), state: State::Apart }
    }

    /// Returns whether the wait is done. If not, the future now stands in line; `cx`, if any, will be woken.
    fn poll(self: Pin<&mut Self>, notify: &Notify, cx: Option<&mut Context<'_>>) -> Poll<()> {
        // SAFETY: the waiter is not moved out of. The state is not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: the waiter is a field of a pinned struct, and never moved.
        let waiter = unsafe { Pin::new_unchecked(&this.waiter) };
        match this.state {
            State::Apart if notify.try_pass(waiter.key()) => {}
            // SAFETY: (1) the state says so; (2) `leave` does.
            State::Apart => match unsafe { notify.join(waiter, cx.map(|cx| cx.waker().clone())) } {
                Poll::Ready(()) => {}
                Poll::Pending => {
                    this.state = State::Queued;
                    return Poll::Pending;
                }
            },
            State::Queued => match cx {
                Some(cx) => {
                    // SAFETY: (1) the state says so.
                    let outcome = unsafe { waiter.poll_outcome(&notify.line, cx) };
                    ready!(outcome);
                }
                None if waiter.outcome().is_none() => return Poll::Pending,
                None => {}
            },
            State::Done => {}
        }
        this.state = State::Done;
        Poll::Ready(())
    }

    /// The poll of a leaf future, which takes part in the budget.
    fn poll_in_budget(self: Pin<&mut Self>, notify: &Notify, cx: &mut Context<'_>) -> Poll<()> {
        let coop = ready!(coop::poll_proceed(cx));
        ready!(self.poll(notify, Some(cx)));
        coop.made_progress();
        Poll::Ready(())
    }

    /// Called when the future is dropped. Passes on a notification that the future got and did not see.
    /// `self` must be pinned, as it was for `poll`.
    fn leave(&mut self, notify: &Notify) {
        let State::Queued = self.state else { return };
        // SAFETY: a pinned future is dropped where it is.
        let waiter = unsafe { Pin::new_unchecked(&self.waiter) };
        // The waker is dropped last, because its drop may panic.
        let (outcome, _waker) = {
            let mut line = notify.line.lock();
            // SAFETY: (1) the state says so.
            let left = unsafe { line.leave(waiter) };
            notify.settle(&line);
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
    notify: &'a Notify,
    wait: Wait,
}

impl Notified<'_> {
    /// Stands in line without being polled, and returns whether a notification has come already.
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
        let (notify, wait) = self.project();
        wait.poll(notify, None).is_ready()
    }

    fn project(self: Pin<&mut Self>) -> (&Notify, Pin<&mut Wait>) {
        // SAFETY: `wait` is pinned with the whole and never moved out of. The reference is not pinned.
        unsafe {
            let this = self.get_unchecked_mut();
            (this.notify, Pin::new_unchecked(&mut this.wait))
        }
    }
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let (notify, wait) = self.project();
        wait.poll_in_budget(notify, cx)
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        self.wait.leave(self.notify);
    }
}

/// Waits for a notification as [`Notified`] does, and keeps the [`Notify`] alive: see
/// [`Notify::notified_owned`].
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct OwnedNotified {
    notify: Arc<Notify>,
    wait: Wait,
}

impl OwnedNotified {
    /// Stands in line as [`Notified::enable`] does.
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
        let (notify, wait) = self.project();
        wait.poll(notify, None).is_ready()
    }

    fn project(self: Pin<&mut Self>) -> (&Notify, Pin<&mut Wait>) {
        // SAFETY: as in `Notified`.
        unsafe {
            let this = self.get_unchecked_mut();
            (&this.notify, Pin::new_unchecked(&mut this.wait))
        }
    }
}

impl Future for OwnedNotified {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let (notify, wait) = self.project();
        wait.poll_in_budget(notify, cx)
    }
}

impl Drop for OwnedNotified {
    fn drop(&mut self) {
        self.wait.leave(&self.notify);
    }
}
