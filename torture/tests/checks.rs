//! Each check can fail: programs that do something wrong are reported, with a status of 1.

use std::process::{Command, Output};

fn torture(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_torture")).args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs one program that does the wrong thing `sabotage`. Checks that it is reported, with the text `told`.
#[track_caller]
fn is_reported(sabotage: &str, told: &str) {
    let fixed =
        ["--seeds", "1", "--from", "2", "--only", "timers,panics", "--budget", "400", "--shrink", "0"];
    let output = torture(&[&fixed[..], &["--sabotage", sabotage]].concat());
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(told), "{told} is not in {text}");
    assert!(text.contains("seed 2 failed"), "{text}");
    assert!(text.contains("0 passed, 1 failed"), "{text}");
}

#[test]
fn a_token_that_is_never_dropped_is_reported() {
    is_reported("token", "no end in phase \"detached\"");
}

#[test]
fn a_token_that_is_dropped_twice_is_reported() {
    is_reported("twice", "something was dropped twice");
}

#[test]
fn a_part_with_a_wrong_value_is_reported() {
    is_reported("value", "came to");
}

#[test]
fn a_panic_that_is_not_the_parts_own_is_reported() {
    is_reported("panic", "ended in the panic of");
}

#[test]
fn a_part_that_runs_twice_is_reported() {
    is_reported("count", "was begun 2 times, not 1 to 1 times");
}

#[test]
fn a_panic_that_belongs_to_no_part_is_reported() {
    is_reported("stray", "unasked");
}

#[test]
fn a_program_that_sleeps_for_ever_is_reported_with_its_threads() {
    is_reported("sleep", "no end in phase \"run\"");
    is_reported("sleep", "wchan");
}

#[test]
fn a_program_that_spins_for_ever_is_reported() {
    is_reported("spin", "no end in phase \"run\"");
}

#[test]
fn a_process_that_ends_is_reported() {
    is_reported("crash", "the process ended in phase \"run\"");
}

#[test]
fn a_thread_that_stays_is_reported() {
    is_reported("thread", "no end in phase \"left: threads\"");
}

#[test]
fn a_descriptor_that_stays_open_is_reported() {
    is_reported("descriptor", "no end in phase \"left: descriptors\"");
}

#[test]
fn a_missed_wake_is_reported() {
    is_reported("wake", "missed 1 wakes");
}

#[test]
fn memory_that_stays_is_reported() {
    is_reported("memory", "memory is left behind each time");
}

#[test]
fn programs_that_do_nothing_wrong_pass() {
    let output = torture(&["--seeds", "20", "--from", "1", "--only", "timers,panics,compute", "--jobs", "2"]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("20 passed, 0 failed"), "{}", text(&output));
}

#[test]
fn a_program_is_shrunk_to_what_makes_it_fail() {
    let fixed = ["--seeds", "60", "--from", "0", "--only", "timers,compute,scopes", "--cpus", "1"];
    let output = torture(&[&fixed[..], &["--sabotage", "compute", "--shrink", "300"]].concat());
    let text = text(&output);
    let smallest = text.split_once("the smallest").unwrap_or_else(|| panic!("{text}")).1;
    assert!(smallest.contains("compute, Await"), "{smallest}");
    // Each operation is a line that begins with its number in brackets. Left are the root, the computation
    // and its body.
    let operations = smallest.lines().filter(|line| line.trim_start().starts_with('[')).count();
    assert!(operations <= 3, "{smallest}");
}

#[test]
fn a_command_line_that_is_wrong_says_so() {
    let output = torture(&["--without", "everything"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("\"everything\""), "{stderr}");
}
