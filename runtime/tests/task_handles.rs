//! What handles, wakers and ids promise, in every order of events.

mod support;

use std::collections::HashSet;
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::thread;

use runtime::task::{AbortHandle, JoinHandle, yield_now};
use support::{Drops, build, each_kind, until, watchdog};

/// A task that gives its waker away at each poll.
fn exposed(runtime: &runtime::Runtime, drops: &Drops) -> (JoinHandle<()>, mpsc::Receiver<Waker>) {
    let (send, receive) = mpsc::channel();
    let token = drops.token();
    let task = runtime.spawn(poll_fn(move |cx| {
        let _keep = &token;
        _ = send.send(cx.waker().clone());
        Poll::Pending
    }));
    runtime.block_on(runtime::task::yield_now());
    (task, receive)
}

#[test]
fn a_waker_may_outlive_its_task_runtime_and_thread() {
    let _watchdog = watchdog();
    for workers in support::KINDS {
        let drops = Drops::default();
        let (waker, task) = {
            let drops = drops.clone();
            thread::spawn(move || {
                let runtime = build(workers);
                let (task, receive) = exposed(&runtime, &drops);
                (receive.recv().unwrap(), task)
            })
            .join()
            .unwrap()
        };
        assert_eq!(drops.count(), 1);
        waker.wake_by_ref();
        let clone = waker.clone();
        assert!(clone.will_wake(&waker));
        drop(task);
        thread::spawn(move || clone.wake()).join().unwrap();
        drop(waker);
        assert_eq!(drops.count(), 1);
    }
}

#[test]
fn wakes_race_with_the_end_of_the_runtime() {
    let _watchdog = watchdog();
    for workers in support::KINDS {
        for _ in 0..100 {
            let runtime = build(workers);
            let drops = Drops::default();
            let (task, receive) = exposed(&runtime, &drops);
            // Each wake brings a poll, and with it the next waker, until the task is dropped.
            let waker = thread::spawn(move || receive.into_iter().for_each(Waker::wake));
            drop(task);
            drop(runtime);
            waker.join().unwrap();
            assert_eq!(drops.count(), 1);
        }
    }
}

#[test]
fn many_wakes_before_a_poll_cost_one_poll() {
    let runtime = build(0);
    let polls = Arc::new(AtomicUsize::new(0));
    let seen = polls.clone();
    drop(runtime.spawn(poll_fn(move |cx| {
        if seen.fetch_add(1, SeqCst) == 0 {
            (0..100).for_each(|_| cx.waker().wake_by_ref());
        }
        Poll::<()>::Pending
    })));
    runtime.block_on(async {
        for _ in 0..10 {
            runtime::task::yield_now().await;
        }
    });
    assert_eq!(polls.load(SeqCst), 2);
}

#[test]
fn abort_cancels_a_queued_task_before_its_first_poll() {
    let runtime = build(0);
    let task = runtime.spawn(async { panic!("is not polled") });
    task.abort();
    task.abort();
    assert!(!task.is_finished(), "its future is dropped by the runtime, not by us");
    let error = runtime.block_on(task).unwrap_err();
    assert!(error.is_cancelled() && !error.is_panic());
    assert!(error.to_string().contains("was cancelled"));
    assert!(error.try_into_panic().unwrap_err().is_cancelled());
}

#[test]
fn abort_cancels_a_waiting_task() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let drops = Drops::default();
        let (task, receive) = exposed(&runtime, &drops);
        receive.recv().unwrap();
        task.abort();
        assert!(runtime.block_on(task).unwrap_err().is_cancelled());
        assert_eq!(drops.count(), 1);
        assert_eq!(runtime.metrics().num_alive_tasks(), 0);
    });
}

