//! Unix datagrams, with real sockets.

mod net_support;
mod support;

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net as std_net;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use net_support::{Folder, assert_pending, block_on};
use runtime::io::{Interest, ReadBuf};
use runtime::net::{UnixDatagram, UnixListener, UnixSocket, UnixStream};

#[test]
fn what_is_sent_is_received_with_the_address_of_its_sender() {
    support::each_kind(|runtime| {
        runtime.block_on(async {
            let folder = Folder::new();
            let far = UnixDatagram::bind(folder.path("far")).unwrap();
            let near = UnixDatagram::bind(folder.path("near")).unwrap();
            for round in 0..100_usize {
                let sent = vec![round as u8; round];
                assert_eq!(near.send_to(&sent, folder.path("far")).await.unwrap(), round);
                let mut buf = [0; 128];
                let (n, from) = far.recv_from(&mut buf).await.unwrap();
                assert_eq!((&buf[..n], from.as_pathname()), (&sent[..], Some(&*folder.path("near"))));
            }
            assert_eq!(far.local_addr().unwrap().as_pathname(), Some(&*folder.path("far")));
        });
    });
}

#[test]
fn every_kind_of_sender_has_its_address() {
    block_on(async {
        // Zero bytes are as good as others there, also the first.
        let name = format!("\0\0runtime-far-{}", std::process::id());
        let far = UnixDatagram::bind(&name).unwrap();
        assert_eq!(far.local_addr().unwrap().as_abstract_name(), Some(&name.as_bytes()[1..]));
        let mut buf = [0; 8];
        let unnamed = UnixDatagram::unbound().unwrap();
        unnamed.connect(&name).unwrap();
        assert_eq!(unnamed.peer_addr().unwrap().as_abstract_name(), Some(&name.as_bytes()[1..]));
        assert_eq!(unnamed.send(b"x").await.unwrap(), 1);
        assert!(far.recv_from(&mut buf).await.unwrap().1.is_unnamed());
        let mine = format!("\0runtime\0near-{}", std::process::id());
        let near = UnixDatagram::bind(&mine).unwrap();
        assert_eq!(near.try_send_to(b"x", &name).unwrap(), 1);
        assert_eq!(far.recv_from(&mut buf).await.unwrap().1.as_abstract_name(), Some(&mine.as_bytes()[1..]));
    });
}

