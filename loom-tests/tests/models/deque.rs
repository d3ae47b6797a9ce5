//! The deque of jobs. Each item is claimed exactly once, by a thread that sees what its pusher wrote, and
//! none is lost. An item that was pushed to be taken back is never taken for another. An item that was only
//! begun is finished before other threads see it. A slot is written again only after the thread that claimed
//! its item has read it.
//!
//! Bounds: four slots, an owner, one or two thieves, and up to six items. Loom lets no load take effect after
//! a later store, so the slot itself cannot show that it was read too late. Instead the models of that case
//! lay a cell beside the slot. A thief reads the cell between `ThiefReads` and `ThiefSwings`, and the owner
//! writes it with the slot.
//!
//! Each model is explored from two ends, thieves first and owner first. The reason is that loom remembers
//! only the last access to an atomic. So a thief's load hides from the thief's `ThiefSwings` that the owner
//! has loaded the word before that load.

mod twin;

use std::ptr::NonNull;
use std::sync::Arc;

use runtime::internals::DEQUE_CAPACITY;
use runtime::internals::queue::{Deque, Taken};

use super::item::{Item, Items};
use super::once_built::{model, thread};
use super::plain::Plain;
use twin::{Fault, Twin};

/// The interface of the real deque and its twins. All but `steal` is for the owner.
trait Jobs: Send + Sync + 'static {
    unsafe fn push_join_item(&self, item: *mut Item) -> Option<u32>;
    /// Pushes an item that is only begun.
    unsafe fn begin_join_item(&self, item: *mut Item) -> u32;
    /// Finishes the items that are begun, and publishes `n`.
    unsafe fn finish_and_publish(&self, n: u32, finish: &dyn Fn(*mut Item)) -> u32;
    unsafe fn push(&self, item: *mut Item) -> bool;
    unsafe fn publish(&self, n: u32) -> u32;
    /// Marks a private item.
    unsafe fn note(&self, index: u32);
    /// False if it was stolen.
    unsafe fn take_back(&self, index: u32) -> bool;
    unsafe fn pop(&self, floor: u32) -> Option<*mut Item>;
    fn steal(&self, is_wanted: &dyn Fn(*mut Item) -> bool) -> Option<*mut Item>;
    /// Steals `most` items at most.
    fn steal_several(&self, most: u32) -> Vec<*mut Item>;
}

impl Jobs for Deque<Item> {
    unsafe fn push_join_item(&self, item: *mut Item) -> Option<u32> {
        // SAFETY: the caller guarantees the same.
        unsafe {
            let index = self.head();
            self.push_join_item(item).then_some(index)
        }
    }

    unsafe fn begin_join_item(&self, item: *mut Item) -> u32 {
        // SAFETY: the caller guarantees the same.
        unsafe { self.begin_join_item(item) }
    }

    unsafe fn finish_and_publish(&self, n: u32, finish: &dyn Fn(*mut Item)) -> u32 {
        // SAFETY: the caller guarantees the same.
        unsafe {
            self.finish(|item| {
                finish(item);
                item
            });
            self.publish(n)
        }
    }

    unsafe fn push(&self, item: *mut Item) -> bool {
        // SAFETY: the caller guarantees the same; the limit is the capacity.
        unsafe { self.push(item, DEQUE_CAPACITY as u32) }
    }

    unsafe fn publish(&self, n: u32) -> u32 {
        // SAFETY: the caller guarantees the same.
        unsafe { self.publish(n) }
    }

    unsafe fn note(&self, index: u32) {
        // SAFETY: the caller guarantees the same.
        unsafe { self.note(index) };
    }

    unsafe fn take_back(&self, index: u32) -> bool {
        // SAFETY: the caller guarantees the same.
        unsafe { self.take_back(index) == Taken::Back }
    }

    unsafe fn pop(&self, floor: u32) -> Option<*mut Item> {
        // SAFETY: the caller guarantees the same.
        unsafe {
            let item = self.pop(floor);
            self.validate();
            item
        }
    }

    fn steal(&self, is_wanted: &dyn Fn(*mut Item) -> bool) -> Option<*mut Item> {
        self.steal(is_wanted)
    }

    fn steal_several(&self, most: u32) -> Vec<*mut Item> {
        let mut items = Vec::new();
        let first = self.steal_several(most, |_| true, |item| items.push(item));
        items.extend(first);
        items
    }
}

/// A deque, whose owner is the model's first thread, and its items.
struct World<D> {
    deque: D,
    items: Items,
    /// Whether the thieves come first in the first schedule.
    is_thieves_turn: bool,
    /// The cells beside the slots; see above.
    beside: [Plain<()>; DEQUE_CAPACITY],
}

