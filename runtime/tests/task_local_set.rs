//! Tasks that stay on a thread: they run there and nowhere else, are woken from anywhere, and end with their
//! set, on its thread.

mod support;

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use parking_lot::Mutex;
use runtime::runtime::{LocalOptions, LocalRuntime, UnhandledPanic};
use runtime::sync::{Notify, mpsc as channel, oneshot};
use runtime::task::{self, JoinSet, LocalSet, spawn_local, yield_now};
use runtime::{Builder, time};
use support::{Drops, build, each_kind, is_child, panic_of, run_child, until, watchdog};

/// A waker that counts.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Bell {
    fn rings(&self) -> usize {
        self.0.load(SeqCst)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Tells which thread dropped it.
struct Witness(Arc<Mutex<Vec<ThreadId>>>, #[expect(dead_code, reason = "makes it stay")] Rc<()>);

impl Witness {
    fn new(seen: &Arc<Mutex<Vec<ThreadId>>>) -> Self {
        Self(seen.clone(), Rc::new(()))
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.0.lock().push(thread::current().id());
    }
}

/// Gives its waker away, and waits for ever.
struct Leaks<T> {
    wakers: Arc<Mutex<Vec<Waker>>>,
    _held: T,
}

impl<T> Leaks<T> {
    fn new(wakers: &Arc<Mutex<Vec<Waker>>>, held: T) -> Self {
        Self { wakers: wakers.clone(), _held: held }
    }
}

impl<T> Future for Leaks<T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.wakers.lock().push(cx.waker().clone());
        Poll::Pending
    }
}

#[test]
fn tasks_stay_on_the_thread_and_share_what_is_not_send() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let (here, count) = (thread::current().id(), Rc::new(Cell::new(0)));
        let local = LocalSet::new();
        local.block_on(&runtime, async {
            let tasks: Vec<_> = (0..1000)
                .map(|i| {
                    let count = count.clone();
                    spawn_local(async move {
                        // By timers, by other threads, by itself.
                        match i % 4 {
                            0 => time::sleep(Duration::from_millis(i % 7)).await,
                            1 => task::spawn_blocking(|| {}).await.unwrap(),
                            2 => yield_now().await,
                            _ => task::spawn(yield_now()).await.unwrap(),
                        }
                        assert_eq!(thread::current().id(), here);
                        count.set(count.get() + 1);
                        i
                    })
                })
                .collect();
            for (i, task) in tasks.into_iter().enumerate() {
                assert_eq!(task.await.unwrap(), i as u64);
            }
        });
        assert_eq!(count.get(), 1000);
    });
}

#[test]
fn a_set_that_is_awaited_ends_with_its_last_task() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let local = LocalSet::new();
        let (sum, trail) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(Vec::new())));
        for i in 0..3 {
            let (sum, trail) = (sum.clone(), trail.clone());
            local.spawn_local(async move {
                trail.borrow_mut().push(i);
                yield_now().await;
                spawn_local(async move {
                    time::sleep(Duration::from_millis(1)).await;
                    sum.set(sum.get() + i);
                });
            });
        }
        runtime.block_on(local);
        assert_eq!((sum.get(), &*trail.borrow()), (3, &vec![0, 1, 2]));
        runtime.block_on(LocalSet::default());
    });
}

#[test]
fn run_until_leaves_tasks_for_the_next_one() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let (local, is_done) = (LocalSet::new(), Rc::new(Cell::new(false)));
        let (sender, receiver) = oneshot::channel::<()>();
        let flag = is_done.clone();
        let task = local.spawn_local(async move {
            receiver.await.unwrap();
            flag.set(true);
        });
        assert_eq!(local.block_on(&runtime, async { 1 }), 1);
        local.block_on(&runtime, yield_now());
        sender.send(()).unwrap();
        assert!(!is_done.get());
        local.block_on(&runtime, task).unwrap();
        assert!(is_done.get());
    });
}

#[test]
fn a_foreign_wake_at_any_moment_reaches_its_task() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let local = LocalSet::new();
        let (sender, mut receiver) = channel::unbounded_channel();
        let (answers, answered) = mpsc::channel();
        let other = thread::spawn(move || {
            for i in 0..2000 {
                sender.send(i).unwrap();
                if i % 3 == 0 {
                    // Waits for the answer, so that the set sleeps when the next value comes.
                    while answered.recv().unwrap() != i {}
                }
            }
        });
        local.block_on(&runtime, async {
            let task = spawn_local(async move {
                let mut next = 0;
                while let Some(i) = receiver.recv().await {
                    assert_eq!(i, next);
                    next += 1;
                    _ = answers.send(i);
                }
                next
            });
            assert_eq!(task.await.unwrap(), 2000);
        });
        other.join().unwrap();
    });
}

