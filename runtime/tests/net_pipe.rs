//! Pipes and FIFOs.

mod net_support;
mod support;

use std::fs::File;
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use net_support::{Folder, assert_pending, block_on};
use runtime::io::{AsyncReadExt, AsyncWriteExt, Interest};
use runtime::net::unix::pipe::{self, OpenOptions, Receiver, Sender};

/// The reading and the writing end of a pipe with these flags.
fn raw(flags: libc::c_int) -> (OwnedFd, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: writes two numbers, which are ours then.
    let [read, write] = unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), flags | libc::O_CLOEXEC), 0);
        ends.map(|end| OwnedFd::from_raw_fd(end))
    };
    (read, write)
}

fn make_fifo(path: &Path) {
    let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: reads a string that ends with a zero byte.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
}

fn is_nonblocking(fd: &impl AsRawFd) -> bool {
    // SAFETY: asks about a descriptor of ours.
    unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) & libc::O_NONBLOCK != 0 }
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn what_is_written_is_read_until_the_sender_is_dropped() {
    support::each_kind(|runtime| {
        runtime.block_on(async {
            let (mut sender, mut receiver) = pipe::pipe().unwrap();
            let sent: Vec<u8> = (0..1 << 20).map(|i: u32| ((i * 31) >> 3) as u8).collect();
            let expected = sent.clone();
            let writer = runtime::spawn(async move {
                // In pieces of odd sizes, more than the pipe holds at once.
                for piece in sent.chunks(77_777) {
                    sender.write_all(piece).await.unwrap();
                }
                sender.flush().await.unwrap();
                sender.shutdown().await.unwrap();
            });
            let mut received = Vec::new();
            receiver.read_to_end(&mut received).await.unwrap();
            assert!(received == expected);
            writer.await.unwrap();
            assert_eq!(receiver.read(&mut [0; 8]).await.unwrap(), 0, "the end stays the end");
        });
    });
}

