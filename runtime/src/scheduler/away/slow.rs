//! Which tasks are likely to compute for long in their next poll: hints for the sorting in `next_work.rs`.
//!
//! The monitor finds a task inside of a long poll, and remembers its name. But a program may spawn new tasks
//! all the time, as a database does for each query, and each of them is unknown at first. So the place that
//! spawned the task is remembered, too, with two counts: how many new slow tasks were found of this place,
//! and how many unknown tasks of it the serving worker was given. A place whose tasks are often slow makes
//! all of its tasks slow. The handler of a web server, of which one connection in a hundred is slow, does
//! not.
//!
//! Every [`PROBE`]th task of a slow place goes to the serving worker all the same, so a place that has become
//! quick is found. When no spare worker serves any more, the names are forgotten. The places stay.
//!
//! Only hints: any thread may overwrite what another has just written, and two names or places may want the
//! same word.

use std::panic::Location;
use std::ptr;

use crate::loom::SLOW_TASKS;
use crate::loom::sync::atomic::AtomicU64;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::task::Runnable;

/// How many places that spawn are remembered.
const SITES: usize = SLOW_TASKS.div_ceil(8);
/// A place is slow if one task in so many is.
const RARE: u64 = 16;
/// How many tasks of a slow place are kept from the serving worker for each that it is given.
pub const PROBE: usize = 32;
/// The largest count.
const MOST: u64 = u8::MAX as u64;

/// The names of tasks that were found to compute for long, and the places that spawn such tasks.
#[derive(Debug)]
pub struct SlowTasks {
    names: Box<[AtomicU64]>,
    /// Each word a [`SpawnSite`].
    sites: Box<[AtomicU64]>,
}

/// What is known of a place that spawns tasks.
#[derive(Clone, Copy)]
struct SpawnSite {
    /// The lower 48 bits of the location's address. On the few machines with longer ones, two locations may
    /// be taken for one.
    key: u64,
    slow: u64,
    given: u64,
}

impl SpawnSite {
    fn from_word(word: u64) -> Self {
        Self { key: word >> 16, slow: word >> 8 & MOST, given: word & MOST }
    }

    /// Both counts are halved before one of them is too large.
    fn word(self) -> u64 {
        let halve = u32::from(self.slow > MOST || self.given > MOST);
        self.key << 16 | (self.slow >> halve) << 8 | self.given >> halve
    }

    fn is_slow(self) -> bool {
        self.slow * RARE > self.given
    }
}

impl SlowTasks {
    pub fn new() -> Self {
        let words = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        Self { names: words(SLOW_TASKS), sites: words(SITES) }
    }

    /// Whether the task is likely to compute for long.
    pub fn contains(&self, task: &Runnable) -> bool {
        self.contains_name(task) || self.contains_site(task)
    }

    /// Whether it is a task that was found to.
    pub fn contains_name(&self, task: &Runnable) -> bool {
        self.has_name(task.id())
    }

    /// Whether its place spawns many tasks that were found to.
    pub fn contains_site(&self, task: &Runnable) -> bool {
        self.has_site(task.spawned_at())
    }

    /// Notes that the serving worker was given a task.
    pub fn was_given(&self, task: &Runnable) {
        let (key, word) = self.site(task.spawned_at());
        let site = SpawnSite::from_word(word.load(Relaxed));
        // Nothing slow is known of other places.
        if site.key == key {
            word.store(SpawnSite { given: site.given + 1, ..site }.word(), Relaxed);
        }
    }

    /// Notes that a task was found inside of a long poll.
    pub fn insert(&self, name: u64, spawned_at: &'static Location<'static>) {
        if self.has_name(name) {
            return;
        }
        place(&self.names, name).store(name, Relaxed);
        let (key, word) = self.site(spawned_at);
        let site = SpawnSite::from_word(word.load(Relaxed));
        let found = match site.key == key {
            true => SpawnSite { slow: site.slow + 1, ..site },
            // One slow task says little.
            false => SpawnSite { key, slow: 1, given: RARE },
        };
        word.store(found.word(), Relaxed);
    }

    /// Forgets the names: a task that was slow then may be quick now.
    pub fn clear(&self) {
        self.names.iter().for_each(|name| name.store(0, Relaxed));
    }

    fn has_name(&self, name: u64) -> bool {
        place(&self.names, name).load(Relaxed) == name
    }

    fn has_site(&self, spawned_at: &'static Location<'static>) -> bool {
        let (key, word) = self.site(spawned_at);
        let site = SpawnSite::from_word(word.load(Relaxed));
        site.key == key && site.is_slow()
    }

    /// The place's key, and its word.
    fn site(&self, spawned_at: &'static Location<'static>) -> (u64, &AtomicU64) {
        let key = ptr::from_ref(spawned_at).addr() as u64 & (u64::MAX >> 16);
        (key, place(&self.sites, key))
    }
}

/// The word for `key`. Threads hand out names one by one, from blocks of their own. The upper bits of this
/// product depend on all bits of the key.
fn place(words: &[AtomicU64], key: u64) -> &AtomicU64 {
    let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    &words[mixed as usize % words.len()]
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn names_from_the_blocks_of_several_threads_do_not_share_a_place() {
        const BLOCK: u64 = 1 << 16;
        let slow = SlowTasks::new();
        let names = || (0..16).flat_map(|thread| (1..=4).map(move |nth| thread * BLOCK + nth));
        names().for_each(|name| slow.insert(name, Location::caller()));
        let forgotten = names().filter(|&name| !slow.has_name(name)).count();
        assert!(forgotten <= 8, "{forgotten} of {} names are forgotten", names().count());
    }

    fn there() -> &'static Location<'static> {
        Location::caller()
    }

    #[test]
    fn a_place_is_slow_while_one_of_sixteen_of_its_tasks_is() {
        let slow = SlowTasks::new();
        let (here, there) = (Location::caller(), there());
        slow.insert(1, here);
        assert!(!slow.has_site(here), "one slow task says little");
        slow.insert(1, here);
        assert!(!slow.has_site(here), "it is the same task");
        slow.insert(2, here);
        assert!(slow.has_site(here));
        let given = |times| {
            let (key, word) = slow.site(here);
            for _ in 0..times {
                let site = SpawnSite::from_word(word.load(Relaxed));
                word.store(SpawnSite { given: site.given + 1, ..site }.word(), Relaxed);
            }
            assert_eq!(SpawnSite::from_word(word.load(Relaxed)).key, key);
        };
        given(16);
        assert!(!slow.has_site(here));
        (3..10_000).for_each(|name| slow.insert(name, here));
        assert!(slow.has_site(here));
        given(10_000);
        assert!(!slow.has_site(here));
        assert!(!slow.has_site(there));
        slow.clear();
        assert!(!slow.has_name(9_999));
    }
}
