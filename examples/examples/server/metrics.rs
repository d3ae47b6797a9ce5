//! The runtime's metrics in the Prometheus text format, version 0.0.4.
//!
//! Source: <https://prometheus.io/docs/instrumenting/exposition_formats/>.

use std::fmt::{Display, Write};

use runtime::Handle;

/// Whether a value only grows.
#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
}
use Kind::{Counter, Gauge};

/// Every metric of the current runtime.
///
/// The values are read one after another while the workers go on, so they need not fit each other to the last
/// unit.
pub fn prometheus() -> String {
    let metrics = Handle::current().metrics();
    let mut page = Page { text: String::new(), workers: metrics.num_workers() };

    page.one("workers", Gauge, "Worker threads.", metrics.num_workers());
    page.one("tasks_alive", Gauge, "Tasks that were spawned and have not ended.", metrics.num_alive_tasks());
    page.one("tasks_spawned_total", Counter, "Tasks spawned so far.", metrics.spawned_tasks_count());
    page.one(
        "injector_depth",
        Gauge,
        "Tasks in the queue that all workers share.",
        metrics.global_queue_depth(),
    );

    page.each("queue_depth", Gauge, "Tasks in the worker's own run queue.", |w| {
        metrics.worker_local_queue_depth(w)
    });
    page.each("polls_total", Counter, "Tasks polled.", |w| metrics.worker_poll_count(w));
    page.each("lifo_polls_total", Counter, "Tasks polled out of the LIFO slot.", |w| {
        metrics.worker_lifo_poll_count(w)
    });
    page.each("steals_total", Counter, "Tasks taken from other workers.", |w| metrics.worker_steal_count(w));
    page.each("steal_operations_total", Counter, "Times that tasks were taken from another worker.", |w| {
        metrics.worker_steal_operations(w)
    });
    page.each("searches_total", Counter, "Searches for work in other queues.", |w| {
        metrics.worker_search_count(w)
    });
    page.each("notifies_total", Counter, "Sleeping workers that this one woke.", |w| {
        metrics.worker_notify_count(w)
    });
    page.each("noops_total", Counter, "Wake-ups that found nothing to do.", |w| metrics.worker_noop_count(w));
    page.each("parks_total", Counter, "Times that the worker went to sleep.", |w| {
        metrics.worker_park_count(w)
    });
    page.each("overflows_total", Counter, "Times that a full run queue was halved into the injector.", |w| {
        metrics.worker_overflow_count(w)
    });
    page.each("busy_seconds_total", Counter, "Time that the worker was not asleep.", |w| {
        metrics.worker_total_busy_duration(w).as_secs_f64()
    });

    page.one("blocking_threads", Gauge, "Threads that may block.", metrics.num_blocking_threads());
    page.one(
        "blocking_threads_idle",
        Gauge,
        "Those of them without work.",
        metrics.num_idle_blocking_threads(),
    );
    page.one(
        "blocking_queue_depth",
        Gauge,
        "Blocking closures not yet started.",
        metrics.blocking_queue_depth(),
    );
    page.one("driver_turns_total", Counter, "Turns of the I/O and time driver.", metrics.driver_turn_count());
    page.one(
        "driver_events_total",
        Counter,
        "Readiness events from the system.",
        metrics.driver_event_count(),
    );
    page.text
}

/// The text so far.
struct Page {
    text: String,
    workers: usize,
}

impl Page {
    /// Adds a metric of the whole runtime.
    fn one(&mut self, name: &str, kind: Kind, help: &str, value: impl Display) {
        let name = format!("runtime_{name}");
        self.head(&name, kind, help);
        self.line(format_args!("{name} {value}"));
    }

    /// Adds a metric that each worker has.
    fn each<V: Display>(&mut self, name: &str, kind: Kind, help: &str, value: impl Fn(usize) -> V) {
        let name = format!("runtime_worker_{name}");
        self.head(&name, kind, help);
        for worker in 0..self.workers {
            self.line(format_args!("{name}{{worker=\"{worker}\"}} {}", value(worker)));
        }
    }

    fn head(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Counter => "counter",
            Gauge => "gauge",
        };
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    fn line(&mut self, line: impl Display) {
        writeln!(self.text, "{line}").expect("writing to a String does not fail");
    }
}
