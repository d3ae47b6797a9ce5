//! The `channels` example runs to its end.

mod common;

use std::process::Command;

#[test]
fn each_channel_says_what_it_is_for() {
    let output = Command::new(common::program("channels")).output().expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("the program prints text");
    let expected = r#"mpsc: the sum is 330
oneshot: the total is 42
broadcast: ["to all three", "to all three", "to all three"]
broadcast: a slow receiver is told Err(Lagged(12))
broadcast: then it gets Ok(12)
watch: the level is 5
"#;
    assert_eq!(text, expected);
}
