//! The run queue: each item is taken exactly once, by a thread that sees what its pusher wrote, and none is
//! lost.
//!
//! Bounds: rings of four slots whose indices wrap on the way, an owner, two thieves, and up to eight items.

pub mod twin;

use std::ptr::NonNull;
use std::sync::Arc;

use runtime::internals::queue::{Injector, Local};

use super::item::{Item, Items};
use super::once_built::{model, thread};
use twin::{Fault, Twin};

/// The interface of the real ring and its twins.
pub trait Ring: Send + Sync + 'static {
    /// # Safety
    /// 1. The caller is the owner. 2. `item` is live until popped, and in no queue.
    unsafe fn push(&self, item: NonNull<Item>, injector: &Injector<Item>);

    /// # Safety
    /// 1. The caller is the owner.
    unsafe fn pop(&self) -> Option<NonNull<Item>>;

    /// # Safety
    /// 1. The caller is the owner of `into`, which is another ring.
    unsafe fn steal_into(&self, into: &Self) -> Option<NonNull<Item>>;
}

impl Ring for Local<Item> {
    unsafe fn push(&self, item: NonNull<Item>, injector: &Injector<Item>) {
        // SAFETY: the caller guarantees the same.
        unsafe {
            self.push_back(item, injector);
            self.validate();
        }
    }

    unsafe fn pop(&self) -> Option<NonNull<Item>> {
        // SAFETY: the caller guarantees the same.
        unsafe { Local::pop(self) }
    }

    unsafe fn steal_into(&self, into: &Self) -> Option<NonNull<Item>> {
        // SAFETY: the caller guarantees the same.
        unsafe { Local::steal_into(self, into).map(|(first, _)| first) }
    }
}

/// The first index. The fourth item wraps the tail, and lies in the first slot of a ring of four.
pub const START: u64 = u32::MAX as u64 - 2;

/// The rings of a model, all alike. One thread owns each ring until that thread has been joined.
struct World<R> {
    rings: Vec<R>,
    injector: Injector<Item>,
    items: Items,
}

impl<R: Ring> World<R> {
    fn new(make: &impl Fn(u64) -> R, rings: usize, items: usize) -> Arc<Self> {
        Arc::new(Self {
            rings: (0..rings).map(|_| make(START)).collect(),
            injector: Injector::new(),
            items: Items::new(items),
        })
    }

    /// Pushes `value` into the ring of thread `own`.
    fn push(&self, own: usize, value: usize) {
        // SAFETY: one thread at a time calls this with `own`; each value is pushed once, and items live as
        // long as `self`.
        unsafe { self.rings[own].push(self.items.make(value), &self.injector) }
    }

    /// Pops from the ring of thread `own`.
    fn pop(&self, own: usize) -> Option<usize> {
        // SAFETY: as in `push`.
        unsafe { self.rings[own].pop() }.map(|item| self.items.take(item))
    }

    /// Steals once from ring `victim` into the ring of thread `own`, and runs what it got.
    fn steal(&self, own: usize, victim: usize) -> Vec<usize> {
        // SAFETY: as in `push`, and no worker steals from itself.
        let first = unsafe { self.rings[victim].steal_into(&self.rings[own]) };
        let mut taken: Vec<_> = first.into_iter().map(|item| self.items.take(item)).collect();
        taken.extend(std::iter::from_fn(|| self.pop(own)));
        taken
    }

    /// Pops all items that are left, after every other thread has ended.
    fn drain(&self) -> Vec<usize> {
        let ringed = (0..self.rings.len()).flat_map(|own| std::iter::from_fn(move || self.pop(own)));
        let injected = std::iter::from_fn(|| self.injector.pop()).map(|item| self.items.take(item));
        ringed.chain(injected).collect()
    }
}

/// The owner pushes, pops and overflows while two thieves each steal once.
fn owner_against_two_thieves<R: Ring>(make: impl Fn(u64) -> R + Send + Sync + 'static) {
    model(move || {
        let world = World::new(&make, 3, 6);
        world.push(0, 0);
        world.push(0, 1);
        let thieves = [1, 2].map(|own| {
            let world = world.clone();
            thread::spawn(move || world.steal(own, 0))
        });
        for value in 2..5 {
            world.push(0, value);
        }
        let mut taken: Vec<_> = world.pop(0).into_iter().collect();
        world.push(0, 5);
        taken.extend(world.pop(0));
        for thief in thieves {
            taken.extend(thief.join().unwrap());
        }
        taken.extend(world.drain());
        world.items.assert_all(taken);
    });
}

