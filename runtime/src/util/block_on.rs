//! Waiting for a future on a plain thread, which sleeps while the future waits.
//!
//! A wake sets a flag, and unparks the thread. The token of `std::thread::park` alone would not do, because
//! code that the future calls may park too, and would use up that token. A call that is nested in a poll of
//! another call has a flag of its own, because it would otherwise use up the wake of the outer future.
//!
//! # Steps and ordering
//! ```text
//! waker
//!   BlockOnWake     is_woken: false → true (Release)
//!   BlockOnUnpark   if it was false: unpark
//! sleeper
//!   BlockOnLook     is_woken: true → false (Acquire); if it was true: poll
//!   BlockOnSleep    else: park, then BlockOnLook again
//! ```
//! BlockOnLook pairs with BlockOnWake: the poll after a wake sees what happened before the wake. A wake
//! between BlockOnLook and BlockOnSleep leaves the token of `thread::park` behind, so that BlockOnSleep
//! returns at once. A token that other code left only costs another BlockOnLook. Before BlockOnSleep the
//! thread may look at the flag for a while (`patience.rs`). That look promises nothing, and BlockOnLook
//! follows. BlockOnUnpark may be skipped when the flag was set: the thread that set it unparks, or has done
//! so.

use std::cell::Cell;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use crate::coop;
use crate::loom::sync::atomic::{AtomicBool, Ordering};
use crate::loom::{thread, thread_cell};
use crate::util::as_tokio;
use crate::util::erased_future::{ErasedFuture, output_of};
use crate::util::patience::Patience;

/// The longest time that the thread waits awake: about as long as a thousand small tasks take.
const LONGEST_WAIT: Duration = Duration::from_micros(100);

/// The flag and the thread of a `block_on`. Its waker points to it.
struct Parker {
    /// There was a wake that no poll has followed yet. Wakers set this, and only the thread clears it.
    is_woken: AtomicBool,
    thread: thread::Thread,
}

impl Parker {
    fn of_this_thread() -> Arc<Parker> {
        Arc::new(Parker { is_woken: AtomicBool::new(false), thread: thread::current() })
    }

    /// BlockOnLook, BlockOnSleep.
    fn park(&self) {
        while !self.take_wake() {
            thread::park();
        }
    }

    /// BlockOnLook, BlockOnSleep. The thread spins before BlockOnSleep if the wait may be short. `is_crowded`
    /// says whether other threads want this CPU.
    fn park_patiently(&self, is_crowded: impl FnOnce() -> bool) {
        if self.take_wake() {
            return;
        }
        PATIENCE.with(|patience| {
            if patience.is_worth_it() {
                // Relaxed: BlockOnLook follows.
                patience.wait(is_crowded, || self.is_woken.load(Ordering::Relaxed));
                self.park();
            } else {
                let start = Instant::now();
                self.park();
                patience.slept(start.elapsed());
            }
        });
    }

    /// BlockOnLook.
    fn take_wake(&self) -> bool {
        self.is_woken.swap(false, Ordering::Acquire)
    }
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::Release) {
            self.thread.unpark();
        }
    }
}

/// A parker and its waker.
struct CachedParker {
    parker: Arc<Parker>,
    waker: Waker,
}

thread_cell! {
    /// The parker of the thread, while no `block_on` uses it.
    static CACHED: Cell<Option<CachedParker>> = Cell::new(None);
}

thread_cell! {
    /// Whether the thread's last wait was short.
    static PATIENCE: Patience = Patience::new(LONGEST_WAIT);
}

/// Takes the parker of the thread, and puts it back when dropped. A nested call, or a call in the destructor
/// of a thread-local, gets a parker of its own.
struct Lease(Option<CachedParker>);

impl Lease {
    fn take() -> Lease {
        let kept = CACHED.try_with(Cell::take).ok().flatten();
        Lease(Some(kept.unwrap_or_else(|| {
            let parker = Parker::of_this_thread();
            let waker = Waker::from(parker.clone());
            coop::introduce_parker(&waker);
            CachedParker { waker, parker }
        })))
    }

    fn place(&self) -> &CachedParker {
        self.0.as_ref().expect("a lease holds its place until dropped")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let place = self.0.take();
        // A late wake of an earlier future may still arrive here. It costs the next future one poll.
        let _ = CACHED.try_with(|kept| kept.set(place));
    }
}

/// Calls its argument, which blocks, once. Meanwhile other threads take over the work of the calling thread.
pub type Blocker = fn(&mut dyn FnMut());

thread_cell! {
    /// The scheduler sets this on its threads, which have work for others to take over.
    static BLOCKER: Cell<Option<Blocker>> = Cell::new(None);
}

