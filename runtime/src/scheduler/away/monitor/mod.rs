//! The monitor: a thread that looks now and then whether work waits behind workers that do not move.
//!
//! A task that computes for long, waits for a lock or makes a blocking call holds up its worker. It also
//! holds up the worker's queue, its LIFO slot, its timers, and the driver if the worker came from there.
//! Nothing inside a poll reports this. But other workers can take everything that a worker holds. So the
//! monitor only has to notice, and to make sure that other workers are there.
//!
//! **It runs nothing itself**: no task, no job, no turn of the driver, no hook, not even the function that
//! makes the name of a spare worker. So nothing that it calls can hold it up.
//!
//! # What it sees
//! Each worker counts its polls, the beginnings and ends of its sleeps, and the looks at its computation's
//! split points. A worker whose sum did not change between two looks of the monitor is *still*. A worker is
//! *stuck* if it is still for [`STUCK`], or for two looks in a call that it has announced as blocking. Two
//! kinds of workers are not stuck:
//! - A worker that sleeps, or was woken and has no CPU yet. Its count of sleep beginnings and ends
//!   (`sleep_changes`) is odd. It is not still either.
//! - A runnable worker that has had next to no CPU time meanwhile, because the machine is busy with something
//!   else. But a worker that has had [`ENOUGH`] CPU time is stuck, however small its share.
//!
//! A stuck worker either computes, or is off its CPU: it waits for a lock, sleeps, or is in a system call. A
//! worker that is off its CPU is *stalled*, and a spare worker takes its whole part (`away/mod.rs`). A worker
//! that computes leaves no CPU for another worker. So there is no spare worker for each of these. If all
//! workers are stuck and work waits, one spare worker serves.
//!
//! # Long polls
//! A worker in a poll of some hundred microseconds to some milliseconds is not stuck. But while *every*
//! worker is inside of such a poll, no worker looks at the driver, the timers and the injector. So if all
//! permanent workers are awake, and no spare worker sleeps that could do their part, the monitor looks again
//! [`SAMPLE`] later. If none has moved in between, spare workers serve from now on, until [`SERVES`] after
//! the monitor last saw this: two ([`SERVING`]) if a worker computes, and one if all of them block. One
//! sleeps in the driver, and they are woken for work from outside. The workers themselves run the tasks that
//! their own polls wake. The second one is there for the time in which the first one polls a slow task that
//! is not known yet.
//!
//! A worker that gets no CPU in between does not move either. It counts only if as many other workers as
//! there are CPUs are inside of long polls. Otherwise another program has a CPU, and takes it from a spare
//! worker, too.
//!
//! If a worker sleeps but none is the poller, the monitor looks again [`LONG`] later. If a worker has not
//! moved in between, the workers act as beside long polls until [`LONG_POLLS`] later
//! (`hints/reinforcement.rs`): one that leaves the driver wakes another one for its place.
//!
//! The monitor remembers the tasks that it found computing for long. Workers remember how long they have
//! polled each task. Both remember the places that spawn many tasks that compute (`slow.rs`). The monitor
//! moves such a task from the queue of a stuck worker into the queue of slow tasks. A serving spare worker
//! does the same with its own ring after each poll, and the other workers leave it the tasks that are not
//! slow (`sort_ring` in `next_work.rs`). Only workers that may take long take from the queue of slow tasks.
//! So as many slow tasks compute as there are workers, and the serving workers are free for other tasks. A
//! slow task that is not known yet holds one of them up, and the other one goes on. When a serving worker is
//! stuck in such a task, the monitor has one more serve.
//!
//! All workers that may take long may be in a computation, or in one poll, for seconds. So if none of them
//! has taken a slow task for [`SLOW_WAITS`], one more spare worker helps with slow tasks, as if a worker were
//! away. It helps until no slow task has waited, and no spare worker has computed, for [`HELPS`]. If not even
//! this worker takes a slow task for [`HELP_WAITS`], another one comes. The last spare worker that serves
//! would leave sockets and timers alone, so it helps only after [`HELP_WAITS`]. It has to help then, because
//! a worker may spin until the slow task has run. When no spare worker serves any more, the names are
//! forgotten. Rejected: having a serving worker run the task that has waited. Sockets and timers then waited
//! behind it (`docs/performance/tried.md`).
//!
//! Some slow tasks wait only because of the place that spawned them, and may be quick. So if no worker has
//! taken a slow task for [`PROBE_WAITS`], a serving worker *probes* one, at most one for each look. Another
//! serving worker is asleep then, and sees to the driver. After a probe that found only tasks that are slow
//! by name, none probes for [`PROBE_WAITS`]. If the probed task computes for long, no worker probes until its
//! poll ends. So at most one thread more wants a CPU.
//!
//! Injected jobs have no such queue. A job that computes without split points holds up the serving worker
//! that took it. Then one more serves, and takes the next job. So if as many spare workers compute, beyond
//! those that help, as there are workers, the serving ones leave injected jobs to the others
//! (`Shared::is_job_extra`). A spare worker that is off its CPU at this look does not count, because a job
//! that blocks has to be replaced. But a job may spin until others have run. So if no worker has taken an
//! injected job for [`JOB_WAITS`] meanwhile, one spare worker more may compute. The wait doubles with each,
//! up to 5 s. The count begins anew when no injected job waits.
//!
//! # What it does
//! ```text
//! Observe      every worker; a worker in a long poll ends its stride of polls early (`worker.rs`)
//! Driver       no worker is the poller, and none has polled it since the last look; or timers are overdue:
//!              wake a worker that sleeps, or else have a spare one serve
//! Rescue       the LIFO slot and ring of a stuck worker, or of a worker that gets no CPU while another
//!              sleeps (whose CPU may be free): into the injector, or the queue of slow tasks. If no worker
//!              takes slow tasks: one more spare worker is needed. The foreign wakers that a worker has not
//!              called at two looks: a thread that is started for them calls them
//! Relieve      tasks wait, and a worker is stuck: wake a worker that sleeps, the second time also if a
//!              worker searches; if none sleeps, tell `away/mod.rs` which workers are away, and admit as many
//!              spare workers as are needed and as tasks wait. If only slow tasks wait, or no worker sees to
//!              the driver: count the workers in announced blocking calls
//! Cancel       after the shutdown has begun, a worker is lacking: queue the tasks of lent tables. If tasks
//!              are queued and no worker goes on: a thread that is started for them cancels them
//!              (`cancels.rs`)
//! ShareJobs    jobs that any worker could run, and a worker sleeps or waits for a latch: the same
//! Dismiss      a spare worker is not needed, and sleeps: it is woken, to rest
//! Net          a task or an injected job is visible, a worker sleeps that could run it, none searches, and
//!              nothing has moved for [`MISSED`]: a wake was lost. It is made up for, and counted
//!              ([`Monitor::missed_wakes`])
//! ```
//! `Rescue` steals like other thieves: from the ring by its protocol, from the slot by LifoSteal. So each task
//! is taken once, whatever the worker does meanwhile, also if it was not stuck after all. What the monitor
//! holds meanwhile, it makes visible again, and it counts as an injected job until then (`lifecycle.rs`).
//! **The monitor may be wrong about everything, and an error only costs a wake.** `Net` guards against errors
//! in the arguments of the other files. By these arguments it finds nothing, and tests assert that it has not.
//!
//! **How soon.** The monitor looks every [`WATCH`] while there is work, and every [`PRESS`] while work waits
//! behind a still worker. After it had to act, it looks every [`URGENT`] for a while ([`ALERT`]). So it finds
//! a stuck worker after at most `2 WATCH + PRESS`.
//!
//! # It sleeps for good while the runtime is idle
//! ```text
//! Monitor                                        A worker whose sleep ends
//! RestShow   is_resting = true                   AwakeShow  clear its sleeper's bit (or see that its
//! RestFence  SeqCst fence                                   notifier did)
//! RestLooks  each worker shows its bit, or is    AwakeFence SeqCst fence
//!            in a blocking call, or marked; a    AwakeWakes is_resting: swap it to false, unpark the
//!            worker sleeps in the driver, and               monitor
//!            no work and no waker is visible;
//!            else is_resting = false, on         A worker that blocks no more, or whose last mark is
//! RestSleep  sleep until unparked                taken back
//!                                                AwakeShow  `SayBack` of `away/mod.rs`, or the mark
//!                                                           leaves the number; AwakeWakes
//!
//!                                                A worker that blocks, and sleeps on a latch or looks at a
//!                                                split point meanwhile
//!                                                AwakeShow  it leaves the driver; AwakeFence, AwakeWakes
//!                                                AwakeShow  it has put foreign wakers there; the same
//!
//!                                                A thread that begins as a worker
//!                                                AwakeShow  it was counted; AwakeFence, AwakeWakes
//! ```
//! SeqCst fences have one total order. If `AwakeFence` comes first, `RestLooks` sees `AwakeShow` and the
//! monitor goes on. If `RestFence` comes first, `AwakeWakes` sees `RestShow`. For a worker that blocks or is
//! marked, `RestLooks` and `AwakeShow` are read-modify-writes of one word. If `AwakeShow` comes first,
//! `RestLooks` sees it. If `RestLooks` comes first, `AwakeShow` acquires `RestShow`. So the monitor is awake
//! while any worker is awake. This costs a worker a fence and a load for each sleep, and one unpark for each
//! idle period that is longer than a few looks.
//!
//! **Beside workers that block**, perhaps for ever, the other workers have to see to everything without the
//! monitor:
//! - *Work that comes.* Some worker sleeps, so a push wakes that worker, and the worker wakes the monitor. If
//!   all others block as well, spare workers are called for them, once this has lasted for [`LONG_LOOKS`].
//! - *Work that was there.* A blocked worker has given away the work in its queues before it blocked, and
//!   nothing comes into them meanwhile. But the worker that sleeps may be a spare one that only serves. It
//!   may not run that work as long as the blocked worker is not counted. Or a wake was lost, although it
//!   should not be (`Net`). So `RestLooks` looks for visible work. Work that was visible before `RestLooks`
//!   keeps the monitor awake, and the monitor counts the worker (`Relieve`), or makes up for the wake. Work
//!   that became visible later was pushed, and is the case above.
//! - *Events.* The poller sleeps, or it blocks and waits for a latch there, or looks at a split point. In the
//!   last two cases it does `AwakeFence` and `AwakeWakes` when it leaves the driver. If no worker is the
//!   poller, a sleeper is woken, and finds the driver free.
//! - *Foreign wakers.* A blocked worker that waits for a latch may keep some, and the first that it calls may
//!   block. It does `AwakeFence` and `AwakeWakes` when it has put them there.
//! - *Timers* on the wheel of a blocked worker: without the call, that worker might have woken for them. So
//!   the worker in the driver is told of these timers, as by TokenTimerFence and TokenTimerRead of `park.rs`.
//!   Timers that are registered later go to the wheel of foreign threads.
//!
//! **Why a thread**, and not the workers themselves: if all workers are stuck, no worker can look. Why no
//! signal interrupts the stuck worker: the worker runs foreign code, in which a signal handler can do
//! nothing.
//!
//! Prior art: Go's `sysmon` hands the processor of a thread in a system call to another thread, and preempts
//! long runs. Here a processor stays with its thread, and others can steal from it. So the owner need neither
//! agree nor be told.
//!
//! In the files: `state.rs` (what other threads see of the monitor), `rest.rs` (its sleep for good),
//! `seen.rs` (what it sees of one worker), `wakers.rs` (the foreign wakers that wait), `jobs.rs` (the
//! injected jobs that wait), `look.rs` (what it decides at a look, and does).

