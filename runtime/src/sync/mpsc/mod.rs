//! Channels with many senders and one receiver.
//!
//! # In which order to read
//! 1. `queue.rs`: the list of blocks the values travel in, and how the receiver sleeps. The protocol is
//!    there.
//! 2. `room.rs`: what a bounded channel has besides. Its senders take a permit for each value, which the
//!    receiver gives back.
//! 3. `channel.rs`: counting senders, closing, receiving; what both kinds of channel share.
//! 4. `bounded.rs` and `unbounded.rs`: the public faces. `permit.rs` is a permit by itself.
//!
//! # Which one
//! A [bounded](channel()) channel makes fast senders wait for a slow receiver; an
//! [unbounded](unbounded_channel) one stores what is not received yet. Both receivers are
//! [streams](futures_core::Stream); Tokio's need another crate for that.

mod bounded;
mod channel;
pub mod error;
mod permit;
mod queue;
mod room;
mod unbounded;

pub use self::bounded::{Receiver, Sender, WeakSender, channel};
pub use self::permit::{OwnedPermit, Permit, PermitIterator};
pub use self::unbounded::{UnboundedReceiver, UnboundedSender, WeakUnboundedSender, unbounded_channel};
