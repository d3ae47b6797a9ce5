//! One thread at a time: which thread is fetched, and what becomes of the closures.

use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::queue::intrusive_list::tests::{Item, Items};

struct World {
    queue: PoolQueue<Item>,
    items: Items,
}

impl World {
    fn new(most: usize) -> Self {
        Self { queue: PoolQueue::new(most), items: Items::new(8) }
    }

    fn submit(&self, closure: usize) -> PendingWake {
        // SAFETY: each closure is submitted once, and `items` outlives the queue's use of them.
        unsafe { self.queue.submit(self.items.at(closure)) }.expect("it is not closed")
    }

    /// A new thread that takes `closure`.
    fn arrive(&self, closure: usize) -> (Arc<PoolThread>, PendingWake) {
        let (pending, thread) = (self.queue.arrive(), PoolThread::new());
        assert!(matches!(self.takes(&thread, closure), PendingWake::Nothing));
        (thread, pending)
    }

    /// `thread` takes `closure`.
    fn takes(&self, thread: &Arc<PoolThread>, closure: usize) -> PendingWake {
        match self.queue.next(thread, false) {
            Next::Run(item, pending) => {
                assert_eq!(self.items.take(item), closure);
                pending
            }
            other => panic!("{other:?}"),
        }
    }

    fn falls_asleep(&self, thread: &Arc<PoolThread>) {
        assert!(matches!(self.queue.next(thread, false), Next::Sleep));
    }
}

fn is_wake_of(pending: PendingWake, thread: &Arc<PoolThread>) -> bool {
    matches!(pending, PendingWake::Wake(other) if Arc::ptr_eq(&other, thread))
}

#[test]
fn one_thread_comes_at_a_time_and_each_fetches_the_next() {
    let world = World::new(3);
    assert!(matches!(world.submit(0), PendingWake::Start));
    assert!((1..5).all(|closure| matches!(world.submit(closure), PendingWake::Nothing)));
    let (first, pending) = world.arrive(0);
    assert!(matches!(pending, PendingWake::Start));
    // A thread is coming.
    assert!(matches!(world.takes(&first, 1), PendingWake::Nothing));
    let (second, pending) = world.arrive(2);
    assert!(matches!(pending, PendingWake::Start));
    let (third, pending) = world.arrive(3);
    assert!(matches!(pending, PendingWake::Nothing), "the house is full");
    assert!(matches!(world.takes(&second, 4), PendingWake::Nothing));
    [&first, &third].iter().for_each(|thread| world.falls_asleep(thread));
    // The last thread to become idle is the first to be chosen.
    assert!(is_wake_of(world.submit(5), &third));
    assert!(matches!(world.submit(6), PendingWake::Nothing));
    assert!(is_wake_of(world.takes(&third, 5), &first));
    let Counts { threads, idle, queued, wakes, starts } = world.queue.counts();
    assert_eq!((threads, idle, queued, wakes, starts), (3, 0, 1, 2, 3));
    assert!(world.queue.close().is_empty(), "its thread is on its way");
    assert!(matches!(world.takes(&first, 6), PendingWake::Nothing));
}

#[test]
fn a_thread_that_lay_down_meanwhile_comes_in_place_of_a_refused_one() {
    let world = World::new(2);
    assert!(matches!(world.submit(0), PendingWake::Start));
    let (thread, _) = world.arrive(0);
    assert!(matches!(world.submit(1), PendingWake::Start));
    assert!(matches!(world.takes(&thread, 1), PendingWake::Nothing));
    world.falls_asleep(&thread);
    assert!(matches!(world.submit(2), PendingWake::Nothing), "one is being started");
    let (pending, failed) = world.queue.refused(Refused::Coming);
    assert!(failed.is_empty() && is_wake_of(pending, &thread));
    assert!(matches!(world.takes(&thread, 2), PendingWake::Nothing));
    // The next submitter asks the system again.
    assert!(matches!(world.submit(3), PendingWake::Start));
    let (pending, failed) = world.queue.refused(Refused::Coming);
    assert!(failed.is_empty() && matches!(pending, PendingWake::Nothing), "a thread works");
    assert!(matches!(world.submit(4), PendingWake::Start));
    // So does a thread that leaves others behind.
    assert!(matches!(world.queue.refused(Refused::Coming), (PendingWake::Nothing, _)));
    assert!(matches!(world.takes(&thread, 3), PendingWake::Start));
    assert!(matches!(world.queue.refused(Refused::Coming), (PendingWake::Nothing, _)));
    assert!(matches!(world.takes(&thread, 4), PendingWake::Nothing));
    // Without a thread, the closures fail.
    world.falls_asleep(&thread);
    assert!(matches!(world.queue.next(&thread, true), Next::Leave));
    assert!(matches!(world.submit(5), PendingWake::Start));
    let (_, mut failed) = world.queue.refused(Refused::Coming);
    assert_eq!(failed.pop_front(), Some(world.items.at(5)));
    assert_eq!(world.queue.counts().threads, 0);
}

