//! The `worker_pool` example runs to its end.

mod common;

use std::process::Command;

#[test]
fn every_job_is_done_and_no_more_than_four_run_at_once() {
    let output = Command::new(common::program("worker_pool")).output().expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("the program prints text");
    assert!(text.starts_with("20 jobs done, 0 failed, the sum is 2870\n"), "{text:?}");
    let most = text.lines().last().and_then(|line| line.split(' ').nth(2)?.parse::<usize>().ok());
    assert!(most.is_some_and(|most| (1..=4).contains(&most)), "{text:?}");
}
