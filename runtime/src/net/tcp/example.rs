//! The hidden beginning of the examples of streams.

/// A connected `stream` with something to read, for examples.
macro_rules! setup {
    () => {
        "# let listener = runtime::net::TcpListener::bind(\"127.0.0.1:0\").await?;
# let stream = runtime::net::TcpStream::connect(listener.local_addr()?).await?;
# let (peer, _) = listener.accept().await?;
# assert_eq!(peer.try_write(b\"hello\")?, 5);"
    };
}
pub(super) use setup;
