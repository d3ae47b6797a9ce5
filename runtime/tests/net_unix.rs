//! Unix streams and listeners, with real sockets. What TCP does, too, is in `net_streams.rs`.

mod net_support;
mod support;

use std::error::Error;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net as std_net;
use std::path::Path;

use net_support::{Folder, assert_pending, block_on};
use runtime::io::{AsyncReadExt, AsyncWriteExt, Interest, ReadBuf};
use runtime::net::unix::SocketAddr;
use runtime::net::{UnixListener, UnixStream};

#[test]
fn a_listener_at_a_path_accepts_connections() {
    support::each_kind(|runtime| {
        runtime.block_on(async {
            let folder = Folder::new();
            let listener = UnixListener::bind(folder.path("socket")).unwrap();
            let mut near = UnixStream::connect(folder.path("socket")).await.unwrap();
            let (mut far, peer) = listener.accept().await.unwrap();
            assert!(peer.is_unnamed());
            assert_eq!(near.peer_addr().unwrap().as_pathname(), Some(&*folder.path("socket")));
            assert!(near.local_addr().unwrap().is_unnamed());
            near.write_all(b"question").await.unwrap();
            far.read_exact(&mut [0; 8]).await.unwrap();
            far.write_all(b"answer").await.unwrap();
            near.read_exact(&mut [0; 6]).await.unwrap();
        });
    });
}

/// A read of the system ends behind a message that carried a descriptor, though more may follow, for which
/// there is no event any more.
#[test]
fn bytes_behind_a_descriptor_that_nobody_takes_are_read() {
    block_on(async {
        let (near, mut far) = UnixStream::pair().unwrap();
        for round in 0..10 {
            send_with_descriptor(&near, b"with a descriptor");
            assert_eq!(near.try_write(b"behind it").unwrap(), 9);
            if round % 2 == 0 {
                // The event, too, is there before the first read.
                far.readable().await.unwrap();
            }
            let mut buf = [0; 64];
            assert_eq!(far.read(&mut buf).await.unwrap(), 17);
            assert_eq!(far.read(&mut buf).await.unwrap(), 9);
            assert_eq!(&buf[..9], b"behind it");
            assert_pending(far.read(&mut buf)).await;
        }
    });
}

fn send_with_descriptor(socket: &UnixStream, bytes: &[u8]) {
    let mut slice = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = [0_u64; 3];
    // SAFETY: all zero is a valid value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut slice, 1);
    (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control) as _);
    // SAFETY: the buffer has room for one header and one number, and is aligned for the header.
    unsafe {
        let header = &mut *libc::CMSG_FIRSTHDR(&message);
        header.cmsg_level = libc::SOL_SOCKET;
        header.cmsg_type = libc::SCM_RIGHTS;
        header.cmsg_len = libc::CMSG_LEN(4) as _;
        libc::CMSG_DATA(header).cast::<libc::c_int>().write_unaligned(socket.as_raw_fd());
    }
    let send = || {
        // SAFETY: reads the message, which is whole.
        match unsafe { libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL) } {
            -1 => Err(io::Error::last_os_error()),
            n => Ok(n as usize),
        }
    };
    assert_eq!(socket.try_io(Interest::WRITABLE, send).unwrap(), bytes.len());
}

#[test]
fn a_descriptor_is_received_by_an_operation_of_the_users() {
    block_on(async {
        let (near, far) = UnixStream::pair().unwrap();
        let receive = || {
            let mut bytes = [0_u8; 8];
            let mut slice = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
            let mut control = [0_u64; 3];
            // SAFETY: all zero is a valid value.
            let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
            (message.msg_iov, message.msg_iovlen) = (&raw mut slice, 1);
            (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), 24);
            // SAFETY: writes to the buffers above.
            if unsafe { libc::recvmsg(far.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC) } < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: `send_with_descriptor` has sent one header with one number, and the buffers have room
            // for both. The number is a new descriptor, which is ours.
            unsafe {
                let data = libc::CMSG_DATA(libc::CMSG_FIRSTHDR(&message));
                Ok(OwnedFd::from_raw_fd(data.cast::<libc::c_int>().read_unaligned()))
            }
        };
        assert_eq!(far.try_io(Interest::READABLE, receive).unwrap_err().kind(), ErrorKind::WouldBlock);
        send_with_descriptor(&near, b"x");
        let received = far.async_io(Interest::READABLE, receive).await.unwrap();
        let received = UnixStream::from_std(std_net::UnixStream::from(received)).unwrap();
        received.writable().await.unwrap();
        received.try_write(b"as near").unwrap();
        let mut buf = [0; 64];
        far.readable().await.unwrap();
        let n = far.try_read(&mut buf).unwrap();
        assert_eq!(&buf[..n], b"as near");
    });
}

