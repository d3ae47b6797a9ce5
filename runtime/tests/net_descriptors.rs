//! Descriptors: none is inherited or leaked, and running out of them is survived. One test at a time, since
//! the limit and the numbers belong to the whole process.

mod net_support;
mod support;

use std::io::{self, ErrorKind};
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Wake, Waker};

use net_support::{Folder, assert_pending, block_on};
use runtime::io::unix::AsyncFd;
use runtime::net::unix::pipe;
use runtime::net::{
    TcpListener, TcpSocket, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixSocket, UnixStream,
};
use support::descriptors;

static PROCESS: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    PROCESS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The limit under which no descriptor can be opened: the lowest free number.
fn next_free() -> u64 {
    // SAFETY: asks about a number, whatever it is.
    let is_free = |&number: &i32| unsafe { libc::fcntl(number, libc::F_GETFD) } < 0;
    (0..).find(is_free).expect("fewer are open than there are numbers") as u64
}

/// Sets the soft limit, and sets it back when dropped.
struct Limit(libc::rlimit);

impl Limit {
    fn set(soft: u64) -> Self {
        let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: reads into, and writes from, a value of ours.
        unsafe {
            assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut before), 0);
            let limit = libc::rlimit { rlim_cur: soft, ..before };
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
        }
        Self(before)
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        // SAFETY: writes from a value of ours.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &self.0) }, 0);
    }
}

#[test]
fn no_descriptor_survives_an_exec() {
    let _alone = alone();
    let before = descriptors();
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let _far = listener.accept().await.unwrap();
        let folder = Folder::new();
        let unix = UnixListener::bind(folder.path("stream")).unwrap();
        let _client = UnixStream::connect(folder.path("stream")).await.unwrap();
        let _server = unix.accept().await.unwrap();
        let _pairs = (UnixStream::pair().unwrap(), UnixDatagram::pair().unwrap(), pipe::pipe().unwrap());
        let _udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let _unbound = (UnixSocket::new_stream().unwrap(), TcpSocket::new_v4().unwrap());
        let _full = UnixDatagram::bind(folder.path("datagram")).unwrap();
        let datagram = UnixDatagram::unbound().unwrap();
        fill(&folder.path("datagram"));
        // The send has one socket more for as long as it waits.
        let mut waiting = pin!(datagram.send_to(b"?", folder.path("datagram")));
        assert_pending(waiting.as_mut()).await;
        let _signals =
            runtime::signal::unix::signal(runtime::signal::unix::SignalKind::user_defined1()).unwrap();
        let ours: Vec<_> = descriptors().difference(&before).copied().collect();
        assert!(ours.len() >= 20, "epoll, eventfd, an alarm, sockets and pipes: {ours:?}");
        for number in ours {
            // SAFETY: asks about a number.
            let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
            assert!(
                flags & libc::FD_CLOEXEC != 0,
                "{:?}",
                std::fs::read_link(format!("/proc/self/fd/{number}"))
            );
        }
    });
    assert_eq!(descriptors(), before);
}

/// Sends to `path` until it has no room.
fn fill(path: &Path) {
    let filler = std::os::unix::net::UnixDatagram::unbound().unwrap();
    filler.set_nonblocking(true).unwrap();
    while filler.send_to(b"filler", path).is_ok() {}
}

#[test]
fn sockets_of_every_kind_are_errors_without_a_descriptor_and_work_again_with_one() {
    let _alone = alone();
    let folder = Folder::new();
    block_on(async {
        let listener = UnixListener::bind(folder.path("stream")).unwrap();
        let full = UnixDatagram::bind(folder.path("datagram")).unwrap();
        let datagram = UnixDatagram::unbound().unwrap();
        fill(&folder.path("datagram"));
        let _client = UnixStream::connect(folder.path("stream")).await.unwrap();
        let before = descriptors();
        let limit = Limit::set(next_free());
        let errors: [io::Error; 11] = [
            UnixStream::pair().unwrap_err(),
            UnixStream::connect(folder.path("stream")).await.unwrap_err(),
            UnixListener::bind(folder.path("other")).unwrap_err(),
            listener.accept().await.unwrap_err(),
            UnixDatagram::pair().unwrap_err(),
            UnixDatagram::unbound().unwrap_err(),
            UnixDatagram::bind(folder.path("other")).unwrap_err(),
            datagram.send_to(b"?", folder.path("datagram")).await.unwrap_err(),
            UdpSocket::bind("127.0.0.1:0").await.unwrap_err(),
            UnixSocket::new_stream().unwrap_err(),
            pipe::pipe().unwrap_err(),
        ];
        drop(limit);
        for error in errors {
            assert!(error.to_string().contains(&format!("os error {}", libc::EMFILE)), "{error}");
        }
        assert_eq!(descriptors(), before);
        assert!(!folder.path("other").exists());
        listener.accept().await.unwrap();
        full.recv(&mut [0; 64]).await.unwrap();
        datagram.send_to(b"?", folder.path("datagram")).await.unwrap();
    });
}

