//! The `embed` example runs to its end.

mod common;

use std::process::Command;

#[test]
fn every_number_is_squared_and_added() {
    let output = Command::new(common::program("embed")).output().expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("the program prints text");
    for line in ["1 squared is 1", "2 squared is 4", "3 squared is 9", "4 squared is 16"] {
        assert!(text.contains(line), "{line:?} is not in {text:?}");
    }
    assert!(text.ends_with("the service counted up to 10\n"), "{text:?}");
}
