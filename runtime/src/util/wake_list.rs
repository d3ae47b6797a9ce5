//! Wakers collected under a lock, to be woken after it is released.

use std::mem::MaybeUninit;
use std::task::Waker;

use super::unwind::{self, FirstPanic};

const CAPACITY: usize = 32;

/// Up to 32 wakers, on the stack.
///
/// Its user loops: lock, push until [`is_full`](Self::is_full), unlock, [`wake_all`](Self::wake_all), and
/// again while there may be more.
pub struct WakeList {
    wakers: [MaybeUninit<Waker>; CAPACITY],
    /// The slots in `next..len` are initialised; `next` is not zero only while wakers are taken out.
    next: usize,
    len: usize,
}

impl WakeList {
    pub fn new() -> Self {
        Self { wakers: [const { MaybeUninit::uninit() }; CAPACITY], next: 0, len: 0 }
    }

    pub fn is_full(&self) -> bool {
        self.len == CAPACITY
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds a waker. Panics if the list is full.
    pub fn push(&mut self, waker: Waker) {
        self.wakers[self.len].write(waker);
        self.len += 1;
    }

    /// Wakes all wakers, in the order in which they were added, and empties the list. A waker that panics
    /// does not keep the others asleep: the first panic is resumed after all have been woken.
    pub fn wake_all(&mut self) {
        let mut panic = FirstPanic::new();
        while let Some(waker) = self.pop() {
            panic.catch(|| waker.wake());
        }
        panic.resume();
    }

    /// Gives all wakers to `f`, in the order in which they were added, and empties the list.
    pub fn drain(&mut self, mut f: impl FnMut(Waker)) {
        while let Some(waker) = self.pop() {
            f(waker);
        }
    }

    /// Takes out the waker that was added first.
    fn pop(&mut self) -> Option<Waker> {
        if self.next == self.len {
            (self.next, self.len) = (0, 0);
            return None;
        }
        let slot = &self.wakers[self.next];
        self.next += 1;
        // SAFETY: slots in `next..len` are initialised. This slot is now below `next`, so it is not read
        // again.
        Some(unsafe { slot.assume_init_read() })
    }
}

impl Drop for WakeList {
    fn drop(&mut self) {
        while let Some(waker) = self.pop() {
            unwind::drop_quietly(waker);
        }
    }
}
