use super::*;

fn pop<T>(queue: &Queue<T>) -> Pop<T> {
    // SAFETY: (1) each test pops on one thread.
    unsafe { queue.pop() }
}

#[test]
fn values_come_out_in_order_over_many_blocks() {
    let queue = Queue::new(0);
    for n in 0..1000 {
        queue.push(n).unwrap();
        // SAFETY: (1) one thread.
        assert_eq!(unsafe { queue.len() }, n + 1);
    }
    for n in 0..1000 {
        assert_eq!(pop(&queue), Pop::Value(n));
    }
    assert_eq!(pop(&queue), Pop::Empty);
    queue.end();
    assert_eq!(pop(&queue), Pop::Ended);
}

#[test]
fn a_steady_stream_uses_the_same_blocks_for_ever() {
    let queue = Queue::new(0);
    let tail_block = || queue.tail.block.load(Ordering::Relaxed);
    for n in 0..100 * VALUES {
        let (block, spare) = (tail_block(), queue.spare.load(Ordering::Relaxed));
        queue.push(n).unwrap();
        // No block before the first could have been recycled.
        if tail_block() != block && n > VALUES {
            assert_eq!(tail_block(), spare);
        }
        assert_eq!(pop(&queue), Pop::Value(n));
    }
}

#[test]
fn a_block_may_be_larger_than_the_stack() {
    const LARGE: usize = 128 << 10;
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(|| {
        let queue = Queue::new(0);
        queue.push([7_u8; LARGE]).ok().unwrap();
        assert!(matches!(pop(&queue), Pop::Value(value) if value[LARGE - 1] == 7));
    });
    thread.unwrap().join().unwrap();
}

#[test]
fn positions_begin_again_after_the_last() {
    let queue = Queue::new(0);
    let start = LAST_POSITION + 1 - 2 * LAP;
    queue.tail.word.store(start << SHIFT, Ordering::Relaxed);
    // SAFETY: one thread.
    queue.head.with_mut(|head| unsafe { (*head).position = start });
    for n in 0..10 * LAP {
        queue.push(n).unwrap();
    }
    for n in 0..10 * LAP {
        // SAFETY: (1) one thread.
        assert_eq!(unsafe { queue.len() }, 10 * LAP - n);
        assert_eq!(pop(&queue), Pop::Value(n));
    }
    assert_eq!(pop(&queue), Pop::Empty);
    assert!(queue.tail.word.load(Ordering::Relaxed) >> SHIFT < start);
}

#[test]
fn a_sealed_queue_gives_the_value_back_and_keeps_what_it_has() {
    let queue = Queue::new(0);
    queue.push(1).unwrap();
    queue.seal();
    assert_eq!(queue.push(2), Err(2));
    assert_eq!(pop(&queue), Pop::Value(1));
}
