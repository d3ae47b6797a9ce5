use std::sync::Arc as StdArc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Wake;

use super::*;

#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: StdArc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_receiver_does_not_keep_its_thread_while_a_value_is_being_written() {
    let (tx, mut rx) = Channel::open(None);
    // What a value adds to the tail's word: one position.
    let tail = rx.channel.queue.tail_word();
    let before = tail.load(SeqCst);
    tx.channel.push(1).unwrap();
    let position = tail.load(SeqCst) - before;
    assert_eq!(rx.try_recv(), Ok(1));
    // As if a producer had lost its CPU after its claim.
    rx.channel.queue.tail_word().fetch_add(position, SeqCst);
    let counter = StdArc::<Counter>::default();
    let waker = counter.clone().into();
    let cx = &mut Context::from_waker(&waker);
    assert!(rx.poll_recv(cx).is_pending());
    assert_eq!(counter.0.load(SeqCst), 1, "it is polled again");
    assert!(rx.poll_recv_many(cx, &mut Vec::new(), 2).is_pending());
    rx.channel.queue.tail_word().fetch_sub(position, SeqCst);
    tx.channel.push(2).unwrap();
    assert_eq!(rx.poll_recv(cx), Poll::Ready(Some(2)));
}