#[test]
fn the_round_is_bounded() {
    let _watchdog = watchdog();
    build(0).block_on(async {
        let local = LocalSet::new();
        let turns = Rc::new(Cell::new(0));
        for _ in 0..500 {
            let turns = turns.clone();
            local.spawn_local(async move { turns.set(turns.get() + 1) });
        }
        let mut polls = Vec::new();
        let mut run = pin!(local.run_until(pending::<()>()));
        while turns.get() < 500 {
            _ = poll_fn(|cx| Poll::Ready(run.as_mut().poll(cx))).await;
            polls.push(turns.get());
        }
        assert_eq!(polls, [61, 122, 183, 244, 305, 366, 427, 488, 500]);
    });
}

#[test]
fn foreign_wakes_have_their_turn_among_tasks_that_never_rest() {
    let _watchdog = watchdog();
    let (runtime, local) = (build(0), LocalSet::new());
    local.block_on(&runtime, async {
        let is_over = Rc::new(Cell::new(false));
        for _ in 0..100 {
            let is_over = is_over.clone();
            spawn_local(async move {
                while !is_over.get() {
                    yield_now().await;
                }
            });
        }
        task::spawn_blocking(|| thread::sleep(Duration::from_millis(5))).await.unwrap();
        spawn_local(async { task::spawn_blocking(|| ()).await.unwrap() }).await.unwrap();
        is_over.set(true);
    });
}

#[test]
fn a_task_that_is_always_ready_lets_others_run() {
    let _watchdog = watchdog();
    let (runtime, local) = (build(0), LocalSet::new());
    local.block_on(&runtime, async {
        let is_over = Rc::new(Cell::new(false));
        let flag = is_over.clone();
        let busy = spawn_local(async move {
            while !flag.get() {
                task::coop::consume_budget().await;
            }
        });
        spawn_local(async move { is_over.set(true) }).await.unwrap();
        busy.await.unwrap();
    });
}

#[test]
fn a_set_that_is_dropped_drops_its_tasks_on_its_thread() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let (seen, wakers, local) = (Arc::default(), Arc::<Mutex<Vec<_>>>::default(), LocalSet::new());
        let handles: Vec<_> =
            (0..100).map(|_| local.spawn_local(Leaks::new(&wakers, Witness::new(&seen)))).collect();
        local.block_on(&runtime, async {
            for _ in 0..3 {
                yield_now().await;
            }
        });
        let newborn = local.spawn_local(Leaks::new(&wakers, Witness::new(&seen)));
        assert_eq!(wakers.lock().len(), 100);
        // Some are in the run queue then.
        wakers.lock().drain(..20).for_each(Waker::wake);
        drop(local);
        assert_eq!(*seen.lock(), [thread::current().id(); 101]);
        for handle in handles.into_iter().chain([newborn]) {
            assert!(handle.is_finished());
            assert!(runtime.block_on(handle).unwrap_err().is_cancelled());
        }
        // The others are the last to hold their tasks.
        let wakers: Vec<_> = wakers.lock().drain(..).collect();
        let other = thread::spawn(move || {
            wakers.iter().for_each(Waker::wake_by_ref);
            wakers.into_iter().for_each(Waker::wake);
        });
        other.join().unwrap();
    });
}

#[test]
fn foreign_wakes_and_aborts_may_come_while_the_set_is_dropped() {
    let _watchdog = watchdog();
    let runtime = build(0);
    for round in 0..1000 {
        let (seen, wakers, local) = (Arc::default(), Arc::<Mutex<Vec<_>>>::default(), LocalSet::new());
        let handles: Vec<_> =
            (0..8).map(|_| local.spawn_local(Leaks::new(&wakers, Witness::new(&seen)))).collect();
        local.block_on(&runtime, yield_now());
        let aborts: Vec<_> = handles.iter().map(|handle| handle.abort_handle()).collect();
        let has_begun = Arc::new(AtomicBool::new(false));
        let flag = has_begun.clone();
        let other = thread::spawn(move || {
            let wakers: Vec<_> = wakers.lock().drain(..).collect();
            flag.store(true, SeqCst);
            for (i, (waker, abort)) in wakers.into_iter().zip(aborts).enumerate() {
                match (round + i) % 3 {
                    0 => waker.wake_by_ref(),
                    1 => abort.abort(),
                    _ => waker.wake(),
                }
            }
        });
        while !has_begun.load(SeqCst) {
            thread::yield_now();
        }
        if round % 2 == 0 {
            local.block_on(&runtime, yield_now());
        }
        drop(local);
        assert_eq!(*seen.lock(), [thread::current().id(); 8]);
        other.join().unwrap();
        assert!(handles.iter().all(|handle| handle.is_finished()));
    }
}

