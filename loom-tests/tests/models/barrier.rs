//! Barrier: no task goes on before all have come, all see what each did before, and no task is forgotten,
//! even if one of them leaves.
//!
//! Bounds: two threads that meet four times; or a group of three, of which one task leaves.

use std::sync::Arc as StdArc;

use loom::cell::UnsafeCell;
use loom::future::block_on;
use loom::sync::Arc;
use runtime::sync::Barrier;

use super::flag::{Flag, poll};
use super::once_built::{model, thread};

#[test]
fn what_was_done_before_is_seen_after_by_both() {
    model(|| {
        let barrier = StdArc::new(Barrier::new(2));
        let cells = Arc::new([UnsafeCell::new(0), UnsafeCell::new(0)]);
        let meet = |barrier: StdArc<Barrier>, cells: Arc<[UnsafeCell<usize>; 2]>, mine: usize| {
            let mut leads = 0;
            for round in 1..=2 {
                // SAFETY: each thread writes its own cell before one barrier, and the other thread reads that
                // cell between this barrier and the next.
                cells[mine].with_mut(|cell| unsafe { *cell = round });
                leads += usize::from(block_on(barrier.wait()).is_leader());
                // SAFETY: as above.
                assert_eq!(cells[1 - mine].with(|cell| unsafe { *cell }), round);
                leads += usize::from(block_on(barrier.wait()).is_leader());
            }
            leads
        };
        let (theirs, their_cells) = (barrier.clone(), cells.clone());
        let other = thread::spawn(move || meet(theirs, their_cells, 1));
        let leads = meet(barrier, cells, 0);
        assert_eq!(leads + other.join().unwrap(), 4, "one leads each group");
    });
}

#[test]
fn one_that_leaves_still_counts() {
    model(|| {
        let barrier = StdArc::new(Barrier::new(3));
        let mut leaving = Box::pin(barrier.wait());
        let mut staying = Box::pin(barrier.wait());
        let flag = Flag::new();
        assert!(poll(leaving.as_mut(), &Flag::new()).is_pending());
        assert!(poll(staying.as_mut(), &flag).is_pending());
        let theirs = barrier.clone();
        let last = thread::spawn(move || assert!(block_on(theirs.wait()).is_leader()));
        drop(leaving);
        last.join().unwrap();
        assert!(flag.is_set(), "lost wake");
        assert!(poll(staying.as_mut(), &flag).is_ready());
    });
}

mod twins {
    use loom::sync::Mutex;
    use loom::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::{AcqRel, Relaxed};

    use super::*;

    #[derive(Clone, Copy, PartialEq)]
    enum Bug {
        None,
        CountsUnlocked,
    }

    /// A barrier for two, with a list of flags for waiters.
    struct Twin {
        bug: Bug,
        arrivals: AtomicUsize,
        waiters: Mutex<Vec<StdArc<Flag>>>,
    }

    impl Twin {
        /// True for the leader; else `flag` is in the list.
        fn wait(&self, flag: &StdArc<Flag>) -> bool {
            let arrive = |ordering| self.arrivals.fetch_add(1, ordering) % 2 == 1;
            let mut is_last = self.bug == Bug::CountsUnlocked && arrive(AcqRel);
            let mut waiters = self.waiters.lock().unwrap();
            if self.bug != Bug::CountsUnlocked {
                is_last = arrive(Relaxed);
            }
            if is_last {
                waiters.drain(..).for_each(|flag| std::task::Waker::from(flag).wake());
            } else {
                waiters.push(flag.clone());
            }
            is_last
        }
    }

    fn check(bug: Bug) {
        model(move || {
            let twin = Arc::new(Twin { bug, arrivals: AtomicUsize::new(0), waiters: Mutex::new(Vec::new()) });
            let (mine, other) = (Flag::new(), Flag::new());
            let (theirs, their_flag) = (twin.clone(), other.clone());
            let thread = thread::spawn(move || theirs.wait(&their_flag));
            let i_lead = twin.wait(&mine);
            let they_lead = thread.join().unwrap();
            assert_ne!(i_lead, they_lead);
            assert!((i_lead || mine.is_set()) && (they_lead || other.is_set()), "lost wake");
        });
    }

    #[test]
    fn the_twin_without_a_bug_passes() {
        check(Bug::None);
    }

    #[test]
    #[should_panic(expected = "lost wake")]
    fn an_arrival_that_counts_before_it_has_the_lock_is_found() {
        check(Bug::CountsUnlocked);
    }
}
