//! The future of a `block_on` without its type: so the waiting is compiled once, and not for each future.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

pin_project! {
    /// A future on the stack of a `block_on`, then its output.
    struct Stored<F: Future> {
        #[pin]
        future: Option<F>,
        output: Option<F::Output>,
    }
}

/// What a [`Stored`] can do, whatever its type.
trait Erased {
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()>;

    fn drop_future(self: Pin<&mut Self>);
}

impl<F: Future> Erased for Stored<F> {
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let future = this.future.as_pin_mut().expect("an `ErasedFuture` that is alive has its future");
        future.poll(cx).map(|output| *this.output = Some(output))
    }

    fn drop_future(self: Pin<&mut Self>) {
        self.project().future.set(None);
    }
}

/// A future whose output is stored elsewhere. The future is dropped with this.
pub struct ErasedFuture<'a>(Pin<&'a mut (dyn Erased + 'a)>);

impl ErasedFuture<'_> {
    /// Polls the future. It must not be polled again once it is ready.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

impl Drop for ErasedFuture<'_> {
    fn drop(&mut self) {
        self.0.as_mut().drop_future();
    }
}

/// Gives `future` to `wait`, which polls it until it is ready. Returns the future's output.
pub fn output_of<F: Future>(future: F, wait: impl FnOnce(ErasedFuture<'_>)) -> F::Output {
    let mut stored = pin!(Stored { future: Some(future), output: None });
    wait(ErasedFuture(stored.as_mut()));
    stored.project().output.take().expect("`wait` returns when the future is ready")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::task::Waker;

    #[test]
    fn the_future_is_dropped_inside_of_the_wait() {
        let (held, in_future) = (Arc::new(()), Arc::new(()));
        let kept = in_future.clone();
        let output = output_of(
            std::future::poll_fn({
                let held = held.clone();
                move |_| {
                    let _in_future = &in_future;
                    Poll::Ready(held.clone())
                }
            }),
            |mut future| {
                assert!(future.poll(&mut Context::from_waker(Waker::noop())).is_ready());
                assert_eq!(Arc::strong_count(&kept), 2);
                drop(future);
                assert_eq!(Arc::strong_count(&kept), 1);
            },
        );
        assert_eq!(Arc::strong_count(&held), 2, "the output is not dropped with the future");
        drop(output);
    }
}
