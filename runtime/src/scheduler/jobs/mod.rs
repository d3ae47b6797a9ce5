//! Jobs on the workers. Read in this order: `job_processor.rs` (a worker's part in computations), `owner.rs`
//! (the view of its owner), `publish.rs` (when the owner shares child jobs, by `estimate.rs`), `own_jobs.rs`
//! and `steal.rs` (the owner and thieves take them), `region.rs` (the computation for which the owner works),
//! `wait.rs` (what a thread does that waits for a latch), `injected.rs` (jobs from outside), `inject.rs` and
//! `run.rs` (they are queued and run), `external.rs` (a thread outside takes part in its own call),
//! `split.rs` (what a computation does for tasks). `kept.rs` (regions that outlive their guards),
//! `belonging.rs`, `external_indices.rs` and `poll_interval.rs` hold parts of these that other files need.

pub mod belonging;
pub mod estimate;
pub mod external;
pub mod external_indices;
pub mod inject;
pub mod injected;
pub mod job_processor;
pub mod kept;
mod own_jobs;
pub mod owner;
pub mod poll_interval;
pub mod publish;
mod region;
mod run;
pub mod split;
mod steal;
pub mod wait;

#[cfg(all(test, not(loom)))]
mod tests;
