use std::sync::mpsc;
use std::thread;

use super::*;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::util::joined::joined_scope;
use crate::util::thread_probe::ThreadProbe;

/// The number of no thread: there are fewer numbers.
const NO_THREAD: i32 = 1 << 23;

/// A processor whose owner is awake, and of whose thread the system knows nothing.
fn awake() -> Processor {
    let processor = Processor::new(None);
    processor.thread.store(NO_THREAD, Relaxed);
    processor.metrics.thread_begins();
    assert!(!is_asleep(&processor));
    processor
}

/// Makes the calling thread the owner.
fn adopt(processor: &Processor) {
    processor.thread.store(ThreadProbe::current().to_raw(), Relaxed);
}

/// What three looks see: at once, a moment later, and after `time`.
fn observed(processor: &Processor, work: impl FnOnce(), time: Duration) -> Watched {
    let start = Instant::now();
    let mut watch = Watched::new(moves_of(processor), start);
    watch.observe(processor, start);
    work();
    watch.observe(processor, start + time);
    watch
}

#[test]
fn polls_sleeps_and_looks_are_moves() {
    let processor = awake();
    let before = moves_of(&processor);
    processor.metrics.polls.add(1);
    processor.metrics.looks.add(10);
    processor.metrics.sleep_changes.add(100);
    assert_eq!(moves_of(&processor) - before, 111);
}

#[test]
fn a_worker_is_asleep_between_two_changes() {
    let processor = awake();
    let asleep = || {
        processor.metrics.sleep_changes.add(1);
        is_asleep(&processor)
    };
    assert_eq!([(); 4].map(|()| asleep()), [true, false, true, false]);
}

#[test]
fn a_worker_that_moves_or_sleeps_is_not_still() {
    let processor = awake();
    let start = Instant::now();
    let mut watch = Watched::new(moves_of(&processor), start);
    let after = |millis| start + Duration::from_millis(millis);
    watch.observe(&processor, start);
    watch.observe(&processor, after(100));
    assert!(watch.still == 2 && watch.is_stuck);
    processor.metrics.polls.add(1);
    watch.observe(&processor, after(200));
    assert!(watch.still == 0 && !watch.is_stuck);
    watch.observe(&processor, after(300));
    assert_eq!((watch.still, watch.tick, watch.is_stuck), (1, processor.tick(), false));
    processor.metrics.sleep_changes.add(1);
    watch.observe(&processor, after(400));
    watch.observe(&processor, after(500));
    watch.observe(&processor, after(600));
    assert!(watch.still == 0 && !watch.is_stuck);
}

#[test]
fn a_worker_is_stuck_after_two_looks_and_some_time() {
    let processor = awake();
    let nearly = STUCK - Duration::from_nanos(1);
    assert!(!observed(&processor, || (), nearly).is_stuck);
    let watch = observed(&processor, || (), STUCK);
    assert!(watch.is_stuck && watch.is_held && !watch.is_starved && !watch.is_off_cpu, "no system says more");
    let start = Instant::now();
    let mut watch = Watched::new(moves_of(&processor), start);
    watch.observe(&processor, start + STUCK);
    assert!(!watch.is_stuck, "one look");
}

#[test]
fn a_call_that_blocks_makes_a_worker_stuck_at_once_but_not_held() {
    let processor = awake();
    processor.marks.store(1, Relaxed);
    let watch = observed(&processor, || (), Duration::ZERO);
    assert!(watch.is_stuck && watch.is_blocked() && !watch.is_held);
    assert_eq!(watch.held_for(Instant::now() + STUCK), Duration::ZERO);
    let watch = observed(&processor, || processor.marks.store(0, Relaxed), STUCK);
    assert!(watch.is_stuck && !watch.is_blocked() && !watch.is_held, "it is back only now");
}

/// Keeps the calling thread at work until it has had `time` of a CPU.
#[cfg(target_os = "linux")]
fn compute(time: Duration) {
    let cpu_time = || ThreadProbe::current().cpu_time().expect("the system says");
    let before = cpu_time();
    while cpu_time() - before < time {
        std::hint::spin_loop();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_worker_that_is_runnable_and_gets_next_to_no_cpu_is_starved_and_not_stuck() {
    let processor = awake();
    adopt(&processor);
    let watch = observed(&processor, || (), Duration::from_secs(1));
    assert!(watch.is_starved && !watch.is_stuck && !watch.is_held);
    // It has announced that it may block, so it wants no CPU.
    processor.marks.store(1, Relaxed);
    let watch = observed(&processor, || (), Duration::from_secs(1));
    assert!(!watch.is_starved && watch.is_stuck);
}

#[test]
#[cfg(target_os = "linux")]
fn a_worker_that_had_enough_of_a_cpu_or_its_share_is_stuck() {
    let processor = awake();
    adopt(&processor);
    let watch = observed(&processor, || compute(ENOUGH), Duration::from_secs(1));
    assert!(watch.is_stuck && watch.is_held && !watch.is_starved && !watch.is_off_cpu, "enough");
    let watch = observed(&processor, || compute(STUCK / 2), STUCK);
    assert!(watch.is_stuck && watch.is_held && !watch.is_starved && !watch.is_off_cpu, "its share");
}

/// What is seen of a thread that waits, and before has computed for `computes`.
#[cfg(target_os = "linux")]
fn observed_in_wait(computes: Duration, time: Duration) -> Watched {
    let processor = awake();
    joined_scope(|scope| {
        let (begins, has_begun) = mpsc::channel();
        let (goes_on, has_to_go_on) = mpsc::channel();
        let (end, has_ended) = mpsc::channel::<()>();
        let adopted = &processor;
        scope.spawn(move || {
            adopt(adopted);
            begins.send(()).unwrap();
            _ = has_to_go_on.recv();
            compute(computes);
            begins.send(()).unwrap();
            _ = has_ended.recv();
        });
        has_begun.recv().unwrap();
        let work = || {
            goes_on.send(()).unwrap();
            has_begun.recv().unwrap();
            while processor.probe().is_runnable() {
                thread::yield_now();
            }
        };
        let watch = observed(&processor, work, time);
        drop(end);
        watch
    })
}

#[test]
#[cfg(target_os = "linux")]
fn a_worker_that_waits_for_something_is_stuck_and_off_its_cpu() {
    let watch = observed_in_wait(Duration::ZERO, Duration::from_secs(1));
    assert!(watch.is_stuck && watch.is_held && watch.is_off_cpu && !watch.is_starved);
    let watch = observed_in_wait(STUCK, STUCK);
    assert!(watch.is_held && !watch.is_off_cpu, "it has computed until now");
}

#[test]
#[cfg(target_os = "linux")]
fn a_sample_tells_the_cpu_time_since() {
    let processor = awake();
    assert!(Sample::begin(3, &processor).cpu_time_since(&processor).is_none(), "there is no thread");
    adopt(&processor);
    processor.metrics.polls.add(5);
    let sample = Sample::begin(3, &processor);
    assert_eq!((sample.index, sample.tick), (3, 5));
    compute(Duration::from_millis(1));
    assert!(sample.cpu_time_since(&processor).unwrap() >= Duration::from_millis(1));
}

#[test]
fn samples_are_counted_by_what_they_show() {
    let mut counts = Counts::default();
    counts.count(true, true, true);
    counts.count(true, true, false);
    counts.count(true, false, false);
    assert_eq!((counts.still, counts.long, counts.computing), (3, 2, 1));
}
