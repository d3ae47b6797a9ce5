//! A channel for one value: one allocation, one state word, no lock.
//!
//! # The word
//! ```text
//!  TX_DONE   the sender has sent, or was dropped: value and verdict are final
//!  VALUE     … and it has sent: the slot holds the value
//!  TX_GONE   the sender does not touch the cell any more
//!  RX_DONE   the receiver has closed, or was dropped: nothing can be sent any more
//!  RX_GONE   the receiver does not touch the cell any more
//!  RX_WAKER  the receiver waits; its waker is in its slot
//!  TX_WAKER  the sender waits in `closed`; its waker is in its slot
//! ```
//! TX_DONE, VALUE, TX_GONE, RX_DONE and RX_GONE are never cleared.
//!
//! # Which side may touch what
//! - The value's slot: the sender until TX_DONE; then, if VALUE is set, the receiver.
//! - A side's waker slot: that side, while its WAKER bit is clear. While the bit is set, that side may read
//!   the slot, and must clear the bit to change it. The side that sets DONE first clears its own WAKER bit in
//!   the same step. If the *other's* bit is set, it moves that waker out. After that neither WAKER bit is set
//!   any more.
//! - The cell: each side until it sets its GONE. A side that sets its GONE, or is about to, and finds the
//!   other's GONE frees the cell.
//!
//! # Steps
//! ```text
//! send
//!   OneshotWrite         write the value
//!   OneshotRefused       RX_DONE? take it back: Err
//!   OneshotSend          set TX_DONE, VALUE; no receiver waits? also TX_GONE: over (CAS)
//!   OneshotTakeWaker     else move the waker out
//!   OneshotSenderGone    set TX_GONE, clear RX_WAKER; free or wake
//! poll of the receiver
//!   OneshotTake          TX_DONE? take the value, leave
//!   OneshotWaker         write the waker
//!   OneshotWait          TX_DONE? take the waker back, OneshotTake; else set RX_WAKER (CAS)
//! leave
//!   OneshotFree          TX_GONE? free
//!   OneshotReceiverGone  else set RX_GONE; free if TX_GONE is there
//! ```
//! A value that is sent before it is awaited costs one read-modify-write. A value that is awaited first costs
//! three. A receiver that finds the value and TX_GONE frees the cell without one. `close` and `closed` are
//! the same steps with the sides exchanged.
//!
//! # The race
//! The receiver looks, finds nothing, and goes to sleep. Between the look and the sleep the sender sends, and
//! sees no receiver to wake.
//!
//! # Ordering
//! OneshotSend and OneshotWait change the same word, so one comes first. If OneshotSend comes first,
//! OneshotWait fails and finds the value. If OneshotWait comes first, OneshotSend sees RX_WAKER, and the
//! sender wakes the receiver. Every read-modify-write is AcqRel, and every load on whose answer a side acts
//! is Acquire, so the slots need no ordering of their own. OneshotTake pairs with OneshotSend (the value),
//! OneshotSend with OneshotWait (the waker), OneshotFree and OneshotReceiverGone with OneshotSenderGone (all
//! the sender's accesses). After OneshotSenderGone the receiver may free the cell, so the sender moves the
//! waker out before.
//!
//! # Rejected
//! A reference count beside the word, as in `Arc`: two more read-modify-writes. A waker slot that both sides
//! may read and validate by a version: one read-modify-write less, for a protocol twice as long.
//!
//! Prior art: Tokio's `oneshot`, which has the same interface.

pub mod error;

use std::fmt;
use std::future::Future;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker, ready};

use self::error::{RecvError, TryRecvError};
use crate::coop;
use crate::loom::cell::UnsafeCell;
use crate::loom::sync::atomic::{AtomicUsize, Ordering};
use crate::util::block_on::{assert_may_block, block_on};

const TX_DONE: usize = 1;
const VALUE: usize = 1 << 1;
const TX_GONE: usize = 1 << 2;
const TX_WAKER: usize = 1 << 3;
const RX_DONE: usize = 1 << 4;
const RX_GONE: usize = 1 << 5;
const RX_WAKER: usize = 1 << 6;

