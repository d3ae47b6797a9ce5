//! TCP over the loopback, with real sockets. What Unix streams do, too, is in `net_streams.rs`.

mod net_support;
mod support;

use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use futures_core::Stream;
use net_support::{assert_pending, block_on, tcp_pair};
use runtime::io::{AsyncReadExt, AsyncWriteExt, ReadBuf};
use runtime::net::{TcpListener, TcpSocket, TcpStream, lookup_host};

#[test]
fn a_shutdown_of_a_connection_that_is_gone_succeeds() {
    block_on(async {
        let (mut near, far) = tcp_pair().await;
        far.set_zero_linger().unwrap();
        drop(far);
        assert_eq!(near.read(&mut [0; 8]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        near.shutdown().await.unwrap();
        let (_reader, mut writer) = near.into_split();
        writer.shutdown().await.unwrap();
    });
}

#[test]
fn a_reset_is_an_error_and_not_the_end() {
    block_on(async {
        let (mut near, far) = tcp_pair().await;
        let reading = runtime::spawn(async move { (near.read(&mut [0; 8]).await, near) });
        far.set_zero_linger().unwrap();
        drop(far);
        let (result, mut near) = reading.await.unwrap();
        assert_eq!(result.unwrap_err().kind(), ErrorKind::ConnectionReset);
        // The error is told once; afterwards nothing can be sent any more.
        assert_eq!(near.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn peek_leaves_the_bytes() {
    block_on(async {
        let (mut near, mut far) = tcp_pair().await;
        assert_pending(far.peek(&mut [0; 8])).await;
        near.write_all(b"hello").await.unwrap();
        let mut buf = [0; 8];
        assert_eq!(far.peek(&mut buf).await.unwrap(), 5);
        let n = poll_fn(|cx| far.poll_peek(cx, &mut ReadBuf::new(&mut buf[..2]))).await.unwrap();
        assert_eq!(n, 2);
        assert_eq!(far.read(&mut buf).await.unwrap(), 5);
        assert_eq!(&buf[..5], b"hello");
    });
}

#[test]
fn an_address_in_use_is_named_in_the_error() {
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let error = TcpListener::bind(addr).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        assert!(error.to_string().starts_with(&format!("bind {addr}: ")), "{error}");
    });
}

/// An address without a listener: it was ours a moment ago.
async fn deserted() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

#[test]
fn a_refused_connection_is_named_in_the_error() {
    block_on(async {
        let addr = deserted().await;
        let error = TcpStream::connect(addr).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert!(error.to_string().starts_with(&format!("connect {addr}: ")), "{error}");
        let source = std::error::Error::source(&error).unwrap().downcast_ref::<std::io::Error>().unwrap();
        assert_eq!(source.raw_os_error(), Some(libc::ECONNREFUSED));
    });
}

#[test]
fn connect_tries_one_address_after_the_other() {
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addrs = [deserted().await, listener.local_addr().unwrap()];
        let stream = TcpStream::connect(&addrs[..]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), addrs[1]);
        let error = TcpStream::connect(&[][..] as &[SocketAddr]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn names_are_resolved_and_digits_are_not_looked_up() {
    block_on(async {
        let port = TcpListener::bind("localhost:0").await.unwrap().local_addr().unwrap().port();
        assert_ne!(port, 0);
        for addr in lookup_host(("localhost", 7)).await.unwrap() {
            assert!(addr.ip().is_loopback() && addr.port() == 7);
        }
        let digits: Vec<_> = lookup_host("[::1]:80".to_string()).await.unwrap().collect();
        assert_eq!(digits, ["[::1]:80".parse::<SocketAddr>().unwrap()]);
        let error = lookup_host("no port here").await.err().unwrap();
        assert!(error.to_string().starts_with("lookup no port here: "), "{error}");
    });
}

#[test]
fn incoming_is_a_stream_of_connections() {
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let clients = runtime::spawn(async move {
            let mut clients = Vec::new();
            for _ in 0..3 {
                clients.push(TcpStream::connect(addr).await.unwrap());
            }
            clients
        });
        let mut incoming = listener.incoming();
        for _ in 0..3 {
            let next = poll_fn(|cx| Pin::new(&mut incoming).poll_next(cx)).await;
            next.unwrap().unwrap();
        }
        clients.await.unwrap();
    });
}

#[test]
fn many_connections_at_once() {
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        runtime::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                runtime::spawn(async move {
                    let (mut reader, mut writer) = stream.split();
                    let _ = runtime::io::copy(&mut reader, &mut writer).await;
                });
            }
        });
        let clients: Vec<_> = (0..150_u8)
            .map(|n| {
                runtime::spawn(async move {
                    let mut stream = TcpStream::connect(addr).await.unwrap();
                    let mut buf = [0; 100];
                    for _ in 0..10 {
                        stream.write_all(&[n; 100]).await.unwrap();
                        stream.read_exact(&mut buf).await.unwrap();
                        assert_eq!(buf, [n; 100]);
                    }
                })
            })
            .collect();
        for client in clients {
            client.await.unwrap();
        }
    });
}