#[test]
fn every_way_to_receive_yields_the_same() {
    block_on(async {
        let (near, far) = UnixDatagram::pair().unwrap();
        let mut buf = [0; 8];
        assert_eq!(near.try_send(b"hello").unwrap(), 5, "a pair is writable at once");
        for _ in 0..7 {
            near.send(b"hello").await.unwrap();
        }
        assert_eq!(far.recv(&mut buf).await.unwrap(), 5);
        let (n, from) = far.recv_from(&mut buf).await.unwrap();
        assert!(n == 5 && from.is_unnamed());
        assert_eq!(far.try_recv(&mut buf).unwrap(), 5);
        assert_eq!(far.try_recv_from(&mut buf).unwrap().0, 5);
        let mut all = Vec::with_capacity(64);
        assert_eq!(far.recv_buf(&mut all).await.unwrap(), 5);
        assert_eq!(far.recv_buf_from(&mut all).await.unwrap().0, 5);
        assert_eq!(far.try_recv_buf(&mut all).unwrap(), 5);
        assert_eq!(far.try_recv_buf_from(&mut all).unwrap().0, 5);
        assert_eq!((&buf[..5], &all[..]), (&b"hello"[..], &b"hellohellohellohello"[..]));
        let mut room = [0; 16];
        let mut read = ReadBuf::new(&mut room);
        assert_eq!(poll_fn(|cx| near.poll_send(cx, b"one")).await.unwrap(), 3);
        assert_eq!(poll_fn(|cx| near.poll_send(cx, b"two")).await.unwrap(), 3);
        poll_fn(|cx| far.poll_recv(cx, &mut read)).await.unwrap();
        assert!(poll_fn(|cx| far.poll_recv_from(cx, &mut read)).await.unwrap().is_unnamed());
        assert_eq!(read.filled(), b"onetwo");
        assert_eq!(far.try_recv(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_pending(far.recv(&mut buf)).await;
    });
}

#[test]
fn what_has_no_room_is_lost_and_the_next_datagram_is_whole() {
    block_on(async {
        let (near, far) = UnixDatagram::pair().unwrap();
        for text in ["longer than the buffer", "", "next"] {
            near.send(text.as_bytes()).await.unwrap();
        }
        let mut buf = [0; 6];
        assert_eq!(far.recv(&mut buf).await.unwrap(), 6);
        assert_eq!(far.recv(&mut buf).await.unwrap(), 0);
        assert_eq!(far.recv(&mut buf).await.unwrap(), 4);
        let long = vec![0; 16 << 20];
        assert_eq!(near.send(&long).await.unwrap_err().raw_os_error(), Some(libc::EMSGSIZE));
        assert_eq!(near.send(b"lives").await.unwrap(), 5);
    });
}

/// Sends to `path` until it has no room, from a socket of its own, and returns that socket.
fn fill(path: &Path) -> std_net::UnixDatagram {
    let filler = std_net::UnixDatagram::unbound().unwrap();
    filler.set_nonblocking(true).unwrap();
    while filler.send_to(b"filler", path).is_ok() {}
    filler
}

async fn drain(socket: &UnixDatagram, last: &[u8]) {
    let mut buf = [0; 64];
    loop {
        let n = socket.recv(&mut buf).await.unwrap();
        if &buf[..n] == last {
            return;
        }
        assert_eq!(&buf[..n], b"filler");
    }
}

/// A refused datagram makes an event, since it is freed. A sender that waited for such events would try again
/// and again.
#[test]
fn a_sender_that_waits_for_room_is_not_woken_before_there_is_some() {
    block_on(async {
        let folder = Folder::new();
        let far = UnixDatagram::bind(folder.path("far")).unwrap();
        let near = UnixDatagram::unbound().unwrap();
        let _filler = fill(&folder.path("far"));
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let cx = &mut Context::from_waker(&waker);
        let mut waiting = pin!(near.send_to(b"last", folder.path("far")));
        assert!(waiting.as_mut().poll(cx).is_pending());
        assert!(near.poll_send_to(cx, b"last", folder.path("far")).is_pending());
        for _ in 0..10 {
            // The driver looks at what has come.
            runtime::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(wakes.0.load(Relaxed), 0);
        far.recv(&mut [0; 64]).await.unwrap();
        while wakes.0.load(Relaxed) < 2 {
            runtime::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(waiting.as_mut().poll(cx).is_ready());
    });
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// The queue is full of others' datagrams.
#[test]
fn a_sender_to_a_full_receiver_waits_until_that_has_room() {
    support::each_kind(|runtime| {
        runtime.block_on(async {
            let folder = Folder::new();
            let far = UnixDatagram::bind(folder.path("far")).unwrap();
            let near = Arc::new(UnixDatagram::unbound().unwrap());
            for round in 0..3 {
                let _filler = fill(&folder.path("far"));
                let tried = near.try_send_to(b"?", folder.path("far")).unwrap_err();
                assert_eq!(tried.kind(), ErrorKind::WouldBlock);
                assert_pending(near.send_to(b"?", folder.path("far"))).await;
                let (to, sender) = (folder.path("far"), near.clone());
                let sending = runtime::spawn(async move {
                    match round % 2 {
                        0 => sender.send_to(b"last", to).await,
                        _ => poll_fn(|cx| sender.poll_send_to(cx, b"last", &to)).await,
                    }
                });
                for _ in 0..10 {
                    runtime::task::yield_now().await;
                }
                assert!(!sending.is_finished());
                drain(&far, b"last").await;
                assert_eq!(sending.await.unwrap().unwrap(), 4);
            }
        });
    });
}

#[test]
fn a_full_receiver_holds_up_no_sender_to_others() {
    block_on(async {
        let folder = Folder::new();
        let full = UnixDatagram::bind(folder.path("full")).unwrap();
        let free = UnixDatagram::bind(folder.path("free")).unwrap();
        let near = UnixDatagram::unbound().unwrap();
        let _filler = fill(&folder.path("full"));
        let mut waiting = pin!(near.send_to(b"last", folder.path("full")));
        assert_pending(waiting.as_mut()).await;
        for _ in 0..3 {
            assert_eq!(near.send_to(b"x", folder.path("free")).await.unwrap(), 1);
            assert_eq!(poll_fn(|cx| near.poll_send_to(cx, b"x", folder.path("free"))).await.unwrap(), 1);
            near.writable().await.unwrap();
            assert_eq!(near.try_send_to(b"x", folder.path("free")).unwrap(), 1);
            for _ in 0..3 {
                free.recv(&mut [0; 8]).await.unwrap();
            }
        }
        assert_pending(waiting.as_mut()).await;
        let (sent, ()) = runtime::join!(waiting, drain(&full, b"last"));
        assert_eq!(sent.unwrap(), 4);
    });
}

#[test]
fn many_senders_to_one_receiver_all_get_their_turn() {
    support::each_kind(|runtime| {
        runtime.block_on(async {
            let folder = Folder::new();
            let far = UnixDatagram::bind(folder.path("far")).unwrap();
            let shared = Arc::new(UnixDatagram::unbound().unwrap());
            let _filler = fill(&folder.path("far"));
            let senders: Vec<_> = (0..30_u8)
                .map(|number| {
                    let (to, shared) = (folder.path("far"), shared.clone());
                    runtime::spawn(async move {
                        let own = UnixDatagram::unbound().unwrap();
                        let socket = if number % 2 == 0 { &own } else { &*shared };
                        for _ in 0..10 {
                            socket.send_to(&[number], &to).await.unwrap();
                        }
                    })
                })
                .collect();
            let mut count = 0;
            while count < 300 {
                let mut buf = [0; 64];
                count += usize::from(far.recv(&mut buf).await.unwrap() == 1);
            }
            for sender in senders {
                sender.await.unwrap();
            }
        });
    });
}

#[test]
fn a_receiver_that_goes_while_somebody_waits_for_room_is_an_error() {
    block_on(async {
        let folder = Folder::new();
        let far = UnixDatagram::bind(folder.path("far")).unwrap();
        let near = UnixDatagram::unbound().unwrap();
        let _filler = fill(&folder.path("far"));
        let mut waiting = pin!(near.send_to(b"last", folder.path("far")));
        assert_pending(waiting.as_mut()).await;
        drop(far);
        assert_eq!(waiting.await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        std::fs::remove_file(folder.path("far")).unwrap();
        let gone = near.send_to(b"?", folder.path("far")).await.unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound);
        let long = near.send_to(b"?", "x".repeat(200)).await.unwrap_err();
        assert_eq!(long.kind(), ErrorKind::InvalidInput);
        assert!(long.to_string().starts_with("send to xxx"), "{long}");
    });
}

/// The system itself reports room at the peer of a connected socket. Of a pair, it is the sender's buffer
/// that is full.
/// The sender's own buffer limits it, not the queue of the receiver, which may read whenever the sender asks
/// what is full.
#[test]
fn a_sender_to_a_receiver_that_is_connected_to_it_meets_no_error() {
    block_on(async {
        let folder = Folder::new();
        let near = UnixDatagram::bind(folder.path("near")).unwrap();
        let far = std_net::UnixDatagram::bind(folder.path("far")).unwrap();
        far.connect(folder.path("near")).unwrap();
        // A buffer of a few datagrams is full often.
        socket2::SockRef::from(&near).set_send_buffer_size(1).unwrap();
        let reader = std::thread::spawn(move || {
            for round in 0.. {
                if far.recv(&mut [0; 64]).unwrap() == 0 {
                    return;
                }
                // Now and then the reader is slower than the sender.
                for _ in 0..round % 1000 {
                    std::hint::spin_loop();
                }
            }
        });
        let path = folder.path("far");
        for _ in 0..10_000 {
            assert_eq!(near.send_to(&[1; 32], &path).await.unwrap(), 32);
            assert_eq!(poll_fn(|cx| near.poll_send_to(cx, &[1; 32], &path)).await.unwrap(), 32);
        }
        assert_eq!(near.send_to(&[], &path).await.unwrap(), 0);
        reader.join().unwrap();
    });
}

#[test]
fn a_connected_sender_waits_for_room_and_is_woken() {
    block_on(async {
        let folder = Folder::new();
        let far = UnixDatagram::bind(folder.path("far")).unwrap();
        let near = UnixDatagram::unbound().unwrap();
        near.connect(folder.path("far")).unwrap();
        let pair = UnixDatagram::pair().unwrap();
        for (near, far) in [(near, far), pair] {
            let mut sent = 0;
            while near.try_send(&[0; 4096]).is_ok() {
                sent += 1;
            }
            assert_pending(near.send(b"last")).await;
            let sending = runtime::spawn(async move {
                near.send(b"last").await.unwrap();
                near
            });
            for _ in 0..sent {
                assert_eq!(far.recv(&mut [0; 4096]).await.unwrap(), 4096);
            }
            assert_eq!(far.recv(&mut [0; 4096]).await.unwrap(), 4);
            let near = sending.await.unwrap();
            near.writable().await.unwrap();
        }
    });
}

#[test]
fn a_peer_that_is_gone_and_a_side_that_is_shut_down_are_told() {
    block_on(async {
        let (near, far) = UnixDatagram::pair().unwrap();
        far.send(b"left behind").await.unwrap();
        drop(far);
        assert_eq!(near.recv(&mut [0; 16]).await.unwrap(), 11);
        assert_eq!(near.send(b"?").await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let (near, far) = UnixDatagram::pair().unwrap();
        let mut buf = [0; 8];
        {
            let mut receiving = pin!(near.recv(&mut buf));
            assert_pending(receiving.as_mut()).await;
            near.shutdown(Shutdown::Read).unwrap();
            assert_eq!(receiving.await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
        }
        assert_eq!(near.try_recv(&mut buf).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(near.recv(&mut buf).await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
        let mut read = ReadBuf::new(&mut buf);
        let polled = poll_fn(|cx| near.poll_recv(cx, &mut read)).await;
        assert_eq!(polled.unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(far.send(b"?").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        near.shutdown(Shutdown::Write).unwrap();
        assert_eq!(near.send(b"?").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        let unconnected = UnixDatagram::unbound().unwrap();
        assert_eq!(unconnected.send(b"?").await.unwrap_err().kind(), ErrorKind::NotConnected);
        assert_eq!(unconnected.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);
        assert!(unconnected.take_error().unwrap().is_none());
    });
}

#[test]
fn addresses_that_do_not_work_are_named() {
    block_on(async {
        let folder = Folder::new();
        let path = folder.path("socket");
        let nobody = UnixDatagram::unbound().unwrap().connect(&path).unwrap_err();
        assert_eq!(nobody.kind(), ErrorKind::NotFound);
        assert!(nobody.to_string().starts_with(&format!("connect {}: ", path.display())), "{nobody}");
        drop(UnixDatagram::bind(&path).unwrap());
        let in_use = UnixDatagram::bind(&path).unwrap_err();
        assert_eq!(in_use.kind(), ErrorKind::AddrInUse);
        assert!(in_use.to_string().starts_with(&format!("bind {}: ", path.display())), "{in_use}");
        for bad in ["x".repeat(108), "a\0b".to_owned()] {
            assert_eq!(UnixDatagram::bind(&bad).unwrap_err().kind(), ErrorKind::InvalidInput);
            let near = UnixDatagram::unbound().unwrap();
            assert_eq!(near.connect(&bad).unwrap_err().kind(), ErrorKind::InvalidInput);
            assert_eq!(near.try_send_to(b"", &bad).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        // A stream listens there.
        let _listener = UnixListener::bind(folder.path("stream")).unwrap();
        let other = UnixDatagram::unbound().unwrap().send_to(b"", folder.path("stream")).await.unwrap_err();
        assert_eq!(other.raw_os_error(), Some(libc::EPROTOTYPE));
    });
}

#[test]
fn a_descriptor_that_comes_along_is_received_by_an_operation_of_the_users() {
    block_on(async {
        let (near, far) = UnixDatagram::pair().unwrap();
        let mut byte = *b"x";
        let mut slice = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
        let mut control = [0_u64; 3];
        // SAFETY: all zero is a valid value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut slice, 1);
        (message.msg_control, message.msg_controllen) =
            (control.as_mut_ptr().cast(), size_of_val(&control) as _);
        // SAFETY: the buffer has room for one header and one number, and is aligned for the header.
        unsafe {
            let header = &mut *libc::CMSG_FIRSTHDR(&message);
            (header.cmsg_level, header.cmsg_type) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
            header.cmsg_len = libc::CMSG_LEN(4) as _;
            libc::CMSG_DATA(header).cast::<libc::c_int>().write_unaligned(near.as_raw_fd());
        }
        let result = |n: isize| if n < 0 { Err(io::Error::last_os_error()) } else { Ok(n) };
        // SAFETY: reads the message, which is whole.
        let send = || result(unsafe { libc::sendmsg(near.as_raw_fd(), &message, 0) });
        assert_eq!(near.async_io(Interest::WRITABLE, send).await.unwrap(), 1);
        control.fill(0);
        // SAFETY: writes to the buffers of the message.
        let receive =
            || result(unsafe { libc::recvmsg(far.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC) });
        assert_eq!(far.async_io(Interest::READABLE, receive).await.unwrap(), 1);
        // SAFETY: one header with one number was sent above, and the buffers have room for both. The number
        // is a new descriptor, which is ours.
        let copy = unsafe {
            let data = libc::CMSG_DATA(libc::CMSG_FIRSTHDR(&message));
            OwnedFd::from_raw_fd(data.cast::<libc::c_int>().read_unaligned())
        };
        let copy = UnixDatagram::from_std(copy.into()).unwrap();
        copy.send(b"as near").await.unwrap();
        assert_eq!(far.recv(&mut [0; 16]).await.unwrap(), 7);
    });
}

#[test]
fn sockets_of_std_are_made_non_blocking_and_given_back() {
    block_on(async {
        let (near, far) = std_net::UnixDatagram::pair().unwrap();
        let near = UnixDatagram::try_from(near).unwrap();
        assert_pending(near.recv(&mut [0; 8])).await;
        far.send(b"x").unwrap();
        assert_eq!(near.recv(&mut [0; 8]).await.unwrap(), 1);
        let near = near.into_std().unwrap();
        assert_eq!(near.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
        UnixDatagram::from_std(near).unwrap();
    });
}

#[test]
fn a_unix_socket_becomes_what_its_kind_allows() {
    block_on(async {
        let folder = Folder::new();
        let stream = UnixSocket::new_stream().unwrap();
        stream.bind(folder.path("stream")).unwrap();
        let listener = stream.listen(3).unwrap();
        let client = UnixSocket::new_stream().unwrap();
        client.bind(folder.path("client")).unwrap();
        let client = client.connect(folder.path("stream")).await.unwrap();
        let (_server, peer) = listener.accept().await.unwrap();
        assert_eq!(peer.as_pathname(), Some(&*folder.path("client")));
        drop(client);

        let name = format!("\0runtime-unix-socket-{}", std::process::id());
        let datagram = UnixSocket::new_datagram().unwrap();
        datagram.bind(&name).unwrap();
        let datagram = datagram.datagram().unwrap();
        UnixDatagram::unbound().unwrap().send_to(b"hello", &name).await.unwrap();
        assert_eq!(datagram.recv(&mut [0; 8]).await.unwrap(), 5);

        let datagram = || UnixSocket::new_datagram().unwrap();
        assert_eq!(datagram().listen(1).unwrap_err().kind(), ErrorKind::Other);
        assert_eq!(datagram().connect(folder.path("stream")).await.unwrap_err().kind(), ErrorKind::Other);
        assert_eq!(UnixSocket::new_stream().unwrap().datagram().unwrap_err().kind(), ErrorKind::Other);
        let nobody = UnixSocket::new_stream().unwrap().connect(folder.path("nobody")).await.unwrap_err();
        assert!(nobody.to_string().starts_with("connect /"), "{nobody}");
        let in_use = datagram().bind(folder.path("stream")).unwrap_err();
        assert!(in_use.to_string().starts_with("bind /"), "{in_use}");
        let socket = UnixSocket::new_stream().unwrap();
        assert_eq!(socket.bind("x".repeat(108)).unwrap_err().kind(), ErrorKind::InvalidInput);
        // From outside, and blocking.
        let (near, _far) = std_net::UnixStream::pair().unwrap();
        let raw = std::os::fd::IntoRawFd::into_raw_fd(near);
        // SAFETY: the number came out of `near`, which has given it up, so no other code closes it.
        let near = unsafe { UnixSocket::from_raw_fd(raw) };
        assert_eq!(near.as_raw_fd(), raw);
        assert!(near.connect(folder.path("stream")).await.is_err(), "it is connected already");
    });
}

#[test]
fn a_panic_names_what_needs_a_runtime_and_leaves_no_file() {
    let folder = Folder::new();
    let (near, _far) = std_net::UnixDatagram::pair().unwrap();
    let without_io = runtime::Builder::new_current_thread().build().unwrap();
    for text in [
        support::panic_of(|| UnixDatagram::bind(folder.path("socket"))),
        support::panic_of(|| UnixDatagram::pair()),
        support::panic_of(|| UnixDatagram::unbound()),
        support::panic_of(|| UnixDatagram::from_std(near)),
        support::panic_of(|| UnixSocket::new_datagram().unwrap().datagram()),
    ] {
        assert!(text.contains("`UnixDatagram` needs a runtime"), "{text}");
    }
    let text = support::panic_of(|| without_io.block_on(async { UnixDatagram::bind(folder.path("socket")) }));
    assert!(text.contains("enable_io"), "{text}");
    assert!(!folder.path("socket").exists());
}

#[test]
fn a_socket_is_an_error_after_the_shutdown_of_its_runtime() {
    let runtime = support::build(1);
    let folder = Folder::new();
    let path: PathBuf = folder.path("far");
    let (near, _far) =
        runtime.block_on(async { (UnixDatagram::unbound().unwrap(), UnixDatagram::bind(&path).unwrap()) });
    let _filler = fill(&path);
    let text = "the runtime that watched this descriptor was shut down";
    block_on(async {
        // Waits at a socket of the runtime that goes.
        let mut waiting = pin!(near.send_to(b"?", &path));
        assert_pending(waiting.as_mut()).await;
        assert_pending(poll_fn(|cx| near.poll_send_to(cx, b"?", &path))).await;
        drop(runtime);
        assert_eq!(waiting.await.unwrap_err().to_string(), text);
        assert_eq!(near.recv(&mut [0; 8]).await.unwrap_err().to_string(), text);
        assert_eq!(near.try_send(b"x").unwrap_err().to_string(), text);
        assert_eq!(poll_fn(|cx| near.poll_recv_ready(cx)).await.unwrap_err().to_string(), text);
        let sent = poll_fn(|cx| near.poll_send_to(cx, b"?", &path)).await;
        assert_eq!(sent.unwrap_err().to_string(), text);
        // Not taken for a stream by mistake.
        assert!(UnixStream::connect(&path).await.is_err());
    });
}
