//! The monitor's sleep for good; see *It sleeps for good while the runtime is idle* in `monitor/mod.rs`.

use crate::driver::time;
use crate::loom::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};
use crate::loom::sync::atomic::fence;
use crate::scheduler::away::Role;
use crate::scheduler::idle::Work;
use crate::scheduler::processor::Processor;
use crate::scheduler::shared::Shared;

/// How many looks in a row find all workers in blocking calls before spare workers are started for them. Then
/// the monitor can rest.
const LONG_LOOKS: u32 = 200;

/// `RestShow` to `RestSleep`. Returns whether the monitor came to `RestSleep`.
pub fn rest(state: &Shared) -> bool {
    let monitor = &state.monitor;
    monitor.is_resting.store(true, Relaxed);
    fence(SeqCst);
    // A worker that sleeps or begins to block has put its wakers there before. A worker that blocks already
    // does `AwakeFence` and `AwakeWakes` behind.
    let has_no_wakers = || state.processors.iter().all(|processor| processor.waking.is_empty());
    let rests =
        all_asleep(state) && has_no_wakers() && do_others_see_to_all(state) && !state.away.is_closed();
    if rests {
        monitor.parker.park(None);
    }
    monitor.is_resting.store(false, Relaxed);
    rests
}

/// `RestLooks`: whether every worker sleeps or blocks, and no woken worker is about to be awake.
///
/// A worker that returns from a blocking call and then sleeps may be counted twice. But then it does
/// `AwakeWakes` in between.
pub(super) fn all_asleep(state: &Shared) -> bool {
    let asleep = state.processors.indices().filter(|&index| state.idle.is_sleeper(index)).count();
    asleep + blocked(state).count() == state.away.workers()
}

/// The workers that are in an announced blocking call, or marked.
fn blocked(state: &Shared) -> impl Iterator<Item = usize> {
    state.processors.indices().filter(|&index| is_blocked(state.processor(index)))
}

pub(super) fn is_blocked(processor: &Processor) -> bool {
    // Both are read-modify-writes that change nothing. A later end of the last mark acquires what was done
    // before this.
    processor.blocked_state.is_blocked_in_order() || processor.marks.fetch_add(0, AcqRel) > 0
}

/// `RestLooks`: whether no work is left, and the sleeping workers see to everything while the others block.
fn do_others_see_to_all(state: &Shared) -> bool {
    // If all sleep, a wake was lost, and `Net` needs the monitor.
    if state.has_visible_tasks() || state.has_jobs_for(None, Role::Full) {
        return false;
    }
    let mut blocked = blocked(state).peekable();
    if blocked.peek().is_none() {
        return !state.has_no_poller();
    }
    let driver = &state.driver;
    if let Some(time) = driver.time() {
        let deadlines = blocked.map(|index| time.deadline_of(state.wheel(index)));
        deadlines
            .filter(|&deadline| deadline != time::Deadline::MAX)
            .for_each(|deadline| driver.timer_registered(deadline));
    }
    state.idle.sleepers() > 0
        && (driver.io().is_none() || driver.poller().is_some_and(|poller| tells_when_it_wakes(state, poller)))
}

/// Whether worker `index`, which is the poller, does `AwakeFence` and `AwakeWakes` when it leaves, because it
/// sleeps or blocks there.
fn tells_when_it_wakes(state: &Shared, index: usize) -> bool {
    state.idle.is_sleeper(index) || is_blocked(state.processor(index))
}

/// The monitor cannot rest, although all workers sleep or block. If some sleep, it makes one of them the
/// poller. If all have blocked for long, it calls spare workers.
pub(super) fn see_to_blocked(state: &Shared, drowsy: u32) {
    if state.idle.sleepers() > 0 {
        if state.driver.poller().is_none() {
            state.fetch_strictly(Work::Task);
        }
    } else if drowsy % LONG_LOOKS == 0 {
        let blocked: Vec<_> = blocked(state).collect();
        blocked.into_iter().for_each(|index| _ = state.count_blocked(index));
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
