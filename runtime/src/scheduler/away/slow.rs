//! Which tasks are likely to compute for long in their next poll: hints for the sorting in `next_work.rs`.
//!
//! The monitor finds a task inside of a long poll, and remembers its name. A task that was found twice is
//! slow, until one of its polls is seen to be short. Once is not enough: of a connection's requests one in
//! ten may compute, and then the task's next poll is most likely a short one. A task of which a short poll
//! was seen is quick, until it is found twice.
//!
//! But a program may spawn new tasks all the time, as a database does for each query, and each of them is
//! unknown at first. So the place that spawned the task is remembered, too, with two counts: how many unknown
//! tasks were found inside of long polls, and of how many a short poll was seen. If more than one in [`RARE`]
//! was found, all tasks of the place are slow, but for those known to be quick: a program may spawn all of
//! its tasks in one place. A place begins with [`PRIOR`] short polls, so that a few tasks that compute do not
//! make those slow that do not. Every [`PROBE`]th task of a slow place goes to the serving worker all the
//! same, so a place that has become quick is found.
//!
//! Polls are seen by workers whose stride is one poll: a worker that serves, one that has taken a slow task,
//! and one whose polls are long (`turns.rs`). When no spare worker serves any more, the names are forgotten.
//! The places stay.
//!
//! Only hints: any thread may overwrite what another has just written, and two names or places may want the
//! same word.

use std::panic::Location;
use std::ptr;
use std::time::Duration;

use crate::loom::SLOW_TASKS;
use crate::loom::sync::atomic::AtomicU64;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::task::Runnable;

/// How many places that spawn are remembered.
const SITES: usize = SLOW_TASKS.div_ceil(8);
/// A place is slow if more than one task in so many is.
const RARE: u64 = 4;
/// How many short polls of a place are assumed.
const PRIOR: u64 = 24;
/// A serving worker may take polls that are no longer.
const SHORT: Duration = Duration::from_micros(500);
/// How many tasks of a slow place are kept from the serving worker for each that it is given.
pub const PROBE: usize = 32;
/// The largest count.
const MOST: u64 = u8::MAX as u64;

/// What is known of a task by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    Nothing,
    /// It was found inside of a long poll.
    Found,
    /// It was found again, and no poll between was seen to be short.
    Slow,
    /// A poll was seen to be short.
    Quick,
    /// It was quick, and was found inside of a long poll since.
    Doubted,
}

impl Known {
    fn from_word(word: u64) -> Self {
        let all = [Self::Nothing, Self::Found, Self::Slow, Self::Quick, Self::Doubted];
        all.get(word as usize & 7).copied().unwrap_or(Self::Nothing)
    }

    /// What becomes of it if the task is found inside of a long poll.
    fn when_found(self) -> Self {
        match self {
            Self::Nothing => Self::Found,
            Self::Quick => Self::Doubted,
            Self::Found | Self::Slow | Self::Doubted => Self::Slow,
        }
    }
}

/// The names of tasks that were found to compute for long, and the places that spawn such tasks.
#[derive(Debug)]
pub struct SlowTasks {
    /// Each word eight times a name, and what is [`Known`].
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
    long: u64,
    short: u64,
}

impl SpawnSite {
    fn from_word(word: u64) -> Self {
        Self { key: word >> 16, long: word >> 8 & MOST, short: word & MOST }
    }

    /// Both counts are halved before one of them is too large.
    fn word(self) -> u64 {
        let halve = u32::from(self.long > MOST || self.short > MOST);
        self.key << 16 | (self.long >> halve) << 8 | self.short >> halve
    }

