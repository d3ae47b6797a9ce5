use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::{MarkTable, Marked, MarkedAs, Report, ThreadToken};
use crate::config::{Blocked, Deadlock};

/// A mark of a thread that runs a closure if its token is below 10.
fn marked(marked_as: MarkedAs, thread: ThreadToken, is_announced: bool) -> Marked {
    let blocked =
        Blocked { thread_name: None, worker: None, location: Location::caller(), since: Instant::now() };
    let is_in_closure = thread < 10;
    Marked { number: 0, marked_as, thread, is_in_closure, is_announced, is_compensated: false, blocked }
}

#[test]
fn a_thread_counts_once_however_often_it_is_marked_and_only_if_it_has_exposed_its_queues() {
    let mut table = MarkTable::default();
    table.marks.push(marked(MarkedAs::Worker(2), 20, false));
    table.marks.push(marked(MarkedAs::Closure, 7, true));
    table.marks.push(marked(MarkedAs::Closure, 9, true));
    table.marks.push(marked(MarkedAs::Closure, 7, true));
    table.marks.push(marked(MarkedAs::Closure, 8, false));
    assert_eq!(table.marked_closures(), 2);
    table.marks.push(marked(MarkedAs::BlockOn, 15, true));
    assert_eq!(table.marked_closures(), 2);
    // A closure that is in a `block_on`, also as the worker of a `current_thread` runtime.
    table.marks.push(marked(MarkedAs::BlockOn, 5, true));
    table.marks.push(marked(MarkedAs::Worker(0), 6, true));
    assert_eq!(table.marked_closures(), 4);
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
