//! Settings out of range, and a system that refuses: `build` says so with the value, and leaves nothing
//! behind.

mod support;

use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use runtime::io::{AsyncReadExt, AsyncWriteExt};
use runtime::net::UnixStream;
use runtime::{Builder, Handle, Runtime};
use support::{
    HUGE_STACK, NoThreads, address_space, builder, descriptors, has_shadow_memory, in_child, limit, threads,
    until, use_one_cpu, watchdog,
};

#[track_caller]
fn refused(set: impl FnOnce(&mut Builder), says: &[&str]) {
    refused_for(builder(2), set, says);
}

#[track_caller]
fn refused_for(mut builder: Builder, set: impl FnOnce(&mut Builder), says: &[&str]) {
    set(&mut builder);
    let error = builder.build().expect_err("the setting is out of range");
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    for part in says {
        assert!(error.to_string().contains(part), "{part:?} is not in {error}");
    }
}

#[test]
fn zero_workers_are_refused() {
    refused(|builder| _ = builder.worker_threads(0), &["worker_threads must be at least 1, got 0"]);
}

#[test]
fn too_many_workers_are_refused() {
    for n in [4097, usize::MAX] {
        refused(|builder| _ = builder.worker_threads(n), &["worker_threads", &n.to_string()]);
    }
}

#[test]
fn other_zeros_are_refused() {
    refused(|builder| _ = builder.max_blocking_threads(0), &["max_blocking_threads", "got 0"]);
    refused(|builder| _ = builder.event_interval(0), &["event_interval", "got 0"]);
    refused(|builder| _ = builder.global_queue_interval(0), &["global_queue_interval", "got 0"]);
    refused_for(builder(0), |builder| _ = builder.event_interval(0), &["event_interval", "got 0"]);
}

#[test]
fn numbers_of_events_out_of_range_are_refused() {
    for n in [0, (1 << 20) + 1, usize::MAX] {
        for workers in [0, 2] {
            let at_once = |builder: &mut Builder| _ = builder.max_io_events_per_tick(n);
            refused_for(builder(workers), at_once, &["max_io_events_per_tick must be", &format!("got {n}")]);
            let while_busy = |builder: &mut Builder| _ = builder.max_io_events_per_busy_tick(n);
            let says = ["max_io_events_per_busy_tick must be", &format!("got {n}")];
            refused_for(builder(workers), while_busy, &says);
        }
    }
}

#[test]
fn a_runtime_has_the_name_that_it_was_given_or_none() {
    for workers in [0, 2] {
        assert_eq!(builder(workers).build().unwrap().handle().name(), None);
        let runtime = builder(workers).name("first").name(String::from("the second")).build().unwrap();
        let name = async { Handle::current().name().map(str::to_owned) };
        assert_eq!(runtime.block_on(runtime.spawn(name)).unwrap().as_deref(), Some("the second"));
    }
}

#[test]
fn an_empty_name_is_refused() {
    for name in ["", " \t\n"] {
        let says = ["name must not be empty", &format!("{name:?}")];
        refused(|builder| _ = builder.name(name), &says);
        refused_for(builder(0), |builder| _ = builder.name(name), &says);
    }
}

#[test]
fn every_event_comes_though_a_look_takes_one() {
    let _watchdog = watchdog();
    for workers in [0, 1, 2] {
        let runtime =
            builder(workers).max_io_events_per_tick(1).max_io_events_per_busy_tick(1).build().unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        // So that workers look without waiting, too.
        let busy = is_over.clone();
        let spinning = runtime.spawn(async move {
            while !busy.load(SeqCst) {
                runtime::task::yield_now().await;
            }
        });
        runtime.block_on(async {
            let echoes: Vec<_> = (0..8)
                .map(|_| {
                    let (mut near, mut far) = UnixStream::pair().unwrap();
                    runtime::spawn(async move {
                        let mut byte = [0];
                        while far.read(&mut byte).await.unwrap() > 0 {
                            far.write_all(&byte).await.unwrap();
                        }
                    });
                    runtime::spawn(async move {
                        for round in 0..20 {
                            near.write_all(&[round]).await.unwrap();
                            let mut byte = [0];
                            near.read_exact(&mut byte).await.unwrap();
                            assert_eq!(byte, [round]);
                        }
                    })
                })
                .collect();
            for echo in echoes {
                echo.await.unwrap();
            }
            is_over.store(true, SeqCst);
            spinning.await.unwrap();
        });
    }
}

