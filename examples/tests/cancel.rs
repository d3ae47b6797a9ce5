//! The `cancel` example ends, and says how.

mod common;

use std::process::Command;

#[test]
fn a_computation_is_unwound() {
    let output = Command::new(common::program("cancel")).output().expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    // Between two splits it may ask.
    let text = String::from_utf8(output.stdout).expect("the program prints text");
    let endings =
        ["by unwinding", "because it asked"].map(|how| format!("the computation has ended {how}\n"));
    assert!(endings.contains(&text), "{text:?}");
}
