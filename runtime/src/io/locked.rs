//! Operations on data under a lock that may have to wait. None of them runs a waker's code under the lock.
//!
//! A waker may be foreign: its `clone`, `wake` and `drop` may take other locks, or come back here. So an
//! operation that must wait, and whose waker is not there yet, unlocks, clones the waker, and tries again.
//! The second try sees what came meanwhile. What comes later finds the waker.

use std::mem;
use std::task::{Context, Poll, Waker};
use std::thread;

use crate::coop;
use crate::loom::sync::Mutex;
use crate::scheduler::deadlock::CurrentExpects;
use crate::util::either_thread::called_once;
use crate::util::unwind::run_quietly;

/// Makes an attempt under the lock. If it must wait, puts the caller's waker into the `slot`.
#[inline]
pub fn poll_locked<S, T>(
    lock: &Mutex<S>,
    cx: &mut Context<'_>,
    mut attempt: impl FnMut(&mut S) -> Option<T>,
    slot: impl Fn(&mut S) -> &mut Option<Waker>,
) -> Poll<T> {
    // Moved into the slot, or dropped after the lock.
    let mut waker: Option<Waker> = None;
    loop {
        let mut state = lock.lock();
        if let Some(result) = attempt(&mut state) {
            return Poll::Ready(result);
        }
        let slot = slot(&mut state);
        if slot.as_ref().is_some_and(|there| there.will_wake(cx.waker())) {
            return Poll::Pending;
        }
        if waker.is_some() {
            mem::swap(slot, &mut waker);
            return Poll::Pending;
        }
        drop(state);
        waker = Some(cx.waker().clone());
    }
}

/// The users of a lock's data. Each user has a number, data of its own, and perhaps a waker.
#[derive(Debug, Default)]
pub struct Users<T> {
    /// The users by number.
    users: Vec<Option<User<T>>>,
    /// Numbers that no user has.
    free: Vec<usize>,
}

#[derive(Debug)]
struct User<T> {
    own: T,
    waker: Option<Waker>,
}

impl<T> Users<T> {
    /// Adds a user, and returns its number.
    pub fn enter(&mut self, own: T) -> usize {
        let user = Some(User { own, waker: None });
        match self.free.pop() {
            Some(number) => {
                self.users[number] = user;
                number
            }
            None => {
                self.users.push(user);
                self.users.len() - 1
            }
        }
    }

    /// Removes a user. The caller drops the result without the lock.
    #[must_use]
    pub fn leave(&mut self, number: usize) -> Option<impl Sized + use<T>> {
        self.free.push(number);
        self.users[number].take()
    }

    /// A user's own data.
    pub fn own(&mut self, number: usize) -> &mut T {
        &mut self.user(number).own
    }

    /// The waker of a user that waits.
    pub fn waker(&mut self, number: usize) -> &mut Option<Waker> {
        &mut self.user(number).waker
    }

    fn user(&mut self, number: usize) -> &mut User<T> {
        self.users[number].as_mut().expect("a user is there until it leaves")
    }

    /// The own data of all users.
    pub fn all(&mut self) -> impl Iterator<Item = &mut T> {
        self.users.iter_mut().flatten().map(|user| &mut user.own)
    }

    /// Takes the wakers of all waiting users. The caller wakes them without the lock.
    #[must_use]
    pub fn take_wakers(&mut self) -> Vec<Waker> {
        self.users.iter_mut().flatten().filter_map(|user| user.waker.take()).collect()
    }
}

/// Wakes all wakers, for a thread on which the other users rely. A foreign waker may block, so each is called
/// on a thread of its own. (So are those of combinators, and of a `block_on` that drives a `current_thread`
/// runtime.) If the system refuses that thread, the waker is called here. A panic of a waker does not end the
/// calling thread.
pub fn wake_all(wakers: Vec<Waker>) {
    for waker in wakers {
        if coop::is_of_task(&waker) {
            run_quietly(|| waker.wake());
        } else if !coop::wake_if_harmless(&waker) {
            wake_elsewhere(waker);
        }
    }
}

#[cold]
fn wake_elsewhere(waker: Waker) {
    // The thread that wakes is none of the runtime's, and may be on its way when all of these sleep.
    let expects = CurrentExpects::begin();
    let wake = called_once(|| {
        run_quietly(|| waker.wake());
        drop(expects);
    });
    if thread::Builder::new().name("runtime-waker".into()).spawn(wake()).is_err() {
        wake()();
    }
}

#[cfg(all(test, not(loom)))]
pub mod tests {
    use std::ptr::null;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;
    use std::sync::{Arc, Barrier, mpsc};
    use std::task::{RawWakerVTable, Wake, Waker};
    use std::thread;

    use super::wake_all;
    use crate::Builder;
    use crate::parallel::{mark_blocked, mark_unblocked};

    #[test]
    fn no_deadlock_is_reported_while_a_foreign_waker_is_on_its_way() {
        let reports = Arc::new(AtomicUsize::new(0));
        let told = reports.clone();
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .deadlock_handler(move |_| _ = told.fetch_add(1, SeqCst))
            .build()
            .unwrap();
        let (waker, gate) = waker_that_blocks();
        runtime.spawn_blocking(move || wake_all(vec![waker]));
        gate.await_arrival();
        while runtime.metrics().num_idle_blocking_threads() == 0 {
            thread::yield_now();
        }
        let (marks, mark) = mpsc::channel();
        let (go_on, gone) = mpsc::channel::<()>();
        runtime.spawn(async move {
            marks.send(mark_blocked()).unwrap();
            _ = gone.recv();
        });
        let mark = mark.recv().unwrap();
        for _ in 0..50 {
            runtime.handle().shared().report_deadlock();
            assert_eq!(reports.load(SeqCst), 0);
            thread::yield_now();
        }
        gate.open();
        while reports.load(SeqCst) == 0 {
            thread::yield_now();
        }
        mark_unblocked(mark);
        drop(go_on);
    }

    /// Where a waker waits.
    pub struct Gate {
        arrival: Barrier,
        exit: Barrier,
    }

    impl Gate {
        /// Waits until the waker has been called.
        pub fn await_arrival(&self) {
            self.arrival.wait();
        }

        /// Lets the waker go on.
        pub fn open(&self) {
            self.exit.wait();
        }
    }

    impl Wake for Gate {
        fn wake(self: Arc<Self>) {
            self.arrival.wait();
            self.exit.wait();
        }
    }

    /// A waker that blocks until the gate is opened.
    pub fn waker_that_blocks() -> (Waker, Arc<Gate>) {
        let gate = Arc::new(Gate { arrival: Barrier::new(2), exit: Barrier::new(2) });
        (Waker::from(gate.clone()), gate)
    }

    /// A waker whose `clone` panics with "no clones".
    pub fn waker_that_cannot_be_cloned() -> Waker {
        static TABLE: RawWakerVTable = RawWakerVTable::new(|_| panic!("no clones"), |_| {}, |_| {}, |_| {});
        // SAFETY: the functions use no data, and may be called by any thread.
        unsafe { Waker::new(null(), &TABLE) }
    }
}
