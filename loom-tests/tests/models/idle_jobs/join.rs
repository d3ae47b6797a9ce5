//! Two workers in a `join`, and the story of the worker that sleeps on a job that was stolen from it.

use std::sync::Arc;

use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::{AcqRel, Acquire};
use runtime::internals::driver::{Driver, IoDriver, TimeDriver};
use runtime::internals::scheduler::{Idle, Parker, Work};

use super::twin::{Fault, Twin};
use super::world::{Begin, End, Kind, Latch, Life, Slip, World, role};
use super::{ODD, Protocol};
use crate::models::once_built::{model, thread};

/// Job 0 is what worker 0 shares, or has shared; job 1 what worker 1 shares while it runs job 0.
const A: usize = 0;
const B: usize = 1;

/// Worker `own` shares a job of the same number, does something of its own, and then needs it done.
fn join<P: Protocol>(world: &World<P>, own: usize) -> Life {
    world.push_job(own, own);
    match world.take_own_job(own) {
        Some(job) => (vec![job], End::Done),
        None => world.wait(own, &role(Kind::Waiter, Begin::Awake)),
    }
}

fn wait_on<P: Protocol>(world: &World<P>, own: usize) -> Life {
    world.wait(own, &role(Kind::Waiter, Begin::Asleep))
}

/// The end of job 0, which worker 1 runs.
fn end_job_0<P: Protocol>(world: &World<P>, life: Life) -> Life {
    if life.1 == End::Done {
        world.set_latch(A);
    }
    life
}

/// After all threads have ended: the unparked workers live on; then both joins must be over.
fn settle<P: Protocol>(world: &World<P>, mut a: Life, mut b: Life) -> Vec<usize> {
    loop {
        let is_up = |own: usize, life: &Life| life.1 == End::Asleep && world.tokens[own].load(Acquire);
        let (own, life) = match (is_up(A, &a), is_up(B, &b)) {
            (true, _) => (A, &mut a),
            (_, true) => (B, &mut b),
            _ => break,
        };
        let mut more = wait_on(world, own);
        if own == B {
            more = end_job_0(world, more);
        }
        life.0.extend(more.0);
        life.1 = more.1;
    }
    assert_eq!((a.1, b.1), (End::Done, End::Done), "a worker sleeps for ever");
    a.0.extend(b.0);
    a.0
}

fn world<P: Protocol>(protocol: &impl Fn() -> P, slip: Slip, threads: usize) -> Arc<World<P>> {
    let mut world = World::new(protocol, slip, threads, 2);
    world.latch_of[1] = Some(B);
    Arc::new(world)
}

/// A shares job 0 and needs it. B may steal job 0; inside it B shares job 1, and needs that. A may take job 1
/// while it waits.
fn two_workers_join<P: Protocol>(protocol: impl Fn() -> P + Send + Sync + 'static, slip: Slip) {
    model(move || {
        let world = world(&protocol, slip, 2);
        let b = {
            let world = world.clone();
            thread::spawn(move || {
                let job = world.take_job(A)?;
                let mut life = end_job_0(&world, join(&world, B));
                life.0.push(job);
                Some(life)
            })
        };
        let a = join(&world, A);
        match b.join().unwrap() {
            Some(b) => world.items.assert_all(settle(&world, a, b)),
            None => assert_eq!(a, (vec![A], End::Done), "a worker sleeps for ever"),
        }
    });
}

/// B has stolen job 0 from A, which waits for it. B shares job 1; A or a third worker steals it; B is done
/// with its own half and sleeps until job 1 is. The worker that runs job 1 wakes B, or B sleeps for ever; so
/// does A, which only B can wake.
fn a_worker_sleeps_on_a_stolen_job<P: Protocol>(
    protocol: impl Fn() -> P + Send + Sync + 'static,
    slip: Slip,
) {
    model(move || {
        let world = world(&protocol, slip, 3);
        let a = {
            let world = world.clone();
            thread::spawn(move || world.wait(A, &role(Kind::Waiter, Begin::Awake)))
        };
        let c = {
            let world = world.clone();
            thread::spawn(move || world.take_and_run_job(B))
        };
        let mut b = end_job_0(&world, join(&world, B));
        b.0.push(0);
        b.0.extend(c.join().unwrap());
        let a = a.join().unwrap();
        world.items.assert_all(settle(&world, a, b));
    });
}

/// All real but the latch and the job: the owner parks, and is woken for either.
fn an_owner_parks(events: u32) {
    model(move || {
        let driver = Driver::new(Some(IoDriver::new(1, None).unwrap()), Some(TimeDriver::new(1, false)));
        let idle = Idle::with_events(1, 1, events);
        let world = Arc::new((idle, Parker::default(), driver, Latch::new(), AtomicBool::new(false)));
        let (idle, parker, driver, latch, has_job) = &*world;
        parker.adopt_current_thread();
        let setter = {
            let world = world.clone();
            thread::spawn(move || {
                if world.3.set() {
                    world.1.unpark(&world.2);
                }
            })
        };
        let pusher = {
            let world = world.clone();
            thread::spawn(move || {
                world.4.swap(true, AcqRel);
                world.0.fence_push();
                world.0.post_job();
                if world.0.pick_for(Work::Job, None).unparks.is_some() {
                    world.1.unpark(&world.2);
                }
            })
        };
        let mut has_run = false;
        // The job, too, is waited for, so that a sleep through it is a deadlock.
        while !(has_run && latch.is_set()) {
            has_run |= has_job.swap(false, AcqRel);
            let seen = idle.get_sleepy();
            if has_job.load(Acquire) || has_run && latch.is_set() {
                continue;
            }
            let is_unset = latch.begin_sleep();
            if !is_unset && has_run {
                break;
            }
            if idle.announce_wait(0, seen) {
                if !has_job.load(Acquire) {
                    parker.park(None);
                }
                idle.end_wait(0);
            }
            latch.end_sleep();
        }
        setter.join().unwrap();
        pusher.join().unwrap();
        assert!(!idle.has_waiters());
        let _ = driver;
    });
}

#[test]
fn a_parked_owner_is_woken_by_its_latch_and_for_a_job() {
    an_owner_parks(0);
}

#[test]
fn a_parked_owner_is_woken_when_the_counter_was_odd() {
    an_owner_parks(ODD);
}

#[test]
fn two_workers_join_and_wait_for_each_other() {
    two_workers_join(|| Idle::new(2, 2), Slip::None);
    two_workers_join(|| Twin::new(Fault::None, 0), Slip::None);
}

#[test]
fn the_workers_of_a_join_may_overlook_each_other() {
    two_workers_join(|| Idle::with_events(2, 2, ODD), Slip::None);
}

#[test]
fn a_worker_that_sleeps_on_a_stolen_job_is_woken() {
    a_worker_sleeps_on_a_stolen_job(|| Idle::new(3, 3), Slip::None);
}

#[test]
#[should_panic(expected = "a worker sleeps for ever")]
fn a_stolen_job_whose_latch_is_set_after_a_look() {
    a_worker_sleeps_on_a_stolen_job(|| Idle::new(3, 3), Slip::SetsAfterALook);
}

#[test]
#[should_panic(expected = "a worker sleeps for ever")]
fn a_join_whose_latch_is_set_after_a_look() {
    two_workers_join(|| Idle::new(2, 2), Slip::SetsAfterALook);
}

#[test]
#[should_panic(expected = "a worker sleeps for ever")]
fn a_worker_that_does_not_come_back_to_its_job() {
    two_workers_join(|| Idle::with_events(2, 2, ODD), Slip::LeavesOwnJob);
}
