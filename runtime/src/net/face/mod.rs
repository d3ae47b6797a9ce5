//! What the types of `net` have in common: methods of sockets, pipes and halves, each written once.
//!
//! Rust gives several public types the same inherent methods by macros only. Each macro here makes one group
//! of them for a type that is a [`Face`]: its text, and a call of the [`Registered`] below. The logic is
//! there, in `io/registered`.
//! - `readiness.rs`: `ready`, `readable`, `try_io` and so on.
//! - `bytes.rs`: reading and writing of byte streams.
//! - `datagrams.rs`: sending and receiving of datagrams.
//! - `halves.rs`: the four halves of a stream socket.
//! - `options.rs`: options of sockets.
//! - `descriptor.rs`: to and from the standard library; the number of the descriptor.
//!
//! Parameters are the same everywhere: `$noun` is what the texts call the type, and the variable in their
//! examples; `$setup` is what their examples begin with, hidden: it makes that variable, with something to
//! read where it can be read, and room to write where it can be written.

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
