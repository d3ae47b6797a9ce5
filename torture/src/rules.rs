//! The rules: what the documents promise, and which programs are made of it. A program that is made must end,
//! with the result that is foretold. Where a run and this page disagree, the page of the book that the rule
//! names decides which of them is wrong.
//!
//! # What is promised, and what is made of it
//!
//! **Tasks** (`stalls.md`, `tokio.md`)
//! - R1 A spawned task runs, whatever the other tasks do: spin, sleep, block, announced or not; also if all
//!   workers are stuck, and also if what they wait for is a task in their own queues. *Made*: tasks that wait
//!   in every way for tasks, as long as fewer threads wait than there are workers and spare workers
//!   (`spare_workers`); see *What waits for what*.
//! - R2 The branches of `select!`, `join!` and `timeout` are one task, and so are its locks. *Made*: no lock
//!   and no endless computation is held in a branch.
//! - R3 `abort` and a dropped handle end a task at its next yield. *Made*: such a task may end in each way,
//!   and its children go on.
//! - R4 A task's panic comes out of its handle, with the payload. A panic of a hook, of a detached job, of a
//!   waker stays there.
//! - R5 `block_on` and the blocking calls of channels panic directly inside a poll, and a closure of a `join`
//!   there counts as that unless another thread runs it. *Made*: neither of them below a poll, unless inside
//!   of `block_in_place`, `compute` or `install`.
//!
//! **Computations and jobs** (`rayon.md`, `parallel`)
//! - R6 `compute` begins as soon as a worker has nothing else to do. Its wait holds no worker. Dropped or
//!   aborted, it ends at its next split; what it was inside of `isolated` runs on. It ends in any panic of a
//!   part of it then, also in one that a `join` has lost because its first closure panicked as well. *Made*:
//!   endless loops of `join` that are dropped behind something.
//! - R7 A thread that waits for a `join`, a `scope` or an `install` runs pieces and calls of `install`, never
//!   a task, a `compute` or a detached job. So these may wait for the thread as well; see *What waits for
//!   what*.
//! - R8 Both closures of a `join` run, and all jobs of a scope, whatever panics, unless they are cancelled.
//!   The first closure's panic comes out of a `join`; any one's of a scope. A second closure may find that
//!   its thread unwinds; nothing else may. While it unwinds, a thread may wait without running other jobs, so
//!   such a wait counts as a blocking wait.
//! - R9 Closures of one `join` that wait for each other may hang, *unless* the wait is announced: then the
//!   second can be stolen. *Made* (`meets`): the first waits, in `blocking_recv`, in `block_in_place`, or in
//!   an `install` elsewhere, for the second; where the call has a deque for certain: in jobs, and in tasks if
//!   there are no spare workers (or `spares`).
//! - R10 A scope's closure does not wait for its jobs but by ending. *Made*: it never does.
//! - R11 Inside of `isolated` a waiting thread runs only what descends from the closure. Detached jobs,
//!   computations and tasks do not descend. *Made*: a lock of `std` around `isolated`, with nothing but forks
//!   inside.
//! - R12 A broadcast waits for every thread of its pool. *Made*: only where no thread of the pool waits for
//!   something that waits for the broadcast.
//! - R13 A detached job runs, also if its pool is dropped before. What it wants of a runtime that has ended
//!   is cancelled.
//! - R14 `parallel::yield_now` runs anything, on top of the caller. *Made*: where nothing that it may run
//!   waits for the caller.
//! - R15 A `ThreadPool` has the threads that it has; while all wait for something that needs one of them,
//!   nothing moves. Its threads run the pool's pieces and calls of `install` while they wait in an `install`
//!   elsewhere. *Made*: `install` to and fro between pools of one thread; other waits only below the number
//!   of threads.
//!
//! **Surroundings** (the design: what runs on a stack runs in its own surroundings)
//! - R16 A task, closure or `block_on` sees its own runtime as the current one. A job sees the current
//!   runtime and the task-local of the call that made it, or none; or the runtime whose worker it runs on. A
//!   parallel call in a task of a `current_thread` runtime belongs to the pool of the thread that drives it,
//!   if that is a worker or in a job; else to the process-wide pool.
//! - R17 Tasks do not inherit task-locals. (Those of a `current_thread` runtime may see what is around its
//!   `block_on`.)
//! - R18 Inside of `LocalKey::with` the same key panics in `sync_scope`: nothing below it on its stack uses
//!   one. All else may.
//! - R19 While a job lives, no other thread of its pool has its `current_thread_index`.
//!
//! **The end** (`Runtime`, `tokio.md`)
//! - R20 A runtime may be ended at any moment, anywhere. Tasks are dropped at their next yield, computations
//!   at their next split, closures that have not begun are dropped. Handles say *cancelled*, channels are
//!   closed, sockets yield errors, and timers panic. *Made*: each part of such a program may end in its
//!   value, its panic or the word *cut*, and none may hang. What waits for the end of a task in a way that a
//!   cancelled task does not end (`Notify`) is opened by a destructor.
//! - R21 `drop` waits for workers and for closures that have begun, but not inside of a runtime. *Made*: no
//!   end inside of an `in_place_scope`, nor on a thread that has taken a worker's place.
//! - R22 Once it has ended nothing is left: every closure and future is dropped, once; threads, descriptors
//!   and memory are back.
//! - R23 A parallel call into a runtime that has ended runs in place. So no closure of it waits for another
//!   (R9).
//!
//! **Marks** (`mark_blocked`, `deadlock_handler`)
//! - R24 The handler is called when all threads sleep or are marked and nothing is left to come. *Made*:
//!   tasks that only the handler releases, where nothing else waits for them but tasks, and no thread is in
//!   `block_on`. It is not called without a mark. (A runtime that is being ended reports none.)
//!
//! **Idle runtimes** (`stalls.md`)
//! - R29 An idle runtime takes up what comes, however long it was idle. *Made*: pauses of 200 ms in which
//!   threads retire (`thread_keep_alive`) and all others sleep. Then a thread outside wakes, spawns, computes
//!   or sends, or goes on with the program (`pauses`). Two a program at most, one after the other, so that
//!   they take less than half a second.
//! - R30 A runtime needs neither a timer nor a socket to wake up. *Made*: programs without them, on runtimes
//!   with idle drivers and without any (`bare`).
//!
//! **Where the documents leave something open**, programs do not depend on it
//! - R25 Threads of several pools may drive one `current_thread` runtime, one after the other. Where they
//!   have, it is not checked to which of these pools a parallel call of a task belongs.
//! - R26 A thread outside that has taken a worker's place runs only pieces of its own call, so it counts as a
//!   thread that blocks. Without `spares` a spare worker runs parallel calls in place: no broadcast and no
//!   meeting of closures (R9) is made where a task may be on one.
//! - R27 A waker that blocks stops its caller, which may be the driver. So it blocks for a millisecond at
//!   most. With `waker-forks` it calls `join` in `isolated`, which may have to wait for a worker: the design
//!   promises more than the documents do today.
//! - R28 Memory is kept for later in two places: by threads that spawn, and by the process-wide pool.
//!
//! Without `shutdown`, a program waits before the end of each runtime until all that was detached has ended.
//!
//! # What waits for what
//! Each wait *holds* what it keeps others from, and *needs* what it waits for, with all that this needs in
//! turn. What can be held:
//!
//! | resource | of | held by |
//! |---|---|---|
//! | `Poll` | a runtime | workers that wait in whatever way; as many as there are workers and spare workers |
//! | `Root` | a pool | its threads that wait in whatever way: they begin no `compute` and no detached job |
//! | `Help` | a pool | as `Root`, if they block, are isolated or external threads: they run no stranger's piece |
//! | `Closure` | a runtime | closures of `spawn_blocking`; as many as `max_blocking_threads` |
//! | `All` | a pool | as `Help`, for broadcasts, which need each thread |
//! | `Top` | a pool | blocking, broadcasts, and calls into other pools, in jobs that another's waiting thread may run on top of its frames |
//! | `Busy` | a pool | computations without an end; broadcasts, which the deadlock handler waits for |
//! | `Lock` | a lock | its holder |
//! | `Region` | a part inside of `isolated` | blocking inside of it, on the thread that is in it |
//!
//! A wait that holds X and needs Y is an arrow from X to Y. No circle, no deadlock. A circle is harmless if
//! it goes through something that is there more often than it is held within the circle (the arrows of one
//! strongly connected component): then a thread is always left whose work, if it waits at all, waits for
//! something outside of the component; and components have no circles. So a program is allowed if no circle
//! is left when such resources are taken out. If one is, the last operation in it gives way to what is below
//! it, until there is none ([`Waits::offender`]).
//!
//! Without `spares`, `Root` and `Help` of a runtime count its workers only, which is what the documents say
//! today (`Handle::block_on`: "a computation that it waits for needs another worker"). With it, spare workers
//! count, as the design says (`DESIGN.md`, 2.1).

