use std::cell::RefCell;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::AcqRel;
use std::thread;

use super::*;
use crate::queue::intrusive_list::tests::{Item, Items};
use crate::util::joined::joined_scope;
use crate::util::unwind::catch;

/// The versions to start at: the first, and one a few changes before the field's end.
const VERSIONS: [u64; 2] = [0, u64::MAX / VERSION - 2];

fn starting_at(version: u64) -> Deque<Item> {
    let deque = Deque::new();
    deque.public.store(version * VERSION, Relaxed);
    deque
}

/// A deque whose owner is this thread, and its items.
struct World {
    deque: Deque<Item>,
    items: Items,
}

impl World {
    fn new(version: u64, items: usize) -> Self {
        Self { deque: starting_at(version), items: Items::new(items) }
    }

    fn push_join_item(&self, value: usize) -> bool {
        // SAFETY: each test has its world's owner call this; the items outlive the deque.
        unsafe { self.deque.push_join_item(self.items.at(value).as_ptr()) }
    }

    fn push(&self, value: usize) -> bool {
        // SAFETY: as above.
        unsafe { self.deque.push(self.items.at(value).as_ptr(), CAPACITY) }
    }

    fn publish(&self, n: u32) -> u32 {
        // SAFETY: as above.
        unsafe { self.deque.publish(n) }
    }

    fn take_back(&self, index: u32) -> Option<usize> {
        // SAFETY: the deque has had such an index.
        let item = unsafe { self.deque.item(index) };
        // SAFETY: as above; the tests take back what they pushed, in order.
        match unsafe { self.deque.take_back(index) } {
            Taken::Back => Some(self.take(item)),
            Taken::Stolen => None,
        }
    }

    fn pop(&self, floor: u32) -> Option<usize> {
        // SAFETY: as above; the tests know what is a join item.
        unsafe { self.deque.pop(floor) }.map(|item| self.take(item))
    }

    fn steal(&self) -> Option<usize> {
        self.deque.steal(|_| true).map(|item| self.take(item))
    }

    fn head(&self) -> u32 {
        // SAFETY: as above.
        unsafe { self.deque.head() }
    }

    fn take(&self, item: *mut Item) -> usize {
        self.items.take(std::ptr::NonNull::new(item).expect("a slot was written"))
    }
}

/// Numbers that look random, the same ones for the same seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// A stack of entries, which says what the deque should do.
#[derive(Default)]
struct Model(Vec<Entry>);

struct Entry {
    value: usize,
    is_join_item: bool,
    state: State,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Private,
    Public,
    Stolen,
}

impl Model {
    fn top(&self) -> Option<State> {
        self.0.last().map(|entry| entry.state)
    }

    /// The lowest index that is above all join items.
    fn floor(&self) -> usize {
        self.0.iter().rposition(|entry| entry.is_join_item).map_or(0, |index| index + 1)
    }

    fn push(&mut self, value: usize, is_join_item: bool) -> bool {
        if self.0.len() == CAPACITY as usize && !is_join_item && self.top() == Some(State::Stolen) {
            self.0.truncate(self.floor());
        }
        let has_room = self.0.len() < CAPACITY as usize;
        if has_room {
            self.0.push(Entry { value, is_join_item, state: State::Private });
        }
        has_room
    }

    /// Takes the youngest. If it was stolen, all entries are stolen, and those from `floor` on go.
    fn pop(&mut self, floor: usize) -> Option<usize> {
        if self.top() == Some(State::Stolen) {
            self.0.truncate(floor);
            return None;
        }
        self.0.pop().map(|entry| entry.value)
    }

    fn publish(&mut self, n: usize) -> usize {
        let private = self.0.iter_mut().filter(|entry| entry.state == State::Private);
        private.take(n).map(|entry| entry.state = State::Public).count()
    }

    fn steal(&mut self) -> Option<usize> {
        let oldest = self.0.iter_mut().find(|entry| entry.state == State::Public)?;
        oldest.state = State::Stolen;
        Some(oldest.value)
    }

    fn assert_is(&self, deque: &Deque<Item>) {
        let has = |state| self.0.iter().any(|entry| entry.state == state);
        // SAFETY: this thread is the owner.
        unsafe {
            deque.validate();
            assert_eq!(deque.head() as usize, self.0.len());
            assert_eq!(deque.has_items(), has(State::Private) || has(State::Public));
            assert_eq!(deque.is_nothing_public(), !has(State::Public));
            for (index, entry) in self.0.iter().enumerate() {
                assert_eq!(deque.is_public(index as u32), entry.state != State::Private, "{index}");
            }
        }
    }
}

