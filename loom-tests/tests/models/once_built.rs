//! loom's `model` and `thread` for closures in boxes.
//!
//! The compiler builds loom's whole scheduler anew for each closure's type. With some five hundred models and
//! seven hundred threads, that was two thirds of the code that is compiled.

/// [`loom::model`].
pub fn model(model: impl Fn() + Send + Sync + 'static) {
    fn explore(model: Box<dyn Fn() + Send + Sync>) {
        loom::model(model);
    }
    explore(Box::new(model));
}

/// [`loom::thread`].
pub mod thread {
    pub use loom::thread::{JoinHandle, current, yield_now};

    /// [`loom::thread::spawn`].
    pub fn spawn<R: 'static>(run: impl FnOnce() -> R + 'static) -> JoinHandle<R> {
        fn start<R: 'static>(run: Box<dyn FnOnce() -> R>) -> JoinHandle<R> {
            loom::thread::spawn(run)
        }
        start(Box::new(run))
    }
}
