//! The blocking pool: no closure waits while a thread of the pool sleeps or could be started, and each
//! closure is run once.
//!
//! Closures that *block* never end: a thread that takes such a closure is stuck with it. So if all closures
//! are taken in the end, any number of closures up to the bound may wait for each other. A thread that would
//! sleep ends instead. After all threads have ended, the unparked threads live on, one after the other. Then
//! no closure may be left.
//!
//! Bounds: up to four threads beside the main one, up to three of them in the pool; three closures.

mod twin;

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::{AcqRel, Relaxed};
use runtime::internals::blocking::{self, PoolQueue, PoolThread, Refused};

use super::item::{Item, Items};
use super::once_built::model;
use super::once_built::thread::{self, JoinHandle};
use twin::{Fault, Twin};

/// The interface of the real protocol and its twins. Closures and threads are numbers.
trait Protocol: Send + Sync + 'static {
    fn submit(&self, closure: usize) -> PendingWake;
    fn arrive(&self) -> PendingWake;
    fn next(&self, own: usize, is_overdue: bool) -> Next;
    fn refused(&self, refused: Refused) -> (PendingWake, Vec<usize>);
    /// The numbers of threads, of idle threads, and of closures that wait.
    fn counts(&self) -> (usize, usize, usize);
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum PendingWake {
    Nothing,
    Wake(usize),
    Start,
}

enum Next {
    Run(usize, PendingWake),
    Sleep,
    Leave,
}

/// The real protocol.
struct Real {
    queue: PoolQueue<Item>,
    items: Items,
    threads: Vec<Arc<PoolThread>>,
}

impl Real {
    fn new(most: usize, closures: usize) -> Self {
        Self {
            queue: PoolQueue::new(most),
            items: Items::new(closures),
            // One more than the bound, because a thread may start after another has left.
            threads: (0..=most).map(|_| PoolThread::new()).collect(),
        }
    }

    fn pending(&self, pending: blocking::PendingWake) -> PendingWake {
        match pending {
            blocking::PendingWake::Nothing => PendingWake::Nothing,
            blocking::PendingWake::Start => PendingWake::Start,
            blocking::PendingWake::Wake(thread) => {
                let index = self.threads.iter().position(|other| Arc::ptr_eq(other, &thread));
                PendingWake::Wake(index.expect("a thread of this queue"))
            }
        }
    }
}

impl Protocol for Real {
    fn submit(&self, closure: usize) -> PendingWake {
        // SAFETY: each closure is submitted once, and items live as long as `self`.
        let pending = unsafe { self.queue.submit(self.items.make(closure)) };
        self.pending(pending.expect("it is not closed"))
    }

    fn arrive(&self) -> PendingWake {
        self.pending(self.queue.arrive())
    }

    fn next(&self, own: usize, is_overdue: bool) -> Next {
        match self.queue.next(&self.threads[own], is_overdue) {
            blocking::Next::Run(item, pending) => Next::Run(self.items.take(item), self.pending(pending)),
            blocking::Next::Sleep => Next::Sleep,
            blocking::Next::Leave => Next::Leave,
        }
    }

    fn refused(&self, refused: Refused) -> (PendingWake, Vec<usize>) {
        let (pending, mut closures) = self.queue.refused(refused);
        let closures = std::iter::from_fn(|| closures.pop_front()).map(|item| self.items.take(item));
        (self.pending(pending), closures.collect())
    }

    fn counts(&self) -> (usize, usize, usize) {
        let counts = self.queue.counts();
        (counts.threads, counts.idle, counts.queued)
    }
}

/// The beginning of a model, and the events in it.
#[derive(Clone, Copy)]
struct Setting {
    most: usize,
    /// The number of threads that are asleep at the beginning.
    idle: usize,
    /// The number of threads that are about to end a closure at the beginning.
    working: usize,
    /// The keep-alive time is over as soon as a thread becomes idle, once for each thread.
    is_impatient: bool,
    /// Closures never end.
    blocks: bool,
    /// The number of starts that the system refuses.
    refusals: usize,
    /// The number of threads that have arrived, as helpers, and cannot be named.
    nameless: usize,
    /// A thread that is started never comes back from its name or its hook.
    hangs: bool,
    /// The numbers of closures that the main thread and another thread submit.
    submits: (usize, usize),
}

const CALM: Setting = Setting {
    most: 2,
    idle: 0,
    working: 0,
    is_impatient: false,
    blocks: false,
    refusals: 0,
    nameless: 0,
    hangs: false,
    submits: (1, 1),
};

