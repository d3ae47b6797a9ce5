//! Pipes to child processes and from them.
#![cfg(feature = "process")]

mod process_support;

use std::io::ErrorKind;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use process_support::{block_on, shell, state, until};
use runtime::io::{AsyncReadExt, AsyncWriteExt};
use runtime::process::{ChildStderr, ChildStdin, ChildStdout, Command};

/// Many times what a pipe holds.
const MUCH: usize = 1 << 20;

#[test]
fn what_fills_both_pipes_comes_back() {
    block_on(async {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let sent: Vec<u8> = (0..MUCH).map(|i| (i / 7) as u8).collect();
        let bytes = sent.clone();
        let writer = runtime::spawn(async move { stdin.write_all(&bytes).await });
        let mut received = Vec::new();
        stdout.read_to_end(&mut received).await.unwrap();
        writer.await.unwrap().unwrap();
        assert!(sent == received, "every byte, in order");
        assert!(child.wait().await.unwrap().success());
    });
}

#[test]
fn a_write_waits_while_the_pipe_is_full() {
    block_on(async {
        let (mut gate, other) = UnixStream::pair().unwrap();
        let mut child = shell("read line <&2; wc -c")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(OwnedFd::from(other))
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let much = vec![b'x'; MUCH];
        let limit = Duration::from_millis(50);
        assert!(runtime::time::timeout(limit, stdin.write_all(&much)).await.is_err(), "nothing reads");
        std::io::Write::write_all(&mut gate, b"go on\n").unwrap();
        stdin.write_all(&much).await.unwrap();
        drop(stdin);
        let output = child.wait_with_output().await.unwrap();
        let count: usize = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
        assert!(count > MUCH, "what was written before the time was up counts, too");
    });
}

#[test]
fn both_outputs_are_collected_at_once() {
    block_on(async {
        let output =
            shell("head -c 1048576 /dev/zero; head -c 1048576 /dev/zero >&2; head -c 1048576 /dev/zero")
                .stdin(Stdio::null())
                .output()
                .await
                .unwrap();
        assert!(output.status.success());
        assert_eq!((output.stdout.len(), output.stderr.len()), (2 * MUCH, MUCH));
    });
}

#[test]
fn only_what_is_piped_is_collected() {
    block_on(async {
        let child =
            shell("echo out; echo err >&2").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let output = child.wait_with_output().await.unwrap();
        assert_eq!((output.stdout, output.stderr), (Vec::new(), b"err\n".to_vec()));
    });
}

#[test]
fn a_wait_closes_the_input() {
    block_on(async {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(child.wait().await.unwrap().success());
        assert!(child.stdin.is_none());
        let status = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).status();
        assert!(status.await.unwrap().success());
        let output = Command::new("cat").stdin(Stdio::piped()).output().await.unwrap();
        assert!(output.status.success());
    });
}

#[test]
fn a_write_to_a_child_that_ended_fails() {
    block_on(async {
        let mut child = shell("exit 0").stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        child.wait().await.unwrap();
        // A child that another test is starting has a copy of the reading end until its program begins.
        let error = loop {
            match stdin.write(b"hello").await {
                Ok(_) => runtime::time::sleep(Duration::from_millis(1)).await,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        stdin.shutdown().await.unwrap();
    });
}

#[test]
fn a_write_that_waits_fails_when_the_child_is_killed() {
    block_on(async {
        let mut child = Command::new("sleep").arg("1000").stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let writer = runtime::spawn(async move { stdin.write_all(&vec![0; MUCH]).await });
        runtime::task::yield_now().await;
        child.kill().await.unwrap();
        assert_eq!(writer.await.unwrap().unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn a_grandchild_that_keeps_the_output_open_does_not_hold_up_the_wait() {
    block_on(async {
        let mut child = shell("exec 3<&0; cat <&3 & exit 3")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        assert_eq!(child.wait().await.unwrap().code(), Some(3));
        stdin.write_all(b"to the grandchild").await.unwrap();
        drop(stdin);
        let mut text = String::new();
        stdout.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "to the grandchild");
    });
}

#[test]
fn a_pipe_is_handed_to_another_child_in_blocking_mode() {
    block_on(async {
        let mut first = shell("echo hello").stdout(Stdio::piped()).spawn().unwrap();
        let mut second = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let into: Stdio = second.stdin.take().unwrap().try_into().unwrap();
        let from = Stdio::try_from(first.stdout.take().unwrap()).unwrap();
        let status = Command::new("cat").stdin(from).stdout(into).status().await.unwrap();
        assert!(status.success());
        let output = second.wait_with_output().await.unwrap();
        assert_eq!(output.stdout, b"hello\n");
        first.wait().await.unwrap();
    });
}

#[test]
fn a_pipe_goes_to_the_standard_library_and_back() {
    fn is_blocking(fd: &impl AsRawFd) -> bool {
        // SAFETY: asks about an open descriptor.
        let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
        assert!(flags >= 0);
        flags & libc::O_NONBLOCK == 0
    }

    block_on(async {
        let mut std = std::process::Command::new("sh");
        std.args(["-c", "cat; echo err >&2"]);
        let mut child =
            std.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let id = child.id();
        let mut stdin = ChildStdin::from_std(child.stdin.take().unwrap()).unwrap();
        let mut stdout = ChildStdout::from_std(child.stdout.take().unwrap()).unwrap();
        let mut stderr = ChildStderr::from_std(child.stderr.take().unwrap()).unwrap();
        assert!(!is_blocking(&stdin) && !is_blocking(&stdout) && !is_blocking(&stderr));
        stdin.write_all(b"out").await.unwrap();
        let stdin = stdin.into_owned_fd().unwrap();
        assert!(is_blocking(&stdin));
        drop(stdin);
        let mut text = String::new();
        stdout.read_to_string(&mut text).await.unwrap();
        stderr.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "outerr\n");
        until(|| state(id) == Some('Z')).await;
        child.wait().unwrap();
    });
}
