//! The loop: next work, run, search, sleep.
//!
//! A [`Worker`] is what only the worker's own thread touches. Its processor is what others may touch, too.
//! The `Worker` lives on that thread's stack, or is leaked if the thread keeps its processor for good. The
//! thread's context points to it, so that spawns and wakes from tasks find its queues.
//!
//! Order of work (`run.rs`, `next_work.rs`):
//! 1. now and then, the injector and the queue of slow tasks, alternately;
//! 2. the LIFO slot (a limited number of times in a row), the ring, a batch from the injector;
//! 3. jobs that the worker need not steal;
//! 4. other workers' rings, the queue of slow tasks, and the LIFO slot of a stuck worker;
//! 5. other workers' jobs.
//!
//! **Time decides when a turn comes.** The driver, the timers, the injector and injected jobs have their turn
//! about every [`TURN`](turns::TURN). To read the clock at each poll would cost more than most polls. So the
//! worker counts down a *stride* of polls, and reads the clock at the end of the stride. Then it makes the
//! next stride longer or shorter, as a computation does with its splits (`split.rs`). A stride has at most
//! `event_interval` polls. If one poll takes as long as a turn, a turn follows each poll.
//!
//! The monitor ends a stride early if a poll takes long (`monitor/mod.rs`): it can write the countdown. The
//! owner may overwrite the monitor's write; then the monitor writes again.
//!
//! In the folder `worker`, `identity.rs` is the worker, `run.rs` its loop, `turns.rs` what happens between
//! two polls, and `poll_begin.rs` measures some polls. `sleep.rs` is how it sleeps, and `presence.rs` how it
//! leaves its queues to others while it is away.

mod identity;
mod poll_begin;
mod presence;
mod run;
mod sleep;
mod turns;

pub use identity::{PushTo, Worker};