use crate::program::{Pool, PoolId};

/// What can be held, of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Polls tasks.
    Poll,
    /// Begins computations and detached jobs.
    Root,
    /// Runs pieces and calls of `install`.
    Help,
    /// Runs blocking closures.
    Closure,
    /// Each of its threads.
    All,
    /// Stacks of waiting threads on which strangers' jobs run.
    Top,
    /// Computations without an end, and broadcasts.
    Busy,
}

/// Resources of one pool.
const OF_A_POOL: usize = 7;
/// Most pools of a program.
pub const MOST_POOLS: usize = 12;
/// Most locks of a program.
pub const MOST_LOCKS: usize = 4;
/// Most isolated parts of a program.
pub const MOST_REGIONS: usize = 128 - FIRST_REGION;
const FIRST_LOCK: usize = MOST_POOLS * OF_A_POOL;
const FIRST_REGION: usize = FIRST_LOCK + MOST_LOCKS;

/// A set of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Set(u128);

impl Set {
    /// Nothing.
    pub const NONE: Set = Set(0);

    /// One of a pool's.
    pub fn of(pool: PoolId, of: Of) -> Self {
        assert!(pool < MOST_POOLS);
        Set(1 << (pool * OF_A_POOL + of as usize))
    }

    /// A lock.
    pub fn lock(lock: usize) -> Self {
        assert!(lock < MOST_LOCKS);
        Set(1 << (FIRST_LOCK + lock))
    }