/// Creates a channel for one value.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let (tx, rx) = runtime::sync::oneshot::channel();
/// runtime::spawn(async move { tx.send(3).unwrap() });
/// assert_eq!(rx.await, Ok(3));
/// # });
/// ```
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let cell = NonNull::from(Box::leak(Box::new(Cell {
        word: AtomicUsize::new(0),
        rx_waker: UnsafeCell::new(MaybeUninit::uninit()),
        tx_waker: UnsafeCell::new(MaybeUninit::uninit()),
        value: UnsafeCell::new(MaybeUninit::uninit()),
    })));
    (Sender { cell }, Receiver { cell: Some(cell) })
}

/// The memory that the two sides share.
struct Cell<T> {
    word: AtomicUsize,
    /// Holds a waker while RX_WAKER is set.
    rx_waker: UnsafeCell<MaybeUninit<Waker>>,
    /// Holds a waker while TX_WAKER is set.
    tx_waker: UnsafeCell<MaybeUninit<Waker>>,
    /// Holds a value while VALUE is set and the receiver has not taken it.
    value: UnsafeCell<MaybeUninit<T>>,
}

/// One side, as the other side sees it.
#[derive(Clone, Copy)]
struct Side {
    done: usize,
    gone: usize,
    waker: usize,
}

const TX: Side = Side { done: TX_DONE, gone: TX_GONE, waker: TX_WAKER };
const RX: Side = Side { done: RX_DONE, gone: RX_GONE, waker: RX_WAKER };

impl<T> Cell<T> {
    fn waker_slot(&self, side: Side) -> &UnsafeCell<MaybeUninit<Waker>> {
        if side.waker == RX_WAKER { &self.rx_waker } else { &self.tx_waker }
    }

    /// Moves the waker of `side` out.
    ///
    /// # Safety
    /// 1. The slot holds a waker, and only the caller may move it out. 2. It does so once.
    unsafe fn take_waker(&self, side: Side) -> Waker {
        // SAFETY: by (1) it is initialised and not written meanwhile; by (2) there is one owner.
        self.waker_slot(side).with(|slot| unsafe { (*slot).assume_init_read() })
    }

    /// OneshotWaker and OneshotWait, for either side. Returns the word if `other` is done. Otherwise `cx` is
    /// woken when it is.
    ///
    /// # Safety
    /// 1. The caller is `side`, and not done itself.
    unsafe fn poll_done(&self, side: Side, other: Side, cx: &mut Context<'_>) -> Poll<usize> {
        let mut word = self.word.load(Ordering::Acquire);
        if word & other.done == 0 && word & side.waker != 0 {
            // SAFETY: our bit is set, so there is a waker. The other side may move it out and drop it
            // meanwhile. Moving is a read, and `will_wake` only compares addresses.
            let is_current =
                self.waker_slot(side).with(|slot| unsafe { (*slot).assume_init_ref() }.will_wake(cx.waker()));
            if is_current {
                return Poll::Pending;
            }
            word = self.withdraw_waker(side, other);
        }
        if word & other.done != 0 {
            return Poll::Ready(word);
        }
        let waker = cx.waker().clone();
        // SAFETY: our bit is clear, so the slot is ours, by (1), and empty.
        self.waker_slot(side).with_mut(|slot| unsafe { (*slot).write(waker) });
        while word & other.done == 0 {
            match self.word.compare_exchange_weak(
                word,
                word | side.waker,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Poll::Pending,
                Err(actual) => word = actual,
            }
        }
        // SAFETY: (1) the waker was written above, and our bit was never set, so the slot is ours. (2) The
        // slot counts as empty from here on.
        drop(unsafe { self.take_waker(side) });
        Poll::Ready(word)
    }