#[test]
fn a_waker_that_outlives_its_set_does_not_keep_what_polled_the_set() {
    let _watchdog = watchdog();
    let (bell, wakers, local) = (Arc::<Bell>::default(), Arc::default(), LocalSet::new());
    local.spawn_local(Leaks::new(&wakers, ()));
    let waker = Waker::from(bell.clone());
    assert!(pin!(local.run_until(pending::<()>())).poll(&mut Context::from_waker(&waker)).is_pending());
    drop(waker);
    assert_eq!((Arc::strong_count(&bell), wakers.lock().len()), (2, 1));
    drop(local);
    assert_eq!((Arc::strong_count(&bell), bell.rings()), (1, 0));
}

#[test]
fn tasks_that_wake_abort_and_spawn_each_other_in_destructors_end() {
    let _watchdog = watchdog();
    struct Meddles {
        others: Rc<RefCell<Vec<Waker>>>,
        drops: Drops,
        depth: usize,
    }
    impl Drop for Meddles {
        fn drop(&mut self) {
            drop(self.drops.token());
            let others: Vec<_> = self.others.borrow().clone();
            others.iter().for_each(Waker::wake_by_ref);
            if self.depth < 3 {
                let meddles =
                    Meddles { others: self.others.clone(), drops: self.drops.clone(), depth: self.depth + 1 };
                let handle = spawn_local(async move {
                    let _meddles = meddles;
                    pending::<()>().await;
                });
                assert!(handle.is_finished(), "cancelled at once");
            }
        }
    }
    impl Future for Meddles {
        type Output = ();
        fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            self.others.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        }
    }
    let (runtime, local) = (build(0), LocalSet::new());
    let (others, drops) = (Rc::default(), Drops::default());
    for _ in 0..10 {
        local.spawn_local(Meddles { others: Rc::clone(&others), drops: drops.clone(), depth: 0 });
    }
    local.block_on(&runtime, yield_now());
    drop(local);
    assert_eq!(drops.count(), 40);
}

#[test]
fn panics_are_their_tasks_own() {
    let _watchdog = watchdog();
    struct PanicsInDrop;
    impl Drop for PanicsInDrop {
        fn drop(&mut self) {
            resume_unwind(Box::new("drop"));
        }
    }
    each_kind(|runtime| {
        let local = LocalSet::new();
        local.block_on(&runtime, async {
            let error = spawn_local(async { resume_unwind(Box::new("poll")) }).await.unwrap_err();
            assert!(error.is_panic());
            let held = PanicsInDrop;
            let error = spawn_local(async move {
                let _held = held;
                yield_now().await;
            });
            assert!(error.await.unwrap_err().is_panic());
            drop(spawn_local(async { PanicsInDrop }));
            let held = PanicsInDrop;
            spawn_local(async move {
                let _held = held;
                pending::<()>().await;
            });
            assert_eq!(spawn_local(async { 5 }).await.unwrap(), 5);
        });
        // The future of `run_until` panics; the set is as good as before.
        let run = || local.block_on(&runtime, async { resume_unwind(Box::new("root")) });
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
        assert_eq!(local.block_on(&runtime, async { spawn_local(async { 6 }).await.unwrap() }), 6);
        drop(local);
        let text = panic_of(|| drop(spawn_local(async {})));
        assert!(text.contains("`spawn_local` called from outside of a `task::LocalSet`"), "{text}");
    });
}

#[test]
fn a_spawn_from_outside_of_a_poll_wakes_the_set() {
    let _watchdog = watchdog();
    let (bell, local) = (Arc::<Bell>::default(), LocalSet::new());
    let waker = Waker::from(bell.clone());
    let mut cx = Context::from_waker(&waker);
    let notify = Arc::new(Notify::new());
    let (sum, theirs) = (Rc::new(Cell::new(0)), notify.clone());
    let mut run = Box::pin(local.run_until(pending::<()>()));
    assert!(run.as_mut().poll(&mut cx).is_pending());
    assert_eq!(bell.rings(), 0);
    let count = sum.clone();
    local.spawn_local(async move {
        count.set(1);
        theirs.notified().await;
        count.set(2);
    });
    assert_eq!((bell.rings(), sum.get()), (1, 0));
    assert!(run.as_mut().poll(&mut cx).is_pending());
    assert_eq!((bell.rings(), sum.get()), (1, 1));
    // By a wake on this thread, then by a guard's spawn.
    notify.notify_one();
    assert_eq!(bell.rings(), 2);
    assert!(run.as_mut().poll(&mut cx).is_pending());
    assert_eq!(sum.get(), 2);
    let guard = local.enter();
    spawn_local(async {});
    assert_eq!(bell.rings(), 3);
    assert!(run.as_mut().poll(&mut cx).is_pending());
    drop((guard, run));
    drop(local);
    drop(waker);
    assert_eq!(Arc::strong_count(&bell), 1);
}

