//! The wheel against an ordered map, with fixed random sequences.

use std::collections::BTreeMap;
use std::task::Waker;

use super::*;
use crate::driver::time::entry::TimerState;
use crate::util::rand::FastRand;

/// A wheel, its entries, and an ordered map that says what the wheel should do.
struct Bench {
    wheel: Wheel,
    // Boxed one by one, so that a failed test can leak what is still linked.
    #[expect(clippy::vec_box)]
    entries: Vec<Box<TimerEntry>>,
    /// The timers in the wheel: by due tick (at least the position when inserted), then by order of
    /// insertion.
    model: BTreeMap<(Tick, usize), Tick>,
    /// The key of each entry in the model.
    keys: Vec<Option<(Tick, usize)>>,
    inserted: usize,
    checks: usize,
}

impl Bench {
    fn new(entries: usize) -> Self {
        Self {
            wheel: Wheel::new(),
            entries: (0..entries).map(|_| Box::new(TimerEntry::new())).collect(),
            model: BTreeMap::new(),
            keys: vec![None; entries],
            inserted: 0,
            checks: 0,
        }
    }

    fn index_of(&self, entry: NonNull<TimerEntry>) -> usize {
        self.entries.iter().position(|e| NonNull::from(&**e) == entry).expect("one of ours")
    }

    fn insert(&mut self, i: usize, tick: Tick) {
        assert!(self.keys[i].is_none());
        let key = (tick.max(self.wheel.position), self.inserted);
        self.inserted += 1;
        // SAFETY: the entry is boxed and kept until the end, and by the assertion in no wheel. There is one
        // thread, which owns the entries and stands for the holder of the lock.
        unsafe {
            self.entries[i].begin(tick, Waker::noop().clone());
            self.wheel.insert(NonNull::from(&*self.entries[i]));
        }
        self.model.insert(key, tick);
        self.keys[i] = Some(key);
    }

    /// Puts a timer off without telling the wheel.
    fn put_off(&mut self, i: usize, tick: Tick) {
        let key = self.keys[i].expect("inserted before");
        // SAFETY: ours.
        if !unsafe { self.entries[i].put_off(tick) } {
            return;
        }
        self.model.remove(&key);
        let key = (tick.max(key.0), self.inserted);
        self.inserted += 1;
        self.model.insert(key, tick);
        self.keys[i] = Some(key);
    }

    fn remove(&mut self, i: usize) {
        let key = self.keys[i].take().expect("inserted before");
        let entry = NonNull::from(&*self.entries[i]);
        // SAFETY: the model says that it is in the wheel; one thread.
        unsafe {
            self.wheel.remove(entry);
            TimerEntry::release(entry, TimerState::Idle);
        }
        self.model.remove(&key);
    }

    /// Does at most `limit` steps towards `now`, and checks each timer that comes out. Returns whether all is
    /// done.
    fn drive(&mut self, now: Tick, limit: usize) -> bool {
        for _ in 0..limit {
            // SAFETY: one thread.
            match unsafe { self.wheel.step(now) } {
                Step::Moved => {}
                Step::Done => {
                    let first = self.model.first_key_value().map(|((due, _), _)| *due);
                    let reached = now.max(self.wheel.position);
                    assert!(first.is_none_or(|due| due > reached), "{first:?} was due at {reached}");
                    self.check_next_tick();
                    return true;
                }
                Step::Due(entry) => {
                    let i = self.index_of(entry);
                    // SAFETY: it left the wheel just now; one thread.
                    unsafe { TimerEntry::release(entry, TimerState::Fired) };
                    let key = self.keys[i].take().expect("fired only what was inserted, and once");
                    let (&(earliest, _), _) = self.model.first_key_value().expect("the wheel holds no more");
                    assert_eq!(key.0, earliest, "in the order of their ticks");
                    assert!(key.0 <= now.max(self.wheel.position), "{key:?} fired at {now}");
                    self.model.remove(&key);
                }
            }
        }
        false
    }

