//! Tokio 1.54.1's public face on [`runtime`](::runtime).
//!
//! A program that uses Tokio, itself or through a dependency of a dependency, runs on `runtime` if its
//! workspace says
//!
//! ```toml
//! [patch.crates-io]
//! tokio = { path = "…/compat/tokio" }
//! ```
//!
//! A lock file that holds another version of Tokio than 1.54.1 needs `cargo update -p tokio` once. Neither
//! the program nor its dependencies change. `Cargo.lock` then names no source for `tokio`: look there if in
//! doubt, because Cargo only warns when a patch cannot be used. A program that wants `runtime`'s own
//! functions, such as `runtime::compute` in a request handler, depends on `runtime` too: each type of this
//! crate *is* the one of `runtime`.
//!
//! This crate has no code and no state of its own. Each name is documented in `runtime`, and
//! `docs/src/tokio.md` of its repository lists what differs from Tokio.
//!
//! # What linking this crate changes
//! The errors of `bind`, `connect` and `lookup_host` are the system's, with its number, in all of the
//! program, and do not name the address. That is the feature `raw-os-errors` of `runtime`; Cargo's features
//! are for all crates of a program. With `tokio-panics`, panics begin with Tokio's texts, and a setter of
//! `Builder` panics at once about a value that it cannot take.
//!
//! Feature `runtime/hyper` cannot be on beside this crate: hyper depends on `tokio`, so Cargo refuses the
//! cycle.
//! `hyper_util::rt::TokioIo` does the same work.

pub use ::runtime::{fs, io, net, process, runtime, signal, sync, task, time};
pub use ::runtime::{join, pin, select, spawn, task_local, try_join};

#[cfg(feature = "tokio-macros")]
#[doc(inline)]
pub use tokio_macros::{main, test};

/// Empty, as Tokio's: streams are in the crate `tokio-stream`.
pub mod stream {}

// Tokio's macros use these; some programs import them because their editor offered them.
#[doc(hidden)]
pub mod macros {
    pub mod support {
        pub use std::future::{Future, IntoFuture, poll_fn};
        pub use std::pin::Pin;
        pub use std::result::Result;
        pub use std::task::{Context, Poll, ready};

        // DataFusion takes from here the number with which its unions begin.
        pub use ::runtime::__private::thread_below as thread_rng_n;
    }
}