#[test]
fn a_wake_by_the_drop_of_an_older_waker_has_the_set_polled() {
    /// Its drop wakes the receiver.
    struct HoldsSender(#[expect(dead_code, reason = "it is dropped")] oneshot::Sender<()>);
    impl Wake for HoldsSender {
        fn wake(self: Arc<Self>) {}
    }
    let (tx, rx) = oneshot::channel::<()>();
    let mut set = pin!(LocalSet::new());
    set.spawn_local(async { rx.await.unwrap_err() });
    let holds_sender = Waker::from(Arc::new(HoldsSender(tx)));
    assert!(set.as_mut().poll(&mut Context::from_waker(&holds_sender)).is_pending());
    drop(holds_sender);

    let bell = Arc::new(Bell::default());
    let waker = Waker::from(bell.clone());
    while set.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        assert_eq!(bell.0.swap(0, SeqCst), 1, "the set is polled again");
    }
}

/// The wake of a task has the set polled, and the waker that it calls frees the set's state. Miri finds a
/// reference to that state that is still in use then.
#[test]
fn a_wake_by_a_task_may_drop_the_set() {
    thread_local! {
        static OWNED: RefCell<Option<LocalSet>> = const { RefCell::new(None) };
    }
    struct DropsSet;
    impl Wake for DropsSet {
        fn wake(self: Arc<Self>) {
            drop(OWNED.take());
        }
    }
    let (drops, waker) = (Drops::default(), Waker::from(Arc::new(DropsSet)));
    // Once with a handle that outlives the set, and once without.
    for keeps_handle in [false, true] {
        let (token, set) = (drops.token(), LocalSet::new());
        let (tx, rx) = oneshot::channel::<()>();
        let handle = set.spawn_local(async move {
            let _token = token;
            _ = rx.await;
        });
        let kept = keeps_handle.then_some(handle);
        OWNED.set(Some(set));
        OWNED.with_borrow_mut(|set| {
            let set = pin!(set.as_mut().unwrap());
            assert!(set.poll(&mut Context::from_waker(&waker)).is_pending());
        });
        assert!(tx.send(()).is_ok());
        assert!(OWNED.with_borrow(Option::is_none), "the wake has dropped the set");
        assert_eq!(drops.count(), 1 + usize::from(keeps_handle));
        assert!(kept.is_none_or(|handle| handle.is_finished()));
    }
    // By a spawn.
    let set = LocalSet::new();
    let guard = set.enter();
    OWNED.set(Some(set));
    OWNED.with_borrow_mut(|set| {
        drop(set.as_ref().unwrap().spawn_local(pending::<()>()));
        assert!(pin!(set.as_mut().unwrap()).poll(&mut Context::from_waker(&waker)).is_pending());
    });
    assert!(spawn_local(pending::<()>()).is_finished());
    drop(guard);
}

/// The other thread is in `block_on` first, and there is nothing else that could keep it from driving.
#[test]
fn no_other_thread_runs_the_tasks_of_a_local_runtime() {
    let _watchdog = watchdog();
    let runtime = LocalRuntime::new().unwrap();
    let handle = runtime.handle().clone();
    let (end, ended) = oneshot::channel::<()>();
    let (begin, begun) = mpsc::channel();
    let other = thread::spawn(move || {
        handle.block_on(async {
            begin.send(()).unwrap();
            time::sleep(Duration::from_millis(1)).await;
            ended.await.unwrap();
        });
    });
    begun.recv().unwrap();
    let here = thread::current().id();
    let place = runtime.handle().spawn(async move {
        let inner = spawn_local(async { thread::current().id() }).await.unwrap();
        (thread::current().id(), inner)
    });
    assert_eq!(runtime.block_on(place).unwrap(), (here, here));
    end.send(()).unwrap();
    // It waits for its timer, and this thread drives.
    runtime.block_on(async {
        while !other.is_finished() {
            time::sleep(Duration::from_millis(1)).await;
        }
    });
    other.join().unwrap();
}

thread_local! {
    static SET: RefCell<Option<Rc<LocalSet>>> = const { RefCell::new(None) };
}

/// Polls [`SET`] once when it is dropped.
struct Polls;

impl Drop for Polls {
    fn drop(&mut self) {
        let set = SET.with_borrow(|set| set.clone().unwrap());
        // The set ends by a panic.
        let poll = || _ = pin!(set.run_until(pending::<()>())).poll(&mut Context::from_waker(Waker::noop()));
        _ = catch_unwind(AssertUnwindSafe(poll));
    }
}