mod cancels;
mod jobs;
mod look;
mod rest;
mod seen;
mod state;
mod wakers;

use std::ptr::NonNull;
use std::time::Instant;

pub use cancels::WatchedCancellers;
pub use rest::rest;
pub use state::Monitor;
pub use wakers::WatchedWakers;

use crate::scheduler::shared::Shared;
use look::Looks;
use rest::{all_asleep, see_to_blocked};

/// How many successive looks find all workers asleep before the monitor sleeps for good.
const DROWSY_LOOKS: u32 = 10;

/// The monitor's life, on its own thread.
///
/// # Safety
/// 1. The caller counts as a worker of `shared` until this returns.
pub unsafe fn watch(shared: NonNull<Shared>) {
    // SAFETY: (1).
    let state = unsafe { shared.as_ref() };
    let monitor = &state.monitor;
    monitor.parker.adopt_current_thread();
    // SAFETY: (1) by our (1) the caller counts as a worker until this returns.
    let mut looks = unsafe { Looks::new(shared) };
    let mut drowsy = 0;
    while !state.away.is_closed() {
        drowsy = if all_asleep(state) { drowsy + 1 } else { 0 };
        if drowsy > DROWSY_LOOKS && rest(state) {
            drowsy = 0;
            continue;
        }
        if drowsy > DROWSY_LOOKS {
            see_to_blocked(state, drowsy);
        }
        let next = looks.look(Instant::now());
        monitor.parker.park(Some(next));
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
