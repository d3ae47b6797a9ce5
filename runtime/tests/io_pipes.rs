//! Pipes in memory: `duplex`, `simplex`; and `join`, which makes a stream of two halves.

mod io_support;

use std::io::{ErrorKind, IoSlice};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use io_support::{Random, block_on, poll_once};
use runtime::io::{
    AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, SimplexStream, duplex, join,
    simplex,
};

/// The waker of one direction's reader panics. The writer of the other direction is woken all the same.
#[test]
fn both_directions_end_although_a_waker_panics() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a foreign waker");
        }
    }
    struct Notes(Mutex<u32>);
    impl Wake for Notes {
        fn wake(self: Arc<Self>) {
            *self.0.lock().unwrap() += 1;
        }
    }
    let (near, far) = duplex(1);
    let (mut reader, mut writer) = runtime::io::split(far);
    let panics = Waker::from(Arc::new(Panics));
    let notes = Arc::new(Notes(Mutex::new(0)));
    let noted = Waker::from(notes.clone());
    let mut bytes = [0];
    assert!(pin!(reader.read(&mut bytes)).poll(&mut Context::from_waker(&panics)).is_pending());
    let mut write = pin!(writer.write_all(b"ab"));
    assert!(write.as_mut().poll(&mut Context::from_waker(&noted)).is_pending());
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(near)));
    assert!(outcome.is_err(), "the waker's panic goes on");
    assert_eq!(*notes.0.lock().unwrap(), 1);
}

#[test]
fn slices_are_written_one_after_the_other() {
    block_on(async {
        let (mut near, mut far) = duplex(5);
        let slices = [IoSlice::new(b"abc"), IoSlice::new(b""), IoSlice::new(b"def")];
        assert_eq!(near.write_vectored(&slices).await.unwrap(), 5);
        assert_eq!(near.write_vectored(&slices[1..2]).await.unwrap(), 0, "nothing needs no room");
        assert_eq!(near.write(b"").await.unwrap(), 0);
        let mut text = vec![0; 5];
        far.read_exact(&mut text).await.unwrap();
        assert_eq!(text, b"abcde");
        drop(far);
        assert_eq!(near.write(b"").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn one_value_is_both_ends_of_a_pipe() {
    block_on(async {
        let mut pipe = SimplexStream::new_unsplit(4);
        assert_eq!(pipe.write(b"hello").await.unwrap(), 4);
        assert!(poll_once(pin!(pipe.write(b"o"))).is_pending());
        assert_eq!(pipe.read(&mut []).await.unwrap(), 0);
        assert_eq!(pipe.read(&mut [0; 8]).await.unwrap(), 4);
        assert!(poll_once(pin!(pipe.read(&mut [0]))).is_pending());
        pipe.write_u8(7).await.unwrap();
        pipe.shutdown().await.unwrap();
        assert_eq!(pipe.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        let mut rest = Vec::new();
        pipe.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, [7]);
    });
}

#[test]
fn the_halves_of_a_pipe_wake_each_other_and_only_a_shutdown_ends_it() {
    let runtime = runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let (mut reader, mut writer) = simplex(3);
        let bytes = Random::new(1).text(10_000, false);
        let expected = bytes.clone();
        let writing = runtime::spawn(async move {
            writer.write_all(&bytes).await.unwrap();
            writer
        });
        let mut read = vec![0; expected.len()];
        reader.read_exact(&mut read).await.unwrap();
        assert_eq!(read, expected);
        let mut writer = writing.await.unwrap();
        assert!(poll_once(pin!(reader.read(&mut [0]))).is_pending());
        writer.shutdown().await.unwrap();
        assert_eq!(reader.read(&mut [0]).await.unwrap(), 0);
    });
}

/// A waker that writes to the pipe when it is woken and when it is dropped.
struct Nosy(Arc<Mutex<DuplexStream>>);

impl Nosy {
    fn write(&self) {
        // Not where the write of another waker has called this one.
        if let Ok(mut end) = self.0.try_lock() {
            // If the pipe were locked now, this would not return.
            let _ = poll_once(pin!(end.write(b"!")));
        }
    }
}

impl Wake for Nosy {
    fn wake(self: Arc<Self>) {
        self.write();
    }
}

impl Drop for Nosy {
    fn drop(&mut self) {
        self.write();
    }
}

#[test]
fn a_waker_may_use_the_pipe_that_wakes_it() {
    let (near, mut far) = duplex(8);
    let near = Arc::new(Mutex::new(near));
    let mut bytes = [0; 8];
    let mut read =
        |waker: Waker| pin!(far.read(&mut bytes)).poll(&mut Context::from_waker(&waker)).map(Result::unwrap);
    let nosy = || Waker::from(Arc::new(Nosy(near.clone())));
    assert_eq!(read(nosy()), Poll::Pending);
    // This one takes the place of the first, which writes when it is dropped, and so wakes this one.
    assert_eq!(read(nosy()), Poll::Pending);
    assert_eq!(read(Waker::noop().clone()), Poll::Ready(2), "each has written when it was dropped");
}

#[test]
fn a_reader_and_a_writer_are_one_stream() {
    block_on(async {
        let mut stream = join(BufReader::new(&b"first\nsecond"[..]), Vec::new());
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        stream.write_all(line.as_bytes()).await.unwrap();
        stream.write_vectored(&[IoSlice::new(b"and "), IoSlice::new(b"more")]).await.unwrap();
        assert_eq!(
            (stream.reader().buffer(), &stream.writer()[..]),
            (&b"second"[..], &b"first\nand more"[..])
        );
        stream.writer_mut().clear();
        assert_eq!(stream.reader_mut().read_u8().await.unwrap(), b's');
        let mut pinned = Pin::new(&mut stream);
        pinned.as_mut().writer_pin_mut().write_u8(1).await.unwrap();
        pinned.as_mut().reader_pin_mut().read_u8().await.unwrap();
        let (reader, writer) = stream.into_inner();
        assert_eq!((reader.buffer(), writer), (&b"cond"[..], vec![1]));
    });
}
