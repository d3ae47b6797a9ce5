//! What this project brings to fork-join: the one place where these benchmarks name it.

pub use runtime::parallel;

/// Computes on the workers, and waits as a task.
pub async fn compute<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    runtime::compute(work).await.expect("the computation does not panic")
}