#[test]
fn abort_cancels_a_running_task_at_its_next_yield() {
    let _watchdog = watchdog();
    for workers in [1, 3] {
        let runtime = build(workers);
        let (gate, begun) = (support::Gate::default(), support::Gate::default());
        let (inside, tell) = (gate.clone(), begun.clone());
        let yielding = runtime.spawn(async move {
            tell.open();
            inside.wait();
            runtime::task::yield_now().await;
            panic!("is not polled again");
        });
        begun.wait();
        yielding.abort();
        assert!(!yielding.is_finished());
        gate.open();
        assert!(runtime.block_on(yielding).unwrap_err().is_cancelled());
        // A task that ends in the poll it is in, has ended.
        let begun = support::Gate::default();
        let (inside, tell) = (support::Gate::default(), begun.clone());
        let gate = inside.clone();
        let ending = runtime.spawn(async move {
            tell.open();
            inside.wait();
            5
        });
        begun.wait();
        ending.abort();
        gate.open();
        assert_eq!(runtime.block_on(ending).unwrap(), 5);
    }
}

#[test]
fn abort_of_a_finished_task_changes_nothing() {
    each_kind(|runtime| {
        let mut task = runtime.spawn(async { 5 });
        let abort = task.abort_handle();
        runtime.block_on(async {
            while !task.is_finished() {
                runtime::task::yield_now().await;
            }
        });
        task.abort();
        abort.clone().abort();
        assert!(abort.is_finished());
        assert_eq!(runtime.block_on(&mut task).unwrap(), 5);
        drop(task);
        abort.abort();
        drop(runtime);
        abort.abort();
    });
}

#[test]
fn a_task_may_abort_itself() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let (send, receive) = mpsc::channel::<runtime::task::AbortHandle>();
        let drops = Drops::default();
        let token = drops.token();
        let task = runtime.spawn(async move {
            let _token = token;
            while let Ok(own) =
                receive.try_recv().map_err(|_| ()).or_else(|()| receive.recv().map_err(|_| ()))
            {
                own.abort();
                runtime::task::yield_now().await;
            }
            unreachable!("it is cancelled at its yield");
        });
        send.send(task.abort_handle()).unwrap();
        assert!(runtime.block_on(task).unwrap_err().is_cancelled());
        assert_eq!(drops.count(), 1);
    });
}

#[test]
fn a_queued_blocking_closure_can_be_aborted_and_a_running_one_cannot() {
    let _watchdog = watchdog();
    let runtime = support::builder(1).max_blocking_threads(1).build().unwrap();
    let (gate, begun) = (support::Gate::default(), support::Gate::default());
    let (inside, tell) = (gate.clone(), begun.clone());
    let running = runtime.spawn_blocking(move || {
        tell.open();
        inside.wait();
        5
    });
    begun.wait();
    let queued = runtime.spawn_blocking(|| panic!("does not run"));
    queued.abort();
    running.abort();
    gate.open();
    assert_eq!(runtime.block_on(running).unwrap(), 5);
    assert!(runtime.block_on(queued).unwrap_err().is_cancelled());
}

struct CountWakes(AtomicUsize);

impl Wake for CountWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_handle_wakes_the_waker_it_was_polled_with_last() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let counts = [0, 1].map(|_| Arc::new(CountWakes(AtomicUsize::new(0))));
        let wakers = counts.clone().map(Waker::from);
        let mut task = runtime.spawn(pending::<()>());
        for i in [0, 0, 1, 0, 1] {
            assert!(Pin::new(&mut task).poll(&mut Context::from_waker(&wakers[i])).is_pending());
        }
        task.abort();
        runtime.block_on(async {
            while !task.is_finished() {
                runtime::task::yield_now().await;
            }
        });
        until("the waker is woken", || counts[1].0.load(SeqCst) == 1);
        assert_eq!(counts[0].0.load(SeqCst), 0);
        drop(task);
        drop(wakers);
        until("no waker is kept", || counts.iter().all(|count| Arc::strong_count(count) == 1));
    });
}

#[test]
fn a_handle_may_move_between_tasks_while_it_is_awaited() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let go = Arc::new(runtime::sync::Notify::new());
        let wait = go.clone();
        let mut task = runtime.spawn(async move {
            wait.notified().await;
            5
        });
        for _ in 0..10 {
            // Each polls it once and passes it on.
            let holder = runtime.spawn(async move {
                let polled = poll_fn(|cx| Poll::Ready(Pin::new(&mut task).poll(cx).is_pending())).await;
                assert!(polled);
                [task]
            });
            [task] = runtime.block_on(holder).unwrap();
        }
        let last = runtime.spawn(async move { task.await.unwrap() });
        go.notify_one();
        assert_eq!(runtime.block_on(last).unwrap(), 5);
    });
}

