use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::{MarkTable, Marked, MarkedAs, Report, ThreadToken};
use crate::config::{Blocked, Deadlock};

fn marked(marked_as: MarkedAs, thread: ThreadToken, is_announced: bool) -> Marked {
    let blocked =
        Blocked { thread_name: None, worker: None, location: Location::caller(), since: Instant::now() };
    Marked { number: 0, marked_as, thread, is_announced, is_compensated: false, blocked }
}

#[test]
fn a_thread_counts_once_however_often_it_is_marked_and_only_if_it_has_exposed_its_queues() {
    let mut table = MarkTable::default();
    table.marks.push(marked(MarkedAs::Worker(2), 20, false));
    table.marks.push(marked(MarkedAs::Closure, 7, true));
    table.marks.push(marked(MarkedAs::Closure, 9, true));
    table.marks.push(marked(MarkedAs::Closure, 7, true));
    table.marks.push(marked(MarkedAs::Closure, 8, false));
    table.marks.push(marked(MarkedAs::BlockOn, 5, true));
    let counts = [MarkedAs::Closure, MarkedAs::BlockOn, MarkedAs::Worker(2)];
    assert_eq!(counts.map(|marked_as| table.marked_threads(marked_as)), [2, 1, 0]);
    assert!(!table.is_worker_marked(2));
    table.marks.push(marked(MarkedAs::Worker(2), 20, true));
    assert!(table.is_worker_marked(2) && !table.is_worker_marked(1));
}

#[test]
fn a_handler_that_panics_does_no_harm() {
    let calls = Arc::new(AtomicUsize::new(0));
    let report = || {
        let calls = calls.clone();
        let handler = Arc::new(move |deadlock: &Deadlock| {
            calls.fetch_add(1, Relaxed);
            assert!(deadlock.blocked().is_empty(), "none was blocked");
            std::panic::resume_unwind(Box::new("of the test"));
        });
        Report { handler, deadlock: Deadlock { blocked: Vec::new() } }
    };
    report().deliver();
    report().deliver();
    assert_eq!(calls.load(Relaxed), 2);
}
