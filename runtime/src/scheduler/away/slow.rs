//! Which tasks are likely to compute for long in their next poll: hints for the sorting in `next_work.rs`.
//!
//! The ids of tasks, here called their *names*, are remembered, and how long their last polls were. A task
//! with two long polls in a row is slow. One is not enough: of a connection's requests one in ten may
//! compute, and then the task's next poll is most likely a short one. A task with three short polls in a row
//! is quick, and then it takes two long ones to be slow. One short poll is not enough: the first poll of a
//! task that computes is often short, because it only waits for its input.
//!
//! But a program may spawn new tasks all the time, as a database does for each query, and each of them is
//! unknown at first. So the place that spawned the task is remembered, too, with two counts: of long and of
//! short polls. The polls of a task count until the first long one, or until the task is quick. If more than
//! one poll in [`RARE`] was long, all tasks of the place are slow, but for those known to be quick: a program
//! may spawn all of its tasks in one place. For the same reason a place begins with [`PRIOR`] short polls,
//! and a task counts only once as long. Otherwise a few tasks that compute would make the others slow. About
//! one in [`PROBE`] tasks of a slow place goes to a serving worker all the same, so a place that has become
//! quick is found. A task of a slow place that has waited for long is probed (`monitor/mod.rs`).
//!
//! Workers and the monitor see polls. While the monitor has seen long polls, a worker whose stride is one
//! poll measures that poll: a worker that serves, one that has taken a slow task, and one whose polls are
//! long (`turns.rs`). They count CPU time, because short polls last for milliseconds, too, on a busy machine.
//! The monitor finds tasks in the middle of long polls. A bit ([`IS_FOUND`]) says that it has found this
//! poll, so the worker that measures it does not count it again. When no spare worker serves any more, the
//! names are forgotten. The places stay.
//!
//! A name has one of [`WAYS`] neighbouring words. When a task that is quick is forgotten, and its place is
//! slow, it waits among the slow tasks until it is known again. With a single word for each name this hit
//! one request in a hundred, at 170 new tasks a second and 1024 words. So a new name takes the word that is
//! worth least. Names of tasks that have ended would keep their words for ever, so one new name in [`AGES`]
//! makes another name age.
//!
//! Only hints: any thread may overwrite what another has just written, and two places may want the same word.

use std::panic::Location;
use std::ptr;
use std::time::Duration;

use crate::loom::SLOW_TASKS;
use crate::loom::sync::atomic::AtomicU64;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::task::Runnable;

/// How many places that spawn are remembered.
const SITES: usize = SLOW_TASKS.div_ceil(8);
/// How many words a name may be in.
const WAYS: usize = if SLOW_TASKS < 8 { 1 } else { 8 };
/// A place is slow if more than one poll in so many was long.
const RARE: u64 = 4;
/// How many short polls of a place are assumed.
const PRIOR: u64 = 24;
/// The longest poll that counts as short.
const SHORT: Duration = Duration::from_micros(200);
/// Of so many tasks of a slow place, about one goes to a serving worker.
pub const PROBE: usize = 32;
/// The largest count.
const MOST: u64 = u8::MAX as u64;
/// One new name in so many makes another one age.
const AGES: u64 = 8;
/// Where the name begins in its word. Below it are [`Known`] and two bits of [`Remembered`].
const NAME_SHIFT: u32 = 5;
const IS_FOUND: u64 = 1 << 3;
const HAS_COUNTED: u64 = 1 << 4;

/// What is known of a task by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Known {
    #[default]
    Nothing,
    /// Its last poll was short.
    Short,
    /// Its last two polls were.
    ShortTwice,
    /// Its last three polls were, or it was quick before and has had no two long ones in a row since.
    Quick,
    /// It was quick, and its last poll was long.
    Doubted,
    /// Its last poll was long.
    Long,
    /// Its last two polls were.
    Slow,
}

impl Known {
    fn from_word(word: u64) -> Self {
        use Known::{Doubted, Long, Nothing, Quick, Short, ShortTwice, Slow};
        let all = [Nothing, Short, ShortTwice, Quick, Doubted, Long, Slow];
        all.get(word as usize & 7).copied().unwrap_or(Nothing)
    }

