//! The process-wide pool: when it is made, which call makes it, and what belongs to it. Each test that needs
//! one has a process of its own.

mod support;

use std::error::Error;
use std::io;
use std::thread::{self, ThreadId};

use runtime::parallel::{self, ThreadPoolBuildError, ThreadPoolBuilder};
use support::{
    HUGE_STACK, NoThreads, address_space, has_shadow_memory, in_child, joined_scope, limit, watchdog,
};

const INITIALIZED: &str = "The global thread pool has already been initialized.";

/// Where a parallel call runs that is sent to the pool. As an external thread, the caller would run it
/// itself, which would tell nothing of the pool.
fn place() -> ThreadId {
    parallel::sent::scope(|_| thread::current().id())
}

fn name_of_place() -> Option<String> {
    parallel::sent::scope(|_| thread::current().name().map(str::to_owned))
}

fn named(name: &'static str) -> ThreadPoolBuilder {
    ThreadPoolBuilder::new().num_threads(2).thread_name(move |_| name.to_owned())
}

#[track_caller]
fn assert_initialized(result: Result<(), ThreadPoolBuildError>) {
    let error = result.unwrap_err();
    assert_eq!(error.to_string(), INITIALIZED);
    assert!(error.source().is_none());
}

#[test]
fn the_pool_is_built_once() {
    let _watchdog = watchdog();
    if in_child("the_pool_is_built_once", &[]) {
        named("first").build_global().unwrap();
        assert_initialized(named("second").build_global());
        assert_eq!(name_of_place().as_deref(), Some("first"));
    }
}

#[test]
fn the_first_call_builds_the_pool() {
    let _watchdog = watchdog();
    if in_child("the_first_call_builds_the_pool", &[("RAYON_NUM_THREADS", "3")]) {
        let before = support::threads();
        let here = thread::current().id();
        assert_ne!(place(), here);
        assert_eq!(support::threads(), before + 3);
        assert_initialized(named("late").build_global());
        let name = name_of_place().unwrap();
        assert!(["runtime-pool-0", "runtime-pool-1", "runtime-pool-2"].contains(&&*name), "{name}");
    }
}

#[test]
fn threads_race_to_build_the_pool() {
    let _watchdog = watchdog();
    if in_child("threads_race_to_build_the_pool", &[("RAYON_NUM_THREADS", "3")]) {
        let before = support::threads();
        let start = std::sync::Barrier::new(8);
        joined_scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        start.wait();
                        assert_ne!(place(), thread::current().id());
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        support::until("one pool of three threads", || support::threads() == before + 3);
    }
}

#[test]
fn zero_threads_are_the_default() {
    let _watchdog = watchdog();
    if in_child("zero_threads_are_the_default", &[("RAYON_NUM_THREADS", "5")]) {
        let before = support::threads();
        ThreadPoolBuilder::new().num_threads(0).build_global().unwrap();
        assert_eq!(support::threads(), before + 5);
        assert_eq!(parallel::join(|| 1, || 2), (1, 2));
    }
}

#[test]
fn a_pool_that_could_not_be_built_may_be_tried_again() {
    let _watchdog = watchdog();
    if in_child("a_pool_that_could_not_be_built_may_be_tried_again", &[]) {
        let refusing = || named("no").spawn_handler(|_| Err(io::Error::other("none left")));
        assert_eq!(refusing().build_global().unwrap_err().to_string(), "none left");
        let panicking = ThreadPoolBuilder::new().num_threads(1).thread_name(|_| panic!("no name"));
        assert_eq!(support::panic_of(|| panicking.build_global()), "no name");
        named("yes").build_global().unwrap();
        assert_eq!(name_of_place().as_deref(), Some("yes"));
    }
}

#[test]
fn the_builder_of_a_pool_may_use_it_in_place_meanwhile() {
    let _watchdog = watchdog();
    if in_child("the_builder_of_a_pool_may_use_it_in_place_meanwhile", &[]) {
        let here = thread::current().id();
        let name = move |_| {
            assert_eq!(place(), here);
            assert_initialized(named("inner").build_global());
            "outer".to_owned()
        };
        ThreadPoolBuilder::new().num_threads(1).thread_name(name).build_global().unwrap();
        assert_eq!(name_of_place().as_deref(), Some("outer"));
    }
}

