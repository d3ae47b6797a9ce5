//! Reserved references. With them, a poll clones and drops its waker without an atomic operation.
//!
//! A waker is mostly cloned inside of the poll that it was given to, by a timer, a channel or a socket that
//! has to wait. A timer that is dropped in time drops its clone in such a poll, too. The thread that polls
//! owns `SCHEDULED`. So some references that the state word counts belong to the owner of `SCHEDULED`, as a
//! number in the header that is not atomic. A clone takes one of them, and a drop gives one back.
//! ```text
//!   references in the word = life's + handle's + wakers' and abort handles' + reserved
//! ```
//! The word counts at least as many references as there are, so no thread mistakes a reference for the last
//! one. The reserve ends when the task is `DONE`, in the step that gives up the life's reference. So the
//! reserve keeps no memory alive. A clone or drop outside of the task's own poll, by another thread or in the
//! poll of another task, counts in the word.
//!
//! **Access**: only by the thread whose record (`coop.rs`) names the task as the one being polled, because
//! that thread owns `SCHEDULED`; besides, the completer, which owns `SCHEDULED` up to `DONE`. The reserve
//! passes from one owner to the next like the future.
//!
//! The handle may drop the output of a task that is `DONE`, as a part of a poll that names this task. For
//! that it begins a reserve of its own, which is empty, and ends it behind the destructor. No other thread is
//! polling the task any more, and the handle's own reference keeps the cell.

use super::state::State;
use crate::loom::RESERVED_REFERENCES;
use crate::loom::cell::UnsafeCell;

/// The most references that are kept. A reference that was counted elsewhere and dropped here stays reserved.
const MOST: u16 = 1024;

/// The number of reserved references.
#[derive(Debug)]
pub struct Reserved(UnsafeCell<u16>);

impl Reserved {
    /// Makes the reserve of a newborn task, and the state word that counts it.
    pub fn new() -> (Self, State) {
        (Self(UnsafeCell::new(RESERVED_REFERENCES)), State::with_references(usize::from(RESERVED_REFERENCES)))
    }

    /// Takes a reference for a waker that is cloned.
    ///
    /// # Safety
    /// 1. The caller owns `SCHEDULED` of the task whose word is `state`.
    #[inline]
    pub unsafe fn take(&self, state: &State) {
        // SAFETY: by (1) the reserve is the caller's.
        self.0.with_mut(|reserve| unsafe {
            if *reserve == 0 {
                state.add_references(usize::from(RESERVED_REFERENCES));
                *reserve = RESERVED_REFERENCES;
            }
            *reserve -= 1;
        });
    }

    /// Puts the reference of a waker that is dropped into the reserve. Returns false, and does nothing, if
    /// there are too many.
    ///
    /// # Safety
    /// As [`take`](Self::take).
    #[inline]
    pub unsafe fn put(&self) -> bool {
        // SAFETY: by (1) the reserve is the caller's.
        self.0.with_mut(|reserve| unsafe {
            let has_room = *reserve < MOST;
            *reserve += u16::from(has_room);
            has_room
        })
    }

    /// Begins an empty reserve, after the task's has ended.
    ///
    /// # Safety
    /// 1. The caller is the handle of a task that is `DONE`, and may drop the output.
    pub unsafe fn begin_again(&self) {
        // SAFETY: by (1) no other thread touches the reserve.
        self.0.with_mut(|reserve| unsafe { *reserve = 0 });
    }

    /// The number of references, for the completer to give up, or the handle.
    ///
    /// # Safety
    /// As [`take`](Self::take), or as [`begin_again`](Self::begin_again).
    #[inline]
    pub unsafe fn count(&self) -> usize {
        // SAFETY: by (1) the reserve is the caller's.
        usize::from(self.0.with(|reserve| unsafe { *reserve }))
    }
}
