//! A computation that would go on for ever, and ends because its handle is dropped.
//!
//! ```text
//! cargo run --release --example cancel
//! ```
//!
//! It ends at a split, by unwinding, or because it asks; in a program that is built with `panic = "abort"`,
//! only because it asks. The program prints in which of the two ways.

use std::sync::mpsc::{self, Sender};

use runtime::{Runtime, parallel};

/// Says how the computation has ended, when it is dropped.
struct Ending(Sender<&'static str>, &'static str);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.send(self.1).expect("the program waits for it");
    }
}

/// Splits itself into 2^`depth` parts.
fn split(depth: u32) {
    if depth > 0 {
        parallel::join(|| split(depth - 1), || split(depth - 1));
    }
}

fn main() -> std::io::Result<()> {
    let runtime = Runtime::new()?;
    let (end, ended) = mpsc::channel();
    let (begin, begun) = mpsc::channel::<()>();
    let computation = runtime.compute(move || {
        let mut ending = Ending(end, "by unwinding");
        let mut begin = Some(begin);
        while !parallel::is_cancelled() {
            split(10);
            // The first time: the program goes on.
            drop(begin.take());
        }
        ending.1 = "because it asked";
    });
    // Nothing is sent: this is the end of the channel.
    _ = begun.recv();
    drop(computation);
    println!("the computation has ended {}", ended.recv().expect("it says how it ends"));
    Ok(())
}
