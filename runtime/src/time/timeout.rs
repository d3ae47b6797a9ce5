//! Waiting for a future with a limit.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use crate::coop::{has_budget_remaining, poll_has_budget, spend};

use super::error::Elapsed;
use super::{Instant, Sleep};

/// Waits for `future`, but no longer than `limit`.
///
/// `limit` counts from this call and is a lower bound, as in [`sleep`](super::sleep()). The future is polled
/// first. So a future that is ready at once is never late, even with a zero `limit`, and costs no timer. A
/// future that does not return from its poll cannot be interrupted.
///
/// # Errors
/// [`Elapsed`] if time runs out first. The future is then dropped with the `Timeout`. To keep it, pass `&mut
/// future`, or call [`Timeout::into_inner`].
///
/// # Panics
/// As [`sleep`](super::sleep()).
///
/// # Cancel safety
/// As safe as `future`: dropping this drops the future, and nothing else is lost.
///
/// # Examples
/// ```
/// use runtime::time::{Duration, timeout};
/// # runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
/// assert_eq!(timeout(Duration::from_secs(1), async { 7 }).await, Ok(7));
/// assert!(timeout(Duration::from_secs(1), std::future::pending::<()>()).await.is_err());
/// # });
/// ```
#[track_caller]
pub fn timeout<F: IntoFuture>(limit: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout { limit: Sleep::after(limit, "timeout"), future: future.into_future() }
}

/// Waits for `future`, but no longer than until `deadline`.
///
/// All else is as in [`timeout`].
///
/// # Errors
/// [`Elapsed`] if `deadline` passes first.
///
/// # Panics
/// As [`sleep`](super::sleep()).
///
/// # Cancel safety
/// As safe as `future`.
///
/// # Examples
/// ```
/// use runtime::time::{Duration, Instant, timeout_at};
/// # runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
/// let deadline = Instant::now() + Duration::from_secs(1);
/// assert!(timeout_at(deadline, std::future::pending::<()>()).await.is_err());
/// assert!(Instant::now() >= deadline);
/// # });
/// ```
#[track_caller]
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout { limit: Sleep::until(deadline, "timeout_at"), future: future.into_future() }
}

pin_project! {
    /// The future returned by [`timeout`] and [`timeout_at`].
    #[must_use = "futures do nothing unless awaited"]
    #[derive(Debug)]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        #[pin]
        limit: Sleep,
    }
}

impl<F> Timeout<F> {
    /// Returns a reference to the future.
    ///
    /// # Examples
    /// ```
    /// use runtime::time::{Duration, timeout};
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let timeout = timeout(Duration::from_secs(1), std::future::ready(7));
    /// println!("{:?}", timeout.get_ref());
    /// # });
    /// ```
    pub fn get_ref(&self) -> &F {
        &self.future
    }

    /// Returns a mutable reference to the future.
    ///
    /// # Examples
    /// ```
    /// use runtime::time::{Duration, timeout};
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let mut timeout = timeout(Duration::from_secs(1), std::future::ready(7));
    /// *timeout.get_mut() = std::future::ready(8);
    /// assert_eq!(timeout.await, Ok(8));
    /// # });
    /// ```
    pub fn get_mut(&mut self) -> &mut F {
        &mut self.future
    }

    /// Returns the future, without the limit.
    ///
    /// # Examples
    /// ```
    /// use runtime::time::{Duration, timeout};
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let timeout = timeout(Duration::from_secs(1), std::future::ready(7));
    /// assert_eq!(timeout.into_inner().await, 7);
    /// # });
    /// ```
    pub fn into_inner(self) -> F {
        self.future
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let me = self.project();
        let had_budget = has_budget_remaining();
        if let Poll::Ready(output) = me.future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        if had_budget && !has_budget_remaining() {
            // The future took all of it, and may do so each time. The limit must be looked at nevertheless.
            return me.limit.poll_as_limit(cx).map(|()| Err(Elapsed::new()));
        }
        ready!(poll_has_budget(cx));
        ready!(me.limit.poll_as_limit(cx));
        spend();
        Poll::Ready(Err(Elapsed::new()))
    }
}
