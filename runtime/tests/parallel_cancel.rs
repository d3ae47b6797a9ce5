//! Cancelling a computation: at split points, quietly, without a leak, from wherever the handle is dropped.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::Context;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use runtime::{Compute, Runtime, parallel, task};
use support::{Drops, Gate, build, builder, text_of, until, waker, watchdog};

/// A computation that never ends by itself, and how often its parts have begun.
struct Endless {
    computation: Compute<()>,
    rounds: Arc<AtomicUsize>,
    drops: Drops,
}

fn endless(runtime: &Runtime) -> Endless {
    fn part(rounds: &AtomicUsize, drops: &Drops, depth: u32) {
        let _token = drops.token();
        rounds.fetch_add(1, SeqCst);
        if depth == 0 {
            return thread::yield_now();
        }
        parallel::join(|| part(rounds, drops, depth - 1), || part(rounds, drops, depth - 1));
    }
    let (rounds, drops) = (Arc::new(AtomicUsize::new(0)), Drops::default());
    let (counted, tokens) = (rounds.clone(), drops.clone());
    let outer = drops.token();
    let computation = runtime.compute(move || {
        let _outer = outer;
        loop {
            part(&counted, &tokens, 4);
        }
    });
    until("it runs", || rounds.load(SeqCst) > 100);
    Endless { computation, rounds, drops }
}

impl Endless {
    /// `drop` is called with the handle, and ends the computation.
    #[track_caller]
    fn ends_by(self, drop: impl FnOnce(Compute<()>)) {
        let before = self.drops.count();
        let abort = self.computation.abort_handle();
        assert!(!abort.is_finished());
        drop(self.computation);
        until("it has ended", || abort.is_finished());
        // Every frame was unwound: as many tokens as parts, and the closure's own.
        assert_eq!(self.drops.count(), self.rounds.load(SeqCst) + 1);
        assert!(self.drops.count() > before);
    }
}

#[test]
fn a_dropped_handle_ends_a_running_computation_at_a_split() {
    let _watchdog = watchdog();
    for workers in [1, 2, 3] {
        let runtime = build(workers);
        for _ in 0..10 {
            endless(&runtime).ends_by(drop);
        }
        // The workers are free.
        assert_eq!(runtime.block_on(runtime.compute(|| 5)).unwrap(), 5);
    }
}

#[test]
fn an_abort_makes_the_handle_say_cancelled() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let Endless { computation, .. } = endless(&runtime);
    computation.abort();
    computation.abort();
    let error = runtime.block_on(computation).unwrap_err();
    assert!(error.is_cancelled() && !error.is_panic());
    assert!(error.to_string().contains("was cancelled"), "{error}");
}

#[test]
fn the_handle_may_be_dropped_in_a_destructor_and_while_unwinding() {
    let _watchdog = watchdog();
    let runtime = build(2);
    struct Holder(#[allow(dead_code)] Compute<()>, Option<Compute<()>>);
    impl Drop for Holder {
        fn drop(&mut self) {
            drop(self.1.take());
        }
    }
    let second = endless(&runtime);
    let done = second.computation.abort_handle();
    endless(&runtime).ends_by(|computation| drop(Holder(computation, Some(second.computation))));
    until("the second has ended", || done.is_finished());
    endless(&runtime).ends_by(|computation| {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let _computation = computation;
            panic!("on purpose");
        }));
        assert_eq!(text_of(&*caught.unwrap_err()), "on purpose");
    });
    // In a task that panics, and in one that is aborted while it waits.
    endless(&runtime).ends_by(|computation| {
        let task = runtime.spawn(async move {
            let _computation = computation;
            panic!("on purpose");
        });
        assert!(runtime.block_on(task).unwrap_err().is_panic());
    });
    endless(&runtime).ends_by(|computation| {
        let task = runtime.spawn(computation);
        task.abort();
        assert!(runtime.block_on(task).unwrap_err().is_cancelled());
    });
}

