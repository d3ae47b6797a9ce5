//! rayon-core 1.13's public face on the workers of [`runtime`].
//!
//! A program that uses `rayon`, itself or through a dependency of a dependency, runs on those workers if its
//! workspace says
//!
//! ```toml
//! [patch.crates-io]
//! rayon-core = { path = "…/compat/rayon-core" }
//! ```
//!
//! and `cargo update -p rayon-core` has been called, if a lock file was there. Neither the program nor rayon
//! changes.
//!
//! Each name here is the one of [`runtime::parallel`], documented there; a [`ThreadPool`] of this crate *is*
//! one of `runtime`. Which pool a call works on follows from where it stands: on a worker of a
//! `runtime::Runtime`, that runtime; on a thread of a [`ThreadPool`], that pool; elsewhere the process-wide
//! pool, which [`ThreadPoolBuilder::build_global`] configures.
//!
//! # What linking this crate changes
//! A detached job ([`spawn`], [`spawn_fifo`], [`spawn_broadcast`], also a pool's methods of those names) that
//! panics where no panic handler is set aborts the process, as Rayon documents. That is the feature
//! `abort-on-detached-panic` of `runtime`. Cargo unites the features of all crates of a program, so it then
//! holds for the whole program.

pub use runtime::parallel::{
    BroadcastContext, FnContext, Scope, ScopeFifo, ThreadBuilder, ThreadPool, ThreadPoolBuildError,
    ThreadPoolBuilder, Yield, broadcast, current_num_threads, current_thread_has_pending_tasks,
    current_thread_index, in_place_scope, in_place_scope_fifo, max_num_threads, spawn, spawn_broadcast,
    spawn_fifo, yield_local, yield_now,
};
#[allow(deprecated)]
pub use runtime::parallel::{Configuration, initialize};

/// Runs two closures, perhaps in parallel, on threads of the pool; as [`runtime::parallel::join`], but a
/// thread that is none of them never takes part.
#[inline]
pub fn join<A, B, RA, RB>(oper_a: A, oper_b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    join_context(move |_| oper_a(), move |_| oper_b())
}

/// As [`join`], and tells each closure whether it was moved to another thread.
#[inline]
pub fn join_context<A, B, RA, RB>(oper_a: A, oper_b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    runtime::parallel::sent::join_context(oper_a, oper_b)
}

/// Runs a closure that can spawn jobs, and returns when all of them have ended; as
/// [`runtime::parallel::scope`], but always on a thread of the pool.
pub fn scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    runtime::parallel::sent::scope(op)
}

/// As [`scope`], whose jobs each thread runs in the order in which it spawned them; as
/// [`runtime::parallel::scope_fifo`].
pub fn scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
    R: Send,
{
    runtime::parallel::sent::scope_fifo(op)
}
