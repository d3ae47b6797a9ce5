//! A FIFO whose links lie in its items. Linking allocates nothing, and a batch of any size moves by its two
//! ends.
//!
//! A link is touched only through the list that holds its item. So the links belong to the thread that has
//! the list, as a value or by the lock around it.

use std::fmt;
use std::mem;
use std::ptr::NonNull;

use crate::loom::cell::UnsafeCell;

/// A type of item that contains a link.
///
/// The type may say that a queued item stands for a right. A thread that pushes the item then has the right,
/// and gives it up. The thread that pops the item gets the right.
///
/// # Safety
/// 1. `next` returns a pointer into `item`, always the same one. 2. The pointer is valid for as long as
///    `item` is. 3. Only the queues read or write what it points to.
pub unsafe trait Linked: Sized {
    /// The place of the link of `item`.
    ///
    /// # Safety
    /// 1. `item` points to a live item. Only the address is computed; no reference is made.
    unsafe fn next(item: NonNull<Self>) -> NonNull<Next<Self>>;
}

/// An item's link: the item behind it. It has no meaning while the item is in no list.
pub struct Next<T>(UnsafeCell<Option<NonNull<T>>>);

impl<T> Next<T> {
    /// The link of an item that is in no list.
    pub fn new() -> Self {
        Self(UnsafeCell::new(None))
    }
}

impl<T> fmt::Debug for Next<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").finish_non_exhaustive()
    }
}

/// Items in the order in which they were pushed.
///
/// Dropping a list leaves its items where they are, in no queue.
pub struct IntrusiveList<T: Linked> {
    /// The oldest and the youngest item: both or none.
    first: Option<NonNull<T>>,
    last: Option<NonNull<T>>,
    /// The number of items from `first` to `last`. Only the link of `last` is `None`. All items are live and
    /// in no other queue, as [`push_back`](Self::push_back) asks.
    len: usize,
}

// SAFETY: a list is two pointers and a number. It touches nothing in an item but the link, which is the
// list's alone. To do more with an item that it returns is unsafe, and justified there.
unsafe impl<T: Linked> Send for IntrusiveList<T> {}

impl<T: Linked> IntrusiveList<T> {
    /// An empty list.
    pub const fn new() -> Self {
        Self { first: None, last: None, len: 0 }
    }

    /// Makes a list of the items of a stack, oldest first. Each item of the stack links to the one pushed
    /// before it; `youngest` is on top.
    ///
    /// # Safety
    /// 1. All items are live, and stay so at their places until they have been popped. 2. They are in no
    ///    queue, their rights ([`Linked`]) are the caller's, and the link of the oldest is `None`.
    pub unsafe fn from_stack(youngest: NonNull<T>) -> Self {
        let (mut first, mut len) = (youngest, 1);
        // SAFETY: by (1) and (2) these are live items of the list that is being made.
        unsafe {
            let mut older = next(youngest);
            set_next(youngest, None);
            while let Some(item) = older {
                older = next(item);
                set_next(item, Some(first));
                first = item;
                len += 1;
            }
        }
        Self { first: Some(first), last: Some(youngest), len }
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Links `item` behind the youngest.
    ///
    /// # Safety
    /// 1. `item` is live, and stays so at its place until it has been popped. 2. It is in no queue, and its
    ///    right ([`Linked`]) is the caller's.
    pub unsafe fn push_back(&mut self, item: NonNull<T>) {
        // SAFETY: by (1) and (2) `item` is a live item of this list.
        unsafe { set_next(item, None) };
        self.append(Self { first: Some(item), last: Some(item), len: 1 });
    }

    /// Links all items of `other`, in their order, behind the youngest.
    pub fn append(&mut self, other: Self) {
        match self.last {
            // SAFETY: `last` is a live item of this list.
            Some(last) if !other.is_empty() => unsafe { set_next(last, other.first) },
            Some(_) => return,
            None => self.first = other.first,
        }
        self.last = other.last;
        self.len += other.len;
    }

    /// Keeps the oldest `kept` items, or all if there are fewer, and returns the others. Takes one step for
    /// each item that it keeps.
    pub fn split_off(&mut self, kept: usize) -> Self {
        let mut oldest = Self::new();
        while oldest.len < kept {
            let Some(item) = self.pop_front() else { break };
            // SAFETY: the item was in this list, so it is live until it is popped for good. It was just
            // unlinked.
            unsafe { oldest.push_back(item) };
        }
        mem::replace(self, oldest)
    }

    /// Unlinks the oldest item and returns it.
    pub fn pop_front(&mut self) -> Option<NonNull<T>> {
        let first = self.first?;
        // SAFETY: by the invariant of the fields, `first` is live and its link is this list's.
        self.first = unsafe { next(first) };
        if self.first.is_none() {
            self.last = None;
        }
        self.len -= 1;
        Some(first)
    }
}

impl<T: Linked> fmt::Debug for IntrusiveList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntrusiveList").field("len", &self.len).finish_non_exhaustive()
    }
}

/// Links `next` behind `item`.
///
/// # Safety
/// 1. `item` is live. 2. It is in a list that the caller has, or on its way into such a list.
pub unsafe fn set_next<T: Linked>(item: NonNull<T>, next: Option<NonNull<T>>) {
    // SAFETY: by (1) the link's place may be computed, and the link lives. By (2) no other thread touches it.
    unsafe { T::next(item).as_ref().0.with_mut(|link| *link = next) };
}