#[test]
fn one_that_has_not_begun_is_dropped_unrun() {
    let _watchdog = watchdog();
    let runtime = builder(1).spare_workers(0).build().unwrap();
    let gate = Gate::default();
    let wait = gate.clone();
    let (busy, drops) = (Gate::default(), Drops::default());
    let is_busy = busy.clone();
    let first = runtime.compute(move || {
        is_busy.open();
        wait.wait();
    });
    busy.wait();
    let token = drops.token();
    let waiting = runtime.compute(move || -> () {
        let _token = token;
        unreachable!("it was cancelled before")
    });
    let abort = waiting.abort_handle();
    drop(waiting);
    assert_eq!(drops.count(), 0);
    gate.open();
    runtime.block_on(first).unwrap();
    until("its turn came", || abort.is_finished());
    assert_eq!(drops.count(), 1);
}

#[test]
fn a_value_counts_in_spite_of_a_cancellation() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let (started, gate) = (Gate::default(), Gate::default());
    let (open, wait) = (started.clone(), gate.clone());
    let computation = runtime.compute(move || {
        open.open();
        wait.wait();
        assert!(parallel::is_cancelled());
        3
    });
    started.wait();
    computation.abort();
    gate.open();
    assert_eq!(runtime.block_on(computation).unwrap(), 3);
}

/// Runs `f` in a computation that has been cancelled when `f` begins. Returns what the handle yields.
fn cancelled<T: Send + 'static>(
    runtime: &Runtime,
    f: impl FnOnce() -> T + Send + 'static,
) -> Result<T, runtime::task::JoinError> {
    let (started, gate) = (Gate::default(), Gate::default());
    let (open, wait) = (started.clone(), gate.clone());
    let computation = runtime.compute(move || {
        open.open();
        wait.wait();
        f()
    });
    started.wait();
    computation.abort();
    gate.open();
    runtime.block_on(computation)
}

#[test]
fn no_panic_hook_hears_of_it() {
    let _watchdog = watchdog();
    // The hook is the process's.
    if !support::in_child("no_panic_hook_hears_of_it", &[]) {
        return;
    }
    let heard = Arc::new(AtomicUsize::new(0));
    let hear = heard.clone();
    std::panic::set_hook(Box::new(move |_| _ = hear.fetch_add(1, SeqCst)));
    let runtime = build(2);
    assert!(cancelled(&runtime, || parallel::join(|| (), || ())).unwrap_err().is_cancelled());
    endless(&runtime).ends_by(drop);
    assert_eq!(heard.load(SeqCst), 0);
    drop(std::panic::take_hook());
}

/// Starts a fork whose first closure is `a`, which begins once the computation has been cancelled. Returns
/// the error that the handle yields.
fn cancelled_in_a_fork(
    runtime: &Runtime,
    a: impl FnOnce() + Send + 'static,
    b: impl FnOnce() + Send + 'static,
) -> runtime::task::JoinError {
    let (started, gate) = (Gate::default(), Gate::default());
    let (open, wait) = (started.clone(), gate.clone());
    let computation = runtime.compute(move || {
        let first = || {
            open.open();
            wait.wait();
            a();
        };
        parallel::join(first, b)
    });
    started.wait();
    computation.abort();
    gate.open();
    runtime.block_on(computation).unwrap_err()
}

fn split() {
    parallel::join(|| (), || ());
}

#[test]
fn a_panic_counts_more_than_a_cancellation() {
    let _watchdog = watchdog();
    for workers in [1, 2] {
        let runtime = build(workers);
        let errors = [
            cancelled_in_a_fork(&runtime, || panic!("real"), split),
            cancelled_in_a_fork(&runtime, || panic!("real"), || panic!("second")),
        ];
        for error in errors {
            assert!(error.is_panic(), "{error}");
            assert_eq!(text_of(&*error.into_panic()), "real");
        }
        assert!(cancelled_in_a_fork(&runtime, split, || ()).is_cancelled());
    }
    // The closure that panics is stolen.
    let begun = Gate::default();
    let open = begun.clone();
    let first = move || {
        begun.wait();
        split();
    };
    let second = move || {
        open.open();
        panic!("real");
    };
    let error = cancelled_in_a_fork(&build(2), first, second);
    assert_eq!(text_of(&*error.into_panic()), "real");
}

