//! The tasks that the monitor takes from a stuck worker, step `Rescue` of `scheduler/away/monitor/mod.rs`.
//! Each task is taken once, by a thread that sees what its pusher wrote, also if the owner is not stuck after
//! all and another thief comes.
//!
//! The queues are real. The way in which the monitor takes tasks is a copy of a few lines. The twins have a
//! bug in those, or a ring of `ring/twin.rs`, whose indices wrap on the way. (For the slot, see `lifo.rs`.)
//!
//! Bounds: an owner with three tasks, which pushes a fourth; a thief; the monitor.

use std::sync::Arc;

use runtime::internals::queue::{Injector, IntrusiveList, Local};

use super::item::{Item, Items};
use super::once_built::{model, thread};
use super::ring::twin::{Fault, Twin};
use super::ring::{Ring, START};

/// A bug in the way in which the monitor takes tasks from the ring.
#[derive(Clone, Copy, PartialEq)]
enum Slip {
    None,
    /// The tasks that the monitor stole behind the first one stay in its own ring.
    KeepsTheRest,
    /// The monitor steals into the ring of a thief.
    BorrowsHands,
}

struct World<R> {
    items: Items,
    ring: R,
    thief: R,
    /// The monitor's own ring, through which stolen tasks pass.
    hands: R,
    injector: Injector<Item>,
    slip: Slip,
}

impl<R: Ring> World<R> {
    fn new(make: &impl Fn() -> R, slip: Slip, items: usize) -> Arc<Self> {
        Arc::new(Self {
            items: Items::new(items),
            ring: make(),
            thief: make(),
            hands: make(),
            injector: Injector::new(),
            slip,
        })
    }

    /// The owner pushes.
    fn push(&self, value: usize) {
        // SAFETY: one thread is the owner; each value is pushed once, and items live as long as `self`.
        unsafe { self.ring.push(self.items.make(value), &self.injector) };
    }

    /// Takes the owner's next task: from its ring, then from the injector.
    fn next(&self) -> Option<usize> {
        // SAFETY: one thread is the owner.
        let item = unsafe { self.ring.pop() }.or_else(|| self.injector.pop());
        item.map(|item| self.items.take(item))
    }

    /// A searcher steals once, and takes the tasks that it got.
    fn search(&self) -> Vec<usize> {
        // SAFETY: one thread is the owner of the thief's ring.
        let first = unsafe { self.ring.steal_into(&self.thief) };
        // SAFETY: as above.
        let others = std::iter::from_fn(|| unsafe { self.thief.pop() });
        first.into_iter().chain(others).map(|item| self.items.take(item)).collect()
    }

    /// The monitor empties the ring into the injector.
    fn empty(&self) {
        let mut batch = IntrusiveList::new();
        let hands = if self.slip == Slip::BorrowsHands { &self.thief } else { &self.hands };
        // SAFETY: one thread is the monitor; the tasks that it stole are in no queue.
        unsafe {
            while let Some(item) = self.ring.steal_into(hands) {
                batch.push_back(item);
                while self.slip != Slip::KeepsTheRest
                    && let Some(item) = hands.pop()
                {
                    batch.push_back(item);
                }
            }
        }
        if !batch.is_empty() {
            self.injector.push_batch(batch);
        }
    }
}

fn a_ring_is_emptied<R: Ring>(make: impl Fn() -> R + Send + Sync + 'static, slip: Slip) {
    model(move || {
        let world = World::new(&make, slip, 4);
        (0..3).for_each(|value| world.push(value));
        let monitor = {
            let world = world.clone();
            thread::spawn(move || world.empty())
        };
        let thief = {
            let world = world.clone();
            thread::spawn(move || world.search())
        };
        let mut taken: Vec<_> = world.next().into_iter().collect();
        world.push(3);
        taken.extend(world.next());
        monitor.join().unwrap();
        taken.extend(thief.join().unwrap());
        taken.extend(std::iter::from_fn(|| world.next()));
        world.items.assert_all(taken);
    });
}

#[test]
fn a_ring_is_emptied_beside_its_owner_and_a_thief() {
    a_ring_is_emptied(Local::new, Slip::None);
}

#[test]
fn a_twin_without_a_fault_passes() {
    a_ring_is_emptied(|| Twin::new(START, None), Slip::None);
}

#[test]
#[should_panic(expected = "item 2 was lost")]
fn a_monitor_that_keeps_the_rest() {
    a_ring_is_emptied(Local::new, Slip::KeepsTheRest);
}

#[test]
#[should_panic(expected = "a taken slot was written")]
fn a_monitor_that_borrows_its_hands() {
    a_ring_is_emptied(|| Twin::new(START, None), Slip::BorrowsHands);
}

/// A twin for each fault.
macro_rules! refused {
    ($($name:ident: $fault:ident, $text:literal;)*) => {$(
        #[test]
        #[should_panic(expected = $text)]
        fn $name() {
            a_ring_is_emptied(|| Twin::new(START, Some(Fault::$fault)), Slip::None);
        }
    )*};
}

refused! {
    a_ring_that_thieves_leave_by_a_store: StoresHead, "item 0 was taken twice, or before it was pushed";
    a_ring_that_a_second_thief_enters: EntersBehindAnother, "data race on a slot of the ring";
    a_ring_that_a_thief_leaves_relaxed: LeavesRelaxed, "data race on a slot of the ring";
    a_ring_whose_tail_is_loaded_relaxed: LoadsTailRelaxed, "data race on a slot of the ring";
}