/// The item behind `item`.
///
/// # Safety
/// As [`set_next`].
pub unsafe fn next<T: Linked>(item: NonNull<T>) -> Option<NonNull<T>> {
    // SAFETY: as in `set_next`.
    unsafe { T::next(item).as_ref().0.with(|next| *next) }
}

/// The items that the tests of all queues push.
#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::loom::sync::atomic::{AtomicU32, Ordering::Relaxed};

    #[derive(Debug)]
    pub struct Item {
        pub value: usize,
        taken: AtomicU32,
        next: Next<Item>,
    }

    // SAFETY: the link is a field of the item, and private to this module, which touches it nowhere else.
    unsafe impl Linked for Item {
        unsafe fn next(item: NonNull<Self>) -> NonNull<Next<Self>> {
            // SAFETY: the caller guarantees that `item` is live.
            unsafe { NonNull::new_unchecked(&raw mut (*item.as_ptr()).next) }
        }
    }

    /// Items that outlive the queues of a test. Each counts how often it is taken.
    #[derive(Debug)]
    pub struct Items(Vec<NonNull<Item>>);

    // SAFETY: threads share an item's value, which never changes, and an atomic. The link belongs to the
    // queues.
    unsafe impl Send for Items {}
    // SAFETY: as above.
    unsafe impl Sync for Items {}

    impl Items {
        pub fn new(count: usize) -> Self {
            let item = |value| Box::new(Item { value, taken: AtomicU32::new(0), next: Next::new() });
            Self((0..count).map(|value| NonNull::from(Box::leak(item(value)))).collect())
        }

        pub fn at(&self, value: usize) -> NonNull<Item> {
            self.0[value]
        }

        /// Notes that `item` left a queue, and returns its value.
        pub fn take(&self, item: NonNull<Item>) -> usize {
            // SAFETY: items live as long as `self`; only shared references are made.
            let item = unsafe { item.as_ref() };
            assert_eq!(item.taken.fetch_add(1, Relaxed), 0, "item {} was taken twice", item.value);
            item.value
        }

        pub fn assert_all_taken(&self) {
            for item in &self.0 {
                // SAFETY: as in `take`.
                let item = unsafe { item.as_ref() };
                assert_eq!(item.taken.load(Relaxed), 1, "item {} was lost", item.value);
            }
        }
    }

    impl Drop for Items {
        fn drop(&mut self) {
            for item in self.0.drain(..) {
                // SAFETY: leaked in `new`, and freed only here.
                drop(unsafe { Box::from_raw(item.as_ptr()) });
            }
        }
    }

    #[test]
    fn a_chain_keeps_the_order_through_pushes_appends_and_pops() {
        let items = Items::new(7);
        let (mut chain, mut other) = (IntrusiveList::new(), IntrusiveList::new());
        for value in 0..7 {
            let half = if value < 4 { &mut chain } else { &mut other };
            // SAFETY: `items` outlives both chains, and each item is pushed once.
            unsafe { half.push_back(items.at(value)) };
        }
        assert_eq!(chain.pop_front().map(|item| items.take(item)), Some(0));
        chain.append(IntrusiveList::new());
        chain.append(other);
        assert_eq!(chain.len(), 6);
        for value in 1..7 {
            assert_eq!(chain.pop_front().map(|item| items.take(item)), Some(value));
        }
        assert!(chain.is_empty() && chain.pop_front().is_none());
        items.assert_all_taken();
    }

    #[test]
    fn a_chain_is_split_behind_the_oldest_items_that_it_keeps() {
        const ITEMS: usize = 4;
        for kept in 0..ITEMS + 2 {
            let items = Items::new(ITEMS);
            let mut chain = IntrusiveList::new();
            // SAFETY: `items` outlives the chain, and each item is pushed once.
            (0..ITEMS).for_each(|value| unsafe { chain.push_back(items.at(value)) });
            let mut rest = chain.split_off(kept);
            assert_eq!((chain.len(), rest.len()), (kept.min(ITEMS), ITEMS.saturating_sub(kept)));
            for value in 0..ITEMS {
                let from = if value < kept { &mut chain } else { &mut rest };
                assert_eq!(from.pop_front().map(|item| items.take(item)), Some(value));
            }
            assert!(chain.pop_front().is_none() && rest.pop_front().is_none());
        }
    }

    #[test]
    fn a_chain_that_ran_empty_is_as_good_as_new() {
        let items = Items::new(2);
        let mut chain = IntrusiveList::new();
        // SAFETY: `items` outlives the chain, and each item is pushed while in no chain.
        unsafe {
            // The first round leaves a link from 0 to 1 behind. The second round must not follow it.
            for round in [&[0, 1][..], &[0], &[1, 0], &[1]] {
                for &value in round {
                    chain.push_back(items.at(value));
                }
                for &value in round {
                    assert_eq!(chain.pop_front(), Some(items.at(value)));
                }
                assert_eq!((chain.pop_front(), chain.len()), (None, 0));
            }
            let mut batch = IntrusiveList::new();
            batch.push_back(items.at(1));
            chain.append(batch);
            chain.push_back(items.at(0));
        }
        assert_eq!(chain.pop_front(), Some(items.at(1)));
        assert_eq!(chain.pop_front(), Some(items.at(0)));
        assert_eq!(chain.pop_front(), None);
    }
}