#[test]
fn a_panic_that_was_dealt_with_is_not_brought_up_by_a_later_cancellation() {
    let _watchdog = watchdog();
    let runtime = build(1);
    let (started, gate) = (Gate::default(), Gate::default());
    let (open, wait) = (started.clone(), gate.clone());
    let computation = runtime.compute(move || {
        let both = || parallel::join(|| panic!("first"), || panic!("second"));
        assert_eq!(text_of(&*catch_unwind(AssertUnwindSafe(both)).unwrap_err()), "first");
        open.open();
        wait.wait();
        split();
    });
    started.wait();
    computation.abort();
    gate.open();
    assert!(runtime.block_on(computation).unwrap_err().is_cancelled());
}

#[test]
fn once_cancelled_no_other_half_is_begun() {
    let _watchdog = watchdog();
    fn tree(depth: u32, first: &(dyn Fn() + Sync), leaves: &AtomicUsize, drops: &Drops) {
        if depth == 0 {
            first();
            leaves.fetch_add(1, SeqCst);
            return;
        }
        let token = drops.token();
        let right = move || {
            let _token = token;
            tree(depth - 1, &|| (), leaves, drops);
        };
        parallel::join(|| tree(depth - 1, first, leaves, drops), right);
    }
    // No spare worker: it would run other halves while the only worker waits.
    let runtime = builder(1).spare_workers(0).build().unwrap();
    let (started, gate) = (Gate::default(), Gate::default());
    let (open, wait) = (started.clone(), gate.clone());
    let (leaves, drops) = (Arc::new(AtomicUsize::new(0)), Drops::default());
    let (counted, tokens) = (leaves.clone(), drops.clone());
    let first = move || {
        open.open();
        wait.wait();
        split();
    };
    let computation = runtime.compute(move || tree(12, &first, &counted, &tokens));
    started.wait();
    computation.abort();
    gate.open();
    assert!(runtime.block_on(computation).unwrap_err().is_cancelled());
    assert_eq!(leaves.load(SeqCst), 0);
    // The halves that were not run were dropped.
    assert_eq!(drops.count(), 12);
}

#[test]
fn code_that_catches_it_meets_it_again() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let caught = Arc::new(AtomicUsize::new(0));
    let count = caught.clone();
    let error = cancelled(&runtime, move || {
        for _ in 0..3 {
            assert!(catch_unwind(split).is_err());
            count.fetch_add(1, SeqCst);
        }
        split();
        unreachable!("a split point ends it");
    });
    assert!(error.is_err_and(|error: runtime::task::JoinError| error.is_cancelled()));
    assert_eq!(caught.load(SeqCst), 3);
    // Such code may also return what it has.
    assert!(cancelled(&runtime, || catch_unwind(split).is_err()).unwrap());
}

#[test]
fn splits_work_in_destructors_while_it_unwinds() {
    let _watchdog = watchdog();
    struct Splits(Arc<AtomicUsize>);
    impl Drop for Splits {
        fn drop(&mut self) {
            assert!(thread::panicking() && parallel::is_cancelled());
            let (a, b) = parallel::join(|| 1, || 2);
            self.0.fetch_add(a + b, SeqCst);
        }
    }
    for workers in [1, 3] {
        let runtime = build(workers);
        let sum = Arc::new(AtomicUsize::new(0));
        let splits = Splits(sum.clone());
        let error = cancelled(&runtime, move || {
            let _splits = splits;
            split();
        });
        assert!(error.unwrap_err().is_cancelled());
        assert_eq!(sum.load(SeqCst), 3);
    }
}

/// Calls `f` in the second half of a `join`, on another worker, because this one blocks in the first half.
fn on_another_worker<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    let begun = Gate::default();
    let first = || task::block_in_place(|| begun.wait());
    let second = || {
        begun.open();
        f()
    };
    parallel::join(first, second).1
}

