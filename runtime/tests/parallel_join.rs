//! `join`: both closures run, wherever it is called and whatever panics, and what they borrow stays valid.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use runtime::parallel::{join, join_context};
use runtime::{Builder, Runtime};
use support::joined_scope;

fn runtime(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap()
}

fn sum(numbers: &[u64]) -> u64 {
    match numbers {
        [] => 0,
        [one] => *one,
        _ => {
            let (left, right) = numbers.split_at(numbers.len() / 2);
            let (left, right) = join(|| sum(left), || sum(right));
            left + right
        }
    }
}

fn sort(numbers: &mut [u32]) {
    if numbers.len() <= 20 {
        return numbers.sort_unstable();
    }
    let pivot = numbers.len() / 2;
    numbers.select_nth_unstable(pivot);
    let (left, right) = numbers.split_at_mut(pivot);
    join(|| sort(left), || sort(&mut right[1..]));
}

fn message(payload: Box<dyn std::any::Any + Send>) -> String {
    match payload.downcast::<&str>() {
        Ok(text) => (*text).to_owned(),
        Err(payload) => *payload.downcast::<String>().unwrap(),
    }
}

#[test]
fn join_returns_both_results_in_order() {
    for workers in [1, 2, 4] {
        let runtime = runtime(workers);
        let _entered = runtime.enter();
        assert_eq!(join(|| 1, || "two"), (1, "two"));
    }
}

#[test]
fn a_recursion_over_borrowed_data_gives_what_a_loop_gives() {
    let numbers: Vec<u64> = (0..100_000).collect();
    for workers in [1, 2, 4] {
        let runtime = runtime(workers);
        let _entered = runtime.enter();
        for _ in 0..10 {
            assert_eq!(sum(&numbers), 4_999_950_000);
        }
    }
}

#[test]
fn closures_may_write_to_disjoint_parts() {
    let runtime = runtime(3);
    let _entered = runtime.enter();
    let mut numbers: Vec<u32> = (0..200_000_u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    sort(&mut numbers);
    assert!(numbers.is_sorted());
}

#[test]
fn join_works_in_tasks_in_block_on_on_blocking_threads_and_in_place() {
    let runtime = runtime(2);
    let numbers: Vec<u64> = (0..10_000).collect();
    let expected = 49_995_000;
    assert_eq!(runtime.block_on(async { sum(&numbers) }), expected);
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let numbers = numbers.clone();
            runtime.spawn(async move {
                let first = sum(&numbers);
                runtime::task::yield_now().await;
                first + runtime::task::block_in_place(|| sum(&numbers))
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(runtime.block_on(task).unwrap(), 2 * expected);
    }
    let blocking = runtime.spawn_blocking({
        let numbers = numbers.clone();
        move || sum(&numbers)
    });
    assert_eq!(runtime.block_on(blocking).unwrap(), expected);
}

#[test]
fn several_threads_outside_may_join_at_once() {
    let runtime = runtime(2);
    let numbers: Vec<u64> = (0..10_000).collect();
    joined_scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let _entered = runtime.enter();
                    (0..50).for_each(|_| assert_eq!(sum(&numbers), 49_995_000));
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn both_closures_run_if_either_or_both_panic() {
    let runtime = runtime(2);
    let _entered = runtime.enter();
    for (panics_a, panics_b) in [(true, false), (false, true), (true, true)] {
        for _ in 0..50 {
            let ran = AtomicUsize::new(0);
            let run = |panics, text: &'static str| {
                ran.fetch_add(1, SeqCst);
                if panics {
                    // Quiet: no message of the hook.
                    std::panic::resume_unwind(Box::new(text));
                }
            };
            let outer = || join(|| run(panics_a, "a"), || run(panics_b, "b"));
            let payload = catch_unwind(AssertUnwindSafe(outer)).unwrap_err();
            assert_eq!(ran.load(SeqCst), 2);
            assert_eq!(message(payload), if panics_a { "a" } else { "b" });
        }
    }
}

#[test]
fn a_panic_deep_inside_comes_out_after_everything_has_ended() {
    struct Live<'a>(&'a AtomicUsize);
    impl Drop for Live<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, SeqCst);
        }
    }
    fn grow(depth: u32, live: &AtomicUsize) {
        live.fetch_add(1, SeqCst);
        let _live = Live(live);
        match depth {
            0 => std::panic::resume_unwind(Box::new("leaf")),
            _ => _ = join(|| grow(depth - 1, live), || grow(depth - 1, live)),
        }
    }
    let runtime = runtime(2);
    let _entered = runtime.enter();
    for _ in 0..20 {
        let live = AtomicUsize::new(0);
        let payload = catch_unwind(AssertUnwindSafe(|| grow(8, &live))).unwrap_err();
        assert_eq!(message(payload), "leaf");
        assert_eq!(live.load(SeqCst), 0);
    }
    assert_eq!(join(|| 1, || 2), (1, 2));
}

