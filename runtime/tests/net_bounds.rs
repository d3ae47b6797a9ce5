//! Which sockets, halves and futures may go to other threads, and be shared between them: all. (Checked when
//! it compiles.)

use std::panic::{RefUnwindSafe, UnwindSafe};

use runtime::io::Interest;
use runtime::io::unix::{AsyncFd, AsyncFdReadyGuard, AsyncFdReadyMutGuard, AsyncFdRegisterError, TryIoError};
use runtime::net::unix::{SocketAddr, UCred, pipe};
use runtime::net::{
    TcpListener, TcpSocket, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixSocket, UnixStream, tcp,
    unix,
};

fn travels<T: Send + Sync + Unpin>() {}

fn survives_panics<T: UnwindSafe + RefUnwindSafe>() {}

fn is_shared<F: Future + Send + Sync>(_: F) {}

#[test]
fn types_go_anywhere() {
    travels::<(TcpListener, TcpSocket, TcpStream, UdpSocket)>();
    travels::<(UnixDatagram, UnixListener, UnixSocket, UnixStream)>();
    travels::<(
        tcp::ReadHalf<'_>,
        tcp::WriteHalf<'_>,
        tcp::OwnedReadHalf,
        tcp::OwnedWriteHalf,
        tcp::ReuniteError,
    )>();
    travels::<(unix::ReadHalf<'_>, unix::WriteHalf<'_>, unix::OwnedReadHalf, unix::OwnedWriteHalf)>();
    travels::<(unix::ReuniteError, SocketAddr, UCred, pipe::Sender, pipe::Receiver, pipe::OpenOptions)>();
    travels::<(AsyncFd<i32>, AsyncFdReadyGuard<'_, i32>, AsyncFdReadyMutGuard<'_, i32>)>();
    travels::<(AsyncFdRegisterError<i32>, TryIoError)>();
    survives_panics::<(TcpListener, TcpSocket, TcpStream, UdpSocket)>();
    survives_panics::<(UnixDatagram, UnixListener, UnixSocket, UnixStream)>();
}

#[test]
fn futures_go_anywhere() {
    // Never called: there is no socket.
    #[allow(dead_code, reason = "it compiles")]
    fn futures(
        tcp: &TcpStream,
        listener: &TcpListener,
        udp: &UdpSocket,
        datagram: &UnixDatagram,
        fd: &mut AsyncFd<i32>,
    ) {
        is_shared(TcpStream::connect("127.0.0.1:1"));
        is_shared(TcpListener::bind("127.0.0.1:1"));
        is_shared(UdpSocket::bind("127.0.0.1:1"));
        is_shared(UnixStream::connect("socket"));
        is_shared(runtime::net::lookup_host("127.0.0.1:1"));
        is_shared(listener.accept());
        is_shared(tcp.readable());
        is_shared(tcp.ready(Interest::WRITABLE));
        is_shared(tcp.peek(&mut []));
        is_shared(tcp.async_io(Interest::READABLE, || Ok(())));
        is_shared(udp.connect("127.0.0.1:1"));
        is_shared(udp.send_to(&[], "127.0.0.1:1"));
        is_shared(udp.recv_from(&mut []));
        is_shared(udp.peek_sender());
        is_shared(datagram.send_to(&[], "socket"));
        is_shared(datagram.recv_buf(&mut Vec::new()));
        is_shared(fd.readable());
        is_shared(fd.writable_mut());
    }
}
