//! A call that cannot work where it is made panics at the caller's line and says what to do, or returns an
//! error. Calls that look wrong and are allowed work.

mod support;

use std::sync::{Arc, Barrier};
use std::time::Duration;

use runtime::{Builder, Handle};
use support::{KINDS, build, builder, each_kind, panic_of, place_of_panic, until, watchdog};

#[test]
fn block_on_in_a_task_panics_and_says_what_to_do() {
    each_kind(|runtime| {
        let handle = runtime.handle().clone();
        let task = runtime.spawn(async move { handle.block_on(async {}) });
        let error = runtime.block_on(task).unwrap_err();
        let text = support::text_of(&*error.into_panic());
        assert!(text.contains("`block_on` would hold the worker"), "{text}");
        assert!(text.contains("`.await`") && text.contains("`spawn_blocking`"), "{text}");
    });
}

#[test]
fn block_on_of_another_runtime_in_a_task_panics_too() {
    let other = build(1);
    each_kind(|runtime| {
        let handle = other.handle().clone();
        let task = runtime.spawn(async move { handle.block_on(async {}) });
        assert!(runtime.block_on(task).unwrap_err().is_panic());
    });
}

#[test]
fn the_panic_of_block_on_is_at_the_callers_line() {
    // A `current_thread` task runs on this thread, where the hook looks.
    let runtime = build(0);
    let handle = runtime.handle().clone();
    let (file, line) = place_of_panic(|| {
        let task = runtime.spawn(async move { handle.block_on(async {}) }); // Here.
        std::panic::resume_unwind(runtime.block_on(task).unwrap_err().into_panic());
    });
    assert!(file.ends_with("rt_misuse.rs"), "{file}");
    let source = include_str!("rt_misuse.rs").lines().nth(line as usize - 1).unwrap();
    assert!(source.ends_with("// Here."), "line {line}: {source}");
}

#[test]
fn block_on_is_allowed_in_blocking_closures() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let handle = runtime.handle().clone();
        let closure = runtime.spawn_blocking(move || {
            handle.block_on(async { runtime::spawn(async { 1 }).await.unwrap() })
                + handle.block_on(async { runtime::spawn(async { 2 }).await.unwrap() })
        });
        assert_eq!(runtime.block_on(closure).unwrap(), 3);
    });
}

#[test]
fn block_on_is_allowed_in_block_in_place() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let handle = runtime.handle().clone();
        let task = runtime.spawn(async move {
            let other = runtime::spawn(async { 1 });
            runtime::task::block_in_place(|| handle.block_on(other).unwrap())
        });
        assert_eq!(runtime.block_on(task).unwrap(), 1);
    });
}

#[test]
fn block_on_is_allowed_in_block_on_also_of_other_runtimes() {
    let _watchdog = watchdog();
    for outer in KINDS {
        for inner in KINDS {
            let (outer, inner) = (build(outer), build(inner));
            let handle = outer.handle().clone();
            let sum = outer.block_on(async {
                let own = runtime::spawn(async { 1 });
                let other = inner.block_on(async { runtime::spawn(async { 2 }).await.unwrap() });
                let nested = handle.block_on(async { runtime::spawn(async { 3 }).await.unwrap() });
                own.await.unwrap() + other + nested
            });
            assert_eq!(sum, 6);
        }
    }
}

#[test]
fn a_task_runs_again_after_a_nested_block_on_has_panicked_in_it() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let handle = runtime.handle().clone();
        let task = runtime.spawn(async move {
            assert!(panic_of(|| handle.block_on(async {})).contains("would hold"));
            runtime::task::yield_now().await;
            // Still known to be a task.
            assert!(panic_of(|| handle.block_on(async {})).contains("would hold"));
            runtime::task::id()
        });
        let id = task.id();
        assert_eq!(runtime.block_on(task).unwrap(), id);
    });
}