#[test]
fn two_tasks_may_join_each_others_children_in_a_long_chain() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let mut task = runtime.spawn(async { 0 });
        for _ in 0..10_000 {
            let before = task;
            task = runtime.spawn(async move { before.await.unwrap() + 1 });
        }
        assert_eq!(runtime.block_on(task).unwrap(), 10_000);
    });
}

#[test]
fn ids_are_unique_across_threads_and_runtimes() {
    let _watchdog = watchdog();
    let threads = (0..4).map(|i| {
        thread::spawn(move || {
            let runtime = build(i % 3);
            let tasks: Vec<_> = (0..2000).map(|_| runtime.spawn(async { runtime::task::id() })).collect();
            let ids = tasks.into_iter().map(|task| {
                let id = task.id();
                assert_eq!(runtime.block_on(task).unwrap(), id);
                id
            });
            ids.collect::<Vec<_>>()
        })
    });
    let threads: Vec<_> = threads.collect();
    let ids: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    assert!(runtime::task::try_id().is_none());
    assert!(support::panic_of(runtime::task::id).contains("needs a task"));
}

#[test]
fn large_and_aligned_futures_and_outputs_arrive_whole() {
    #[repr(align(256))]
    #[derive(Clone)]
    struct Aligned([u8; 256]);
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let aligned = Aligned([7; 256]);
        let task = runtime.spawn(async move {
            runtime::task::yield_now().await;
            assert_eq!((&raw const aligned).addr() % 256, 0);
            aligned
        });
        assert!(runtime.block_on(task).unwrap().0.iter().all(|&byte| byte == 7));
        let large = [3_u8; 200_000];
        let task = runtime.spawn(async move {
            runtime::task::yield_now().await;
            large.iter().map(|&byte| byte as usize).sum::<usize>()
        });
        assert_eq!(runtime.block_on(task).unwrap(), 600_000);
        let task = runtime.spawn(async { [3_u8; 20_000] });
        assert!(runtime.block_on(task).unwrap().iter().all(|&byte| byte == 3));
        let nothing: () = runtime.block_on(runtime.spawn(async {})).unwrap();
        nothing
    });
}

/// What the wakers of `LATE` share. A clone waits until the task has ended.
struct Late {
    begin: AtomicBool,
    task: AbortHandle,
    wakers: AtomicUsize,
}

static LATE: RawWakerVTable = RawWakerVTable::new(
    |late| {
        // SAFETY: the test keeps what its wakers refer to.
        let shared = unsafe { &*late.cast::<Late>() };
        shared.begin.store(true, SeqCst);
        until("the task ends", || shared.task.is_finished());
        shared.wakers.fetch_add(1, SeqCst);
        RawWaker::new(late, &LATE)
    },
    |_| unreachable!("the task has ended before"),
    |_| unreachable!("the task has ended before"),
    // SAFETY: as above.
    |late| _ = unsafe { &*late.cast::<Late>() }.wakers.fetch_sub(1, SeqCst),
);

#[test]
fn a_waker_that_comes_too_late_is_dropped_at_once() {
    let _watchdog = watchdog();
    let runtime = build(1);
    let (tell, task) = mpsc::channel::<Arc<Late>>();
    let mut handle = runtime.spawn(async move {
        let late = task.recv().unwrap();
        while !late.begin.load(SeqCst) {
            yield_now().await;
        }
    });
    let begin = AtomicBool::new(false);
    let late = Arc::new(Late { begin, task: handle.abort_handle(), wakers: AtomicUsize::new(1) });
    tell.send(late.clone()).unwrap();
    // SAFETY: the functions are as a waker's have to be, and `late` lives as long as the wakers.
    let waker = unsafe { Waker::from_raw(RawWaker::new(Arc::as_ptr(&late).cast(), &LATE)) };
    assert!(Pin::new(&mut handle).poll(&mut Context::from_waker(&waker)).is_ready());
    assert_eq!(late.wakers.load(SeqCst), 1, "the abort handle keeps no waker");
    drop(waker);
}
