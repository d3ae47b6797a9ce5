//! `AsyncFd`: descriptors of the user's, for which the runtime has no type of its own.

mod net_support;
mod support;

use std::error::Error;
use std::fs::File;
use std::future::poll_fn;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use net_support::{assert_pending, block_on};
use runtime::io::unix::{AsyncFd, AsyncFdRegisterError};
use runtime::io::{Interest, Ready};
use support::joined_scope;

fn watch<T: AsRawFd>(inner: T) -> Result<AsyncFd<T>, AsyncFdRegisterError<T>> {
    // SAFETY: (1) the tests close what they watch after the watch has ended, but for one test, which breaks
    // this promise to see that it does no harm. A number that was never open is refused. (2) Each type here
    // returns the number that it was made with.
    unsafe { AsyncFd::register(inner) }
}

fn watch_for<T: AsRawFd>(inner: T, interest: Interest) -> Result<AsyncFd<T>, AsyncFdRegisterError<T>> {
    // SAFETY: (1), (2) as in `watch`.
    unsafe { AsyncFd::register_with_interest(inner, interest) }
}

/// Two sockets that do not block.
fn pair() -> (UnixStream, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    far.set_nonblocking(true).unwrap();
    (near, far)
}

/// An `eventfd`.
fn event() -> File {
    // SAFETY: gives a new descriptor, which is ours.
    unsafe { File::from_raw_fd(libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC)) }
}

/// Something with the number that it says.
#[derive(Debug)]
struct Numbered(RawFd);

