//! The common part of the types of `net`: methods of sockets, pipes and halves, each written once.
//!
//! Only a macro can give several public types the same inherent methods. Each macro here makes one group of
//! methods for a type that is a [`Face`]: their docs, and calls of the
//! [`Registered`](crate::io::registered::Registered) below, which has the logic.
//! - `contract.rs`: what such a type tells the macros.
//! - `readiness.rs`: `ready`, `readable`, `try_io` and so on.
//! - `bytes.rs`: reading and writing of byte streams.
//! - `datagrams.rs`: sending and receiving of datagrams.
//! - `halves.rs`: the four halves of a stream socket.
//! - `options.rs`: options of sockets.
//! - `descriptor.rs`: conversions from and to the standard library, and the number of the descriptor.
//!
//! All macros have the same parameters. `$noun` is the name of the type in the docs, and of the variable in
//! their examples. `$setup` is the hidden beginning of the examples. It makes that variable, with something
//! to read if it can be read, and room to write if it can be written.

pub(crate) mod bytes;
mod contract;
pub(super) mod datagrams;
pub(crate) mod descriptor;
pub(super) mod halves;
pub(super) mod options;
pub(super) mod readiness;

pub(crate) use contract::Face;
