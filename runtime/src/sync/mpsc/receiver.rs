//! The receiving side of both kinds of channel.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::channel::Rx;
use super::error::TryRecvError;
use crate::util::block_on::{assert_may_block, block_on};

/// Defines a receiver. In its examples, `$open` makes the channel, and the method `$send` sends.
macro_rules! receiver {
    ($(#[$doc:meta])* $name:ident, $open:literal, $send:literal) => {
        $(#[$doc])*
        pub struct $name<T> {
            rx: Rx<T>,
        }

        impl<T> $name<T> {
            pub(super) fn of(rx: Rx<T>) -> Self {
                Self { rx }
            }

            /// Waits for the next value. Returns `None` if no value will come: the channel is empty, and it
            /// has no senders, or it is closed and no sender holds a permit.
            ///
            /// # Cancel safety
            /// Safe: a value is either returned or still in the channel.
            ///
            /// # Examples
            /// ```
            /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            #[doc = concat!("let (tx, mut rx) = runtime::sync::mpsc::", $open, ";")]
            #[doc = concat!("tx.", $send, "(1).unwrap();")]
            /// drop(tx);
            /// assert_eq!(rx.recv().await, Some(1));
            /// assert_eq!(rx.recv().await, None);
            /// # });
            /// ```
            pub async fn recv(&mut self) -> Option<T> {
                poll_fn(|cx| self.poll_recv(cx)).await
            }

            /// Waits for a value, and appends it and the values behind it that are there already to `buffer`,
            /// at most `limit` in all. Returns how many it appended. Returns 0 if no value will come, or if
            /// `limit` is 0.
            ///
            /// # Cancel safety
            /// Safe: if the future is dropped, nothing was received.
            ///
            /// # Examples
            /// ```
            /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            #[doc = concat!("let (tx, mut rx) = runtime::sync::mpsc::", $open, ";")]
            #[doc = concat!("tx.", $send, "(1).unwrap();")]
            /// let mut buffer = Vec::new();
            /// assert_eq!(rx.recv_many(&mut buffer, 10).await, 1);
            /// assert_eq!(buffer, [1]);
            /// # });
            /// ```
            pub async fn recv_many(&mut self, buffer: &mut Vec<T>, limit: usize) -> usize {
                poll_fn(|cx| self.poll_recv_many(cx, buffer, limit)).await
            }

            /// Takes the next value if it is there.
            ///
            /// # Errors
            /// [`TryRecvError::Empty`] if the value may still come, [`TryRecvError::Disconnected`] if not.
            ///
            /// # Examples
            /// ```
            /// use runtime::sync::mpsc::error::TryRecvError;
            ///
            #[doc = concat!("let (tx, mut rx) = runtime::sync::mpsc::", $open, ";")]
            /// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
            #[doc = concat!("tx.", $send, "(1).unwrap();")]
            /// drop(tx);
            /// assert_eq!(rx.try_recv(), Ok(1));
            /// assert_eq!(rx.try_recv(), Err(TryRecvError::Disconnected));
            /// ```
            pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
                self.rx.try_recv()
            }

            /// Waits for the next value as [`recv`](Self::recv) does, but blocks the thread.
            ///
            /// # Panics
            /// Directly inside a task. Use [`recv`](Self::recv) there.
            ///
            /// # Examples
            /// ```
            #[doc = concat!("let (tx, mut rx) = runtime::sync::mpsc::", $open, ";")]
            #[doc = concat!("std::thread::spawn(move || tx.", $send, "(1).unwrap());")]
            /// assert_eq!(rx.blocking_recv(), Some(1));
            /// assert_eq!(rx.blocking_recv(), None);
            /// ```
            #[track_caller]
            pub fn blocking_recv(&mut self) -> Option<T> {
                assert_may_block("blocking_recv", "recv().await");
                block_on(self.recv())
            }

            /// Waits for values as [`recv_many`](Self::recv_many) does, but blocks the thread.
            ///
            /// # Panics
            /// Directly inside a task. Use [`recv_many`](Self::recv_many) there.
            ///
            /// # Examples
            /// ```
            #[doc = concat!("let (tx, mut rx) = runtime::sync::mpsc::", $open, ";")]
            #[doc = concat!("tx.", $send, "(1).unwrap();")]
            /// let mut buffer = Vec::new();
            /// assert_eq!(rx.blocking_recv_many(&mut buffer, 10), 1);
            /// ```
            #[track_caller]
            pub fn blocking_recv_many(&mut self, buffer: &mut Vec<T>, limit: usize) -> usize {
                assert_may_block("blocking_recv_many", "recv_many().await");
                block_on(self.recv_many(buffer, limit))
            }

            /// Closes the channel to new values. The values in the channel can still be received. In a
            /// bounded channel, so can those of permits that senders hold.
            ///
            /// # Examples
            /// ```
            #[doc = concat!("let (tx, mut rx) = runtime::sync::mpsc::", $open, ";")]
            /// rx.close();
            /// assert!(tx.is_closed());
            /// assert_eq!(rx.blocking_recv(), None);
            /// ```
            pub fn close(&mut self) {
                self.rx.close();
            }

            /// Returns whether the channel is closed to senders, or has no senders left.
            ///
            /// # Examples
            /// ```
            #[doc = concat!("let (tx, rx) = runtime::sync::mpsc::", $open, ";")]
            /// assert!(!rx.is_closed());
            /// drop(tx);
            /// assert!(rx.is_closed());
            /// ```
            pub fn is_closed(&self) -> bool {
                self.rx.channel.is_closed() || self.rx.strong_count() == 0
            }

            /// Returns whether the channel holds no value.
            ///
            /// # Examples
            /// ```
            #[doc = concat!("let (_tx, rx) = runtime::sync::mpsc::", $open, ";")]
            /// assert!(rx.is_empty());
            /// ```
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Counts the values in the channel.
            ///
            /// # Examples
            /// ```
            #[doc = concat!("let (tx, rx) = runtime::sync::mpsc::", $open, ";")]
            #[doc = concat!("tx.", $send, "(1).unwrap();")]
            /// assert_eq!(rx.len(), 1);
            /// ```
            pub fn len(&self) -> usize {
                self.rx.len()
            }

            /// Polls as [`recv`](Self::recv) does, for hand-written futures. Only the waker of the last call
            /// is woken.
            ///
            /// # Examples
            /// ```
            /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            #[doc = concat!("let (tx, mut rx) = runtime::sync::mpsc::", $open, ";")]
            #[doc = concat!("tx.", $send, "(1).unwrap();")]
            /// assert_eq!(std::future::poll_fn(|cx| rx.poll_recv(cx)).await, Some(1));
            /// # });
            /// ```
            pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
                self.rx.poll_recv(cx)
            }

            /// Polls as [`recv_many`](Self::recv_many) does, for hand-written futures. Only the waker of the
            /// last call is woken.
            ///
            /// # Examples
            /// ```
            /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            #[doc = concat!("let (tx, mut rx) = runtime::sync::mpsc::", $open, ";")]
            #[doc = concat!("tx.", $send, "(1).unwrap();")]
            /// let mut buffer = Vec::new();
            /// assert_eq!(std::future::poll_fn(|cx| rx.poll_recv_many(cx, &mut buffer, 10)).await, 1);
            /// # });
            /// ```
            pub fn poll_recv_many(
                &mut self,
                cx: &mut Context<'_>,
                buffer: &mut Vec<T>,
                limit: usize,
            ) -> Poll<usize> {
                self.rx.poll_recv_many(cx, buffer, limit)
            }

            /// Counts the senders.
            ///
            /// # Examples
            /// ```
            #[doc = concat!("let (_tx, rx) = runtime::sync::mpsc::", $open, ";")]
            /// assert_eq!(rx.sender_strong_count(), 1);
            /// ```
            pub fn sender_strong_count(&self) -> usize {
                self.rx.strong_count()
            }

            /// Counts the weak senders.
            ///
            /// # Examples
            /// ```
            #[doc = concat!("let (_tx, rx) = runtime::sync::mpsc::", $open, ";")]
            /// assert_eq!(rx.sender_weak_count(), 0);
            /// ```
            pub fn sender_weak_count(&self) -> usize {
                self.rx.weak_count()
            }
        }

        impl<T> Stream for $name<T> {
            type Item = T;

            fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
                self.get_mut().poll_recv(cx)
            }
        }

        impl<T> Unpin for $name<T> {}

        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("len", &self.len())
                    .field("is_closed", &self.is_closed())
                    .finish_non_exhaustive()
            }
        }
    };
}

receiver! {
    /// The receiving side of a bounded channel. Each channel has one.
    ///
    /// Dropping it closes the channel and drops the values in it.
    Receiver, "channel::<i32>(10)", "try_send"
}

receiver! {
    /// The receiving side of an unbounded channel. Each channel has one.
    ///
    /// Dropping it closes the channel and drops the values in it.
    UnboundedReceiver, "unbounded_channel::<i32>()", "send"
}

impl<T> Receiver<T> {
    /// Returns the number of values that can be sent without waiting.
    ///
    /// # Examples
    /// ```
    /// let (_tx, rx) = runtime::sync::mpsc::channel::<i32>(2);
    /// assert_eq!(rx.capacity(), 2);
    /// ```
    pub fn capacity(&self) -> usize {
        self.rx.channel.permits().free()
    }

    /// Returns the number of values for which the channel was made.
    ///
    /// # Examples
    /// ```
    /// let (_tx, rx) = runtime::sync::mpsc::channel::<i32>(2);
    /// assert_eq!(rx.max_capacity(), 2);
    /// ```
    pub fn max_capacity(&self) -> usize {
        self.rx.channel.max()
    }
}