impl AsRawFd for Numbered {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

#[test]
fn an_event_that_a_thread_sends_wakes_a_task() {
    support::each_kind(|runtime| {
        runtime.block_on(async {
            let event = event();
            let mut writer = event.try_clone().unwrap();
            let event = watch_for(event, Interest::READABLE).unwrap();
            let waiting = runtime::spawn(async move {
                let mut count = [0; 8];
                event.async_io(Interest::READABLE, |mut event| event.read(&mut count)).await.unwrap();
                u64::from_ne_bytes(count)
            });
            std::thread::spawn(move || writer.write_all(&7_u64.to_ne_bytes()).unwrap()).join().unwrap();
            assert_eq!(waiting.await.unwrap(), 7);
        });
    });
}

/// A user's operation may have stopped because of a signal. A repetition could go on for ever.
#[test]
fn an_operation_that_was_interrupted_is_not_repeated() {
    fn interrupted_once() -> impl FnMut() -> io::Result<()> {
        let mut results = [Err(ErrorKind::Interrupted.into()), Ok(())].into_iter();
        move || results.next().unwrap()
    }
    block_on(async {
        let mut event = watch_for(event(), Interest::WRITABLE).unwrap();
        let (mut first, mut second) = (interrupted_once(), interrupted_once());
        let (stream, _far) = net_support::tcp_pair().await;
        let errors = [
            event.async_io(Interest::WRITABLE, |_| first()).await.unwrap_err(),
            event.async_io_mut(Interest::WRITABLE, |_| second()).await.unwrap_err(),
            stream.async_io(Interest::WRITABLE, interrupted_once()).await.unwrap_err(),
        ];
        assert_eq!(errors.map(|error| error.kind()), [ErrorKind::Interrupted; 3]);
    });
}

#[test]
fn readiness_stays_until_an_operation_would_block() {
    block_on(async {
        let (near, mut far) = pair();
        let near = watch(near).unwrap();
        assert_pending(near.readable()).await;
        far.write_all(b"ab").unwrap();
        let mut buf = [0; 1];
        for _ in 0..2 {
            let mut guard = near.readable().await.unwrap();
            assert!(guard.ready().is_readable());
            assert_eq!(guard.try_io(|near| near.get_ref().read(&mut buf)).unwrap().unwrap(), 1);
        }
        // No read has found yet that there is nothing left.
        let mut guard = near.readable().await.unwrap();
        guard.retain_ready();
        assert!(guard.try_io(|near| near.get_ref().read(&mut buf)).is_err());
        assert!(guard.ready().is_empty());
        assert_pending(near.readable()).await;
        far.write_all(b"c").unwrap();
        near.readable().await.unwrap().clear_ready();
        assert_pending(near.readable()).await;
        far.write_all(b"d").unwrap();
        near.readable().await.unwrap().retain_ready();
    });
}

/// What has come since a guard was made is not taken back by it.
#[test]
fn a_guard_takes_back_only_what_it_was_made_for() {
    block_on(async {
        let (near, mut far) = pair();
        let near = watch(near).unwrap();
        far.write_all(b"a").unwrap();
        let mut old = near.readable().await.unwrap();
        assert_eq!(near.get_ref().read(&mut [0; 8]).unwrap(), 1);
        near.readable().await.unwrap().clear_ready();
        far.write_all(b"b").unwrap();
        near.readable().await.unwrap().retain_ready();
        old.clear_ready();
        near.readable().await.unwrap().retain_ready();

        let mut both = near.ready(Interest::READABLE | Interest::WRITABLE).await.unwrap();
        assert_eq!(both.ready(), Ready::READABLE | Ready::WRITABLE);
        both.clear_ready_matching(Ready::READABLE);
        assert_eq!(both.ready(), Ready::WRITABLE);
        assert_pending(near.readable()).await;
        near.writable().await.unwrap().retain_ready();
        both.clear_ready_matching(Ready::WRITABLE);
        assert!(both.ready().is_empty());
        assert_pending(near.writable()).await;
        assert!(
            near.try_io(Interest::WRITABLE, |_| Ok(()))
                .is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        );
    });
}

#[test]
fn exclusive_references_lead_to_what_is_inside() {
    block_on(async {
        let (near, mut far) = pair();
        let mut near = watch(near).unwrap();
        far.write_all(b"abc").unwrap();
        let mut buf = [0; 1];
        let mut guard = near.readable_mut().await.unwrap();
        assert_eq!(guard.try_io(|near| near.get_mut().read(&mut buf)).unwrap().unwrap(), 1);
        assert_eq!(guard.get_inner_mut().read(&mut buf).unwrap(), 1);
        assert_eq!(guard.get_mut().get_ref().as_raw_fd(), guard.get_inner().as_raw_fd());
        assert_eq!(near.async_io_mut(Interest::READABLE, |near| near.read(&mut buf)).await.unwrap(), 1);
        let nothing = near.try_io_mut(Interest::READABLE, |near| near.read(&mut buf)).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
        assert_pending(near.readable_mut()).await;
        near.writable_mut().await.unwrap().retain_ready();
        poll_fn(|cx| near.poll_write_ready_mut(cx).map_ok(drop)).await.unwrap();
        assert_pending(poll_fn(|cx| near.poll_read_ready_mut(cx).map_ok(drop))).await;
        assert_pending(near.ready_mut(Interest::READABLE)).await;
        assert_eq!(near.as_fd().as_raw_fd(), near.as_raw_fd());
        assert!(format!("{near:?}").starts_with("AsyncFd { inner: UnixStream"));
    });
}

#[test]
fn the_two_directions_wait_by_themselves() {
    block_on(async {
        let (near, mut far) = pair();
        while (&near).write(&[0; 4096]).is_ok() {}
        let near = Arc::new(watch(near).unwrap());
        assert_pending(near.writable()).await;
        let writing = runtime::spawn({
            let near = near.clone();
            async move { poll_fn(|cx| near.poll_write_ready(cx).map_ok(drop)).await }
        });
        let reading = runtime::spawn({
            let near = near.clone();
            async move { poll_fn(|cx| near.poll_read_ready(cx).map_ok(drop)).await }
        });
        runtime::task::yield_now().await;
        far.write_all(b"x").unwrap();
        reading.await.unwrap().unwrap();
        assert!(!writing.is_finished());
        while far.read(&mut [0; 4096]).is_ok() {}
        writing.await.unwrap().unwrap();
    });
}

#[test]
fn urgent_data_and_errors_can_be_waited_for() {
    block_on(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let near = watch_for(near, Interest::PRIORITY).unwrap();
        assert_pending(near.ready(Interest::PRIORITY)).await;
        // SAFETY: one byte is read from a static.
        assert_eq!(unsafe { libc::send(far.as_raw_fd(), b"!".as_ptr().cast(), 1, libc::MSG_OOB) }, 1);
        assert!(near.ready(Interest::PRIORITY).await.unwrap().ready().is_priority());

        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let gone = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        socket.connect(gone).unwrap();
        let socket = watch_for(socket, Interest::ERROR).unwrap();
        assert_pending(socket.ready(Interest::ERROR)).await;
        socket.get_ref().send(b"?").unwrap();
        assert_eq!(socket.ready(Interest::ERROR).await.unwrap().ready(), Ready::ERROR);
    });
}

