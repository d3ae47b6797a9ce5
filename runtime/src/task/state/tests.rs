//! Each transition, from every value of the word that it may meet.

use super::*;

const FLAGS: [usize; 6] = [SCHEDULED, NOTIFIED, DONE, CANCELLED, JOIN, JOIN_WAKER];

/// Each combination of the flags, with `references` references.
fn words(references: usize) -> impl Iterator<Item = usize> {
    (0..1 << FLAGS.len()).map(move |combination| {
        let flags = FLAGS.into_iter().enumerate().filter(move |(i, _)| combination >> i & 1 == 1);
        flags.fold(references * REFERENCE, |word, (_, flag)| word + flag)
    })
}

fn has(word: usize, flag: usize) -> bool {
    word / flag % 2 == 1
}

/// `word` with `flag` set.
fn with(word: usize, flag: usize) -> usize {
    if has(word, flag) { word } else { word + flag }
}

/// `word` with `flag` clear.
fn without(word: usize, flag: usize) -> usize {
    if has(word, flag) { word - flag } else { word }
}

/// Does `transition` at `word`. Returns its result and the next word.
fn after<R>(word: usize, transition: impl FnOnce(&State) -> R) -> (R, usize) {
    let state = State(AtomicUsize::new(word));
    let result = transition(&state);
    (result, state.load().0)
}

#[test]
fn each_flag_has_a_bit_of_its_own_below_the_count_of_references() {
    assert!(FLAGS.iter().all(|flag| flag.count_ones() == 1));
    assert_eq!(FLAGS.iter().sum::<usize>(), REFERENCE - 1);
    let all = State(AtomicUsize::new(4 * REFERENCE - 1));
    let names = "SCHEDULED NOTIFIED DONE CANCELLED JOIN JOIN_WAKER references=3";
    assert_eq!((format!("{all:?}"), format!("{:?}", all.load())), (names.into(), names.into()));
    assert_eq!(format!("{:?}", State(AtomicUsize::new(0))), "references=0");
}

#[test]
fn a_snapshot_tells_each_flag_and_the_number_of_references() {
    for word in words(5) {
        let snapshot = Snapshot(word);
        assert_eq!(snapshot.is_scheduled(), has(word, SCHEDULED), "{snapshot:?}");
        assert_eq!(snapshot.is_done(), has(word, DONE), "{snapshot:?}");
        assert_eq!(snapshot.is_cancelled(), has(word, CANCELLED), "{snapshot:?}");
        assert_eq!(snapshot.has_join(), has(word, JOIN), "{snapshot:?}");
        assert_eq!(snapshot.has_join_waker(), has(word, JOIN_WAKER), "{snapshot:?}");
        assert_eq!(snapshot.references(), 5, "{snapshot:?}");
    }
}

#[test]
fn a_newborn_task_is_scheduled_and_has_a_handle_and_the_references_asked_for() {
    for more in [0, 1, 32] {
        let born = State::with_references(more).load();
        assert_eq!(format!("{born:?}"), format!("SCHEDULED JOIN references={}", 2 + more));
    }
}

#[test]
fn a_poll_forgets_the_wakes_before_it_and_obeys_a_cancellation() {
    for word in words(2).filter(|&word| has(word, SCHEDULED) && !has(word, DONE)) {
        let start = if has(word, CANCELLED) { Start::Cancel } else { Start::Poll };
        assert_eq!(after(word, State::start_poll), (start, without(word, NOTIFIED)), "{:?}", Snapshot(word));
    }
}

#[test]
fn a_task_is_idle_after_its_poll_unless_it_was_woken_or_cancelled_meanwhile() {
    for word in words(2).filter(|&word| has(word, SCHEDULED) && !has(word, DONE)) {
        let expected = match (has(word, CANCELLED), has(word, NOTIFIED)) {
            (true, _) => (AfterPoll::Cancel, word),
            (false, true) => (AfterPoll::Requeue, word),
            (false, false) => (AfterPoll::Idle, word - SCHEDULED),
        };
        assert_eq!(after(word, State::finish_pending), expected, "{:?}", Snapshot(word));
    }
}

#[test]
fn the_first_wake_of_an_idle_task_schedules_it_and_later_wakes_notify() {
    for word in words(2) {
        let expected = match (has(word, DONE), has(word, SCHEDULED)) {
            (true, _) => (false, word),
            (false, true) => (false, with(word, NOTIFIED)),
            (false, false) => (true, word + SCHEDULED),
        };
        assert_eq!(after(word, State::wake_by_ref), expected, "{:?}", Snapshot(word));
    }
}