    fn after_short(self) -> Self {
        match self {
            Self::Nothing | Self::Long | Self::Slow => Self::Short,
            Self::Short => Self::ShortTwice,
            Self::ShortTwice | Self::Quick | Self::Doubted => Self::Quick,
        }
    }

    fn after_long(self) -> Self {
        match self {
            Self::Nothing | Self::Short | Self::ShortTwice => Self::Long,
            Self::Quick => Self::Doubted,
            Self::Doubted | Self::Long | Self::Slow => Self::Slow,
        }
    }

    fn is_quick(self) -> bool {
        matches!(self, Self::Quick | Self::Doubted)
    }

    /// The name that is worth more stays. A long-lived task that is quick, but whose place is slow, would be
    /// kept from the serving workers if it were forgotten. Slow tasks of such a place end soon.
    fn worth(self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::Short | Self::ShortTwice | Self::Long => 1,
            Self::Slow => 2,
            Self::Quick | Self::Doubted => 3,
        }
    }

    /// One more poll makes a live task what it was. The name of an ended task is now among the first to go.
    fn aged(self) -> Self {
        match self {
            Self::Quick | Self::Doubted => Self::ShortTwice,
            Self::Slow => Self::Long,
            other => other,
        }
    }
}

/// What is remembered of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Remembered {
    known: Known,
    /// The monitor has found the task inside of a long poll, which no worker has measured.
    is_found: bool,
    /// A long poll of the task has counted for its place.
    has_counted: bool,
}

impl Remembered {
    fn from_word(word: u64) -> Self {
        Self {
            known: Known::from_word(word),
            is_found: word & IS_FOUND != 0,
            has_counted: word & HAS_COUNTED != 0,
        }
    }

    fn word(self, name: u64) -> u64 {
        let found = if self.is_found { IS_FOUND } else { 0 };
        let counted = if self.has_counted { HAS_COUNTED } else { 0 };
        name << NAME_SHIFT | counted | found | self.known as u64
    }
}

fn is_of(word: u64, name: u64) -> bool {
    word >> NAME_SHIFT == name
}

/// What is known of tasks, and of the places that spawn them.
#[derive(Debug)]
pub struct SlowTasks {
    /// Each word a name and a [`Remembered`].
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

impl Default for SlowTasks {
    fn default() -> Self {
        let words = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        Self { names: words(SLOW_TASKS), sites: words(SITES) }
    }
}

impl SlowTasks {
    /// Whether the task is likely to compute for long.
    pub fn contains(&self, task: &Runnable) -> bool {
        self.is_slow(task.id()) || self.contains_site(task)
    }

    /// Whether the task's last two polls were long.
    pub fn is_slow(&self, name: u64) -> bool {
        self.known(name) == Known::Slow
    }

    /// Whether the place that spawned the task is slow, and the task is not known to be quick.
    pub fn contains_site(&self, task: &Runnable) -> bool {
        self.has_site(task.spawned_at()) && !self.known(task.id()).is_quick()
    }

    /// A worker has measured a poll of a task: how long it has taken, and how much CPU time it had.
    pub fn was_polled(
        &self,
        name: u64,
        spawned_at: &'static Location<'static>,
        taken: Duration,
        computed: Duration,
    ) {
        let before = self.recall(name);
        let is_long = computed > SHORT;
        // A poll that has waited for a CPU, or for anything else, says nothing.
        let says_nothing = !is_long && taken > SHORT;
        let after = match is_long && before.is_found || says_nothing {
            true => Remembered { is_found: false, ..before },
            false => self.after_poll(before, spawned_at, is_long),
        };
        if after != before {
            self.remember(name, after);
        }
    }

    /// The monitor has found a task inside of a long poll. Called once for each poll.
    pub fn insert(&self, name: u64, spawned_at: &'static Location<'static>) {
        let after = self.after_poll(self.recall(name), spawned_at, true);
        self.remember(name, Remembered { is_found: true, ..after });
    }