#[test]
fn the_end_of_the_keep_alive_time_and_a_choice_meet() {
    let world = World::new(2);
    assert!(matches!(world.submit(0), PendingWake::Start));
    assert!(matches!(world.submit(1), PendingWake::Nothing));
    let ((thread, _), (other, _)) = (world.arrive(0), world.arrive(1));
    world.falls_asleep(&thread);
    // Chosen before the end of its keep-alive time: it comes.
    assert!(is_wake_of(world.submit(2), &thread));
    assert!(matches!(world.queue.next(&thread, true), Next::Run(..)));
    world.falls_asleep(&thread);
    // Chosen for a closure that another took: it stays for another keep-alive time.
    assert!(is_wake_of(world.submit(3), &thread));
    assert!(matches!(world.takes(&other, 3), PendingWake::Nothing));
    assert!(matches!(world.queue.next(&thread, true), Next::Sleep));
    assert!(matches!(world.queue.next(&thread, true), Next::Leave));
}

#[test]
fn a_thread_in_its_hook_keeps_no_closure_and_stands_for_one() {
    let world = World::new(4);
    assert!(matches!(world.submit(0), PendingWake::Start));
    let (worker, _) = world.arrive(0);
    assert!(matches!(world.submit(1), PendingWake::Start));
    assert!(matches!(world.queue.arrive(), PendingWake::Nothing), "it was started for that one");
    let starting = PoolThread::new();
    // Other closures get threads of their own.
    assert!(matches!(world.submit(2), PendingWake::Start));
    assert!(matches!(world.queue.arrive(), PendingWake::Nothing));
    // The first thread that comes takes a closure.
    assert!(matches!(world.takes(&worker, 1), PendingWake::Nothing));
    assert!(matches!(world.takes(&worker, 2), PendingWake::Nothing));
    world.falls_asleep(&worker);
    // An idle thread comes sooner than a thread in its hook.
    assert!(is_wake_of(world.submit(3), &worker));
    assert!(matches!(world.takes(&starting, 3), PendingWake::Nothing));
    world.falls_asleep(&starting);
    world.falls_asleep(&worker);
    assert_eq!(world.queue.counts().threads, 3);
}

