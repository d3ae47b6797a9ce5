//! The limit: an executor of one thread, without atomics, locks or system calls, that can do nothing but run
//! tasks.
//!
//! A task is one allocation, its reference count an ordinary number, and the queue a `VecDeque`. What a task
//! costs above this is the price of more than one thread, of timers, sockets and shutdown.
//!
//! Wakers, senders and receivers claim to be `Send`, as the loads want it, and are not: nothing of this may
//! leave the thread of [`Peer::block_on`]. The loads that are run on it spawn no threads.

use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::mem::ManuallyDrop;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use super::Peer;

/// One thread and no atomics.
#[derive(Debug)]
pub struct Bare(());

thread_local! {
    /// The tasks that are to be polled.
    static QUEUE: RefCell<VecDeque<Rc<dyn Run>>> = const { RefCell::new(VecDeque::new()) };
}

/// A task of any future.
trait Run {
    fn run(self: Rc<Self>);
}

/// What a waker can wake.
trait Awaken {
    fn awaken(self: Rc<Self>);
}

struct Task<F> {
    is_queued: Cell<bool>,
    /// Never moves; nothing once it is done. Touched by `run` alone, which the loop of `block_on` calls.
    future: UnsafeCell<Option<F>>,
}

impl<F: Future<Output = ()> + 'static> Run for Task<F> {
    fn run(self: Rc<Self>) {
        self.is_queued.set(false);
        let waker = ManuallyDrop::new(waker(Rc::as_ptr(&self)));
        // SAFETY: only `run` touches it. No poll calls `run`: the loop of `block_on` does, and no load calls
        // `block_on` in a task.
        let slot = unsafe { &mut *self.future.get() };
        let Some(future) = slot else {
            return;
        };
        // SAFETY: the future is in an `Rc`, which does not move what it holds, and is dropped where it is.
        let future = unsafe { Pin::new_unchecked(future) };
        if future.poll(&mut Context::from_waker(&waker)).is_ready() {
            *slot = None;
        }
    }
}

impl<F: Future<Output = ()> + 'static> Awaken for Task<F> {
    fn awaken(self: Rc<Self>) {
        if !self.is_queued.replace(true) {
            QUEUE.with_borrow_mut(|queue| queue.push_back(self));
        }
    }
}

/// Whether the future of `block_on` is to be polled.
struct Root(Cell<bool>);

impl Awaken for Root {
    fn awaken(self: Rc<Self>) {
        self.0.set(true);
    }
}

/// A waker that owns a reference of `target`, which must have come from an `Rc`. It must stay on this thread.
fn waker<T: Awaken>(target: *const T) -> Waker {
    // SAFETY: the functions keep the contract of wakers on one thread, and the module's documentation forbids
    // others.
    unsafe { Waker::from_raw(RawWaker::new(target.cast(), Table::<T>::TABLE)) }
}

struct Table<T>(T);

impl<T: Awaken> Table<T> {
    const TABLE: &'static RawWakerVTable =
        &RawWakerVTable::new(Self::clone, Self::wake, Self::wake_by_ref, Self::drop);

    unsafe fn clone(target: *const ()) -> RawWaker {
        // SAFETY: the pointer came from an `Rc` of this `T`, to whose type the table belongs. The waker owns
        // a reference, so that the target is alive.
        unsafe { Rc::increment_strong_count(target.cast::<T>()) };
        RawWaker::new(target, Self::TABLE)
    }

    unsafe fn wake(target: *const ()) {
        // SAFETY: as in `clone`, and this is the waker's own reference, which it gives up.
        unsafe { Rc::from_raw(target.cast::<T>()) }.awaken();
    }

    unsafe fn wake_by_ref(target: *const ()) {
        // SAFETY: as in `clone`; `ManuallyDrop` leaves the waker its reference.
        let target = ManuallyDrop::new(unsafe { Rc::from_raw(target.cast::<T>()) });
        Rc::clone(&target).awaken();
    }

    unsafe fn drop(target: *const ()) {
        // SAFETY: as in `clone`, and this is the waker's own reference, which it gives up.
        drop(unsafe { Rc::from_raw(target.cast::<T>()) });
    }
}

impl Peer for Bare {
    const NAME: &'static str = "bare";

    type Sender = OneThread<Rc<Slot>>;
    type Receiver = OneThread<Rc<Slot>>;
    type Closed = std::convert::Infallible;
    type Outbox = OneThread<Rc<RefCell<Ring>>>;
    type Inbox = OneThread<Rc<RefCell<Ring>>>;

