//! Bursts of tiny tasks from several threads, under which an idle worker samples (looks for work from time to
//! time) instead of being woken for each. No task is lost.

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
