//! Channels that keep only the last value. Senders replace it, and receivers learn that it changed and read
//! it in place.
//!
//! They are for values that many tasks look at and few tasks change: a configuration, a state, a request to
//! shut down. A receiver never sees a value that is replaced before it looks. If each value counts, use
//! [`broadcast`](super::broadcast).
//!
//! # Seen and unseen
//! Each [`Receiver`] remembers which value it has *seen*. At first it has seen the value that is there when
//! the receiver is made.
//!
//! | method | waits | marks the value as seen | when no sender is left |
//! |---|---|---|---|
//! | [`borrow`](Receiver::borrow) | no | no | the last value |
//! | [`borrow_and_update`](Receiver::borrow_and_update) | no | yes | the last value |
//! | [`has_changed`](Receiver::has_changed) | no | no | an error |
//! | [`changed`](Receiver::changed) | until a value is unseen | yes | an error, if no value is unseen |
//! | [`wait_for`](Receiver::wait_for) | until the value is as wanted | yes | an error, if it is not |
//!
//! In a loop around `changed`, read with `borrow_and_update`. With `borrow`, the loop would see a value twice
//! that is sent between the two calls.
//!
//! # Reading in place
//! A [`Ref`] is a reference to the value itself. While there is one, a sender that wants to replace the value
//! blocks its thread. So keep a `Ref` for a short time, and not across an `.await`. Reading costs one atomic
//! read-modify-write, on a cache line that no other thread reads through, and no reader waits for another. A
//! thread may hold several `Ref`s. A thread that sends while it holds a `Ref` of the same channel would wait
//! for itself, so it panics. (The channel recognises at least 16 threads at a time that hold a `Ref`. A
//! thread beyond these hangs where it should panic. It also hangs if it makes a second `Ref` while a sender
//! waits for its first one.)
//!
//! # Examples
//! ```
//! # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use runtime::sync::watch;
//!
//! let (tx, mut rx) = watch::channel("starting");
//! let watcher = runtime::spawn(async move {
//!     while rx.changed().await.is_ok() {
//!         println!("now {}", *rx.borrow_and_update());
//!     }
//! });
//! tx.send("running").unwrap();
//! drop(tx);
//! watcher.await.unwrap();
//! # });
//! ```
//!
//! # Where to begin reading
//! `big_reader_lock.rs` guards the value. `channel.rs` tells which receiver has seen which version, and wakes
//! receivers. `sender.rs` and `receiver.rs` are the public faces.

mod big_reader_lock;
mod channel;
pub mod error;
mod receiver;
mod sender;

pub use self::receiver::{Receiver, Ref};
pub use self::sender::{Sender, channel};
