use std::io::{Error, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock};
use std::task::{Wake, Waker};
use std::thread;

use super::*;
use crate::io::locked::tests::{waker_that_blocks, waker_that_cannot_be_cloned};
use crate::util::unwind::catch;

/// An input with a thread that reads what a test sends.
struct Sent {
    input: Arc<Input>,
    sender: Sender<io::Result<Vec<u8>>>,
    receiver: Arc<Mutex<Receiver<io::Result<Vec<u8>>>>>,
    /// How many bytes each read asked for.
    asked: Arc<Mutex<Vec<usize>>>,
    starts: usize,
    waker: Waker,
}

impl Sent {
    fn new() -> Self {
        let (sender, receiver) = channel();
        let (input, receiver) = (Arc::new(Input::new()), Arc::new(Mutex::new(receiver)));
        Self { input, sender, receiver, asked: Arc::default(), starts: 0, waker: Waker::noop().clone() }
    }

    fn poll(&mut self, handle: usize, room: usize) -> Poll<io::Result<Vec<u8>>> {
        let mut bytes = vec![0; room];
        let mut buf = ReadBuf::new(&mut bytes);
        let Self { input, receiver, asked, starts, waker, .. } = self;
        let start = || {
            *starts += 1;
            let (input, receiver, asked) = (input.clone(), receiver.clone(), asked.clone());
            thread::spawn(move || {
                input.run(|bytes| {
                    asked.lock().push(bytes.len());
                    let sent = receiver.lock().recv().expect("the test is here")?;
                    bytes[..sent.len()].copy_from_slice(&sent);
                    Ok(sent.len())
                });
            });
            Ok(())
        };
        let result = input.poll_read(&mut Context::from_waker(waker), handle, &mut buf, start);
        result.map_ok(|()| buf.filled().to_vec())
    }

    /// Polls until there is a result.
    fn read(&mut self, handle: usize, room: usize) -> io::Result<Vec<u8>> {
        loop {
            if let Poll::Ready(result) = self.poll(handle, room) {
                return result;
            }
            thread::yield_now();
        }
    }
}

#[test]
fn what_a_handle_asked_for_and_did_not_take_is_there_for_the_next() {
    let mut sent = Sent::new();
    let first = sent.input.enter();
    assert!(sent.poll(first, 8).is_pending());
    sent.input.leave(first);
    sent.sender.send(Ok(b"hello".to_vec())).unwrap();
    let next = sent.input.enter();
    assert_eq!(sent.read(next, 2).unwrap(), b"he");
    assert_eq!(sent.read(next, 9).unwrap(), b"llo");
    assert_eq!(sent.read(next, 0).unwrap(), b"", "nothing is asked for");
    assert_eq!((sent.starts, &sent.asked.lock()[..]), (1, &[8][..]), "no more than was asked for");
}

#[test]
fn an_end_and_an_error_are_reported_once() {
    let mut sent = Sent::new();
    let handle = sent.input.enter();
    sent.sender.send(Ok(Vec::new())).unwrap();
    sent.sender.send(Err(ErrorKind::InvalidData.into())).unwrap();
    sent.sender.send(Ok(b"more".to_vec())).unwrap();
    assert_eq!(sent.read(handle, 8).unwrap(), b"");
    assert_eq!(sent.read(handle, 8).unwrap_err().kind(), ErrorKind::InvalidData);
    assert_eq!(sent.read(handle, 8).unwrap(), b"more");
}

#[test]
fn a_handle_whose_waker_cannot_be_cloned_leaves_a_thread_for_the_next() {
    let mut sent = Sent::new();
    sent.waker = waker_that_cannot_be_cloned();
    let handle = sent.input.enter();
    let panic = catch(|| _ = sent.poll(handle, 8)).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"no clones"));
    assert_eq!(sent.starts, 1);
    sent.waker = Waker::noop().clone();
    sent.sender.send(Ok(b"hello".to_vec())).unwrap();
    assert_eq!(sent.read(handle, 8).unwrap(), b"hello");
}

struct Flag(Arc<AtomicBool>);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn a_thread_that_is_refused_is_asked_for_again() {
    static INPUT: LazyLock<Input> = LazyLock::new(Input::new);
    let handle = INPUT.enter();
    let mut bytes = [0; 8];
    let mut buf = ReadBuf::new(&mut bytes);
    let cx = &mut Context::from_waker(Waker::noop());
    let woken = Arc::new(AtomicBool::new(false));
    let refused = INPUT.poll_read(cx, handle, &mut buf, || {
        // Another handle relies on the same thread meanwhile.
        let (other, mut buf) = (INPUT.enter(), [0; 8]);
        let waker = Waker::from(Arc::new(Flag(woken.clone())));
        let cx = &mut Context::from_waker(&waker);
        assert!(INPUT.poll_read(cx, other, &mut ReadBuf::new(&mut buf), || unreachable!()).is_pending());
        Err(Error::other("no more threads"))
    });
    assert!(matches!(refused, Poll::Ready(Err(error)) if error.to_string() == "no more threads"));
    // On a thread of its own.
    while !woken.load(Relaxed) {
        thread::yield_now();
    }
    loop {
        let start = || {
            let read = |bytes: &mut [u8]| {
                bytes[0] = 7;
                Ok(1)
            };
            thread::spawn(move || INPUT.run(read));
            Ok(())
        };
        if INPUT.poll_read(cx, handle, &mut buf, start).is_ready() {
            break;
        }
    }
    assert_eq!(buf.filled(), [7]);
}

#[test]
fn a_waker_that_blocks_keeps_no_other_handle_from_its_input() {
    let mut sent = Sent::new();
    let (a, b) = (sent.input.enter(), sent.input.enter());
    let (waker, gate) = waker_that_blocks();
    sent.waker = waker;
    assert!(sent.poll(a, 8).is_pending());
    sent.sender.send(Ok(b"first".to_vec())).unwrap();
    gate.await_arrival();
    sent.waker = Waker::noop().clone();
    assert_eq!(sent.read(a, 8).unwrap(), b"first");
    sent.sender.send(Ok(b"second".to_vec())).unwrap();
    assert_eq!(sent.read(b, 8).unwrap(), b"second");
    gate.open();
}