#[test]
fn calls_outside_of_a_runtime_panic_and_say_what_to_do() {
    let spawn = || drop(runtime::spawn(async {}));
    let blocking = || drop(runtime::task::spawn_blocking(|| {}));
    let current = || drop(Handle::current());
    let sleep = || poll_once(runtime::time::sleep(Duration::ZERO));
    let connect = || poll_once(async { drop(runtime::net::TcpStream::connect("127.0.0.1:1").await) });
    let bind = || poll_once(async { drop(runtime::net::TcpListener::bind("127.0.0.1:0").await) });
    let signal = || drop(runtime::signal::unix::signal(runtime::signal::unix::SignalKind::from_raw(-1)));
    let calls: [(&str, &dyn Fn()); 7] = [
        ("signal", &signal),
        ("spawn", &spawn),
        ("spawn_blocking", &blocking),
        ("Handle::current", &current),
        ("sleep", &sleep),
        ("TcpStream", &connect),
        ("TcpListener", &bind),
    ];
    for (name, call) in calls {
        let text = panic_of(call);
        assert!(text.contains(name) && text.contains("needs a runtime"), "{name}: {text}");
        assert!(text.contains("there is no reactor running"), "some programs look for this: {text}");
        assert!(text.contains("block_on") && text.contains("enter"), "{name}: {text}");
    }
    let error = Handle::try_current().unwrap_err();
    assert!(error.is_missing_context() && error.to_string().contains("needs a runtime"), "{error}");
}

#[test]
fn the_panics_outside_of_a_runtime_are_at_the_callers_line() {
    let calls: [&dyn Fn(); 3] =
        [&|| drop(runtime::spawn(async {})), &|| drop(runtime::task::spawn_blocking(|| {})), &|| {
            drop(Handle::current())
        }];
    for call in calls {
        let (file, _) = place_of_panic(call);
        assert!(file.ends_with("rt_misuse.rs"), "{file}");
    }
}

fn poll_once<F: Future>(future: F) {
    let mut future = std::pin::pin!(future);
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(future.as_mut().poll(&mut cx).is_pending());
}

#[test]
fn time_that_was_not_enabled_panics_and_says_what_to_do() {
    for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        let runtime = builder.enable_io().build().unwrap();
        let text = panic_of(|| runtime.block_on(async { runtime::time::sleep(Duration::ZERO).await }));
        assert!(text.contains("sleep") && text.contains("enable_time"), "{text}");
        let timeout = || runtime::time::timeout(Duration::ZERO, std::future::pending::<()>());
        let text = panic_of(|| runtime.block_on(async { timeout().await }));
        assert!(text.contains("timeout") && text.contains("enable_time"), "{text}");
        let task = runtime.spawn(async { runtime::time::sleep(Duration::ZERO).await });
        assert!(runtime.block_on(task).unwrap_err().is_panic());
        assert_eq!(runtime.block_on(runtime.spawn(async { 1 })).unwrap(), 1);
    }
}

#[test]
fn io_that_was_not_enabled_panics_and_says_what_to_do() {
    for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        let runtime = builder.enable_time().build().unwrap();
        let text =
            panic_of(|| runtime.block_on(async { runtime::net::TcpListener::bind("127.0.0.1:0").await }));
        assert!(text.contains("TcpListener") && text.contains("enable_io"), "{text}");
        let text =
            panic_of(|| runtime.block_on(async { runtime::net::TcpStream::connect("127.0.0.1:1").await }));
        assert!(text.contains("TcpStream") && text.contains("enable_io"), "{text}");
    }
}

#[test]
fn a_runtime_without_io_and_time_runs_tasks() {
    let _watchdog = watchdog();
    for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        let runtime = builder.build().unwrap();
        let (send, receive) = std::sync::mpsc::channel();
        let waker = runtime.spawn(std::future::poll_fn(move |cx| match send.send(cx.waker().clone()) {
            Ok(()) => std::task::Poll::Pending,
            Err(_) => std::task::Poll::Ready(7),
        }));
        std::thread::spawn(move || {
            let waker: std::task::Waker = receive.recv().unwrap();
            drop(receive);
            waker.wake();
        });
        assert_eq!(runtime.block_on(waker).unwrap(), 7);
    }
}