    fn is_slow(self) -> bool {
        self.long * RARE > self.long + self.short
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

    /// Whether the task itself was found to.
    pub fn contains_name(&self, task: &Runnable) -> bool {
        self.known(task.id()) == Known::Slow
    }

    /// Whether other tasks of its place were found to, and the task itself is not known to be quick.
    pub fn contains_site(&self, task: &Runnable) -> bool {
        let is_quick = || matches!(self.known(task.id()), Known::Quick | Known::Doubted);
        self.has_site(task.spawned_at()) && !is_quick()
    }

    /// Notes that one poll of a task took so long.
    pub fn was_polled(&self, name: u64, spawned_at: &'static Location<'static>, taken: Duration) {
        let known = self.known(name);
        if taken > SHORT || known == Known::Quick {
            return;
        }
        self.learn(name, Known::Quick);
        let (key, word) = self.site(spawned_at);
        let site = SpawnSite::from_word(word.load(Relaxed));
        // Nothing slow is known of other places.
        if site.key == key && matches!(known, Known::Nothing | Known::Found) {
            word.store(SpawnSite { short: site.short + 1, ..site }.word(), Relaxed);
        }
    }

    /// Notes that a task was found inside of a long poll. Called once for each poll.
    pub fn insert(&self, name: u64, spawned_at: &'static Location<'static>) {
        let known = self.known(name);
        self.learn(name, known.when_found());
        if known != Known::Nothing {
            return;
        }
        let (key, word) = self.site(spawned_at);
        let site = SpawnSite::from_word(word.load(Relaxed));
        let site = if site.key == key { site } else { SpawnSite { key, long: 0, short: PRIOR } };
        word.store(SpawnSite { long: site.long + 1, ..site }.word(), Relaxed);
    }

    /// Forgets the names: a task that was slow then may be quick now.
    pub fn clear(&self) {
        self.names.iter().for_each(|name| name.store(0, Relaxed));
    }

    fn known(&self, name: u64) -> Known {
        let word = place(&self.names, name).load(Relaxed);
        if word >> 3 == name { Known::from_word(word) } else { Known::Nothing }
    }

    fn learn(&self, name: u64, known: Known) {
        let word = place(&self.names, name);
        // A quick task does not take the word of a slow one.
        let present = word.load(Relaxed);
        if known != Known::Quick || present >> 3 == name || Known::from_word(present) != Known::Slow {
            word.store(name << 3 | known as u64, Relaxed);
        }
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
    use std::ops::Range;

    use super::*;

    #[test]
    fn names_from_the_blocks_of_several_threads_do_not_share_a_place() {
        const BLOCK: u64 = 1 << 16;
        let slow = SlowTasks::new();
        let names = || (0..16).flat_map(|thread| (1..=4).map(move |nth| thread * BLOCK + nth));
        names().for_each(|name| slow.insert(name, Location::caller()));
        let forgotten = names().filter(|&name| slow.known(name) == Known::Nothing).count();
        assert!(forgotten <= 8, "{forgotten} of {} names are forgotten", names().count());
    }

    fn there() -> &'static Location<'static> {
        Location::caller()
    }

    #[test]
    fn a_task_is_slow_that_was_found_twice_until_a_poll_is_short() {
        let slow = SlowTasks::new();
        let here = Location::caller();
        slow.insert(1, here);
        assert_eq!(slow.known(1), Known::Found, "one long poll says little");
        slow.insert(1, here);
        slow.was_polled(1, here, 2 * SHORT);
        assert_eq!(slow.known(1), Known::Slow);
        slow.was_polled(1, here, SHORT);
        assert_eq!(slow.known(1), Known::Quick);
        slow.insert(1, here);
        assert_eq!(slow.known(1), Known::Doubted);
        slow.was_polled(1, here, SHORT);
        assert_eq!(slow.known(1), Known::Quick);
        (0..2).for_each(|_| slow.insert(1, here));
        assert_eq!(slow.known(1), Known::Slow);
        slow.clear();
        assert_eq!(slow.known(1), Known::Nothing);
    }

    #[test]
    fn a_quick_task_does_not_take_the_word_of_a_slow_one() {
        let slow = SlowTasks::new();
        let here = Location::caller();
        let shares = |&name: &u64| ptr::eq(place(&slow.names, name), place(&slow.names, 1));
        let other = (2..).find(shares).expect("there are fewer words than names");
        (0..2).for_each(|_| slow.insert(1, here));
        slow.was_polled(other, here, SHORT);
        assert_eq!((slow.known(1), slow.known(other)), (Known::Slow, Known::Nothing));
        slow.insert(other, here);
        assert_eq!((slow.known(1), slow.known(other)), (Known::Nothing, Known::Found));
    }

    #[test]
    fn a_place_is_slow_while_more_than_one_of_four_unknown_tasks_is() {
        let slow = SlowTasks::new();
        let (here, there) = (Location::caller(), there());
        let found = |names: Range<u64>| names.for_each(|name| slow.insert(name, here));
        let polled = |names: Range<u64>, taken| names.for_each(|name| slow.was_polled(name, here, taken));
        polled(1..100, SHORT);
        found(1_000..1_008);
        (0..100).for_each(|_| found(1_000..1_008));
        assert!(!slow.has_site(here), "they are few");
        found(1_008..1_009);
        assert!(slow.has_site(here) && !slow.has_site(there));
        polled(2_000..2_003, SHORT);
        assert!(!slow.has_site(here), "9 of 36");
        (0..100).for_each(|_| found(2_000..2_003));
        assert!(!slow.has_site(here), "they were known");
        found(3_000..13_000);
        assert!(slow.has_site(here));
        polled(20_000..30_000, 2 * SHORT);
        assert!(slow.has_site(here));
        slow.clear();
        polled(20_000..30_000, SHORT);
        assert!(!slow.has_site(here));
    }
}