/// Another worker runs a half of that work. If it ended there by the cancellation, this stack could not go
/// on.
#[test]
fn work_of_destructors_is_not_cut_short_on_another_worker() {
    fn tree(depth: u32) -> u32 {
        if depth == 0 {
            return 1;
        }
        let (a, b) = parallel::join(|| tree(depth - 1), || tree(depth - 1));
        a + b
    }
    struct Splits(Arc<AtomicUsize>);
    impl Drop for Splits {
        fn drop(&mut self) {
            let leaves = on_another_worker(|| tree(8));
            self.0.fetch_add(leaves as usize, SeqCst);
        }
    }
    /// Ends at a split point that comes in the middle of a publish budget, of a pool that is not asked to
    /// end it.
    fn split_within_a_budget() {
        loop {
            parallel::join(|| (), || ());
            parallel::scope(|_| ());
        }
    }
    let _watchdog = watchdog();
    let pool = parallel::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let pool = Arc::new(pool);
    for round in 0..40 {
        let runtime = build(2);
        let leaves = Arc::new(AtomicUsize::new(0));
        let splits = Splits(leaves.clone());
        let pool = pool.clone();
        let error = cancelled(&runtime, move || match round % 2 {
            0 => {
                let _splits = splits;
                split();
            }
            _ => pool.install(|| {
                let _splits = splits;
                split_within_a_budget();
            }),
        });
        assert!(error.unwrap_err().is_cancelled());
        assert_eq!(leaves.load(SeqCst), 256);
    }
}

/// The computation is cancelled while it unwinds from a panic, with a publish budget that is left.
#[test]
fn work_of_destructors_after_a_panic_is_not_cut_short_on_another_worker() {
    struct Splits(Arc<Gate>, Arc<Gate>);
    impl Drop for Splits {
        fn drop(&mut self) {
            on_another_worker(|| {
                self.0.open();
                self.1.wait();
                (0..1000).for_each(|_| _ = parallel::join(|| (), || ()));
            });
        }
    }
    let _watchdog = watchdog();
    for _ in 0..20 {
        let runtime = build(2);
        let [unwinds, is_cancelled] = [(); 2].map(|()| Arc::new(Gate::default()));
        let splits = Splits(unwinds.clone(), is_cancelled.clone());
        let computed = runtime.compute(move || {
            let _splits = splits;
            (0..1000).for_each(|_| _ = parallel::join(|| (), || ()));
            std::panic::resume_unwind(Box::new(()));
        });
        unwinds.wait();
        drop(computed);
        is_cancelled.open();
        drop(runtime);
    }
}

#[test]
fn is_cancelled_is_seen_in_stolen_parts_and_not_outside() {
    let _watchdog = watchdog();
    let runtime = build(2);
    assert!(!parallel::is_cancelled());
    assert!(!runtime.block_on(async { parallel::is_cancelled() }));
    // Each side runs until it sees the cancellation, which comes when both sides run: on a thread each.
    let threads = Arc::new(Mutex::new(Vec::new()));
    let (started, seen) = (Arc::new(AtomicUsize::new(0)), threads.clone());
    let begun = started.clone();
    let computation = runtime.compute(move || {
        let side = || {
            begun.fetch_add(1, SeqCst);
            while !parallel::is_cancelled() {
                thread::yield_now();
            }
            seen.lock().push(thread::current().id());
        };
        parallel::join(side, side);
        8
    });
    until("both sides run", || started.load(SeqCst) == 2);
    computation.abort();
    assert_eq!(runtime.block_on(computation).unwrap(), 8);
    let threads = threads.lock();
    assert_ne!(threads[0], threads[1]);
}

#[test]
fn a_computation_inside_of_another_is_cancelled_by_its_own_handle_alone() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let inner = Arc::new(Mutex::new(None));
    let slot = inner.clone();
    let outer = cancelled(&runtime, move || {
        *slot.lock() = Some(runtime::compute(|| {
            split();
            parallel::is_cancelled()
        }));
        split();
    });
    assert!(outer.unwrap_err().is_cancelled());
    let inner = inner.lock().take().unwrap();
    assert!(!runtime.block_on(inner).unwrap());
}