    /// Counts the poll for the place that spawned the task, unless the task counts no more.
    fn after_poll(
        &self,
        before: Remembered,
        spawned_at: &'static Location<'static>,
        is_long: bool,
    ) -> Remembered {
        let known = if is_long { before.known.after_long() } else { before.known.after_short() };
        let counts = !before.has_counted && !before.known.is_quick();
        if counts {
            self.count(spawned_at, is_long);
        }
        Remembered { known, is_found: false, has_counted: before.has_counted || counts && is_long }
    }

    fn count(&self, spawned_at: &'static Location<'static>, is_long: bool) {
        let (key, word) = self.site(spawned_at);
        let site = SpawnSite::from_word(word.load(Relaxed));
        // Nothing slow is known of places that have no word.
        let site = match (site.key == key, is_long) {
            (true, true) => SpawnSite { long: site.long + 1, ..site },
            (true, false) => SpawnSite { short: site.short + 1, ..site },
            (false, true) => SpawnSite { key, long: 1, short: PRIOR },
            (false, false) => return,
        };
        word.store(site.word(), Relaxed);
    }

    /// Forgets the names: a task that was slow then may be quick now.
    pub fn clear(&self) {
        self.names.iter().for_each(|name| name.store(0, Relaxed));
    }

    fn known(&self, name: u64) -> Known {
        self.recall(name).known
    }

    fn recall(&self, name: u64) -> Remembered {
        let word = self.words(name).iter().map(|word| word.load(Relaxed)).find(|&word| is_of(word, name));
        word.map_or(Remembered::default(), Remembered::from_word)
    }

    fn remember(&self, name: u64, remembered: Remembered) {
        // The name's own word, or the one that is worth least, or of these the oldest.
        let order = |word: &&AtomicU64| match word.load(Relaxed) {
            present if is_of(present, name) => None,
            present => Some((Remembered::from_word(present).known.worth(), present >> NAME_SHIFT)),
        };
        let words = self.words(name);
        let Some(word) = words.iter().min_by_key(order) else { return };
        let is_new = !is_of(word.load(Relaxed), name);
        word.store(remembered.word(name), Relaxed);
        if is_new && name % AGES == 0 {
            let word = &words[(name / AGES) as usize % words.len()];
            let present = word.load(Relaxed);
            let remembered = Remembered::from_word(present);
            word.store(
                Remembered { known: remembered.known.aged(), ..remembered }.word(present >> NAME_SHIFT),
                Relaxed,
            );
        }
    }

    /// The words in which `name` may be.
    fn words(&self, name: u64) -> &[AtomicU64] {
        let set = hash(name) % (self.names.len() / WAYS);
        &self.names[set * WAYS..][..WAYS]
    }

    fn has_site(&self, spawned_at: &'static Location<'static>) -> bool {
        let (key, word) = self.site(spawned_at);
        let site = SpawnSite::from_word(word.load(Relaxed));
        site.key == key && site.is_slow()
    }

