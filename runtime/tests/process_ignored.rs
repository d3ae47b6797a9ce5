//! Children of a program that ignores `SIGCHLD`: the system reaps them itself and forgets their status. That
//! is so for all of a process, so this test has one for itself.
#![cfg(feature = "process")]

mod process_support;

use std::process::Stdio;

use process_support::{block_on, is_reaped, shell, until};
use runtime::process::{Child, Command};

/// Checks that a child whose number may belong to another process has none, and is not killed.
async fn check_gone(child: &mut Child) {
    for _ in 0..2 {
        assert_eq!(child.wait().await.unwrap_err().raw_os_error(), Some(libc::ECHILD));
        assert_eq!(child.try_wait().unwrap_err().raw_os_error(), Some(libc::ECHILD));
        assert_eq!(child.id(), None);
        child.start_kill().unwrap();
    }
}

#[test]
fn a_status_that_the_system_throws_away_is_an_error() {
    // SAFETY: sets no handler.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    block_on(async {
        // It ends while the task waits.
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let wait = runtime::spawn(async move { child.wait().await });
        runtime::task::yield_now().await;
        drop(stdin);
        assert_eq!(wait.await.unwrap().unwrap_err().raw_os_error(), Some(libc::ECHILD));

        // It has ended before it can be watched.
        let start = |std: &mut std::process::Command| {
            let child = std.spawn()?;
            process_support::until_blocking(|| is_reaped(child.id()));
            Ok(child)
        };
        let mut child = shell("exit 0").spawn_with(start).unwrap();
        check_gone(&mut child).await;

        // It was killed, and has gone before the program asks for its status. Its number is free.
        let mut child = Command::new("sleep").arg("1000").kill_on_drop(true).spawn().unwrap();
        let id = child.id().unwrap();
        for _ in 0..2 {
            child.start_kill().unwrap();
            until(|| is_reaped(id)).await;
        }
        assert_eq!(child.kill().await.unwrap_err().raw_os_error(), Some(libc::ECHILD));
        check_gone(&mut child).await;

        // It is dropped.
        let child = Command::new("sleep").arg("1000").kill_on_drop(true).spawn().unwrap();
        let id = child.id().unwrap();
        drop(child);
        until(|| is_reaped(id)).await;
    });
}
