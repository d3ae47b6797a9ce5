//! What this project brings to fork-join: the one place where these benchmarks name it.

pub use runtime::parallel;

/// Computes on the workers, and waits as a task.
pub async fn compute<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    runtime::compute(work).await.expect("the computation does not panic")
}

/// A runtime from which external threads borrow job processors.
#[derive(Debug)]
pub struct Visited(runtime::Runtime);

impl Visited {
    /// Starts one with `workers` threads, each pinned to a CPU.
    pub fn start(workers: usize) -> Self {
        let mut builder = runtime::Builder::new_multi_thread();
        Self(builder.worker_threads(workers).pin_workers(true).build().expect("a runtime starts"))
    }

    /// Runs `work` in a `join` whose other half does nothing.
    pub fn join<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        let _entered = self.0.enter();
        parallel::join(work, || ()).0
    }
}