/// A set that was ended by a task's panic ends all tasks at its next poll, wherever that comes from.
#[test]
fn a_set_that_ends_by_a_panic_may_be_polled_by_the_destructors_of_its_tasks() {
    let _watchdog = watchdog();
    for polls_in_payload in [false, true] {
        let mut set = LocalSet::new();
        set.unhandled_panic(UnhandledPanic::ShutdownRuntime);
        let set = Rc::new(set);
        SET.set(Some(set.clone()));
        let drops = Drops::default();
        for _ in 0..2 {
            let kept = (drops.token(), Polls);
            drop(set.spawn_local(async move {
                let _kept = kept;
                pending::<()>().await;
            }));
        }
        drop(set.spawn_local(async move {
            yield_now().await;
            resume_unwind(if polls_in_payload { Box::new(Polls) } else { Box::new(()) });
        }));
        let run = || build(0).block_on(set.run_until(pending::<()>()));
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
        assert_eq!(drops.count(), 2);
        SET.take();
    }
}

/// The task that waits for the set's task is not the last one that has polled the set.
/// The wakes come on the set's own thread: by a timer of the runtime that it drives, and by its tasks.
#[test]
fn a_call_inside_of_a_poll_of_its_set_gets_the_wakes() {
    let _watchdog = watchdog();
    let runtime = LocalRuntime::new().unwrap();
    let nested = |number: u32| {
        let sleeps = runtime.spawn_local(async move {
            time::sleep(Duration::from_millis(2)).await;
            number
        });
        assert_eq!(runtime.block_on(sleeps).unwrap(), number);
        let (tell, told) = oneshot::channel();
        let waits = runtime.spawn_local(told);
        runtime::spawn(async move {
            time::sleep(Duration::from_millis(2)).await;
            tell.send(number).unwrap();
        });
        assert_eq!(runtime.block_on(waits).unwrap(), Ok(number));
        number
    };
    runtime.block_on(async {
        assert_eq!(nested(1), 1);
        yield_now().await;
        let after = runtime.spawn_local(async { time::sleep(Duration::from_millis(2)).await });
        assert_eq!(runtime.block_on(async { nested(2) }), 2);
        after.await.unwrap();
    });
}

#[test]
fn a_call_that_ends_leaves_the_tasks_to_another_one() {
    let _watchdog = watchdog();
    for ends_by_abort in [false, true] {
        let runtime = Builder::new_current_thread().build_local(LocalOptions::default()).unwrap();
        runtime.block_on(async {
            let set = Rc::new(LocalSet::new());
            let (tx, rx) = oneshot::channel();
            let output = set.spawn_local(async move { rx.await.unwrap() });
            let first = set.clone();
            let first = spawn_local(async move { first.run_until(output).await.unwrap() });
            let others = [1, 2, 3].map(|polls| {
                let set = set.clone();
                spawn_local(async move {
                    let yields = async {
                        for _ in 0..polls {
                            yield_now().await;
                        }
                    };
                    set.run_until(yields).await;
                    if ends_by_abort {
                        set.run_until(pending()).await
                    }
                })
            });
            for _ in 0..20 {
                yield_now().await;
            }
            for other in others {
                other.abort();
                assert_eq!(other.await.is_err(), ends_by_abort);
            }
            tx.send(7).unwrap();
            assert_eq!(first.await.unwrap(), 7);
        });
    }
}

/// One of the calls is woken, and its task does not poll it any more.
#[test]
fn a_call_that_ends_leaves_the_tasks_to_one_that_is_still_polled() {
    let _watchdog = watchdog();
    let runtime = LocalRuntime::new().unwrap();
    runtime.block_on(async {
        let set = Rc::new(LocalSet::new());
        let (tx, rx) = oneshot::channel();
        let output = set.spawn_local(async move { rx.await.unwrap() });
        // It neglects its call after two polls.
        let inner = set.clone();
        let neglects = spawn_local(async move {
            let mut neglected = pin!(inner.run_until(pending::<()>()));
            for _ in 0..2 {
                assert!(poll_fn(|cx| Poll::Ready(neglected.as_mut().poll(cx))).await.is_pending());
                yield_now().await;
            }
            pending::<()>().await
        });
        let inner = set.clone();
        let waits = spawn_local(async move { inner.run_until(output).await.unwrap() });
        for _ in 0..10 {
            yield_now().await;
        }
        // It is polled last, and ends.
        let (end, ended) = oneshot::channel();
        let inner = set.clone();
        let ends = spawn_local(async move { inner.run_until(ended).await.unwrap() });
        for _ in 0..10 {
            yield_now().await;
        }
        end.send(()).unwrap();
        ends.await.unwrap();
        for _ in 0..10 {
            yield_now().await;
        }
        thread::spawn(move || tx.send(7).unwrap()).join().unwrap();
        assert_eq!(time::timeout(Duration::from_secs(20), waits).await.expect("it hangs").unwrap(), 7);
        neglects.abort();
    });
}

