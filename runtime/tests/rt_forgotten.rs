//! Handles, guards and wakers that are forgotten (`mem::forget`) leak, and do no other harm. These tests have
//! a binary of their own, because a leak checker has to leave it out.

mod support;

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::thread;

use parking_lot::Mutex;
use runtime::Handle;
use runtime::task::{JoinSet, LocalSet};
use support::{Drops, build, each_kind, watchdog};

fn current() -> Option<usize> {
    Handle::try_current().ok().map(|handle| handle.metrics().num_workers())
}

#[test]
fn handles_and_guards_that_are_forgotten_do_no_harm() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        std::mem::forget(runtime.spawn(async { 1 }));
        std::mem::forget(runtime.spawn(pending::<()>()));
        std::mem::forget(runtime.handle().clone());
        let task = runtime.spawn(pending::<()>());
        std::mem::forget(task.abort_handle());
        std::mem::forget(runtime.enter());
        runtime.block_on(runtime::task::yield_now());
    });
}

#[test]
fn a_forgotten_guard_keeps_the_runtimes_memory() {
    std::thread::spawn(|| {
        let runtime = build(2);
        std::mem::forget(runtime.enter());
        drop(runtime);
        assert_eq!(current(), Some(2));
        // Over, but nothing breaks.
        let task = runtime::spawn(async {});
        assert!(Handle::current().block_on(task).unwrap_err().is_cancelled());
        let other = build(3);
        let guard = other.enter();
        assert_eq!(current(), Some(3));
        drop(guard);
        assert_eq!(current(), Some(2));
    })
    .join()
    .unwrap();
}

#[test]
fn a_forgotten_waker_does_no_harm() {
    let runtime = build(1);
    let drops = Drops::default();
    let token = drops.token();
    let (send, receive) = std::sync::mpsc::channel();
    let task = runtime.spawn(poll_fn(move |cx| {
        let _keep = &token;
        send.send(()).unwrap();
        std::mem::forget(cx.waker().clone());
        Poll::<()>::Pending
    }));
    receive.recv().unwrap();
    drop(task);
    drop(runtime);
    assert_eq!(drops.count(), 1);
}

#[test]
fn local_sets_their_guards_and_sets_of_tasks_that_are_forgotten_do_no_harm() {
    let _watchdog = watchdog();
    let (wakers, drops) = (Arc::<Mutex<Vec<Waker>>>::default(), Drops::default());
    let (theirs, token) = (wakers.clone(), drops.token());
    let other = thread::spawn(move || {
        let runtime = build(0);
        let local = LocalSet::new();
        std::mem::forget(local.enter());
        let mut set = JoinSet::new();
        set.spawn_local(poll_fn(move |cx| {
            let _held = &token;
            theirs.lock().push(cx.waker().clone());
            Poll::<()>::Pending
        }));
        local.block_on(&runtime, runtime::task::yield_now());
        std::mem::forget((local, set));
    });
    other.join().unwrap();
    // The owner is gone: no thread polls or drops the task.
    wakers.lock().drain(..).for_each(Waker::wake);
    assert_eq!(drops.count(), 0);
    let local = LocalSet::new();
    std::mem::forget(local.enter());
    drop(local);
    assert!(runtime::task::spawn_local(async {}).is_finished(), "cancelled: its set is gone");
}
