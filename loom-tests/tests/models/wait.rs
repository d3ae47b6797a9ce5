//! A wait for a latch, `sleep_on` of `scheduler/jobs/wait.rs`, all real: a waiter is up once its latch is
//! set, and runs a job that only the waiter can run.
//!
//! A waiter that sleeps for ever is a deadlock, which loom reports. The twins do not sleep; they say where
//! they would. The rounds in which a waiter looks for work before it sleeps are left out. In each round the
//! waiter yields to all other threads, so none of them would be in the middle of a step when the waiter falls
//! asleep.
//!
//! Bounds: one waiter, a worker or an external thread, and one thread that sets the latch, or pushes a job,
//! or shares a job and blocks.

use std::ptr::{NonNull, null};

use runtime::internals::job::{CoreLatch, Latch, SpinLatch, StackJob, Tag, ThreadLatch};
use runtime::internals::scheduler::{Host, JobProcessor, OwnJobs, Worker};

use super::once_built::{model, thread};
use super::stage::Stage;

type WaiterLatch = SpinLatch<JobProcessor>;

struct SendPtr<T>(NonNull<T>);

// SAFETY: what the pointers lead to is made for many threads, and is there until its latch is set.
unsafe impl<T> Send for SendPtr<T> {}

impl SendPtr<WaiterLatch> {
    fn to(latch: &WaiterLatch) -> Self {
        Self(NonNull::from(latch))
    }

    fn set(self) {
        // SAFETY: the waiter keeps the latch until it is set, and the stage keeps the pool.
        unsafe { WaiterLatch::set(self.0.as_ptr()) };
    }
}

fn processor(worker: &Worker) -> &OwnJobs {
    worker.job_processor().expect("a processor")
}

/// The waiter without its rounds.
fn wait(worker: &Worker, latch: &CoreLatch) {
    while !latch.is_set() {
        // SAFETY: (1) no `join` was called here.
        _ = unsafe { processor(worker).sleep_on(Host::Owner(worker), latch, 0) };
    }
}

/// Waits as the real one, or as a twin. Returns false where a twin sleeps for ever. At its sleep, a twin
/// calls the last function, which waits for all other threads.
type Waits = fn(&Worker, &CoreLatch, &mut dyn FnMut()) -> bool;

/// Returns a function that waits for `thread` when it is called first.
fn joins(thread: thread::JoinHandle<()>) -> impl FnMut() {
    let mut thread = Some(thread);
    move || thread.take().into_iter().for_each(|thread| thread.join().unwrap())
}

/// The latch is set at any moment.
fn a_latch_is_set(waits: Waits) {
    model(move || {
        let stage = Stage::new(1, 0);
        stage.act(0, |worker| {
            let latch = WaiterLatch::new(processor(worker));
            let setter = {
                let latch = SendPtr::to(&latch);
                thread::spawn(move || latch.set())
            };
            let mut join = joins(setter);
            assert!(waits(worker, latch.core(), &mut join), "the waiter sleeps although its latch is set");
            join();
        });
        stage.end();
    });
}

/// A job comes from outside, and its end sets the latch.
fn a_job_is_injected(waits: Waits) {
    model(move || {
        let stage = Stage::new(1, 0);
        stage.act(0, |worker| {
            let job = StackJob::new(null(), WaiterLatch::new(processor(worker)), |_: bool| ());
            // SAFETY: (1) this frame waits for the latch. (2) The closure captures nothing and returns `()`.
            let reference = unsafe { job.as_job_ref(Tag::NONE) };
            let pusher = {
                let stage = stage.clone();
                thread::spawn(move || {
                    assert!(stage.shared().injected_jobs.try_begin());
                    stage.shared().queue_install(reference);
                })
            };
            let mut join = joins(pusher);
            let is_up = waits(worker, job.latch().core(), &mut join);
            assert!(is_up, "the waiter sleeps although a job waits");
            join();
            stage.shared().job_ended();
        });
        stage.end();
    });
}

/// Another worker shares a job and blocks until it has been run. The waiter alone can run it.
fn a_blocked_worker_shares_a_job() {
    model(|| {
        let stage = Stage::new(2, 0);
        stage.act(0, |worker| {
            let latch = WaiterLatch::new(processor(worker));
            let blocked = {
                let (stage, latch) = (stage.clone(), SendPtr::to(&latch));
                thread::spawn(move || {
                    stage.act(1, |worker| {
                        let job = StackJob::new(null(), ThreadLatch::new(), |_: bool| ());
                        // SAFETY: this frame waits for the job's latch.
                        unsafe { processor(worker).push(job.as_job_ref(Tag::NONE)) };
                        processor(worker).expose_child_jobs();
                        job.latch().wait();
                    });
                    latch.set();
                })
            };
            wait(worker, latch.core());
            blocked.join().unwrap();
        });
        stage.end();
    });
}

