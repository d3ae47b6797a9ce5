//! A locked list: a double-ended queue behind a lock, with a length that is readable without the lock. It is
//! for items that are too rare to need more.
//!
//! It is unbounded, because the maker of each entry has allocated memory for it already, or waits for it.

use std::collections::VecDeque;

use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::AtomicUsize;
use crate::loom::sync::atomic::Ordering::{Relaxed, Release};

/// See the module's docs.
#[derive(Debug)]
pub struct LockedList<T> {
    /// Length of `items`; changed under the lock.
    len: AtomicUsize,
    items: Mutex<VecDeque<T>>,
}

impl<T> LockedList<T> {
    pub fn new() -> Self {
        Self { len: AtomicUsize::new(0), items: Mutex::new(VecDeque::new()) }
    }

    /// Whether the locked list was empty a moment ago.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Relaxed: a thread that must not miss a push has a fence in between.
        self.len.load(Relaxed) == 0
    }

    pub fn push_back(&self, item: T) {
        let mut items = self.items.lock();
        items.push_back(item);
        self.len.store(items.len(), Release);
    }

    /// Takes the oldest item.
    pub fn pop_front(&self) -> Option<T> {
        self.take(VecDeque::pop_front)
    }

    /// Takes the youngest item.
    pub fn pop_back(&self) -> Option<T> {
        self.take(VecDeque::pop_back)
    }

    /// Takes the oldest item that `is_wanted`.
    pub fn take_first(&self, is_wanted: impl FnMut(&T) -> bool) -> Option<T> {
        self.take(|items| {
            let place = items.iter().position(is_wanted)?;
            items.remove(place)
        })
    }

    /// Whether there is an item that `is_wanted`.
    pub fn has(&self, is_wanted: impl FnMut(&T) -> bool) -> bool {
        !self.is_empty() && self.items.lock().iter().any(is_wanted)
    }

    /// Takes the youngest item that `is_wanted`.
    pub fn take_last(&self, is_wanted: impl FnMut(&T) -> bool) -> Option<T> {
        self.take(|items| {
            let place = items.iter().rposition(is_wanted)?;
            items.remove(place)
        })
    }

    fn take(&self, f: impl FnOnce(&mut VecDeque<T>) -> Option<T>) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let mut items = self.items.lock();
        let item = f(&mut items)?;
        self.len.store(items.len(), Release);
        if items.is_empty() && items.capacity() > KEPT {
            // The memory for a peak is freed.
            *items = VecDeque::new();
        }
        Some(item)
    }
}

/// The number of entries for which an empty locked list keeps memory.
const KEPT: usize = 1024;

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::Acquire;
    use std::thread;

    use super::*;
    use crate::queue::intrusive_list::tests::Items;
    use crate::util::joined::joined_scope;

    #[test]
    fn a_list_gives_the_oldest_or_the_youngest() {
        let list = LockedList::new();
        assert!(list.is_empty() && list.pop_front().is_none() && list.pop_back().is_none());
        (0..4).for_each(|value| list.push_back(value));
        assert_eq!((list.pop_front(), list.pop_back()), (Some(0), Some(3)));
        assert!(!list.is_empty());
        assert_eq!((list.pop_front(), list.pop_front(), list.pop_front()), (Some(1), Some(2), None));
        assert!(list.is_empty());
    }

    #[test]
    fn what_is_not_wanted_hides_nothing() {
        let list = LockedList::new();
        [1, 2, 4, 5, 6, 7].into_iter().for_each(|value| list.push_back(value));
        let is_even = |value: &i32| value % 2 == 0;
        assert!(list.has(is_even));
        assert_eq!((list.take_first(is_even), list.take_last(is_even)), (Some(2), Some(6)));
        assert_eq!((list.take_last(is_even), list.take_last(is_even)), (Some(4), None));
        assert!(!list.has(is_even) && list.take_first(is_even).is_none());
        assert_eq!(list.len.load(Relaxed), 3);
        assert_eq!((list.pop_front(), list.pop_back(), list.pop_front()), (Some(1), Some(7), Some(5)));
    }

    #[test]
    fn the_room_for_a_peak_goes_back() {
        let list = LockedList::new();
        (0..2 * KEPT).for_each(|value| list.push_back(value));
        while list.pop_front().is_some() {}
        assert_eq!(list.items.lock().capacity(), 0);
        (0..KEPT / 2).for_each(|value| list.push_back(value));
        while list.pop_front().is_some() {}
        assert!(list.items.lock().capacity() >= KEPT / 2, "a usual amount is kept");
        for (capacity, is_kept) in [(KEPT, true), (KEPT + 1, false)] {
            *list.items.lock() = VecDeque::with_capacity(capacity);
            list.push_back(0);
            assert_eq!((list.pop_front(), list.items.lock().capacity() > 0), (Some(0), is_kept));
        }
    }

    #[test]
    fn each_item_is_taken_once_from_both_ends_under_stress() {
        const ITEMS: usize = 30_000;
        let (items, list, done) = (Items::new(ITEMS), LockedList::new(), AtomicBool::new(false));
        joined_scope(|scope| {
            let takers = [false, false, true].map(|is_young| {
                let (items, list, done) = (&items, &list, &done);
                scope.spawn(move || {
                    // The flag is read first, so that all pushes before it are visible.
                    loop {
                        let is_over = done.load(Acquire);
                        let value = if is_young { list.pop_back() } else { list.pop_front() };
                        match value {
                            Some(value) => _ = items.take(items.at(value)),
                            None if is_over => break,
                            None => thread::yield_now(),
                        }
                    }
                })
            });
            (0..ITEMS).for_each(|value| list.push_back(value));
            done.store(true, Release);
            takers.into_iter().for_each(|taker| taker.join().unwrap());
        });
        assert!(list.is_empty());
        items.assert_all_taken();
    }
}
