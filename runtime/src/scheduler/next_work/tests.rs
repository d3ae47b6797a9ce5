//! One worker of two, without threads: where its tasks come from, and where they go.

use super::*;
use crate::config::{Config, RngSeed};
use crate::driver::Driver;
use crate::driver::io::IoDriver;
use crate::job::Tag;
use crate::scheduler::enter;
use crate::scheduler::shared::tests::{IdleJob, NoThreads, OwnWorker};

/// Pushes `count` tasks into the ring of `worker`. Returns their numbers.
fn fill_ring(runtime: &NoThreads, worker: &Worker, count: usize) -> Vec<u64> {
    let push = |task: Runnable| {
        let id = task.id();
        assert_eq!(worker.own_queues().push_back(task, &runtime.injector), 0);
        id
    };
    (0..count).map(|_| push(runtime.task())).collect()
}

/// Spawns a task into the injector. Returns its number.
fn inject(runtime: &NoThreads) -> u64 {
    let task = runtime.task();
    let id = task.id();
    runtime.injector.push_task(task);
    id
}

/// The number of the task, which is cancelled.
fn id_of(task: Option<Runnable>) -> Option<u64> {
    task.map(|task| {
        let id = task.id();
        task.cancel();
        id
    })
}

fn sleeps(runtime: &NoThreads, index: usize) {
    runtime.idle.announce_sleep(index, false);
}

/// The worker's own thread searches.
fn searches(runtime: &NoThreads, worker: &Worker) {
    assert!(runtime.idle.start_searching());
    worker.is_searching.set(true);
}

/// Spare worker 2 of a runtime with one worker, in the role that follows from the numbers.
fn spare(runtime: &NoThreads) -> OwnWorker<'_> {
    let index = runtime.add_spare();
    let worker = runtime.worker(index);
    worker.ask_role();
    worker
}

#[test]
fn the_injector_has_its_turn_after_so_many_tasks() {
    let runtime = NoThreads::new(2);
    let worker = runtime.worker(0);
    let [first, second]: [u64; 2] = fill_ring(&runtime, &worker, 2).try_into().unwrap();
    let injected = inject(&runtime);
    worker.tasks_to_injector.set(2);
    assert_eq!(id_of(worker.next_task()), Some(first));
    assert_eq!(id_of(worker.next_task()), Some(injected));
    assert_eq!(worker.tasks_to_injector.get(), runtime.config.global_queue_interval);
    assert_eq!(id_of(worker.next_task()), Some(second));
    let injected = inject(&runtime);
    assert_eq!(id_of(worker.next_task()), Some(injected), "nothing else is left");
    worker.tasks_to_injector.set(1);
    let [last]: [u64; 1] = fill_ring(&runtime, &worker, 1).try_into().unwrap();
    assert_eq!(id_of(worker.next_task()), Some(last), "the injector is empty");
    assert_eq!(id_of(worker.next_task()), None);
}

#[test]
fn slow_tasks_and_the_injector_take_turns() {
    let runtime = NoThreads::new(2);
    let worker = runtime.worker(0);
    let slow: Vec<_> = (0..3)
        .map(|_| {
            let task = runtime.task();
            let id = task.id();
            runtime.slow.push_task(task);
            id
        })
        .collect();
    let injected = inject(&runtime);
    let turn = || {
        worker.tasks_to_injector.set(1);
        id_of(worker.next_task())
    };
    assert_eq!([turn(), turn(), turn(), turn()], [slow[0], injected, slow[1], slow[2]].map(Some));
    assert_eq!(turn(), None);
    assert_eq!(runtime.monitor.slow_taken.load(Relaxed), 3);
}

