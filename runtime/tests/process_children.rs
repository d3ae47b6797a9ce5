//! Child processes: their start, their end, and what can go wrong with either.
#![cfg(feature = "process")]

mod process_support;
mod support;

use std::io::{self, ErrorKind};
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Wake, Waker};

use process_support::{block_on, is_reaped, send, shell, state, until};
use runtime::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use runtime::process::Command;

#[test]
fn a_status_is_returned_again_and_again() {
    block_on(async {
        let mut child = shell("exit 7").spawn().unwrap();
        let id = child.id().unwrap();
        assert_eq!(child.wait().await.unwrap().code(), Some(7));
        assert!(is_reaped(id));
        assert_eq!(child.id(), None);
        assert_eq!(child.wait().await.unwrap().code(), Some(7));
        assert_eq!(child.try_wait().unwrap().unwrap().code(), Some(7));
        child.start_kill().unwrap();
        child.kill().await.unwrap();
        assert_eq!(child.wait().await.unwrap().code(), Some(7));
    });
}

#[test]
fn a_child_that_ended_before_the_wait_is_found() {
    block_on(async {
        let mut child = shell("exit 1").spawn().unwrap();
        let id = child.id().unwrap();
        until(|| state(id) == Some('Z')).await;
        assert_eq!(child.wait().await.unwrap().code(), Some(1));
    });
}

#[test]
fn try_wait_tells_a_running_child_from_one_that_ended() {
    block_on(async {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let id = child.id().unwrap();
        assert_eq!(child.try_wait().unwrap(), None);
        assert!(child.stdin.is_some(), "it is left open");
        child.stdin = None;
        until(|| state(id) == Some('Z')).await;
        assert!(child.try_wait().unwrap().unwrap().success());
        assert!(is_reaped(id));
    });
}

#[test]
fn a_child_that_ignores_sigterm_is_killed() {
    block_on(async {
        let mut child = shell("trap '' TERM; echo ready; read line; echo $line; read line")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next_line().await.unwrap().unwrap(), "ready");
        send(child.id().unwrap(), libc::SIGTERM);
        stdin.write_all(b"alive\n").await.unwrap();
        assert_eq!(lines.next_line().await.unwrap().unwrap(), "alive");
        assert_eq!(child.try_wait().unwrap(), None);
        child.kill().await.unwrap();
        assert_eq!(child.wait().await.unwrap().signal(), Some(libc::SIGKILL));
    });
}

#[test]
fn a_hundred_children_at_once_are_told_apart() {
    let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let waits: Vec<_> = (0..100)
            .map(|code| {
                runtime::spawn(async move {
                    let mut child = shell(&format!("read line; exit {code}"))
                        .stdin(Stdio::piped())
                        .kill_on_drop(true)
                        .spawn()
                        .unwrap();
                    runtime::task::yield_now().await;
                    child.wait().await.unwrap().code()
                })
            })
            .collect();
        for (code, wait) in waits.into_iter().enumerate() {
            assert_eq!(wait.await.unwrap(), Some(code as i32));
        }
    });
}

