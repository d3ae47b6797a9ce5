//! No descriptor is left to watch a child that was started: the spawn returns the error, and the child is
//! killed. The limit is the whole process's, so this test has a process for itself.
#![cfg(feature = "process")]

mod process_support;

use std::fs::File;

use process_support::{block_on, is_reaped, state, until, until_blocking};
use runtime::process::Command;

#[test]
fn a_child_without_a_descriptor_to_watch_it_is_an_error_and_killed() {
    let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
    // SAFETY: reads `limit`.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
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