// SAFETY: the models find out whether the accesses of different threads are ordered.
unsafe impl<D: Sync> Sync for World<D> {}

impl<D: Jobs> World<D> {
    /// Explores `f` in a world of `items` items.
    fn explore(
        make: impl Fn() -> D + Send + Sync + Copy + 'static,
        items: usize,
        f: fn(&Arc<Self>) -> Vec<usize>,
    ) {
        for is_thieves_turn in [false, true] {
            model(move || {
                let beside = std::array::from_fn(|_| Plain::new("a slot of the deque", ()));
                let world =
                    Arc::new(Self { deque: make(), items: Items::new(items), is_thieves_turn, beside });
                let taken = f(&world);
                world.items.assert_all(taken);
            });
        }
    }

    /// Pushes `value`, to be taken back. Returns its index.
    fn push_join_item(&self, value: usize) -> u32 {
        // SAFETY: the model's first thread calls this; items live as long as `self`.
        unsafe { self.deque.push_join_item(self.items.make(value).as_ptr()) }.expect("there is room")
    }

    /// Pushes `value`, of which nothing is written yet. Returns its index.
    fn begin_join_item(&self, value: usize) -> u32 {
        // SAFETY: as above; no model begins more items than fit.
        unsafe { self.deque.begin_join_item(self.items.at(value).as_ptr()) }
    }

    fn finish_and_publish(&self, n: u32) -> u32 {
        let is_item = |value: &usize, item| self.items.at(*value).as_ptr() == item;
        let finish = |item| {
            let value = (0..self.items.count()).find(|value| is_item(value, item));
            self.items.make(value.expect("it is one of the items"));
        };
        // SAFETY: as above.
        unsafe { self.deque.finish_and_publish(n, &finish) }
    }

    /// Pushes and publishes `value`. Returns false if it does not fit.
    fn push(&self, value: usize) -> bool {
        // SAFETY: as above.
        let is_pushed = unsafe { self.deque.push(self.items.make(value).as_ptr()) };
        self.publish(u32::MAX);
        is_pushed
    }

    fn publish(&self, n: u32) -> u32 {
        // SAFETY: as above.
        unsafe { self.deque.publish(n) }
    }

    /// Notes the item at `index`.
    fn note(&self, index: u32) {
        // SAFETY: as above; each model notes before it publishes.
        unsafe { self.deque.note(index) };
    }

    /// Takes back `value`, which was pushed at `index`, unless it was stolen.
    fn take_back(&self, index: u32, value: usize) -> Option<usize> {
        // SAFETY: as above; each model takes back in the right order.
        let is_back = unsafe { self.deque.take_back(index) };
        is_back.then(|| self.run(self.items.at(value).as_ptr()))
    }

    fn pop(&self, floor: u32) -> Option<usize> {
        // SAFETY: as above; the models know what is a join item.
        unsafe { self.deque.pop(floor) }.map(|item| self.run(item))
    }

    /// Pops all items from `floor` on.
    fn pop_all(&self, floor: u32) -> Vec<usize> {
        std::iter::from_fn(|| self.pop(floor)).collect()
    }

    /// Steals an item. For any thread.
    fn steal(&self) -> Option<usize> {
        self.deque.steal(&|_| true).map(|item| self.run(item))
    }

    /// Steals the item of slot `index`, if it steals one. It is for the only thief of a deque whose owner
    /// does not overwrite an item that it has taken back.
    fn steal_slowly(&self, index: usize) -> Option<usize> {
        let reads = |_| {
            self.beside[index].with(|_| ());
            true
        };
        self.deque.steal(&reads).map(|item| self.run(item))
    }

    /// The owner has written slot `index` again. The item in it was stolen before.
    fn has_reused(&self, index: usize) {
        self.beside[index].with_mut(|_| ());
    }

    fn run(&self, item: *mut Item) -> usize {
        self.items.take(NonNull::new(item).expect("a slot was written"))
    }

    /// Starts `N` threads that each do `f`.
    fn thieves<const N: usize>(
        self: &Arc<Self>,
        f: impl Fn(&Self) -> Vec<usize> + Copy + 'static,
    ) -> [thread::JoinHandle<Vec<usize>>; N] {
        let thieves = std::array::from_fn(|_| {
            let world = self.clone();
            thread::spawn(move || f(&world))
        });
        if self.is_thieves_turn {
            thread::yield_now();
        }
        thieves
    }
}