/// Sets the blocker that [`blocking`] uses on this thread. Returns the previous one.
pub fn replace_blocker(blocker: Option<Blocker>) -> Option<Blocker> {
    BLOCKER.with(|current| current.replace(blocker))
}

/// Calls `f`, which blocks. On a thread of the scheduler, it tells the scheduler first.
pub fn blocking<R>(f: impl FnOnce() -> R) -> R {
    let Some(blocker) = BLOCKER.with(Cell::get) else {
        return f();
    };
    let (mut f, mut result) = (Some(f), None);
    blocker(&mut || result = f.take().map(|f| f()));
    result.expect("a blocker calls its argument")
}

/// Runs `future` to its end on the calling thread, which sleeps while it waits.
///
/// Calls may be nested. Each poll has a budget of its own, and is no poll of a task.
pub fn block_on<F: Future>(future: F) -> F::Output {
    output_of(future, |future| wait_for(future, Parker::park))
}

/// Runs `future` as [`block_on`] does, but waits awake where short waits follow each other. `is_crowded` says
/// whether other threads want this CPU.
pub fn wait_patiently(future: ErasedFuture<'_>, is_crowded: impl Fn() -> bool) {
    // A worker should not wait awake, because other threads take over its work before it blocks.
    match BLOCKER.with(Cell::get) {
        Some(_) => wait_for(future, Parker::park),
        None => wait_for(future, |parker| parker.park_patiently(&is_crowded)),
    }
}

fn wait_for(future: ErasedFuture<'_>, park: impl Fn(&Parker)) {
    coop::suspended(|| {
        // The lease is declared before the future, so it is dropped after the future, whose destructor may
        // block in turn.
        let lease = Lease::take();
        let CachedParker { parker, waker } = lease.place();
        let mut future = future;
        let mut is_ready = || coop::with_budget(|| future.poll(&mut Context::from_waker(waker))).is_ready();
        if is_ready() {
            return;
        }
        blocking(|| {
            loop {
                park(parker);
                if is_ready() {
                    return;
                }
            }
        });
    });
}

/// Panics, at the caller's line, if the calling thread is inside a poll of a task, because blocking would
/// hold a worker there. With the feature `tokio-strict`, a poll of a `block_on` future counts as well.
///
/// `what` names the call. `instead` names what an async function calls.
#[track_caller]
pub fn assert_may_block(what: &str, instead: &str) {
    assert!(
        !coop::is_polling_task(),
        "`{what}` would hold the worker that polls this task: use `{instead}`, or call it in `spawn_blocking`"
    );
    as_tokio::blocks();
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;
    use std::task::{Poll, ready};

    /// A future that is ready at the second poll. The first poll gives its waker to `wake`.
    async fn woken_by(wake: impl FnOnce(Waker)) {
        let mut wake = Some(wake);
        std::future::poll_fn(|cx| match wake.take() {
            None => Poll::Ready(()),
            Some(wake) => {
                wake(cx.waker().clone());
                Poll::Pending
            }
        })
        .await;
    }

    #[test]
    fn a_thread_sleeps_until_another_wakes_it() {
        block_on(woken_by(|waker| {
            std::thread::spawn(move || waker.wake());
        }));
    }

    #[test]
    fn a_dispatch_may_call_the_waker_at_once_but_not_that_of_another_executor() {
        block_on(woken_by(|waker| assert!(coop::wake_if_harmless(&waker))));
        assert!(!coop::wake_if_harmless(Waker::noop()));
    }

    #[test]
    fn a_wake_that_comes_during_the_poll_is_kept_even_if_the_future_parks() {
        block_on(woken_by(|waker| {
            waker.wake();
            std::thread::park();
        }));
    }

    #[test]
    fn a_nested_call_does_not_take_the_wake_of_the_outer_one() {
        // The thread has a parker from now on.
        block_on(async {});
        block_on(woken_by(|outer| {
            outer.wake();
            block_on(woken_by(|inner| inner.wake()));
        }));
    }

    #[test]
    fn a_future_is_polled_only_when_woken() {
        let polls = AtomicUsize::new(0);
        block_on(async {
            let mut inner = pin!(woken_by(|waker| {
                std::thread::spawn(move || {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    waker.wake();
                });
            }));
            std::future::poll_fn(|cx| {
                polls.fetch_add(1, Ordering::Relaxed);
                ready!(inner.as_mut().poll(cx));
                Poll::Ready(())
            })
            .await;
        });
        assert_eq!(polls.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn the_place_survives_a_panic_of_the_future() {
        let result = crate::util::unwind::catch(|| block_on(async { panic!("boom") }));
        assert!(result.is_err());
        block_on(woken_by(|waker| waker.wake()));
    }
}