    fn check_next_tick(&mut self) {
        let first = self.model.first_key_value().map_or(NEVER, |((due, _), _)| *due);
        // SAFETY: one thread.
        let (all, bound) = unsafe { (self.wheel.next_tick(usize::MAX), self.wheel.next_tick(2)) };
        assert!(bound <= all && all <= first, "{bound} or {all} is after {first}");
        if first != NEVER {
            assert!(bound > self.wheel.position, "a thread that sleeps until {bound} would spin");
        }
        // SAFETY: one thread.
        let moved = unsafe {
            self.wheel.move_put_off(3);
            self.wheel.next_tick(2)
        };
        assert!(bound <= moved && moved <= first, "{moved} is before {bound} or after {first}");
        self.checks += 1;
        if self.checks % 2 == 0 {
            // SAFETY: one thread.
            assert_eq!(unsafe { self.wheel.exact_tick() }, first);
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        for i in 0..self.entries.len() {
            if self.keys[i].is_some() && !std::thread::panicking() {
                self.remove(i);
            } else if std::thread::panicking() {
                // A failed test: the entries are leaked rather than freed while linked.
                std::mem::forget(std::mem::replace(&mut self.entries[i], Box::new(TimerEntry::new())));
            }
        }
    }
}

/// A distance that reaches every level, exactly the edges of levels, and the far list.
fn distance(rand: &mut FastRand) -> Tick {
    let level = rand.below(8);
    let width = 1_u64 << (DIGIT_BITS * level).min(45);
    match rand.below(4) {
        0 => width,
        1 => width - 1,
        2 => width + 1,
        _ => rand.next_u64() % width,
    }
}

#[test]
fn behaves_as_an_ordered_map() {
    const ENTRIES: u32 = 64;
    for seed in 1..=40 {
        let mut rand = FastRand::from_seed(seed * 7919);
        let mut bench = Bench::new(ENTRIES as usize);
        let mut now = 0;
        for _ in 0..3_000 {
            let i = rand.below(ENTRIES) as usize;
            match (rand.below(8), bench.keys[i]) {
                (0..=3, None) => bench.insert(i, now + distance(&mut rand)),
                (4, None) => bench.insert(i, now.saturating_sub(distance(&mut rand))),
                (0, Some(_)) => bench.remove(i),
                (1..=2, Some((due, _))) => bench.put_off(i, due.saturating_add(distance(&mut rand))),
                (5, None) => bench.insert(i, NEVER),
                // A bounded part of the work, so that insertions and removals also meet a wheel that is
                // behind.
                (6, _) => {
                    bench.drive(now, 3);
                }
                (7, _) => {
                    now += distance(&mut rand).min(1 << 38);
                    while !bench.drive(now, 100) {}
                }
                _ => now += u64::from(rand.below(100)),
            }
        }
    }
}

#[test]
fn a_jump_of_centuries_fires_everything_in_order_but_never() {
    let mut bench = Bench::new(50);
    for i in 0..49 {
        bench.insert(i, 1 << i.min(43));
    }
    bench.insert(49, NEVER);
    while !bench.drive(1 << 44, 10) {}
    assert_eq!(bench.model.len(), 1);
    // SAFETY: one thread.
    assert_eq!(unsafe { bench.wheel.next_tick(usize::MAX) }, NEVER);
}

#[test]
fn a_lone_timer_tells_its_own_tick_on_every_level() {
    for level in 0..7 {
        let mut bench = Bench::new(1);
        let tick = (1 << (DIGIT_BITS * level)) + 5;
        bench.insert(0, tick);
        // SAFETY: one thread.
        assert_eq!(unsafe { bench.wheel.next_tick(8) }, tick);
        assert!(bench.drive(tick - 1, 10));
        assert!(bench.drive(tick, 10));
        assert!(bench.model.is_empty());
    }
}

#[test]
fn a_timer_moves_at_most_once_a_level() {
    let mut bench = Bench::new(1);
    bench.insert(0, (1 << TURN_BITS) - 1);
    let mut moves = 0;
    // SAFETY: one thread.
    while let Step::Moved = unsafe { bench.wheel.step(1 << TURN_BITS) } {
        moves += 1;
    }
    assert_eq!(moves, LEVELS - 1);
    // It came out, but the bench does not know.
    // SAFETY: it left the wheel; one thread.
    unsafe { TimerEntry::release(NonNull::from(&*bench.entries[0]), TimerState::Fired) };
    bench.keys[0] = None;
}

#[test]
fn a_timer_that_is_put_off_again_and_again_is_seldom_moved() {
    let mut bench = Bench::new(1);
    bench.insert(0, 1_000);
    let mut moves = 0;
    for now in 0..100_000 {
        bench.put_off(0, now + 1_000);
        // SAFETY: one thread.
        while let Step::Moved = unsafe { bench.wheel.step(now) } {
            moves += 1;
        }
    }
    assert!(moves < 400, "{moves} moves");
    assert!(bench.drive(100_998, 10));
    assert!(bench.drive(100_999, 10));
    assert!(bench.model.is_empty());
}

#[test]
fn pop_any_empties_the_wheel() {
    let mut bench = Bench::new(40);
    for i in 0..40 {
        bench.insert(i, if i == 7 { NEVER } else { 1 << i });
    }
    // SAFETY: one thread.
    while let Some(entry) = unsafe { bench.wheel.pop_any() } {
        let i = bench.index_of(entry);
        // SAFETY: it left the wheel; one thread.
        unsafe { TimerEntry::release(entry, TimerState::ShutDown) };
        assert!(bench.keys[i].take().is_some());
    }
    assert!(bench.keys.iter().all(Option::is_none));
    assert!(bench.wheel.occupied.iter().all(|&occupied| occupied == 0));
}

#[test]
fn after_an_idle_time_a_near_timer_needs_no_move() {
    let mut bench = Bench::new(1);
    assert!(bench.drive(1_000_003, 1));
    bench.insert(0, 1_000_004);
    // SAFETY: one thread.
    assert_eq!(unsafe { TimerEntry::slot(NonNull::from(&*bench.entries[0])) }.level(), 0);
}
