//! What the tests of child processes share.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use runtime::process::Command;

/// After so long a test has failed.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs `future` on a runtime with one thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(async { runtime::time::timeout(LIMIT, future).await.expect("the test ends") })
}

/// A shell that runs `script`.
pub fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// Waits until `is_so`, while the runtime goes on.
pub async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        runtime::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The same on a thread without a runtime.
pub fn until_blocking(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LIMIT, "the condition holds in the end");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The state of process `id`: `R`, `S`, `Z` and so on; `None` if there is none.
pub fn state(id: u32) -> Option<char> {
    let stat = std::fs::read_to_string(PathBuf::from(format!("/proc/{id}/stat"))).ok()?;
    // Behind the name, which stands in parentheses and may have any character.
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Whether process `id` has ended and was reaped.
pub fn is_reaped(id: u32) -> bool {
    state(id).is_none()
}

pub fn send(id: u32, signal: libc::c_int) {
    // SAFETY: a call of the system without pointers.
    assert_eq!(unsafe { libc::kill(id as libc::pid_t, signal) }, 0);
}
