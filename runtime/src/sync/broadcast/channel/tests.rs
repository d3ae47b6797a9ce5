use super::*;

/// A channel for `capacity` values with one receiver, to which `count` values were sent.
fn channel_of(capacity: usize, count: usize) -> Channel<usize> {
    let channel = Channel::new(capacity, 1).unwrap();
    (0..count).for_each(|n| assert_eq!(channel.send(n), Ok(1)));
    channel
}

#[test]
fn only_a_receiver_that_has_seen_all_may_wait() {
    for count in 0..5 {
        let channel = channel_of(8, count);
        for position in 0..count {
            assert!(channel.waiters_for(position).is_none());
        }
        assert!(channel.waiters_for(count).is_some(), "{count} values");
        // The mark that a receiver may wait is set now.
        assert!(channel.waiters_for(count).is_some());
        channel.send(7).unwrap();
        assert!(channel.waiters_for(count).is_none() && channel.waiters_for(count + 1).is_some());
        channel.close();
        assert!(channel.waiters_for(count + 1).is_none(), "it is told of the end");
    }
}

#[test]
fn a_receiver_that_finds_nothing_learns_why() {
    for count in 0..5 {
        let channel = channel_of(2, count);
        assert_eq!(channel.explain(count, Missing::NotYet), Nothing::Empty);
        assert_eq!(channel.explain(count, Missing::Busy), Nothing::Busy);
        for position in 0..count {
            // The value came after the look.
            assert_eq!(channel.explain(position, Missing::NotYet), Nothing::Busy);
        }
        if count > 2 {
            let (missed, oldest) = (count - 2, count - 2);
            assert_eq!(channel.explain(0, Missing::Overwritten), Nothing::Lagged { missed, oldest });
            assert_eq!(
                channel.explain(oldest - 1, Missing::Overwritten),
                Nothing::Lagged { missed: 1, oldest }
            );
        }
        channel.close();
        assert_eq!(channel.explain(count, Missing::NotYet), Nothing::Closed);
        if count > 0 {
            assert_eq!(
                channel.explain(count - 1, Missing::NotYet),
                Nothing::Busy,
                "the last value comes first"
            );
        }
        assert_eq!(channel.end(), count);
    }
}

#[test]
fn a_receiver_begins_with_the_next_value_and_takes_its_share_of_the_others_along() {
    let channel = channel_of(4, 3);
    assert_eq!((channel.subscribe(), channel.receivers()), (3, 2));
    assert_eq!((channel.send(3), channel.subscribe(), channel.receivers()), (Ok(2), 4, 3));
    assert_eq!(channel.len(), 4);
    channel.unsubscribe(3);
    assert_eq!((channel.receivers(), channel.len()), (2, 4), "the first receiver has still to take it");
    channel.unsubscribe(0);
    assert_eq!((channel.receivers(), channel.len()), (1, 0));
    channel.unsubscribe(4);
    assert_eq!((channel.receivers(), channel.send(4)), (0, Err(4)));
}

#[test]
fn the_length_is_that_of_the_values_that_a_receiver_has_still_to_take() {
    for capacity in [1, 2, 8] {
        for count in 0..20 {
            let channel = channel_of(capacity, count);
            let kept = count.min(capacity);
            for left in (0..=kept).rev() {
                assert_eq!(channel.len(), left, "{kept} of {count} values, {capacity} at most");
                if left > 0 {
                    assert_eq!(channel.ring.lock(count - left).unwrap().count_down(), Some(count - left));
                }
            }
        }
    }
}
