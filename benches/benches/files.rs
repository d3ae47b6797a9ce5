//! Files in memory, beside Tokio and beside std on a plain thread. See [`benches::loads::files`].
//!
//! `cargo bench -p benches --bench files -- std` prints only the table beside std.

use std::time::{Duration, Instant};

use benches::arguments::{asked_for, is_test};
use benches::duel::duel;
use benches::loads::files::{self, TemporaryFile, WHOLE};
use benches::peer::{Files, Ours, Peer, Tokio};
use benches::table::{median, minimum};
use criterion::{Criterion, criterion_group, criterion_main};

fn bench(criterion: &mut Criterion) {
    let loads = files::all().into_iter().zip(files::all());
    for ((name, operations, ours), (.., tokio)) in loads {
        duel(criterion, name, operations, ours, tokio);
    }
    if asked_for("std") {
        compare_with_std();
    }
}

/// Rounds, each with a turn of every side.
const ROUNDS: usize = 200;

/// Reads in a turn.
const READS: usize = 100;

/// What `fs::read` of a file of 64 KiB costs, in a task and on a plain thread.
fn compare_with_std() {
    let file = std::sync::Arc::new(TemporaryFile::new("std", &[b'x'; WHOLE]));
    let (ours, tokio) = (Ours::start(benches::workers()), Tokio::start(benches::workers()));
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..if is_test() { 1 } else { ROUNDS } {
        times[0].push(std::thread::scope(|scope| scope.spawn(|| std_reads(&file)).join()).expect("it reads"));
        times[1].push(reads(&ours, file.clone()));
        times[2].push(reads(&tokio, file.clone()));
    }
    println!("| a file of 64 KiB in memory, read whole | minimum µs | median µs |\n|---|---|---|");
    for (name, times) in ["`std::fs::read`, a plain thread", Ours::NAME, Tokio::NAME].iter().zip(&mut times) {
        println!("| {name} | {:.2} | {:.2} |", minimum(times), median(times));
    }
}

fn std_reads(file: &TemporaryFile) -> f64 {
    let start = Instant::now();
    for _ in 0..READS {
        assert_eq!(std::fs::read(&file.0).expect("the file can be read").len(), WHOLE);
    }
    each(start.elapsed())
}

fn reads<P: Files>(peer: &P, file: std::sync::Arc<TemporaryFile>) -> f64 {
    let (sender, receiver) = std::sync::mpsc::channel();
    peer.block_on(async {
        P::spawn_and_wait(async move {
            let start = Instant::now();
            P::read_whole(&file.0, READS).await;
            sender.send(each(start.elapsed())).expect("the receiver is here");
        })
        .await;
    });
    receiver.recv().expect("it was sent")
}

/// Microseconds of one read.
fn each(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6 / READS as f64
}

criterion_group!(benches, bench);
criterion_main!(benches);