    /// Clears the WAKER bit of `side` and drops its waker, unless `other` is done and so has taken the waker.
    /// Returns the word. The caller is `side`, and its bit is set.
    fn withdraw_waker(&self, side: Side, other: Side) -> usize {
        let mut word = self.word.load(Ordering::Acquire);
        while word & other.done == 0 {
            let next = word & !side.waker;
            match self.word.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    // SAFETY: (1) the bit was set and is clear again: the slot is ours. (2) The slot counts
                    // as empty.
                    drop(unsafe { self.take_waker(side) });
                    return next;
                }
                Err(actual) => word = actual,
            }
        }
        word
    }

    /// OneshotWrite's counterpart: moves the value out.
    ///
    /// # Safety
    /// 1. The slot holds a value, and is the caller's. 2. It does so once.
    unsafe fn take_value(&self) -> T {
        // SAFETY: as (1) and (2) say.
        self.value.with(|slot| unsafe { (*slot).assume_init_read() })
    }
}

/// Sets the GONE bit of `side` and flips `also`. Frees the cell if the other side has gone. This is the last
/// access of `side` to the cell.
///
/// # Safety
/// 1. The caller is `side`, has not gone, and does not use the cell again. 2. Both slots it may touch are
///    empty.
unsafe fn leave<T>(cell: NonNull<Cell<T>>, side: Side, other: Side, also: usize) {
    // SAFETY: the cell is live, because `side` has not gone.
    let word = unsafe { cell.as_ref() }.word.fetch_xor(side.gone | also, Ordering::AcqRel);
    if word & other.gone != 0 {
        // SAFETY: (1) both sides have gone, so no other thread uses the cell. (2) By our (2) for both sides,
        // each left its slots empty.
        unsafe { free(cell) };
    }
}

/// # Safety
/// 1. No other thread uses the cell, now or later. 2. Its slots are empty.
unsafe fn free<T>(shared: NonNull<Cell<T>>) {
    // SAFETY: `Box` made it in `channel`. It is freed once, by (1).
    let cell = unsafe { Box::from_raw(shared.as_ptr()) };
    // These accesses do nothing, but a model checks that every access of the other side came before.
    cell.rx_waker.with_mut(|_| ());
    cell.tx_waker.with_mut(|_| ());
    cell.value.with_mut(|_| ());
}

/// The side that sends the value. Dropping it without sending closes the channel.
pub struct Sender<T> {
    /// Live until this side sets TX_GONE.
    cell: NonNull<Cell<T>>,
}

/// The side that receives the value: a future that waits for it.
///
/// The future yields a [`RecvError`] if the sender was dropped without sending, or if the receiver was closed
/// before. It panics if it is polled after it [has given its answer](Self::is_terminated).
///
/// # Cancel safety
/// `&mut receiver` can be awaited again, so nothing is lost when that is dropped. Dropping the receiver
/// itself drops a value that was sent.
pub struct Receiver<T> {
    /// Live until this side sets RX_GONE; `None` from then on.
    cell: Option<NonNull<Cell<T>>>,
}

// SAFETY: the sides pass a `T` and wakers between threads, and share nothing else.
unsafe impl<T: Send> Send for Sender<T> {}
// SAFETY: as above; `&Sender` only reads the word.
unsafe impl<T: Send> Sync for Sender<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Receiver<T> {}
// SAFETY: as above; `&Receiver` only reads the word.
unsafe impl<T: Send> Sync for Receiver<T> {}
impl<T> Unpin for Receiver<T> {}