#[test]
fn a_deque_is_a_stack_of_which_thieves_take_the_oldest() {
    const STEPS: usize = 2_000;
    for seed in 0..60 {
        let world = World::new(VERSIONS[seed as usize % 2], STEPS);
        let (mut model, mut numbers, mut next) = (Model::default(), Numbers(seed), 0);
        // Some runs are deep, some often empty.
        let pushes = 3 + seed % 4;
        for step in 0..STEPS {
            let context = format!("seed {seed}, step {step}");
            match numbers.below(12) {
                choice if choice < pushes => {
                    let is_join_item = numbers.below(3) == 0;
                    let pushed = if is_join_item { world.push_join_item(next) } else { world.push(next) };
                    assert_eq!(pushed, model.push(next, is_join_item), "{context}");
                    next += usize::from(pushed);
                }
                choice if choice < pushes + 2 => {
                    let n = numbers.below(4) as usize * numbers.below(4) as usize;
                    assert_eq!(world.publish(n as u32) as usize, model.publish(n), "{context}");
                }
                choice if choice < pushes + 4 => assert_eq!(world.steal(), model.steal(), "{context}"),
                _ if model.0.is_empty() => assert_eq!(world.pop(0), None, "{context}"),
                _ if model.floor() == model.0.len() => {
                    let index = model.0.len() - 1;
                    assert_eq!(world.take_back(index as u32), model.pop(index), "{context}");
                }
                _ => {
                    // At its floor or above, where floors of other callers begin.
                    let room = (model.0.len() - model.floor()) as u64;
                    let floor = model.floor() + numbers.below(room) as usize;
                    assert_eq!(world.pop(floor as u32), model.pop(floor), "{context}");
                }
            }
            model.assert_is(&world.deque);
        }
    }
}

#[test]
fn what_is_begun_is_finished_once_the_youngest_first() {
    let world = World::new(0, 4);
    let begin = |value: usize| {
        // SAFETY: this thread is the owner, the deque is not full, and the item is finished below before it
        // is published.
        unsafe { world.deque.begin_join_item(world.items.at(value).as_ptr()) }
    };
    let finished = || {
        let finished = RefCell::new(Vec::new());
        let finish = |item| {
            finished.borrow_mut().extend((0..4).filter(|&value| world.items.at(value).as_ptr() == item));
            item
        };
        // SAFETY: as above.
        unsafe { world.deque.finish(finish) };
        finished.into_inner()
    };
    assert_eq!((begin(0), begin(1), finished()), (0, 1, vec![1, 0]));
    assert_eq!((begin(2), finished(), finished()), (2, vec![2], vec![]));
    assert_eq!(world.take_back(2), Some(2));
    // SAFETY: as above; finished.
    unsafe { world.deque.note(1) };
    assert_eq!((begin(3), finished()), (2, vec![3]), "another in the place of one that was finished");
    assert_eq!(world.publish(2), 2);
    assert_eq!([world.steal(), world.steal(), world.steal()], [Some(0), Some(1), None]);
    assert_eq!([world.take_back(2), world.take_back(1), world.take_back(0)], [Some(3), None, None]);
    world.items.assert_all_taken();
}

#[test]
fn what_is_begun_below_a_scope_item_is_finished_too() {
    let world = World::new(0, 3);
    // SAFETY: this thread is the owner, the deque is not full, and the item is finished below before it is
    // published.
    let begin = |value| unsafe { world.deque.begin_join_item(world.items.at(value).as_ptr()) };
    begin(0);
    assert!(world.push(1));
    begin(2);
    let finished = RefCell::new(Vec::new());
    let finish = |item| {
        finished.borrow_mut().push(item);
        item
    };
    // SAFETY: as above.
    unsafe { world.deque.finish(finish) };
    assert_eq!(finished.into_inner(), [2, 0].map(|value| world.items.at(value).as_ptr()));
    assert_eq!(world.publish(3), 3);
    assert_eq!([(); 4].map(|()| world.steal()), [Some(0), Some(1), Some(2), None]);
}

