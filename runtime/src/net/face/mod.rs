//! The common part of the types of `net`: methods of sockets, pipes and halves, each written once.
//!
//! Only a macro can give several public types the same inherent methods. Each macro here makes one group of
//! methods for a type that is a [`Face`]: their docs, and calls of the [`Registered`] below, in
//! `io/registered`, which has the logic.
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
pub(super) mod datagrams;
pub(crate) mod descriptor;
pub(super) mod halves;
pub(super) mod options;
pub(super) mod readiness;

use crate::io::registered::Registered;

/// A type made of a registered descriptor.
pub(crate) trait Face {
    type Io: mio::event::Source;

    fn registered(&self) -> &Registered<Self::Io>;
}