struct World<P> {
    queue: P,
    setting: Setting,
    /// Set by unparking.
    tokens: Vec<AtomicBool>,
    // The rest is the model's own, so it uses no atomics and locks of loom's.
    threads: AtomicUsize,
    refusals: AtomicUsize,
    nameless: AtomicUsize,
    started: Mutex<Vec<JoinHandle<Life>>>,
    /// The closures that failed.
    failed: Mutex<Vec<usize>>,
}

/// The life of a thread: its number, the closures that it took, how it ended.
struct Life {
    own: usize,
    taken: Vec<usize>,
    end: End,
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    Asleep,
    Stuck,
    Gone,
}

#[derive(Clone, Copy, PartialEq)]
enum Begin {
    Started,
    Working,
    /// The thread was asleep. Its keep-alive time is over, or it was chosen.
    Woken {
        is_overdue: bool,
    },
}

impl<P: Protocol> World<P> {
    fn new(queue: P, setting: Setting) -> Arc<Self> {
        Arc::new(Self {
            queue,
            setting,
            tokens: (0..=setting.most).map(|_| AtomicBool::new(false)).collect(),
            threads: AtomicUsize::new(0),
            refusals: AtomicUsize::new(setting.refusals),
            nameless: AtomicUsize::new(setting.nameless),
            started: Mutex::new(Vec::new()),
            failed: Mutex::new(Vec::new()),
        })
    }

    fn submit(self: &Arc<Self>, closure: usize) {
        let pending = self.queue.submit(closure);
        self.perform(pending);
    }

    fn perform(self: &Arc<Self>, pending: PendingWake) {
        match pending {
            PendingWake::Nothing => {}
            PendingWake::Wake(index) => _ = self.tokens[index].swap(true, AcqRel),
            PendingWake::Start => {
                if one_less(&self.refusals) {
                    return self.refused(Refused::Coming);
                }
                let own = self.threads.fetch_add(1, Relaxed);
                let world = self.clone();
                let thread = thread::spawn(move || world.live(own, Begin::Started));
                self.started.lock().unwrap().push(thread);
            }
        }
    }

    fn refused(self: &Arc<Self>, refused: Refused) {
        let (pending, failed) = self.queue.refused(refused);
        self.failed.lock().unwrap().extend(failed);
        self.perform(pending);
    }

    /// The helper that names a thread and the thread itself are one here: the one ends with the start of the
    /// other.
    fn live(self: &Arc<Self>, own: usize, begin: Begin) -> Life {
        let mut taken = Vec::new();
        let mut is_impatient = self.setting.is_impatient && !matches!(begin, Begin::Woken { .. });
        let mut is_overdue = begin == Begin::Woken { is_overdue: true };
        if begin == Begin::Started {
            self.perform(self.queue.arrive());
            if self.setting.hangs {
                return Life { own, taken, end: End::Stuck };
            }
            if one_less(&self.nameless) {
                self.refused(Refused::Starting);
                return Life { own, taken, end: End::Gone };
            }
        }
        loop {
            match self.queue.next(own, std::mem::take(&mut is_overdue)) {
                Next::Run(closure, pending) => {
                    self.perform(pending);
                    taken.push(closure);
                    if self.setting.blocks {
                        return Life { own, taken, end: End::Stuck };
                    }
                }
                Next::Leave => return Life { own, taken, end: End::Gone },
                Next::Sleep if self.tokens[own].swap(false, AcqRel) => {}
                Next::Sleep if std::mem::take(&mut is_impatient) => is_overdue = true,
                Next::Sleep => return Life { own, taken, end: End::Asleep },
            }
        }
    }

    /// Starts the threads that exist at the beginning, each with a closure of its own. Returns the number of
    /// these closures.
    fn prepare(self: &Arc<Self>) -> usize {
        let Setting { idle, working, .. } = self.setting;
        for closure in 0..idle + working {
            assert_eq!(self.queue.submit(closure), PendingWake::Start);
            let own = self.threads.fetch_add(1, Relaxed);
            assert_eq!(own, closure);
            assert_eq!(self.queue.arrive(), PendingWake::Nothing);
            let next = self.queue.next(own, false);
            assert!(matches!(next, Next::Run(found, PendingWake::Nothing) if found == closure));
        }
        for own in 0..idle {
            assert!(matches!(self.queue.next(own, false), Next::Sleep));
        }
        idle + working
    }

