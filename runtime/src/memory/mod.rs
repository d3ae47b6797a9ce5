//! Memory of ended tasks and jobs, kept for the next ones.
//!
//! A list of free blocks is several times cheaper than any general allocator, and even more so if another
//! thread frees the memory. Each worker has a [`Magazine`]. For each size it holds two batches of free
//! blocks: one in use, and one full or absent. When both are full, it gives one to the [`Depot`] of the
//! runtime; when both are empty, it takes one. So it goes to the depot at most once in 64 tasks, for a few
//! instructions under a lock. By this exchange, the memory of tasks that one thread spawns comes back to it
//! from the workers that end these tasks. A job processor has a magazine, too, for jobs: a thread that spawns
//! or ends a job has looked up its job processor anyway. That thread may be an external thread, which is no
//! worker.
//!
//! A non-worker thread also has a magazine, one for all runtimes that it spawns on, because all blocks come
//! from the same allocator. The magazine keeps two batches of each size that was needed, and ends with the
//! thread. What the thread spawns or frees in its last destructors uses the allocator directly.
//!
//! Blocks are sorted into classes 16 bytes apart. Their sizes are those that glibc's malloc hands out anyway
//! (16 n + 8). Blocks beyond the depot's limit go back to the allocator, and so do all blocks when the worker
//! or the runtime ends.
//!
//! In this order: `block.rs` (blocks, batches, and their classes), `depot.rs`, `magazine.rs`.
//!
//! Sources: magazines and depot are those of Bonwick and Adams, "Magazines and Vmem" (2001).

mod block;
mod depot;
mod magazine;

pub use block::{allocate, free};
pub use depot::Depot;
pub use magazine::{Magazine, allocate_outside, free_outside};

#[cfg(all(test, not(loom), not(asan)))]
mod tests;
