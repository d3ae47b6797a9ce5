//! The common part of bounded and unbounded channels: the queue, the count of senders, closing, and
//! receiving.
//!
//! # When the channel is over
//! The receiver gets `None` when the queue is empty and
//! - no sender is left: ENDED in the queue's tail, read together with its position; or
//! - the channel was closed, and nothing can come any more. Unbounded: `close` sealed the queue. Bounded:
//!   `close` refuses new permits, but senders may still use the permits that they hold, so all permits must
//!   be back. A value keeps its permit until it is received.
//!
//! In the last case the receiver may have to wait until a permit is dropped. The drop wakes it through
//! `last_permits`. The receiver: LastWaker leaves its waker there (under the lock), LastCount counts the
//! permits. The drop of a permit: LastGive gives it back, LastClosed sees the channel closed, LastWake takes
//! the waker (under the lock). If LastWake comes before LastWaker, LastGive came before LastCount, and the
//! receiver sees that permit. If LastWake comes after LastWaker, it finds the waker. If LastClosed does not
//! see the channel closed, LastGive precedes the closing in the order of the permits' word, and LastCount
//! comes after the closing.

use std::task::{Context, Poll, ready};

use super::capacity::{Capacity, CapacityPermits};
use super::error::{SendError, TryRecvError};
use super::queue::{Pop, Queue};
use crate::coop;
use crate::loom::sync::Arc;
use crate::sync::backoff::Backoff;
use crate::sync::counts::Counts;
use crate::sync::notify::Notify;
use crate::util::unwind;

/// The panic message of methods that only a bounded channel has.
const BOUNDED: &str = "a bounded channel has a capacity";

/// One channel, shared by its handles.
pub(super) struct Channel<T> {
    queue: Queue<T>,
    /// The capacity. `None` if the channel has no bound.
    capacity: Option<Capacity>,
    /// When the last strong sender leaves, it ends the queue.
    senders: Counts,
    /// Notified when the channel is closed.
    closed: Notify,
}

impl<T> Channel<T> {
    pub(super) fn open(max: Option<usize>) -> (Tx<T>, Rx<T>) {
        let capacity = max.map(Capacity::new);
        let channel = Arc::new(Channel {
            queue: Queue::new(capacity.as_ref().map_or(0, Capacity::free_in_tail)),
            capacity,
            senders: Counts::new(),
            closed: Notify::new(),
        });
        (Tx { channel: channel.clone() }, Rx { channel })
    }

    /// The capacity. Panics if the channel has no bound.
    pub(super) fn max(&self) -> usize {
        self.capacity.as_ref().expect(BOUNDED).max
    }

    /// The permits of the capacity. Panics if the channel has no bound.
    pub(super) fn permits(&self) -> CapacityPermits<'_> {
        self.bound().expect(BOUNDED)
    }

    #[inline(always)]
    fn bound(&self) -> Option<CapacityPermits<'_>> {
        self.capacity.as_ref().map(|capacity| capacity.with(self.queue.tail_word()))
    }

    pub(super) fn is_closed(&self) -> bool {
        match self.bound() {
            Some(permits) => permits.is_closed(),
            None => self.queue.is_sealed(),
        }
    }

    /// Waits until the channel is closed.
    pub(super) async fn closed(&self) {
        if self.is_closed() {
            // There is nothing to wait for, but the call takes part in the budget.
            return coop::consume_budget().await;
        }
        while !self.is_closed() {
            let notified = self.closed.notified();
            if self.is_closed() {
                break;
            }
            notified.await;
        }
    }

    /// Sends with a permit that the caller holds (bounded), or without a permit (unbounded).
    #[inline]
    pub(super) fn push(&self, value: T) -> Result<(), SendError<T>> {
        self.queue.push(value).map_err(SendError)
    }

    /// Sends if there is room, no task waits, and the tail is at a simple place. Otherwise returns
    /// the value; the caller then takes a permit from [`permits`](Self::permits).
    #[inline(always)]
    pub(super) fn try_push(&self, value: T) -> Result<(), T> {
        self.queue.push_taking_permit(value)
    }

    /// Gives back the permits of `n` values that were received.
    #[inline]
    fn received(&self, n: usize) {
        if let Some(permits) = self.bound() {
            permits.give(n);
        }
    }

    /// On an empty queue: whether nothing can come any more although senders may be left.
    fn is_drained(&self) -> bool {
        match self.bound() {
            Some(permits) => permits.is_closed() && permits.free() == self.max(),
            None => self.queue.is_sealed(),
        }
    }

    fn close(&self) {
        if self.capacity.is_none() {
            self.queue.seal();
        }
        // A waker that panics must not keep the others asleep.
        let mut panic = unwind::FirstPanic::new();
        panic.catch(|| self.bound().map(CapacityPermits::close));
        panic.catch(|| self.closed.notify_waiters());
        panic.resume();
    }
}

