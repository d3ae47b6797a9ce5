use super::*;
use crate::Builder;
#[cfg(not(tsan))]
use crate::parallel::{ThreadPoolBuilder, scope};
use crate::parallel::{isolated, join};

/// Calls `f` in a computation on the only seat of a runtime, which has no thieves.
fn on_a_seat(f: fn(&Seat)) {
    let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let computation = runtime.handle().compute(move || {
        // SAFETY: used in this call only.
        f(unsafe { context::seat() }.unwrap());
    });
    runtime.block_on(computation).unwrap();
}

fn youngest(seat: &Seat) -> u32 {
    seat.head() - 1
}

/// A `join` whose first closure calls `f` with `seat`.
fn join_and(seat: &Seat, f: impl Fn(&Seat) + Sync) {
    join(|| f(seat), || ());
}

#[test]
fn a_piece_is_not_taken_for_the_one_that_was_timed_in_its_place() {
    on_a_seat(|seat| {
        seat.left.store(100, Relaxed);
        join_and(seat, |seat| {
            let index = youngest(seat);
            seat.finish();
            // SAFETY: this thread is the owner; nothing was published, and just finished.
            unsafe { seat.deque.note(index) };
            seat.habit(index).timed.set((index, Some(Instant::now())));
            assert!(seat.known_for(index).is_some());
            join_and(seat, |seat| assert_eq!(seat.known_for(youngest(seat)), None));
        });
        join_and(seat, |seat| assert_eq!(seat.known_for(youngest(seat)), None));
    });
}

#[test]
fn a_piece_is_of_the_region_in_which_it_was_pushed() {
    on_a_seat(|seat| {
        let outer = (seat.region().addr(), seat.tag());
        join_and(seat, |seat| {
            isolated(|| {
                let inner = (seat.region().addr(), seat.tag());
                join_and(seat, |seat| {
                    // SAFETY: this thread is the owner.
                    assert!(unsafe { seat.publish_all() });
                    let stolen = [(); 2].map(|()| seat.steal(Tag::NONE).unwrap());
                    // SAFETY: claimed.
                    let regions = stolen.map(|job| (unsafe { job.region() }.addr(), job.tag()));
                    // SAFETY: as above, and this thread is the owner.
                    stolen.iter().for_each(|&job| unsafe { seat.run(job) });
                    assert_eq!(regions, [outer, inner]);
                });
                assert!(inner.0 != 0 && inner.1 != outer.1);
            });
        });
    });
}

// ThreadSanitizer keeps no stack of so many calls.
#[test]
#[cfg(not(tsan))]
fn no_grant_is_longer_than_there_is_room() {
    fn descend(depth: u32) -> u32 {
        // SAFETY: used in this call only.
        let seat = unsafe { context::seat() }.unwrap();
        let left = seat.left.load(Relaxed) as u32;
        assert!(left + seat.head().max(LOOSE_LIMIT) <= DEQUE_CAPACITY as u32, "{left} at {}", seat.head());
        match depth {
            0 => 1,
            _ => join(|| descend(depth - 1), || 1).0 + 1,
        }
    }

    let pool = ThreadPoolBuilder::new().num_threads(1).stack_size(256 << 20).build().unwrap();
    pool.install(|| {
        let depth = DEQUE_CAPACITY as u32 + 2_000;
        assert_eq!(descend(depth), depth + 1);
        scope(|scope| {
            for _ in 0..DEQUE_CAPACITY {
                scope.spawn(|_| ());
            }
            // SAFETY: used in this call only.
            assert_eq!(unsafe { context::seat() }.unwrap().head(), LOOSE_LIMIT);
            assert_eq!(descend(depth), depth + 1);
        });
    });
}

#[test]
fn who_stole_tiny_pieces_stays_away_for_a_while() {
    on_a_seat(|seat| {
        let began = Instant::now();
        for (pieces, began) in [(1, began - Duration::from_secs(1)), (32, began)] {
            seat.batch.set(pieces);
            seat.batch_began.set(Some(began));
            assert!((1..=32).contains(&seat.end_batch()));
            assert!(seat.batch_began.take().is_none());
        }
        // If this thread was slow, the jobs did not count as tiny, and there was no pause.
        let each = began.elapsed() / 32;
        assert!(began.elapsed() >= PAUSE || each.as_nanos() >= TINY, "{each:?}");
    });
}

#[test]
fn a_grant_ends_with_the_work_that_it_was_for() {
    on_a_seat(|seat| {
        seat.left.store(100, Relaxed);
        seat.restart_stride();
        assert_eq!((seat.left.load(Relaxed), seat.stride.left()), (0, 1));
    });
}

#[test]
fn a_grant_that_relies_on_a_public_piece_ends_when_that_is_taken_back() {
    on_a_seat(|seat| {
        join_and(seat, |seat| {
            // SAFETY: this thread is the owner.
            assert!(unsafe { seat.publish_all() });
            seat.rely_on_public(false);
            seat.left.store(100, Relaxed);
            join_and(seat, |_| ());
            assert_eq!(seat.left.load(Relaxed), 99);
        });
        assert_eq!(seat.left.load(Relaxed), 0);
    });
}

#[test]
fn a_thief_that_takes_the_last_public_piece_ends_the_grant() {
    on_a_seat(|seat| {
        join_and(seat, |seat| {
            join_and(seat, |seat| {
                // SAFETY: this thread is the owner.
                assert!(unsafe { seat.publish_all() });
                seat.left.store(100, Relaxed);
                let stolen = [(); 2].map(|()| (seat.steal(seat.tag()).unwrap(), seat.left.load(Relaxed)));
                // SAFETY: claimed, and this thread is the owner.
                stolen.iter().for_each(|&(job, _)| unsafe { seat.run(job) });
                assert_eq!(stolen.map(|(_, left)| left), [100, 0]);
            });
        });
    });
}
