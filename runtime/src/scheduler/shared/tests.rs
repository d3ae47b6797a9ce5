use std::time::{Duration, Instant};

use crate::{Builder, Runtime};

/// Waits until `runtime` counts `sleeping` sleepers and no searcher.
#[track_caller]
fn assert_rests(runtime: &Runtime, sleeping: usize) {
    let begin = Instant::now();
    // How often in a row the counts were so. A worker that loses its CPU before it searches is in none of
    // them, and may come later. A sleeping worker that is counted twice is so for good.
    let mut times = 0;
    while times < 3 {
        let counts = runtime.handle().shared().idle.counts();
        times = if counts == (0, sleeping) { times + 1 } else { 0 };
        assert!(begin.elapsed() < Duration::from_secs(20), "searching and sleeping: {counts:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_counts_of_searching_and_sleeping_workers_are_exact_at_rest() {
    // A spare worker, which may come on a busy machine, would be counted, too.
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(4).spare_workers(0).enable_all().build().unwrap();
    for round in 0..200_u64 {
        let tasks: Vec<_> = (0..round % 17)
            .map(|i| {
                runtime.spawn(async move {
                    if i % 5 == 0 {
                        crate::time::sleep(Duration::from_micros(10 * i)).await;
                    }
                    crate::task::yield_now().await;
                })
            })
            .collect();
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
        if round % 10 == 0 {
            assert_rests(&runtime, 4);
        }
    }
    assert_rests(&runtime, 4);
}

#[test]
fn the_counts_are_exact_after_workers_were_blocked() {
    let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
    for _ in 0..20 {
        let tasks: Vec<_> = (0..6)
            .map(|_| {
                runtime.spawn(async {
                    crate::task::block_in_place(|| std::thread::sleep(Duration::from_micros(100)));
                })
            })
            .collect();
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
    }
    assert_rests(&runtime, 2);
}

#[test]
fn a_current_thread_runtime_counts_nobody_outside_of_block_on() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    for _ in 0..10 {
        runtime.block_on(async {
            crate::spawn(async { crate::time::sleep(Duration::from_millis(1)).await }).await.unwrap();
        });
        assert_eq!(runtime.handle().shared().idle.counts(), (0, 0));
    }
}
