//! A waker that only remembers that it was woken.
//!
//! Its flag is a plain atomic that the model does not see: it orders nothing, so a protocol cannot lean on
//! it. A model polls, lets the threads end, and then asks "still pending and not woken?", which finds lost
//! wakes without a deadlock.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

#[derive(Default)]
pub struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Flag {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Polls `future` once, to be woken through `flag`.
pub fn poll<F: Future + ?Sized>(future: Pin<&mut F>, flag: &Arc<Flag>) -> Poll<F::Output> {
    let waker = Waker::from(flag.clone());
    future.poll(&mut Context::from_waker(&waker))
}
