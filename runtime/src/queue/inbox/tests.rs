use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, Wake};

use super::*;
use crate::queue::intrusive_list::tests::{Item, Items};
use crate::util::block_on::block_on;
use crate::util::joined::joined_scope;

/// Pushes `value`. Returns the waker that is to be woken.
fn push(inbox: &Inbox<Item>, items: &Items, value: usize) -> Option<Waker> {
    let mut taken = None;
    // SAFETY: the items outlive the inbox, and each is pushed once at a time.
    unsafe { Inbox::push(NonNull::from(inbox), items.at(value), |waker| taken = Some(waker)) }
        .expect("it is open");
    taken
}

fn values(mut chain: IntrusiveList<Item>, items: &Items) -> Vec<usize> {
    std::iter::from_fn(|| chain.pop_front()).map(|item| items.take(item)).collect()
}

/// A waker that counts.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn items_come_in_the_order_of_the_pushes() {
    let (items, inbox) = (Items::new(5), Inbox::new());
    assert!(inbox.is_empty() && inbox.take_all().is_empty());
    assert!((0..3).all(|value| push(&inbox, &items, value).is_none()));
    assert!(!inbox.is_empty());
    assert_eq!(values(inbox.take_all(), &items), [0, 1, 2]);
    assert!(inbox.is_empty());
    assert!((3..5).all(|value| push(&inbox, &items, value).is_none()));
    assert_eq!(values(inbox.close(), &items), [3, 4]);
}

#[test]
fn the_push_that_ends_a_wait_returns_the_last_waker() {
    let (items, inbox) = (Items::new(4), Inbox::new());
    let (first, second) = (Arc::<Bell>::default(), Arc::<Bell>::default());
    let (first_waker, second_waker) = (Waker::from(first.clone()), Waker::from(second.clone()));
    assert!(inbox.wait(&first_waker) && inbox.wait(&first_waker) && inbox.wait(&second_waker));
    push(&inbox, &items, 0).expect("it waits").wake();
    assert_eq!((first.0.load(Relaxed), second.0.load(Relaxed)), (0, 1));
    assert!(push(&inbox, &items, 1).is_none());
    assert!(!inbox.wait(&first_waker), "there are items");
    assert_eq!(values(inbox.take_all(), &items), [0, 1]);
    // The waker that a failed `wait` left is replaced or used.
    assert!(push(&inbox, &items, 2).is_none());
    assert_eq!(values(inbox.take_all(), &items), [2]);
    assert!(inbox.wait(&first_waker));
    push(&inbox, &items, 3).expect("it waits").wake();
    assert_eq!(first.0.load(Relaxed), 1);
    assert_eq!(values(inbox.take_all(), &items), [3]);
    drop((first_waker, second_waker, inbox));
    assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 1));
}

/// Imitates a wait that failed, because an item came after the waker had been left.
#[test]
fn a_waker_that_a_failed_wait_has_left_is_used_by_the_next_wait() {
    let (items, inbox) = (Items::new(1), Inbox::new());
    let bell = Arc::<Bell>::default();
    let waker = Waker::from(bell.clone());
    inbox.waker.lock().waker = Some(waker.clone());
    assert!(inbox.wait(&waker));
    push(&inbox, &items, 0).expect("it waits").wake();
    assert_eq!((bell.0.load(Relaxed), values(inbox.take_all(), &items)), (1, vec![0]));
}

/// A pusher that took an earlier waker relies on this.
#[test]
fn each_wait_with_another_waker_has_a_mark_of_its_own() {
    let inbox = Inbox::<Item>::new();
    let mut marks = Vec::new();
    for _ in 0..8 {
        assert!(inbox.wait(&Waker::from(Arc::<Bell>::default())));
        let mark = inbox.head.load(Relaxed).addr();
        assert!(!marks.contains(&mark) && mark & WAITING != 0, "{mark:#x} after {marks:?}");
        marks.push(mark);
    }
}

#[test]
fn a_closed_inbox_refuses_and_forgets_its_waker() {
    let (items, inbox) = (Items::new(1), Inbox::<Item>::new());
    let bell = Arc::<Bell>::default();
    assert!(inbox.wait(&Waker::from(bell.clone())));
    assert!(inbox.close().is_empty());
    assert_eq!(Arc::strong_count(&bell), 1);
    // SAFETY: the item outlives the inbox.
    assert!(unsafe { Inbox::push(NonNull::from(&inbox), items.at(0), Waker::wake) }.is_err());
    assert_eq!(items.take(items.at(0)), 0);
}

#[test]
fn a_notification_wakes_without_a_push_and_once() {
    let inbox = Inbox::<Item>::new();
    let bell = Arc::<Bell>::default();
    let waker = Waker::from(bell.clone());
    inbox.take_waker().into_iter().for_each(Waker::wake);
    assert!(inbox.wait(&waker));
    inbox.take_waker().into_iter().for_each(Waker::wake);
    inbox.take_waker().into_iter().for_each(Waker::wake);
    assert_eq!(bell.0.load(Relaxed), 1);
    assert!(inbox.wait(&waker));
    inbox.take_waker().into_iter().for_each(Waker::wake);
    assert_eq!(bell.0.load(Relaxed), 2);
}

#[test]
fn each_item_is_taken_once_and_in_its_pushers_order_under_stress() {
    const PUSHERS: usize = 3;
    const EACH: usize = 10_000;
    let (items, inbox) = (Items::new(PUSHERS * EACH), Inbox::new());
    joined_scope(|scope| {
        for pusher in 0..PUSHERS {
            let (items, inbox) = (&items, &inbox);
            scope.spawn(move || {
                (0..EACH).filter_map(|i| push(inbox, items, pusher * EACH + i)).for_each(Waker::wake);
            });
        }
        let (mut next, mut left) = ([0; PUSHERS], PUSHERS * EACH);
        block_on(std::future::poll_fn(|cx: &mut Context<'_>| {
            loop {
                for value in values(inbox.take_all(), &items) {
                    assert_eq!(next[value / EACH], value % EACH);
                    next[value / EACH] += 1;
                    left -= 1;
                }
                if left == 0 {
                    return Poll::Ready(());
                }
                if inbox.wait(cx.waker()) {
                    return Poll::Pending;
                }
            }
        }));
    });
    items.assert_all_taken();
}
