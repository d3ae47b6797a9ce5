//! A non-blocking descriptor together with its registration. Every type of `net` is made of one.
//!
//! - `registration.rs`: the registration, and the three ways to wait until an operation is done.
//! - `bytes.rs`: the operations of byte streams.
//! - `datagrams.rs`: the operations of sockets for datagrams.
//! - `fd.rs`: a descriptor of any kind, for mio.
//! - `watches.rs`: watches in several runtimes for one thing.

mod bytes;
mod datagrams;
mod fd;
mod registration;
mod watches;

pub(crate) use fd::Fd;
pub(crate) use registration::{Registered, WatchMode};
pub(crate) use watches::{Watch, Watches};
