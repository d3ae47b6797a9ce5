use super::*;
use crate::scheduler::shared::tests::NoThreads;

/// Two permanent workers, one of two places of external threads, two spare workers of three.
fn processors() -> Processors {
    let processors = Processors::new(2, 2, 3, false);
    processors.set_external(1);
    processors.set_spare(2);
    processors
}

#[test]
fn the_indices_go_around_from_any_place() {
    let from = |start| processors().indices().from(start).collect::<Vec<_>>();
    assert_eq!(from(0), [0, 1, 2, 4, 5]);
    assert_eq!(from(2), [2, 4, 5, 0, 1]);
    assert_eq!(from(4), [5, 0, 1, 2, 4]);
    // A place that was chosen while there were more.
    assert_eq!(from(5), [0, 1, 2, 4, 5]);
    assert_eq!(from(usize::MAX), [0, 1, 2, 4, 5]);
}

#[test]
fn a_processor_is_made_once_and_found_by_its_index() {
    let processors = Processors::new(2, 2, 3, true);
    assert_eq!((processors.permanent().len(), processors.len()), (2, 2));
    let mut bound = Vec::new();
    [2, 4, 5, 4].into_iter().for_each(|index| {
        processors.make(index, |job_processor| bound.push(job_processor.index()));
    });
    assert_eq!(bound, [2, 4, 5]);
    processors.set_external(1);
    processors.set_external(0);
    processors.set_spare(2);
    assert_eq!(processors.len(), 5);
    let index_of = |processor: &Processor| processor.job_processor.as_ref().unwrap().index();
    assert_eq!(processors.iter().map(index_of).collect::<Vec<_>>(), [0, 1, 2, 4, 5]);
    let from: Vec<_> = processors.iter_from(3).map(|(index, it)| (index, index_of(it))).collect();
    assert_eq!(from, [(4, 4), (5, 5), (0, 0), (1, 1), (2, 2)]);
    processors.set_spare(1);
    assert_eq!((processors.len(), processors.indices().last()), (4, Some(4)));
}

#[test]
fn a_worker_may_block_if_it_has_said_so_or_is_marked() {
    let processor = Processor::new(None);
    assert!(!processor.may_block());
    processor.blocked_state.say_blocked();
    assert!(processor.may_block());
    processor.blocked_state.say_back();
    processor.marks.store(1, Relaxed);
    assert!(processor.may_block());
}

#[test]
fn a_worker_that_takes_long_is_told_once_and_its_turn_comes_next() {
    let processor = Processor::new(None);
    processor.rounds.store(30, Relaxed);
    assert!(!processor.was_told_long());
    processor.tell_long();
    assert_eq!(processor.rounds.load(Relaxed), 1);
    assert!(processor.was_told_long() && !processor.was_told_long());
}

#[test]
fn what_a_worker_runs_is_known_while_its_tick_is_the_same() {
    let (runtime, processor) = (NoThreads::new(1), Processor::new(None));
    let task = runtime.task();
    processor.metrics.polls.add(7);
    assert_eq!(processor.tick(), 7);
    assert!(processor.at_since(7).is_none());
    processor.polling.begin(&task);
    assert_eq!(processor.at_since(7).unwrap().id.0, task.id());
    assert!(processor.at_since(6).is_none());
    task.cancel();
}

#[test]
fn a_task_in_the_lifo_slot_is_taken_once() {
    let (runtime, slot) = (NoThreads::new(1), LifoSlot::new());
    let [first, second, third] = [(); 3].map(|()| runtime.task());
    let [one, two, three] = [&first, &second, &third].map(|task| task.header());
    // SAFETY: (1) this thread plays the owner, here and below.
    let push = |task| unsafe { slot.push(task) };
    // SAFETY: (1) as above.
    let pop = || unsafe { slot.pop() };
    assert!(pop().is_none() && !slot.is_occupied());
    assert!(push(first).is_none() && slot.is_occupied());
    let displaced = push(second).unwrap();
    assert_eq!(displaced.header(), one);
    assert!(slot.steal(one).is_none(), "another one is there");
    let stolen = slot.steal(two).unwrap();
    assert!(stolen.header() == two && !slot.is_occupied());
    assert!(slot.steal(two).is_none() && pop().is_none());
    assert!(push(third).is_none());
    let popped = pop().unwrap();
    assert!(popped.header() == three && pop().is_none());
    [displaced, stolen, popped].into_iter().for_each(|task| task.cancel());
}

#[test]
fn a_thief_takes_a_task_that_it_has_seen_long_ago_if_the_owner_has_not_moved() {
    let (runtime, processor) = (NoThreads::new(1), Processor::new(None));
    assert!(processor.sight().is_none());
    // SAFETY: (1) this thread plays the owner.
    assert!(unsafe { processor.lifo.push(runtime.task()) }.is_none());
    let ago = |mut sighting: Sighting, time| {
        sighting.at -= time;
        sighting
    };
    let fresh = processor.sight().unwrap();
    let old = ago(fresh, STALE);
    // The sighting is as fresh as this thread is fast.
    assert!(processor.steal_lifo(&ago(fresh, Duration::ZERO)).is_none() || fresh.at.elapsed() >= STALE);
    if !processor.lifo.is_occupied() {
        return;
    }
    processor.metrics.polls.add(1);
    assert!(processor.steal_lifo(&old).is_none(), "the owner has moved");
    let old = ago(processor.sight().unwrap(), STALE);
    processor.steal_lifo(&old).unwrap().cancel();
    assert!(processor.steal_lifo(&old).is_none());
}

#[test]
fn sightings_are_the_same_if_the_task_and_the_tick_are() {
    let (runtime, processor) = (NoThreads::new(1), Processor::new(None));
    let see = || {
        // SAFETY: (1) this thread plays the owner.
        let former = unsafe { processor.lifo.push(runtime.task()) };
        (processor.sight().unwrap(), former)
    };
    let (first, _) = see();
    assert!(first.is_same(&processor.sight().unwrap()));
    let (second, former) = see();
    assert!(!first.is_same(&second), "another task");
    processor.metrics.polls.add(1);
    assert!(!second.is_same(&processor.sight().unwrap()), "the owner has moved");
    former.unwrap().cancel();
    // SAFETY: (1) as above.
    unsafe { processor.lifo.pop() }.unwrap().cancel();
}