#[test]
fn a_closed_peer_is_readiness_that_stays() {
    block_on(async {
        let (near, far) = pair();
        let near = watch(near).unwrap();
        drop(far);
        let mut guard = near.readable().await.unwrap();
        assert!(guard.ready().is_read_closed());
        guard.clear_ready();
        near.readable().await.unwrap().retain_ready();
        near.writable().await.unwrap().retain_ready();
    });
}

#[test]
fn what_the_system_does_not_watch_is_given_back_with_its_number() {
    block_on(async {
        let file = File::open("/proc/self/exe").unwrap();
        let number = file.as_raw_fd();
        let error = watch(file).unwrap_err();
        assert!(error.to_string().starts_with(&format!("watch descriptor {number}: ")), "{error}");
        assert!(error.source().is_some());
        assert!(!format!("{error:?}").is_empty());
        let (file, cause) = error.into_parts();
        assert_eq!((file.as_raw_fd(), cause.kind()), (number, ErrorKind::PermissionDenied));
        let system = cause.source().unwrap().downcast_ref::<io::Error>().unwrap();
        assert_eq!(system.raw_os_error(), Some(libc::EPERM));

        for number in [-1, 1 << 20] {
            let error: io::Error = watch(Numbered(number)).unwrap_err().into();
            assert!(error.to_string().starts_with(&format!("watch descriptor {number}: ")), "{error}");
        }
    });
}

#[test]
fn a_descriptor_is_watched_once_at_a_time() {
    block_on(async {
        let (near, mut far) = pair();
        let number = near.as_raw_fd();
        let near = watch(near).unwrap();
        let (_, error) = watch(Numbered(number)).unwrap_err().into_parts();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        // The first one is none the worse for it.
        far.write_all(b"x").unwrap();
        near.readable().await.unwrap().retain_ready();
        // The socket can be watched again when that watch is over, and at any time under another number.
        let near = near.into_inner();
        let other = watch(OwnedFd::from(near.try_clone().unwrap())).unwrap();
        let near = watch(near).unwrap();
        near.readable().await.unwrap().retain_ready();
        other.readable().await.unwrap().retain_ready();
    });
}

#[test]
fn the_watch_ends_before_the_descriptor_is_closed_and_into_inner_leaves_it_open() {
    block_on(async {
        let (near, mut far) = pair();
        let near = watch(near).unwrap().into_inner();
        assert_eq!(far.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(watch(near).unwrap());
        assert_eq!(far.read(&mut [0; 8]).unwrap(), 0);
    });
}

/// The user breaks the promise of `register`, by mistake. Because of a copy of the descriptor, the system
/// goes on to report events.
#[test]
fn a_descriptor_closed_too_early_harms_nobody() {
    support::each_kind(|runtime| {
        runtime.block_on(async {
            for _ in 0..10 {
                let (near, mut far) = pair();
                let copy = near.try_clone().unwrap();
                let early = watch(Numbered(near.as_raw_fd())).unwrap();
                drop(near);
                drop(early);
                far.write_all(b"x").unwrap();
                // The next socket takes the number, mostly.
                let (near, mut far) = pair();
                let near = watch(near).unwrap();
                far.write_all(b"x").unwrap();
                near.readable().await.unwrap().retain_ready();
                drop(copy);
            }
        });
    });
}

/// Nothing is promised to the constructors that are safe. The descriptor is closed early, and its number is
/// given to another socket.
#[test]
#[allow(deprecated, reason = "they are Tokio's")]
fn a_number_that_is_given_again_is_another_descriptor() {
    support::each_kind(|runtime| {
        runtime.block_on(async {
            let (near, _far) = pair();
            let number = near.as_raw_fd();
            let early = AsyncFd::new(Numbered(number)).unwrap();
            // The descriptor of that number is replaced by another one, as by a `close` and an `open`.
            let (other, mut other_far) = pair();
            // SAFETY: `near` becomes a copy of `other`, and is used as a socket only.
            assert_eq!(unsafe { libc::dup3(other.as_raw_fd(), number, libc::O_CLOEXEC) }, number);
            let later = AsyncFd::with_interest(Numbered(number), Interest::READABLE).unwrap();
            assert_ne!(early.as_fd().as_raw_fd(), number, "a duplicate");
            drop(early);
            other_far.write_all(b"x").unwrap();
            later.readable().await.unwrap().retain_ready();
            let promised = watch(near).unwrap();
            drop(later);
            promised.readable().await.unwrap().retain_ready();
            assert_eq!(promised.as_fd().as_raw_fd(), number);
        });
    });
}

/// The end of any descriptor of a file ends the process's record locks on it.
#[test]
#[allow(deprecated, reason = "it is Tokio's")]
fn a_file_that_is_refused_keeps_its_locks() {
    use std::os::unix::fs::MetadataExt;
    block_on(async {
        let path = std::env::temp_dir().join(format!("runtime-async-fd-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        // SAFETY: zeros are a `flock`, for the whole file.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = libc::F_WRLCK as libc::c_short;
        // SAFETY: reads one `flock`.
        assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &lock) }, 0);
        let inode = format!(":{} ", file.metadata().unwrap().ino());
        let is_locked = || std::fs::read_to_string("/proc/locks").unwrap().contains(&inode);
        assert!(is_locked());
        let error = AsyncFd::try_new(file).unwrap_err();
        assert!(is_locked());
        let (_file, error) = error.into_parts();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        // The system watches some files.
        let mounts = File::open("/proc/self/mounts").unwrap();
        AsyncFd::with_interest(mounts, Interest::PRIORITY).unwrap();
    });
}