/// Streams, pipes and sockets that are dropped, split, given back to std, refused, or left in a wait.
#[test]
fn what_was_opened_is_closed() {
    let _alone = alone();
    let before = descriptors();
    for _ in 0..50 {
        block_on(async {
            let (near, far) = UnixStream::pair().unwrap();
            let (reader, writer) = near.into_split();
            drop(reader);
            drop(writer.as_ref().peer_addr());
            drop((writer, far.into_std().unwrap()));
            let (sender, receiver) = pipe::pipe().unwrap();
            drop((sender.into_blocking_fd().unwrap(), receiver));
            let file = std::fs::File::open("/proc/self/exe").unwrap();
            // SAFETY: (1), (2) the system refuses to watch a file. So no `AsyncFd` is made, and the file
            // comes back in the error.
            drop(unsafe { AsyncFd::register(file) }.unwrap_err());
            let folder = Folder::new();
            let _full = UnixDatagram::bind(folder.path("datagram")).unwrap();
            let datagram = UnixDatagram::unbound().unwrap();
            fill(&folder.path("datagram"));
            assert_pending(datagram.send_to(b"?", folder.path("datagram"))).await;
            let path = folder.path("datagram");
            for _ in 0..3 {
                let poll = std::future::poll_fn(|cx| datagram.poll_send_to(cx, b"?", &path));
                assert_pending(poll).await;
            }
            let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            drop(udp.into_std().unwrap());
        });
    }
    assert_eq!(descriptors(), before);
}

/// The wait at a full receiver has a descriptor of its own. It is closed when the task that waited has sent,
/// or has met an error. The wait of another task stays.
#[test]
fn a_polled_send_that_waited_leaves_no_descriptor() {
    let _alone = alone();
    block_on(async {
        let folder = Folder::new();
        let (full, free) = (folder.path("full"), folder.path("free"));
        let (far, _free) = (UnixDatagram::bind(&full).unwrap(), UnixDatagram::bind(&free).unwrap());
        let near = UnixDatagram::unbound().unwrap();
        fill(&full);
        let before = descriptors();
        let waker = Waker::from(Arc::new(Unheard));
        let cx = &mut Context::from_waker(&waker);
        for way_out in [&free, &folder.path("nothing"), Path::new("/with\0zero")] {
            for _ in 0..3 {
                assert!(near.poll_send_to(cx, b"?", &full).is_pending());
                assert_eq!(descriptors().len(), before.len() + 1, "the latest wait is open");
            }
            assert!(near.poll_send_to(&mut Context::from_waker(Waker::noop()), b"?", &free).is_ready());
            assert_eq!(descriptors().len(), before.len() + 1, "it is another task's wait");
            assert!(near.poll_send_to(cx, b"?", way_out).is_ready());
            assert_eq!(descriptors(), before);
        }
        drop(far);
    });
}

/// A waker that does nothing, and that is not [`Waker::noop`].
struct Unheard;

impl Wake for Unheard {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_thousand_runtimes_leave_no_descriptor() {
    let _alone = alone();
    let before = descriptors();
    for _ in 0..1000 {
        block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let _near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        });
    }
    assert_eq!(descriptors(), before);
}

#[test]
fn a_driver_without_descriptors_is_an_error_and_leaves_none_open() {
    let _alone = alone();
    let before = descriptors();
    // A free number below the limit for none, one, or two of the driver's three descriptors.
    for free in 0..3 {
        let limit = Limit::set(next_free() + free);
        let error = runtime::Builder::new_current_thread().enable_all().build().err().unwrap();
        drop(limit);
        assert!(error.to_string().contains(&format!("os error {}", libc::EMFILE)), "{error}");
        assert_eq!(descriptors(), before);
    }
}

#[test]
fn a_listener_recovers_when_descriptors_return() {
    let _alone = alone();
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let clients = [TcpStream::connect(addr).await.unwrap(), TcpStream::connect(addr).await.unwrap()];
        {
            let _limit = Limit::set(next_free());
            for _ in 0..300 {
                // Each call fails by itself: no event is needed to try again, and none has been lost. More
                // calls than the budget has, so that the task yields on the way.
                let error = listener.accept().await.unwrap_err();
                assert!(error.to_string().contains(&format!("os error {}", libc::EMFILE)), "{error}");
            }
        }
        for client in &clients {
            let (_, peer) = listener.accept().await.unwrap();
            assert_eq!(peer, client.local_addr().unwrap());
        }
        let _late = TcpStream::connect(addr).await.unwrap();
        listener.accept().await.unwrap();
    });
}

#[test]
fn a_connection_without_a_descriptor_names_the_address() {
    let _alone = alone();
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let limit = Limit::set(next_free());
        let connect = TcpStream::connect(addr).await.unwrap_err();
        let bind = TcpListener::bind("127.0.0.1:0").await.unwrap_err();
        let signal =
            runtime::signal::unix::signal(runtime::signal::unix::SignalKind::user_defined2()).unwrap_err();
        drop(limit);
        assert!(connect.to_string().starts_with(&format!("connect {addr}: ")), "{connect}");
        assert!(bind.to_string().starts_with("bind 127.0.0.1:0: "), "{bind}");
        assert_ne!(signal.kind(), ErrorKind::WouldBlock);
        TcpStream::connect(addr).await.unwrap();
    });
}