/// An external thread waits, and its latch is set at any moment. The workers sleep, for good.
fn an_external_thread_waits() {
    model(|| {
        let stage = Stage::new(2, 0);
        let shared = stage.shared();
        (0..2).for_each(|index| shared.idle.announce_sleep(index, false));
        assert!(shared.injected_jobs.try_begin());
        let (processor, tag) = shared.take_external().expect("more workers sleep than external threads run");
        // SAFETY: (1) no region.
        unsafe { processor.replace_region(null(), tag) };
        let latch = WaiterLatch::new(processor);
        let setter = {
            let latch = SendPtr::to(&latch);
            thread::spawn(move || latch.set())
        };
        while !latch.core().is_set() {
            // SAFETY: (1) no `join` was called here.
            _ = unsafe { processor.sleep_on(Host::External, latch.core(), 0) };
        }
        setter.join().unwrap();
        // SAFETY: (1) no `join` was called here.
        let has_moved = unsafe { processor.end_external() };
        // SAFETY: (1) it was taken above, and this is the last use.
        unsafe { shared.give_external_back(processor, has_moved) };
        shared.job_ended();
        (0..2).for_each(|index| assert!(shared.idle.end_sleep(index)));
        stage.end();
    });
}

fn really(worker: &Worker, latch: &CoreLatch, _: &mut dyn FnMut()) -> bool {
    wait(worker, latch);
    true
}

#[test]
fn a_waiter_is_woken_by_its_latch() {
    a_latch_is_set(really);
}

#[test]
fn an_external_waiter_is_woken_by_its_latch() {
    an_external_thread_waits();
}

#[test]
fn a_waiter_is_woken_for_an_injected_job() {
    a_job_is_injected(really);
}

#[test]
fn a_waiter_is_woken_for_a_job_of_a_worker_that_blocks() {
    a_blocked_worker_shares_a_job();
}

/// The bug that was put back.
struct Fault;

impl Fault {
    const NONE: u8 = 0;
    /// The waiter sleeps without a word to the setter of its latch.
    const SLEEPS_UNANNOUNCED: u8 = 1;
    /// The waiter looks for jobs, and then gets sleepy.
    const LOOKS_EARLY: u8 = 2;
}

/// `sleep_on` for injected jobs alone, with at most one bug; see [`Waits`].
fn wait_of_a_twin<const FAULT: u8>(worker: &Worker, latch: &CoreLatch, join: &mut dyn FnMut()) -> bool {
    let shared = worker.shared();
    let (jobs, parker) = (&shared.injected_jobs, &worker.processor().parker);
    let mut sleeps_for_ever = false;
    while !latch.is_set() && !sleeps_for_ever {
        let sleepy = (FAULT != Fault::LOOKS_EARLY).then(|| shared.idle.get_sleepy());
        shared.idle.fence_look();
        if let Some(job) = jobs.take_install(Tag::NONE) {
            // SAFETY: (1) the job was just claimed.
            unsafe { processor(worker).run(job) };
            continue;
        }
        let is_unset = match FAULT {
            Fault::SLEEPS_UNANNOUNCED => !latch.is_set(),
            _ => latch.fall_asleep(),
        };
        if !is_unset {
            continue;
        }
        let seen = sleepy.unwrap_or_else(|| shared.idle.get_sleepy());
        if shared.idle.announce_wait(worker.index(), seen) {
            if FAULT == Fault::LOOKS_EARLY || !jobs.has_install(Tag::NONE) {
                parker.park_if(None, || {
                    join();
                    sleeps_for_ever = parker.is_asleep();
                    false
                });
            }
            shared.idle.end_wait(worker.index());
        }
        latch.wake_up();
    }
    !sleeps_for_ever
}

#[test]
fn a_twin_without_a_fault_passes() {
    a_latch_is_set(wait_of_a_twin::<{ Fault::NONE }>);
    a_job_is_injected(wait_of_a_twin::<{ Fault::NONE }>);
}

#[test]
#[should_panic(expected = "the waiter sleeps although its latch is set")]
fn a_waiter_that_sleeps_without_saying_so() {
    a_latch_is_set(wait_of_a_twin::<{ Fault::SLEEPS_UNANNOUNCED }>);
}

#[test]
#[should_panic(expected = "the waiter sleeps although a job waits")]
fn a_waiter_that_looks_before_it_is_sleepy() {
    a_job_is_injected(wait_of_a_twin::<{ Fault::LOOKS_EARLY }>);
}
