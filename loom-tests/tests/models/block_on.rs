//! Waiting on a plain thread: every wake is followed by a poll that sees what came before it.
//!
//! Bounds: one future with two wakes from two threads.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use runtime::internals::block_on;
use runtime::sync::{Semaphore, oneshot};

use super::once_built::{model, thread};

#[test]
fn every_wake_is_followed_by_a_poll() {
    model(|| {
        let flags = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
        let mut threads = Vec::new();
        block_on(poll_fn(|cx| {
            if threads.is_empty() {
                threads = (0..2)
                    .map(|i| {
                        let (waker, flags) = (cx.waker().clone(), flags.clone());
                        thread::spawn(move || {
                            flags[i].store(true, Relaxed);
                            waker.wake();
                        })
                    })
                    .collect();
            }
            match flags.iter().all(|flag| flag.load(Relaxed)) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        }));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// The bug that was put back.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// BlockOnUnpark before BlockOnWake.
    UnparksFirst,
    WakeIsRelaxed,
    LookIsRelaxed,
}

/// A wake against a thread that polls and then sleeps, of which only the flag and the token are modelled. The
/// thread does not sleep, but says whether it would.
fn a_wake_of_a_twin(fault: Fault) {
    model(move || {
        // What is waited for, `is_woken`, the token.
        let world = Arc::new((AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false)));
        let waker = thread::spawn({
            let world = world.clone();
            move || {
                let (is_ready, is_woken, token) = &*world;
                is_ready.store(true, Relaxed);
                if fault == Fault::UnparksFirst {
                    token.swap(true, Relaxed);
                }
                let order = if fault == Fault::WakeIsRelaxed { Relaxed } else { Release };
                if !is_woken.swap(true, order) && fault != Fault::UnparksFirst {
                    token.swap(true, Relaxed);
                }
            }
        });
        let (is_ready, is_woken, token) = &*world;
        let order = if fault == Fault::LookIsRelaxed { Relaxed } else { Acquire };
        let mut is_asleep = false;
        let mut has_polled_ready = is_ready.load(Relaxed);
        while !has_polled_ready && !is_asleep {
            if is_woken.swap(false, order) {
                has_polled_ready = is_ready.load(Relaxed);
                is_asleep = false;
            } else {
                is_asleep = !token.swap(false, Relaxed);
            }
        }
        waker.join().unwrap();
        assert!(has_polled_ready || token.swap(false, AcqRel), "a wake was lost");
    });
}

#[test]
fn a_twin_without_a_fault_passes() {
    a_wake_of_a_twin(Fault::None);
}

#[test]
#[should_panic(expected = "a wake was lost")]
fn a_wake_that_unparks_before_it_says_why() {
    a_wake_of_a_twin(Fault::UnparksFirst);
}

#[test]
#[should_panic(expected = "a wake was lost")]
fn a_wake_without_release() {
    a_wake_of_a_twin(Fault::WakeIsRelaxed);
}

#[test]
#[should_panic(expected = "a wake was lost")]
fn a_look_without_acquire() {
    a_wake_of_a_twin(Fault::LookIsRelaxed);
}

#[test]
fn a_blocked_thread_is_unparked_by_the_wake() {
    model(|| {
        let (tx, rx) = oneshot::channel();
        let sender = thread::spawn(move || tx.send(3).unwrap());
        assert_eq!(rx.blocking_recv(), Ok(3));
        sender.join().unwrap();
    });
}

#[test]
fn a_token_left_by_somebody_else_does_no_harm() {
    model(|| {
        thread::current().unpark();
        let (tx, rx) = oneshot::channel();
        let sender = thread::spawn(move || tx.send(3).unwrap());
        assert_eq!(rx.blocking_recv(), Ok(3));
        sender.join().unwrap();
    });
}

#[test]
fn a_thread_that_blocks_twice_uses_its_place_twice() {
    model(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let data = loom::sync::Arc::new(UnsafeCell::new(0));
        let (theirs, their_data) = (semaphore.clone(), data.clone());
        let giver = thread::spawn(move || {
            theirs.add_permits(1);
            // SAFETY: before the second permit, which orders it before the read.
            their_data.with_mut(|data| unsafe { *data = 1 });
            theirs.add_permits(1);
        });
        semaphore.blocking_acquire().unwrap().forget();
        semaphore.blocking_acquire().unwrap().forget();
        // SAFETY: after the second permit.
        assert_eq!(data.with(|data| unsafe { *data }), 1);
        giver.join().unwrap();
    });
}
