//! The future that every method of the extension traits returns.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

/// The work of a method, poll by poll. It is public because the futures are. It has no other use.
pub trait Operation {
    /// The result of the method.
    type Output;

    /// Goes on where the last poll ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Self::Output>;
}

pin_project! {
    /// The future of a method of the extension traits.
    ///
    /// It must be pinned to be polled, as the future of an `async fn`. So a method can become an `async fn`
    /// in a later version.
    #[must_use = "futures do nothing unless awaited"]
    #[derive(Debug)]
    pub struct OperationFuture<O> {
        operation: O,
        #[pin]
        pinned: PhantomPinned,
    }
}

impl<O> OperationFuture<O> {
    #[inline]
    pub(super) fn new(operation: O) -> Self {
        Self { operation, pinned: PhantomPinned }
    }
}

impl<O: Operation> Future for OperationFuture<O> {
    type Output = O::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<O::Output> {
        self.project().operation.poll(cx)
    }
}

/// Repeats a call as long as a signal interrupts it.
#[inline]
pub(in crate::io) fn uninterrupted<T>(mut call: impl FnMut() -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
    loop {
        match call() {
            Poll::Ready(Ok(value)) => return Poll::Ready(Ok(value)),
            Poll::Ready(Err(error)) if error.kind() == ErrorKind::Interrupted => {}
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => return Poll::Pending,
        }
    }
}