#[test]
fn a_thread_that_cannot_be_named_stands_for_no_closure() {
    let world = World::new(3);
    assert!(matches!(world.submit(0), PendingWake::Start));
    let (thread, _) = world.arrive(0);
    world.falls_asleep(&thread);
    // The idle thread comes for the first closure, and fetches a thread for the second one.
    assert!(is_wake_of(world.submit(1), &thread));
    assert!(matches!(world.submit(2), PendingWake::Nothing));
    assert!(matches!(world.takes(&thread, 1), PendingWake::Start));
    assert!(matches!(world.queue.arrive(), PendingWake::Nothing));
    // Another thread is coming when the name fails.
    assert!(matches!(world.submit(3), PendingWake::Start));
    let (pending, failed) = world.queue.refused(Refused::Starting);
    assert!(matches!(pending, PendingWake::Nothing) && failed.is_empty());
    // That one counts for one closure only.
    assert!(matches!(world.queue.arrive(), PendingWake::Start));
    assert!(matches!(world.queue.arrive(), PendingWake::Nothing));
    for threads in [2, 1] {
        let (pending, failed) = world.queue.refused(Refused::Starting);
        assert!(matches!(pending, PendingWake::Nothing) && failed.is_empty(), "a thread works");
        assert_eq!(world.queue.counts().threads, threads);
    }
    assert!(matches!(world.takes(&thread, 2), PendingWake::Start));
    assert!(matches!(world.takes(&thread, 3), PendingWake::Nothing));
    assert!(matches!(world.queue.arrive(), PendingWake::Nothing));
    assert!(matches!(world.queue.refused(Refused::Starting), (PendingWake::Nothing, _)));
    world.falls_asleep(&thread);
    assert!(matches!(world.queue.next(&thread, true), Next::Leave));
    // Without a thread, the closures fail.
    assert!(matches!(world.submit(4), PendingWake::Start));
    assert!(matches!(world.queue.arrive(), PendingWake::Nothing));
    let (_, mut failed) = world.queue.refused(Refused::Starting);
    assert_eq!(failed.pop_front(), Some(world.items.at(4)));
    assert_eq!(world.queue.counts().threads, 0);
}

#[test]
fn a_closure_for_present_threads_starts_none() {
    let world = World::new(2);
    // SAFETY: each closure is submitted once, and `items` outlives the queue's use of them.
    let submit = |closure| unsafe { world.queue.submit_to_present(world.items.at(closure)) };
    assert!(submit(0).is_none(), "there is no thread");
    assert!(matches!(world.submit(1), PendingWake::Start));
    assert!(matches!(submit(2), Some(PendingWake::Nothing)), "one is coming");
    let (thread, pending) = world.arrive(1);
    assert!(matches!(pending, PendingWake::Start));
    assert!(matches!(world.queue.refused(Refused::Coming), (PendingWake::Nothing, _)));
    assert!(matches!(submit(3), Some(PendingWake::Nothing)), "the thread works");
    assert!(matches!(world.takes(&thread, 2), PendingWake::Start));
    assert!(matches!(world.queue.refused(Refused::Coming), (PendingWake::Nothing, _)));
    assert!(matches!(world.takes(&thread, 3), PendingWake::Nothing));
    world.falls_asleep(&thread);
    assert!(submit(4).is_some_and(|pending| is_wake_of(pending, &thread)));
    assert!(world.queue.close().is_empty());
    assert!(submit(5).is_none(), "it is closed");
    assert!(matches!(world.takes(&thread, 4), PendingWake::Nothing));
}

#[test]
fn closures_whose_threads_are_on_their_way_outlive_the_close() {
    let world = World::new(8);
    assert!(matches!(world.submit(0), PendingWake::Start));
    let (working, _) = world.arrive(0);
    assert!(matches!(world.submit(1), PendingWake::Start));
    assert!(matches!(world.queue.arrive(), PendingWake::Nothing));
    let starting = PoolThread::new();
    assert!(matches!(world.submit(2), PendingWake::Start));
    assert!(matches!(world.submit(3), PendingWake::Nothing));
    // One thread is in its hook, one is coming: two closures stay.
    let mut left = world.queue.close();
    assert_eq!(world.items.take(left.pop_front().unwrap()), 3);
    assert!(left.is_empty());
    assert!(matches!(world.takes(&starting, 1), PendingWake::Nothing));
    // Another thread may take a closure, and no thread is fetched in its place.
    assert!(matches!(world.takes(&working, 2), PendingWake::Nothing));
    assert!(matches!(world.queue.arrive(), PendingWake::Nothing));
    for thread in [PoolThread::new(), starting, working] {
        assert!(matches!(world.queue.next(&thread, false), Next::Leave));
    }
    assert_eq!(world.queue.counts().threads, 0);
}