/// The first call is being polled when the second one begins.
#[test]
fn a_call_that_begins_inside_of_a_poll_of_another_leaves_the_tasks_to_it() {
    let _watchdog = watchdog();
    let (bell, set) = (Arc::<Bell>::default(), Rc::new(LocalSet::new()));
    let inner = set.clone();
    let inner = Rc::new(RefCell::new(Some(Box::pin(async move { inner.run_until(pending::<()>()).await }))));
    let begins = inner.clone();
    drop(set.spawn_local(async move {
        let mut inner = begins.borrow_mut();
        let inner = inner.as_mut().unwrap().as_mut();
        assert!(inner.poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }));
    let waker = Waker::from(bell.clone());
    let mut outer = Box::pin(set.run_until(pending::<()>()));
    let mut poll_outer = || assert!(outer.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    poll_outer();
    while bell.0.swap(0, SeqCst) > 0 {
        poll_outer();
    }
    // The inner one is polled last, and ends.
    let mut inner = inner.take().unwrap();
    assert!(inner.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(inner);
    assert_eq!(bell.rings(), 1, "the outer call is to be polled");
}

#[test]
fn fifty_thousand_calls_go_on_at_a_time() {
    let _watchdog = watchdog();
    let (runtime, local) = (build(0), LocalSet::new());
    let mut calls: Vec<_> = (0..50_000).map(|_| Box::pin(local.run_until(yield_now()))).collect();
    runtime.block_on(async {
        let polls = calls.iter_mut().map(|call| poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))));
        for poll in polls {
            assert!(poll.await.is_pending());
        }
        for call in calls {
            call.await;
        }
    });
}

#[test]
fn guards_may_be_dropped_in_any_order_and_outlive_the_set() {
    let _watchdog = watchdog();
    let (first, second) = (LocalSet::new(), LocalSet::new());
    let outer = first.enter();
    let inner = second.enter();
    let of_second = spawn_local(async { 2 });
    drop(outer);
    drop(spawn_local(async {}));
    let outer = first.enter();
    drop(inner);
    let of_first = spawn_local(async { 1 });
    let runtime = build(0);
    assert_eq!(second.block_on(&runtime, of_second).unwrap(), 2);
    assert_eq!(first.block_on(&runtime, of_first).unwrap(), 1);
    drop(first);
    let late = spawn_local(pending::<()>());
    assert!(late.is_finished());
    drop(outer);
    assert!(runtime.block_on(late).unwrap_err().is_cancelled());
    drop(second);
}

#[test]
fn sets_may_be_nested() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let outer = Rc::new(LocalSet::new());
        outer.block_on(&runtime, async {
            let (sender, receiver) = oneshot::channel();
            let task = spawn_local(async move {
                let inner = LocalSet::new();
                let answer = inner
                    .run_until(async {
                        // A task of the inner set, which is woken by one of the outer.
                        spawn_local(async { receiver.await.unwrap() }).await.unwrap()
                    })
                    .await;
                inner.spawn_local(pending::<()>());
                answer
            });
            yield_now().await;
            spawn_local(async move { sender.send(7).unwrap() });
            assert_eq!(task.await.unwrap(), 7);
        });
    });
}

#[test]
fn a_set_runs_in_a_blocking_closure_in_a_block_and_in_a_computation() {
    let _watchdog = watchdog();
    fn run_here() -> i32 {
        let (local, count) = (LocalSet::new(), Rc::new(Cell::new(0)));
        let handle = runtime::Handle::current();
        handle.block_on(local.run_until(async {
            let mut set = JoinSet::new();
            for i in 0..50 {
                let count = count.clone();
                set.spawn_local(async move {
                    time::sleep(Duration::from_millis(i % 3)).await;
                    task::spawn(async {}).await.unwrap();
                    count.set(count.get() + 1);
                });
            }
            set.join_all().await;
        }));
        count.get()
    }
    for workers in [1, 3] {
        let runtime = build(workers);
        runtime.block_on(async {
            assert_eq!(task::spawn_blocking(run_here).await.unwrap(), 50);
            let task = task::spawn(async { task::block_in_place(run_here) });
            assert_eq!(task.await.unwrap(), 50);
        });
        // The computation spawns on the workers and waits: one of them has to be free.
        if workers > 1 {
            let task = runtime.spawn(async { runtime::compute(run_here).await });
            assert_eq!(runtime.block_on(task).unwrap().unwrap(), 50);
        }
    }
}