#[test]
fn a_stack_size_that_cannot_be_is_refused() {
    for size in [0, isize::MAX as usize, usize::MAX] {
        for workers in [0, 2] {
            let set = |builder: &mut Builder| _ = builder.thread_stack_size(size);
            refused_for(builder(workers), set, &["thread_stack_size", &size.to_string()]);
        }
    }
}

#[test]
fn a_name_with_nul_is_refused() {
    for workers in [0, 2] {
        refused_for(builder(workers), |builder| _ = builder.thread_name("a\0b"), &["thread_name", "a\\0b"]);
    }
}

#[test]
fn a_name_with_nul_from_a_function_is_refused_when_the_thread_is_started() {
    let _watchdog = watchdog();
    refused(|builder| _ = builder.thread_name_fn(|| "a\0b".to_owned()), &["worker thread 1 of 2", "a\\0b"]);

    let runtime = builder(0).thread_name_fn(|| "a\0b".to_owned()).build().unwrap();
    let error = runtime.block_on(runtime.spawn_blocking(|| 1)).unwrap_err();
    assert!(error.to_string().contains("a\\0b"), "{error}");
}

#[test]
fn a_naming_function_that_panics_refuses_the_thread() {
    let _watchdog = watchdog();
    let error = builder(2).thread_name_fn(|| panic!("no name")).build().unwrap_err();
    assert!(error.to_string().contains("thread_name_fn"), "{error}");

    let runtime = builder(0).thread_name_fn(|| panic!("no name")).build().unwrap();
    assert!(runtime.block_on(runtime.spawn_blocking(|| 1)).unwrap_err().is_cancelled());
}

#[test]
fn a_paused_clock_needs_one_thread_and_time() {
    refused(|builder| _ = builder.start_paused(true), &["start_paused"]);
    refused_for(Builder::new_current_thread(), |builder| _ = builder.start_paused(true), &["start_paused"]);
}

#[test]
fn extreme_settings_that_are_allowed_work() {
    let _watchdog = watchdog();
    for keep_alive in [Duration::ZERO, Duration::MAX] {
        let runtime = builder(1)
            .max_blocking_threads(usize::MAX)
            .thread_keep_alive(keep_alive)
            .event_interval(1)
            .global_queue_interval(u32::MAX)
            .thread_stack_size(1)
            .build()
            .unwrap();
        for _ in 0..3 {
            assert_eq!(runtime.block_on(runtime.spawn_blocking(|| 1)).unwrap(), 1);
            assert_eq!(runtime.block_on(runtime.spawn(async { 1 })).unwrap(), 1);
        }
    }
}

#[test]
fn the_variable_sets_the_number_of_workers() {
    if in_child("the_variable_sets_the_number_of_workers", &[("RUNTIME_WORKER_THREADS", " 3 ")]) {
        assert_eq!(Runtime::new().unwrap().metrics().num_workers(), 3);
        assert_eq!(builder(2).build().unwrap().metrics().num_workers(), 2, "what the program says wins");
    }
}