impl<T> Sender<T> {
    /// Sends `value` and wakes the receiver. Never waits.
    ///
    /// `Ok` does not mean that the value was received: the receiver may still be dropped with the value
    /// unseen.
    ///
    /// # Errors
    /// The value itself, if the receiver was closed or dropped.
    ///
    /// # Examples
    /// ```
    /// let (tx, rx) = runtime::sync::oneshot::channel();
    /// drop(rx);
    /// assert_eq!(tx.send(3), Err(3));
    /// ```
    pub fn send(self, value: T) -> Result<(), T> {
        let this = ManuallyDrop::new(self);
        // SAFETY: live until we have gone.
        let cell = unsafe { this.cell.as_ref() };
        // OneshotWrite. SAFETY: TX_DONE is not set, so the slot is ours, and empty.
        cell.value.with_mut(|slot| unsafe { (*slot).write(value) });
        // SAFETY: (1) this side is the sender, which is not done as long as it exists. If this returns
        // `true`, `this` is neither used again nor dropped. (2) The value is there.
        if unsafe { finish(this.cell, VALUE) } {
            return Ok(());
        }
        // SAFETY: (1) nothing was published, so the slot is still ours. (2) The slot counts as empty.
        let value = unsafe { cell.take_value() };
        drop(ManuallyDrop::into_inner(this));
        Err(value)
    }

    /// Waits until the receiver is closed or dropped.
    ///
    /// # Cancel safety
    /// Safe.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let (mut tx, rx) = runtime::sync::oneshot::channel::<()>();
    /// runtime::spawn(async move { drop(rx) });
    /// tx.closed().await;
    /// # });
    /// ```
    pub async fn closed(&mut self) {
        std::future::poll_fn(|cx| self.poll_closed(cx)).await;
    }

    /// Returns whether the receiver was closed or dropped.
    ///
    /// # Examples
    /// ```
    /// let (tx, rx) = runtime::sync::oneshot::channel::<()>();
    /// assert!(!tx.is_closed());
    /// drop(rx);
    /// assert!(tx.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.cell().word.load(Ordering::Acquire) & RX_DONE != 0
    }

    /// Polls as [`closed`](Self::closed) does, for hand-written futures. Only the waker of the last call is
    /// woken.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let (mut tx, rx) = runtime::sync::oneshot::channel::<()>();
    /// drop(rx);
    /// std::future::poll_fn(|cx| tx.poll_closed(cx)).await;
    /// # });
    /// ```
    pub fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let coop = ready!(coop::poll_proceed(cx));
        // SAFETY: (1) this side is the sender. It is not done, because the calls that make it done consume
        // it.
        ready!(unsafe { self.cell().poll_done(TX, RX, cx) });
        coop.made_progress();
        Poll::Ready(())
    }

    fn cell(&self) -> &Cell<T> {
        // SAFETY: live until we have gone, which consumes `self`.
        unsafe { self.cell.as_ref() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // SAFETY: (1) this side is the sender, which is not done, because `send` drops no sender that is. It
        // is not used after its drop. (2) No value is claimed, and the slot holds none.
        unsafe { finish(self.cell, 0) };
    }
}

/// OneshotRefused to OneshotSenderGone: publishes the sender's verdict, VALUE or 0, and leaves. Returns
/// `false` if there is a value that the receiver does not want. The sender has not left then.
///
/// # Safety
/// 1. The caller is the sender, and is not done. If this returns `true`, it does not use the cell again. 2.
///    With VALUE the slot holds a value, else it holds none.
unsafe fn finish<T>(shared: NonNull<Cell<T>>, verdict: usize) -> bool {
    // SAFETY: live until we have gone.
    let cell = unsafe { shared.as_ref() };
    let mut word = cell.word.load(Ordering::Acquire);
    loop {
        if word & RX_DONE != 0 {
            // OneshotRefused. The receiver has taken our waker, or is about to take it and to clear TX_WAKER.
            if verdict != 0 {
                return false;
            }
            // SAFETY: (1). (2) No value was sent, and our waker belongs to the receiver.
            unsafe { leave(shared, TX, RX, TX_DONE) };
            return true;
        }
        // OneshotSend, in one step if there is no waker to move. It clears our own WAKER bit too, so our
        // waker slot stays ours.
        let gone = if word & (RX_WAKER | TX_WAKER) == 0 { TX_GONE } else { 0 };
        let next = (word | TX_DONE | verdict | gone) & !TX_WAKER;
        match cell.word.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) if gone != 0 => return true,
            Ok(_) => break,
            Err(actual) => word = actual,
        }
    }
    // OneshotTakeWaker. SAFETY: (1) the bit was set when this side became done, so the waker is ours to move.
    // (2) Once, here.
    let rx_waker = (word & RX_WAKER != 0).then(|| unsafe { cell.take_waker(RX) });
    // SAFETY: (1) TX_WAKER was set, so the slot holds a waker. The step above cleared TX_WAKER before the
    // receiver was done, so the receiver does not move the waker out. (2) Once, here.
    let _tx_waker = (word & TX_WAKER != 0).then(|| unsafe { cell.take_waker(TX) });
    // OneshotSenderGone. SAFETY: (1). (2) Both wakers are out, and the value belongs to the receiver.
    unsafe { leave(shared, TX, RX, word & RX_WAKER) };
    if let Some(waker) = rx_waker {
        waker.wake();
    }
    true
}