    /// The place's key, and its word.
    fn site(&self, spawned_at: &'static Location<'static>) -> (u64, &AtomicU64) {
        let key = ptr::from_ref(spawned_at).addr() as u64 & (u64::MAX >> 16);
        (key, &self.sites[hash(key) % self.sites.len()])
    }
}

/// Threads hand out names one by one, from blocks of their own. The upper bits of this product depend on all
/// bits of the key.
fn hash(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::scheduler::shared::tests::NoThreads;

    #[test]
    fn the_counts_of_a_place_are_halved_when_one_is_too_large() {
        let packed = |long, short| {
            let site = SpawnSite::from_word(SpawnSite { key: 0xabc, long, short }.word());
            assert_eq!(site.key, 0xabc);
            (site.long, site.short)
        };
        assert_eq!(packed(MOST, MOST), (MOST, MOST));
        assert_eq!(packed(MOST + 1, 8), (MOST / 2 + 1, 4));
        assert_eq!(packed(8, MOST + 1), (4, MOST / 2 + 1));
        assert_eq!(packed(3, 5), (3, 5));
    }

    #[test]
    fn names_share_either_all_their_words_or_none() {
        let slow = SlowTasks::default();
        let first_of = |name| slow.words(name).as_ptr().addr();
        let mut firsts: Vec<_> = (0..10_000).map(first_of).collect();
        firsts.sort_unstable();
        firsts.dedup();
        let size = WAYS * size_of::<AtomicU64>();
        assert!(firsts.windows(2).all(|pair| pair[1] - pair[0] >= size));
        assert_eq!(firsts.len(), SLOW_TASKS / WAYS, "all words are used");
    }

    #[test]
    fn a_task_is_known_by_its_name_or_by_its_place() {
        let (runtime, slow) = (NoThreads::new(1), SlowTasks::default());
        let [task, sibling] = [(); 2].map(|()| runtime.task());
        let known = |task| (slow.contains(task), slow.contains_site(task));
        assert_eq!(known(&task), (false, false));
        (0..2).for_each(|_| slow.insert(task.id(), Location::caller()));
        assert_eq!((known(&task), known(&sibling)), ((true, false), (false, false)));
        // Other tasks of the place.
        (1..100).for_each(|other| slow.insert(sibling.id() + other, sibling.spawned_at()));
        assert_eq!((known(&task), known(&sibling)), ((true, true), (true, true)));
        (0..3).for_each(|_| slow.was_polled(sibling.id(), sibling.spawned_at(), SHORT, SHORT));
        assert_eq!(known(&sibling), (false, false), "it is quick");
        [task, sibling].into_iter().for_each(|task| task.cancel());
    }

    #[test]
    fn names_from_the_blocks_of_several_threads_are_all_remembered() {
        const BLOCK: u64 = 1 << 16;
        let slow = SlowTasks::default();
        let names = || (0..16).flat_map(|thread| (1..=4).map(move |nth| thread * BLOCK + nth));
        names().for_each(|name| slow.insert(name, Location::caller()));
        assert_eq!(names().filter(|&name| slow.known(name) == Known::Nothing).count(), 0);
    }

    fn there() -> &'static Location<'static> {
        Location::caller()
    }

    /// A poll of task `name` that was not interrupted.
    fn poll(slow: &SlowTasks, name: u64, taken: Duration) {
        slow.was_polled(name, Location::caller(), taken, taken);
    }

    /// Polls task 1 as often as `polls` says, each short or long, and returns what is known of it then.
    fn after(slow: &SlowTasks, polls: &[bool]) -> Known {
        polls.iter().for_each(|&is_long| {
            poll(slow, 1, if is_long { 2 * SHORT } else { SHORT });
        });
        slow.known(1)
    }

    #[test]
    fn a_task_is_slow_after_two_long_polls_in_a_row_and_quick_after_three_short_ones() {
        let slow = SlowTasks::default();
        assert_eq!(after(&slow, &[true]), Known::Long, "one long poll says little");
        assert_eq!(after(&slow, &[true]), Known::Slow);
        assert_eq!(after(&slow, &[false]), Known::Short);
        assert_eq!(after(&slow, &[true, false, false]), Known::ShortTwice, "not in a row");
        assert_eq!(after(&slow, &[false]), Known::Quick);
        assert_eq!(after(&slow, &[true]), Known::Doubted);
        assert_eq!(after(&slow, &[false]), Known::Quick, "one long poll of a quick task says nothing");
        assert_eq!(after(&slow, &[true, true]), Known::Slow);
        slow.clear();
        assert_eq!(slow.known(1), Known::Nothing);
    }

    #[test]
    fn a_poll_that_the_monitor_has_found_is_not_counted_again() {
        let slow = SlowTasks::default();
        slow.insert(1, Location::caller());
        assert_eq!(after(&slow, &[true]), Known::Long, "it is the same poll");
        assert_eq!(after(&slow, &[true]), Known::Slow, "it is the next one");
        slow.insert(1, Location::caller());
        assert_eq!(after(&slow, &[false]), Known::Short, "no worker has measured the poll that was found");
        assert_eq!(after(&slow, &[true]), Known::Long);
    }

    /// Names that share their words.
    fn names_of_a_set() -> impl Iterator<Item = u64> {
        let set = |name| hash(name) % (SLOW_TASKS / WAYS);
        (1..).filter(move |&name| set(name) == set(1))
    }

    #[test]
    fn a_new_name_takes_the_word_that_is_worth_least() {
        let slow = SlowTasks::default();
        let polled = |name, polls| (0..polls).for_each(|_| poll(&slow, name, SHORT));
        let mut names = names_of_a_set().filter(|name| name % AGES != 0);
        let mut next = || names.next().expect("there are fewer words than names");
        let (first_slow, quick) = (next(), next());
        (0..2).for_each(|_| slow.insert(first_slow, Location::caller()));
        polled(quick, 3);
        let others: Vec<_> = (2..WAYS).map(|_| next()).collect();
        others.iter().for_each(|&name| polled(name, 1));
        assert!(others.iter().all(|&name| slow.known(name) == Known::Short), "there is a word for each");
        let more: Vec<_> = (0..1_000).map(|_| next()).collect();
        more.iter().for_each(|&name| polled(name, 1));
        assert_eq!((slow.known(first_slow), slow.known(quick)), (Known::Slow, Known::Quick));
        let newest = &more[more.len() - others.len()..];
        assert!(newest.iter().all(|&name| slow.known(name) == Known::Short), "the oldest go");
        newest.iter().for_each(|&name| polled(name, 2));
        assert_eq!((slow.known(first_slow), slow.known(quick)), (Known::Slow, Known::Quick));
        polled(next(), 1);
        assert_eq!((slow.known(first_slow), slow.known(quick)), (Known::Nothing, Known::Quick));
    }

    #[test]
    fn names_that_were_quick_age() {
        let slow = SlowTasks::default();
        let mut names = names_of_a_set();
        let mut next = || names.next().expect("there are fewer words than names");
        let ended: Vec<_> = (0..WAYS).map(|_| next()).collect();
        ended.iter().for_each(|&name| (0..3).for_each(|_| poll(&slow, name, SHORT)));
        (0..1_000).for_each(|_| poll(&slow, next(), SHORT));
        assert!(ended.iter().all(|&name| slow.known(name) == Known::Nothing));
        let live = [next(), next()];
        (0..3).for_each(|_| live.iter().for_each(|&name| poll(&slow, name, SHORT)));
        assert_eq!(live.map(|name| slow.known(name)), [Known::Quick; 2]);
    }

    #[test]
    fn a_place_is_slow_while_more_than_one_of_four_polls_is_long() {
        let slow = SlowTasks::default();
        let (here, there) = (Location::caller(), there());
        let polled =
            |names: Range<u64>, taken| names.for_each(|name| slow.was_polled(name, here, taken, taken));
        polled(1..100, SHORT);
        (0..8).for_each(|name| slow.insert(name, here));
        assert!(!slow.has_site(here), "8 of 32: they are few");
        slow.insert(9, here);
        assert!(slow.has_site(here) && !slow.has_site(there));
        polled(2_000..2_003, SHORT);
        assert!(!slow.has_site(here), "9 of 36");
        polled(3_000..13_000, 2 * SHORT);
        assert!(slow.has_site(here));
        slow.clear();
        polled(20_000..30_000, SHORT);
        assert!(!slow.has_site(here));
    }

    #[test]
    fn a_place_counts_the_polls_of_a_task_until_the_first_long_one_or_until_it_is_quick() {
        let slow = SlowTasks::default();
        let here = Location::caller();
        let counts = || {
            let site = SpawnSite::from_word(slow.site(here).1.load(Relaxed));
            (site.long, site.short - PRIOR)
        };
        let polls = |name, count, taken| (0..count).for_each(|_| slow.was_polled(name, here, taken, taken));
        (0..20).for_each(|_| {
            polls(1, 1, 2 * SHORT);
            polls(1, 1, SHORT);
        });
        assert_eq!(counts(), (1, 0), "one task counts once as long");
        polls(2, 100, SHORT);
        assert_eq!(counts(), (1, 3), "after three short polls it is quick");
        polls(2, 1, 2 * SHORT);
        assert_eq!(counts(), (1, 3), "a quick task has one long poll now and then");
    }

    #[test]
    fn a_poll_that_has_waited_says_nothing() {
        let slow = SlowTasks::default();
        slow.was_polled(1, Location::caller(), 2 * SHORT, SHORT);
        assert_eq!(slow.known(1), Known::Nothing);
    }
}
