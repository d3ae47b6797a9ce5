//! The inbox. Each item is taken once, by the owner, which sees what its pusher wrote. An owner that waits is
//! woken through its last waker. An older one is dropped after that. The inbox may be freed as soon as the
//! owner has the last item.
//!
//! Bounds: two pushers of an item each, and an owner that is polled twice, with two wakers. Also with three
//! preemptions.

mod twin;

use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Wake, Waker};

use runtime::internals::queue::{Inbox, IntrusiveList};

use super::flag::Flag;
use super::item::{Item, Items};
use super::once_built::{model, thread};
use twin::{Fault, Twin};

/// The interface of the real inbox and its twins.
#[allow(clippy::missing_safety_doc, reason = "the duties are those of the real methods")]
trait Queue: Send + Sync + 'static {
    unsafe fn push(this: NonNull<Self>, item: NonNull<Item>, wake: impl FnOnce(Waker));
    fn take_all(&self) -> IntrusiveList<Item>;
    fn wait(&self, waker: &Waker) -> bool;
    /// Frees an inbox that was leaked from a box; a twin only records it.
    unsafe fn free(this: NonNull<Self>);
}

impl Queue for Inbox<Item> {
    unsafe fn push(this: NonNull<Self>, item: NonNull<Item>, wake: impl FnOnce(Waker)) {
        // SAFETY: the caller guarantees the same.
        unsafe { Inbox::push(this, item, wake) }.expect("the inbox stays open");
    }

    fn take_all(&self) -> IntrusiveList<Item> {
        self.take_all()
    }

    fn wait(&self, waker: &Waker) -> bool {
        self.wait(waker)
    }

    unsafe fn free(this: NonNull<Self>) {
        // SAFETY: the caller guarantees the same.
        drop(unsafe { Box::from_raw(this.as_ptr()) });
    }
}

/// A pointer that a pusher takes along.
struct Sent<T>(NonNull<T>);

// SAFETY: the models find out whether the accesses of the threads are ordered.
unsafe impl<T> Send for Sent<T> {}

impl<T> Sent<T> {
    fn get(&self) -> NonNull<T> {
        self.0
    }
}

/// Starts a thread for each item, which pushes the item.
fn pushers<Q: Queue>(inbox: NonNull<Q>, items: &Arc<Items>) -> Vec<thread::JoinHandle<()>> {
    (0..items.count())
        .map(|value| {
            let (inbox, items) = (Sent(inbox), items.clone());
            thread::spawn(move || {
                let item = items.make(value);
                // SAFETY: the owner frees the inbox when it has all items, and the items outlive the inbox.
                unsafe { Q::push(inbox.get(), item, Waker::wake) };
            })
        })
        .collect()
}

fn take(inbox: &impl Queue, items: &Items, taken: &mut Vec<usize>) {
    let mut chain = inbox.take_all();
    while let Some(item) = chain.pop_front() {
        taken.push(items.take(item));
    }
}

/// Takes the items that are there, then waits. Returns false if more have come.
fn poll(inbox: &impl Queue, items: &Items, taken: &mut Vec<usize>, flag: &Arc<Flag>) -> bool {
    take(inbox, items, taken);
    inbox.wait(&Waker::from(flag.clone()))
}

/// The owner is polled twice, with different wakers. If it waits in the end, every item that is left has
/// woken it.
fn an_owner_falls_asleep<Q: Queue>(make: impl Fn() -> Q + Send + Sync + 'static) {
    model(move || {
        let (inbox, items, mut taken) = (make(), Arc::new(Items::new(2)), Vec::new());
        let threads = pushers(NonNull::from(&inbox), &items);
        let flags = [Flag::new(), Flag::new()];
        let is_waiting = flags.each_ref().map(|flag| poll(&inbox, &items, &mut taken, flag));
        let missed = items.count() - taken.len();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        if is_waiting[1] && missed > 0 {
            assert!(flags[1].is_set(), "lost wake");
        }
        take(&inbox, &items, &mut taken);
        items.assert_all(taken);
    });
}

/// The owner is polled again and again, and frees the inbox when it has all items.
fn the_owner_frees_it<Q: Queue>(make: impl Fn() -> Q + Send + Sync + 'static) {
    model(move || {
        let (inbox, items) = (NonNull::from(Box::leak(Box::new(make()))), Arc::new(Items::new(2)));
        let threads = pushers(inbox, &items);
        let (flag, mut taken) = (Flag::new(), Vec::new());
        while taken.len() < items.count() {
            // SAFETY: freed below.
            poll(unsafe { inbox.as_ref() }, &items, &mut taken, &flag);
            thread::yield_now();
        }
        // SAFETY: leaked above. The model shows that no pusher uses it any more.
        unsafe { Q::free(inbox) };
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        items.assert_all(taken);
    });
}

