//! Signals, sent by this process to itself. Each test has signals of its own, because a signal reaches every
//! listener of its kind in the process.

mod support;

use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use runtime::signal::unix::{Signal, SignalKind, signal};
use support::{refuse, watchdog};

fn block_on<F: Future>(future: F) -> F::Output {
    runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Runs the handler in this thread, before it returns; `kill` might choose another thread and another time.
fn raise(kind: SignalKind) {
    // SAFETY: every signal raised here has a handler.
    assert_eq!(unsafe { libc::raise(kind.as_raw_value()) }, 0);
}

/// Whether `signal` has nothing to tell for 20 ms.
async fn is_silent(signal: &mut Signal) -> bool {
    let start = Instant::now();
    std::future::poll_fn(|cx| match signal.poll_recv(cx) {
        Poll::Ready(_) => Poll::Ready(false),
        Poll::Pending if start.elapsed() > Duration::from_millis(20) => Poll::Ready(true),
        Poll::Pending => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

#[test]
fn a_signal_reaches_every_listener_of_its_kind_and_no_other() {
    block_on(async {
        let mut first = signal(SignalKind::user_defined1()).unwrap();
        let mut second = signal(SignalKind::user_defined1()).unwrap();
        let mut other = signal(SignalKind::user_defined2()).unwrap();
        raise(SignalKind::user_defined1());
        assert_eq!(first.recv().await, Some(()));
        assert_eq!(second.recv().await, Some(()));
        assert!(is_silent(&mut other).await);
        drop(first);
        raise(SignalKind::user_defined1());
        assert_eq!(second.recv().await, Some(()));
    });
}

#[test]
fn signals_that_nobody_looked_at_merge_and_are_not_lost() {
    block_on(async {
        let mut alarms = signal(SignalKind::alarm()).unwrap();
        // The pair holds far more bytes than one read takes.
        for _ in 0..2000 {
            raise(SignalKind::alarm());
        }
        assert_eq!(alarms.recv().await, Some(()));
        assert!(is_silent(&mut alarms).await, "one event for all");
        raise(SignalKind::alarm());
        assert_eq!(alarms.recv().await, Some(()), "and the next one is seen");
    });
}

#[test]
fn listeners_of_two_runtimes_both_hear() {
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let (ready, is_ready) = std::sync::mpsc::channel();
            let thread = std::thread::spawn(move || {
                block_on(async {
                    let mut hangups = signal(SignalKind::hangup()).unwrap();
                    ready.send(()).unwrap();
                    hangups.recv().await
                })
            });
            is_ready.recv().unwrap();
            thread
        })
        .collect();
    raise(SignalKind::hangup());
    for thread in threads {
        assert_eq!(thread.join().unwrap(), Some(()));
    }
}

#[test]
fn ctrl_c_waits_for_an_interrupt() {
    block_on(async {
        // Listening from here on, so that the signal cannot come too early.
        let _listener = signal(SignalKind::interrupt()).unwrap();
        let mut ctrl_c = std::pin::pin!(runtime::signal::ctrl_c());
        std::future::poll_fn(|cx| {
            assert!(ctrl_c.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        raise(SignalKind::interrupt());
        ctrl_c.await.unwrap();
    });
}

#[test]
fn a_signal_that_cannot_be_caught_is_refused_with_its_number() {
    block_on(async {
        for number in [-1, 0, libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, 32, 4711] {
            let error = signal(SignalKind::from_raw(number)).unwrap_err();
            let is_raw = cfg!(feature = "raw-os-errors") && error.raw_os_error().is_some();
            assert!(is_raw || error.to_string().starts_with(&format!("signal {number}")), "{error}");
        }
    });
}

/// A runtime without a thread in its `block_on`, and a listener of it.
fn idle_listener(kind: SignalKind) -> (runtime::Runtime, Signal) {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let signals = runtime.block_on(async { signal(kind).unwrap() });
    (runtime, signals)
}

/// Waits for a signal in another runtime than the listener's. It comes when the task waits for it.
fn is_heard_elsewhere(signals: &mut Signal, kind: SignalKind) -> bool {
    is_heard_in(&runtime::Builder::new_current_thread().enable_all().build().unwrap(), signals, kind)
}

fn is_heard_in(runtime: &runtime::Runtime, signals: &mut Signal, kind: SignalKind) -> bool {
    runtime.block_on(async {
        std::future::poll_fn(|cx| {
            assert!(signals.poll_recv(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        raise(kind);
        signals.recv().await.is_some()
    })
}

#[test]
fn a_listener_of_an_idle_runtime_hears_in_another_one_and_then_again_in_its_own() {
    let _watchdog = watchdog();
    let kind = SignalKind::child();
    let (runtime, mut signals) = idle_listener(kind);
    // Each `block_on` has a new runtime.
    for _ in 0..3 {
        assert!(is_heard_elsewhere(&mut signals, kind));
    }
    assert!(runtime.block_on(is_silent(&mut signals)), "one event for each");
    runtime.block_on(async {
        raise(kind);
        assert_eq!(signals.recv().await, Some(()));
    });
}

/// Its own runtime is driven, and so it hears, although the other one is refused a descriptor.
#[test]
fn a_listener_hears_in_another_runtime_that_cannot_watch() {
    let _watchdog = watchdog();
    let kind = SignalKind::quit();
    let (runtime, mut signals) = idle_listener(kind);
    let (end, has_ended) = runtime::sync::oneshot::channel::<()>();
    let drives = std::thread::spawn(move || runtime.block_on(has_ended));
    let elsewhere = std::thread::spawn(move || {
        let other = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        refuse(libc::SYS_fcntl, libc::EMFILE);
        is_heard_in(&other, &mut signals, kind)
    });
    assert!(elsewhere.join().unwrap());
    end.send(()).unwrap();
    drives.join().unwrap().unwrap();
}

#[test]
fn after_shutdown_only_another_runtime_hears() {
    let _watchdog = watchdog();
    let kind = SignalKind::window_change();
    let (runtime, mut signals) = idle_listener(kind);
    drop(runtime);
    let mut poll = || signals.poll_recv(&mut Context::from_waker(Waker::noop()));
    assert_eq!(poll(), Poll::Ready(None));
    let without_io = runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(without_io.block_on(async { poll() }), Poll::Ready(None));
    assert!(is_heard_elsewhere(&mut signals, kind));
}

#[test]
fn the_error_in_a_runtime_that_was_shut_down_is_told_from_others() {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    drop(runtime);
    let _entered = handle.enter();
    let error = signal(SignalKind::user_defined1()).unwrap_err();
    assert!(runtime::runtime::is_rt_shutdown_err(&error), "{error}");
}