#[test]
fn an_item_is_noted_until_another_is_in_its_place() {
    let world = World::new(0, 3);
    // SAFETY: this thread is the owner.
    let are_noted = || [0, 1].map(|index| unsafe { world.deque.is_noted(index) });
    assert!(world.push_join_item(0) && world.push_join_item(1));
    assert_eq!(are_noted(), [false, false]);
    for _ in 0..2 {
        // SAFETY: as above; (2) the item is private, a join item, and finished.
        unsafe { world.deque.note(1) };
        assert_eq!(are_noted(), [false, true]);
    }
    assert_eq!(world.take_back(1), Some(1));
    assert!(world.push_join_item(2));
    assert_eq!(are_noted(), [false, false]);
}

#[test]
fn the_first_private_item_is_behind_those_that_were_published() {
    let world = World::new(0, 4);
    // SAFETY: this thread is the owner.
    let first_private = || unsafe { world.deque.first_private() };
    assert_eq!(first_private(), 0);
    assert!((0..4).all(|value| world.push(value)));
    assert_eq!((first_private(), world.publish(3)), (0, 3));
    assert_eq!((first_private(), world.steal()), (3, Some(0)));
    assert_eq!((first_private(), world.pop(0), world.pop(0)), (3, Some(3), Some(2)));
    assert_eq!((first_private(), world.head()), (2, 2), "the youngest public item was taken back");
}

#[test]
fn the_youngest_item_is_popped_if_it_is_no_join_item() {
    let world = World::new(0, 3);
    // SAFETY: this thread is the owner.
    let pop = || unsafe { world.deque.pop_if_scope_item() }.map(|item| world.take(item));
    assert_eq!(pop(), None);
    assert!(world.push_join_item(0));
    assert_eq!((pop(), world.head()), (None, 1));
    assert!(world.push(1) && world.push(2));
    assert_eq!((pop(), pop(), pop()), (Some(2), Some(1), None));
    assert_eq!(world.take_back(0), Some(0));
}

#[test]
fn contradictory_indices_are_noticed() {
    let world = World::new(0, 2);
    assert!(world.push(0) && world.push(1));
    world.publish(1);
    let is_valid = || {
        // SAFETY: this thread is the owner.
        catch(|| unsafe { world.deque.validate() }).is_ok()
    };
    assert!(is_valid());
    for (split, tail) in [(1, 2), (2, 1), (3, 1), (0, 0)] {
        world.deque.public.store(pack(0, split, tail), Relaxed);
        assert!(!is_valid(), "{split} {tail}");
    }
    world.deque.public.store(pack(0, 1, 0), Relaxed);
    assert!(is_valid());
    world.deque.own.head.set(0);
    assert!(!is_valid(), "the head is below the split");
}

#[test]
fn what_is_pushed_to_be_public_is_unless_something_private_is_below() {
    for version in VERSIONS {
        let world = World::new(version, 4);
        // SAFETY: this thread is the owner; the items outlive the deque.
        let push_public =
            |value, limit| unsafe { world.deque.push_public(world.items.at(value).as_ptr(), limit) };
        assert!(push_public(0, CAPACITY) && !push_public(1, 1), "no room below the limit");
        assert!(push_public(1, CAPACITY));
        assert_eq!((world.steal(), world.pop(0)), (Some(0), Some(1)));
        assert!(world.push(2) && !push_public(3, CAPACITY), "what is below was not published");
        assert_eq!((world.head(), world.publish(u32::MAX)), (2, 1));
        assert!(push_public(3, CAPACITY));
        // SAFETY: as above.
        unsafe { world.deque.validate() };
        assert_eq!((world.pop(0), world.pop(0), world.pop(0)), (Some(3), Some(2), None));
        world.items.assert_all_taken();
    }
}

#[test]
fn nothing_is_popped_below_the_floor() {
    let world = World::new(0, 2);
    assert!(world.push(0) && world.push(1));
    assert_eq!((world.pop(1), world.pop(1), world.pop(0)), (Some(1), None, Some(0)));
}

/// Imitates a thief that fell asleep between its look and its claim.
#[test]
fn a_thief_asleep_does_not_get_what_came_into_the_place() {
    for version in VERSIONS {
        let world = World::new(version, 8);
        // On the way, the version's field begins again.
        for round in 0..4 {
            assert!(world.push_join_item(2 * round));
            world.publish(1);
            let seen = world.deque.public.load(Acquire);
            assert_eq!(world.take_back(0), Some(2 * round));
            assert!(world.push_join_item(2 * round + 1));
            world.publish(1);
            let now = world.deque.public.load(Acquire);
            assert_eq!(
                (tail(seen), split(seen)),
                (tail(now), split(now)),
                "it looks the same but for the version"
            );
            assert!(world.deque.public.compare_exchange(seen, seen + 1, AcqRel, Acquire).is_err());
            assert_eq!(world.take_back(0), Some(2 * round + 1));
        }
        world.items.assert_all_taken();
    }
}