/// The waker of a wait that may be followed by another. Its destructor is foreign code: on a pusher's thread,
/// it must not run before the pusher has woken the owner.
struct Older {
    owner: loom::thread::ThreadId,
    flag: Arc<Flag>,
    newer: Arc<Flag>,
}

impl Wake for Older {
    fn wake(self: Arc<Self>) {
        self.flag.clone().wake();
    }
}

impl Drop for Older {
    fn drop(&mut self) {
        if thread::current().id() != self.owner {
            assert!(self.flag.is_set() || self.newer.is_set(), "a pusher drops a waker before it wakes");
        }
    }
}

/// The owner waits twice, and the pusher may have taken the first waker by then.
fn a_waker_is_dropped_last<Q: Queue>(make: impl Fn() -> Q + Send + Sync + 'static) {
    model(move || {
        let (inbox, items) = (make(), Arc::new(Items::new(1)));
        let threads = pushers(NonNull::from(&inbox), &items);
        let newer = Flag::new();
        let older = Older { owner: thread::current().id(), flag: Flag::new(), newer: newer.clone() };
        inbox.wait(&Waker::from(Arc::new(older)));
        inbox.wait(&Waker::from(newer));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let mut taken = Vec::new();
        take(&inbox, &items, &mut taken);
        items.assert_all(taken);
    });
}

#[test]
fn a_pusher_drops_the_waker_of_an_earlier_wait_after_its_wake() {
    a_waker_is_dropped_last(Inbox::new);
}

#[test]
fn an_owner_that_waits_is_woken_through_its_last_waker() {
    an_owner_falls_asleep(Inbox::new);
}

#[test]
fn an_inbox_may_be_freed_with_the_last_item() {
    the_owner_frees_it(Inbox::new);
}

/// Each push is taken or refused, at whatever moment the owner closes. Refused items are the pusher's.
#[test]
fn a_push_is_taken_or_refused() {
    model(|| {
        let (inbox, items) = (Arc::new(Inbox::<Item>::new()), Arc::new(Items::new(2)));
        let threads: Vec<_> = (0..2)
            .map(|value| {
                let (inbox, items) = (inbox.clone(), items.clone());
                thread::spawn(move || {
                    let item = items.make(value);
                    // SAFETY: the items outlive the inbox.
                    let pushed = unsafe { Inbox::push(NonNull::from(&*inbox), item, Waker::wake) };
                    pushed.is_err().then(|| items.take(item))
                })
            })
            .collect();
        let flag = Flag::new();
        inbox.wait(&Waker::from(flag.clone()));
        let (mut chain, mut taken) = (inbox.close(), Vec::new());
        while let Some(item) = chain.pop_front() {
            taken.push(items.take(item));
        }
        taken.extend(threads.into_iter().filter_map(|thread| thread.join().unwrap()));
        items.assert_all(taken);
        assert_eq!(Arc::strong_count(&flag), 1, "leaked waker");
    });
}

#[test]
fn a_twin_without_a_fault_passes() {
    an_owner_falls_asleep(|| Twin::new(Fault::None));
    the_owner_frees_it(|| Twin::new(Fault::None));
    a_waker_is_dropped_last(|| Twin::new(Fault::None));
}

#[test]
#[should_panic(expected = "a pusher drops a waker before it wakes")]
fn a_waker_that_is_dropped_before_the_push_is_found() {
    a_waker_is_dropped_last(|| Twin::new(Fault::DropsBeforePush));
}

#[test]
#[should_panic(expected = "item 0 was lost")]
fn an_owner_that_waits_without_a_second_look_is_found() {
    an_owner_falls_asleep(|| Twin::new(Fault::WaitsWithoutLook));
}

#[test]
#[should_panic(expected = "lost wake")]
fn waits_that_are_not_told_apart_are_found() {
    an_owner_falls_asleep(|| Twin::new(Fault::CountsNoWaits));
}

#[test]
#[should_panic(expected = "data race on the inbox")]
fn a_pusher_that_takes_the_waker_after_the_push_is_found() {
    the_owner_frees_it(|| Twin::new(Fault::TakesAfterPush));
}

#[test]
#[should_panic(expected = "data race on an item's link")]
fn a_push_that_does_not_release_is_found() {
    an_owner_falls_asleep(|| Twin::new(Fault::PushesRelaxed));
}
