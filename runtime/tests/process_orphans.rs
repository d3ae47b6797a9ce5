//! Children whose handle is dropped, and runtimes that are dropped while children run.
#![cfg(feature = "process")]

mod process_support;

use std::os::fd::AsRawFd;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use process_support::{block_on, is_reaped, shell, state, until, until_blocking};
use runtime::io::{AsyncReadExt, AsyncWriteExt};
use runtime::process::{Child, Command};

fn sleeper() -> Command {
    let mut command = Command::new("sleep");
    command.arg("1000");
    command
}

/// A child that ends when its input does.
fn cat() -> Child {
    Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Starts children until process `id` has been reaped: each start sweeps.
fn sweep_until_reaped(id: u32) {
    until_blocking(|| {
        block_on(async { Command::new("true").status().await.unwrap() });
        is_reaped(id)
    });
}

#[test]
fn kill_on_drop_kills_and_reaps() {
    block_on(async {
        let child = sleeper().kill_on_drop(true).spawn().unwrap();
        let id = child.id().unwrap();
        drop(child);
        until(|| is_reaped(id)).await;
    });
}

#[test]
fn a_child_that_is_dropped_runs_on_and_is_reaped_at_its_end() {
    block_on(async {
        let mut child = cat();
        let id = child.id().unwrap();
        let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        drop(child);
        stdin.write_all(b"alive").await.unwrap();
        let mut answer = [0; 5];
        stdout.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"alive");
        assert!(!is_reaped(id));
        drop(stdin);
        until(|| is_reaped(id)).await;
    });
}

#[test]
fn a_child_that_has_ended_is_reaped_by_the_drop() {
    block_on(async {
        let mut child = cat();
        let id = child.id().unwrap();
        child.stdin = None;
        until(|| state(id) == Some('Z')).await;
        drop(child);
        assert!(is_reaped(id));
    });
}

#[test]
fn a_future_of_status_or_output_kills_when_it_is_dropped() {
    block_on(async {
        let mut command = sleeper();
        // The futures do not tell the number of their child: the name does.
        let name = format!("sleeper-{}", std::process::id());
        command.arg0(&name).kill_on_drop(true);
        let (status, output) = (command.status(), command.output());
        until(|| children_called(&name) == 2).await;
        drop(status);
        let limit = Duration::from_millis(5);
        assert!(runtime::time::timeout(limit, output).await.is_err());
        until(|| children_called(&name) == 0).await;
    });
}

/// How many processes have this as their argument number zero; a zombie has none.
fn children_called(name: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap();
    let lines = processes.filter_map(|process| std::fs::read(process.ok()?.path().join("cmdline")).ok());
    lines.filter(|line| line.split(|byte| *byte == 0).next() == Some(name.as_bytes())).count()
}

#[test]
fn a_runtime_ends_while_children_run_and_they_are_reaped_later() {
    for workers in [0, 2] {
        let mut builder = match workers {
            0 => runtime::Builder::new_current_thread(),
            _ => runtime::Builder::new_multi_thread(),
        };
        let runtime = builder.enable_all().build().unwrap();
        let (held, stdins, ids) = runtime.block_on(async {
            let (mut held, mut dropped, mut awaited) = (cat(), cat(), cat());
            let stdins = [held.stdin.take(), dropped.stdin.take(), awaited.stdin.take()];
            let ids = [held.id(), dropped.id(), awaited.id()].map(Option::unwrap);
            drop(dropped);
            runtime::spawn(async move { awaited.wait().await });
            runtime::task::yield_now().await;
            (held, stdins, ids)
        });
        drop(runtime);
        assert!(ids.iter().all(|id| !is_reaped(*id)));
        drop(stdins);
        drop(held);
        ids.into_iter().for_each(sweep_until_reaped);
    }
}

