//! A worker that would be woken for nothing again and again samples instead, and nothing is lost.

mod support;

use runtime::runtime::Builder;
use support::joined_scope;

#[test]
fn nothing_is_lost_when_bursts_of_tiny_tasks_come_from_everywhere() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    joined_scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..500 {
                    runtime.block_on(async {
                        let inner = runtime::spawn(async { runtime::spawn(async { 1 }).await.unwrap() });
                        let outer: Vec<_> = (0..20).map(|_| runtime::spawn(async { 1 })).collect();
                        let mut sum = inner.await.unwrap();
                        for task in outer {
                            sum += task.await.unwrap();
                        }
                        assert_eq!(sum, 21);
                    });
                }
            });
        }
    });
}