#[test]
fn a_closure_whose_thread_was_refused_after_the_close_is_taken_by_another_or_fails() {
    let world = World::new(2);
    assert!(matches!(world.submit(0), PendingWake::Start));
    let (working, _) = world.arrive(0);
    assert!(matches!(world.submit(1), PendingWake::Start));
    assert!(world.queue.close().is_empty());
    let (pending, failed) = world.queue.refused(Refused::Coming);
    assert!(matches!(pending, PendingWake::Nothing) && failed.is_empty());
    assert!(matches!(world.takes(&working, 1), PendingWake::Nothing));
    assert!(matches!(world.queue.next(&working, false), Next::Leave));

    let world = World::new(2);
    assert!(matches!(world.submit(0), PendingWake::Start));
    assert!(world.queue.close().is_empty());
    let (_, mut failed) = world.queue.refused(Refused::Coming);
    assert_eq!(world.items.take(failed.pop_front().unwrap()), 0);
    assert_eq!(world.queue.counts().threads, 0);
}

#[test]
fn a_closed_crew_refuses_and_everybody_leaves() {
    let world = World::new(2);
    assert!(matches!(world.submit(0), PendingWake::Start));
    let (thread, _) = world.arrive(0);
    world.falls_asleep(&thread);
    assert!(world.queue.close().is_empty());
    assert!(!thread.sleep(None), "it was chosen, to leave");
    assert!(matches!(world.queue.next(&thread, false), Next::Leave));
    // SAFETY: it is refused.
    assert!(unsafe { world.queue.submit(world.items.at(1)) }.is_none());
    assert_eq!(world.queue.counts().threads, 0);
}

#[test]
fn a_thread_sleeps_until_its_keep_alive_time_is_over_or_it_is_chosen() {
    let world = World::new(1);
    assert!(matches!(world.submit(0), PendingWake::Start));
    let (thread, _) = world.arrive(0);
    assert!(!thread.sleep(None), "it works");
    world.falls_asleep(&thread);
    let limit = Duration::from_millis(1);
    let begin = Instant::now();
    assert!(thread.sleep(Some(begin + limit)));
    assert!(begin.elapsed() >= limit);
    // An unpark for nothing.
    thread.wake();
    assert!(thread.sleep(Some(Instant::now() + limit)));
    let PendingWake::Wake(chosen) = world.submit(1) else { panic!("it is idle") };
    assert!(!thread.sleep(Some(Instant::now())), "the choice came first");
    assert!(matches!(world.takes(&chosen, 1), PendingWake::Nothing));
}

#[test]
fn a_wake_ends_the_sleep_of_the_thread_that_was_chosen() {
    let world = World::new(1);
    assert!(matches!(world.submit(0), PendingWake::Start));
    let (sender, receiver) = mpsc::channel();
    let sleeper = std::thread::spawn(move || {
        let thread = PoolThread::new();
        sender.send(thread.clone()).unwrap();
        while thread.state.load(Relaxed) != IDLE {
            std::thread::yield_now();
        }
        sender.send(thread.clone()).unwrap();
        assert!(!thread.sleep(None));
    });
    let thread = receiver.recv().unwrap();
    assert!(matches!(world.queue.arrive(), PendingWake::Nothing));
    assert!(matches!(world.takes(&thread, 0), PendingWake::Nothing));
    world.falls_asleep(&thread);
    receiver.recv().unwrap();
    // Mostly, the thread sleeps by then.
    (0..1_000).for_each(|_| std::thread::yield_now());
    assert!(is_wake_of(world.submit(1), &thread));
    thread.wake();
    sleeper.join().unwrap();
    assert!(matches!(world.takes(&thread, 1), PendingWake::Nothing));
}

#[test]
fn no_idle_thread_is_woken_when_no_closure_is_left() {
    let world = World::new(2);
    assert!(matches!(world.submit(0), PendingWake::Start));
    assert!(matches!(world.submit(1), PendingWake::Nothing));
    let ((first, _), (second, _)) = (world.arrive(0), world.arrive(1));
    [&first, &second].into_iter().for_each(|thread| world.falls_asleep(thread));
    assert!(is_wake_of(world.submit(2), &second));
    assert!(matches!(world.takes(&second, 2), PendingWake::Nothing));
    assert_eq!(world.queue.counts().idle, 1);
}
