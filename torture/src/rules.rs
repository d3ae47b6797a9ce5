//! The rules: what the documents promise, and which programs are made from these promises. A program that is
//! made must end, with the predicted result. If a run contradicts this page, the page of the book that the
//! rule names decides which of the two is wrong.
//!
//! # What is promised, and what is made
//!
//! **Tasks** (`stalls.md`, `tokio.md`)
//! - R1 A spawned task runs, whatever the other tasks do. They may spin, sleep or block, announced or not.
//!   This holds also if all workers are stuck, and if what they wait for is a task in their own queues.
//!   *Made*: tasks that wait in every way for tasks, as long as fewer threads wait than there are workers and
//!   spare workers (`spare_workers`); see *What waits for what*.
//! - R2 The branches of `select!`, `join!` and `timeout` are one task, and hold locks as one task. *Made*: no
//!   branch holds a lock or an endless computation.
//! - R3 `abort` and a dropped handle end a task at its next yield. *Made*: such a task may end in each way,
//!   and its children go on.
//! - R4 A task's panic comes out of its handle, with the payload. A panic of a hook, of a detached job or of
//!   a waker does not spread.
//! - R5 `block_on` and the blocking calls of channels panic directly inside a poll. A closure of a `join`
//!   there counts as inside the poll, unless another thread runs it. *Made*: neither of these calls below a
//!   poll, unless inside of `block_in_place`, `compute` or `install`.
//!
//! **Computations and jobs** (`rayon.md`, `parallel`)
//! - R6 `compute` begins as soon as a worker has nothing else to do. Its wait holds no worker. When it is
//!   dropped or aborted, it ends at its next split, but what is inside of `isolated` runs to its end. A panic
//!   of any part ends it, too, also a panic that a `join` has lost because its first closure panicked as
//!   well. *Made*: endless loops of `join`, with an operation after which they are dropped.
//! - R7 A thread that waits for a `join`, a `scope` or an `install` runs child jobs and calls of `install`,
//!   but no task, no `compute` and no detached job. So these three may wait for the thread; see *What waits
//!   for what*.
//! - R8 Both closures of a `join` run, and all jobs of a scope, whatever panics, unless they are cancelled. A
//!   `join` passes on the panic of its first closure, a scope that of any job. A second closure may run on a
//!   thread that unwinds, and so may, while that thread waits for it, child jobs of the same computation. All
//!   calls outside of `compute` count as one. Nothing else may. While a thread unwinds, it may wait without
//!   running other jobs. If another thread runs the closure, it does run other jobs while it waits. So such a
//!   wait holds what a blocking wait holds, and needs what any other wait needs.
//! - R39 A destructor may call `join`, also on a stack that unwinds from a panic or a cancellation. Both
//!   closures run there to their ends. If the stack does not unwind, the call is a split point as any other.
//!   *Made* (`forking-drops`): destructors of values in calls, in computations that end by a cancellation,
//!   and in tasks at the end of their runtime. They fork, and nothing more. Their closures do not panic.
//! - R9 If the closures of one `join` wait for each other, they may hang, *unless* the wait is announced:
//!   then another thread can steal the second closure. *Made* (`meets`): the first closure waits for the
//!   second, in `blocking_recv`, in `block_in_place`, or in an `install` elsewhere. Only where the call
//!   certainly has a deque: in jobs, and in tasks if there are no spare workers (or with `spares`).
//! - R10 A scope's closure waits for its jobs only by ending. *Made*: it waits for none of them itself.
//! - R11 Inside of `isolated` a waiting thread runs only what descends from the closure. Detached jobs,
//!   computations and tasks do not descend from it. *Made*: a lock of `std` around `isolated`, with nothing
//!   but forks inside.
//! - R12 A broadcast waits for every thread of its pool. *Made*: only where no thread of the pool waits for
//!   something that waits for the broadcast.
//! - R35 All threads of a pool begin broadcasts in one order, also those that are called at once. So the
//!   parts of one broadcast may wait for each other. A part that has met the others may wait for child jobs.
//!   Then its thread may begin the next broadcast on top. *Made* (`barriers`): two or three callers at once,
//!   on threads outside or in the jobs of a scope, with some broadcasts each. The parts meet first; those of
//!   the last broadcast then fork. They announce the wait if there may be destructors that wait (R34). None is
//!   made in `isolated`.
//! - R13 A detached job runs, also if its pool is dropped before. What it asks of a runtime that has ended is
//!   cancelled.
//! - R14 `parallel::yield_now` runs anything, on top of the caller. *Made*: where nothing that it may run
//!   waits for the caller.
//! - R15 A `ThreadPool` has a fixed number of threads. While all of them wait for something that needs one of
//!   them, nothing moves. While a thread of a pool waits in an `install` into another pool, it runs child
//!   jobs and calls of `install` of its own pool. *Made*: `install` to and fro between pools of one thread;
//!   other waits only if fewer threads wait than there are.
//!
//! **Surroundings** (the design: what runs on a stack runs in its own surroundings)
//! - R16 A task, a closure or a `block_on` sees its own runtime as the current one. A job sees the current
//!   runtime and the task-local of the call that made it, or none, or the runtime whose worker runs it. A
//!   parallel call in a task of a `current_thread` runtime belongs to the pool of the thread that drives the
//!   runtime, if that thread is a worker or inside of a job. Otherwise it belongs to the process-wide pool.
//! - R17 Tasks do not inherit task-locals. (Tasks of a `current_thread` runtime may see those around its
//!   `block_on`.)
//! - R18 Inside of `LocalKey::with` the same key may be set again, where Tokio's `sync_scope` panics. *Made*:
//!   everything inside of `with` except another scope of the key.
//! - R19 While a job lives, no other thread of its pool has the `current_thread_index` that the job sees.
//!
//! **The end** (`Runtime`, `tokio.md`)
//! - R20 A runtime may be ended at any moment, anywhere. Tasks are dropped at their next yield, computations
//!   at their next split, and closures that have not begun are dropped. Handles say *cancelled*, channels are
//!   closed, sockets return errors, and timers panic. *Made*: each part of such a program may end in its
//!   value, its panic or the word *cut*, and none may hang. A wait for the end of a task that a cancelled
//!   task would not end (`Notify`) is ended by a destructor.
//! - R21 `drop` waits for workers and for closures that have begun, but not inside of a runtime. *Made*: no
//!   end inside of an `in_place_scope`, and none on an external thread.
//! - R22 After its end nothing is left: every closure and future was dropped once, and threads, descriptors
//!   and memory are back at the numbers of the start.
//! - R23 A parallel call into a runtime that has ended runs in place; a scope goes to the process-wide pool.
//!   So no closure of such a call waits for another (R9).
//! - R34 The destructor of a task may block as a poll may (R1). It may need a lock that a poll holds in a
//!   blocking call. It may wait for the end of another task if it announces the wait, because no task waits
//!   for a thread that cancels another (`lifecycle.rs`). This needs no spare worker. If it does not announce
//!   the wait, the other task may be in the table of its own worker. Nor may a worker block without a word
//!   for what workers of its runtime do, if few spare workers come: the others may all be in destructors.
//!   On a `current_thread` runtime a destructor may wait in a `block_on` of that runtime, but only for one
//!   that waits for none, because all of them run on one stack. A poll, a closure of a `join` in it, and a
//!   thread of a pool may wait in the same way once the shutdown has begun, or before, if the shutdown waits
//!   for nothing. It may hold a lock meanwhile, for which other polls wait without a word, if they come back
//!   from a blocking call or a latch and the shutdown has begun. Closures that are not run are dropped
//!   beside the tasks, one after the other. Their destructors may wait for the destructor of a task if they
//!   announce it. The destructor of a task may wait in the same way for the end of a closure, also of one
//!   that is not run. A closure that has begun may wait for the destructor of a task. *Made* (`drops`):
//!   destructors that take a lock which others hold across `block_in_place`, also those of queued closures;
//!   destructors that wait for that of a neighbour, all in one direction, up to chains of six; polls that
//!   wait for destructors; polls that take the lock when they come back; closures and destructors of
//!   closures that wait for tasks; destructors of tasks that wait for closures, which then wait for no task.
//!   If all threads are refused (R32), tasks may wait for ever, so none is made there. A future that was
//!   never polled and a closure that was refused may be dropped by the spawner. Their destructors do not
//!   block.
//!
//! **Marks** (`mark_blocked`, `deadlock_handler`)
//! - R24 The handler is called when all threads sleep or are marked and nothing is left to come. It is not
//!   called without a mark, and not by a runtime that is being ended. *Made*: tasks that only the handler
//!   releases, where nothing but tasks waits for them, and no thread is in `block_on`.
//!
//! **Threads** (`Builder`)
//! - R32 A name that panics refuses the thread. If it is a spare worker, the work waits until a worker is
//!   free, also while the runtime ends. So such a program counts on no spare worker (`names`), and spawns no
//!   blocking closure; but a deadlock handler is called all the same. A name that takes its time delays what
//!   needs that thread, and nothing else.
//! - R33 Hooks are foreign code: they may take time, spawn, and wake any task, also while the runtime ends.
//!   A park hook may also wait for a job while the runtime ends, because the other workers stay until it has
//!   returned (`protocols.md`, *winds down*). *Made*: `on_thread_park` and `on_thread_unpark` wake tasks some
//!   ten times, and as often at the end. Or one call of `on_thread_park` at the end makes a scope and blocks,
//!   announced, for its job, if another worker is free for the job. `on_thread_unpark` does not, because the
//!   last worker calls it when jobs are refused already. `on_thread_stop` waits for a timer and a task of its
//!   own runtime. It runs when its thread is no worker any more, so no other thread needs it, and the end of
//!   the runtime ends such a wait.
//!
//! **Idle runtimes** (`stalls.md`)
//! - R29 An idle runtime takes up what comes, however long it was idle. *Made*: pauses of 200 ms in which
//!   threads retire (`thread_keep_alive`) and all others sleep. Then a thread outside wakes, spawns, computes
//!   or sends, or goes on with the program (`pauses`). At most two in a program, one after the other, so that
//!   they take less than half a second.
//! - R30 A runtime needs neither a timer nor a socket to wake up. *Made*: programs without them, on runtimes
//!   with idle drivers and without any (`bare`).
//!
//! **Where the documents leave something open**, programs do not depend on it
//! - R25 Threads of several pools may drive one `current_thread` runtime, one after the other. Then it is not
//!   checked to which of these pools a parallel call of a task belongs.
//! - R26 An external thread (a thread outside that takes part in its own call) runs only child jobs of that
//!   call, so it counts as a thread that blocks. Without `spares`, no program relies on what a spare worker
//!   does with a parallel call: no broadcast and no meeting of closures (R9) is made where a task may be on a
//!   spare worker.
//! - R27 A waker that blocks stops the thread that calls it, and no other thread, task or waker. It may be
//!   any thread of the runtime that is in no isolated part, or one for blocking closures. *Made*: wakers that
//!   take a lock which others hold in `isolated`; wakers that block until another timer has fired, which is
//!   due at the same moment (`twins`), also while a runtime ends. With `waker-forks` a waker calls `join` in
//!   `isolated`, which may have to wait for a worker: the design promises more than the documents do today.
//! - R31 The waker that polls a `LocalSet` is called where a task of the set is woken. What R4 and R27 say of
//!   wakers holds for it. *Made* (`sets`): where a thread may block; the waker panics and takes locks, also
//!   while a runtime ends.
//! - R36 A `block_on` may be inside of the future of another one, and inside of `block_in_place` in a local
//!   task. It holds up the other tasks of that task's set, and of a `current_thread` runtime that its thread
//!   drives. A set may be polled inside of the poll of one of its tasks. In a `LocalRuntime`, the function
//!   `spawn_local` spawns in the set of the runtime, also in the future of another set. *Made* (`levels`): up
//!   to three levels of sets and local runtimes, where a thread may block. Another task of each set sleeps
//!   meanwhile, and is awaited only when the level inside has ended.
//! - R38 A guard of `Handle::enter` may be dropped anywhere on its thread, also in the body of a scope that
//!   was made while the guard lived. Then the runtime before is the current one again. The jobs of the scope
//!   see one of the two, as R16 says, and belong to the pool of the scope. *Made* (`guards`): one or two
//!   guards around an `in_place_scope`, dropped in its body between two jobs, which only fork.
//! - R37 A `current_thread` runtime is driven while a thread waits in `block_on`. A thread whose poll blocks
//!   does not wait, so another thread drives. Only a thread that drove when its poll began keeps the runtime
//!   from being driven. *Made* (`crowds`): polls that wait for the future of another thread, which needs the
//!   driver, or for each other in a chain. They begin while a thread drives that then leaves.
//! - R28 Memory is kept for later in two places: by threads that spawn, and by the process-wide pool.
//!
//! Without `shutdown`, a program waits before the end of each runtime until everything detached has ended.
//!
//! # What waits for what
//! Each wait *holds* what it keeps from others, and *needs* what it waits for, together with everything that
//! this needs in turn. What can be held:
//!
//! | resource | of | held by |
//! |---|---|---|
//! | `Poll` | a runtime | workers that wait in any way; there are as many as workers and spare workers |
//! | `Root` | a pool | its threads that wait in any way: they begin no `compute` and no detached job |
//! | `Help` | a pool | as `Root`, if they block, are isolated or external: they run no child job of others |
//! | `Closure` | a runtime | closures of `spawn_blocking`; there are `max_blocking_threads` |
//! | `All` | a pool | as `Help`, for broadcasts, which need each thread |
//! | `Top` | a pool | blocking, broadcasts, calls into other pools, in jobs above a waiting thread's frames |
//! | `Busy` | a pool | computations without an end; broadcasts, which the deadlock handler waits for |
//! | `Lock` | a lock | its holder |
//! | `Region` | a part inside of `isolated` | blocking inside of it, on the thread that is in it |
//!
//! A wait that holds X and needs Y is an arrow from X to Y. Without a circle there is no deadlock. A circle
//! is harmless if it goes through a resource of which there are more than the circle's strongly connected
//! component holds. Then a thread is always left. If its work waits at all, it waits for something outside of
//! the component, and components form no circles. So a program is allowed if no circle is left when such
//! resources are taken out. If one is left, the last operation in it is replaced by what is below it, until
//! there is none ([`Waits::offender`]).
//!
//! Without `spares`, `Root` and `Help` of a runtime count its workers only, as the documents say today
//! (`Handle::block_on`: "A computation that the future waits for needs another worker"). With it, spare
//! workers count, as the design says.

use crate::program::{Pool, PoolId};

/// What can be held, of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Polls tasks.
    Poll,
    /// Begins computations and detached jobs, which are *roots*.
    Root,
    /// Runs child jobs and calls of `install`.
    Help,
    /// Runs blocking closures.
    Closure,
    /// Each of its threads.
    All,
    /// Stacks of waiting threads on which jobs of other calls run.
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

    /// What is here and not there.
    pub fn without(self, other: Set) -> Set {
        Set(self.0 & !other.0)
    }

    /// What is in both.
    pub fn common(self, other: Set) -> Set {
        Set(self.0 & other.0)
    }

    /// Whether the two have something in common.
    pub fn meets(self, other: Set) -> bool {
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
    /// It computes for as long, so no spare worker compensates for its thread.
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

    /// The gene that is to give way, because otherwise the program might hang by right. `None` if the program
    /// must end.
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
