//! Task-locals follow their future, whichever thread polls it, and are there in its destructor.

mod support;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use support::{each_kind, panic_of, watchdog};

runtime::task_local! {
    static NUMBER: u32;
    /// Other attributes and visibilities are taken as well.
    pub static CELL: Cell<u32>;
}

#[test]
fn a_value_follows_its_future_over_yields_and_threads() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let tasks: Vec<_> = (0..50)
            .map(|i| {
                runtime.spawn(NUMBER.scope(i, async move {
                    for _ in 0..20 {
                        assert_eq!(NUMBER.get(), i);
                        runtime::task::yield_now().await;
                    }
                    assert!(
                        runtime::spawn(async { NUMBER.try_get().is_err() }).await.unwrap(),
                        "not inherited"
                    );
                    NUMBER.scope(i + 100, async { NUMBER.get() }).await + NUMBER.get()
                }))
            })
            .collect();
        for (i, task) in tasks.into_iter().enumerate() {
            assert_eq!(runtime.block_on(task).unwrap(), 2 * i as u32 + 100);
        }
        assert!(NUMBER.try_get().is_err());
    });
}

struct SeesNumber(Arc<AtomicU32>);

impl Drop for SeesNumber {
    fn drop(&mut self) {
        self.0.store(NUMBER.try_get().unwrap_or(u32::MAX), SeqCst);
    }
}

#[test]
fn a_value_is_there_when_its_future_is_dropped() {
    let _watchdog = watchdog();
    each_kind(|runtime| {
        let seen = Arc::new(AtomicU32::new(0));
        let sees = SeesNumber(seen.clone());
        let task = runtime.spawn(NUMBER.scope(5, async move {
            let _sees = sees;
            std::future::pending::<()>().await;
        }));
        task.abort();
        assert!(runtime.block_on(task).unwrap_err().is_cancelled());
        assert_eq!(seen.load(SeqCst), 5);
    });
}

#[test]
fn a_panic_inside_of_a_scope_leaves_no_value_behind() {
    panic_of(|| NUMBER.sync_scope(1, || std::panic::resume_unwind(Box::new(()))));
    assert!(NUMBER.try_get().is_err());
    let text = panic_of(|| NUMBER.with(|number| *number));
    assert!(text.contains("LocalKey::scope"), "{text}");
    NUMBER.sync_scope(1, || {
        NUMBER.sync_scope(2, || assert_eq!(NUMBER.get(), 2));
        assert_eq!(NUMBER.get(), 1);
        NUMBER.with(|outer| NUMBER.sync_scope(2, || assert_eq!((*outer, NUMBER.get()), (1, 2))));
        assert_eq!(NUMBER.get(), 1);
    });
    CELL.sync_scope(Cell::new(1), || {
        CELL.with(|cell| cell.set(2));
        assert_eq!(CELL.with(Cell::get), 2);
    });
}