/// A client for which there is no place waits for a second, then for two, and so on.
#[test]
fn a_burst_of_connections_waits_to_be_accepted() {
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let most = most.trim().parse().unwrap_or(0_usize).min(300);
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let connect = |_| std::net::TcpStream::connect_timeout(&addr, Duration::from_secs(20)).unwrap();
        let clients: Vec<_> = (0..most).map(connect).collect();
        for _ in &clients {
            listener.accept().await.unwrap();
        }
    });
}

/// Tokio wants the caller to make the socket non-blocking, and blocks a worker otherwise.
#[test]
fn a_blocking_socket_of_std_is_made_non_blocking() {
    block_on(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let listener = TcpListener::from_std(listener).unwrap();
        assert_pending(listener.accept()).await;
        // SAFETY: asks about a descriptor of ours.
        let flags = unsafe { libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&listener), libc::F_GETFL) };
        assert_ne!(flags & libc::O_NONBLOCK, 0);
        let near = TcpStream::try_from(std::net::TcpStream::connect(addr).unwrap()).unwrap();
        let (mut far, _) = listener.accept().await.unwrap();
        assert_pending(near.readable()).await;
        assert_pending(far.read(&mut [0; 8])).await;
        // Back in std, the stream can block again.
        let std = near.into_std().unwrap();
        std.set_nonblocking(false).unwrap();
        std::io::Write::write_all(&mut &std, b"x").unwrap();
        assert_eq!(far.read(&mut [0; 8]).await.unwrap(), 1);
        assert_eq!(listener.into_std().unwrap().local_addr().unwrap(), addr);
    });
}

#[test]
fn options_are_those_of_the_socket() {
    block_on(async {
        let (near, _far) = tcp_pair().await;
        near.set_nodelay(true).unwrap();
        assert!(near.nodelay().unwrap());
        #[allow(deprecated, reason = "as Tokio's")]
        near.set_linger(Some(Duration::from_secs(3))).unwrap();
        assert_eq!(near.linger().unwrap(), Some(Duration::from_secs(3)));
        #[allow(deprecated, reason = "as Tokio's")]
        near.set_linger(None).unwrap();
        assert_eq!(near.linger().unwrap(), None);
        near.set_ttl(33).unwrap();
        assert_eq!(near.ttl().unwrap(), 33);
        near.set_quickack(true).unwrap();
        assert!(near.quickack().unwrap());
        assert!(near.take_error().unwrap().is_none());
    });
}