/// As above, after an item that was stolen: a rewind gives its place to another item.
#[test]
fn a_thief_asleep_does_not_get_what_came_after_a_rewind() {
    for version in VERSIONS {
        let world = World::new(version, 8);
        for round in 0..4 {
            assert!(world.push_join_item(2 * round));
            world.publish(1);
            let seen = world.deque.public.load(Acquire);
            assert_eq!((world.steal(), world.take_back(0)), (Some(2 * round), None));
            assert!(world.push_join_item(2 * round + 1));
            world.publish(1);
            assert!(world.deque.public.compare_exchange(seen, seen + 1, AcqRel, Acquire).is_err());
            assert_eq!(world.take_back(0), Some(2 * round + 1));
        }
        world.items.assert_all_taken();
    }
}

/// As above, between two rewinds.
#[test]
fn a_thief_asleep_does_not_get_what_came_after_another_rewind() {
    for version in VERSIONS {
        let world = World::new(version, 5);
        let push_and_publish = |value| {
            assert!(world.push_join_item(value));
            world.publish(1);
            world.deque.public.load(Acquire)
        };
        let mut seen = vec![push_and_publish(0)];
        for value in 1..5 {
            assert_eq!((world.steal(), world.take_back(0)), (Some(value - 1), None));
            let now = push_and_publish(value);
            assert!(!seen.contains(&now));
            seen.push(now);
        }
    }
}

#[test]
fn a_full_deque_takes_nothing_until_all_of_it_was_stolen() {
    let world = World::new(0, CAPACITY as usize + 2);
    let last = CAPACITY as usize;
    assert!(world.push_join_item(0) && (1..last).all(|value| world.push(value)));
    assert!(!world.push(last) && !world.push_join_item(last));
    world.publish(u32::MAX);
    for value in 0..last {
        assert!(!world.push(last), "{value} is still there");
        assert_eq!(world.steal(), Some(value));
    }
    assert!(
        !world.push_join_item(last),
        "a fork does not look for room: it is so deep that thieves have plenty"
    );
    assert!(world.push(last));
    assert_eq!(world.head(), 2, "the first place is the fork's");
    assert!(world.push(last + 1));
    assert_eq!((world.pop(1), world.pop(1), world.pop(1)), (Some(last + 1), Some(last), None));
    assert_eq!(world.take_back(0), None);
    world.items.assert_all_taken();
}

#[test]
fn a_deque_full_of_forks_makes_no_room() {
    let world = World::new(0, CAPACITY as usize + 1);
    let last = CAPACITY as usize;
    assert!((0..last).all(|value| world.push_join_item(value)));
    world.publish(u32::MAX);
    assert!((0..last).all(|value| world.steal() == Some(value)));
    assert!(!world.push(last));
    assert!((0..CAPACITY).rev().all(|index| world.take_back(index).is_none()));
    assert!(world.push(last), "they have come back for their places");
}

#[test]
fn a_thief_leaves_what_is_not_for_it() {
    let world = World::new(0, 2);
    assert!(world.push_join_item(0) && world.push(1));
    world.publish(u32::MAX);
    let second = world.items.at(1).as_ptr();
    let is_second = |item| item == second;
    assert!(
        world.deque.steal(is_second).is_none(),
        "the mark of a join item is not shown, and the oldest is another"
    );
    assert_eq!(world.steal(), Some(0));
    assert!(world.deque.steal(is_second).is_some_and(is_second));
}

/// Pushes items, of which those in `join_items` are join items, and publishes all. Then steals `most`, as
/// long as they are wanted. Returns the item that was stolen, and the others, in the order in which they
/// came.
fn steal_several(
    items: usize,
    join_items: &[usize],
    most: u32,
    is_wanted: impl Fn(usize) -> bool,
) -> (Option<usize>, Vec<usize>) {
    let world = World::new(0, items);
    for value in 0..items {
        assert!(if join_items.contains(&value) { world.push_join_item(value) } else { world.push(value) });
    }
    world.publish(u32::MAX);
    let is_wanted = |item| (0..items).any(|value| world.items.at(value).as_ptr() == item && is_wanted(value));
    let mut others = Vec::new();
    let first = world.deque.steal_several(most, is_wanted, |item| others.push(world.take(item)));
    let first = first.map(|item| world.take(item));
    let taken = first.iter().count() + others.len();
    assert_eq!(world.steal(), (taken < items).then_some(taken), "the next one is the oldest");
    (first, others)
}

