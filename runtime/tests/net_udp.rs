//! UDP over the loopback, with real sockets.

mod net_support;
mod support;

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use net_support::{assert_pending, block_on};
use runtime::io::{Interest, ReadBuf};
use runtime::net::UdpSocket;

async fn socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").await.unwrap()
}

/// Two sockets that are connected to each other.
async fn pair() -> (UdpSocket, UdpSocket) {
    let (near, far) = (socket().await, socket().await);
    near.connect(far.local_addr().unwrap()).await.unwrap();
    far.connect(near.local_addr().unwrap()).await.unwrap();
    (near, far)
}

/// A connected socket whose other end is gone.
async fn deserted() -> UdpSocket {
    pair().await.0
}

#[test]
fn what_is_sent_is_received_with_the_address_of_its_sender() {
    support::each_kind(|runtime| {
        runtime.block_on(async {
            for any in ["127.0.0.1:0", "[::1]:0"] {
                let near = UdpSocket::bind(any).await.unwrap();
                let far = UdpSocket::bind(any).await.unwrap();
                let addr = far.local_addr().unwrap();
                for round in 0..100_usize {
                    let sent = vec![round as u8; round];
                    assert_eq!(near.send_to(&sent, addr).await.unwrap(), round);
                    let mut buf = [0; 128];
                    let (n, from) = far.recv_from(&mut buf).await.unwrap();
                    assert_eq!((&buf[..n], from), (&sent[..], near.local_addr().unwrap()));
                }
            }
        });
    });
}

#[test]
fn the_first_datagram_is_sent_without_waiting() {
    block_on(async {
        let near = socket().await;
        assert_eq!(near.try_send_to(b"hello", near.local_addr().unwrap()).unwrap(), 5);
        assert_eq!(near.recv(&mut [0; 8]).await.unwrap(), 5);
    });
}

#[test]
fn every_way_to_receive_yields_the_same() {
    block_on(async {
        let (near, far) = pair().await;
        let from = near.local_addr().unwrap();
        let mut buf = [0; 8];
        for _ in 0..8 {
            near.send(b"hello").await.unwrap();
        }
        assert_eq!(far.recv(&mut buf).await.unwrap(), 5);
        assert_eq!(far.recv_from(&mut buf).await.unwrap(), (5, from));
        assert_eq!(far.try_recv(&mut buf).unwrap(), 5);
        assert_eq!(far.try_recv_from(&mut buf).unwrap(), (5, from));
        let mut all = Vec::with_capacity(64);
        assert_eq!(far.recv_buf(&mut all).await.unwrap(), 5);
        assert_eq!(far.recv_buf_from(&mut all).await.unwrap(), (5, from));
        assert_eq!(far.try_recv_buf(&mut all).unwrap(), 5);
        assert_eq!(far.try_recv_buf_from(&mut all).unwrap(), (5, from));
        assert_eq!((&buf[..5], &all[..]), (&b"hello"[..], &b"hellohellohellohello"[..]));

        let mut room = [0; 16];
        let mut read = ReadBuf::new(&mut room);
        assert!(poll_fn(|cx| Poll::Ready(far.poll_recv(cx, &mut read))).await.is_pending());
        near.send(b"one").await.unwrap();
        poll_fn(|cx| far.poll_recv(cx, &mut read)).await.unwrap();
        assert_eq!(poll_fn(|cx| near.poll_send(cx, b"two")).await.unwrap(), 3);
        assert_eq!(poll_fn(|cx| far.poll_recv_from(cx, &mut read)).await.unwrap(), from);
        assert_eq!(read.filled(), b"onetwo");
        for nothing in [far.try_recv(&mut buf), far.try_recv_from(&mut buf).map(|_| 0)] {
            assert_eq!(nothing.unwrap_err().kind(), ErrorKind::WouldBlock);
        }
    });
}

