//! A future that keeps its output until the output is taken: a branch of `join!`.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

pin_project! {
    /// A future, then its output, then nothing.
    #[derive(Debug)]
    #[project = Projected]
    #[project_replace = Replaced]
    pub enum MaybeDone<F: Future> {
        /// Not ready yet.
        Waiting {
            #[pin]
            future: F
        },
        /// Ready; the future has been dropped.
        Done { output: F::Output },
        /// The output was taken.
        Taken,
    }
}

/// Makes a branch of `join!`.
pub fn maybe_done<F: IntoFuture>(future: F) -> MaybeDone<F::IntoFuture> {
    MaybeDone::Waiting { future: future.into_future() }
}

impl<F: Future> MaybeDone<F> {
    /// Polls the future unless it is done, and returns whether it is done.
    pub fn poll_done(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Projected::Waiting { future } = self.as_mut().project() {
            let output = ready!(future.poll(cx));
            self.set(Self::Done { output });
        }
        Poll::Ready(())
    }

    /// Moves the output out.
    ///
    /// # Panics
    /// If the future is not done, or the output was taken before.
    pub fn take(self: Pin<&mut Self>) -> F::Output {
        match self.project_replace(Self::Taken) {
            Replaced::Done { output } => output,
            Replaced::Waiting { .. } | Replaced::Taken => {
                unreachable!("an output is taken once, after its future is done")
            }
        }
    }
}

impl<F: Future<Output = Result<T, E>>, T, E> MaybeDone<F> {
    /// Polls as [`poll_done`](Self::poll_done) does, but returns an error at once.
    pub fn poll_ok(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), E>> {
        if let Projected::Waiting { future } = self.as_mut().project() {
            let output = ready!(future.poll(cx))?;
            self.set(Self::Done { output: Ok(output) });
        }
        Poll::Ready(Ok(()))
    }

    /// Moves the value out.
    ///
    /// # Panics
    /// As [`take`](Self::take), and if the output is an error, which `poll_ok` does not keep.
    pub fn take_ok(self: Pin<&mut Self>) -> T {
        match self.take() {
            Ok(value) => value,
            Err(_) => unreachable!("an error ends `try_join!` at once"),
        }
    }
}