// A panic leaves the queue as its methods do, so other threads may look at it afterwards.
impl<T> std::panic::UnwindSafe for Channel<T> {}
impl<T> std::panic::RefUnwindSafe for Channel<T> {}

/// A strong sender's handle to a channel.
pub(super) struct Tx<T> {
    pub(super) channel: Arc<Channel<T>>,
}

impl<T> Tx<T> {
    pub(super) fn strong_count(&self) -> usize {
        self.channel.senders.strong()
    }

    pub(super) fn weak_count(&self) -> usize {
        self.channel.senders.weak()
    }

    pub(super) fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.channel, &other.channel)
    }

    pub(super) fn downgrade(&self) -> WeakTx<T> {
        WeakTx::of(&self.channel)
    }
}

impl<T> Clone for Tx<T> {
    fn clone(&self) -> Self {
        // The `Arc` comes first, because it aborts before any count can overflow.
        let channel = self.channel.clone();
        channel.senders.add();
        Self { channel }
    }
}

impl<T> Drop for Tx<T> {
    fn drop(&mut self) {
        if self.channel.senders.remove() {
            self.channel.queue.end();
        }
    }
}

/// A weak sender's handle to a channel.
pub(super) struct WeakTx<T> {
    channel: Arc<Channel<T>>,
}

impl<T> WeakTx<T> {
    fn of(channel: &Arc<Channel<T>>) -> Self {
        let channel = channel.clone();
        channel.senders.add_weak();
        Self { channel }
    }

    /// Makes a strong sender, if there is one left.
    pub(super) fn upgrade(&self) -> Option<Tx<T>> {
        self.channel.senders.try_add().then(|| Tx { channel: self.channel.clone() })
    }

    pub(super) fn strong_count(&self) -> usize {
        self.channel.senders.strong()
    }

    pub(super) fn weak_count(&self) -> usize {
        self.channel.senders.weak()
    }
}

impl<T> Clone for WeakTx<T> {
    fn clone(&self) -> Self {
        Self::of(&self.channel)
    }
}

impl<T> Drop for WeakTx<T> {
    fn drop(&mut self) {
        self.channel.senders.remove_weak();
    }
}

/// The receiver's handle to a channel: the one consumer of the queue. Popping needs `&mut self`.
pub(super) struct Rx<T> {
    pub(super) channel: Arc<Channel<T>>,
}

impl<T> Rx<T> {
    pub(super) fn close(&mut self) {
        self.channel.close();
    }

    pub(super) fn len(&self) -> usize {
        // SAFETY: (1) there is one `Rx`, and popping needs `&mut self`.
        unsafe { self.channel.queue.len() }
    }

    pub(super) fn strong_count(&self) -> usize {
        self.channel.senders.strong()
    }

    pub(super) fn weak_count(&self) -> usize {
        self.channel.senders.weak()
    }

