//! Yielding to other tasks.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::coop;

/// Lets the other tasks that wait for this worker run first.
///
/// The task is queued behind the tasks that are runnable already. No order is promised between these tasks
/// and its next poll. Inside a task this costs no wake-up: the worker queues the task when its poll returns.
///
/// The worker looks at sockets and timers at the first yields after it has slept, and then less and less
/// often. In the end it looks about every 200 µs, and at least every
/// [`event_interval`](crate::Builder::event_interval) polls. Tokio looks at each yield if no other task is
/// runnable.
///
/// # Cancel safety
/// Safe: if it is dropped, nothing is lost.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let other = runtime::spawn(async { 1 });
/// runtime::task::yield_now().await;
/// assert!(other.is_finished());
/// # });
/// ```
#[inline]
pub fn yield_now() -> impl Future<Output = ()> {
    YieldNow { has_yielded: false }
}

struct YieldNow {
    has_yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.has_yielded {
            return Poll::Ready(());
        }
        self.has_yielded = true;
        coop::yield_to_others(cx.waker());
        Poll::Pending
    }
}