#[test]
fn the_main_thread_may_have_a_processor() {
    let _watchdog = watchdog();
    if in_child("the_main_thread_may_have_a_processor", &[]) {
        named("other").use_current_thread().build_global().unwrap();
        assert_eq!(place(), thread::current().id());
        let runtime = support::build(0);
        assert_eq!(
            runtime.block_on(async { runtime.spawn(async { place() }).await.unwrap() }),
            thread::current().id()
        );
        let from_outside = thread::spawn(name_of_place).join().unwrap();
        assert_eq!(from_outside.as_deref(), Some("other"));
    }
}

#[test]
fn calls_belong_where_they_stand() {
    let _watchdog = watchdog();
    if in_child("calls_belong_where_they_stand", &[]) {
        named("process").build_global().unwrap();
        let is_process = |name: Option<String>| name.as_deref() == Some("process");
        // A thread of its own; a current_thread runtime, in its block_on, its tasks and its blocking
        // closures.
        assert!(is_process(thread::spawn(name_of_place).join().unwrap()));
        let single = support::build(0);
        assert!(is_process(single.block_on(async { name_of_place() })));
        assert!(is_process(
            single.block_on(async { single.spawn(async { name_of_place() }).await.unwrap() })
        ));
        assert!(is_process(single.block_on(async { single.spawn_blocking(name_of_place).await.unwrap() })));
        // A multi-thread runtime: its own workers.
        let multi = support::builder(2).thread_name("multi").build().unwrap();
        let is_multi = |name: Option<String>| name.as_deref() == Some("multi");
        assert!(is_multi(multi.block_on(async { name_of_place() })));
        assert!(is_multi(multi.block_on(async { multi.spawn(async { name_of_place() }).await.unwrap() })));
        assert!(is_multi(multi.block_on(async { multi.spawn_blocking(name_of_place).await.unwrap() })));
        let guard = multi.enter();
        assert!(is_multi(name_of_place()));
        // The innermost runtime counts.
        assert!(is_process(single.block_on(async { name_of_place() })));
        // A pool: its own threads.
        let pool = named("pool").build().unwrap();
        assert_eq!(pool.install(name_of_place).as_deref(), Some("pool"));
        drop(guard);
        // A runtime that has ended: the process-wide pool.
        let handle = multi.handle().clone();
        drop(multi);
        let _guard = handle.enter();
        assert!(is_process(name_of_place()));
    }
}

/// Gives the threads of the pool, for which no size is set, a [`HUGE_STACK`].
const STACKS: (&str, &str) = ("RUST_MIN_STACK", "1073741824");

#[test]
fn as_many_threads_as_the_system_grants_are_enough() {
    let _watchdog = watchdog();
    let name = "as_many_threads_as_the_system_grants_are_enough";
    if !has_shadow_memory() && in_child(name, &[("RAYON_NUM_THREADS", "64"), STACKS]) {
        let before = support::threads();
        limit(libc::RLIMIT_AS, address_space() + HUGE_STACK as u64 * 9 / 2);
        assert_ne!(place(), thread::current().id());
        let budget = support::threads() - before;
        assert!((1..10).contains(&budget), "{budget}");
        assert_eq!(fib(15), 610);
    }
}

#[test]
fn without_any_thread_calls_run_in_place() {
    let _watchdog = watchdog();
    let name = "without_any_thread_calls_run_in_place";
    if !has_shadow_memory() && in_child(name, &[("RAYON_NUM_THREADS", "2"), STACKS]) {
        let _refused = NoThreads::begin();
        assert_eq!(place(), thread::current().id());
        assert_eq!(fib(15), 610);
        assert_initialized(named("late").build_global());
    }
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = parallel::join(|| fib(n - 1), || fib(n - 2));
    a + b
}
