//! Channels with many senders and many receivers. Each receiver gets every value.
//!
//! A value is stored once. Each [`Receiver`] takes a clone of it, and the last receiver takes the value
//! itself. The value is dropped as soon as no receiver has still to take it. A receiver gets the values that
//! are sent after it was made.
//!
//! # Receivers that are too slow
//! A channel holds as many values as it was made for, rounded up to a power of two. Sending never waits. If
//! the channel is full, the sender overwrites the oldest value, even if some receivers have not taken it. The
//! next call of such a receiver returns [`RecvError::Lagged`](error::RecvError::Lagged) with the number of
//! values that it has missed. The call after that returns the oldest value that is still there. Other
//! receivers do not notice.
//!
//! # The end
//! When the last [`Sender`] is dropped, receivers take the values that are left and then get
//! [`RecvError::Closed`](error::RecvError::Closed). Without a receiver [`send`](Sender::send) fails.
//! [`subscribe`](Sender::subscribe) makes a new receiver.
//!
//! # What a value costs
//! Its sender takes one short lock, and each receiver does one atomic read-modify-write. Nothing is
//! allocated. A clone holds up other receivers of the same value. Those that receive let other tasks run. A
//! receiver that is dropped before it has taken the value blocks its thread, and other workers take over the
//! tasks of that thread. So does a sender that comes round to the value's slot, but it tells no worker. So
//! large values should be in an `Arc`. The `clone` of a value must not use the channel that the value is in,
//! nor wait for a lock under which another thread sends or drops a receiver. If it computes in parallel, it
//! does so inside of [`isolated`](crate::parallel::isolated).
//!
//! # Examples
//! ```
//! # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use runtime::sync::broadcast;
//!
//! let (tx, mut first) = broadcast::channel(16);
//! let mut second = tx.subscribe();
//! let listener = runtime::spawn(async move {
//!     assert_eq!(first.recv().await, Ok(1));
//!     assert_eq!(first.recv().await, Ok(2));
//! });
//! tx.send(1).unwrap();
//! tx.send(2).unwrap();
//! listener.await.unwrap();
//! assert_eq!(second.recv().await, Ok(1));
//! # });
//! ```
//!
//! A receiver that has missed values:
//! ```
//! # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use runtime::sync::broadcast::{self, error::RecvError};
//!
//! let (tx, mut rx) = broadcast::channel(2);
//! for n in 1..=5 {
//!     tx.send(n).unwrap();
//! }
//! assert_eq!(rx.recv().await, Err(RecvError::Lagged(3)));
//! assert_eq!(rx.recv().await, Ok(4));
//! assert_eq!(rx.recv().await, Ok(5));
//! # });
//! ```
//!
//! # Where to begin reading
//! `ring.rs` holds the values. `channel.rs` has the end of the ring and the receivers that wait. `sender.rs`
//! and `receiver.rs` are the public faces.

mod channel;
pub mod error;
mod receiver;
mod ring;
mod sender;

pub use self::receiver::Receiver;
pub use self::sender::{Sender, WeakSender, channel};