    /// An isolated part.
    pub fn region(region: usize) -> Self {
        assert!(region < MOST_REGIONS);
        Set(1 << (FIRST_REGION + region))
    }

    fn has(self, place: usize) -> bool {
        self.0 & 1 << place != 0
    }

    fn places(self) -> impl Iterator<Item = usize> {
        (0..128).filter(move |&place| self.has(place))
    }

    fn meets(self, other: Set) -> bool {
        self.0 & other.0 != 0
    }
}

impl std::ops::BitOr for Set {
    type Output = Set;

    fn bitor(self, other: Set) -> Set {
        Set(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for Set {
    fn bitor_assign(&mut self, other: Set) {
        self.0 |= other.0;
    }
}

/// One operation that waits.
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    /// The number of its gene.
    pub gene: usize,
    /// What it keeps others from.
    pub holds: Set,
    /// What it waits for.
    pub needs: Set,
    /// How many of it there may be at once.
    pub times: u32,
    /// It computes for as long, so no spare worker stands in for its thread.
    pub is_busy: bool,
}

/// All waits of a program.
#[derive(Debug, Default)]
pub struct Waits(Vec<Wait>);

impl Waits {
    /// Adds one.
    pub fn push(&mut self, wait: Wait) {
        self.0.push(wait);
    }

    /// The gene that is to give way because the program might hang by right; none if it must end.
    pub fn offender(&self, pools: &[Pool], has_spares: bool) -> Option<usize> {
        let mut arrows = [Set::NONE; 128];
        for wait in &self.0 {
            wait.holds.places().for_each(|place| arrows[place] |= wait.needs);
        }
        let reach = closure(arrows);
        let mut left = arrows;
        for place in 0..128 {
            if reach[place].has(place) && self.is_enough(place, component(&reach, place), pools, has_spares) {
                // Taken out: no arrow leads from here.
                left[place] = Set::NONE;
            }
        }
        let reach = closure(left);
        let is_stuck = |wait: &&Wait| {
            wait.holds.places().any(|place| {
                reach[place].has(place)
                    && left[place] != Set::NONE
                    && wait.needs.meets(component(&reach, place))
            })
        };
        self.0.iter().filter(is_stuck).map(|wait| wait.gene).max()
    }

    /// Whether a thread of this resource is left when all waits within the component hold theirs.
    fn is_enough(&self, place: usize, component: Set, pools: &[Pool], has_spares: bool) -> bool {
        if place >= FIRST_LOCK {
            return false;
        }
        let (mut busy, mut waiting) = (0, 0);
        for wait in self.0.iter().filter(|wait| wait.holds.has(place) && wait.needs.meets(component)) {
            *if wait.is_busy { &mut busy } else { &mut waiting } += wait.times as usize;
        }
        let (threads, spares) = match pools.get(place / OF_A_POOL) {
            Some(&Pool::Workers { workers, spares, .. }) => (workers, spares),
            Some(pool) => (pool.threads(), 0),
            None => return false,
        };
        match place % OF_A_POOL {
            of if of == Of::Poll as usize => busy + waiting < threads + spares,
            of if of == Of::Root as usize || of == Of::Help as usize => {
                let spares = if has_spares { spares } else { 0 };
                busy + waiting.saturating_sub(spares) < threads
            }
            of if of == Of::Closure as usize => match pools[place / OF_A_POOL] {
                Pool::Workers { blocking, .. } => waiting < blocking,
                _ => waiting < 512,
            },
            _ => false,
        }
    }
}

/// What can be reached from each place by at least one arrow.
fn closure(mut reach: [Set; 128]) -> [Set; 128] {
    for middle in 0..128 {
        if reach[middle] == Set::NONE {
            continue;
        }
        for from in 0..128 {
            if reach[from].has(middle) {
                reach[from] |= reach[middle];
            }
        }
    }
    reach
}

/// The strongly connected component of `place`.
fn component(reach: &[Set; 128], place: usize) -> Set {
    let is_mutual = |&other: &usize| reach[other].has(place);
    Set(reach[place].places().filter(is_mutual).fold(0, |set, other| set | 1 << other))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOLS: [Pool; 3] =
        [Pool::Workers { workers: 1, spares: 3, blocking: 2 }, Pool::Threads(1), Pool::Threads(2)];

    fn wait(gene: usize, holds: Set, needs: Set) -> Wait {
        Wait { gene, holds, needs, times: 1, is_busy: false }
    }

    fn offender(waits: &[Wait], has_spares: bool) -> Option<usize> {
        Waits(waits.to_vec()).offender(&POOLS, has_spares)
    }

    #[test]
    fn a_thread_that_waits_for_its_own_pool_needs_another_thread() {
        let needy = |pool| wait(7, Set::of(pool, Of::Root), Set::of(pool, Of::Root));
        assert_eq!(offender(&[needy(1)], false), Some(7));
        assert_eq!(offender(&[needy(2)], false), None);
        assert_eq!(offender(&[needy(2), needy(2)], false), Some(7));
        assert_eq!(offender(&[needy(0)], false), Some(7));
        assert_eq!(offender(&[needy(0)], true), None);
        assert_eq!(offender(&[Wait { times: 4, ..needy(0) }], true), Some(7));
        assert_eq!(offender(&[Wait { is_busy: true, ..needy(0) }], true), Some(7));
    }

    #[test]
    fn two_pools_that_wait_for_each_other_are_a_circle_and_one_way_is_none() {
        let (one, two) = (Set::of(0, Of::Help), Set::of(1, Of::Help));
        assert_eq!(offender(&[wait(1, one, two)], false), None);
        assert_eq!(offender(&[wait(1, one, two), wait(2, two, one)], false), Some(2));
        // One of them has a thread to spare.
        assert_eq!(offender(&[wait(1, one, two), wait(2, two, one)], true), None);
        let many = Set::of(2, Of::Help);
        assert_eq!(offender(&[wait(1, one, many), wait(2, many, one)], false), None);
    }

    #[test]
    fn a_lock_that_waits_for_itself_is_always_a_circle() {
        let (a, b) = (Set::lock(0), Set::lock(1));
        assert_eq!(offender(&[wait(3, a, b)], true), None);
        assert_eq!(offender(&[wait(3, a, b), wait(5, b, a)], true), Some(5));
        assert_eq!(offender(&[wait(3, a, a)], true), Some(3));
    }
}