#[test]
fn a_result_whose_drop_panics_does_not_harm_the_workers() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("drop"));
        }
    }
    let runtime = runtime(2);
    let _entered = runtime.enter();
    for _ in 0..20 {
        // The second's result is dropped because the first panics.
        let outer = || join(|| std::panic::resume_unwind(Box::new("a")), || Bad);
        let payload =
            catch_unwind(AssertUnwindSafe(|| _ = std::mem::ManuallyDrop::new(outer()))).unwrap_err();
        assert_eq!(message(payload), "a");
    }
    assert_eq!(join(|| 1, || 2), (1, 2));
}

#[test]
fn a_join_a_hundred_thousand_deep_ends() {
    fn deep(n: usize) -> usize {
        if n == 0 {
            return 0;
        }
        let (a, b) = join(|| deep(n - 1), || 1);
        a + b
    }
    let runtime = Builder::new_multi_thread().worker_threads(2).thread_stack_size(512 << 20).build().unwrap();
    let _entered = runtime.enter();
    // ThreadSanitizer keeps a stack of its own, of 64 Ki calls; AddressSanitizer takes 20 s for all of them.
    let depth = match () {
        () if cfg!(tsan) => 2_000,
        () if cfg!(asan) => 20_000,
        () => 100_000,
    };
    assert_eq!(deep(depth), depth);
}

#[test]
fn closures_that_are_sent_to_a_worker_count_as_migrated() {
    // A runtime with one worker takes no external threads.
    let runtime = runtime(1);
    let _entered = runtime.enter();
    assert_eq!(join_context(|a| a.migrated(), |b| b.migrated()), (true, true));
}

#[test]
fn the_first_closure_stays_on_its_thread_and_the_second_says_whether_it_did() {
    let runtime = runtime(2);
    let _entered = runtime.enter();
    join(
        || {
            for _ in 0..1000 {
                let here = thread::current().id();
                let (a, b) = join_context(
                    |a| (a.migrated(), thread::current().id()),
                    |b| (b.migrated(), thread::current().id()),
                );
                assert_eq!(a, (false, here));
                assert_eq!(b.0, b.1 != here);
            }
        },
        || (),
    );
}

#[test]
fn an_idle_worker_helps() {
    let runtime = runtime(2);
    let _entered = runtime.enter();
    // Each waits for the other, so it ends only if both run at once.
    let barrier = std::sync::Barrier::new(2);
    // A few times: what turns out to be short is not shared any more.
    for _ in 0..3 {
        join(|| barrier.wait(), || barrier.wait());
    }
}

#[test]
fn after_the_runtime_has_ended_join_runs_in_place() {
    let runtime = runtime(2);
    let handle = runtime.handle().clone();
    drop(runtime);
    let _entered = handle.enter();
    let here = thread::current().id();
    assert_eq!(join(|| thread::current().id(), || thread::current().id()), (here, here));
}

#[test]
fn a_join_that_runs_while_the_runtime_is_dropped_ends() {
    let numbers: Vec<u64> = (0..1000).collect();
    for _ in 0..20 {
        let runtime = runtime(2);
        let handle = runtime.handle().clone();
        joined_scope(|scope| {
            let numbers = &numbers;
            let joiner = scope.spawn(move || {
                let _entered = handle.enter();
                (0..20).for_each(|_| assert_eq!(sum(numbers), 499_500));
            });
            drop(runtime);
            joiner.join().unwrap();
        });
    }
}
