//! Child processes: starting them, talking to them, and waiting for their end.
//!
//! - [`Command`] describes a program to start, and starts it.
//! - [`Child`] is the process: [`wait`](Child::wait) for its exit, [`kill`](Child::kill) it, or take
//!   [`wait_with_output`](Child::wait_with_output).
//! - [`ChildStdin`], [`ChildStdout`], [`ChildStderr`] are the runtime's ends of its pipes.
//!
//! Names and meaning are Tokio's. The book's chapter *Child processes* is the guide.
//!
//! # Examples
//! ```
//! # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use runtime::process::Command;
//!
//! let output = Command::new("echo").arg("hello").output().await?;
//! assert!(output.status.success());
//! assert_eq!(output.stdout, b"hello\n");
//! # std::io::Result::Ok(())
//! # }).unwrap();
//! ```
//!
//! # How an exit is noticed
//! Each child has a *pidfd*: a descriptor that becomes readable when the process has ended (Linux 5.3). The
//! driver watches it like a socket. So a wait needs no thread, no signal handler, and no look at the other
//! children. Where `pidfd_open` does not exist or is forbidden, the child listens to `SIGCHLD` instead; see
//! `exit.rs`.
//!
//! # Children that are dropped
//! A process that has ended stays in the system's table, as a *zombie*, until its parent asks for its status.
//! So the drop of a [`Child`] that was not waited for leaves an *orphan*. The crate waits for it; see
//! `orphans.rs`.

mod child;
mod command;
mod exit;
mod orphans;
mod pipes;

pub use child::Child;
pub use command::Command;
pub use pipes::{ChildStderr, ChildStdin, ChildStdout};