#[test]
fn tasks_that_keep_waking_each_other_do_not_starve_the_ring() {
    let runtime = NoThreads::new(2);
    let worker = runtime.worker(0);
    let [in_ring]: [u64; 1] = fill_ring(&runtime, &worker, 1).try_into().unwrap();
    for _ in 0..LIFO_STREAK {
        let task = runtime.task();
        let id = task.id();
        worker.push(task);
        assert_eq!(id_of(worker.next_task()), Some(id));
    }
    assert_eq!(worker.processor().metrics.lifo_polls.get(), u64::from(LIFO_STREAK));
    let task = runtime.task();
    let id = task.id();
    worker.push(task);
    assert_eq!(id_of(worker.next_task()), Some(in_ring));
    assert_eq!(id_of(worker.next_task()), Some(id), "it is behind the ring's");
    assert_eq!(worker.lifo_streak.get(), 0);
}

#[test]
fn a_batch_from_the_injector_brings_another_worker_if_it_is_more_than_one_task() {
    let runtime = NoThreads::new(2);
    let worker = runtime.worker(0);
    let first = inject(&runtime);
    sleeps(&runtime, 1);
    assert_eq!(id_of(worker.next_injected_task()), Some(first));
    assert_eq!(runtime.unparked(), []);
    assert!(runtime.idle.end_sleep(1));
    let ids: Vec<_> = (0..4).map(|_| inject(&runtime)).collect();
    sleeps(&runtime, 1);
    assert_eq!(id_of(worker.next_injected_task()), Some(ids[0]));
    assert!(!worker.processor().ring.is_empty());
    assert_eq!(runtime.unparked(), [1]);
}

#[test]
fn a_task_that_is_woken_runs_next_and_the_one_before_goes_into_the_ring() {
    let runtime = NoThreads::new(2);
    let worker = runtime.worker(0);
    let tasks = [(); 3].map(|()| runtime.task());
    let ids = [&tasks[0], &tasks[1], &tasks[2]].map(|task| task.id());
    sleeps(&runtime, 1);
    let mut tasks = tasks.into_iter();
    worker.push(tasks.next().unwrap());
    assert!(worker.processor().lifo.is_occupied() && runtime.unparked().is_empty());
    worker.push(tasks.next().unwrap());
    assert_eq!(runtime.unparked(), [1]);
    assert_eq!(worker.processor().metrics.notifies.get(), 1);
    worker.push(tasks.next().unwrap());
    let order = [(); 4].map(|()| id_of(worker.next_task()));
    assert_eq!(order, [Some(ids[2]), Some(ids[0]), Some(ids[1]), None]);
}

#[test]
fn a_task_that_yields_alone_needs_no_help() {
    let runtime = NoThreads::new(2);
    let worker = runtime.worker(0);
    let tasks = [(); 2].map(|()| runtime.task());
    sleeps(&runtime, 1);
    let [first, second] = tasks;
    worker.requeue(first);
    assert!(worker.has_yielded.get());
    assert_eq!((worker.processor().ring.len(), runtime.unparked()), (1, vec![]));
    worker.push_back(second);
    assert_eq!((worker.processor().ring.len(), runtime.unparked()), (2, vec![1]));
}

#[test]
fn no_worker_is_woken_beside_a_searcher_or_if_none_sleeps() {
    let runtime = NoThreads::new(4);
    let worker = runtime.worker(0);
    fill_ring(&runtime, &worker, 2);
    worker.notify_if_worth();
    assert_eq!(worker.processor().metrics.notifies.get(), 0);
    sleeps(&runtime, 1);
    assert!(runtime.idle.start_searching());
    worker.notify_if_worth();
    assert_eq!((runtime.unparked(), worker.processor().metrics.notifies.get()), (vec![], 0));
}

#[test]
fn an_overflow_of_the_ring_goes_to_the_injector_and_brings_another_worker() {
    let runtime = NoThreads::new(2);
    let worker = runtime.worker(0);
    fill_ring(&runtime, &worker, RING_CAPACITY);
    let task = runtime.task();
    sleeps(&runtime, 1);
    worker.push_back(task);
    assert_eq!(worker.processor().metrics.overflows.get(), 1);
    assert!(!runtime.injector.is_empty());
    assert_eq!(runtime.unparked(), [1]);
}