#[test]
fn a_wake_by_value_drops_its_reference_in_the_same_step() {
    for (references, word) in [1, 2, 3].into_iter().flat_map(|n| words(n).map(move |word| (n, word))) {
        let less = word - REFERENCE;
        let expected = match (has(word, DONE), has(word, SCHEDULED)) {
            (true, _) if references == 1 => (AfterWake::Free, less),
            (true, _) => (AfterWake::Nothing, less),
            (false, true) => (AfterWake::Nothing, with(less, NOTIFIED)),
            (false, false) => (AfterWake::Schedule, less + SCHEDULED),
        };
        assert_eq!(after(word, State::wake_by_value), expected, "{:?}", Snapshot(word));
    }
}

#[test]
fn a_task_is_cancelled_once_and_by_its_canceller_only_if_it_was_idle() {
    for word in words(2) {
        let expected = match (has(word, DONE) || has(word, CANCELLED), has(word, SCHEDULED)) {
            (true, _) => (false, word),
            (false, true) => (false, word + CANCELLED),
            (false, false) => (true, word + CANCELLED + SCHEDULED),
        };
        assert_eq!(after(word, State::cancel), expected, "{:?}", Snapshot(word));
    }
}

#[test]
fn a_completion_drops_the_reserved_references_and_that_of_the_life_unless_a_join_waker_is_set() {
    for word in words(4).filter(|&word| has(word, SCHEDULED) && !has(word, DONE)) {
        for reserved in 0..4 {
            let dropped = reserved + usize::from(!has(word, JOIN_WAKER));
            let next = without(word, NOTIFIED) - SCHEDULED + DONE - dropped * REFERENCE;
            let completed = after(word, |state| state.try_complete(Snapshot(word), reserved).ok());
            assert_eq!(completed, (Some(dropped == 4), next), "{reserved} reserved: {:?}", Snapshot(word));
        }
    }
}

#[test]
fn a_completion_fails_if_the_word_is_not_what_was_seen() {
    let (seen, word) = (SCHEDULED + JOIN + 2 * REFERENCE, SCHEDULED + 2 * REFERENCE);
    let completed = after(word, |state| state.try_complete(Snapshot(seen), 0).err().map(|now| now.0));
    assert_eq!(completed, (Some(word), word));
}

#[test]
fn the_join_waker_is_set_and_unset_until_the_task_is_done() {
    for word in words(2) {
        let is_done = has(word, DONE);
        if !has(word, JOIN_WAKER) {
            let next = if is_done { word } else { word + JOIN_WAKER };
            assert_eq!(after(word, State::set_join_waker), (!is_done, next), "{:?}", Snapshot(word));
        }
        let next = if is_done { word } else { without(word, JOIN_WAKER) };
        assert_eq!(after(word, State::unset_join_waker), (!is_done, next), "{:?}", Snapshot(word));
    }
}

#[test]
fn a_handle_that_goes_leaves_the_output_or_a_waker_to_its_thread_or_else_drops_its_reference() {
    for word in words(3) {
        let next = without(without(word, JOIN), JOIN_WAKER);
        let expected = match (has(word, DONE), has(word, JOIN_WAKER)) {
            (true, _) => (AfterDetach::DropOutput, word),
            (false, true) => (AfterDetach::DropWaker, next),
            (false, false) => (AfterDetach::Nothing, next - REFERENCE),
        };
        assert_eq!(after(word, State::detach), expected, "{:?}", Snapshot(word));
    }
}

#[test]
fn references_are_counted_and_the_last_one_that_is_dropped_is_told() {
    for word in words(1) {
        assert_eq!(after(word, State::add_reference).1, word + REFERENCE);
        for count in [0, 1, 2, 32] {
            assert_eq!(after(word, |state| state.add_references(count)).1, word + count * REFERENCE);
        }
        let last = after(word, State::drop_reference);
        assert_eq!(last, (true, word), "the word of the last one is not written: {:?}", Snapshot(word));
        for more in 1..4 {
            let (word, next) = (word + more * REFERENCE, word + (more - 1) * REFERENCE);
            assert_eq!(after(word, State::drop_reference), (false, next), "{:?}", Snapshot(word));
        }
    }
}

#[test]
fn half_of_the_word_is_room_for_references() {
    let most = usize::MAX / 2;
    assert_eq!(after(most, State::add_reference).1, most + REFERENCE);
}
