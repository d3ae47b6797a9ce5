//! Children where `pidfd_open` does not exist or is forbidden: a filter of the system's says so to the thread
//! of the test and to those that it starts.
#![cfg(feature = "process")]

mod process_support;
mod support;

use std::process::Stdio;
use std::time::{Duration, Instant};

use process_support::{block_on, is_reaped, shell, until};
use runtime::process::Command;
use support::refuse;

/// Makes `pidfd_open` fail with `errno` on this thread from now on.
fn forbid_pidfds(errno: libc::c_int) {
    refuse(libc::SYS_pidfd_open, errno);
    // SAFETY: a call of the system without pointers.
    assert_eq!(unsafe { libc::syscall(libc::SYS_pidfd_open, std::process::id(), 0) }, -1);
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(errno));
}

#[test]
fn children_are_waited_for_by_a_signal() {
    forbid_pidfds(libc::ENOSYS);
    block_on(async {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let wait = runtime::spawn(async move { child.wait().await });
        runtime::task::yield_now().await;
        drop(stdin);
        assert!(wait.await.unwrap().unwrap().success());
        let output = shell("echo out; exit 3").output().await.unwrap();
        assert_eq!((output.status.code(), output.stdout), (Some(3), b"out\n".to_vec()));
    });
}

// A thread blocks all signals while it starts a child. An exit at that moment signals another thread, such as
// the harness's, which sleeps in a futex. ThreadSanitizer keeps a signal back until its thread makes a call
// that the sanitizer intercepts, and the harness makes none before the test ends.
#[cfg_attr(tsan, ignore = "ThreadSanitizer keeps the signal back")]
#[test]
fn many_children_share_their_signals() {
    forbid_pidfds(libc::EPERM);
    let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let waits: Vec<_> = (0..50)
            .map(|code| {
                runtime::spawn(async move {
                    let mut child = shell(&format!("exit {code}")).spawn().unwrap();
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
fn an_orphan_is_reaped_by_a_signal() {
    forbid_pidfds(libc::EPERM);
    block_on(async {
        let child = Command::new("sleep").arg("1000").kill_on_drop(true).spawn().unwrap();
        let id = child.id().unwrap();
        drop(child);
        until(|| is_reaped(id)).await;
    });
}

#[test]
fn a_child_that_other_code_has_reaped_is_not_killed() {
    forbid_pidfds(libc::ENOSYS);
    block_on(async {
        let mut child = shell("exit 0").kill_on_drop(true).spawn().unwrap();
        let id = child.id().unwrap();
        // SAFETY: the system writes no status, because there is no room for it.
        assert_eq!(unsafe { libc::waitpid(id as libc::pid_t, std::ptr::null_mut(), 0) }, id as libc::pid_t);
        child.start_kill().unwrap();
        assert_eq!(child.wait().await.unwrap_err().raw_os_error(), Some(libc::ECHILD));
        assert_eq!(child.id(), None);
        child.start_kill().unwrap();
    });
}

#[test]
fn a_wait_goes_on_in_another_runtime_while_the_first_is_idle() {
    forbid_pidfds(libc::ENOSYS);
    let idle = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut child = idle.block_on(async { Command::new("sleep").arg("0.1").spawn().unwrap() });
    let start = Instant::now();
    block_on(async { assert!(child.wait().await.unwrap().success()) });
    assert!(start.elapsed() < Duration::from_secs(30), "the signal ends the wait, and not its time limit");
}

#[test]
fn a_wait_goes_on_in_another_runtime() {
    forbid_pidfds(libc::ENOSYS);
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut child = runtime.block_on(async { Command::new("cat").stdin(Stdio::piped()).spawn().unwrap() });
    let stdin = child.stdin.take();
    drop(runtime);
    block_on(async {
        let wait = runtime::spawn(async move { child.wait().await });
        runtime::task::yield_now().await;
        drop(stdin);
        assert!(wait.await.unwrap().unwrap().success());
    });
}
