//! The scheduler: which worker runs which task or job on which thread, and which workers sleep.
//!
//! Read in this order: `processor.rs` (what a worker owns), `worker.rs` (the loop), `next_work.rs` (where
//! work comes from), `idle.rs` (which worker is woken), `park.rs` (how a thread sleeps), `shared.rs` (what
//! all workers see, and how long it lives), `lifecycle.rs` (the end); then `away.rs`, `in_place.rs`,
//! `monitor.rs` and `split.rs` (what happens while workers are blocked, stuck, or compute), and `external.rs`
//! (threads that are no workers, and compute). Code that only makes the scheduler faster is in `hints/`.
//!
//! **Where a task goes.** A task that is spawned or woken by a task on a worker goes into that worker's LIFO
//! slot. The task that was in the slot goes into the ring, from where other workers steal. If the ring is
//! full, half of it goes into the injector. A task that another thread spawns or wakes goes into the
//! injector. The worker that takes a task out polls it. A task that waits for an event is in no queue.
//!
//! **What a worker does.** It takes local work, then work from the injector; then it searches the other
//! workers' queues; then it sleeps (`worker.rs`). A worker's processor belongs to its thread for good. Other
//! workers can steal from the processor, also while its thread is blocked or stuck. Spare workers (`away.rs`)
//! start when other workers block or are stuck. The monitor finds the stuck workers (`monitor.rs`). The spare
//! workers rest again when these workers return.

pub mod away;
pub mod blocking;
pub mod context;
pub mod current_thread;
pub mod deadlock;
pub mod external;
pub mod hints;
pub mod idle;
pub mod in_place;
pub mod jobs;
pub mod lifecycle;
pub mod magazine;
pub mod metrics;
pub mod monitor;
mod next_work;
pub mod park;
pub mod polling;
pub mod processor;
pub mod reference;
pub mod seat;
pub mod shared;
pub mod sites;
pub mod split;
mod start;
pub mod unfinished;
pub mod wait;
pub mod worker;

pub use seat::{Hold, Seat};
pub use shared::Shared;
pub use start::{WorkerStart, start_monitor, start_worker, take_seat_for_good};
pub use worker::Worker;