/// The ring is full when a thief comes and the owner pushes on. So it overflows before the thief is inside,
/// meanwhile, or afterwards.
fn overflow_against_a_thief<R: Ring>(make: impl Fn(u64) -> R + Send + Sync + 'static) {
    model(move || {
        let world = World::new(&make, 2, 7);
        for value in 0..4 {
            world.push(0, value);
        }
        let thief = {
            let world = world.clone();
            thread::spawn(move || [world.steal(1, 0), world.steal(1, 0)].concat())
        };
        world.push(0, 4);
        let mut taken: Vec<_> = world.pop(0).into_iter().collect();
        world.push(0, 5);
        world.push(0, 6);
        taken.extend(thief.join().unwrap());
        taken.extend(world.drain());
        world.items.assert_all(taken);
    });
}

/// A thief steals from another thief, while the other thief steals from the owner.
fn a_thief_robs_a_thief<R: Ring>(make: impl Fn(u64) -> R + Send + Sync + 'static) {
    model(move || {
        let world = World::new(&make, 3, 5);
        for value in 0..4 {
            world.push(0, value);
        }
        let thieves = [(1, 0), (2, 1)].map(|(own, victim)| {
            let world = world.clone();
            thread::spawn(move || world.steal(own, victim))
        });
        let mut taken: Vec<_> = world.pop(0).into_iter().collect();
        world.push(0, 4);
        for thief in thieves {
            taken.extend(thief.join().unwrap());
        }
        taken.extend(world.drain());
        world.items.assert_all(taken);
    });
}

/// The owner refills its ring by stealing, into slots that a thief may still be copying.
fn a_refill_against_a_thief<R: Ring>(make: impl Fn(u64) -> R + Send + Sync + 'static) {
    model(move || {
        let world = World::new(&make, 3, 8);
        for value in 0..8 {
            world.push(value / 4, value);
        }
        let thief = {
            let world = world.clone();
            thread::spawn(move || world.steal(2, 0))
        };
        // This thread owns both other rings.
        let mut taken: Vec<_> = std::iter::from_fn(|| world.pop(0)).collect();
        taken.extend(world.steal(0, 1));
        taken.extend(thief.join().unwrap());
        taken.extend(world.drain());
        world.items.assert_all(taken);
    });
}

#[test]
fn an_owner_and_two_thieves_take_each_item_once() {
    owner_against_two_thieves(Local::<Item>::starting_at);
}

#[test]
fn an_overflow_loses_nothing_to_a_thief() {
    overflow_against_a_thief(Local::<Item>::starting_at);
}

#[test]
fn what_a_thief_stole_can_be_stolen() {
    a_thief_robs_a_thief(Local::<Item>::starting_at);
}

#[test]
fn a_refill_spares_the_slots_that_a_thief_copies() {
    a_refill_against_a_thief(Local::<Item>::starting_at);
}

#[test]
fn a_twin_without_a_fault_passes() {
    owner_against_two_thieves(|start| Twin::new(start, None));
    overflow_against_a_thief(|start| Twin::new(start, None));
    a_thief_robs_a_thief(|start| Twin::new(start, None));
    a_refill_against_a_thief(|start| Twin::new(start, None));
}

/// A twin for each fault, and the model that must refuse it.
macro_rules! refused {
    ($($name:ident: $model:ident($fault:ident), $text:literal;)*) => {$(
        #[test]
        #[should_panic(expected = $text)]
        fn $name() {
            $model(|start| Twin::new(start, Some(Fault::$fault)));
        }
    )*};
}

refused! {
    a_thief_that_leaves_before_it_copied: owner_against_two_thieves(LeavesBeforeCopying),
        "data race on a slot of the ring";
    a_thief_that_leaves_without_release: owner_against_two_thieves(LeavesRelaxed), "data race on an item";
    a_thief_that_stores_the_head: owner_against_two_thieves(StoresHead), "data race on an item";
    a_thief_that_enters_behind_another: owner_against_two_thieves(EntersBehindAnother),
        "item 1 was taken twice, or before it was pushed";
    a_thief_that_loads_the_tail_relaxed: owner_against_two_thieves(LoadsTailRelaxed),
        "data race on a slot of the ring";
    a_thief_that_loads_the_head_relaxed: owner_against_two_thieves(LoadsHeadRelaxed),
        "data race on a slot of the ring";
    an_owner_that_measures_room_from_real: overflow_against_a_thief(MeasuresRoomFromReal),
        "data race on a slot of the ring";
    an_owner_that_pops_without_release: owner_against_two_thieves(PopsRelaxed),
        "data race on a slot of the ring";
    an_owner_that_overflows_past_a_thief: overflow_against_a_thief(OverflowsPastThief),
        "data race on an item";
    an_owner_that_overflows_without_release: owner_against_two_thieves(OverflowsRelaxed),
        "data race on a slot of the ring";
    an_owner_that_refills_without_acquire: a_refill_against_a_thief(RefillsRelaxed),
        "data race on a slot of the ring";
    an_owner_that_measures_room_to_refill_from_real: a_refill_against_a_thief(MeasuresRoomFromReal),
        "data race on a slot of the ring";
    a_thief_whose_loot_is_stolen_unpublished: a_thief_robs_a_thief(RefillStoresTailRelaxed),
        "data race on a slot of the ring";
}