#[test]
fn tokios_variable_sets_the_number_of_workers_if_ours_is_absent() {
    let tokios = ("TOKIO_WORKER_THREADS", "3");
    if in_child("tokios_variable_sets_the_number_of_workers_if_ours_is_absent", &[tokios]) {
        assert_eq!(Runtime::new().unwrap().metrics().num_workers(), 3);
        // SAFETY: no other thread accesses the environment: this process runs this test alone, and the
        // threads of the runtime have ended.
        unsafe { std::env::set_var("RUNTIME_WORKER_THREADS", "2") };
        assert_eq!(Runtime::new().unwrap().metrics().num_workers(), 2, "ours goes first");
    }
}

#[test]
fn a_variable_that_is_no_number_is_refused() {
    if in_child("a_variable_that_is_no_number_is_refused", &[("RUNTIME_WORKER_THREADS", "many")]) {
        let error = Runtime::new().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(error.to_string(), "RUNTIME_WORKER_THREADS must be a number, got \"many\"");
        builder(2).build().expect("the variable is not needed");
        builder(0).build().expect("the variable is not needed");
    }
}

#[test]
fn a_variable_that_is_zero_is_refused() {
    if in_child("a_variable_that_is_zero_is_refused", &[("RUNTIME_WORKER_THREADS", "0")]) {
        let error = Runtime::new().unwrap_err();
        assert_eq!(error.to_string(), "RUNTIME_WORKER_THREADS must be at least 1, got 0");
    }
}

#[test]
fn without_the_variable_the_affinity_decides() {
    if in_child("without_the_variable_the_affinity_decides", &[("RUNTIME_WORKER_THREADS", "")]) {
        // SAFETY: no other thread accesses the environment: this process runs this test alone, and no runtime
        // was built before.
        unsafe {
            std::env::remove_var("RUNTIME_WORKER_THREADS");
            std::env::remove_var("TOKIO_WORKER_THREADS");
        }
        use_one_cpu();
        assert_eq!(Runtime::new().unwrap().metrics().num_workers(), 1);
    }
}

#[test]
fn a_refused_first_worker_is_an_error_that_leaves_nothing_behind() {
    let _watchdog = watchdog();
    if in_child("a_refused_first_worker_is_an_error_that_leaves_nothing_behind", &[]) {
        let before = (threads(), descriptors());
        let error = builder(2).thread_stack_size(1 << 60).build().unwrap_err();
        assert!(error.to_string().contains("could not start worker thread 1 of 2"), "{error}");
        assert_eq!((threads(), descriptors()), before);
    }
}

#[test]
fn a_refused_second_worker_is_an_error_after_the_first_was_joined() {
    let _watchdog = watchdog();
    if !has_shadow_memory() && in_child("a_refused_second_worker_is_an_error_after_the_first_was_joined", &[])
    {
        let before = (threads(), descriptors());
        // Room for one stack and the small things beside it.
        limit(libc::RLIMIT_AS, address_space() + HUGE_STACK as u64 * 3 / 2);
        let stopped = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = stopped.clone();
        let error = builder(3)
            .thread_stack_size(HUGE_STACK)
            .on_thread_stop(move || _ = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst))
            .build()
            .unwrap_err();
        assert!(error.to_string().contains("could not start worker thread 2 of 3"), "{error}");
        let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref());
        assert_eq!(source.and_then(std::io::Error::raw_os_error), Some(libc::EAGAIN));
        assert_eq!(stopped.load(std::sync::atomic::Ordering::SeqCst), 1, "the first worker has ended");
        // The system lists a thread that was joined for a moment longer.
        until("nothing is left", || (threads(), descriptors()) == before);
        // Nothing is lost: what fits is built.
        let runtime = builder(1).thread_stack_size(HUGE_STACK).build().unwrap();
        assert_eq!(runtime.block_on(runtime.spawn(async { 1 })).unwrap(), 1);
    }
}

