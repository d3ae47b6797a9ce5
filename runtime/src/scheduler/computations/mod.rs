//! Jobs on the workers: `seat.rs` (a worker's jobs, and when it shares them), `jobs.rs` (jobs from outside),
//! `wait.rs` (what a thread does that waits for a latch), `external.rs` (a thread outside takes part in its
//! own call), `split.rs` (what a computation does for tasks).

pub mod external;
pub mod jobs;
pub mod seat;
pub mod split;
pub mod wait;
