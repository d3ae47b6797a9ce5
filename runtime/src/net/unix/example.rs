//! The hidden beginning of the examples of streams.

/// A connected `stream` with something to read, for examples.
macro_rules! setup {
    () => {
        "# let (stream, peer) = runtime::net::UnixStream::pair()?;
# assert_eq!(peer.try_write(b\"hello\")?, 5);"
    };
}
pub(super) use setup;
