//! The injector. Each item is taken exactly once, by a thread that sees what its pusher wrote. Its length,
//! read without the lock, hides no item from a thread that may rely on it.
//!
//! Bounds: two producers, one consumer beside them, up to four items, a ring of four slots.

use std::ptr::NonNull;
use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::Ordering::{Relaxed, SeqCst};
use loom::sync::atomic::{AtomicUsize, fence};
use runtime::internals::queue::{Injector, IntrusiveList, Local};

use super::item::{Item, Items};
use super::once_built::{model, thread};

/// The interface of the real injector and its twins.
trait Queue: Send + Sync + 'static {
    fn push(&self, batch: IntrusiveList<Item>);

    /// # Safety
    /// 1. The caller is the owner of `local`.
    unsafe fn pop_into(&self, local: &Local<Item>) -> Option<NonNull<Item>>;

    fn is_empty(&self) -> bool;
}

impl Queue for Injector<Item> {
    fn push(&self, batch: IntrusiveList<Item>) {
        self.push_batch(batch);
    }

    unsafe fn pop_into(&self, local: &Local<Item>) -> Option<NonNull<Item>> {
        // SAFETY: the caller guarantees the same.
        unsafe { self.pop_batch_into(local).map(|(first, _)| first) }
    }

    fn is_empty(&self) -> bool {
        Injector::is_empty(self)
    }
}

/// The bug that was put back.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    StoresLenAfterUnlock,
    StoresLenBeforeLock,
}

/// A small copy of the injector, with at most one bug in it.
struct Twin {
    chain: Mutex<IntrusiveList<Item>>,
    len: AtomicUsize,
    fault: Option<Fault>,
}

impl Twin {
    fn new(fault: Option<Fault>) -> Self {
        Self { chain: Mutex::new(IntrusiveList::new()), len: AtomicUsize::new(0), fault }
    }

    /// Works on the chain and stores its length, before the unlock unless the twin has that fault.
    fn with_chain<R>(&self, work: impl FnOnce(&mut IntrusiveList<Item>) -> R) -> R {
        let mut chain = self.chain.lock().unwrap();
        let result = work(&mut chain);
        let len = chain.len();
        if self.fault == Some(Fault::StoresLenAfterUnlock) {
            drop(chain);
            self.len.store(len, Relaxed);
        } else {
            self.len.store(len, Relaxed);
        }
        result
    }
}

impl Queue for Twin {
    fn push(&self, batch: IntrusiveList<Item>) {
        if self.fault == Some(Fault::StoresLenBeforeLock) {
            self.len.store(self.len.load(Relaxed) + batch.len(), Relaxed);
            return self.chain.lock().unwrap().append(batch);
        }
        self.with_chain(|chain| chain.append(batch));
    }

    unsafe fn pop_into(&self, local: &Local<Item>) -> Option<NonNull<Item>> {
        if self.is_empty() {
            return None;
        }
        self.with_chain(|chain| {
            let first = chain.pop_front();
            // SAFETY: the caller owns `local`; the items have just left their queue.
            unsafe { local.push_batch(std::iter::from_fn(|| chain.pop_front())) };
            first
        })
    }

    fn is_empty(&self) -> bool {
        self.len.load(Relaxed) == 0
    }
}

struct World<Q> {
    queue: Q,
    items: Items,
}

impl<Q: Queue> World<Q> {
    fn new(queue: Q, items: usize) -> Arc<Self> {
        Arc::new(Self { queue, items: Items::new(items) })
    }

    fn push(&self, values: std::ops::Range<usize>) {
        let mut batch = IntrusiveList::new();
        for value in values {
            // SAFETY: each value is pushed once, and items live as long as `self`.
            unsafe { batch.push_back(self.items.make(value)) };
        }
        self.queue.push(batch);
    }

    /// Takes batches until the injector looks empty.
    fn drain(&self) -> Vec<usize> {
        let local = Local::new();
        let mut taken = Vec::new();
        // SAFETY: this thread made `local`, and shows it to no other thread.
        while let Some(first) = unsafe { self.queue.pop_into(&local) } {
            taken.push(self.items.take(first));
            // SAFETY: as above.
            taken.extend(std::iter::from_fn(|| unsafe { local.pop() }).map(|item| self.items.take(item)));
        }
        taken
    }
}

/// Two producers push, one of them a batch, while a consumer drains. Afterwards a last drain finds the other
/// items. The last drain comes after every push, so it relies on the length alone to know whether items are
/// left. (No push may follow the producers' pushes here, because it would set a wrong length right.)
fn two_producers_and_a_consumer<Q: Queue>(make: impl Fn() -> Q + Send + Sync + 'static) {
    model(move || {
        let world = World::new(make(), 4);
        world.push(0..1);
        let producers = [1..2, 2..4].map(|values| {
            let world = world.clone();
            thread::spawn(move || world.push(values))
        });
        let mut taken = world.drain();
        for producer in producers {
            producer.join().unwrap();
        }
        taken.extend(world.drain());
        world.items.assert_all(taken);
        assert!(world.queue.is_empty());
    });
}

/// A thread outside pushes while the last worker goes to sleep. Either the worker sees the item, or the
/// thread sees the sleeper. Another worker may take the item first; then that worker has it.
fn a_push_against_a_sleeper<Q: Queue>(
    make: impl Fn() -> Q + Send + Sync + 'static,
    pusher_fences: bool,
    sleeper_fences: bool,
) {
    model(move || {
        let world = World::new(make(), 1);
        let sleepers = Arc::new(AtomicUsize::new(0));
        let pusher = {
            let (world, sleepers) = (world.clone(), sleepers.clone());
            thread::spawn(move || {
                world.push(0..1);
                if pusher_fences {
                    fence(SeqCst); // InjectFence
                }
                sleepers.load(Relaxed) > 0 // InjectWake
            })
        };
        let other = {
            let world = world.clone();
            thread::spawn(move || world.drain())
        };
        sleepers.fetch_add(1, Relaxed); // InjectAnnounce
        if sleeper_fences {
            fence(SeqCst); // InjectSleepFence
        }
        let stays_awake = !world.queue.is_empty(); // InjectSleepRead
        let is_woken = pusher.join().unwrap();
        let is_taken = !other.join().unwrap().is_empty();
        assert!(stays_awake || is_woken || is_taken, "the item is stranded");
    });
}

#[test]
fn two_producers_lose_nothing_to_a_consumer() {
    two_producers_and_a_consumer(Injector::new);
}

#[test]
fn a_push_from_outside_is_seen_or_sees_the_sleeper() {
    a_push_against_a_sleeper(Injector::new, true, true);
}

#[test]
fn a_twin_without_a_fault_passes() {
    two_producers_and_a_consumer(|| Twin::new(None));
    a_push_against_a_sleeper(|| Twin::new(None), true, true);
}

#[test]
#[should_panic(expected = "item 1 was lost")]
fn a_length_stored_after_the_unlock() {
    two_producers_and_a_consumer(|| Twin::new(Some(Fault::StoresLenAfterUnlock)));
}

#[test]
#[should_panic(expected = "item 1 was lost")]
fn a_length_stored_before_the_lock() {
    two_producers_and_a_consumer(|| Twin::new(Some(Fault::StoresLenBeforeLock)));
}

#[test]
#[should_panic(expected = "the item is stranded")]
fn a_push_without_a_fence() {
    a_push_against_a_sleeper(Injector::new, false, true);
}

#[test]
#[should_panic(expected = "the item is stranded")]
fn a_sleeper_without_a_fence() {
    a_push_against_a_sleeper(Injector::new, true, false);
}
