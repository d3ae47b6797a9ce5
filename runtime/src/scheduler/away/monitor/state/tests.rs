use super::*;
use crate::scheduler::shared::tests::{NoThreads, was_unparked};

#[test]
fn hints_are_what_was_last_set() {
    let monitor = Monitor::default();
    let hints = || (monitor.do_jobs_wait(), monitor.saw_long_polls());
    assert_eq!(hints(), (false, false));
    monitor.set_jobs_wait(true);
    assert_eq!(hints(), (true, false));
    monitor.set_saw_long_polls(true);
    assert_eq!(hints(), (true, true));
    monitor.set_jobs_wait(true);
    monitor.set_jobs_wait(false);
    assert_eq!(hints(), (false, true));
    monitor.set_saw_long_polls(false);
    assert_eq!(hints(), (false, false));
}

#[test]
fn a_worker_that_is_awake_again_ends_the_rest_of_the_monitor() {
    let (monitor, driver) = (Monitor::default(), Driver::new(None, None));
    monitor.worker_woke(&driver);
    assert!(!was_unparked(&monitor.parker), "it does not rest");
    let ways: [fn(&Monitor, &Driver); 2] = [Monitor::worker_woke, Monitor::worker_returned];
    for tell in ways {
        monitor.is_resting.store(true, Relaxed);
        tell(&monitor, &driver);
        assert!(!monitor.is_resting.load(Relaxed) && was_unparked(&monitor.parker));
        tell(&monitor, &driver);
        assert!(!was_unparked(&monitor.parker), "one unpark is enough");
    }
}

#[test]
fn the_task_of_a_poll_is_slow_if_it_is_found_twice_and_does_not_block() {
    let (runtime, monitor) = (NoThreads::new(1), Monitor::default());
    let (processor, task) = (Processor::new(None), runtime.task());
    assert!(!monitor.remember_slow(&processor, 0), "it polls no task");
    processor.polling.begin(&task);
    assert!(!monitor.remember_slow(&processor, 1), "it has moved");
    processor.marks.store(1, Relaxed);
    assert!(!monitor.remember_slow(&processor, 0), "it has announced that it may block");
    processor.marks.store(0, Relaxed);
    let computation = processor.polling.begin_computation(&task);
    assert!(!monitor.remember_slow(&processor, 0), "it computes");
    drop(computation);
    assert!(monitor.remember_slow(&processor, 0) && !monitor.slow_tasks.is_slow(task.id()));
    assert!(monitor.remember_slow(&processor, 0) && monitor.slow_tasks.is_slow(task.id()));
    task.cancel();
}

#[test]
fn threads_that_cancel_tasks_are_counted() {
    let cancellers = Cancellers::default();
    (0..3).for_each(|_| cancellers.begins());
    (0..5).for_each(|_| cancellers.takes_task());
    (0..2).for_each(|_| cancellers.ends());
    assert_eq!(cancellers.counts(), [3, 5, 2]);
}