fn join<const N: usize>(thieves: [thread::JoinHandle<Vec<usize>>; N]) -> impl Iterator<Item = usize> {
    thieves.into_iter().flat_map(|thief| thief.join().unwrap())
}

fn steal_once<D: Jobs>(world: &World<D>) -> Vec<usize> {
    world.steal().into_iter().collect()
}

fn steal_twice<D: Jobs>(world: &World<D>) -> Vec<usize> {
    [world.steal(), world.steal()].into_iter().flatten().collect()
}

/// Two forks, one inside the other, and a third fork after them in a place that becomes free. `N` thieves.
fn forks_against_thieves<D: Jobs, const N: usize>(make: impl Fn() -> D + Send + Sync + Copy + 'static) {
    World::explore(make, 3, |world| {
        let outer = world.push_join_item(0);
        world.publish(1);
        let thieves = world.thieves::<N>(steal_once);
        let inner = world.push_join_item(1);
        world.note(inner);
        world.publish(1);
        let mut taken: Vec<_> = world.take_back(inner, 1).into_iter().collect();
        taken.extend(world.take_back(outer, 0));
        let next = world.push_join_item(2);
        world.publish(1);
        taken.extend(world.take_back(next, 2));
        taken.extend(join(thieves));
        taken
    });
}

/// Forks that are begun, and written when they are published: together with the fork below, or in a place
/// where a fork was finished before.
fn forks_that_are_begun<D: Jobs, const N: usize>(make: impl Fn() -> D + Send + Sync + Copy + 'static) {
    World::explore(make, 3, |world| {
        let outer = world.begin_join_item(0);
        let thieves = world.thieves::<N>(steal_twice);
        let inner = world.begin_join_item(1);
        world.finish_and_publish(1);
        let mut taken: Vec<_> = world.take_back(inner, 1).into_iter().collect();
        let next = world.begin_join_item(2);
        world.finish_and_publish(2);
        taken.extend(world.take_back(next, 2));
        taken.extend(world.take_back(outer, 0));
        taken.extend(join(thieves));
        taken
    });
}

/// A thief falls asleep between `ThiefReads` and `ThiefSwings`. Meanwhile the owner takes the item back and
/// publishes others in its place.
fn a_thief_asleep<D: Jobs>(make: impl Fn() -> D + Send + Sync + Copy + 'static) {
    World::explore(make, 3, |world| {
        let mut taken = Vec::new();
        world.push_join_item(0);
        world.publish(1);
        let thieves = world.thieves::<1>(steal_twice);
        for value in 0..3 {
            taken.extend(world.take_back(0, value));
            if value < 2 {
                world.push_join_item(value + 1);
                world.note(0);
                world.publish(1);
            }
        }
        taken.extend(join(thieves));
        taken
    });
}

/// A scope inside a fork: scope items above a join item. They are stolen and run, and the fork keeps the
/// places below.
fn scope_items_above_a_fork<D: Jobs, const N: usize>(make: impl Fn() -> D + Send + Sync + Copy + 'static) {
    World::explore(make, 4, |world| {
        let fork = world.push_join_item(0);
        world.publish(1);
        let thieves = world.thieves::<N>(steal_twice);
        assert!(world.push(1) && world.push(2));
        let mut taken = world.pop_all(fork + 1);
        assert!(world.push(3));
        taken.extend(world.pop_all(fork + 1));
        taken.extend(world.take_back(fork, 0));
        taken.extend(join(thieves));
        taken
    });
}

/// A full deque, with a join item at the bottom; the owner is among its thieves. An item that is pushed
/// then fits once all have been stolen.
fn a_full_deque<D: Jobs, const N: usize>(make: impl Fn() -> D + Send + Sync + Copy + 'static) {
    World::explore(make, 6, |world| {
        let fork = world.push_join_item(0);
        assert!((1..4).all(|value| world.push(value)));
        let mut taken = steal_twice(world);
        let thieves = world.thieves::<N>(if N == 1 { steal_twice } else { steal_once });
        for value in 4..6 {
            if !world.push(value) {
                // The item goes elsewhere.
                taken.push(world.run(world.items.at(value).as_ptr()));
            }
        }
        taken.extend(world.pop_all(fork + 1));
        taken.extend(world.take_back(fork, 0));
        taken.extend(join(thieves));
        taken
    });
}

