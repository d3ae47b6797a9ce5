//! A child that another process traces. Its tracer is told of the exit first, and only then can the parent
//! reap it.
#![cfg(feature = "process")]

mod process_support;

use std::process::Stdio;
use std::task::Poll;

use process_support::{block_on, send, state, until};
use runtime::io::{AsyncBufReadExt, BufReader};
use runtime::process::Command;

/// Holds the number of the process to trace, in the process that does.
const TRACEE: &str = "RUNTIME_TEST_TRACEE";

/// Run as the tracer: attaches, says so, and lets go when its input ends.
#[test]
fn tracer() {
    let Ok(id) = std::env::var(TRACEE) else { return };
    let id: libc::pid_t = id.parse().unwrap();
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: attaches to a process, and accesses no memory.
    let result = unsafe { libc::ptrace(libc::PTRACE_SEIZE, id, none, none) };
    println!("\n{}", if result == 0 { "attached" } else { "refused" });
    std::io::stdin().lines().for_each(drop);
    // The end of this process detaches.
}

#[test]
fn a_child_whose_tracer_keeps_its_exit_is_waited_for() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "tracer", "--nocapture"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    block_on(async {
        let mut sleep = Command::new("sleep");
        // SAFETY: (1) `prctl` is a plain system call: it takes no lock and allocates nothing. (2) It touches
        // no descriptor, and is given no pointer.
        unsafe {
            sleep.pre_exec(|| {
                libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY);
                Ok(())
            })
        };
        let mut child = sleep.arg("1000").kill_on_drop(true).spawn().unwrap();
        let id = child.id().unwrap();
        let mut tracer = command.env(TRACEE, id.to_string()).spawn().unwrap();
        let mut lines = BufReader::new(tracer.stdout.take().unwrap()).lines();
        loop {
            match lines.next_line().await.unwrap().as_deref() {
                Some("attached") => break,
                Some("refused") => {
                    eprintln!("skipped: this machine allows no tracing");
                    return;
                }
                Some(_) => {}
                None => panic!("the tracer ended"),
            }
        }

        send(id, libc::SIGKILL);
        until(|| state(id) == Some('Z')).await;
        let mut wait = std::pin::pin!(child.wait());
        // Some polls: the descriptor is readable, and the system says that the child runs.
        for _ in 0..10 {
            let is_pending =
                std::future::poll_fn(|cx| Poll::Ready(wait.as_mut().poll(cx).is_pending())).await;
            assert!(is_pending, "the tracer has not seen the exit");
            runtime::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        drop(tracer.stdin.take());
        assert!(!wait.await.unwrap().success());
        assert!(tracer.wait().await.unwrap().success());
    });
}