    /// After all threads have ended, the unparked threads live on, until all sleep or are stuck. Then no
    /// closure may be left.
    fn settle(self: &Arc<Self>, mut lives: Vec<Life>, before: usize) {
        loop {
            let started = std::mem::take(&mut *self.started.lock().unwrap());
            if !started.is_empty() {
                lives.extend(started.into_iter().map(|thread| thread.join().unwrap()));
                continue;
            }
            let is_woken = |life: &Life| life.end == End::Asleep && self.tokens[life.own].swap(false, AcqRel);
            let Some(index) = lives.iter().position(is_woken) else {
                break;
            };
            let more = self.live(lives[index].own, Begin::Woken { is_overdue: false });
            lives[index].taken.extend(more.taken);
            lives[index].end = more.end;
        }
        let (main, other) = self.setting.submits;
        let mut ran: Vec<_> = lives.iter().flat_map(|life| life.taken.iter().copied()).collect();
        ran.extend(self.failed.lock().unwrap().drain(..));
        ran.sort_unstable();
        let closures: Vec<_> = (before..before + main + other).collect();
        let left: Vec<_> = closures.iter().filter(|closure| !ran.contains(closure)).collect();
        assert!(left.is_empty(), "closures are left: {left:?}");
        assert_eq!(ran, closures, "a closure ran twice");
        let count = |end| lives.iter().filter(|life| life.end == end).count();
        let live = lives.len() - count(End::Gone);
        assert_eq!(self.queue.counts(), (live, count(End::Asleep), 0), "the numbers are wrong at rest");
    }
}

/// Takes one from `left`. Returns whether there was one.
fn one_less(left: &AtomicUsize) -> bool {
    left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
}

fn check<P: Protocol>(setting: Setting, protocol: impl Fn(usize, usize) -> P + Send + Sync + 'static) {
    model(move || {
        let Setting { idle, working, submits: (main, other), .. } = setting;
        let queue = protocol(setting.most, idle + working + main + other);
        let world = World::new(queue, setting);
        let before = world.prepare();
        let mut lives = Vec::new();
        let mut threads = Vec::new();
        for own in 0..before {
            let begin = match own < idle {
                true if setting.is_impatient => Begin::Woken { is_overdue: true },
                true => {
                    lives.push(Life { own, taken: Vec::new(), end: End::Asleep });
                    continue;
                }
                false => Begin::Working,
            };
            let world = world.clone();
            threads.push(thread::spawn(move || world.live(own, begin)));
        }
        let submitter = (other > 0).then(|| {
            let world = world.clone();
            thread::spawn(move || (0..other).for_each(|i| world.submit(before + main + i)))
        });
        (0..main).for_each(|i| world.submit(before + i));
        submitter.into_iter().for_each(|thread| thread.join().unwrap());
        lives.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
        world.settle(lives, before);
    });
}

/// Closures that wait for each other, from two threads, into an empty pool.
const MEETING: Setting = Setting { most: 2, blocks: true, ..CALM };
/// Three closures that wait for each other; one thread sleeps already.
const LARGER_MEETING: Setting = Setting { most: 3, idle: 1, blocks: true, submits: (2, 1), ..CALM };
/// A sleeper's keep-alive time is over when closures come that wait for each other.
const MEETING_OF_THE_OVERDUE: Setting =
    Setting { most: 2, idle: 1, is_impatient: true, blocks: true, submits: (2, 0), ..CALM };
/// The bound is one thread, and that thread is about to run out of work.
const FULL_HOUSE: Setting = Setting { most: 1, working: 1, submits: (1, 1), ..CALM };
/// A thread runs out of work and takes the closure for which another thread is fetched.
const OVERTAKEN: Setting = Setting { most: 2, working: 1, submits: (2, 0), ..CALM };
/// The system refuses a thread while another runs out of work.
const REFUSED: Setting = Setting { most: 2, working: 1, refusals: 1, submits: (1, 1), ..CALM };
/// The system refuses a thread, but not the next one. A thread leaves meanwhile, or does not.
const REFUSED_ONCE: Setting =
    Setting { most: 3, working: 1, is_impatient: true, refusals: 1, submits: (2, 0), ..CALM };

/// A thread that was started hangs in its hook, while another runs out of work.
const HOOKED: Setting = Setting { most: 2, working: 1, hangs: true, submits: (2, 0), ..CALM };
/// A thread cannot be named while another runs out of work.
const NAMELESS: Setting = Setting { most: 2, working: 1, nameless: 1, submits: (1, 1), ..CALM };
/// The first thread cannot be named, but the next one can.
const NAMELESS_ONCE: Setting = Setting { most: 2, nameless: 1, ..CALM };