#[test]
fn peeking_leaves_the_datagram() {
    block_on(async {
        let (near, far) = pair().await;
        let from = near.local_addr().unwrap();
        let mut buf = [0; 8];
        assert_eq!(far.try_peek_sender().unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_pending(far.peek(&mut buf)).await;
        near.send(b"hello").await.unwrap();
        for _ in 0..2 {
            assert_eq!(far.peek(&mut buf[..2]).await.unwrap(), 2);
            assert_eq!(far.try_peek(&mut buf).unwrap(), 5);
            assert_eq!(far.peek_from(&mut buf).await.unwrap(), (5, from));
            assert_eq!(far.try_peek_from(&mut buf).unwrap(), (5, from));
            assert_eq!(far.peek_sender().await.unwrap(), from);
            assert_eq!(far.try_peek_sender().unwrap(), from);
            assert_eq!(poll_fn(|cx| far.poll_peek_sender(cx)).await.unwrap(), from);
            let mut room = [0; 16];
            let mut read = ReadBuf::new(&mut room);
            poll_fn(|cx| far.poll_peek(cx, &mut read)).await.unwrap();
            assert_eq!(poll_fn(|cx| far.poll_peek_from(cx, &mut read)).await.unwrap(), from);
            assert_eq!(read.filled(), b"hellohello");
        }
        assert_eq!(far.recv(&mut buf).await.unwrap(), 5);
        assert_eq!(far.try_peek(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

/// A receive that leaves room says nothing about what else is there: one event for all of them must do.
#[test]
fn datagrams_that_came_together_are_received_one_by_one() {
    block_on(async {
        let (near, far) = pair().await;
        assert_pending(far.readable()).await;
        for length in 0..20 {
            near.send(&vec![1; length]).await.unwrap();
        }
        far.readable().await.unwrap();
        let mut buf = [0; 64];
        for length in 0..20 {
            assert_eq!(far.recv(&mut buf).await.unwrap(), length);
        }
        assert_pending(far.recv(&mut buf)).await;
    });
}

#[test]
fn what_has_no_room_is_lost_and_the_next_datagram_is_whole() {
    block_on(async {
        let (near, far) = pair().await;
        near.send(b"longer than the buffer").await.unwrap();
        near.send(b"gone").await.unwrap();
        near.send(b"").await.unwrap();
        near.send(b"next").await.unwrap();
        let mut buf = [0; 6];
        assert_eq!(far.recv(&mut buf).await.unwrap(), 6);
        assert_eq!(&buf, b"longer");
        // No room at all: it is taken all the same.
        assert_eq!(far.recv(&mut []).await.unwrap(), 0);
        let mut full = ReadBuf::new(&mut []);
        poll_fn(|cx| far.poll_recv(cx, &mut full)).await.unwrap();
        assert_eq!(far.recv(&mut buf).await.unwrap(), 4);
        assert_eq!(&buf[..4], b"next");
    });
}

#[test]
fn a_datagram_that_is_too_long_is_an_error_and_the_socket_lives_on() {
    block_on(async {
        let (near, far) = pair().await;
        let long = vec![0; 65508];
        assert_eq!(near.send(&long).await.unwrap_err().raw_os_error(), Some(libc::EMSGSIZE));
        let to = far.local_addr().unwrap();
        assert_eq!(near.try_send_to(&long, to).unwrap_err().raw_os_error(), Some(libc::EMSGSIZE));
        assert_eq!(near.send(&long[..65507]).await.unwrap(), 65507);
        let mut buf = vec![1; 65536];
        assert_eq!(far.recv(&mut buf).await.unwrap(), 65507);
        assert!(buf[..65507] == long[..65507]);
    });
}

/// `recv` waits in the list, and `poll_recv` in the slot: an error wakes both. Tokio's `poll_recv` is not
/// told.
#[test]
fn a_peer_that_is_gone_is_told_once_and_the_socket_lives_on() {
    block_on(async {
        let near = deserted().await;
        let mut buf = [0; 8];
        {
            let mut receive = pin!(near.recv(&mut buf));
            assert_pending(receive.as_mut()).await;
            near.send(b"?").await.unwrap();
            assert_eq!(receive.await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        }
        assert_eq!(near.try_recv(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
        let mut read = ReadBuf::new(&mut buf);
        {
            let mut receive = pin!(poll_fn(|cx| near.poll_recv(cx, &mut read)));
            assert_pending(receive.as_mut()).await;
            near.send(b"?").await.unwrap();
            assert_eq!(receive.await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        }
        // Or the next send is told.
        near.send(b"?").await.unwrap();
        near.ready(Interest::ERROR).await.unwrap();
        assert_eq!(near.send(b"?").await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        // The socket gets a new peer.
        let far = socket().await;
        near.connect(far.local_addr().unwrap()).await.unwrap();
        near.take_error().unwrap();
        near.send(b"hello").await.unwrap();
        assert_eq!(far.recv(&mut buf).await.unwrap(), 5);
    });
}

/// The flags of an error say that the socket is closed for writing. If it were so, a writer that finds no
/// room would try again and again.
#[test]
fn an_error_that_is_over_does_not_make_a_writer_spin() {
    block_on(async {
        let near = deserted().await;
        near.send(b"?").await.unwrap();
        near.ready(Interest::ERROR).await.unwrap();
        assert_eq!(near.recv(&mut [0; 8]).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let mut tries = 0;
        {
            let mut write = pin!(near.async_io(Interest::WRITABLE, || {
                tries += 1;
                Err::<(), _>(ErrorKind::WouldBlock.into())
            }));
            for _ in 0..10 {
                assert_pending(write.as_mut()).await;
                runtime::task::yield_now().await;
            }
        }
        assert_eq!(tries, 1);
    });
}

#[test]
fn an_unconnected_socket_has_no_peer() {
    block_on(async {
        let near = socket().await;
        assert_eq!(near.send(b"?").await.unwrap_err().raw_os_error(), Some(libc::EDESTADDRREQ));
        assert_eq!(near.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);
        let nowhere: &[SocketAddr] = &[];
        assert_eq!(near.send_to(b"?", nowhere).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(near.connect(nowhere).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(UdpSocket::bind(nowhere).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        // An address of the other family.
        let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, 9));
        assert!(near.send_to(b"?", v6).await.is_err());
        let error = near.connect(v6).await.unwrap_err();
        assert!(error.to_string().starts_with("connect [::1]:9: "), "{error}");
        let error = UdpSocket::bind(near.local_addr().unwrap()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        assert!(error.to_string().starts_with(&format!("bind {}: ", near.local_addr().unwrap())), "{error}");
    });
}

#[test]
fn names_are_resolved() {
    block_on(async {
        let far = socket().await;
        let port = far.local_addr().unwrap().port();
        let near = UdpSocket::bind(("127.0.0.1", 0)).await.unwrap();
        near.send_to(b"digits", ("127.0.0.1", port)).await.unwrap();
        let addrs = [SocketAddr::from(([127, 0, 0, 1], port))];
        near.send_to(b"a slice", &addrs[..]).await.unwrap();
        near.connect(format!("127.0.0.1:{port}")).await.unwrap();
        near.send(b"connected").await.unwrap();
        let mut buf = [0; 64];
        for length in [6, 7, 9] {
            assert_eq!(far.recv(&mut buf).await.unwrap(), length);
        }
        assert!(near.send_to(b"", "no port here").await.unwrap_err().to_string().starts_with("lookup "));
    });
}

#[test]
fn many_tasks_wait_for_one_socket_and_each_datagram_goes_to_one() {
    support::each_kind(|runtime| {
        runtime.block_on(async {
            let (near, far) = pair().await;
            let far = Arc::new(far);
            let waiting: Vec<_> = (0..50)
                .map(|_| {
                    let far = far.clone();
                    runtime::spawn(async move {
                        let mut buf = [0; 8];
                        assert_eq!(far.recv(&mut buf).await.unwrap(), 1);
                        buf[0]
                    })
                })
                .collect();
            for number in 0..50 {
                near.send(&[number]).await.unwrap();
            }
            let mut got = Vec::new();
            for task in waiting {
                got.push(task.await.unwrap());
            }
            got.sort_unstable();
            assert!(got.into_iter().eq(0..50));
        });
    });
}

/// Always ready on both sides: without the budget, the neighbour would never run.
#[test]
fn a_socket_that_is_always_ready_lets_others_run() {
    block_on(async {
        let (near, far) = pair().await;
        let has_run = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = has_run.clone();
        let busy = runtime::spawn(async move {
            let to = far.local_addr().unwrap();
            for rounds in 0.. {
                near.send_to(b"x", to).await.unwrap();
                far.recv_from(&mut [0; 8]).await.unwrap();
                if seen.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                assert!(rounds < 10_000, "the neighbour has not run");
            }
        });
        runtime::spawn(async move { has_run.store(true, std::sync::atomic::Ordering::Relaxed) });
        busy.await.unwrap();
    });
}

#[test]
fn the_system_is_called_for_what_has_no_method() {
    block_on(async {
        let (near, far) = pair().await;
        let mut parts = [*b"one", *b"two"];
        let mut slices =
            parts.each_mut().map(|part| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: 3 });
        // SAFETY: all zero is a valid value.
        let mut messages: [libc::mmsghdr; 2] = unsafe { std::mem::zeroed() };
        for (message, slice) in messages.iter_mut().zip(&mut slices) {
            (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (slice, 1);
        }
        let fd = near.as_raw_fd();
        // SAFETY: reads the messages, which are whole and live until the call returns, and writes their
        // lengths.
        let send = || match unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), 2, 0) } {
            -1 => Err(io::Error::last_os_error()),
            n => Ok(n),
        };
        assert_eq!(near.async_io(Interest::WRITABLE, send).await.unwrap(), 2);
        let mut buf = [0; 8];
        assert_eq!(far.recv(&mut buf).await.unwrap(), 3);
        let sock = socket2::SockRef::from(&far);
        let mut room = [std::mem::MaybeUninit::uninit(); 8];
        assert_eq!(far.try_io(Interest::READABLE, || sock.recv(&mut room)).unwrap(), 3);
        let nothing = far.try_io(Interest::READABLE, || sock.recv(&mut room)).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
        assert_pending(far.readable()).await;
    });
}

#[test]
fn options_are_those_of_the_socket() {
    block_on(async {
        let v4 = socket().await;
        v4.set_broadcast(true).unwrap();
        v4.set_multicast_loop_v4(false).unwrap();
        v4.set_multicast_ttl_v4(7).unwrap();
        v4.set_ttl(33).unwrap();
        v4.set_tos_v4(0x10).unwrap();
        assert!(v4.broadcast().unwrap() && !v4.multicast_loop_v4().unwrap());
        assert_eq!((v4.multicast_ttl_v4().unwrap(), v4.ttl().unwrap(), v4.tos_v4().unwrap()), (7, 33, 0x10));
        assert_eq!(v4.device().unwrap(), None);
        v4.bind_device(None).unwrap();
        let v6 = UdpSocket::bind("[::1]:0").await.unwrap();
        v6.set_multicast_loop_v6(false).unwrap();
        v6.set_tclass_v6(0x20).unwrap();
        assert!(!v6.multicast_loop_v6().unwrap());
        assert_eq!(v6.tclass_v6().unwrap(), 0x20);
        assert!(v4.take_error().unwrap().is_none());
    });
}

#[test]
fn a_member_of_a_group_receives_what_is_sent_there() {
    block_on(async {
        let member = UdpSocket::bind("0.0.0.0:0").await.unwrap();
        let group = Ipv4Addr::new(224, 0, 0, 254);
        member.join_multicast_v4(group, Ipv4Addr::LOCALHOST).unwrap();
        let twice = member.join_multicast_v4(group, Ipv4Addr::LOCALHOST).unwrap_err();
        assert_eq!(twice.kind(), ErrorKind::AddrInUse);
        let sender = socket().await;
        socket2::SockRef::from(&sender).set_multicast_if_v4(&Ipv4Addr::LOCALHOST).unwrap();
        sender.send_to(b"hello", (group, member.local_addr().unwrap().port())).await.unwrap();
        assert_eq!(member.recv(&mut [0; 8]).await.unwrap(), 5);
        member.leave_multicast_v4(group, Ipv4Addr::LOCALHOST).unwrap();
        assert!(member.leave_multicast_v4(group, Ipv4Addr::LOCALHOST).is_err());
        let v6 = UdpSocket::bind("[::]:0").await.unwrap();
        let nodes: Ipv6Addr = "ff01::1".parse().unwrap();
        assert!(v6.leave_multicast_v6(&"ff02::99".parse().unwrap(), 0).is_err(), "never joined");
        assert!(v6.join_multicast_v6(&nodes, u32::MAX).is_err(), "no such interface");
    });
}

#[test]
fn a_socket_of_std_is_made_non_blocking_and_given_back() {
    block_on(async {
        let std = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let addr = std.local_addr().unwrap();
        let near = UdpSocket::try_from(std).unwrap();
        assert_pending(near.recv(&mut [0; 8])).await;
        let std = near.into_std().unwrap();
        assert_eq!(std.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(UdpSocket::from_std(std).unwrap().local_addr().unwrap(), addr);
    });
}

#[test]
fn a_wrong_kind_of_descriptor_is_an_error() {
    block_on(async {
        // A Unix socket: what comes has no address of ours.
        let (near, far) = std::os::unix::net::UnixDatagram::pair().unwrap();
        let near = UdpSocket::from_std(std::os::fd::OwnedFd::from(near).into()).unwrap();
        far.send(b"hello").unwrap();
        assert_eq!(near.recv_from(&mut [0; 8]).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        far.send(b"hello").unwrap();
        assert_eq!(near.recv(&mut [0; 8]).await.unwrap(), 5);
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let error = UdpSocket::from_std(std::os::fd::OwnedFd::from(file).into()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EPERM));
    });
}

#[test]
fn outside_of_a_runtime_the_panic_says_what_to_do() {
    let std = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let text = support::panic_of(|| UdpSocket::from_std(std));
    assert!(text.contains("`UdpSocket` needs a runtime"), "{text}");
    let without_io = runtime::Builder::new_current_thread().build().unwrap();
    let text = support::panic_of(|| without_io.block_on(UdpSocket::bind("127.0.0.1:0")));
    assert!(text.contains("enable_io"), "{text}");
}

#[test]
fn a_socket_is_an_error_after_the_shutdown_of_its_runtime() {
    let runtime = support::build(1);
    let (near, far) = runtime.block_on(pair());
    let text = "the runtime that watched this descriptor was shut down";
    let (waiting, is_waiting) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        block_on(async move {
            let mut buf = [0; 8];
            let mut receive = pin!(far.recv(&mut buf));
            assert_pending(receive.as_mut()).await;
            waiting.send(()).unwrap();
            receive.await.unwrap_err().to_string()
        })
    });
    is_waiting.recv().unwrap();
    drop(runtime);
    assert_eq!(thread.join().unwrap(), text);
    block_on(async {
        assert_eq!(near.recv_from(&mut [0; 8]).await.unwrap_err().to_string(), text);
        assert_eq!(near.send(b"x").await.unwrap_err().to_string(), text);
        assert_eq!(near.try_send(b"x").unwrap_err().to_string(), text);
        assert_eq!(poll_fn(|cx| near.poll_send_ready(cx)).await.unwrap_err().to_string(), text);
        assert_eq!(poll_fn(|cx| near.poll_recv_ready(cx)).await.unwrap_err().to_string(), text);
    });
}
