use crate::config::Config;
use crate::driver::Driver;
use crate::scheduler::shared::tests::NoThreads;

#[test]
fn an_external_thread_takes_part_in_the_place_of_a_sleeper() {
    let runtime = NoThreads::new(3);
    assert!(runtime.take_external().is_none(), "none sleeps");
    [1, 2].into_iter().for_each(|index| runtime.idle.announce_sleep(index, false));
    let (first, tag) = runtime.take_external().unwrap();
    assert!(first.is_external() && tag.is_external());
    assert_eq!((first.index(), runtime.external.count(), runtime.processors.len()), (3, 1, 4));
    let (second, other_tag) = runtime.take_external().unwrap();
    assert!(second.index() == 4 && tag != other_tag);
    assert_eq!((runtime.extra(), runtime.processors.len()), (0, 5), "no spare worker sleeps");
    // SAFETY: (1) its last use.
    unsafe { runtime.give_external_back(first, false) };
    assert_eq!(runtime.unparked(), []);
    // SAFETY: (1) its last use.
    unsafe { runtime.give_external_back(second, true) };
    assert_eq!((runtime.unparked(), runtime.external.count()), (vec![1], 0), "it has left jobs");
}

#[test]
fn no_external_thread_takes_part_if_the_threads_of_the_runtime_are_special() {
    let config = || Config { is_pool: false, ..Config::of_pool(2) };
    let takes_part = |config| {
        let runtime = NoThreads::of(config, Driver::new(None, None));
        runtime.idle.announce_sleep(1, false);
        runtime.take_external().is_some()
    };
    assert!(takes_part(config()));
    assert!(!takes_part(Config { thread_stack_size: Some(1 << 20), ..config() }));
    assert!(!takes_part(Config { workers: 1, ..config() }));
}
