//! TCP. `listener.rs` and `stream.rs` are a registered descriptor each. `halves.rs` has the two ways to read
//! and write one stream at the same time. `socket.rs` has the options before `bind` and `connect`.

mod example;
mod halves;
pub(super) mod listener;
pub(super) mod socket;
pub(super) mod stream;

pub use halves::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