#[test]
fn a_number_that_is_not_open_is_an_error_of_each_constructor() {
    #[allow(deprecated, reason = "they are Tokio's")]
    block_on(async {
        let error = AsyncFd::new(Numbered(-1)).unwrap_err();
        assert!(error.to_string().contains("descriptor -1"), "{error}");
        let error = AsyncFd::try_with_interest(Numbered(-1), Interest::READABLE).unwrap_err();
        assert_eq!(error.into_parts().0.0, -1);
    });
}

#[test]
fn outside_of_a_runtime_the_panic_says_what_to_do_and_where() {
    let text = support::panic_of(|| watch(Numbered(0)));
    assert!(text.contains("`AsyncFd` needs a runtime"), "{text}");
    let without_io = runtime::Builder::new_current_thread().build().unwrap();
    let text = support::panic_of(|| without_io.block_on(async { watch(Numbered(0)) }));
    assert!(text.contains("enable_io"), "{text}");
    #[allow(deprecated, reason = "as Tokio's")]
    let ((file, line), here) = (support::place_of_panic(|| AsyncFd::new(Numbered(0))), line!());
    assert_eq!((file.as_str(), line), (file!(), here));
    #[allow(deprecated, reason = "as Tokio's")]
    let without = || without_io.block_on(async { AsyncFd::new(Numbered(0)) });
    assert_eq!(support::place_of_panic(without).0, file!());
}

#[test]
fn a_descriptor_is_an_error_after_the_shutdown_of_its_runtime() {
    let runtime = support::build(1);
    let (near, far) = pair();
    let near = runtime.block_on(async { watch(near).unwrap() });
    let (waiting, is_waiting) = std::sync::mpsc::channel();
    let text = "the runtime that watched this descriptor was shut down";
    joined_scope(|scope| {
        let thread = scope.spawn(|| {
            block_on(async {
                let mut readable = pin!(near.readable());
                let first = poll_fn(|cx| Poll::Ready(readable.as_mut().poll(cx).is_pending())).await;
                assert!(first);
                waiting.send(()).unwrap();
                assert_eq!(readable.await.unwrap_err().to_string(), text);
                let polled = poll_fn(|cx| near.poll_write_ready(cx)).await;
                assert_eq!(polled.unwrap_err().to_string(), text);
                let tried = near.try_io(Interest::WRITABLE, |_| Ok(()));
                assert_eq!(tried.unwrap_err().to_string(), text);
            });
        });
        is_waiting.recv().unwrap();
        drop(runtime);
        thread.join().unwrap();
    });
    // Another runtime takes it over.
    let near = near.into_inner();
    block_on(async {
        let near = watch(near).unwrap();
        drop(far);
        near.readable().await.unwrap().retain_ready();
    });
}

/// Watched, waited for and dropped by many at once.
#[test]
fn many_descriptors_come_and_go() {
    support::each_kind(|runtime| {
        runtime.block_on(async {
            let tasks: Vec<_> = (0..50_u64)
                .map(|number| {
                    runtime::spawn(async move {
                        for _ in 0..20 {
                            let event = event();
                            let mut writer = event.try_clone().unwrap();
                            let event = watch(event).unwrap();
                            let mut count = [0; 8];
                            let read = event.async_io(Interest::READABLE, |mut event| event.read(&mut count));
                            let write = async { writer.write_all(&(number + 1).to_ne_bytes()).unwrap() };
                            let (read, ()) = runtime::join!(read, write);
                            read.unwrap();
                            assert_eq!(u64::from_ne_bytes(count), number + 1);
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    });
}