#[test]
fn in_a_dispatch_tasks_queue_in_order_and_behind_a_backlog_in_the_injector() {
    let runtime = NoThreads::new(2);
    let worker = runtime.worker(0);
    worker.push_to.set(PushTo::RingInDispatch);
    let tasks = [(); 2].map(|()| runtime.task());
    tasks.into_iter().for_each(|task| worker.push(task));
    assert!(worker.processor().ring.len() == 2 && !worker.processor().lifo.is_occupied());
    (1..BACKLOG).for_each(|_| _ = inject(&runtime));
    worker.push(runtime.task());
    assert_eq!(worker.processor().ring.len(), 3, "there is no backlog yet");
    inject(&runtime);
    worker.push(runtime.task());
    assert_eq!(worker.push_to.get(), PushTo::BehindInDispatch);
    assert_eq!((worker.processor().ring.len(), worker.behind.borrow().len()), (3, 1));
    (1..BEHIND).for_each(|_| worker.push(runtime.task()));
    assert_eq!((worker.behind.borrow().len(), runtime.injector.len()), (0, BACKLOG + BEHIND));
    // Outside of a dispatch, a backlog does not matter.
    worker.push_to.set(PushTo::Ring);
    worker.push(runtime.task());
    assert_eq!(worker.processor().ring.len(), 4);
    worker.push_to.set(PushTo::LifoSlot);
}

#[test]
fn a_searcher_takes_half_of_another_ring() {
    let runtime = NoThreads::new(2);
    let (worker, other) = (runtime.worker(0), runtime.worker(1));
    let ids = fill_ring(&runtime, &other, 4);
    assert_eq!(id_of(worker.search()), Some(ids[0]));
    assert!(worker.is_searching.get() && runtime.idle.counts() == (1, 0));
    let metrics = &worker.processor().metrics;
    assert_eq!((metrics.searches.get(), metrics.steals.get(), metrics.stolen.get()), (1, 1, 2));
    assert_eq!((worker.processor().ring.len(), other.processor().ring.len()), (1, 2));
}

#[test]
fn a_searcher_that_finds_nothing_stays_one_and_too_many_do_not_search() {
    let runtime = NoThreads::new(2);
    let (worker, other) = (runtime.worker(0), runtime.worker(1));
    assert!(worker.search().is_none() && worker.is_searching.get());
    let ids = fill_ring(&runtime, &worker, 2);
    assert!(other.search().is_none() && !other.is_searching.get(), "one of two searches");
    assert_eq!(runtime.idle.counts(), (1, 0));
    assert!(worker.search().is_none(), "no worker steals from itself");
    worker.stop_searching();
    assert_eq!(id_of(other.search()), Some(ids[0]));
}

#[test]
fn a_searcher_looks_in_the_injector_and_at_the_slow_tasks() {
    let runtime = NoThreads::new(2);
    let worker = runtime.worker(0);
    let task = runtime.task();
    let slow = task.id();
    runtime.slow.push_task(task);
    let injected = inject(&runtime);
    assert_eq!([(); 3].map(|()| id_of(worker.search())), [Some(injected), Some(slow), None]);
}

#[test]
fn a_worker_alone_searches_only_for_slow_tasks() {
    let runtime = NoThreads::new(1);
    let worker = runtime.worker(0);
    let task = runtime.task();
    let id = task.id();
    inject(&runtime);
    runtime.slow.push_task(task);
    assert_eq!([(); 2].map(|()| id_of(worker.search())), [Some(id), None]);
    assert_eq!(runtime.idle.counts(), (0, 0));
}

#[test]
fn a_task_in_the_lifo_slot_of_a_worker_that_does_not_move_is_stolen() {
    let runtime = NoThreads::new(2);
    let (worker, other) = (runtime.worker(0), runtime.worker(1));
    let task = runtime.task();
    let id = task.id();
    other.push(task);
    assert!(worker.steal_lifo_task().is_none(), "it is seen for the first time");
    assert_eq!(worker.sighting.get().map(|(victim, _)| victim), Some(1));
    other.processor().metrics.polls.add(1);
    assert!(worker.steal_lifo_task().is_none(), "its owner has moved");
    let mut stolen = None;
    while stolen.is_none() {
        stolen = worker.steal_lifo_task();
    }
    assert_eq!(id_of(stolen), Some(id));
    let metrics = &worker.processor().metrics;
    assert_eq!((metrics.steals.get(), metrics.stolen.get()), (1, 1));
    assert!(worker.steal_lifo_task().is_none() && worker.sighting.get().is_none());
    let task = runtime.task();
    worker.push(task);
    assert!(worker.steal_lifo_task().is_none() && worker.sighting.get().is_none(), "its own");
}