    /// One worker is as many as it has.
    fn start(_: usize) -> Self {
        Self(())
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        let root = Rc::new(Root(Cell::new(true)));
        let waker = waker(Rc::into_raw(root.clone()));
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(future);
        loop {
            if root.0.take()
                && let Poll::Ready(output) = future.as_mut().poll(&mut context)
            {
                return output;
            }
            match QUEUE.with_borrow_mut(VecDeque::pop_front) {
                Some(task) => task.run(),
                None => assert!(root.0.get(), "no task is left that could wake the future of `block_on`"),
            }
        }
    }

    fn spawn<F: Future<Output = ()> + Send + 'static>(future: F) {
        let task = Rc::new(Task { is_queued: Cell::new(true), future: UnsafeCell::new(Some(future)) });
        QUEUE.with_borrow_mut(|queue| queue.push_back(task));
    }

    fn spawn_and_wait<F: Future<Output = ()> + Send + 'static>(future: F) -> impl Future<Output = ()> + Send {
        let (done, is_done) = Self::oneshot();
        Self::spawn(async move {
            future.await;
            Self::send(done);
        });
        async move {
            let Ok(()) = is_done.await;
        }
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        let mut is_first = true;
        poll_fn(move |context| {
            if !std::mem::take(&mut is_first) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
    }

    fn oneshot() -> (Self::Sender, Self::Receiver) {
        let slot = Rc::new(Slot::default());
        (OneThread(slot.clone()), OneThread(slot))
    }

    fn send(sender: Self::Sender) {
        sender.0.is_sent.set(true);
        wake(&sender.0.receiver);
    }

    fn channel(capacity: usize) -> (Self::Outbox, Self::Inbox) {
        let ring = Ring { messages: VecDeque::with_capacity(capacity), capacity, waiting: None };
        let ring = Rc::new(RefCell::new(ring));
        (OneThread(ring.clone()), OneThread(ring))
    }

    fn post(outbox: &Self::Outbox, message: usize) -> impl Future<Output = ()> + Send {
        let post = poll_fn(move |context| {
            outbox.0.borrow_mut().pass(context, |ring| {
                (ring.messages.len() < ring.capacity).then(|| ring.messages.push_back(message))
            })
        });
        OneThreadFuture(post)
    }

    fn take(inbox: &mut Self::Inbox) -> impl Future<Output = usize> + Send {
        let take =
            poll_fn(move |context| inbox.0.borrow_mut().pass(context, |ring| ring.messages.pop_front()));
        OneThreadFuture(take)
    }
}

/// What the loads want to be `Send`.
#[derive(Debug)]
pub struct OneThread<T>(T);

// SAFETY: the type does not ensure it. The loads keep such a value on its thread, as the module's
// documentation demands.
unsafe impl<T> Send for OneThread<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for OneThread<T> {}

/// A future that holds a [`OneThread`].
struct OneThreadFuture<F>(F);

// SAFETY: as above.
unsafe impl<F> Send for OneThreadFuture<F> {}

impl<F: Future + Unpin> Future for OneThreadFuture<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

/// A oneshot channel.
#[derive(Debug, Default)]
pub struct Slot {
    is_sent: Cell<bool>,
    receiver: RefCell<Option<Waker>>,
}

impl Future for OneThread<Rc<Slot>> {
    type Output = Result<(), std::convert::Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.0.is_sent.get() {
            return Poll::Ready(Ok(()));
        }
        *self.0.receiver.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }
}

fn wake(waiting: &RefCell<Option<Waker>>) {
    if let Some(waker) = waiting.take() {
        waker.wake();
    }
}

/// A bounded channel. Only one of its two ends waits at a time: the one for messages, or the other for room.
#[derive(Debug)]
pub struct Ring {
    messages: VecDeque<usize>,
    capacity: usize,
    waiting: Option<Waker>,
}

impl Ring {
    /// Does `work` and wakes the other end, if it waits. If `work` gives `None`, waits for the other end.
    fn pass<T>(&mut self, context: &Context<'_>, work: impl FnOnce(&mut Self) -> Option<T>) -> Poll<T> {
        let waiting = self.waiting.take();
        match work(self) {
            Some(result) => {
                if let Some(waker) = waiting {
                    waker.wake();
                }
                Poll::Ready(result)
            }
            None => {
                self.waiting = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
