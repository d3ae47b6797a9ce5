//! TCP. `listener.rs` and `stream.rs` are a registered descriptor each. `halves.rs` has the two ways to read
//! and write one stream at the same time. `socket.rs` has the options before `bind` and `connect`.

/// A connected `stream` with something to read, for examples.
macro_rules! setup {
    () => {
        "# let listener = runtime::net::TcpListener::bind(\"127.0.0.1:0\").await?;
# let stream = runtime::net::TcpStream::connect(listener.local_addr()?).await?;
# let (peer, _) = listener.accept().await?;
# assert_eq!(peer.try_write(b\"hello\")?, 5);"
    };
}

mod halves;
pub(super) mod listener;
pub(super) mod socket;
pub(super) mod stream;

pub use halves::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
