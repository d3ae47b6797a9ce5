//! The `select` example runs to its end.

mod common;

use std::process::Command;

#[test]
fn the_first_wins_and_no_item_of_a_batch_is_lost() {
    let output = Command::new(common::program("select")).output().expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("the program prints text");
    for line in [
        "select: the hare is first\n",
        "timeout: deadline has elapsed\n",
        "interval: a late tick of ",
        // At the end, or by time on a busy machine.
        "batch: [7] ",
    ] {
        assert!(text.contains(line), "{line:?} is not in {text:?}");
    }
    // On a busy machine a batch may be sent before it is full.
    let items: String = text
        .lines()
        .filter_map(|line| line.strip_prefix("batch: ["))
        .filter_map(|batch| batch.split_once(']'))
        .flat_map(|(items, _)| items.chars().filter(char::is_ascii_digit))
        .collect();
    assert_eq!(items, "1234567", "{text:?}");
}
