//! Which runtime is current: guards in any order, forgotten, nested, per thread.

mod support;

use runtime::Handle;
use support::{build, builder, each_kind, watchdog};

/// Tells runtimes apart by their number of workers.
fn current() -> Option<usize> {
    Handle::try_current().ok().map(|handle| handle.metrics().num_workers())
}

#[test]
fn the_runtime_entered_last_is_current() {
    let (two, three) = (build(2), build(3));
    assert_eq!(current(), None);
    let outer = two.enter();
    assert_eq!(current(), Some(2));
    {
        let _inner = three.enter();
        assert_eq!(current(), Some(3));
        two.block_on(async { assert_eq!(current(), Some(2)) });
        assert_eq!(current(), Some(3));
    }
    assert_eq!(current(), Some(2));
    std::thread::spawn(|| assert_eq!(current(), None)).join().unwrap();
    drop(outer);
    assert_eq!(current(), None);
}

#[test]
fn guards_may_be_dropped_in_any_order() {
    let runtimes = [build(2), build(3), build(4)];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut guards: Vec<_> = runtimes.iter().map(|runtime| Some(runtime.enter())).collect();
        let mut left = vec![2, 3, 4];
        for i in order {
            guards[i] = None;
            left.retain(|&workers| workers != i + 2);
            assert_eq!(current(), left.last().copied());
        }
    }
}

/// The borrow checker lets this pass, as with Tokio's guard: a guard's drop does not use its borrow.
#[test]
fn a_runtime_may_be_shut_down_before_the_guard_that_is_dropped_last() {
    let two = build(2);
    let _guard = two.enter();
    two.shutdown_timeout(std::time::Duration::from_secs(60));
    assert_eq!(current(), Some(2), "what was entered is left by the guard alone");
}

#[test]
fn a_guard_inside_of_a_future_may_outlive_the_block_on() {
    let (two, three) = (build(2), build(3));
    let handle = three.handle().clone();
    let guard = two.block_on(async { handle.enter() });
    assert_eq!(current(), Some(3));
    let nested = two.block_on(async { (current(), two.enter()) });
    // Inside, the `block_on`'s own runtime is the newest.
    assert_eq!(nested.0, Some(2));
    drop(guard);
    assert_eq!(current(), Some(2));
    drop(nested);
    assert_eq!(current(), None);
}

#[test]
fn tasks_closures_and_hooks_find_their_runtime() {
    let _watchdog = watchdog();
    let (send, receive) = std::sync::mpsc::channel();
    let runtime = builder(2).on_thread_start(move || send.send(current()).unwrap()).build().unwrap();
    assert_eq!(runtime.block_on(runtime.spawn(async { current() })).unwrap(), Some(2));
    assert_eq!(runtime.block_on(runtime.spawn_blocking(current)).unwrap(), Some(2));
    drop(runtime);
    let seen: Vec<_> = receive.into_iter().collect();
    assert!(seen.len() >= 2 && seen.iter().all(|seen| *seen == Some(2)), "{seen:?}");
    assert_eq!(current(), None);
}

#[test]
fn a_task_that_enters_another_runtime_and_leaves_it_late_confuses_nobody() {
    let other = build(4);
    each_kind(|runtime| {
        let handle = other.handle().clone();
        let task = runtime.spawn(async move {
            {
                let _guard = handle.enter();
                assert_eq!(current(), Some(4));
                assert_eq!(runtime::task::block_in_place(current), Some(4));
            }
            current()
        });
        assert_eq!(runtime.block_on(task).unwrap(), Some(runtime.metrics().num_workers()));
    });
}