impl<T> Receiver<T> {
    /// Closes the channel for a value that was not sent yet. A value that was sent can still be received.
    ///
    /// # Examples
    /// ```
    /// let (tx, mut rx) = runtime::sync::oneshot::channel();
    /// rx.close();
    /// assert_eq!(tx.send(3), Err(3));
    /// ```
    pub fn close(&mut self) {
        if let (Some(waker), _ours) = self.refuse() {
            waker.wake();
        }
    }

    /// Sets RX_DONE, unless a side is done already. Returns the sender's waker, for the caller to wake, and
    /// our own, for the caller to drop.
    fn refuse(&mut self) -> (Option<Waker>, Option<Waker>) {
        let Some(shared) = self.cell else { return (None, None) };
        // SAFETY: live until we have gone; then `self.cell` is `None`.
        let cell = unsafe { shared.as_ref() };
        let mut word = cell.word.load(Ordering::Acquire);
        loop {
            if word & (TX_DONE | RX_DONE) != 0 {
                return (None, None);
            }
            // As in OneshotSend, this clears our own WAKER bit, so our waker slot stays ours.
            let next = (word | RX_DONE) & !RX_WAKER;
            match cell.word.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(actual) => word = actual,
            }
        }
        // SAFETY: (1) RX_WAKER was set, so the slot holds a waker. The step above cleared RX_WAKER before the
        // sender was done, so the sender does not move the waker out. (2) Once, here.
        let ours = (word & RX_WAKER != 0).then(|| unsafe { cell.take_waker(RX) });
        let theirs = (word & TX_WAKER != 0).then(|| {
            // SAFETY: (1) the bit was set when this side became done, so the waker is ours to move. (2) Once,
            // here.
            let waker = unsafe { cell.take_waker(TX) };
            cell.word.fetch_and(!TX_WAKER, Ordering::AcqRel);
            waker
        });
        (theirs, ours)
    }

    /// Takes the value if it is there.
    ///
    /// # Errors
    /// [`TryRecvError::Empty`] if the value may still come. [`TryRecvError::Closed`] if it will not come, or
    /// was taken before.
    ///
    /// # Examples
    /// ```
    /// let (tx, mut rx) = runtime::sync::oneshot::channel();
    /// assert!(rx.try_recv().is_err());
    /// tx.send(3).unwrap();
    /// assert_eq!(rx.try_recv(), Ok(3));
    /// ```
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        let word = self.word().ok_or(TryRecvError::Closed)?;
        if word & (TX_DONE | RX_DONE) == 0 {
            return Err(TryRecvError::Empty);
        }
        self.take(word).map_err(|_| TryRecvError::Closed)
    }

    /// Blocks the thread until the value is there.
    ///
    /// # Errors
    /// [`RecvError`] if the sender was dropped without sending, or if the receiver was closed before.
    ///
    /// # Panics
    /// Directly inside a task (await it there), or if it [has given its answer](Self::is_terminated) already.
    ///
    /// # Examples
    /// ```
    /// let (tx, rx) = runtime::sync::oneshot::channel();
    /// std::thread::spawn(move || tx.send(3));
    /// assert_eq!(rx.blocking_recv(), Ok(3));
    /// ```
    #[track_caller]
    pub fn blocking_recv(self) -> Result<T, RecvError> {
        assert_may_block("blocking_recv", "receiver.await");
        block_on(self)
    }

    /// Returns whether the receiver has given its answer, a value or an error. A further poll would panic.
    ///
    /// # Examples
    /// ```
    /// let (tx, mut rx) = runtime::sync::oneshot::channel();
    /// tx.send(3).unwrap();
    /// assert!(!rx.is_terminated());
    /// rx.try_recv().unwrap();
    /// assert!(rx.is_terminated());
    /// ```
    pub fn is_terminated(&self) -> bool {
        self.cell.is_none()
    }

    /// Returns whether there is no value to take: it was not sent yet, will never come, or was taken.
    ///
    /// # Examples
    /// ```
    /// let (tx, rx) = runtime::sync::oneshot::channel();
    /// assert!(rx.is_empty());
    /// tx.send(3).unwrap();
    /// assert!(!rx.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.word().is_none_or(|word| word & VALUE == 0)
    }

    /// The word, while this side has not left.
    fn word(&self) -> Option<usize> {
        // SAFETY: live until we have gone; then it is `None`.
        self.cell.map(|cell| unsafe { cell.as_ref() }.word.load(Ordering::Acquire))
    }

    /// Leaves with the decision of `word`. In `word`, which was read from the cell, one side must be done.
    fn take(&mut self, word: usize) -> Result<T, RecvError> {
        let shared = self.cell.take().expect("the word was read from the cell");
        // SAFETY: live until we have gone.
        let cell = unsafe { shared.as_ref() };
        // SAFETY: (1) VALUE is set, so the slot is ours and holds a value. (2) `self.cell` is `None` from
        // here on.
        let value = (word & VALUE != 0).then(|| unsafe { cell.take_value() });
        // SAFETY: (1) this side is the receiver, and `self.cell` is `None`. (2) The value, if any, is out.
        // (3) The callers pass a word in which one side is done.
        unsafe { depart(shared, word) };
        value.ok_or(RecvError(()))
    }
}