/// A slow thief takes the last item of a full deque. Its slot is written again only after the thief has read
/// it.
fn room_after_a_slow_thief<D: Jobs>(make: impl Fn() -> D + Send + Sync + Copy + 'static) {
    World::explore(make, 5, |world| {
        let forks = [0, 1, 2].map(|value| world.push_join_item(value));
        assert!(world.push(3));
        let mut taken = [steal_twice(world), steal_once(world)].concat();
        let thieves = world.thieves::<1>(|world| world.steal_slowly(3).into_iter().collect());
        if world.push(4) {
            world.has_reused(3);
        } else {
            taken.push(world.run(world.items.at(4).as_ptr()));
        }
        taken.extend(join(thieves));
        taken.extend(world.pop_all(3));
        assert!(forks.into_iter().rev().all(|fork| world.take_back(fork, fork as usize).is_none()));
        taken
    });
}

/// A slow thief steals a fork. Its slot is written again only after the thief has read it.
fn a_fork_after_a_slow_thief<D: Jobs>(make: impl Fn() -> D + Send + Sync + Copy + 'static) {
    World::explore(make, 2, |world| {
        let fork = world.push_join_item(0);
        world.publish(1);
        let thieves = world.thieves::<1>(|world| world.steal_slowly(0).into_iter().collect());
        let mut taken: Vec<_> = world.take_back(fork, 0).into_iter().collect();
        let is_stolen = taken.is_empty();
        let next = world.push_join_item(1);
        if is_stolen {
            world.has_reused(0);
        }
        taken.extend(world.take_back(next, 1));
        taken.extend(join(thieves));
        taken
    });
}

/// A thief takes two items at once of those that the owner has left, and then perhaps two more; if `N` is
/// two, beside another thief.
fn several_at_once<D: Jobs, const N: usize>(make: impl Fn() -> D + Send + Sync + Copy + 'static) {
    World::explore(make, 6, |world| {
        assert!((0..4).all(|value| world.push(value)));
        let thieves = world.thieves::<N>(|world| {
            let items = world.deque.steal_several(2);
            items.into_iter().map(|item| world.run(item)).collect()
        });
        let mut taken = world.pop_all(2);
        assert!(world.push(4));
        taken.extend(world.pop_all(0));
        assert!(world.push(5));
        taken.extend(world.pop_all(0));
        taken.extend(join(thieves));
        taken
    });
}

/// A thief that may run only one item gets no other, and the places around that item stay in order.
fn a_choosy_thief<D: Jobs>(make: impl Fn() -> D + Send + Sync + Copy + 'static) {
    World::explore(make, 3, |world| {
        let fork = world.push_join_item(0);
        world.publish(1);
        let thieves = world.thieves::<1>(|world| {
            let wanted = world.items.at(1).as_ptr();
            let stolen = world.deque.steal(&|item| item == wanted).map(|item| world.run(item));
            assert!(stolen.is_none_or(|stolen| stolen == 1), "a thief got an item that it did not look at");
            stolen.into_iter().collect()
        });
        let mut taken: Vec<_> = world.take_back(fork, 0).into_iter().collect();
        assert_eq!(taken, [0]);
        assert!(world.push(1));
        taken.extend(world.pop_all(0));
        assert!(world.push(2));
        taken.extend(world.pop_all(0));
        taken.extend(join(thieves));
        taken
    });
}

#[test]
fn an_owner_and_a_thief_take_each_fork_once() {
    forks_against_thieves::<_, 1>(Deque::<Item>::new);
}

#[test]
fn an_owner_and_two_thieves_take_each_fork_once() {
    forks_against_thieves::<_, 2>(Deque::<Item>::new);
}

#[test]
fn an_owner_and_a_thief_take_each_fork_finished() {
    forks_that_are_begun::<_, 1>(Deque::<Item>::new);
}

#[test]
fn an_owner_and_two_thieves_take_each_fork_finished() {
    forks_that_are_begun::<_, 2>(Deque::<Item>::new);
}

#[test]
fn a_thief_that_slept_claims_nothing_that_was_not_stolen() {
    a_thief_asleep(Deque::<Item>::new);
}

#[test]
fn a_scope_inside_a_fork_leaves_its_place_to_it() {
    scope_items_above_a_fork::<_, 1>(Deque::<Item>::new);
}

#[test]
fn a_scope_inside_a_fork_leaves_its_place_to_it_with_two_thieves() {
    scope_items_above_a_fork::<_, 2>(Deque::<Item>::new);
}

#[test]
fn a_full_deque_makes_room_above_a_join_item() {
    a_full_deque::<_, 1>(Deque::<Item>::new);
}

#[test]
fn a_full_deque_makes_room_above_a_join_item_with_two_thieves() {
    a_full_deque::<_, 2>(Deque::<Item>::new);
}

