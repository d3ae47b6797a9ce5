//! Channels with many senders and one receiver.
//!
//! # Where to begin reading
//! 1. `queue.rs`: the list of blocks in which values travel, and how the receiver sleeps. The protocol is
//!    there.
//! 2. `capacity.rs`: the capacity of a bounded channel. Its senders take a permit for each value, and the
//!    receiver gives the permit back.
//! 3. `channel.rs`: the common part of both kinds of channel: counting senders, closing, receiving.
//! 4. `receiver.rs`: the receivers of both. `sender.rs`: the senders of a bounded channel. `permit.rs`
//!    reserves room in it. `unbounded.rs`: the senders of an unbounded one.
//!
//! # Which one
//! A [bounded](channel()) channel makes fast senders wait for a slow receiver. An
//! [unbounded](unbounded_channel) one stores what is not received yet. Both receivers are
//! [streams](futures_core::Stream); Tokio's need another crate for that.

mod capacity;
mod channel;
pub mod error;
mod permit;
mod queue;
mod receiver;
mod sender;
mod unbounded;

pub use self::permit::{OwnedPermit, Permit, PermitIterator};
pub use self::receiver::{Receiver, UnboundedReceiver};
pub use self::sender::{Sender, WeakSender, channel};
pub use self::unbounded::{UnboundedSender, WeakUnboundedSender, unbounded_channel};