#[test]
fn a_receiver_that_is_gone_is_an_error() {
    block_on(async {
        let (mut sender, receiver) = pipe::pipe().unwrap();
        while sender.try_write(&[0; 4096]).is_ok() {}
        let mut writing = pin!(sender.write(b"x"));
        assert_pending(writing.as_mut()).await;
        drop(receiver);
        assert_eq!(writing.await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert!(sender.ready(Interest::WRITABLE).await.unwrap().is_write_closed());
        assert_eq!(sender.try_write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn trying_does_not_wait() {
    block_on(async {
        let (sender, receiver) = pipe::pipe().unwrap();
        assert_eq!(receiver.try_read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
        let hello = [IoSlice::new(b"hel"), IoSlice::new(b"lo!")];
        assert_eq!(sender.try_write_vectored(&hello).unwrap(), 6, "a pipe is writable at once");
        receiver.readable().await.unwrap();
        let (mut a, mut b) = ([0; 2], [0; 2]);
        let mut bufs = [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)];
        assert_eq!(receiver.try_read_vectored(&mut bufs).unwrap(), 4);
        let mut rest = Vec::with_capacity(8);
        assert_eq!(receiver.try_read_buf(&mut rest).unwrap(), 2);
        assert_eq!([&a[..], &b[..], &rest[..]].concat(), b"hello!");
        let mut file = File::from(receiver.into_nonblocking_fd().unwrap());
        assert_eq!(file.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
        let receiver = Receiver::from_file(file.try_clone().unwrap()).unwrap();
        assert_pending(poll_fn(|cx| receiver.poll_read_ready(cx))).await;
        sender.try_write(b"x").unwrap();
        poll_fn(|cx| receiver.poll_read_ready(cx)).await.unwrap();
        assert_eq!(receiver.try_io(|| file.read(&mut [0; 8])).unwrap(), 1);
        assert_eq!(receiver.try_io(|| file.read(&mut [0; 8])).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_pending(receiver.readable()).await;
        poll_fn(|cx| sender.poll_write_ready(cx)).await.unwrap();
        assert_eq!(sender.try_io(|| Ok(7)).unwrap(), 7);
        sender.try_io(|| Err::<(), _>(ErrorKind::WouldBlock.into())).unwrap_err();
        assert_pending(sender.writable()).await;
    });
}

#[test]
fn many_slices_are_written_at_once() {
    block_on(async {
        let (mut sender, mut receiver) = pipe::pipe().unwrap();
        let bufs = [IoSlice::new(b"one "), IoSlice::new(b"two "), IoSlice::new(b"three")];
        assert_eq!(sender.write_vectored(&bufs).await.unwrap(), 13);
        let mut buf = [0; 13];
        receiver.read_exact(&mut buf).await.unwrap();
        assert_eq!(&buf, b"one two three");
    });
}

/// In packet mode each read ends behind a packet: that it comes short does not say that there is nothing
/// left.
#[test]
fn packets_that_came_together_are_read_one_by_one() {
    block_on(async {
        let (read, write) = raw(libc::O_DIRECT);
        let mut receiver = Receiver::from_owned_fd(read).unwrap();
        let mut sender = Sender::from_owned_fd(write).unwrap();
        assert_pending(receiver.read(&mut [0; 64])).await;
        for length in 1..10 {
            sender.write_all(&vec![7; length]).await.unwrap();
        }
        // The event for all of them has come before the first read.
        receiver.readable().await.unwrap();
        for length in 1..10 {
            assert_eq!(receiver.read(&mut [0; 64]).await.unwrap(), length);
        }
        assert_pending(receiver.read(&mut [0; 64])).await;
    });
}

/// The end of the stream is over when a writer opens the FIFO again. If it were for good, a reader that finds
/// nothing would try again and again.
#[test]
fn a_fifo_whose_writers_come_and_go_is_read_without_spinning() {
    block_on(async {
        let folder = Folder::new();
        let path = folder.path("fifo");
        make_fifo(&path);
        let mut receiver = OpenOptions::new().open_receiver(&path).unwrap();
        let mut buf = [0; 8];
        for _ in 0..3 {
            let mut sender = OpenOptions::new().open_sender(&path).unwrap();
            sender.write_all(b"hello").await.unwrap();
            receiver.read_exact(&mut buf[..5]).await.unwrap();
            drop(sender);
            // The event comes before the read: the end is known.
            while !receiver.ready(Interest::READABLE).await.unwrap().is_read_closed() {
                runtime::time::sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(receiver.read(&mut buf).await.unwrap(), 0);

            // Again, and with nothing to say at first.
            let mut sender = OpenOptions::new().open_sender(&path).unwrap();
            let wakes = Arc::new(Wakes::default());
            let waker = Waker::from(wakes.clone());
            {
                let mut reading = pin!(receiver.read(&mut buf));
                let cx = &mut Context::from_waker(&waker);
                assert!(reading.as_mut().poll(cx).is_pending());
                for _ in 0..5 {
                    runtime::time::sleep(Duration::from_millis(1)).await;
                }
                assert_eq!(wakes.0.load(Relaxed), 0);
                sender.write_all(b"again").await.unwrap();
                assert_eq!(reading.await.unwrap(), 5);
            }
            // And gone without a word.
            let mut reading = pin!(receiver.read(&mut buf));
            assert_pending(reading.as_mut()).await;
            drop(sender);
            assert_eq!(reading.await.unwrap(), 0);
        }
    });
}

#[test]
fn a_fifo_without_a_reader_is_refused_by_its_number_and_one_with_a_reader_again_takes_more() {
    block_on(async {
        let folder = Folder::new();
        let path = folder.path("fifo");
        make_fifo(&path);
        let nobody = OpenOptions::new().open_sender(&path).unwrap_err();
        assert_eq!(nobody.raw_os_error(), Some(libc::ENXIO));
        // Opened for both, it is its own reader.
        let mut both = OpenOptions::new().read_write(true).open_sender(&path).unwrap();
        both.write_all(b"kept").await.unwrap();
        let mut receiver = OpenOptions::new().read_write(true).open_receiver(&path).unwrap();
        let mut buf = [0; 8];
        assert_eq!(receiver.read(&mut buf).await.unwrap(), 4);
        let mut sender = OpenOptions::new().open_sender(&path).unwrap();
        drop(both);
        assert_pending(receiver.read(&mut buf)).await;
        drop(receiver);
        assert_eq!(sender.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        let mut receiver = OpenOptions::new().open_receiver(&path).unwrap();
        sender.write_all(b"more").await.unwrap();
        assert_eq!(receiver.read(&mut buf).await.unwrap(), 4);
        while sender.try_write(&[0; 4096]).is_ok() {}
        assert_pending(sender.write(b"x")).await;
    });
}

#[test]
fn a_blocking_descriptor_is_made_non_blocking_and_given_back() {
    block_on(async {
        let (read, write) = raw(0);
        let receiver = Receiver::from_file(File::from(read)).unwrap();
        let sender = Sender::from_file(File::from(write)).unwrap();
        assert!(is_nonblocking(&receiver) && is_nonblocking(&sender));
        assert_pending(receiver.readable()).await;
        let read = receiver.into_blocking_fd().unwrap();
        let write = sender.into_nonblocking_fd().unwrap();
        assert!(!is_nonblocking(&read) && is_nonblocking(&write));
        let receiver = Receiver::from_owned_fd_unchecked(read).unwrap();
        let sender = Sender::from_file_unchecked(File::from(write)).unwrap();
        assert!(is_nonblocking(&receiver));
        let write = File::from(sender.into_blocking_fd().unwrap());
        assert!(!is_nonblocking(&write));
        drop(write);
        assert_eq!({ receiver }.read(&mut [0; 8]).await.unwrap(), 0);
    });
}

#[test]
fn what_is_no_pipe_or_the_wrong_end_is_refused_by_its_number() {
    block_on(async {
        let check = |error: io::Error, number: i32, what: &str| {
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert_eq!(error.to_string(), format!("descriptor {number}: {what}"));
        };
        let (read, write) = raw(0);
        let numbers = [read.as_raw_fd(), write.as_raw_fd()];
        check(Sender::from_owned_fd(read).unwrap_err(), numbers[0], "not in O_WRONLY or O_RDWR access mode");
        check(
            Receiver::from_owned_fd(write).unwrap_err(),
            numbers[1],
            "not in O_RDONLY or O_RDWR access mode",
        );
        let file = File::open("/proc/self/exe").unwrap();
        let number = file.as_raw_fd();
        check(Receiver::from_file(file).unwrap_err(), number, "not a pipe");
        assert_eq!(
            OpenOptions::new().open_receiver("/proc/self/exe").unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        // Unchecked, it is the system that refuses a file.
        let file = OpenOptions::new().unchecked(true).open_receiver("/proc/self/exe").unwrap_err();
        assert_eq!(file.raw_os_error(), Some(libc::EPERM));
        assert_eq!(OpenOptions::new().open_receiver("/nowhere").unwrap_err().kind(), ErrorKind::NotFound);
        // A socket is no pipe, but works.
        let (near, mut far) = std::os::unix::net::UnixStream::pair().unwrap();
        let near = OwnedFd::from(near);
        let copy = near.try_clone().unwrap();
        assert_eq!(Receiver::from_owned_fd(copy).unwrap_err().kind(), ErrorKind::InvalidInput);
        let mut near = Receiver::from_owned_fd_unchecked(near).unwrap();
        far.write_all(b"hello").unwrap();
        assert_eq!(near.read(&mut [0; 8]).await.unwrap(), 5);
    });
}

#[test]
fn a_panic_names_what_needs_a_runtime() {
    for text in [
        support::panic_of(|| pipe::pipe()),
        support::panic_of(|| Sender::from_owned_fd(raw(0).1)),
        support::panic_of(|| Receiver::from_owned_fd(raw(0).0)),
    ] {
        assert!(text.contains("`pipe::") && text.contains("needs a runtime"), "{text}");
    }
    let without_io = runtime::Builder::new_current_thread().build().unwrap();
    let text = support::panic_of(|| without_io.block_on(async { pipe::pipe() }));
    assert!(text.contains("enable_io"), "{text}");
}

#[test]
fn ends_are_errors_after_the_shutdown_of_their_runtime() {
    let runtime = support::build(1);
    let (mut sender, mut receiver) = runtime.block_on(async { pipe::pipe().unwrap() });
    block_on(async {
        let mut buf = [0; 8];
        {
            let mut reading = pin!(receiver.read(&mut buf));
            assert_pending(reading.as_mut()).await;
            drop(runtime);
            assert!(runtime::runtime::is_rt_shutdown_err(&reading.await.unwrap_err()));
        }
        for error in [
            sender.write(b"x").await.map(drop),
            sender.writable().await,
            sender.try_write(b"x").map(drop),
            receiver.try_read(&mut buf).map(drop),
        ] {
            assert!(runtime::runtime::is_rt_shutdown_err(&error.unwrap_err()));
        }
    });
    receiver.into_blocking_fd().unwrap();
}