/// OneshotFree and OneshotReceiverGone.
///
/// # Safety
/// 1. The caller is the receiver and does not use the cell again. 2. If `word` says VALUE, the value has been
///    taken. 3. In `word`, one side is done. So no value can come, and the side that became done first has
///    moved the receiver's waker out.
unsafe fn depart<T>(shared: NonNull<Cell<T>>, word: usize) {
    if word & TX_GONE != 0 {
        // SAFETY: (1) the sender has gone, and the receiver does not use the cell again. (2) By the caller's
        // (2) and (3); the sender empties its own slot before it goes.
        return unsafe { free(shared) };
    }
    // SAFETY: (1). (2) By the caller's (2) and (3).
    unsafe { leave(shared, RX, TX, 0) };
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let coop = ready!(coop::poll_proceed(cx));
        let shared = self.cell.expect(
            "a oneshot receiver gives its answer once: ask `is_terminated` before it is polled again",
        );
        // SAFETY: live until we have gone; then `self.cell` is `None`.
        let cell = unsafe { shared.as_ref() };
        let mut word = cell.word.load(Ordering::Acquire);
        // Once closed, the receiver does not wait: a value that is not there will not come.
        if word & (TX_DONE | RX_DONE) == 0 {
            // SAFETY: (1) this side is the receiver, and RX_DONE is not set.
            word = ready!(unsafe { cell.poll_done(RX, TX, cx) });
        }
        coop.made_progress();
        Poll::Ready(self.take(word))
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        // Foreign code comes last, when this side has left the cell: the sender's waker, then the destructors
        // of the value, if one was sent, and of our waker.
        let (theirs, _ours) = self.refuse();
        let _value = self.word().map(|word| self.take(word));
        if let Some(waker) = theirs {
            waker.wake();
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("is_closed", &self.is_closed()).finish()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("is_empty", &self.is_empty())
            .field("is_terminated", &self.is_terminated())
            .finish()
    }
}
