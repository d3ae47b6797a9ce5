//! An intrusive doubly linked list: the links live in the nodes, so that linking allocates nothing and a node
//! can leave from the middle.
//!
//! The list owns no node. The caller that links a node keeps it alive and in place until it has been
//! unlinked. The list's users guard list and links by one lock (or one thread).

use std::fmt;
use std::marker::{PhantomData, PhantomPinned};
use std::ptr::NonNull;

use crate::loom::cell::UnsafeCell;

/// Says where in a node its links are.
///
/// # Safety
/// 1. `links` returns a pointer into `node`, always the same one. 2. It is valid for as long as `node` is.
pub unsafe trait Link {
    /// The type of the linked nodes.
    type Node;

    /// # Safety
    /// 1. `node` points to a live node. Only the address is computed; no reference is made.
    unsafe fn links(node: NonNull<Self::Node>) -> NonNull<Links<Self::Node>>;
}

/// A node's links. Read and written only under the lock of its list.
///
/// Not `Unpin`, because the neighbours point to the links.
pub struct Links<T> {
    inner: UnsafeCell<Inner<T>>,
    _pinned: PhantomPinned,
}

struct Inner<T> {
    prev: Option<NonNull<T>>,
    next: Option<NonNull<T>>,
}

impl<T> Links<T> {
    pub fn new() -> Self {
        Self { inner: UnsafeCell::new(Inner { prev: None, next: None }), _pinned: PhantomPinned }
    }
}

impl<T> fmt::Debug for Links<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Links").finish_non_exhaustive()
    }
}

/// The list's two ends.
pub struct List<L: Link> {
    head: Option<NonNull<L::Node>>,
    tail: Option<NonNull<L::Node>>,
    len: usize,
    marker: PhantomData<fn() -> L>,
}

// SAFETY: the list is two pointers and a number. Only unsafe methods touch what the pointers point to, and
// their callers guarantee that this is allowed.
unsafe impl<L: Link> Send for List<L> {}
// SAFETY: as above. The `&self` methods do not follow a pointer.
unsafe impl<L: Link> Sync for List<L> {}

impl<L: Link> List<L> {
    pub const fn new() -> Self {
        Self { head: None, tail: None, len: 0, marker: PhantomData }
    }

    pub fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The node that [`pop_front`](Self::pop_front) would return.
    pub fn front(&self) -> Option<NonNull<L::Node>> {
        self.head
    }

    /// The last node.
    pub fn back(&self) -> Option<NonNull<L::Node>> {
        self.tail
    }

    /// Links `node` as the last.
    ///
    /// # Safety
    /// 1. `node` is live and stays so, at its place, until it is unlinked. 2. It is in no list. 3. No other
    ///    code touches the links of the list's nodes meanwhile.
    #[inline]
    pub unsafe fn push_back(&mut self, node: NonNull<L::Node>) {
        // SAFETY: by (1), `node` is live; by (2) and (3), its links and those of the neighbours are ours.
        unsafe {
            *inner::<L>(node) = Inner { prev: self.tail, next: None };
            match self.tail {
                Some(tail) => (*inner::<L>(tail)).next = Some(node),
                None => self.head = Some(node),
            }
        }
        self.tail = Some(node);
        self.len += 1;
    }

    /// Unlinks and returns the first node.
    ///
    /// # Safety
    /// 1. No other code touches the links of the list's nodes meanwhile.
    pub unsafe fn pop_front(&mut self) -> Option<NonNull<L::Node>> {
        let node = self.head?;
        // SAFETY: (1) and (2) `node` is in this list, so it is live. (3) By our (1).
        unsafe { self.remove(node) };
        Some(node)
    }

    /// Unlinks `node`, which is in this list, and leaves its links as they are. It is for lists whose users
    /// know from elsewhere whether a node is linked.
    ///
    /// # Safety
    /// 1. `node` is live. 2. It is in this list. 3. No other code touches the links of the list's nodes
    ///    meanwhile.
    #[inline]
    pub unsafe fn remove_linked(&mut self, node: NonNull<L::Node>) {
        // SAFETY: by (1) and (3) the links may be read. By (2) the neighbours are in this list, so they are
        // live, and by (3) they are ours to write.
        unsafe {
            let &Inner { prev, next } = &*inner::<L>(node);
            match prev {
                Some(prev) => (*inner::<L>(prev)).next = next,
                None => {
                    debug_assert!(self.head == Some(node), "the first is the head");
                    self.head = next;
                }
            }
            match next {
                Some(next) => (*inner::<L>(next)).prev = prev,
                None => self.tail = prev,
            }
        }
        self.len -= 1;
    }

    /// Unlinks `node` if it is linked, and returns whether it was.
    ///
    /// # Safety
    /// 1. `node` is live. 2. It is in this list or in none. 3. No other code touches the links of the list's
    ///    nodes meanwhile.
    #[inline]
    pub unsafe fn remove(&mut self, node: NonNull<L::Node>) -> bool {
        // SAFETY: by (1) and (3) the links may be read and written. By (2) the node is in this list if it has
        // a predecessor or is the head.
        unsafe {
            let is_linked = (*inner::<L>(node)).prev.is_some() || self.head == Some(node);
            if is_linked {
                self.remove_linked(node);
                *inner::<L>(node) = Inner { prev: None, next: None };
            }
            is_linked
        }
    }
}

impl<L: Link> fmt::Debug for List<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("List").field("len", &self.len).finish_non_exhaustive()
    }
}

/// # Safety
/// 1. `node` is live.
#[inline]
unsafe fn inner<L: Link>(node: NonNull<L::Node>) -> *mut Inner<L::Node> {
    // SAFETY: (1), which is all that `links` asks for. The result of `links` is valid, so a field's address
    // may be computed.
    unsafe { (*L::links(node).as_ptr()).inner.with_mut(|inner| inner) }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Node {
        value: u32,
        links: Links<Node>,
    }

    // SAFETY: the links are a field of the node.
    unsafe impl Link for Node {
        type Node = Node;

        unsafe fn links(node: NonNull<Node>) -> NonNull<Links<Node>> {
            // SAFETY: (1).
            unsafe { NonNull::new_unchecked(&raw mut (*node.as_ptr()).links) }
        }
    }

    /// Drives list and model side by side with a fixed random sequence of operations.
    #[test]
    fn behaves_as_a_deque_from_which_nodes_can_leave_anywhere() {
        let mut nodes: Vec<_> = (0..16).map(|value| Node { value, links: Links::new() }).collect();
        let base = nodes.as_mut_ptr();
        // SAFETY: `i` is below the length, and `nodes` is not touched otherwise until the end.
        let at = |i: u32| unsafe { NonNull::new_unchecked(base.add(i as usize)) };
        let mut list = List::<Node>::new();
        let mut model = std::collections::VecDeque::new();
        let mut rand = crate::util::rand::FastRand::from_seed(7);
        for _ in 0..10_000 {
            let i = rand.below(16);
            let linked = model.contains(&i);
            // SAFETY: the nodes are live and only in this list, and there is one thread.
            unsafe {
                match rand.below(4) {
                    0 | 1 if !linked => {
                        list.push_back(at(i));
                        model.push_back(i);
                    }
                    2 => assert_eq!(list.pop_front().map(|node| node.as_ref().value), model.pop_front()),
                    3 => {
                        assert_eq!(list.remove(at(i)), linked);
                        model.retain(|&j| j != i);
                    }
                    _ => {}
                }
            }
            assert_eq!(list.len(), model.len());
            assert_eq!(list.is_empty(), model.is_empty());
        }
    }
}