#[test]
fn a_stream_that_is_waited_for_fails_when_its_runtime_is_shut_down() {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (near, mut far) = runtime.block_on(tcp_pair());
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let (waiting, is_waiting) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        block_on(async move {
            let mut buf = [0; 8];
            let mut read = std::pin::pin!(far.read(&mut buf));
            let first = poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await;
            assert!(first.is_pending());
            waiting.send(()).unwrap();
            read.await.unwrap_err()
        })
    });
    is_waiting.recv().unwrap();
    drop(runtime);
    let error = thread.join().unwrap();
    assert_eq!(error.kind(), ErrorKind::Other);
    assert!(error.to_string().contains("shut down"), "{error}");
    block_on(async {
        assert!(listener.accept().await.unwrap_err().to_string().contains("shut down"));
        assert!(near.readable().await.unwrap_err().to_string().contains("shut down"));
        assert!(near.try_read(&mut [0; 8]).unwrap_err().to_string().contains("shut down"));
    });
}

#[test]
#[should_panic = "`TcpListener` needs a runtime"]
fn outside_of_a_runtime_the_panic_says_what_to_do() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let _ = TcpListener::from_std(listener);
}

#[test]
fn a_socket_takes_its_options_along() {
    block_on(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseport(true).unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let addr = socket.local_addr().unwrap();
        let listener = socket.listen(16).unwrap();

        let twin = TcpSocket::new_v4().unwrap();
        twin.set_reuseport(true).unwrap();
        twin.bind(addr).expect("the port is shared");
        let stranger = TcpSocket::new_v4().unwrap();
        let error = stranger.bind(addr).unwrap_err();
        assert!(error.to_string().starts_with(&format!("bind {addr}: ")), "{error}");
        drop(twin);

        let socket = TcpSocket::new_v4().unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_keepalive(true).unwrap();
        socket.set_recv_buffer_size(8192).unwrap();
        assert!(socket.keepalive().unwrap() && socket.recv_buffer_size().unwrap() >= 8192);
        let mut near = socket.connect(addr).await.unwrap();
        assert!(near.nodelay().unwrap());
        let (mut far, _) = listener.accept().await.unwrap();
        near.write_all(b"x").await.unwrap();
        assert_eq!(far.read_u8().await.unwrap(), b'x');

        drop(listener);
        let error = TcpSocket::new_v4().unwrap().connect(addr).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert!(error.to_string().starts_with(&format!("connect {addr}: ")), "{error}");
    });
}

/// Has the first write open the connection of `socket`, also if the peer was never met before. Returns
/// whether the system can do that.
fn connect_with_first_write(socket: &TcpSocket) -> bool {
    const TCP_FASTOPEN_CONNECT: libc::c_int = 30;
    const TCP_FASTOPEN_NO_COOKIE: libc::c_int = 34;
    let fd = socket.as_raw_fd();
    [TCP_FASTOPEN_CONNECT, TCP_FASTOPEN_NO_COOKIE].into_iter().all(|option| {
        let (on, len): (libc::c_int, _) = (1, size_of::<libc::c_int>() as libc::socklen_t);
        // SAFETY: the option is a `c_int`, which lives during the call.
        unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, option, (&raw const on).cast(), len) == 0 }
    })
}

/// `connect` succeeds at once then, and there is no event before the first write.
#[test]
fn a_connection_may_be_opened_by_its_first_write() {
    let _watchdog = support::watchdog();
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        if !connect_with_first_write(&socket) {
            return;
        }
        let mut near = socket.connect(listener.local_addr().unwrap()).await.unwrap();
        near.write_all(b"hello").await.unwrap();
        let (mut far, _) = listener.accept().await.unwrap();
        let mut word = [0; 5];
        far.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"hello");
        far.write_all(b"world").await.unwrap();
        near.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"world");

        // A refusal is an error of the read or of the write.
        let socket = TcpSocket::new_v4().unwrap();
        assert!(connect_with_first_write(&socket));
        let mut near = socket.connect(deserted().await).await.unwrap();
        let result = match near.write_all(b"x").await {
            Ok(()) => near.read(&mut word).await.map(drop),
            Err(error) => Err(error),
        };
        assert_eq!(result.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}
