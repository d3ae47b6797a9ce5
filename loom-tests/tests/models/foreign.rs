//! Foreign wakers that a dispatch kept, `driver/foreign.rs`, all real: each is called once, and none waits
//! behind one that blocks, whether the monitor rests, looks, or has ended.
//!
//! A waker that waits for one that is never called is a deadlock, which loom reports.
//!
//! The twins do not block; they say which waker was left.
//!
//! Bounds: one worker with three wakers, of which two block until the third is called; the monitor, with as
//! many looks as it needs. At the end four wakers, and as many threads as needed.

mod twin;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Wake, Waker};

use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::Relaxed;
use runtime::internals::driver::{ForeignWakes, Waking};
use runtime::internals::scheduler::{Worker, in_place, monitor};

use super::once_built::{model, thread};
use super::stage::{Signal, Stage};

/// A foreign waker.
struct Foreign {
    /// Written by the thread that kept the waker: relaxed, so that only the queue makes it visible.
    is_kept: AtomicBool,
    is_called: Signal,
    /// The calls that saw it kept: a number that the model does not see.
    calls: AtomicUsize,
    /// The waker that this one waits for.
    awaited: Option<Arc<Foreign>>,
}

impl Foreign {
    fn new(awaited: Option<&Arc<Self>>) -> Arc<Self> {
        Arc::new(Self {
            is_kept: AtomicBool::new(false),
            is_called: Signal::default(),
            calls: AtomicUsize::new(0),
            awaited: awaited.cloned(),
        })
    }

    /// Two that block, and the one that they wait for.
    fn three() -> [Arc<Self>; 3] {
        let last = Self::new(None);
        [Self::new(Some(&last)), Self::new(Some(&last)), last]
    }

    fn assert_called_once(&self) {
        assert_eq!(self.calls.load(Relaxed), 1, "a waker was called twice, too early, or not at all");
    }
}

impl Wake for Foreign {
    fn wake(self: Arc<Self>) {
        self.calls.fetch_add(usize::from(self.is_kept.load(Relaxed)), Relaxed);
        self.is_called.set();
        self.awaited.iter().for_each(|awaited| awaited.is_called.wait());
    }
}

/// As a dispatch does.
fn keep(foreign: &ForeignWakes, wakers: &[Arc<Foreign>]) {
    for waker in wakers {
        waker.is_kept.store(true, Relaxed);
        foreign.wake(Waker::from(waker.clone()));
    }
}

/// Kept wakers that no thread calls yet.
fn waking(wakers: &[Arc<Foreign>]) -> Waking {
    let (waking, foreign) = (Waking::default(), ForeignWakes::new());
    keep(&foreign, wakers);
    waking.add(&foreign);
    waking
}

/// The monitor rests when it may, and looks otherwise, until `last` is called.
fn start_monitor(stage: &Arc<Stage>, last: &Arc<Foreign>) -> thread::JoinHandle<()> {
    let (stage, last) = (stage.clone(), last.clone());
    thread::spawn(move || {
        let mut wakers = monitor::WatchedWakers::default();
        stage.shared().monitor.parker.adopt_current_thread();
        while last.calls.load(Relaxed) == 0 {
            monitor::rest(stage.shared());
            wakers.see_to(stage.shared());
            thread::yield_now();
        }
    })
}

#[test]
fn a_worker_and_a_helper_call_each_waker_once() {
    model(|| {
        let wakers = [(); 3].map(|()| Foreign::new(None));
        let waking = Arc::new(waking(&wakers[..1]));
        let helper = {
            let waking = waking.clone();
            thread::spawn(move || waking.wake_rest())
        };
        let foreign = ForeignWakes::new();
        keep(&foreign, &wakers[1..]);
        waking.add(&foreign);
        waking.wake_rest();
        assert!(waking.is_empty());
        helper.join().unwrap();
        wakers.iter().for_each(|waker| waker.assert_called_once());
    });
}

/// The worker dispatches `wakers` and calls them.
fn dispatch(worker: &Worker, wakers: &[Arc<Foreign>]) {
    worker.dispatch(|foreign| keep(foreign, wakers));
    worker.call_foreign();
}

/// A worker that runs is inside of a waker; then a helper is.
#[test]
fn the_monitor_has_wakers_called_that_wait_behind_others() {
    model(|| {
        let (stage, wakers) = (Stage::new(1, 0), Foreign::three());
        let monitor = start_monitor(&stage, &wakers[2]);
        stage.act(0, |worker| dispatch(worker, &wakers));
        monitor.join().unwrap();
        stage.end();
        wakers.iter().for_each(|waker| waker.assert_called_once());
    });
}

/// The worker counts as blocked, as in a wait for a latch inside of a blocking call, and another one sleeps.
#[test]
fn the_monitor_does_not_rest_beside_wakers_that_a_blocked_worker_calls() {
    model(|| {
        let (stage, [first, _, last]) = (Stage::new(2, 0), Foreign::three());
        let wakers = [first, last];
        // Otherwise the monitor would not rest.
        stage.shared().away.permanent_comes();
        stage.shared().idle.announce_sleep(1, false);
        let monitor = stage.act(0, |worker| {
            // Here, because the worker has looked once whether the monitor rests, and loom puts what it wrote
            // then behind each later rest.
            let monitor = start_monitor(&stage, &wakers[1]);
            in_place::block_in_place(worker, std::panic::Location::caller(), || dispatch(worker, &wakers));
            monitor
        });
        monitor.join().unwrap();
        assert!(stage.shared().idle.end_sleep(1));
        stage.end();
        wakers.iter().for_each(|waker| waker.assert_called_once());
    });
}

/// No monitor is left, and wakers block.
#[test]
fn a_waker_at_the_end_does_not_wait_behind_others() {
    model(|| {
        let stage = Stage::new(1, 0);
        let [first, second, last] = Foreign::three();
        // While the first thread calls this one, another thread starts. Then both begin a call at once.
        let wakers = [Foreign::new(None), first, second, last];
        stage.shared().wake_at_the_end(waking(&wakers));
        stage.end();
        wakers.iter().for_each(|waker| waker.assert_called_once());
    });
}
