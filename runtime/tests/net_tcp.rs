//! TCP over the loopback, with real sockets.

use std::future::poll_fn;
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use futures_core::Stream;
use runtime::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest, ReadBuf};
use runtime::net::{TcpListener, TcpSocket, TcpStream, lookup_host};

fn block_on<F: Future>(future: F) -> F::Output {
    runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    (near, far)
}

/// Polls `future` once, which must not be ready.
async fn assert_pending<F: Future>(future: F) {
    let mut future = std::pin::pin!(future);
    poll_fn(|cx| {
        assert!(future.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
}

#[test]
fn what_is_written_is_read_both_ways() {
    block_on(async {
        let (mut near, mut far) = pair().await;
        let mut buf = [0; 64];
        for round in 0..100_u8 {
            near.write_all(&[round; 64]).await.unwrap();
            far.read_exact(&mut buf).await.unwrap();
            assert_eq!(buf, [round; 64]);
            far.write_all(&buf).await.unwrap();
            near.read_exact(&mut buf).await.unwrap();
        }
    });
}

#[test]
fn a_megabyte_passes_through_short_reads_and_writes() {
    block_on(async {
        let (mut near, mut far) = pair().await;
        let sent: Vec<u8> = (0..1 << 20).map(|i: u32| ((i * 31) >> 3) as u8).collect();
        let expected = sent.clone();
        let writer = runtime::spawn(async move {
            // In pieces of odd sizes, more than the socket holds at once.
            for piece in sent.chunks(77_777) {
                near.write_all(piece).await.unwrap();
            }
            near.shutdown().await.unwrap();
            near
        });
        let mut received = Vec::new();
        far.read_to_end(&mut received).await.unwrap();
        assert!(received == expected);
        drop(writer.await.unwrap());
    });
}

#[test]
fn a_peer_that_stops_writing_can_still_be_written_to() {
    block_on(async {
        let (mut near, mut far) = pair().await;
        near.write_all(b"question").await.unwrap();
        near.shutdown().await.unwrap();
        let mut question = String::new();
        far.read_to_string(&mut question).await.unwrap();
        assert_eq!(question, "question");
        assert_eq!(far.read(&mut [0; 8]).await.unwrap(), 0, "the end stays the end");
        far.write_all(b"answer").await.unwrap();
        drop(far);
        let mut answer = String::new();
        near.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "answer");
        assert_eq!(near.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

/// The end of the stream comes with the last bytes: the short read must not make the reader wait for another event.
#[test]
fn an_end_that_comes_with_the_last_bytes_is_seen_after_a_short_read() {
    block_on(async {
        for _ in 0..100 {
            let (mut near, mut far) = pair().await;
            near.write_all(b"bye").await.unwrap();
            drop(near);
            far.readable().await.unwrap();
            let mut buf = [0; 64];
            assert_eq!(far.read(&mut buf).await.unwrap(), 3);
            assert_eq!(far.read(&mut buf).await.unwrap(), 0);
        }
    });
}

#[test]
fn a_reset_is_an_error_and_not_the_end() {
    block_on(async {
        let (mut near, far) = pair().await;
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
fn a_writer_waits_for_room_and_is_woken_when_the_peer_reads() {
    block_on(async {
        let (near, mut far) = pair().await;
        let chunk = [7; 64 * 1024];
        let mut sent = 0;
        loop {
            near.writable().await.unwrap();
            match near.try_write(&chunk) {
                Ok(n) => sent += n,
                Err(error) => break assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        let waiting = runtime::spawn(async move {
            near.writable().await.unwrap();
            near
        });
        let mut received = vec![0; sent];
        far.read_exact(&mut received).await.unwrap();
        let near = waiting.await.unwrap();
        assert!(near.try_write(&chunk).unwrap() > 0);
    });
}

#[test]
fn peek_leaves_the_bytes() {
    block_on(async {
        let (mut near, mut far) = pair().await;
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
fn trying_does_not_wait() {
    block_on(async {
        let (near, far) = pair().await;
        assert_eq!(far.try_read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
        let hello = [IoSlice::new(b"hel"), IoSlice::new(b"lo!")];
        near.writable().await.unwrap();
        assert_eq!(near.try_write_vectored(&hello).unwrap(), 6);
        assert!(far.ready(Interest::READABLE).await.unwrap().is_readable());
        let (mut a, mut b) = ([0; 2], [0; 2]);
        let mut bufs = [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)];
        assert_eq!(far.try_read_vectored(&mut bufs).unwrap(), 4);
        let mut rest = Vec::with_capacity(8);
        assert_eq!(far.try_read_buf(&mut rest).unwrap(), 2);
        assert_eq!([&a[..], &b[..], &rest[..]].concat(), b"hello!");
        assert_eq!(far.try_read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_pending(far.readable()).await;
        assert_eq!(far.try_io(Interest::READABLE, || Ok(1)).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn async_io_tries_until_it_succeeds() {
    block_on(async {
        let (mut near, far) = pair().await;
        let reading = runtime::spawn(async move {
            let mut tries = 0;
            let result = far.async_io(Interest::READABLE, || {
                tries += 1;
                far.try_read(&mut [0; 8])
            });
            (result.await.unwrap(), tries)
        });
        runtime::task::yield_now().await;
        near.write_all(b"abc").await.unwrap();
        let (n, tries) = reading.await.unwrap();
        assert_eq!(n, 3);
        assert!(tries >= 1);
    });
}

/// A user's operation that answers `WouldBlock` although the stream has ended would be tried for ever.
#[test]
fn an_operation_that_never_succeeds_on_a_closed_stream_lets_others_run() {
    block_on(async {
        let (near, far) = pair().await;
        drop(near);
        far.readable().await.unwrap();
        runtime::spawn(async move {
            let never = far.async_io(Interest::READABLE, || Err::<(), _>(ErrorKind::WouldBlock.into()));
            // Without a budget, so that nothing but the rule itself can save us.
            runtime::task::coop::unconstrained(never).await
        });
        for _ in 0..10 {
            runtime::task::yield_now().await;
        }
    });
}

#[test]
fn many_tasks_wait_for_one_stream() {
    block_on(async {
        let (mut near, far) = pair().await;
        let far = std::sync::Arc::new(far);
        let waiting: Vec<_> = (0..50)
            .map(|_| {
                let far = far.clone();
                runtime::spawn(async move { far.readable().await })
            })
            .collect();
        runtime::task::yield_now().await;
        near.write_all(b"x").await.unwrap();
        for task in waiting {
            task.await.unwrap().unwrap();
        }
    });
}

#[test]
fn borrowed_halves_work_at_the_same_time() {
    block_on(async {
        let (mut near, mut far) = pair().await;
        let echo = runtime::spawn(async move {
            let (mut reader, mut writer) = far.split();
            runtime::io::copy(&mut reader, &mut writer).await.unwrap()
        });
        near.write_all(b"hello").await.unwrap();
        near.shutdown().await.unwrap();
        let mut back = String::new();
        near.read_to_string(&mut back).await.unwrap();
        assert_eq!((back.as_str(), echo.await.unwrap()), ("hello", 5));
    });
}

#[test]
fn owned_halves_reunite_only_with_their_other_half() {
    block_on(async {
        let ((near, far), (other, _other_far)) = (pair().await, pair().await);
        let (reader, writer) = near.into_split();
        let (other_reader, other_writer) = other.into_split();
        let error = reader.reunite(other_writer).unwrap_err();
        assert_eq!(error.to_string(), "the two halves are not of the same stream");
        let (reader, other_writer) = (error.0, error.1);
        other_reader.reunite(other_writer).unwrap();
        let near = writer.reunite(reader).unwrap();
        assert_eq!(near.peer_addr().unwrap(), far.local_addr().unwrap());
        assert_pending(far.peek(&mut [0; 8])).await;
    });
}

#[test]
fn dropping_the_writing_half_ends_the_stream_and_forgetting_it_does_not() {
    block_on(async {
        let (near, mut far) = pair().await;
        let (mut reader, writer) = near.into_split();
        drop(writer);
        assert_eq!(far.read(&mut [0; 8]).await.unwrap(), 0);
        far.write_all(b"still there").await.unwrap();
        assert_eq!(reader.read(&mut [0; 64]).await.unwrap(), 11);

        let (near, far) = pair().await;
        let (_reader, writer) = near.into_split();
        writer.forget();
        runtime::task::yield_now().await;
        assert_eq!(far.try_read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
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

/// An address that nobody listens on: it was ours a moment ago.
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

/// Tokio wants the caller to do it, and blocks a worker otherwise.
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
        // And back, with what one can do there.
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
        let (near, _far) = pair().await;
        near.set_nodelay(true).unwrap();
        assert!(near.nodelay().unwrap());
        near.set_linger(Some(Duration::from_secs(3))).unwrap();
        assert_eq!(near.linger().unwrap(), Some(Duration::from_secs(3)));
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
    let (near, mut far) = runtime.block_on(pair());
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
#[should_panic = "runtime"]
fn outside_of_a_runtime_the_panic_says_what_to_do() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let _ = TcpListener::from_std(listener);
}

/// Always ready on both sides: without the budget, the neighbour would never run.
#[test]
fn a_stream_that_is_always_ready_lets_others_run() {
    block_on(async {
        let (mut near, mut far) = pair().await;
        let has_run = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let busy = runtime::spawn({
            let has_run = has_run.clone();
            async move {
                let mut buf = [0; 1];
                for rounds in 0.. {
                    near.write_all(b"x").await.unwrap();
                    far.read_exact(&mut buf).await.unwrap();
                    if has_run.load(std::sync::atomic::Ordering::Relaxed) {
                        break;
                    }
                    assert!(rounds < 10_000, "the neighbour has not run");
                }
            }
        });
        runtime::spawn(async move { has_run.store(true, std::sync::atomic::Ordering::Relaxed) });
        busy.await.unwrap();
    });
}

/// Reads through a `poll_*` function of one task after the other: the last one is woken.
#[test]
fn the_last_task_that_polled_is_the_one_woken() {
    block_on(async {
        let (mut near, mut far) = pair().await;
        // An accepted stream is tried first; from then on it waits.
        assert_pending(far.peek(&mut [0; 8])).await;
        assert_pending(poll_fn(|cx| far.poll_read_ready(cx))).await;
        let task = runtime::spawn(async move {
            let mut buf = [0; 8];
            poll_fn(|cx| Pin::new(&mut far).poll_read(cx, &mut ReadBuf::new(&mut buf))).await.unwrap();
            far
        });
        runtime::task::yield_now().await;
        let n = poll_fn(|cx| Pin::new(&mut near).poll_write(cx, b"x")).await.unwrap();
        assert_eq!(n, 1);
        task.await.unwrap();
    });
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