#[test]
fn room_is_made_after_the_thief_has_read() {
    room_after_a_slow_thief(Deque::<Item>::new);
}

#[test]
fn a_slot_is_written_again_after_the_thief_has_read() {
    a_fork_after_a_slow_thief(Deque::<Item>::new);
}

#[test]
fn a_choosy_thief_gets_what_it_looked_at() {
    a_choosy_thief(Deque::<Item>::new);
}

#[test]
fn a_thief_takes_several_items_each_once() {
    several_at_once::<_, 1>(Deque::<Item>::new);
}

#[test]
fn two_thieves_take_several_items_each_once() {
    several_at_once::<_, 2>(Deque::<Item>::new);
}

#[test]
fn a_twin_without_a_fault_passes() {
    forks_against_thieves::<_, 2>(|| Twin::new(None));
    forks_that_are_begun::<_, 2>(|| Twin::new(None));
    a_thief_asleep(|| Twin::new(None));
    scope_items_above_a_fork::<_, 1>(|| Twin::new(None));
    a_full_deque::<_, 2>(|| Twin::new(None));
    room_after_a_slow_thief(|| Twin::new(None));
    a_fork_after_a_slow_thief(|| Twin::new(None));
    a_choosy_thief(|| Twin::new(None));
    several_at_once::<_, 2>(|| Twin::new(None));
}

/// A twin for each fault, and the model that must refuse it.
macro_rules! refused {
    ($($name:ident: $model:ident$(::<$n:literal>)?($fault:ident), $text:literal;)*) => {$(
        #[test]
        #[should_panic(expected = $text)]
        fn $name() {
            $model$(::<_, $n>)?(|| Twin::new(Some(Fault::$fault)));
        }
    )*};
}

refused! {
    an_owner_that_publishes_before_it_finishes: forks_that_are_begun::<1>(FinishesPublished),
        "data race on an item";
    an_owner_that_takes_a_place_for_finished: forks_that_are_begun::<1>(FinishesByPlace),
        "item 2 was taken twice, or before it was pushed";
    an_owner_that_finishes_and_publishes_without_release: forks_that_are_begun::<1>(PublishesRelaxed),
        "data race on an item";
    a_reclaim_without_a_version: a_thief_asleep(ReclaimsSameVersion), "data race on an item";
    a_rewind_without_a_version: forks_against_thieves::<2>(RewindsToSameVersion), "data race on an item";
    a_thief_that_reads_after_its_claim: a_thief_asleep(ReadsAfterClaim), "data race on an item";
    a_thief_that_stores_its_claim: a_thief_asleep(StoresClaim), "data race on an item";
    a_thief_that_claims_what_it_did_not_look_at: a_choosy_thief(LooksBeforeItReads),
        "a thief got an item that it did not look at";
    an_owner_that_stores_its_reclaim: a_thief_asleep(StoresReclaim), "data race on an item";
    an_owner_that_publishes_without_release: a_thief_asleep(PublishesRelaxed), "data race on an item";
    a_thief_that_loads_without_acquire: a_thief_asleep(LoadsRelaxed), "data race on an item";
    a_thief_that_looks_again_without_acquire: forks_against_thieves::<2>(LooksAgainRelaxed),
        "data race on an item";
    a_thief_that_claims_without_release: room_after_a_slow_thief(ClaimsRelaxed),
        "data race on a slot of the deque";
    a_thief_that_claims_a_fork_without_release: a_fork_after_a_slow_thief(ClaimsRelaxed),
        "data race on a slot of the deque";
    an_owner_that_learns_of_a_theft_without_acquire: a_fork_after_a_slow_thief(LearnsRelaxed),
        "data race on a slot of the deque";
    an_owner_that_makes_room_without_acquire: room_after_a_slow_thief(MakesRoomRelaxed),
        "data race on a slot of the deque";
    a_rewind_below_a_join_item: scope_items_above_a_fork::<1>(RewindsBelowJoinItem),
        "item 0 was taken twice, or before it was pushed";
    room_made_below_a_join_item: a_full_deque::<2>(RewindsBelowJoinItem),
        "item 0 was taken twice, or before it was pushed";
    a_thief_that_reads_several_after_its_claim: several_at_once::<1>(ReadsSeveralAfterClaim),
        "data race on an item";
    a_thief_that_claims_one_and_takes_several: several_at_once::<1>(ClaimsOneOfSeveral),
        "data race on an item";
    room_made_while_something_is_public: a_full_deque::<2>(RewindsOverPublic), "item 2 was lost";
}
