//! Scopes: any number of jobs that may borrow data from outside, because all of them have ended when the
//! scope returns.
//!
//! A scope lives in the frame of the call that made it, on its *owner's* stack. Jobs are heap jobs that point
//! at the scope. Whatever panics, the owner does not leave the frame before the count of unfinished jobs is
//! zero (`job/count.rs`).
//!
//! # Where a job goes
//! | spawned on                                     | it is pushed                             |
//! | a job processor of the scope's pool            | there, as a scope job, published at once |
//! | another thread                                 | as an injected job of the scope's pool   |
//! | the same, but that pool's job processors leave | nowhere: it is run in place              |
//! | any thread, and the scope has no pool          | in the scope's own list, for its owner   |
//!
//! `in_place_scope` on a thread without a job processor of the pool counts as one of the pool's injected
//! jobs. The workers stay until it has ended, so the third row does not occur for its jobs.
//!
//! # First in, first out
//! A FIFO scope has one `JobFifo` for each job processor (`job/heap.rs`), and the job processor's deque gets
//! its tokens. So the jobs that one job processor runs, run in the order of their spawns. Tokens mix with
//! other child jobs as these do among themselves.
//!
//! Job processors of spare workers and external threads have no `JobFifo`, except the owner's job processor.
//! Their jobs go to the pool's queue, which is first in, first out, too. The owner's jobs must lie on its own
//! job processor: an owner that unwinds runs nothing from anywhere else, and the other workers may all be
//! blocked.
//!
//! # Panics and cancellation
//! The first panic wins, whether of the body or of a job. The scope goes on with it when all jobs have ended.
//! Jobs of a cancelled computation that have not begun are dropped instead of run. Then the scope goes on
//! with the cancellation, unless something has panicked.
//!
//! In the folder: `lifo.rs` and `fifo.rs` are the two kinds of scope. `base.rs` is their common part: the
//! count, the panic, the wait. `jobs.rs` has how their jobs are made and pushed.

mod base;
mod fifo;
mod jobs;
mod lifo;

pub use fifo::{ScopeFifo, in_place_scope_fifo, scope_fifo, scope_fifo_sent};
pub use lifo::{Scope, in_place_scope, scope, scope_sent};

pub(super) use fifo::{in_place_scope_fifo_in, scope_fifo_in};
pub(super) use lifo::{in_place_scope_in, scope_in};
