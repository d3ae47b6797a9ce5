//! What this project and Tokio do with streams, under the same names.

use std::io::Cursor;
use std::sync::Arc;

use super::{Ours, Service, Tokio};

/// A runtime with Tokio's `io`.
pub trait Streams: Service {
    /// Reads the lines of `text`, so many `times`, through a buffer; returns how many.
    fn lines_of_memory(text: Arc<[u8]>, times: usize) -> impl Future<Output = usize> + Send;

    /// The same, where another task writes the text into a pipe.
    fn lines_of_pipe(text: Arc<[u8]>, times: usize) -> impl Future<Output = usize> + Send;

    /// A task writes so many numbers of four bytes through a buffer into a pipe, the caller reads them
    /// through another.
    fn numbers(count: usize) -> impl Future<Output = ()> + Send;

    /// Sends `rounds` times so many bytes through a relay between two pipes and waits until they come back.
    fn relay_pipes(rounds: usize, bytes: usize) -> impl Future<Output = ()> + Send;

    /// The same between two TCP connections.
    fn relay_sockets(rounds: usize, bytes: usize) -> impl Future<Output = ()> + Send;
}

/// Bytes that a pipe holds.
const PIPE: usize = 64 << 10;

macro_rules! streams {
    ($peer:ident, $rt:ident, $relay:ident) => {
        impl Streams for $peer {
            async fn lines_of_memory(text: Arc<[u8]>, times: usize) -> usize {
                use ::$rt::io::AsyncBufReadExt;

                let mut count = 0;
                for _ in 0..times {
                    let mut lines = ::$rt::io::BufReader::new(Cursor::new(text.clone())).lines();
                    while lines.next_line().await.expect("memory can be read").is_some() {
                        count += 1;
                    }
                }
                count
            }

            async fn lines_of_pipe(text: Arc<[u8]>, times: usize) -> usize {
                use ::$rt::io::{AsyncBufReadExt, AsyncWriteExt};

                let (mut near, far) = ::$rt::io::duplex(PIPE);
                ::$rt::spawn(async move {
                    for _ in 0..times {
                        near.write_all(&text).await.expect("the reader is here");
                    }
                });
                let mut lines = ::$rt::io::BufReader::new(far).lines();
                let mut count = 0;
                while lines.next_line().await.expect("a pipe can be read").is_some() {
                    count += 1;
                }
                count
            }

            async fn numbers(count: usize) {
                use ::$rt::io::{AsyncReadExt, AsyncWriteExt, BufReader, BufWriter};

                let (near, far) = ::$rt::io::duplex(PIPE);
                ::$rt::spawn(async move {
                    let mut writer = BufWriter::new(near);
                    for number in 0..count {
                        writer.write_u32(number as u32).await.expect("the reader is here");
                    }
                    writer.flush().await.expect("the reader is here");
                });
                let mut reader = BufReader::new(far);
                for number in 0..count {
                    assert_eq!(reader.read_u32().await.expect("a pipe can be read"), number as u32);
                }
            }

            async fn relay_pipes(rounds: usize, bytes: usize) {
                let (client, near) = ::$rt::io::duplex(PIPE);
                let (far, server) = ::$rt::io::duplex(PIPE);
                $relay(rounds, bytes, client, near, far, server).await;
            }

            async fn relay_sockets(rounds: usize, bytes: usize) {
                use ::$rt::net::{TcpListener, TcpStream};

                let listener = TcpListener::bind("127.0.0.1:0").await.expect("there are ports");
                let addr = listener.local_addr().expect("it is bound");
                let mut sockets = Vec::new();
                for _ in 0..2 {
                    let socket = TcpStream::connect(addr).await.expect("the listener is here");
                    sockets.push(socket);
                    sockets.push(listener.accept().await.expect("a client connects").0);
                }
                for socket in &sockets {
                    socket.set_nodelay(true).expect("a socket takes the option");
                }
                let [client, near, far, server] = sockets.try_into().expect("there are four");
                $relay(rounds, bytes, client, near, far, server).await;
            }
        }

        async fn $relay<S>(rounds: usize, bytes: usize, mut client: S, near: S, far: S, mut server: S)
        where
            S: ::$rt::io::AsyncRead + ::$rt::io::AsyncWrite + Unpin + Send + 'static,
        {
            use ::$rt::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};

            let (mut near, mut far) = (near, far);
            ::$rt::spawn(async move { copy_bidirectional(&mut near, &mut far).await });
            ::$rt::spawn(async move {
                let mut message = vec![0; bytes];
                while server.read_exact(&mut message).await.is_ok() {
                    server.write_all(&message).await.expect("the relay is here");
                }
            });
            let mut message = vec![7; bytes];
            for _ in 0..rounds {
                client.write_all(&message).await.expect("the relay is here");
                client.read_exact(&mut message).await.expect("the relay is here");
            }
        }
    };
}

streams!(Ours, runtime, relay_of_ours);
streams!(Tokio, tokio, relay_of_tokio);