#[test]
fn computations_may_be_dropped_at_every_moment_of_their_lives() {
    let _watchdog = watchdog();
    let runtime = build(3);
    let drops = Drops::default();
    for round in 0..500_u32 {
        let token = drops.token();
        let computation = runtime.compute(move || {
            let _token = token;
            fn tree(depth: u32) -> u32 {
                if depth == 0 {
                    return 1;
                }
                let (a, b) = parallel::join(|| tree(depth - 1), || tree(depth - 1));
                a + b
            }
            tree(round % 12)
        });
        for _ in 0..round % 50 {
            thread::yield_now();
        }
        drop(computation);
    }
    until("all have ended", || drops.count() == 500);
    assert_eq!(runtime.block_on(runtime.compute(|| 1)).unwrap(), 1);
}

#[test]
fn tasks_that_a_cancelled_computation_drives_are_not_a_part_of_it() {
    let _watchdog = watchdog();
    let runtime = build(1);
    let result = cancelled(&runtime, || {
        let single = build(0);
        let of_task = single.spawn(async {
            split();
            parallel::is_cancelled()
        });
        // The future of the `block_on` is the computation's own, the task is not.
        single.block_on(async { (of_task.await.unwrap(), parallel::is_cancelled()) })
    });
    assert_eq!(result.unwrap(), (false, true));
}

/// Runs `before` in a computation, and calls `end` while `before` waits. Says whether a `join` after `before`
/// was begun.
fn goes_on_after(
    runtime: Runtime,
    before: impl FnOnce(&(dyn Fn() + Sync)) + Send + 'static,
    end: impl FnOnce(Runtime, Compute<()>) -> Option<Runtime>,
) -> bool {
    let (started, gate) = (Gate::default(), Gate::default());
    let goes_on = Arc::new(AtomicUsize::new(0));
    let (starts, waits, count) = (started.clone(), gate.clone(), goes_on.clone());
    let computation = runtime.compute(move || {
        before(&|| {
            starts.open();
            waits.wait();
        });
        parallel::join(|| count.fetch_add(1, SeqCst), || ());
    });
    let abort = computation.abort_handle();
    started.wait();
    let _stays = end(runtime, computation);
    gate.open();
    until("it has ended", || abort.is_finished());
    goes_on.load(SeqCst) > 0
}

fn abort(runtime: Runtime, computation: Compute<()>) -> Option<Runtime> {
    computation.abort();
    Some(runtime)
}

fn shut_down(runtime: Runtime, computation: Compute<()>) -> Option<Runtime> {
    computation.detach();
    runtime.shutdown_background();
    None
}

/// Makes quick joins, after which some pushes of a publish budget are left, mostly.
fn quick_joins(joins: u32) {
    (0..joins).for_each(|_| _ = parallel::join(|| (), || ()));
}

#[test]
fn the_next_split_ends_it_however_many_were_quick_before() {
    let _watchdog = watchdog();
    for joins in 100..120 {
        let wait_behind = move |wait: &(dyn Fn() + Sync)| {
            quick_joins(joins);
            wait();
        };
        assert!(!goes_on_after(build(1), wait_behind, abort), "behind {joins}");
        assert!(!goes_on_after(build(1), wait_behind, shut_down), "behind {joins}");
    }
}

#[test]
fn quick_splits_in_an_isolated_part_do_not_hide_it() {
    let _watchdog = watchdog();
    for joins in 100..120 {
        let wait_inside = move |wait: &(dyn Fn() + Sync)| {
            parallel::isolated(|| {
                wait();
                quick_joins(joins);
            });
        };
        assert!(!goes_on_after(build(1), wait_inside, abort), "behind {joins}");
    }
}

