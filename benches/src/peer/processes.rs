//! Child processes of this project and of Tokio, under the same names.

use super::{Ours, Peer, Tokio};

/// A runtime with Tokio's `process`.
pub trait Processes: Peer {
    /// Starts a program that does nothing, and waits for its exit.
    fn run_child() -> impl Future<Output = ()> + Send;

    /// Starts a program that sleeps, reads what it writes, and waits for its exit.
    fn run_sleeper(seconds: f64) -> impl Future<Output = ()> + Send;
}

macro_rules! processes {
    ($peer:ident, $rt:ident) => {
        impl Processes for $peer {
            async fn run_child() {
                let status = ::$rt::process::Command::new("true").status().await;
                assert!(status.expect("the program is there").success());
            }

            async fn run_sleeper(seconds: f64) {
                let mut command = ::$rt::process::Command::new("sh");
                let output = command.arg("-c").arg(format!("echo asleep; sleep {seconds}")).output().await;
                assert_eq!(output.expect("the program is there").stdout, b"asleep\n");
            }
        }
    };
}

processes!(Ours, runtime);
processes!(Tokio, tokio);