#[test]
fn after_shutdown_a_spawn_is_cancelled_and_its_future_dropped() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let handle = runtime.handle().clone();
        drop(runtime);
        let drops = support::Drops::default();
        let token = drops.token();
        let task = handle.spawn(async move { drop(token) });
        assert_eq!(drops.count(), 1);
        assert!(task.is_finished());
        assert!(handle.block_on(task).unwrap_err().is_cancelled());
        let token = drops.token();
        let closure = handle.spawn_blocking(move || drop(token));
        assert_eq!(drops.count(), 2);
        assert!(handle.block_on(closure).unwrap_err().is_cancelled());
        // Plain futures still run, also when they wait for another thread.
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let waker: std::task::Waker = receive.recv().unwrap();
            waker.wake();
        });
        let mut send = Some(send);
        handle.block_on(std::future::poll_fn(|cx| match send.take() {
            Some(send) => {
                send.send(cx.waker().clone()).unwrap();
                std::task::Poll::Pending
            }
            None => std::task::Poll::Ready(()),
        }));
    });
}

#[test]
fn a_join_handle_polled_after_its_result_panics_and_the_worker_lives() {
    each_kind(|runtime| {
        let mut task = runtime.spawn(async { 1 });
        assert_eq!(runtime.block_on(&mut task).unwrap(), 1);
        let text = panic_of(|| runtime.block_on(&mut task));
        assert!(text.contains("after it had given its result"), "{text}");
        drop(task);
        assert_eq!(runtime.block_on(runtime.spawn(async { 1 })).unwrap(), 1);
    });
}

#[test]
fn threads_may_call_block_on_at_once() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let runtime = Arc::new(runtime);
        let barrier = Arc::new(Barrier::new(4));
        let threads = (0..4).map(|_| {
            let (runtime, barrier) = (runtime.clone(), barrier.clone());
            std::thread::spawn(move || {
                barrier.wait();
                runtime.block_on(async {
                    for _ in 0..50 {
                        runtime::spawn(async { runtime::task::yield_now().await }).await.unwrap();
                    }
                    runtime::time::sleep(Duration::from_millis(1)).await;
                });
            })
        });
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
        until("all tasks have ended", || runtime.metrics().num_alive_tasks() == 0);
    });
}

#[test]
fn zero_and_endless_durations_do_not_overflow() {
    let _watchdog = watchdog();
    for workers in KINDS {
        let runtime = builder(workers).build().unwrap();
        runtime.block_on(async {
            runtime::time::sleep(Duration::ZERO).await;
            let endless = runtime::time::timeout(Duration::MAX, async { 1 });
            assert_eq!(endless.await.unwrap(), 1);
            let endless = runtime::time::sleep(Duration::MAX);
            assert!(runtime::time::timeout(Duration::from_millis(1), endless).await.is_err());
        });
        runtime.shutdown_timeout(Duration::MAX);
    }
}

/// The refused task is dropped inside of the poll of the task that spawned it. That must not take the
/// spawning task's record along.
#[test]
fn a_refused_spawn_leaves_the_task_that_spawns_as_it_was() {
    let over = build(1);
    let handle = over.handle().clone();
    drop(over);
    each_kind(|runtime| {
        let (handle, own) = (handle.clone(), runtime.handle().clone());
        let task = runtime.spawn(async move {
            let id = runtime::task::id();
            drop(handle.spawn(async {}));
            assert_eq!(runtime::task::try_id(), Some(id));
            panic_of(|| own.block_on(async {}))
        });
        let text = runtime.block_on(task).unwrap();
        assert!(text.contains("`block_on` would hold the worker"), "{text}");
    });
}