#[test]
fn a_program_that_is_not_there_is_named() {
    block_on(async {
        let error = Command::new("no-such-program").arg("x").spawn().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(error.to_string(), "spawn no-such-program: No such file or directory (os error 2)");
        let error = Command::new("no-such-program").status().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let error = Command::new("no-such-program").output().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let error = Command::new("true").current_dir("/no/such/folder").spawn().unwrap_err();
        assert_eq!(
            error.to_string(),
            "spawn true in /no/such/folder: No such file or directory (os error 2)"
        );
        let error = Command::new("/etc").spawn().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        let error = Command::new("echo").arg("a\0b").spawn().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn settings_reach_the_child() {
    block_on(async {
        let mut command = shell("echo $0 $A $B $C; pwd");
        command.arg0("me").env_clear().envs([("A", "1"), ("B", "2"), ("C", "3")]);
        command.env_remove("B").env("C", "4").current_dir("/");
        let output = command.output().await.unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "me 1 4\n/\n");

        // SAFETY: asks for the numbers of this process.
        let (uid, gid) = unsafe { (libc::getuid(), libc::getgid()) };
        let mut child = shell("read line");
        let child = child.stdin(Stdio::piped()).uid(uid).gid(gid).process_group(0).spawn().unwrap();
        let id = child.id().unwrap() as libc::pid_t;
        // SAFETY: asks for the group of a process that has not been reaped.
        assert_eq!(unsafe { libc::getpgid(id) }, id);
    });
}

#[test]
fn an_error_before_exec_is_the_error_of_the_spawn() {
    block_on(async {
        let mut command = Command::new("true");
        // SAFETY: (1) it makes an error out of a number, without an allocation. (2) It touches no descriptor
        // and no shared memory.
        unsafe { command.pre_exec(|| Err(io::Error::from_raw_os_error(libc::EXDEV))) };
        assert_eq!(command.spawn().unwrap_err().kind(), ErrorKind::CrossesDevices);

        let mut command = shell("umask");
        // SAFETY: (1) `umask` is safe in a signal handler. (2) It touches no descriptor and no memory.
        unsafe {
            command.pre_exec(|| {
                libc::umask(0o27);
                Ok(())
            })
        };
        assert_eq!(command.output().await.unwrap().stdout.trim_ascii(), b"0027");
    });
}

#[test]
fn a_command_is_one_of_the_standard_library() {
    block_on(async {
        let mut std = std::process::Command::new("sh");
        std.args(["-c", "exit 4"]);
        let mut command = Command::from(std);
        assert!(!command.get_kill_on_drop());
        assert!(command.kill_on_drop(true).get_kill_on_drop());
        assert_eq!(command.as_std().get_program(), "sh");
        command.as_std_mut().env("X", "1");
        assert_eq!(command.status().await.unwrap().code(), Some(4));
        assert_eq!(command.into_std().status().unwrap().code(), Some(4));
    });
}

#[test]
fn a_wait_that_was_dropped_may_be_repeated_elsewhere() {
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    block_on(async {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let count = Arc::new(Count(AtomicUsize::new(0)));
        {
            let waker = Waker::from(count.clone());
            let mut wait = pin!(child.wait());
            assert!(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        let wait = runtime::spawn(async move { child.wait().await });
        runtime::task::yield_now().await;
        drop(stdin);
        assert!(wait.await.unwrap().unwrap().success());
        assert_eq!(count.0.load(Relaxed), 0, "the first task waits no more");
    });
}

#[test]
fn a_child_that_something_else_has_reaped_is_an_error() {
    block_on(async {
        let mut child = shell("exit 5").spawn().unwrap();
        let id = child.id().unwrap() as libc::pid_t;
        let mut status = 0;
        // SAFETY: writes to `status`.
        assert_eq!(unsafe { libc::waitpid(id, &mut status, 0) }, id);
        assert_eq!(child.wait().await.unwrap_err().raw_os_error(), Some(libc::ECHILD));
        assert_eq!(child.wait().await.unwrap_err().raw_os_error(), Some(libc::ECHILD));
    });
}

#[test]
fn a_wait_goes_on_in_another_runtime_while_the_first_is_idle() {
    let idle = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut child = idle.block_on(async {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        // The wait begins in the first runtime.
        assert!(pin!(child.wait()).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        child
    });
    block_on(async { assert!(child.wait().await.unwrap().success()) });

    let mut child = idle.block_on(async { Command::new("sleep").arg("0.1").spawn().unwrap() });
    block_on(async { assert!(child.wait().await.unwrap().success()) });
    // And it may come back.
    let mut child = block_on(async { Command::new("sleep").arg("0.1").spawn().unwrap() });
    let pending = |child: &mut runtime::process::Child| {
        pin!(child.wait()).poll(&mut Context::from_waker(Waker::noop())).is_pending()
    };
    block_on(async { assert!(pending(&mut child)) });
    idle.block_on(async { assert!(child.wait().await.unwrap().success()) });
}

#[test]
fn a_wait_goes_on_in_a_runtime_that_another_thread_drives() {
    let build = || runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (idle, driven) = (build(), build());
    let mut child = idle.block_on(async { Command::new("sleep").arg("0.1").spawn().unwrap() });
    std::thread::scope(|threads| {
        let (tx, rx) = std::sync::mpsc::channel();
        // Inside, so that a panic below ends the driver, too.
        let (end, ended) = runtime::sync::oneshot::channel::<()>();
        let driven = &driven;
        let driver = threads.spawn(move || {
            driven.block_on(async {
                tx.send(()).unwrap();
                ended.await.unwrap();
            });
        });
        rx.recv().unwrap();
        driven.block_on(async { assert!(child.wait().await.unwrap().success()) });
        end.send(()).unwrap();
        driver.join().unwrap();
    });
}

#[test]
fn a_wait_stays_with_its_runtime_while_an_idle_one_is_current() {
    let build = || runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (running, idle) = (build(), build());
    running.block_on(async {
        let mut child = Command::new("sleep").arg("0.1").spawn().unwrap();
        let _entered = idle.enter();
        assert!(child.wait().await.unwrap().success());
    });
}

#[test]
fn a_wait_stays_with_the_inner_one_of_two_runtimes_that_a_thread_drives() {
    let build = || runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (outer, inner) = (build(), build());
    outer.block_on(async {
        inner.block_on(async {
            let mut child = Command::new("sleep").arg("0.1").spawn().unwrap();
            let _entered = outer.enter();
            assert!(child.wait().await.unwrap().success());
        });
    });
}

/// The first runtime is driven by another thread, and the one of the wait by a thread that blocks.
#[test]
fn a_wait_ends_although_the_drivers_of_its_own_runtime_block() {
    let build = || runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (driven, blocked) = (build(), build());
    let sleeper = || Command::new("sleep").arg("0.1").spawn().unwrap();
    let (mut first, mut second) = driven.block_on(async { (sleeper(), sleeper()) });
    std::thread::scope(|threads| {
        // Inside, so that a panic below ends the driver, too.
        let (end, ended) = runtime::sync::oneshot::channel::<()>();
        let driven = &driven;
        let driver = threads.spawn(move || driven.block_on(ended).unwrap());
        let handle = blocked.handle().clone();
        blocked.block_on(async {
            let wait = move || assert!(handle.block_on(first.wait()).unwrap().success());
            std::thread::spawn(wait).join().unwrap();
            // As a foreign executor would.
            let this_thread = std::thread::current();
            let waker = support::waker(move || this_thread.unpark());
            let mut wait = pin!(second.wait());
            let status = loop {
                match wait.as_mut().poll(&mut Context::from_waker(&waker)) {
                    Poll::Ready(status) => break status,
                    Poll::Pending => std::thread::park(),
                }
            };
            assert!(status.unwrap().success());
        });
        end.send(()).unwrap();
        driver.join().unwrap();
    });
}

#[test]
fn a_wait_finds_its_way_among_three_runtimes() {
    let build = || runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let runtimes = [build(), build(), build()];
    let pending = |child: &mut runtime::process::Child| {
        pin!(child.wait()).poll(&mut Context::from_waker(Waker::noop())).is_pending()
    };
    for last in 0..3 {
        let mut child =
            runtimes[0].block_on(async { Command::new("cat").stdin(Stdio::piped()).spawn().unwrap() });
        let stdin = child.stdin.take();
        for runtime in &runtimes {
            let _entered = runtime.enter();
            assert!(pending(&mut child));
        }
        let doomed = build();
        doomed.block_on(async { assert!(pending(&mut child)) });
        drop(doomed);
        assert!(pending(&mut child), "the other runtimes still watch");
        runtimes[last].block_on(async {
            assert!(pending(&mut child));
            drop(stdin);
            assert!(child.wait().await.unwrap().success());
        });
    }
}

#[test]
fn waits_in_runtimes_that_end_leave_no_watches() {
    // Other tests open descriptors, too.
    if !support::in_child("waits_in_runtimes_that_end_leave_no_watches", &[]) {
        return;
    }
    let build = || runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let lasting = build();
    let mut child = lasting.block_on(async { Command::new("cat").stdin(Stdio::piped()).spawn().unwrap() });
    let stdin = child.stdin.take();
    let mut round = || {
        let pending = |child: &mut runtime::process::Child| {
            pin!(child.wait()).poll(&mut Context::from_waker(Waker::noop())).is_pending()
        };
        let short = build();
        short.block_on(async { assert!(pending(&mut child)) });
        drop(short);
        lasting.block_on(async { assert!(pending(&mut child)) });
        support::descriptors().len()
    };
    let first = round();
    let counts = [(); 5].map(|()| round());
    assert!(counts.iter().all(|&count| count <= first), "{first}, then {counts:?}");
    drop(stdin);
    lasting.block_on(async { assert!(child.wait().await.unwrap().success()) });
}

#[test]
fn a_wait_goes_on_in_another_runtime() {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut child = runtime.block_on(async {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert_eq!(child.try_wait().unwrap(), None);
        child
    });
    let stdin = child.stdin.take();
    drop(runtime);
    {
        let mut wait = pin!(child.wait());
        let Poll::Ready(result) = wait.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("no runtime can watch it");
        };
        assert!(result.unwrap_err().to_string().contains("was shut down"));
    }
    block_on(async {
        let wait = runtime::spawn(async move { child.wait().await });
        runtime::task::yield_now().await;
        drop(stdin);
        assert!(wait.await.unwrap().unwrap().success());
    });
}

#[test]
fn a_wait_that_the_shutdown_finds_asleep_ends() {
    let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut child = runtime.block_on(async { Command::new("cat").stdin(Stdio::piped()).spawn().unwrap() });
    let stdin = child.stdin.take();
    let waiting = Arc::new(AtomicUsize::new(0));
    let thread = {
        let waiting = waiting.clone();
        std::thread::spawn(move || {
            block_on(async {
                let mut wait = pin!(child.wait());
                std::future::poll_fn(|cx| {
                    let poll = wait.as_mut().poll(cx);
                    waiting.fetch_add(1, Relaxed);
                    poll
                })
                .await
            })
        })
    };
    process_support::until_blocking(|| waiting.load(Relaxed) > 0);
    drop(runtime);
    // The second poll has found the runtime shut down, and waits in the thread's own.
    process_support::until_blocking(|| waiting.load(Relaxed) > 1);
    drop(stdin);
    assert!(thread.join().unwrap().unwrap().success());
}

#[test]
#[should_panic = "no reactor running"]
fn a_spawn_outside_of_a_runtime_panics() {
    let _ = Command::new("no-such-program").spawn();
}

#[test]
#[should_panic = "`Command::spawn` needs I/O"]
fn a_spawn_without_io_panics() {
    let runtime = runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let _ = Command::new("no-such-program").spawn();
    });
}

#[test]
fn handles_can_be_sent_and_shared_and_printed() {
    fn check<T: Send + Sync + Unpin + std::fmt::Debug>() {}
    check::<Command>();
    check::<runtime::process::Child>();
    check::<runtime::process::ChildStdin>();
    check::<runtime::process::ChildStdout>();
    check::<runtime::process::ChildStderr>();
    block_on(async {
        let mut child = shell("exit 0").spawn().unwrap();
        assert!(format!("{child:?}").contains(&child.id().unwrap().to_string()));
        child.wait().await.unwrap();
        assert!(format!("{child:?}").contains("status"));
    });
}

#[test]
fn a_child_that_was_waited_for_before_it_was_taken_over_has_its_status() {
    block_on(async {
        let spawned = shell("exit 5").spawn_with(|std| {
            let mut child = std.spawn()?;
            child.wait()?;
            Ok(child)
        });
        let mut child = spawned.unwrap();
        assert_eq!(child.id(), None);
        assert_eq!(child.try_wait().unwrap().and_then(|status| status.code()), Some(5));
        assert_eq!(child.wait().await.unwrap().code(), Some(5));
    });
}