#[test]
fn the_last_searcher_that_finds_work_has_another_come_for_the_rest() {
    let runtime = NoThreads::new(4);
    let worker = runtime.worker(0);
    worker.stop_searching_if_so();
    fill_ring(&runtime, &worker, 1);
    sleeps(&runtime, 2);
    searches(&runtime, &worker);
    assert!(runtime.idle.start_searching());
    worker.is_notified.set(true);
    worker.stop_searching_if_so();
    assert!(!worker.is_searching.get() && !worker.is_notified.get());
    assert_eq!((runtime.unparked(), runtime.idle.counts()), (vec![], (1, 1)), "another searches");
    worker.is_searching.set(true);
    worker.stop_searching();
    assert_eq!((runtime.unparked(), runtime.idle.counts()), (vec![2], (1, 0)));
}

#[test]
fn the_last_searcher_leaves_jobs_to_a_waiter() {
    let (runtime, job) = (NoThreads::new(4), IdleJob::new());
    let worker = runtime.worker(0);
    assert!(runtime.idle.announce_wait(3, runtime.idle.get_sleepy()));
    searches(&runtime, &worker);
    worker.stop_searching();
    assert_eq!(runtime.unparked(), [], "no job waits");
    searches(&runtime, &worker);
    runtime.job_processor(1).detached.push_back(job.tagged(Tag::NONE));
    worker.stop_searching();
    assert_eq!(runtime.unparked(), [3]);
}

#[test]
fn a_worker_that_may_not_run_everything_leaves_the_rest_to_lower_ones() {
    let runtime = NoThreads::with_spares(1, 1);
    let (worker, spare) = (runtime.worker(0), spare(&runtime));
    spare.leave_rest_to_others();
    fill_ring(&runtime, &worker, 1);
    sleeps(&runtime, 0);
    spare.leave_rest_to_others();
    assert_eq!(runtime.unparked(), [], "it did not search");
    spare.is_searching.set(runtime.idle.start_searching());
    assert!(spare.is_searching.get());
    spare.leave_rest_to_others();
    assert_eq!((runtime.unparked(), runtime.idle.counts()), (vec![0], (1, 0)));
    assert!(!spare.is_searching.get());
}

#[test]
fn a_worker_that_serves_leaves_slow_tasks_to_the_others() {
    let runtime = NoThreads::with_spares(1, 2);
    runtime.away.set_up(|table| table.serving = 1);
    let (worker, spare) = (runtime.worker(0), spare(&runtime));
    assert_eq!(spare.role(), Role::Serves);
    let slow = inject(&runtime);
    (0..2).for_each(|_| runtime.monitor.slow_tasks.insert(slow, std::panic::Location::caller()));
    let quick = inject(&runtime);
    sleeps(&runtime, 0);
    assert_eq!(id_of(spare.next_injected_task()), Some(quick));
    assert_eq!((runtime.slow.len(), runtime.unparked()), (1, vec![0]));
    assert!(spare.search().is_none() && spare.next_slow_task().is_none());
    assert_eq!(id_of(worker.next_slow_task()), Some(slow));
}

#[test]
fn a_spare_worker_takes_slow_tasks_for_a_worker_that_is_away_or_yields() {
    for yields in [false, true] {
        let runtime = NoThreads::with_spares(2, 1);
        let index = runtime.add_spare();
        let spare = runtime.worker(index);
        match yields {
            true => assert!(runtime.begin_yield(0).is_some()),
            false => runtime.away.set_up(|table| table.blocked = 1),
        }
        spare.ask_role();
        assert!(spare.may_take_long());
        runtime.slow.push_task(runtime.task());
        sleeps(&runtime, 1);
        assert!(id_of(spare.next_slow_task()).is_some());
        assert_eq!(runtime.unparked(), [1], "another worker sees to the driver");
        assert!(spare.next_slow_task().is_none());
    }
}