#[test]
fn an_orphan_of_an_idle_runtime_is_reaped_by_the_next_start_of_a_child() {
    let idle = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (id, stdin) = idle.block_on(async {
        let mut child = cat();
        (child.id().unwrap(), child.stdin.take())
    });
    drop(stdin);
    sweep_until_reaped(id);
    // And the task that waits for the orphan ends when the runtime goes on.
    idle.block_on(async { until(|| idle.metrics().num_alive_tasks() == 0).await });
    // The same if the task has begun to wait.
    let (id, stdin) = idle.block_on(async {
        let mut child = cat();
        let its = (child.id().unwrap(), child.stdin.take());
        drop(child);
        runtime::task::yield_now().await;
        its
    });
    drop(stdin);
    sweep_until_reaped(id);
    idle.block_on(async { until(|| idle.metrics().num_alive_tasks() == 0).await });
}

#[test]
fn an_orphan_does_not_keep_a_runtime_that_has_ended() {
    for workers in [0, 1] {
        let hook = Arc::new(());
        let (alive, kept) = (Arc::downgrade(&hook), move || _ = &hook);
        let mut builder = match workers {
            0 => runtime::Builder::new_current_thread(),
            _ => runtime::Builder::new_multi_thread(),
        };
        let runtime = builder.enable_all().on_thread_park(kept).build().unwrap();
        drop(builder);
        let id = runtime.block_on(async {
            let child = sleeper().spawn().unwrap();
            let id = child.id().unwrap();
            drop(child);
            // The task has begun to wait.
            until(|| runtime.metrics().spawned_tasks_count() == 1).await;
            runtime::task::yield_now().await;
            id
        });
        drop(runtime);
        until_blocking(|| alive.upgrade().is_none());
        assert!(!is_reaped(id));
        // SAFETY: no memory is accessed. The child has not been reaped, so the number is its own.
        assert_eq!(unsafe { libc::kill(id as libc::pid_t, libc::SIGKILL) }, 0);
        sweep_until_reaped(id);
    }
}

#[test]
fn a_task_that_ends_with_its_runtime_kills_its_child() {
    let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let id = runtime.block_on(async {
        let mut child = sleeper().kill_on_drop(true).spawn().unwrap();
        let id = child.id().unwrap();
        runtime::spawn(async move { child.wait().await });
        id
    });
    drop(runtime);
    until_blocking(|| matches!(state(id), None | Some('Z')));
    sweep_until_reaped(id);
}

#[test]
fn a_child_may_be_dropped_on_any_thread() {
    let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let child = runtime.block_on(async { sleeper().kill_on_drop(true).spawn().unwrap() });
    let id = child.id().unwrap();
    drop(child);
    until_blocking(|| is_reaped(id));
}

#[test]
fn a_child_that_cannot_be_watched_is_killed() {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    drop(runtime);
    let _guard = handle.enter();
    let (mut id, mut pipe) = (0, None);
    let link = |fd| std::fs::read_link(format!("/proc/self/fd/{fd}")).ok();
    let mut keep = |child: &std::process::Child| {
        id = child.id();
        pipe = child.stdin.as_ref().map(|stdin| (stdin.as_raw_fd(), link(stdin.as_raw_fd())));
    };
    let error = sleeper().stdin(Stdio::piped()).spawn_with(|std| std.spawn().inspect(&mut keep)).unwrap_err();
    assert!(error.to_string().contains("was shut down"), "{error}");
    let (fd, before) = pipe.unwrap();
    assert!(before.is_some() && link(fd) != before, "its pipe is closed");
    until_blocking(|| matches!(state(id), None | Some('Z')));
    sweep_until_reaped(id);
}

#[test]
fn a_panic_beside_a_child_kills_it() {
    block_on(async {
        let child = sleeper().kill_on_drop(true).spawn().unwrap();
        let id = child.id().unwrap();
        let task = runtime::spawn(async move {
            let _child = child;
            panic!("on purpose");
        });
        assert!(task.await.unwrap_err().is_panic());
        until(|| is_reaped(id)).await;
    });
}

#[test]
fn many_orphans_leave_no_zombie() {
    let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let ids: Vec<u32> =
            (0..50).map(|i| shell(&format!("exit {i}")).spawn().unwrap().id().unwrap()).collect();
        until(|| ids.iter().all(|id| is_reaped(*id))).await;
    });
}
