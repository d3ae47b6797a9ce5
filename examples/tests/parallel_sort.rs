//! The `parallel_sort` example sorts, and says how long it took.

mod common;

use std::process::{Command, Output};

fn sort(arguments: &[&str]) -> Output {
    Command::new(common::program("parallel_sort")).args(arguments).output().expect("the program starts")
}

#[test]
fn numbers_of_any_count_are_sorted_and_three_times_printed() {
    // The program compares its results itself.
    for length in ["0", "1", "3", "33", "2001", "300000"] {
        let output = sort(&[length]);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("the program prints text");
        assert!(text.starts_with(&format!("{length} numbers\n")), "{text:?}");
        assert_eq!(text.matches(" ms").count(), 3, "{text:?}");
    }
}

#[test]
fn a_bad_length_is_told_in_one_line() {
    for length in ["x", "-1", "100000001"] {
        let output = sort(&[length]);
        assert_eq!(output.status.code(), Some(2));
        let text = String::from_utf8(output.stderr).expect("the program prints text");
        assert_eq!(text.lines().count(), 1, "{text:?}");
        assert!(text.contains(&format!("got {length:?}")), "{text:?}");
    }
}