#[test]
fn a_worker_that_serves_probes_one_slow_task_of_which_only_the_place_is_known() {
    let runtime = NoThreads::with_spares(1, 2);
    runtime.away.set_up(|table| table.serving = 1);
    let spare = spare(&runtime);
    let ids: Vec<_> = (0..4)
        .map(|_| {
            let task = runtime.task();
            let id = task.id();
            runtime.slow.push_task(task);
            id
        })
        .collect();
    (0..2).for_each(|_| runtime.monitor.slow_tasks.insert(ids[0], std::panic::Location::caller()));
    sleeps(&runtime, 0);
    assert!(spare.next_slow_task().is_none());
    runtime.monitor.set_prober(Some(spare.index()));
    assert_eq!(id_of(spare.search()), Some(ids[1]));
    assert_eq!(runtime.unparked(), [0], "it takes the task that is slow itself");
    assert!(spare.search().is_none(), "one probe");
    assert_eq!(runtime.monitor.slow_taken.load(Relaxed), 0, "the others have waited as long as before");
    let left = [(); 4].map(|()| id_of(runtime.slow.pop_task()));
    assert_eq!(left, [Some(ids[2]), Some(ids[3]), Some(ids[0]), None]);

    // Both tasks are slow.
    let tasks = [runtime.task(), runtime.task()];
    for task in tasks {
        (0..2).for_each(|_| runtime.monitor.slow_tasks.insert(task.id(), std::panic::Location::caller()));
        runtime.slow.push_task(task);
    }
    runtime.monitor.set_prober(Some(spare.index()));
    assert!(spare.search().is_none());
    assert_eq!(runtime.slow.len(), 2);
    (0..2).for_each(|_| runtime.slow.pop_task().unwrap().cancel());
}

#[test]
fn a_spare_worker_that_serves_sorts_slow_tasks_out() {
    let runtime = NoThreads::with_spares(1, 2);
    runtime.away.set_up(|table| table.serving = 1);
    let spare = spare(&runtime);
    let ids = fill_ring(&runtime, &spare, 3);
    (0..2).for_each(|_| runtime.monitor.slow_tasks.insert(ids[1], std::panic::Location::caller()));
    let task = runtime.task();
    let last = task.id();
    spare.push(task);
    spare.sort_ring();
    assert!(!spare.processor().lifo.is_occupied());
    let left = [(); 4].map(|()| id_of(spare.next_task()));
    assert_eq!(left, [Some(ids[0]), Some(ids[2]), Some(last), None]);
    assert_eq!(id_of(runtime.slow.pop_task()), Some(ids[1]));
}

#[test]
fn tasks_of_a_worker_that_goes_away_go_to_the_injector() {
    let runtime = NoThreads::new(2);
    let worker = runtime.worker(0);
    let ids = fill_ring(&runtime, &worker, 2);
    let task = runtime.task();
    let next = task.id();
    worker.push(task);
    worker.move_tasks_to_injector();
    assert!(!worker.has_own_tasks());
    let order = [(); 3].map(|()| id_of(runtime.injector.pop_task()));
    assert_eq!(order, [next, ids[0], ids[1]].map(Some));
}

#[test]
fn tasks_are_taken_out_of_the_ring_and_the_others_keep_their_order() {
    let runtime = NoThreads::new(2);
    let worker = runtime.worker(0);
    let ids = fill_ring(&runtime, &worker, 4);
    let taken = worker.take_out(|task| task.id() == ids[1] || task.id() == ids[3]);
    assert_eq!(taken.len(), 2);
    runtime.injector.push_batch(taken);
    assert_eq!([(); 3].map(|()| id_of(worker.own_queues().pop_front())), [Some(ids[0]), Some(ids[2]), None]);
}

