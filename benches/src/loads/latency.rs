//! How long a runtime takes to run a task when all its threads sleep.

use std::sync::mpsc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::peer::Peer;

/// Long enough for every thread to fall asleep.
const UNTIL_ASLEEP: Duration = Duration::from_millis(2);

/// A thread that is no worker wakes a task of an idle runtime, and then sleeps itself, a number of times.
/// Returns the times from just before each wake to the task's next step, in nanoseconds.
pub fn remote_wake<P: Peer>(peer: &P, samples: usize) -> Vec<f64> {
    let (answer, answers) = mpsc::channel();
    (0..samples)
        .map(|_| {
            let answer = answer.clone();
            let wake = peer.block_on(async {
                let (wake, woken) = P::oneshot();
                P::spawn(async move {
                    woken.await.expect("the thread sends");
                    answer.send(Instant::now()).expect("the thread waits");
                });
                wake
            });
            sleep(UNTIL_ASLEEP);
            let start = Instant::now();
            P::send(wake);
            let woken_at = answers.recv().expect("the task answers");
            (woken_at - start).as_nanos() as f64
        })
        .collect()
}
