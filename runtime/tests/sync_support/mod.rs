//! What the tests of `sync` share.
#![allow(dead_code)]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// A waker that counts, and panics if it was made to.
#[derive(Default)]
pub struct Counter {
    wakes: AtomicUsize,
    panics: bool,
}

impl Counter {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub fn panicking() -> Arc<Self> {
        Arc::new(Self { wakes: AtomicUsize::new(0), panics: true })
    }

    pub fn wakes(&self) -> usize {
        self.wakes.load(Ordering::SeqCst)
    }
}

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
        assert!(!self.panics, "this waker panics");
    }
}

/// Polls once, to wake `counter`.
pub fn poll<F: Future + ?Sized>(future: Pin<&mut F>, counter: &Arc<Counter>) -> Poll<F::Output> {
    let waker = Waker::from(counter.clone());
    future.poll(&mut Context::from_waker(&waker))
}

/// Polls once; the wake goes nowhere.
pub fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Runs `future` on the calling thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Counts its drops.
#[derive(Debug, Clone, Default)]
pub struct Drops(pub Arc<AtomicUsize>);

impl Drops {
    pub fn item(&self) -> Item {
        Item(self.0.clone())
    }

    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

#[derive(Debug)]
pub struct Item(Arc<AtomicUsize>);

impl Drop for Item {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The text of the panic of `f`.
pub fn panic_text<R>(f: impl FnOnce() -> R) -> String {
    let payload = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)) {
        Ok(_) => panic!("expected a panic"),
        Err(payload) => payload,
    };
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload.downcast::<&str>().expect("a text").to_string(),
    }
}