#[test]
fn in_another_pool_it_ends_soon() {
    let _watchdog = watchdog();
    for threads in [1, 4] {
        let pool = parallel::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let begun = Arc::new(AtomicUsize::new(0));
        let count = begun.clone();
        let begin = move |wait: &(dyn Fn() + Sync)| {
            pool.install(|| {
                quick_joins(100);
                wait();
                (0..2000).for_each(|_| _ = parallel::join(|| count.fetch_add(1, SeqCst), || ()));
            });
        };
        assert!(!goes_on_after(build(1), begin, abort));
        assert!(begun.load(SeqCst) <= 16, "{begun:?} in a pool of {threads}");
    }
}

#[test]
fn a_waker_that_a_cancelled_computation_calls_while_it_waits_is_no_part_of_it() {
    let _watchdog = watchdog();
    // Without spare workers, only the worker that waits can call the waker.
    let runtime = builder(2).spare_workers(0).build().unwrap();
    let [is_stolen, is_over] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let (stolen, over) = (is_stolen.clone(), is_over.clone());
    let computation = runtime.compute(move || {
        let spin_until = |flag: &AtomicBool| {
            while !flag.load(SeqCst) {
                thread::yield_now();
            }
        };
        let second = || {
            stolen.store(true, SeqCst);
            spin_until(&over);
        };
        parallel::join(|| spin_until(&stolen), second);
    });
    until("the second closure is stolen", || is_stolen.load(SeqCst));
    drop(computation);
    let (tell, told) = mpsc::channel();
    let waker = waker(move || {
        parallel::scope(|scope| scope.spawn(|_| ()));
        tell.send(parallel::is_cancelled()).unwrap();
    });
    let _entered = runtime.enter();
    let mut sleep = pin!(runtime::time::sleep(Duration::from_millis(10)));
    assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let was_cancelled = told.recv();
    is_over.store(true, SeqCst);
    assert_eq!(was_cancelled, Ok(false));
}

/// The part of the lowest index ends by the cancellation, the other one by a panic.
#[test]
fn a_panic_in_a_broadcast_goes_before_the_cancellation_of_its_computation() {
    let _watchdog = watchdog();
    let runtime = build(2);
    let begun = Arc::new(AtomicUsize::new(0));
    let counted = begun.clone();
    let computation = runtime.compute(move || {
        parallel::broadcast(|context| {
            counted.fetch_add(1, SeqCst);
            while !parallel::is_cancelled() {
                thread::yield_now();
            }
            assert!(context.index() == 0, "a part's panic");
            loop {
                parallel::join(|| (), || ());
            }
        })
    });
    until("both parts have begun", || begun.load(SeqCst) == 2);
    computation.abort();
    let error = runtime.block_on(computation).unwrap_err();
    assert_eq!(text_of(&*error.into_panic()), "a part's panic");
}

/// The deque has no room for the second closure, so it runs behind the first one.
#[test]
fn a_panic_in_a_full_deque_goes_before_the_cancellation_of_its_computation() {
    fn nest(depth: u32, then: &(dyn Fn() + Sync)) {
        match depth {
            0 => then(),
            _ => _ = parallel::join(|| nest(depth - 1, then), || ()),
        }
    }
    let _watchdog = watchdog();
    let runtime = builder(1).spare_workers(0).build().unwrap();
    let has_begun = Arc::new(AtomicBool::new(false));
    let begun = has_begun.clone();
    let computation = runtime.compute(move || {
        let ends_by_cancellation = || {
            begun.store(true, SeqCst);
            while !parallel::is_cancelled() {
                thread::yield_now();
            }
            loop {
                parallel::join(|| (), || ());
            }
        };
        let full = || _ = parallel::join::<_, _, (), _>(ends_by_cancellation, || panic!("a closure's panic"));
        parallel::scope(|scope| {
            (0..12 << 10).for_each(|_| scope.spawn(|_| ()));
            nest(1 << 10, &full);
        });
    });
    until("it is full", || has_begun.load(SeqCst));
    computation.abort();
    let error = runtime.block_on(computation).unwrap_err();
    assert_eq!(text_of(&*error.into_panic()), "a closure's panic");
}