/// The file that a bound socket leaves stays. No other socket can bind there, and none answers.
#[test]
fn a_socket_file_stays_until_it_is_removed() {
    block_on(async {
        let folder = Folder::new();
        let path = folder.path("socket");
        let missing = UnixStream::connect(&path).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        drop(UnixListener::bind(&path).unwrap());
        let refused = UnixStream::connect(&path).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        assert!(refused.to_string().starts_with(&format!("connect {}: ", path.display())), "{refused}");
        let source = refused.source().unwrap().downcast_ref::<io::Error>().unwrap();
        assert_eq!(source.raw_os_error(), Some(libc::ECONNREFUSED));
        let in_use = UnixListener::bind(&path).unwrap_err();
        assert_eq!(in_use.kind(), ErrorKind::AddrInUse);
        assert!(in_use.to_string().starts_with(&format!("bind {}: ", path.display())), "{in_use}");
        std::fs::remove_file(&path).unwrap();
        let listener = UnixListener::bind(&path).unwrap();
        // Removed under a listener: connected streams stay, new ones do not find it.
        let _stream = UnixStream::connect(&path).await.unwrap();
        std::fs::remove_file(&path).unwrap();
        listener.accept().await.unwrap();
        assert_eq!(UnixStream::connect(&path).await.unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn an_address_that_is_too_long_or_has_a_zero_byte_inside_is_named() {
    block_on(async {
        let long = "x".repeat(108);
        for (path, what) in [(long.as_str(), "xxx"), ("a\0b", "a"), (&format!("\0{long}"), "@xxx")] {
            let connect = UnixStream::connect(path).await.unwrap_err();
            assert_eq!(connect.kind(), ErrorKind::InvalidInput);
            assert!(connect.to_string().starts_with(&format!("connect {what}")), "{connect}");
            let bind = UnixListener::bind(path).unwrap_err();
            assert_eq!(bind.kind(), ErrorKind::InvalidInput);
            assert!(bind.to_string().starts_with(&format!("bind {what}")), "{bind}");
        }
    });
}

#[test]
fn an_abstract_name_is_an_address_without_a_file() {
    block_on(async {
        // Zero bytes are as good as others there, also the first.
        let name = format!("\0\0runtime\0{}", std::process::id());
        let listener = UnixListener::bind(&name).unwrap();
        assert_eq!(listener.local_addr().unwrap().as_abstract_name(), Some(&name.as_bytes()[1..]));
        let stream = UnixStream::connect(&name).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap().as_abstract_name(), Some(&name.as_bytes()[1..]));
        let in_use = UnixListener::bind_addr(&listener.local_addr().unwrap()).unwrap_err();
        let shown = format!("bind @\\x00runtime\\x00{}: ", std::process::id());
        assert!(in_use.to_string().starts_with(&shown), "{in_use}");
        let again = UnixStream::connect_addr(&listener.local_addr().unwrap()).await.unwrap();
        drop((listener, again));
        assert_eq!(UnixStream::connect(&name).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn an_accepted_stream_tells_the_address_of_its_peer() {
    block_on(async {
        let folder = Folder::new();
        let listener = UnixListener::bind(folder.path("server")).unwrap();
        let connect = |addr: socket2::SockAddr| {
            let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
            socket.bind(&addr).unwrap();
            socket.connect(&socket2::SockAddr::unix(folder.path("server")).unwrap()).unwrap();
            socket
        };
        let _client = connect(socket2::SockAddr::unix(folder.path("client")).unwrap());
        let (_, peer) = listener.accept().await.unwrap();
        assert_eq!(peer.as_pathname(), Some(&*folder.path("client")));
        // The longest path there is, without room for a zero byte behind it.
        let longest = format!("{:x<108}", folder.path("long").display());
        let _client = connect(socket2::SockAddr::unix(&longest[..107]).unwrap());
        let (_, peer) = poll_fn(|cx| listener.poll_accept(cx)).await.unwrap();
        assert_eq!(peer.as_pathname(), Some(Path::new(&longest[..107])));
        let name = format!("\0runtime-client-{}", std::process::id());
        let _client = connect(socket2::SockAddr::unix(&name).unwrap());
        let (_, peer) = listener.accept().await.unwrap();
        assert_eq!(peer.as_abstract_name(), Some(&name.as_bytes()[1..]));
    });
}

#[test]
fn credentials_are_those_of_the_peer() {
    block_on(async {
        let (near, _far) = UnixStream::pair().unwrap();
        let cred = near.peer_cred().unwrap();
        // SAFETY: the calls take nothing, and cannot fail.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        assert_eq!((cred.pid(), cred.uid(), cred.gid()), (Some(std::process::id() as i32), uid, gid));
    });
}

#[test]
fn a_listener_that_goes_without_accepting_is_told_to_the_client() {
    block_on(async {
        let folder = Folder::new();
        let listener = UnixListener::bind(folder.path("socket")).unwrap();
        let mut connecting = std::pin::pin!(UnixStream::connect(folder.path("socket")));
        assert_pending(connecting.as_mut()).await;
        drop(listener);
        let error = connecting.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn more_connections_than_may_wait_are_refused_and_not_hung() {
    block_on(async {
        let folder = Folder::new();
        let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
        socket.bind(&socket2::SockAddr::unix(folder.path("socket")).unwrap()).unwrap();
        socket.listen(1).unwrap();
        let mut streams = Vec::new();
        let error = loop {
            match UnixStream::connect(folder.path("socket")).await {
                Ok(stream) => streams.push(stream),
                Err(error) => break error,
            }
            assert!(streams.len() < 10);
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        let listener = UnixListener::from_std(socket.into()).unwrap();
        for _ in &streams {
            listener.accept().await.unwrap();
        }
        UnixStream::connect(folder.path("socket")).await.unwrap();
    });
}

#[test]
fn sockets_of_std_are_made_non_blocking_and_given_back() {
    block_on(async {
        let folder = Folder::new();
        let listener = std_net::UnixListener::bind(folder.path("socket")).unwrap();
        let listener = UnixListener::try_from(listener).unwrap();
        assert_pending(listener.accept()).await;
        let (near, far) = std_net::UnixStream::pair().unwrap();
        let mut near = UnixStream::try_from(near).unwrap();
        let mut far = UnixStream::from_std(far).unwrap();
        assert_pending(near.read(&mut [0; 8])).await;
        far.write_all(b"x").await.unwrap();
        assert_eq!(near.read(&mut [0; 8]).await.unwrap(), 1);
        let near = near.into_std().unwrap();
        assert_eq!(io::Read::read(&mut &near, &mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
        UnixStream::from_std(near).unwrap();
        let listener = listener.into_std().unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn a_wrong_kind_of_descriptor_is_an_error_of_the_system() {
    block_on(async {
        // A file cannot be watched at all, a pipe is no socket.
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let error = UnixStream::from_std(std_net::UnixStream::from(OwnedFd::from(file))).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EPERM));
        let mut ends = [0; 2];
        // SAFETY: writes two numbers, which are ours then.
        let [read, write] = unsafe {
            assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
            ends.map(|end| OwnedFd::from_raw_fd(end))
        };
        let mut stream = UnixStream::from_std(read.into()).unwrap();
        drop(write);
        assert_eq!(stream.read(&mut [0; 8]).await.unwrap_err().raw_os_error(), Some(libc::ENOTSOCK));
    });
}

#[test]
fn a_panic_names_what_needs_a_runtime_and_leaves_no_file() {
    let folder = Folder::new();
    let (near, _far) = std_net::UnixStream::pair().unwrap();
    let without_io = runtime::Builder::new_current_thread().build().unwrap();
    let panics = [
        support::panic_of(|| UnixListener::bind(folder.path("socket"))),
        support::panic_of(|| UnixStream::pair()),
        support::panic_of(|| UnixStream::from_std(near.try_clone().unwrap())),
        support::panic_of(|| without_io.block_on(async { UnixListener::bind(folder.path("socket")) })),
        support::panic_of(|| without_io.block_on(UnixStream::connect(folder.path("socket")))),
    ];
    for text in &panics[..3] {
        assert!(text.contains("`Unix") && text.contains("runtime"), "{text}");
    }
    for text in &panics[3..] {
        assert!(text.contains("enable_io"), "{text}");
    }
    assert!(!folder.path("socket").exists());
}

#[test]
fn sockets_are_errors_after_the_shutdown_of_their_runtime() {
    let runtime = support::build(1);
    let folder = Folder::new();
    let (listener, mut near, far) = runtime.block_on(async {
        let listener = UnixListener::bind(folder.path("socket")).unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        (listener, near, far)
    });
    drop(runtime);
    block_on(async {
        let text = "the runtime that watched this descriptor was shut down";
        assert_eq!(listener.accept().await.unwrap_err().to_string(), text);
        assert_eq!(near.read(&mut [0; 8]).await.unwrap_err().to_string(), text);
        assert_eq!(near.write(b"x").await.unwrap_err().to_string(), text);
        assert_eq!(far.readable().await.unwrap_err().to_string(), text);
        assert_eq!(far.try_read(&mut [0; 8]).unwrap_err().to_string(), text);
        let mut buf = [0; 8];
        let poll = poll_fn(|cx| far.poll_read_ready(cx)).await;
        assert_eq!(poll.unwrap_err().to_string(), text);
        let read = runtime::io::AsyncRead::poll_read;
        let read = poll_fn(|cx| read(std::pin::Pin::new(&mut near), cx, &mut ReadBuf::new(&mut buf))).await;
        assert_eq!(read.unwrap_err().to_string(), text);
    });
    // Given back all the same.
    far.into_std().unwrap();
}

#[test]
fn addresses_go_to_std_and_back() {
    let addr = std_net::SocketAddr::from_pathname("/a/path").unwrap();
    let ours = SocketAddr::from(addr);
    assert_eq!(ours.as_pathname(), Some(Path::new("/a/path")));
    assert_eq!(format!("{:?}", ours.clone()), "\"/a/path\" (pathname)");
    assert!(!ours.is_unnamed() && ours.as_abstract_name().is_none());
    assert_eq!(std_net::SocketAddr::from(ours).as_pathname(), Some(Path::new("/a/path")));
}
