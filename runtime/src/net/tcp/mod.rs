//! TCP: `listener.rs` and `stream.rs` are a registered descriptor each, `split.rs` and `split_owned.rs` the two ways
//! to read and write one stream at the same time, `socket.rs` the options before `bind` and `connect`.

pub(super) mod listener;
pub(super) mod socket;
mod split;
mod split_owned;
pub(super) mod stream;

pub use split::{ReadHalf, WriteHalf};
pub use split_owned::{OwnedReadHalf, OwnedWriteHalf, ReuniteError};
