//! What this project and Tokio do with sockets, under the same names.

use std::net::UdpSocket;
use std::os::unix::net::UnixListener;

use super::{Ours, Peer, Streams, Tokio};

/// A runtime with Tokio's `net`.
pub trait Sockets: Streams {
    /// Sends `rounds` times so many bytes over TCP to a task that sends them back.
    fn echo_tcp(rounds: usize, bytes: usize) -> impl Future<Output = ()> + Send;

    /// The same over a Unix stream.
    fn echo_unix(rounds: usize, bytes: usize) -> impl Future<Output = ()> + Send;

    /// The same over UDP.
    fn echo_udp(rounds: usize, bytes: usize) -> impl Future<Output = ()> + Send;

    /// Sends back what each client of `listener` sends, for ever.
    fn serve_unix_echo(&self, listener: UnixListener);

    /// Sends back what comes to `socket`, for ever.
    fn serve_udp_echo(&self, socket: UdpSocket);
}

macro_rules! sockets {
    ($peer:ident, $rt:ident, $echo:ident) => {
        impl Sockets for $peer {
            async fn echo_tcp(rounds: usize, bytes: usize) {
                use ::$rt::net::{TcpListener, TcpStream};

                let listener = TcpListener::bind("127.0.0.1:0").await.expect("there are ports");
                let addr = listener.local_addr().expect("it is bound");
                let near = TcpStream::connect(addr).await.expect("the listener is here");
                let (far, _) = listener.accept().await.expect("a client connects");
                for stream in [&near, &far] {
                    stream.set_nodelay(true).expect("a socket takes the option");
                }
                $echo(rounds, bytes, near, far).await;
            }

            async fn echo_unix(rounds: usize, bytes: usize) {
                let (near, far) = ::$rt::net::UnixStream::pair().expect("there are descriptors");
                $echo(rounds, bytes, near, far).await;
            }

            async fn echo_udp(rounds: usize, bytes: usize) {
                use ::$rt::net::UdpSocket;

                let near = UdpSocket::bind("127.0.0.1:0").await.expect("there are ports");
                let far = UdpSocket::bind("127.0.0.1:0").await.expect("there are ports");
                let addr = far.local_addr().expect("it is bound");
                ::$rt::spawn(async move {
                    let mut buffer = [0; 1024];
                    for _ in 0..rounds {
                        let (length, sender) = far.recv_from(&mut buffer).await.expect("the sender is here");
                        far.send_to(&buffer[..length], sender).await.expect("it waits");
                    }
                });
                let message = vec![7; bytes];
                let mut buffer = [0; 1024];
                for _ in 0..rounds {
                    near.send_to(&message, addr).await.expect("the receiver is here");
                    assert_eq!(near.recv_from(&mut buffer).await.expect("it answers").0, bytes);
                }
            }

            fn serve_unix_echo(&self, listener: UnixListener) {
                use ::$rt::io::{AsyncReadExt, AsyncWriteExt};

                let serve = async move {
                    let listener =
                        ::$rt::net::UnixListener::from_std(listener).expect("it can be registered");
                    loop {
                        let (mut stream, _) = listener.accept().await.expect("a client connects");
                        ::$rt::spawn(async move {
                            let mut buffer = [0; 1024];
                            while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                                if stream.write_all(&buffer[..length]).await.is_err() {
                                    break;
                                }
                            }
                        });
                    }
                };
                self.block_on(async { Self::spawn(serve) });
            }

            fn serve_udp_echo(&self, socket: UdpSocket) {
                let serve = async move {
                    let socket = ::$rt::net::UdpSocket::from_std(socket).expect("it can be registered");
                    let mut buffer = [0; 1024];
                    loop {
                        // An error tells of an earlier client that has gone.
                        if let Ok((length, sender)) = socket.recv_from(&mut buffer).await {
                            let _ = socket.send_to(&buffer[..length], sender).await;
                        }
                    }
                };
                self.block_on(async { Self::spawn(serve) });
            }
        }

        async fn $echo<S>(rounds: usize, bytes: usize, mut near: S, mut far: S)
        where
            S: ::$rt::io::AsyncRead + ::$rt::io::AsyncWrite + Unpin + Send + 'static,
        {
            use ::$rt::io::{AsyncReadExt, AsyncWriteExt};

            ::$rt::spawn(async move {
                let mut buffer = [0; 1024];
                while let Ok(length @ 1..) = far.read(&mut buffer).await {
                    far.write_all(&buffer[..length]).await.expect("the client is here");
                }
            });
            let message = vec![7; bytes];
            let mut buffer = [0; 1024];
            for _ in 0..rounds {
                near.write_all(&message).await.expect("the server is here");
                assert_eq!(near.read(&mut buffer).await.expect("it answers"), bytes);
            }
        }
    };
}

sockets!(Ours, runtime, echo_on_ours);
sockets!(Tokio, tokio, echo_on_tokio);
