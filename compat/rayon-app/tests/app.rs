//! The program as its user starts it.

use std::process::Command;

#[test]
fn the_program_runs_on_our_workers_only() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_rayon-app")).env("RAYON_NUM_THREADS", "3").output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
    let places: Vec<_> = stdout.lines().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(
        places,
        ["in a task of a runtime", "outside of a runtime", "in a pool of its own", "no other threads"]
    );
}

/// Cargo takes the shim, and says so in the lock file by naming no source.
#[test]
fn no_rayon_core_comes_from_a_registry() {
    let lock = include_str!("../Cargo.lock");
    let entries: Vec<_> =
        lock.split("[[package]]").filter(|entry| entry.contains("name = \"rayon-core\"\n")).collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert!(!entries[0].contains("\nsource = "), "{}", entries[0]);
}