#[test]
fn a_task_that_blocks_holds_up_nobody_else() {
    let _watchdog = watchdog();
    let runtime = build(1);
    let (local, count, is_over) =
        (LocalSet::new(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (counter, flag) = (count.clone(), is_over.clone());
    let other = runtime.spawn(async move {
        while !flag.load(SeqCst) {
            time::sleep(Duration::from_millis(1)).await;
            counter.fetch_add(1, SeqCst);
        }
    });
    local.block_on(&runtime, async {
        spawn_local(async move {
            let before = count.load(SeqCst);
            // Blocks until the runtime's task has gone on.
            until("the other task goes on", || count.load(SeqCst) > before + 3);
        })
        .await
        .unwrap();
    });
    is_over.store(true, SeqCst);
    runtime.block_on(other).unwrap();
}

#[test]
fn handles_of_local_tasks_may_be_awaited_and_aborted_elsewhere() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let (local, seen) = (LocalSet::new(), Arc::default());
    local.block_on(&runtime, async {
        let here = Rc::new(3);
        let output = spawn_local(async move { *here });
        assert_eq!(task::spawn(output).await.unwrap().unwrap(), 3);
        let witness = Witness::new(&seen);
        let waits = spawn_local(async move {
            let _witness = witness;
            pending::<()>().await;
        });
        yield_now().await;
        let error = task::spawn(async move {
            waits.abort();
            waits.await.unwrap_err()
        });
        assert!(error.await.unwrap().is_cancelled());
        // The handle is dropped there: no task takes the output that comes here.
        let dropped = spawn_local(async { yield_now().await });
        task::spawn(async move { drop(dropped) }).await.unwrap();
    });
    assert_eq!(*seen.lock(), [thread::current().id()]);
}

#[test]
fn a_set_in_a_thread_local_ends_with_its_thread() {
    let _watchdog = watchdog();
    thread_local! {
        static SET: LocalSet = LocalSet::new();
    }
    let (drops, wakers) = (Drops::default(), Arc::<Mutex<Vec<Waker>>>::default());
    let (token, theirs) = (drops.token(), wakers.clone());
    let other = thread::spawn(move || {
        SET.with(|local| {
            local.spawn_local(Leaks::new(&theirs, token));
            let runtime = build(0);
            local.block_on(&runtime, yield_now());
        });
    });
    other.join().unwrap();
    assert_eq!((drops.count(), wakers.lock().len()), (1, 1));
    wakers.lock().drain(..).for_each(Waker::wake);
}

#[test]
fn a_task_that_exits_the_process_does_not_wait_for_itself() {
    const NAME: &str = "a_task_that_exits_the_process_does_not_wait_for_itself";
    thread_local! {
        static SET: LocalSet = LocalSet::new();
    }
    if !is_child(NAME) {
        assert_eq!(run_child(NAME, &[]).status.code(), Some(7));
        return;
    }
    SET.with(|local| {
        local.spawn_local(async { std::process::exit(7) });
        build(0).block_on(local.run_until(pending::<()>()));
    });
}

#[test]
fn ten_thousand_tasks_are_spawned_woken_and_dropped() {
    let _watchdog = watchdog();
    let (runtime, local) = (build(0), LocalSet::new());
    local.block_on(&runtime, async {
        let mut set = JoinSet::new();
        for i in 0..10_000_u64 {
            set.spawn_local(async move {
                yield_now().await;
                *Rc::new(i)
            });
        }
        assert_eq!(set.join_all().await.into_iter().sum::<u64>(), 49_995_000);
    });
    let wakers = Arc::<Mutex<Vec<Waker>>>::default();
    (0..10_000).for_each(|_| _ = local.spawn_local(Leaks::new(&wakers, Rc::new(()))));
    local.block_on(&runtime, async {
        while wakers.lock().len() < 10_000 {
            yield_now().await;
        }
    });
    drop(local);
    thread::spawn(move || wakers.lock().drain(..).for_each(drop)).join().unwrap();
}

#[test]
fn local_tasks_know_their_names() {
    let _watchdog = watchdog();
    let (runtime, local) = (build(0), LocalSet::new());
    let task = local.spawn_local(async { task::id() });
    let id = task.id();
    assert_eq!(local.block_on(&runtime, task).unwrap(), id);
}

#[test]
fn a_local_runtime_spawns_here_from_everywhere_on_its_thread() {
    let _watchdog = watchdog();
    let runtime = LocalRuntime::new().unwrap();
    let other = Builder::new_current_thread().build_local(LocalOptions::default()).unwrap();
    let count = Rc::new(Cell::new(0));
    let add = |n: i32| {
        let count = count.clone();
        async move { count.set(count.get() + n) }
    };
    let outside = runtime.spawn_local(add(1));
    let guarded = {
        let _guard = runtime.enter();
        spawn_local(add(2))
    };
    let of_other = other.spawn_local(add(4));
    runtime.block_on(async {
        outside.await.unwrap();
        guarded.await.unwrap();
        spawn_local(add(8)).await.unwrap();
        // In a task of the runtime, which must be `Send`.
        let id = task::spawn(async { spawn_local(async { thread::current().id() }).await.unwrap() });
        assert_eq!(id.await.unwrap(), thread::current().id());
        // The task of the other runtime waits for a call of that runtime.
        assert!(!of_other.is_finished());
    });
    other.block_on(of_other).unwrap();
    assert_eq!(count.get(), 15);
    assert_eq!(runtime.block_on(runtime.spawn_blocking(|| 5)).unwrap(), 5);
    let handle = runtime.handle().clone();
    let elsewhere = thread::spawn(move || {
        let _guard = handle.enter();
        panic_of(|| drop(spawn_local(async {})))
    });
    let text = elsewhere.join().unwrap();
    assert!(text.contains("from the thread the runtime was created on"), "{text}");
    let error =
        Builder::new_multi_thread().worker_threads(1).build_local(LocalOptions::default()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}

#[test]
fn a_local_runtime_that_ends_drops_its_tasks_inside_of_it() {
    let _watchdog = watchdog();
    struct Asks(Rc<Cell<usize>>);
    impl Drop for Asks {
        fn drop(&mut self) {
            assert!(runtime::Handle::try_current().is_ok());
            self.0.set(self.0.get() + 1);
        }
    }
    let asked = Rc::new(Cell::new(0));
    for round in 0..3 {
        let runtime = LocalRuntime::new().unwrap();
        for _ in 0..3 {
            let asks = Asks(asked.clone());
            runtime.spawn_local(async move {
                let _asks = asks;
                pending::<()>().await;
            });
        }
        runtime.block_on(yield_now());
        match round {
            0 => drop(runtime),
            1 => runtime.shutdown_timeout(Duration::from_secs(10)),
            _ => runtime.shutdown_background(),
        }
        assert_eq!(asked.get(), 3 * (round + 1));
    }
}

/// `Waker::will_wake` may say no for a clone of the same waker.
#[test]
fn calls_sleep_with_a_waker_whose_clones_are_not_told_to_be_equal() {
    static VTABLE: RawWakerVTable = RawWakerVTable::new(
        // SAFETY: the data is a box of the function below.
        |data| unsafe { boxed((*data.cast::<Arc<Bell>>()).clone()) },
        // SAFETY: as above, and the waker is used up.
        |data| unsafe { Box::from_raw(data.cast_mut().cast::<Arc<Bell>>()).wake_by_ref() },
        // SAFETY: as above.
        |data| unsafe { (*data.cast::<Arc<Bell>>()).wake_by_ref() },
        // SAFETY: as above, and the waker is used up.
        |data| drop(unsafe { Box::from_raw(data.cast_mut().cast::<Arc<Bell>>()) }),
    );
    fn boxed(bell: Arc<Bell>) -> RawWaker {
        RawWaker::new(Box::into_raw(Box::new(bell)).cast_const().cast(), &VTABLE)
    }
    let (set, bell) = (LocalSet::new(), Arc::<Bell>::default());
    // SAFETY: each clone is a box of its own.
    let waker = unsafe { Waker::from_raw(boxed(bell.clone())) };
    let mut cx = Context::from_waker(&waker);
    let mut calls = [0, 1].map(|_| Box::pin(set.run_until(pending::<()>())));
    for _ in 0..2 {
        calls.iter_mut().for_each(|call| assert!(call.as_mut().poll(&mut cx).is_pending()));
    }
    let rings = bell.rings();
    calls.iter_mut().for_each(|call| assert!(call.as_mut().poll(&mut cx).is_pending()));
    assert_eq!(bell.rings(), rings, "nothing is left to do");
}

/// A task of a runtime that is driven further in belongs to no set: the set could not go on before it ends.
#[test]
fn a_task_that_is_run_on_top_of_a_set_does_not_see_it() {
    let _watchdog = watchdog();
    let runtime = build(0);
    let set = LocalSet::new();
    set.block_on(&runtime, async {
        let spawns = runtime.spawn(async { spawn_local(async {}).await.unwrap() });
        let seen = runtime.block_on(async {
            drop(spawn_local(async {}));
            spawns.await
        });
        assert!(seen.unwrap_err().is_panic(), "it found the set below");
    });
    // But it sees the set of a guard.
    let _guard = set.enter();
    let (tell, mut told) = oneshot::channel();
    let spawns = runtime.spawn(async { tell.send(spawn_local(async { 1 })).unwrap() });
    runtime.block_on(spawns).unwrap();
    assert_eq!(set.block_on(&runtime, told.try_recv().unwrap()).unwrap(), 1);
}
