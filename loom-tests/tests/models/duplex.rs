//! duplex: an end that waits is woken by what the other end does, through the last waker it polled with.
//!
//! Bounds: one thread an end, one byte of room, one operation each.

use std::io::{ErrorKind, Result};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use runtime::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::flag::{Flag, poll};
use super::once_built::{model, thread};

/// Polls twice, with another waker each, lets the other end finish, and polls again if that has woken the
/// last waker.
fn polled_to_the_end<F: Future>(mut future: Pin<&mut F>, other: thread::JoinHandle<()>) -> F::Output {
    let (first, second) = (Flag::new(), Flag::new());
    let mut result = poll(future.as_mut(), &first);
    if result.is_pending() {
        result = poll(future.as_mut(), &second);
    }
    other.join().unwrap();
    if result.is_pending() {
        assert!(second.is_set(), "lost wake");
        result = poll(future, &second);
    }
    assert_eq!(Arc::strong_count(&first), 1, "leaked waker");
    match result {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("woken for nothing"),
    }
}

fn done<T>(future: impl Future<Output = T>) -> T {
    match poll(pin!(future), &Flag::new()) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("there is nothing to wait for"),
    }
}

fn read(end: &mut DuplexStream, other: thread::JoinHandle<()>) -> Result<u8> {
    polled_to_the_end(pin!(end.read_u8()), other)
}

#[test]
fn a_reader_that_waits_is_woken_for_a_byte() {
    model(|| {
        let (mut near, mut far) = duplex(1);
        let writer = thread::spawn(move || {
            done(near.write_u8(7)).unwrap();
            std::mem::forget(near);
        });
        assert_eq!(read(&mut far, writer).unwrap(), 7);
    });
}

#[test]
fn a_reader_that_waits_is_woken_for_the_end() {
    model(|| {
        let (mut near, mut far) = duplex(1);
        let writer = thread::spawn(move || {
            done(near.shutdown()).unwrap();
            std::mem::forget(near);
        });
        assert_eq!(read(&mut far, writer).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    });
}

#[test]
fn a_writer_that_waits_is_woken_for_room() {
    model(|| {
        let (mut near, mut far) = duplex(1);
        done(near.write_u8(1)).unwrap();
        let reader = thread::spawn(move || {
            assert_eq!(done(far.read_u8()).unwrap(), 1);
            std::mem::forget(far);
        });
        polled_to_the_end(pin!(near.write_u8(2)), reader).unwrap();
    });
}

#[test]
fn a_writer_that_waits_is_woken_when_the_reader_goes() {
    model(|| {
        let (mut near, far) = duplex(1);
        done(near.write_u8(1)).unwrap();
        let reader = thread::spawn(move || drop(far));
        let error = polled_to_the_end(pin!(near.write_u8(2)), reader).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    });
}

/// A pipe that holds a byte or nothing, with the lock let go while the waker is cloned.
mod small {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use loom::sync::{Arc, Mutex};

    use super::polled_to_the_end;
    use crate::models::once_built::{model, thread};

    #[derive(Default)]
    struct Pipe {
        byte: Option<u8>,
        reader: Option<Waker>,
    }

    fn poll_read(pipe: &Mutex<Pipe>, cx: &mut Context<'_>, tries_again: bool) -> Poll<u8> {
        if let Some(byte) = pipe.lock().unwrap().byte.take() {
            return Poll::Ready(byte);
        }
        let waker = cx.waker().clone();
        let mut pipe = pipe.lock().unwrap();
        if let Some(byte) = pipe.byte.take().filter(|_| tries_again) {
            return Poll::Ready(byte);
        }
        pipe.reader = Some(waker);
        Poll::Pending
    }

    fn check(tries_again: bool) {
        model(move || {
            let pipe = Arc::new(Mutex::new(Pipe::default()));
            let writer = thread::spawn({
                let pipe = pipe.clone();
                move || {
                    let reader = {
                        let mut pipe = pipe.lock().unwrap();
                        pipe.byte = Some(7);
                        pipe.reader.take()
                    };
                    reader.into_iter().for_each(Waker::wake);
                }
            });
            let reading = pin!(poll_fn(|cx| poll_read(&pipe, cx, tries_again)));
            assert_eq!(polled_to_the_end(reading, writer), 7);
        });
    }

    #[test]
    fn twin_without_a_bug() {
        check(true);
    }

    #[test]
    #[should_panic(expected = "lost wake")]
    fn twin_an_end_that_does_not_try_again_sleeps_on() {
        check(false);
    }
}
