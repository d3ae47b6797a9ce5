//! Which workers are away, and which spare workers compensate for them.
//!
//! In the files: `table.rs` (the numbers, and the rules that follow from them), `spare.rs` (spare workers
//! come, rest and go), `in_place.rs` (calls that announce that they block), `blocked.rs` (how blocked workers
//! are counted), `monitor/` (finds the other workers that are away), `slow.rs` (tasks that are likely to
//! compute for long), `marks.rs` and `deadlock.rs` (nothing is left that could unblock the blocked).
//!
//! A permanent worker is *away* while it does not come back to its queues soon, so that other workers have to
//! do its part:
//!
//! | reason | begins | counted by | ends |
//! |---|---|---|---|
//! | blocked | `block_in_place`, `block_on`, a mark | itself, or the monitor (`CountBlocked`) | it says so |
//! | stalled | it is off its CPU in the middle of a poll | the monitor | it moves |
//! | waiting | it sleeps until a latch is set | its bit in `idle.rs` | it wakes |
//! | yielding | a split point, as tasks wait (`split.rs`) | itself | its tasks are done, or its time is up |
//!
//! The monitor counts in the number `stalled` also each spare worker that it wants to help with slow tasks,
//! and one for all spare workers that are stuck in the user's hook for their start.
//!
//! *Spare workers* compensate for the workers that are away. A spare worker is a worker like any other, with
//! a processor of its own. It polls tasks and runs jobs of every kind. Only its start and its end differ.
//!
//! ```text
//! full    = blocked + stalled + waiting
//! needed  = full + yielding + serving
//! serving = 0, or while no permanent worker sees to the driver (`monitor/`): a + b
//!       a = 2 while all permanent workers are inside of long polls, one of them computes, and the limit of
//!           spare workers allows two; else 1
//!       b = spare workers that are stuck in a computation; at the shutdown at most as many as workers
//! active  = spare workers that run, search, sleep or are away as workers do
//!
//!          admitted: active < needed,                    out of work, and
//!          work waits, no worker is idle                 active > needed
//!   free ─────────────────────────────────▶ active ───────────────────────▶ resting
//!    ▲                                         ▲      admitted, as beside      │ │
//!    │                                         └───────────────────────────────┘ │
//!    └───────────────────────────────────────────────────── keep-alive is over ──┘
//! ```
//! One function decides whether a spare worker is needed: `Table::lacks_spare`. A thread that makes work
//! visible asks it by `Shared::fetch`, when no worker sleeps or searches. A spare worker is active from its
//! call on, and *starting* until its thread has left the user's hook. The shutdown does not rely on those
//! that are starting: `Table::lacks_spare_for_now`.
//!
//! # What a spare worker takes
//! The active spare workers have ranks, by their indices.
//! - Rank below `full`, [`Role::Full`]: everything. A spare worker gets this role in three cases: a worker of
//!   either kind is blocked or stalled; a spare worker waits for a latch; or a thread waits on top of child
//!   jobs that it may not run (in an isolated region), or is an external thread that blocks.
//! - Rank below `full`, [`Role::Begins`]: everything but child jobs of other workers' computations. A spare
//!   worker gets this role if the only reason is that permanent workers wait for latches. The waiting workers
//!   are woken for such child jobs themselves, and programs expect to find the same few threads in a
//!   computation.
//! - Rank below `needed`, [`Role::Serves`]: its own queues, the driver, timers, the injector and injected
//!   jobs, but nothing from other workers, because these workers are there to do it themselves. So tasks in
//!   other rings that compute for long stay there, and the serving worker is soon back. Beside workers that
//!   compute there are two, because a serving worker takes tasks of which nothing is known yet. While such a
//!   task computes, the other serving worker is the poller. While many spare workers compute, the serving
//!   ones take no injected job (`monitor/mod.rs`).
//! - Other spare workers rest. At the shutdown none rests, and they serve.
//!
//! A spare worker asks for its role when it is out of work.
//!
//! # Why no work waits for a worker that is away
//! Consider work that became visible (PushTask, PushFence of `idle.rs`). If some thread sleeps or searches,
//! `idle.rs` has the argument. Otherwise the pusher comes to `Admit`, under the lock of `table.rs`.
//! - If active < needed, a spare worker comes, and looks.
//! - If active ≥ needed, there are as many spare workers as workers that are away, and none of the spare
//!   workers sleeps. Each of them looks again before it sleeps (SleepLook of `idle.rs`), and when it goes
//!   away itself (`Leave`).
//! - A spare worker that goes to rest is not needed, because there are as many others as are needed. It looks
//!   behind the lock, and has one of the others come for the work that it sees (`RestLook`). So either it
//!   sees the work, or `Admit` sees it resting.
//! - A worker that goes away does `Leave`. First it is counted, or shows its bit. A SeqCst fence follows.
//!   Then it looks, and fetches a worker for the work that waits. So of a push and a worker that leaves, one
//!   sees the other.
//! - A worker whose ring overflows, whose dispatch queues tasks in the injector, or that takes a batch from
//!   there, may leave sleepers asleep that are not needed (`share_if_worth` in `next_work.rs`). It runs the
//!   tasks itself. If it is stuck, the monitor wakes a sleeper for them (`Rescue`, `Relieve`).
//! - A worker that always finds other work first takes a child job of another thread now and then
//!   (`run_job_that_waits` in `worker/turns.rs`), if a thread may not come back to its child jobs. That
//!   thread may be an external one, or wait in an isolated region. A pool has no monitor, so there the worker
//!   always does.
//! - If the system refuses a thread, the work waits for the other workers. The next push, or the monitor,
//!   tries again.
//!
//! # A call that may block
//! A call of `block_in_place` is mostly short. So it costs only two swaps of the worker's own word. The
//! worker is counted at once if the call surely sleeps, if the shutdown has begun, or if work waits, no
//! worker is idle, and a spare worker rests. Otherwise the monitor counts the worker when it finds that
//! something waits for it.
//! ```text
//! Worker                                            Any thread that finds it blocked
//! SayBlocked   HERE → BLOCKED (swap); fence          CountBlocked   lock; BLOCKED → COUNTED (CAS);
//! SeeShutdown  has the shutdown begun? count itself                 lend its table; blocked += 1
//! SayBack      → HERE (swap); it was COUNTED: lock;  CloseFence     the shutdown begins; fence;
//!              blocked -= 1; table back                             CountBlocked for each that is BLOCKED
//! ```
//! *Counted at most once, and uncounted as often*: `CountBlocked` and `SayBack` are read-modify-writes of one
//! word. A `SayBack` that finds COUNTED waits for the lock under which `CountBlocked` is done.
//!
//! *Other threads touch its table only in between*: `CountBlocked` lends the table under the lock. The worker
//! does not use the table from `SayBlocked` on, and takes it back behind that lock.
//!
//! *No blocked worker is missed at shutdown*: either `SeeShutdown` sees the shutdown, or the look after
//! `CloseFence` sees `SayBlocked`, because a fence stands between the two steps on each side.
//!
//! # Arrivals at shutdown
//! The workers leave together, when none of them is inside of a poll or a job; see `lifecycle.rs`. A worker
//! that has nothing left to do *arrives*, under this lock, and sleeps as usual. Before it looks for work
//! again, it takes its arrival back, under this lock.
//!
//! # The lock
//! One lock guards all numbers. A thread takes the lock only when it is about to block, to be woken, or to
//! rest. Threads are started and woken without the lock: starting a thread calls the user's `thread_name_fn`,
//! and a woken thread runs at once. Meanwhile the new worker's own count in `lifecycle.rs`, taken under the
//! lock, keeps the shared state alive.

mod blocked;
pub mod deadlock;
pub mod in_place;
pub mod marks;
pub mod monitor;
pub mod slow;
pub mod spare;
mod table;

pub use table::{Away, BlockedState, OnChildJobs, Role, SpareCounts};
