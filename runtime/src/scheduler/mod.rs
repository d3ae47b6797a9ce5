//! The scheduler: which worker runs which task or job on which thread, and which workers sleep.
//!
//! Read in this order: `processor.rs` (what a worker owns), `worker.rs` (the loop), `next_work.rs` (where
//! work comes from), `sleep/idle.rs` (which worker is woken), `sleep/park.rs` (how a thread sleeps),
//! `shared.rs` (what all workers see), `reference.rs` (how long it lives), `context.rs` and `enter.rs` (what
//! a thread knows of itself), `lifecycle.rs` (the end); then `away/` (what happens while workers are blocked
//! or stuck) and `jobs/` (jobs on the workers, and threads that are no workers, and compute). Code that only
//! makes the scheduler faster is in `hints/`, and code that only reports is in `reports/`. Other files name
//! these files without the folder.
//!
//! **Where a task goes.** A task that is spawned or woken by a task on a worker goes into that worker's LIFO
//! slot. The task that was in the slot goes into the ring, from where other workers steal. If the ring is
//! full, half of it goes into the injector. A task that another thread spawns or wakes goes into the
//! injector. The worker that takes a task out polls it. A task that waits for an event is in no queue.
//!
//! **What a worker does.** It takes local work, then work from the injector; then it searches the other
//! workers' queues; then it sleeps (`worker/sleep.rs`). A worker's processor belongs to its thread for good.
//! Other workers can steal from the processor, also while its thread is blocked or stuck. Spare workers
//! (`away/mod.rs`) start when other workers block or are stuck. The monitor finds the stuck workers
//! (`monitor/mod.rs`). The spare workers rest again when these workers return.

pub mod away;
mod biased_count;
pub mod blocking;
pub mod context;
mod core;
pub mod current_thread;
pub mod elsewhere;
pub mod enter;
pub mod exit;
mod fetch;
pub mod hints;
mod job_memory;
mod jobs;
pub mod lifecycle;
mod next_work;
mod own_queues;
pub mod processor;
pub mod reference;
mod reports;
mod schedule;
pub mod shared;
mod sleep;
mod start;
pub mod worker;

pub use away::{deadlock, in_place, monitor, slow};
pub use job_memory::JobMemory;
pub use job_processor::JobProcessor;
pub use jobs::{
    belonging, estimate, external_indices, inject, injected, job_processor, owner, poll_interval, publish,
    wait,
};
pub use owner::OwnJobs;
pub use reports::{call_sites, metrics, polling, unfinished};
pub use shared::Shared;
pub use sleep::{idle, park};
pub use start::{WorkerStart, become_permanent_worker, start_monitor, start_worker};
pub use worker::Worker;
