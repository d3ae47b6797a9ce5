//! A thousand children live at once. Each takes descriptors, so this test raises the process's limit, and has
//! a process for itself.
#![cfg(feature = "process")]

mod process_support;

use std::process::Stdio;

use process_support::{block_on, shell, state};

const CHILDREN: usize = 1000;

#[test]
fn a_thousand_children_at_once_are_told_apart() {
    raise_limit(4 * CHILDREN as u64);
    block_on(async {
        let start = |nth: usize| {
            let mut command = shell(&format!("read line; exit {}", nth % 256));
            command.stdin(Stdio::piped()).kill_on_drop(true).spawn().unwrap()
        };
        let children: Vec<_> = (0..CHILDREN).map(start).collect();
        let is_alive = |id: u32| !matches!(state(id), None | Some('Z'));
        assert!(children.iter().all(|child| is_alive(child.id().unwrap())), "each waits for its line");

        // `wait` closes the child's input.
        let wait = |mut child: runtime::process::Child| async move { child.wait().await.unwrap().code() };
        let waits: Vec<_> = children.into_iter().map(|child| runtime::spawn(wait(child))).collect();
        for (nth, wait) in waits.into_iter().enumerate() {
            assert_eq!(wait.await.unwrap(), Some(nth as i32 % 256));
        }
    });
}

/// Raises the soft limit of descriptors to `least`.
fn raise_limit(least: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `getrlimit` writes, and `setrlimit` reads, one `rlimit`.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        limit.rlim_cur = limit.rlim_cur.max(least);
        assert_eq!(
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit),
            0,
            "{least} descriptors: {limit:?}"
        );
    }
}
