//! The system refuses threads while spare workers are needed: that is counted, tried again, and nothing is
//! lost.

mod stall_support;
mod support;

use runtime::Runtime;
use stall_support::{Client, PING, Trap, Way, serve, stick};
use support::{HUGE_STACK, NoThreads, builder, has_shadow_memory, in_child, until, watchdog};

/// A runtime that has no spare worker, and to which the system refuses any.
fn without_spares(workers: usize) -> (Runtime, NoThreads) {
    loop {
        let runtime = builder(workers).thread_stack_size(HUGE_STACK).build().unwrap();
        let refused = NoThreads::begin();
        // On a busy machine the monitor has a spare worker come for less than a stall, and also while the
        // workers still begin.
        if runtime.metrics().num_spare_workers() == 0 {
            return (runtime, refused);
        }
    }
}

#[test]
fn a_spare_worker_that_is_refused_is_counted_and_tried_again() {
    let _watchdog = watchdog();
    if !has_shadow_memory() && in_child("a_spare_worker_that_is_refused_is_counted_and_tried_again", &[]) {
        let (runtime, refused) = without_spares(2);
        let metrics = runtime.metrics();
        let mut client = Client::connect(serve(&runtime, &Trap::default(), Way::Blocks));
        let stuck = stick(&runtime, 2, Way::Blocks);
        let before = metrics.spare_refused_count();
        client.send(PING);
        until("a thread is refused", || metrics.spare_refused_count() > before + 1);
        assert_eq!(metrics.spare_started_count(), 0);
        // One that is called and not refused yet counts for a moment.
        until("no spare worker is there", || metrics.num_spare_workers() == 0);
        drop(refused);
        assert_eq!(client.receive(), PING);
        stuck.end(&runtime);
        assert!(metrics.spare_started_count() > 0);
    }
}

#[test]
fn while_spare_workers_are_refused_everything_waits_for_the_stuck() {
    let _watchdog = watchdog();
    if !has_shadow_memory() && in_child("while_spare_workers_are_refused_everything_waits_for_the_stuck", &[])
    {
        let (runtime, _refused) = without_spares(1);
        let metrics = runtime.metrics();
        let mut client = Client::connect(serve(&runtime, &Trap::default(), Way::Blocks));
        for _ in 0..3 {
            let before = metrics.spare_refused_count();
            let stuck = stick(&runtime, 1, Way::Spins);
            client.send(PING);
            // A task that says that it blocks, too, behind the stuck task.
            let marked = runtime.spawn(async { runtime::task::block_in_place(|| 1) });
            until("a thread is refused", || metrics.spare_refused_count() > before);
            stuck.end(&runtime);
            assert_eq!(client.receive(), PING);
            assert_eq!(runtime.block_on(marked).unwrap(), 1);
        }
        assert_eq!(metrics.spare_started_count(), 0);
        until("no spare worker is there", || metrics.num_spare_workers() == 0);
        // Under the same limit it ends.
        drop(runtime);
    }
}