macro_rules! models {
    ($($name:ident: $setting:expr;)*) => {
        mod real {
            use super::*;
            $(#[test]
            fn $name() {
                check($setting, Real::new);
            })*
        }

        mod a_twin_without_a_fault {
            use super::*;
            $(#[test]
            fn $name() {
                check($setting, |most, _| Twin::new(most, Fault::None));
            })*
        }
    };
}

models! {
    closures_that_wait_for_each_other_all_run: MEETING;
    three_closures_that_wait_for_each_other_all_run: LARGER_MEETING;
    a_thread_whose_keep_alive_time_is_over_comes_if_it_was_chosen: MEETING_OF_THE_OVERDUE;
    a_full_house_runs_what_comes: FULL_HOUSE;
    a_thread_that_comes_for_nothing_can_be_fetched_again: OVERTAKEN;
    an_idle_thread_comes_in_place_of_a_refused_one: REFUSED;
    a_refused_thread_is_asked_for_again: REFUSED_ONCE;
    a_thread_that_hangs_in_its_hook_keeps_no_closure: HOOKED;
    another_thread_comes_in_place_of_one_that_cannot_be_named: NAMELESS;
    a_thread_that_could_not_be_named_is_asked_for_again: NAMELESS_ONCE;
}

macro_rules! refused {
    ($($name:ident: $setting:expr, $fault:ident, $text:literal;)*) => {$(
        #[test]
        #[should_panic(expected = $text)]
        fn $name() {
            check($setting, |most, _| Twin::new(most, Fault::$fault));
        }
    )*};
}

refused! {
    a_taker_that_fetches_nobody: LARGER_MEETING, FetchesNobody, "closures are left";
    a_sleeper_that_leaves_though_it_was_chosen: MEETING_OF_THE_OVERDUE, LeavesThoughChosen,
        "closures are left";
    a_sleeper_that_leaves_and_can_still_be_chosen: MEETING_OF_THE_OVERDUE, LeavesItsPlace,
        "closures are left";
    a_thread_that_sleeps_after_another_look_elsewhere: FULL_HOUSE, SleepsLate, "closures are left";
    a_thread_that_came_for_nothing_and_counts_as_coming: OVERTAKEN, ComesForEver, "closures are left";
    a_refusal_that_sends_nobody: REFUSED, RefusedQuietly, "closures are left";
    a_refused_thread_that_counts_as_coming: REFUSED_ONCE, RefusedForEver, "closures are left";
    a_thread_that_takes_a_closure_to_its_hook: HOOKED, TakesToHook, "closures are left";
    a_submitter_that_relies_on_a_thread_in_its_hook: HOOKED, ReliesOnHook, "closures are left";
    a_thread_without_a_name_that_counts_as_starting: NAMELESS_ONCE, StartsForEver, "closures are left";
}

/// With real sleeping: a thread that was chosen wakes, sees the choice, and sees the closure.
#[test]
fn a_sleeper_that_was_chosen_wakes() {
    model(|| {
        let queue = Arc::new((PoolQueue::<Item>::new(1), Items::new(2)));
        let submit = |closure| {
            let (queue, items) = &*queue;
            // SAFETY: each closure is submitted once, and the items live until the thread has been joined.
            unsafe { queue.submit(items.make(closure)) }.expect("it is not closed")
        };
        assert!(matches!(submit(0), blocking::PendingWake::Start));
        let thread = thread::spawn({
            let queue = queue.clone();
            move || {
                let (queue, items) = &*queue;
                assert!(matches!(queue.arrive(), blocking::PendingWake::Nothing));
                let mut taken = Vec::new();
                let thread = PoolThread::new();
                loop {
                    match queue.next(&thread, false) {
                        blocking::Next::Run(closure, _) => taken.push(items.take(closure)),
                        blocking::Next::Sleep => _ = thread.sleep(None),
                        blocking::Next::Leave => return taken,
                    }
                }
            }
        });
        if let blocking::PendingWake::Wake(thread) = submit(1) {
            thread.wake();
        }
        while queue.0.counts().queued > 0 {
            thread::yield_now();
        }
        assert!(queue.0.close().is_empty());
        assert_eq!(thread.join().unwrap(), [0, 1]);
        assert_eq!(queue.0.counts().threads, 0);
    });
}