#[test]
fn refused_descriptors_are_an_error_that_leaves_nothing_open() {
    let _watchdog = watchdog();
    if in_child("refused_descriptors_are_an_error_that_leaves_nothing_open", &[]) {
        // With no gap below, the next numbers are taken in order: each limit refuses another of the driver's
        // descriptors.
        let highest = 100;
        let mut filling = Vec::new();
        while filling.last().is_none_or(|file: &std::fs::File| file.as_raw_fd() < highest as i32 - 1) {
            filling.push(std::fs::File::open("/dev/null").unwrap());
        }
        let before = (threads(), descriptors());
        let mut refusals = 0;
        for more in 0..6 {
            limit(libc::RLIMIT_NOFILE, highest + more);
            for workers in [0, 2] {
                let built = builder(workers).build();
                limit(libc::RLIMIT_NOFILE, 256);
                match built {
                    Ok(runtime) => _ = runtime.block_on(runtime.spawn(async { 1 })).unwrap(),
                    Err(error) => {
                        refusals += 1;
                        assert!(error.to_string().contains("Too many open files"), "{error}");
                        assert!(error.to_string().contains("descriptor"), "{error}");
                    }
                }
                until("everything is closed", || (threads(), descriptors()) == before);
                limit(libc::RLIMIT_NOFILE, highest + more);
            }
            limit(libc::RLIMIT_NOFILE, 256);
        }
        assert!((4..12).contains(&refusals), "{refusals}");
    }
}

#[test]
fn a_blocking_closure_without_a_thread_fails_with_the_reason() {
    let _watchdog = watchdog();
    if !has_shadow_memory() && in_child("a_blocking_closure_without_a_thread_fails_with_the_reason", &[]) {
        for workers in [0, 1] {
            let runtime = builder(workers).thread_stack_size(HUGE_STACK).build().unwrap();
            let refused = NoThreads::begin();
            let error = runtime.block_on(runtime.spawn_blocking(|| 1)).unwrap_err();
            assert!(error.is_cancelled() && error.to_string().contains("no thread"), "{error}");
            drop(refused);
            assert_eq!(runtime.block_on(runtime.spawn_blocking(|| 1)).unwrap(), 1, "later there is one");
        }
    }
}

#[test]
fn a_blocking_closure_waits_for_a_thread_that_lives() {
    let _watchdog = watchdog();
    if !has_shadow_memory() && in_child("a_blocking_closure_waits_for_a_thread_that_lives", &[]) {
        let runtime = builder(0).thread_stack_size(HUGE_STACK).build().unwrap();
        let gate = support::Gate::default();
        let (begun, has_begun) = std::sync::mpsc::channel();
        let first = runtime.spawn_blocking({
            let gate = gate.clone();
            move || {
                begun.send(()).unwrap();
                gate.wait();
            }
        });
        has_begun.recv().unwrap();
        let _refused = NoThreads::begin();
        let second = runtime.spawn_blocking(|| 2);
        assert!(!second.is_finished());
        gate.open();
        assert_eq!(runtime.block_on(second).unwrap(), 2);
        runtime.block_on(first).unwrap();
    }
}

#[test]
fn a_thousand_runtimes_in_a_row_leave_no_thread_and_no_descriptor() {
    let _watchdog = watchdog();
    // ThreadSanitizer has a thread of its own that comes and goes.
    if !has_shadow_memory() && in_child("a_thousand_runtimes_in_a_row_leave_no_thread_and_no_descriptor", &[])
    {
        let at_first = threads();
        // A first one, for what the process keeps for good.
        drop(builder(2).build().unwrap());
        until("the workers are gone", || threads() == at_first);
        let before = (threads(), descriptors());
        for i in 0..1000 {
            let runtime = builder(i % 3).build().unwrap();
            assert_eq!(runtime.block_on(runtime.spawn(async { 1 })).unwrap(), 1);
            if i % 10 == 0 {
                assert_eq!(runtime.block_on(runtime.spawn_blocking(|| 1)).unwrap(), 1);
            }
            runtime.spawn(std::future::pending::<()>());
        }
        until("threads and descriptors are as before", || (threads(), descriptors()) == before);
    }
}