#[test]
fn a_thief_takes_no_more_than_half_and_gives_the_youngest_first() {
    for (items, others) in
        [(0, &[][..]), (1, &[]), (2, &[]), (3, &[1]), (4, &[1]), (5, &[2, 1]), (6, &[2, 1]), (7, &[3, 2, 1])]
    {
        let stolen = steal_several(items, &[], u32::MAX, |_| true);
        assert_eq!(stolen, ((items > 0).then_some(0), others.to_vec()), "of {items}");
    }
}

#[test]
fn a_thief_takes_no_more_than_it_asks_for_and_has_space_for() {
    assert_eq!(steal_several(10, &[], 1, |_| true), (Some(0), vec![]));
    assert_eq!(steal_several(10, &[], 3, |_| true), (Some(0), vec![2, 1]));
    assert_eq!(steal_several(3 * MOST, &[], u32::MAX, |_| true), (Some(0), (1..MOST).rev().collect()));
}

#[test]
fn a_thief_takes_a_join_item_alone_and_none_behind_scope_items() {
    assert_eq!(steal_several(10, &[0], 3, |_| true), (Some(0), vec![]));
    assert_eq!(steal_several(10, &[0, 1], 3, |_| true), (Some(0), vec![]));
    assert_eq!(steal_several(10, &[2], 5, |_| true), (Some(0), vec![1]));
    assert_eq!(steal_several(10, &[1], 5, |_| true), (Some(0), vec![]));
}

#[test]
fn a_thief_that_takes_several_stops_at_what_is_not_for_it() {
    assert_eq!(steal_several(10, &[], 5, |value| value != 3), (Some(0), vec![2, 1]));
    assert_eq!(steal_several(10, &[], 5, |value| value != 0), (None, vec![]));
}

/// Tells the thieves of a stress test to end, also when its owner panics.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A recursion of forks, with scope items left in some of them, from item `next` on. Returns how many items
/// it used.
fn fork(world: &World, numbers: &mut Numbers, next: usize, depth: u32) -> usize {
    let index = world.head();
    if !world.push_join_item(next) {
        world.take(world.items.at(next).as_ptr());
        return 1;
    }
    world.publish(numbers.below(2) as u32);
    let mut used = 1;
    for _ in 0..numbers.below(3) {
        if !world.push(next + used) {
            world.take(world.items.at(next + used).as_ptr());
        }
        used += 1;
        world.publish(numbers.below(3) as u32);
    }
    while depth > 0 && numbers.below(3) > 0 {
        used += fork(world, numbers, next + used, depth - 1);
    }
    while world.pop(index + 1).is_some() {}
    let back = world.take_back(index);
    assert!(back.is_none_or(|back| back == next), "{back:?} came back for {next}");
    // SAFETY: the thread that owns the world calls this.
    unsafe { world.deque.validate() };
    used
}

#[test]
fn each_item_is_taken_once_under_stress() {
    const ITEMS: usize = 60_000;
    /// More items than a recursion of depth 5 usually uses. A recursion that uses more ends the test.
    const RESERVE: usize = 20_000;
    let world = World::new(u64::MAX / VERSION - 1_000, ITEMS + RESERVE);
    let done = AtomicBool::new(false);
    let used = joined_scope(|scope| {
        let thieves = [(); 3].map(|()| {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    if world.steal().is_none() {
                        thread::yield_now();
                    }
                }
            })
        });
        let done = Done(&done);
        let (mut used, mut numbers) = (0, Numbers(11));
        while used < ITEMS {
            used += fork(&world, &mut numbers, used, 5);
        }
        drop(done);
        thieves.into_iter().for_each(|thief| thief.join().unwrap());
        used
    });
    assert!(world.steal().is_none() && world.pop(0).is_none());
    for value in used..ITEMS + RESERVE {
        world.take(world.items.at(value).as_ptr());
    }
    world.items.assert_all_taken();
}