#[test]
fn of_the_tasks_of_a_slow_place_a_few_go_to_workers_that_serve() {
    let rng_seed = Some(RngSeed::from_bytes(b"next_work"));
    let config = Config { is_pool: false, rng_seed, ..Config::of_pool(1) };
    let runtime = NoThreads::of(config, Driver::new(None, None));
    let (worker, task) = (runtime.worker(0), runtime.task());
    assert!(!worker.leaves_to_others(&task));
    (1..100).for_each(|other| runtime.monitor.slow_tasks.insert(task.id() + other, task.spawned_at()));
    let left = (0..32 * 100).filter(|_| worker.leaves_to_others(&task)).count();
    assert!((2_800..3_200).contains(&left), "{left} of 3200");
    (0..2).for_each(|_| runtime.monitor.slow_tasks.insert(task.id(), task.spawned_at()));
    assert!((0..3200).all(|_| worker.leaves_to_others(&task)), "it is slow itself");
    task.cancel();
}

#[test]
fn a_searcher_that_takes_everything_runs_a_job_of_another_worker() {
    let (runtime, job) = (NoThreads::with_spares(2, 1), IdleJob::new());
    let index = runtime.add_spare();
    runtime.away.set_up(|table| table.serving = 1);
    let (worker, spare) = (runtime.worker(0), runtime.worker(index));
    let detached = &runtime.job_processor(1).detached;
    let runs = |worker: &Worker| enter::enter_worker(worker, || worker.run_stolen_job());
    worker.is_searching.set(true);
    assert!(!runs(&worker), "there is none");
    detached.push_back(job.tagged(Tag::NONE));
    worker.is_searching.set(false);
    assert!(!runs(&worker), "it does not search");
    spare.ask_role();
    spare.is_searching.set(true);
    assert!(!runs(&spare) && !detached.is_empty(), "it serves");
    spare.is_searching.set(false);
    searches(&runtime, &worker);
    assert!(runs(&worker) && detached.is_empty());
    worker.stop_searching_if_so();
}

#[test]
fn work_that_can_wait_brings_a_spare_worker_if_none_sleeps_and_no_surplus_sleeper() {
    let runtime = NoThreads::with_spares(2, 2);
    let worker = runtime.worker(0);
    let [first, second] = [(); 2].map(|()| runtime.add_spare());
    runtime.away.set_up(|table| table.begin_rest(second));
    sleeps(&runtime, first);
    assert_eq!(runtime.extra(), 1);
    worker.share_if_worth();
    assert_eq!(runtime.unparked(), [], "it serves");
    sleeps(&runtime, 1);
    worker.share_if_worth();
    assert_eq!(runtime.unparked(), [1]);
    assert!(runtime.idle.end_sleep(first) && runtime.idle.stop_searching());
    runtime.away.set_up(|table| table.blocked = 2);
    worker.share_if_worth();
    assert_eq!(runtime.unparked(), [second]);
}

#[test]
fn a_worker_with_long_polls_gives_quick_tasks_to_spare_workers_that_serve() {
    let runtime = NoThreads::with_spares(2, 1);
    let (worker, index) = (runtime.worker(0), runtime.add_spare());
    let ids = fill_ring(&runtime, &worker, 3);
    (0..2).for_each(|_| runtime.monitor.slow_tasks.insert(ids[1], std::panic::Location::caller()));
    worker.sort_ring();
    runtime.away.set_up(|table| table.serving = 1);
    worker.sort_ring();
    assert_eq!(worker.processor().ring.len(), 3, "its polls are short");
    worker.set_long_polls();
    assert!(worker.has_long_polls());
    (0..BACKLOG).for_each(|_| runtime.spawn());
    worker.sort_ring();
    assert_eq!(worker.processor().ring.len(), 3, "the injector would pile up");
    (1..BACKLOG).for_each(|_| runtime.injector.pop_task().unwrap().cancel());
    runtime.away.set_up(|table| table.serving = 0);
    worker.sort_ring();
    assert_eq!(worker.processor().ring.len(), 3, "none serves");
    runtime.away.set_up(|table| table.serving = 1);
    sleeps(&runtime, index);
    worker.sort_ring();
    assert_eq!((worker.processor().ring.len(), runtime.unparked()), (1, vec![index]));
    runtime.injector.pop_task().unwrap().cancel();
    let given = [(); 3].map(|()| id_of(runtime.injector.pop_task()));
    assert_eq!(given, [Some(ids[0]), Some(ids[2]), None]);
    assert_eq!(id_of(worker.next_task()), Some(ids[1]));
}

