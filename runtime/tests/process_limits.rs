//! Children of a process that may have few descriptors. The limit is the whole process's, so this test has a
//! process for itself.
#![cfg(feature = "process")]

mod process_support;

use std::fs::File;
use std::process::Stdio;

use process_support::{block_on, is_reaped, state, until, until_blocking};
use runtime::process::Command;

#[test]
fn few_descriptors() {
    let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
    // SAFETY: reads `limit`.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    a_child_without_a_descriptor_to_watch_it_is_an_error_and_killed();
    orphans_of_an_idle_runtime_keep_no_descriptor();
}

/// The spawn returns the error.
fn a_child_without_a_descriptor_to_watch_it_is_an_error_and_killed() {
    block_on(async {
        let null = File::open("/dev/null").unwrap();
        let mut files = Vec::new();
        while let Ok(file) = null.try_clone() {
            files.push(file);
        }
        let mut id = 0;
        let mut keep = |child: &std::process::Child| id = child.id();
        let result = Command::new("sleep").arg("1000").spawn_with(|std| std.spawn().inspect(&mut keep));
        drop(files);
        let error = result.unwrap_err();
        assert!(error.to_string().contains("os error 24"), "{error}");
        assert_ne!(id, 0, "the child was started");
        until_blocking(|| matches!(state(id), None | Some('Z')));

        // The next one does as ever, and its start reaps the first.
        assert!(Command::new("true").status().await.unwrap().success());
        until(|| is_reaped(id)).await;
    });
}

/// The tasks that wait for them do not run: each call of `block_on` ends before. The next start of a child
/// reaps, and closes.
fn orphans_of_an_idle_runtime_keep_no_descriptor() {
    let idle = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for _ in 0..100 {
        let id = idle.block_on(async {
            let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
            let stdin = child.stdin.take();
            let id = child.id().unwrap();
            drop((child, stdin));
            id
        });
        until_blocking(|| matches!(state(id), None | Some('Z')));
    }
    idle.block_on(async { until(|| idle.metrics().num_alive_tasks() == 0).await });
}