    #[inline]
    pub(super) fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        if coop::has_budget_remaining() {
            // SAFETY: (1) there is one `Rx`, borrowed mutably.
            if let Some(value) = unsafe { self.channel.queue.try_pop() } {
                coop::spend();
                self.channel.received(1);
                return Poll::Ready(Some(value));
            }
        }
        self.poll_recv_slowly(cx)
    }

    /// Continues [`poll_recv`](Self::poll_recv) if there was no value, or if the budget is used up.
    #[inline(never)]
    fn poll_recv_slowly(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let coop = ready!(coop::poll_proceed(cx));
        let value = ready!(self.poll_pop(cx));
        coop.made_progress();
        if value.is_some() {
            self.channel.received(1);
        }
        Poll::Ready(value)
    }

    pub(super) fn poll_recv_many(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut Vec<T>,
        limit: usize,
    ) -> Poll<usize> {
        let coop = ready!(coop::poll_proceed(cx));
        let first = if limit == 0 { None } else { ready!(self.poll_pop(cx)) };
        coop.made_progress();
        let Some(first) = first else { return Poll::Ready(0) };
        buffer.push(first);
        let mut count = 1;
        while count < limit {
            let Pop::Value(value) = self.pop() else { break };
            buffer.push(value);
            count += 1;
        }
        self.channel.received(count);
        Poll::Ready(count)
    }

    pub(super) fn try_recv(&mut self) -> Result<T, TryRecvError> {
        let mut backoff = Backoff::new();
        loop {
            match self.pop() {
                Pop::Value(value) => {
                    self.channel.received(1);
                    return Ok(value);
                }
                Pop::Busy => backoff.snooze(),
                Pop::Empty if !self.channel.is_drained() => return Err(TryRecvError::Empty),
                Pop::Empty | Pop::Ended => return Err(TryRecvError::Disconnected),
            }
        }
    }

    fn pop(&mut self) -> Pop<T> {
        // SAFETY: (1) there is one `Rx`, borrowed mutably.
        unsafe { self.channel.queue.pop() }
    }

    /// Returns the next value, or `None` if the channel is over, or `Pending`; then `cx` will be woken. The
    /// caller gives back the value's permit.
    fn poll_pop(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut backoff = Backoff::new();
        loop {
            match self.pop() {
                Pop::Value(value) => return Poll::Ready(Some(value)),
                Pop::Ended => return Poll::Ready(None),
                Pop::Busy if backoff.is_spent() => {
                    // The producer may have lost its CPU, so this lets other tasks run.
                    coop::yield_to_others(cx.waker());
                    return Poll::Pending;
                }
                Pop::Busy => {
                    backoff.snooze();
                    continue;
                }
                Pop::Empty => {}
            }
            if self.channel.is_closed() {
                let _replaced = self.channel.capacity.as_ref().map(|capacity| {
                    // LastWaker, for the case that senders hold permits.
                    let fresh = Some(cx.waker().clone());
                    std::mem::replace(&mut *capacity.last_permits.lock(), fresh)
                });
                // LastCount.
                if self.channel.is_drained() {
                    return Poll::Ready(None);
                }
            }
            // SAFETY: (1) there is one `Rx`, borrowed mutably, and it found nothing.
            if unsafe { self.channel.queue.park(cx.waker()) } {
                return Poll::Pending;
            }
        }
    }
}

impl<T> Drop for Rx<T> {
    fn drop(&mut self) {
        // From now on a value that is sent with a permit goes back to its sender.
        self.channel.queue.seal();
        let mut panic = unwind::FirstPanic::new();
        panic.catch(|| self.channel.close());
        // SAFETY: (1) there is one `Rx`, borrowed mutably.
        panic.catch(|| unsafe { self.channel.queue.unpark() });
        let _waker = self.channel.capacity.as_ref().map(|capacity| capacity.last_permits.lock().take());
        // A value that is being written is waited for: senders may keep the channel, and wait for something
        // that is in the value or behind it.
        let mut backoff = Backoff::new();
        loop {
            match self.pop() {
                Pop::Value(value) => {
                    panic.catch(|| self.channel.received(1));
                    panic.catch(|| drop(value));
                }
                Pop::Busy => backoff.snooze(),
                Pop::Ended | Pop::Empty => break,
            }
        }
        panic.resume();
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