#[test]
fn beside_long_polls_another_worker_comes_for_two_tasks_of_a_dispatch() {
    let runtime = NoThreads::new(2);
    let worker = runtime.worker(0);
    runtime.monitor.set_saw_long_polls(true);
    fill_ring(&runtime, &worker, 1);
    sleeps(&runtime, 1);
    worker.share_ring();
    assert_eq!(runtime.unparked(), [], "it runs the only task itself");
    assert!(runtime.idle.end_sleep(1));
    fill_ring(&runtime, &worker, 1);
    sleeps(&runtime, 1);
    worker.share_ring();
    assert_eq!(runtime.unparked(), [1]);
}

#[test]
fn beside_long_polls_a_worker_that_leaves_the_driver_with_tasks_has_another_take_its_place() {
    let config = Config { is_pool: false, ..Config::of_pool(2) };
    let runtime = NoThreads::of(config, Driver::new(Some(IoDriver::new(16, None).unwrap()), None));
    let worker = runtime.worker(0);
    let task = runtime.task();
    sleeps(&runtime, 1);
    runtime.monitor.set_saw_long_polls(true);
    worker.hand_driver_on();
    assert_eq!(runtime.unparked(), [], "it has no tasks");
    worker.own_queues().push_back(task, &runtime.injector);
    runtime.monitor.set_saw_long_polls(false);
    worker.hand_driver_on();
    assert_eq!(runtime.unparked(), [], "polls are short");
    runtime.monitor.set_saw_long_polls(true);
    let poller = runtime.driver.try_become_poller(1).unwrap();
    worker.hand_driver_on();
    assert_eq!(runtime.unparked(), [], "another one is there");
    drop(poller);
    worker.hand_driver_on();
    assert_eq!(runtime.unparked(), [1]);
}

#[test]
fn a_spare_worker_that_helps_with_slow_tasks_gives_quick_ones_away() {
    let runtime = NoThreads::with_spares(1, 2);
    let (helper, server) = (spare(&runtime), runtime.add_spare());
    let ids = fill_ring(&runtime, &helper, 2);
    (0..2).for_each(|_| runtime.monitor.slow_tasks.insert(ids[0], std::panic::Location::caller()));
    runtime.away.set_up(|table| (table.stalled, table.serving) = (1, 1));
    helper.sort_ring();
    assert_eq!(helper.processor().ring.len(), 2, "its polls are short");
    helper.set_long_polls();
    sleeps(&runtime, server);
    helper.sort_ring();
    assert_eq!((helper.processor().ring.len(), runtime.unparked()), (1, vec![server]));
    assert_eq!(id_of(runtime.injector.pop_task()), Some(ids[1]));
    assert_eq!(id_of(helper.own_queues().pop_front()), Some(ids[0]));
}

#[test]
fn a_spare_worker_that_serves_keeps_quick_tasks_while_a_computation_yields() {
    let runtime = NoThreads::with_spares(1, 2);
    let spare = spare(&runtime);
    runtime.add_spare();
    fill_ring(&runtime, &spare, 2);
    runtime.away.set_up(|table| {
        table.serving = 2;
        table.yielding.push(0);
    });
    assert!(runtime.away.is_any_serving() && runtime.away.has_yielding());
    spare.set_long_polls();
    spare.sort_ring();
    assert_eq!((spare.role(), spare.processor().ring.len()), (Role::Serves, 2));
    while let Some(task) = spare.own_queues().pop() {
        task.cancel();
    }
}
