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

/// A waker, and the number of its references.
fn counted_waker() -> (Waker, impl Fn() -> usize) {
    struct Ignores;
    impl std::task::Wake for Ignores {
        fn wake(self: std::sync::Arc<Self>) {}
    }
    let waker = std::sync::Arc::new(Ignores);
    (waker.clone().into(), move || std::sync::Arc::strong_count(&waker))
}

fn park<T>(queue: &Queue<T>, waker: &Waker) -> bool {
    // SAFETY: (1) each test is the consumer, and calls this when `pop` found nothing.
    unsafe { queue.park(waker) }
}

#[test]
fn a_queue_that_is_new_is_open_and_empty() {
    let queue = Queue::<i32>::new(3);
    assert!(!queue.is_sealed());
    assert_eq!(free_in(queue.tail_word().load(Ordering::Relaxed)), 3);
    // SAFETY: (1) one thread.
    assert_eq!((unsafe { queue.len() }, pop(&queue)), (0, Pop::Empty));
    queue.seal();
    assert!(queue.is_sealed());
    assert_eq!(free_in(queue.tail_word().load(Ordering::Relaxed)), 3, "a seal leaves the permits alone");
}

#[test]
fn a_push_with_a_permit_takes_just_one_and_only_from_an_open_queue() {
    let queue = Queue::new(2);
    let word = || queue.tail_word().load(Ordering::Relaxed);
    assert_eq!((queue.push_taking_permit(1), free_in(word())), (Ok(()), 1));
    for flag in [QUEUED, CLOSED, SEALED] {
        queue.tail_word().fetch_or(flag, Ordering::Relaxed);
        assert_eq!((queue.push_taking_permit(2), free_in(word())), (Err(2), 1));
        queue.tail_word().fetch_and(!flag, Ordering::Relaxed);
    }
    assert_eq!((queue.push_taking_permit(2), free_in(word())), (Ok(()), 0));
    assert_eq!((queue.push_taking_permit(3), free_in(word())), (Err(3), 0));
    assert_eq!((pop(&queue), pop(&queue), pop(&queue)), (Pop::Value(1), Pop::Value(2), Pop::Empty));
}

#[test]
fn all_values_but_the_last_of_a_block_need_no_slow_push() {
    let queue = Queue::new(MOST_FREE);
    let word = || queue.tail_word().load(Ordering::Relaxed);
    for lap in 0..5 {
        for n in 0..VALUES - 1 {
            assert_eq!(queue.push_taking_permit(n), Ok(()), "lap {lap}");
        }
        let before = free_in(word());
        assert_eq!(queue.push_taking_permit(0), Err(0), "this one installs the next block");
        assert_eq!(queue.push(VALUES - 1), Ok(()));
        assert_eq!(free_in(word()), before, "a push without a permit takes none");
    }
    for _ in 0..5 {
        (0..VALUES).for_each(|n| assert_eq!(pop(&queue), Pop::Value(n)));
    }
    assert_eq!(pop(&queue), Pop::Empty);
}

#[test]
fn a_consumer_that_parks_keeps_one_waker_until_it_is_unparked_or_woken() {
    let queue = Queue::new(1);
    let (first, firsts) = counted_waker();
    let (second, seconds) = counted_waker();
    let before = firsts();
    assert!(park(&queue, &first) && park(&queue, &first));
    assert_eq!(firsts(), before + 1);
    assert!(park(&queue, &second));
    assert_eq!((firsts(), seconds()), (before, before + 1));
    // SAFETY: (1) one thread.
    unsafe { queue.unpark() };
    // SAFETY: as above.
    unsafe { queue.unpark() };
    assert_eq!(seconds(), before);
    // Each kind of push, and the end, take it.
    for push in [Queue::push, Queue::push_taking_permit] {
        assert!(park(&queue, &first));
        push(&queue, 1).unwrap();
        assert_eq!((firsts(), pop(&queue)), (before, Pop::Value(1)));
    }
    assert!(park(&queue, &first));
    queue.end();
    assert_eq!((firsts(), pop(&queue)), (before, Pop::Ended));
    assert!(!park(&queue, &first), "no value will come");
    assert_eq!(firsts(), before);
}

#[test]
fn a_queue_that_is_dropped_drops_its_values_and_its_waker() {
    let value = std::sync::Arc::new(());
    let queue = Queue::new(0);
    (0..100).for_each(|_| queue.push(value.clone()).unwrap());
    (0..40).for_each(|_| assert!(matches!(pop(&queue), Pop::Value(_))));
    drop(queue);
    assert_eq!(std::sync::Arc::strong_count(&value), 1);
    let queue = Queue::<i32>::new(0);
    let (waker, count) = counted_waker();
    let before = count();
    assert!(park(&queue, &waker));
    drop(queue);
    assert_eq!(count(), before);
}

#[test]
fn a_consumer_that_was_late_does_not_park() {
    let queue = Queue::new(0);
    let (waker, count) = counted_waker();
    let before = count();
    queue.push(1).unwrap();
    assert!(!park(&queue, &waker));
    assert_eq!((count(), pop(&queue)), (before, Pop::Value(1)));
}

#[test]
fn a_value_that_is_being_written_makes_the_consumer_wait() {
    let queue = Queue::new(0);
    let word = queue.tail_word().load(Ordering::Relaxed);
    let block = queue.tail.block.load(Ordering::Relaxed);
    // It may fail without a reason.
    while queue.claim(word, 0).is_err() {}
    // SAFETY: (1) one thread.
    assert_eq!((pop(&queue), unsafe { queue.len() }), (Pop::Busy, 1));
    queue.end();
    assert_eq!(pop(&queue), Pop::Busy, "the end comes after it");
    // SAFETY: (1) the claim above; the offset is that of `word`. (2) `block` was the tail's block.
    unsafe { queue.fill(block, 0, word, 7) };
    assert_eq!((pop(&queue), pop(&queue)), (Pop::Value(7), Pop::Ended));
}
