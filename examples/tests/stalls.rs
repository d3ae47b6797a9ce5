//! The `stalls` example runs to its end.

mod common;

use std::process::Command;

#[test]
fn a_blocking_task_is_reported_unless_it_says_so() {
    let output = Command::new(common::program("stalls")).output().expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("the program prints text");
    assert!(text.contains("is stuck in task"), "{text:?}");
    assert!(text.contains("spawned at examples/examples/stalls.rs:"), "{text:?}");
    for marked in ["block_in_place: ticks", "spawn_blocking: ticks"] {
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with(marked)).collect();
        assert!(matches!(lines[..], [line] if line.ends_with("late; 0 reports")), "{text:?}");
    }
    assert!(!text.contains("\nstalls: 0\n"), "{text:?}");
}
