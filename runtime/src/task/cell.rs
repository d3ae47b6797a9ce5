//! The one allocation of a task: the header that all tasks have, then the future. `new.rs` makes it.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::ptr::NonNull;
use std::task::Waker;

use super::failure::Failure;
use super::id::Id;
#[cfg(doc)]
use super::raw::Schedule;
use super::reserved::Reserved;
use super::state::State;
use crate::loom::cell::UnsafeCell;
use crate::queue::{Linked, Next};

/// The `table` of a task that is not in `owned.rs`.
pub(super) const NO_TABLE: u16 = u16::MAX;

/// The part that all tasks have, whatever their future. Every holder of a task holds a pointer to this.
///
/// The first 32 bytes are fields that not every poll touches. The fields that each poll reads or writes form
/// one piece with the future behind them. Blocks lie close, aligned to 16 bytes. So the pieces of two tasks,
/// which two cores may poll, are some 48 bytes apart, and share few cache lines or none.
#[repr(C)]
pub struct Header {
    /// The completer wakes it. It is the handle's while `JOIN_WAKER` is unset, and the completer's once
    /// `DONE` is set.
    pub(super) join_waker: UnsafeCell<Option<Waker>>,
    /// The link of a batch, of the blocking pool's queue, and of the queues of a `LocalSet`. The owner of
    /// `SCHEDULED` may write it.
    pub(super) next: Next<Header>,
    /// Reserved references for the task's own polls. Belongs to the owner of `SCHEDULED`.
    pub(super) reserved: Reserved,
    /// The table of `owned.rs` that the task is in, or `NO_TABLE`, and its place there. The owner of
    /// `SCHEDULED` writes it once, before the task first waits.
    pub(crate) table: Cell<u16>,
    pub(crate) slot: Cell<u32>,
    /// Says which thread may do what; see [`State`].
    pub(super) state: State,
    /// The functions that depend on the future's type. Changes at most once, before the task is first queued.
    pub(super) vtable: &'static Vtable,
    /// The scheduler, an `S` of the [`Schedule`] for which `vtable` was made. Every cell keeps it alive.
    /// Never changes.
    pub(super) scheduler: NonNull<()>,
    /// The task's id. Never changes.
    pub(super) id: u64,
    /// Where it was spawned. Never changes.
    pub(super) spawned_at: &'static Location<'static>,
}

/// The functions of one future type on one scheduler type.
pub struct Vtable {
    /// Polls or cancels. The caller owns `SCHEDULED` and gives it up.
    pub(super) run: unsafe fn(NonNull<Header>),
    /// `run` of a task that is not observed.
    pub(super) run_plainly: unsafe fn(NonNull<Header>),
    /// The same functions for a task that is observed: `run` differs.
    pub(super) observed: Option<&'static Vtable>,
    /// Drops the future; the failure is the result. The caller owns `SCHEDULED` and gives it up.
    pub(super) fail: unsafe fn(NonNull<Header>, Failure),
    /// [`Schedule::schedule`].
    pub(super) schedule: unsafe fn(NonNull<Header>),
    /// [`Schedule::hurry`].
    pub(super) hurry: unsafe fn(NonNull<Header>),
    /// Wakes the task. The caller gives up a reference.
    pub(super) wake: unsafe fn(NonNull<Header>),
    /// Moves the output to the place of the pointer, memory for a `Poll<Result<F::Output, JoinError>>`.
    pub(super) take_output: unsafe fn(NonNull<Header>, *mut ()),
    /// Drops the output if it is still there.
    pub(super) drop_output: unsafe fn(NonNull<Header>),
    /// Frees the cell.
    pub(super) free: unsafe fn(NonNull<Header>),
}

/// A task in memory. `repr(C)`: a pointer to the header is a pointer to the cell.
#[repr(C)]
pub struct TaskCell<F: Future> {
    pub(super) header: Header,
    /// Touched by the owner of `SCHEDULED` until `DONE`, then by the side that `JOIN` names.
    pub(super) stage: UnsafeCell<Stage<F>>,
}

/// The future, then its output, then nothing.
pub enum Stage<F: Future> {
    Running(F),
    Finished(Result<F::Output, Failure>),
    Consumed,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Header>() == 72 && std::mem::offset_of!(Header, state) == 32);

impl Header {
    /// Whether the task was asked to end.
    #[inline(always)]
    pub fn is_cancelled(&self) -> bool {
        self.state.load().is_cancelled()
    }

    /// The task's public name.
    pub fn id(&self) -> Id {
        Id(self.id)
    }

    /// Where it was spawned.
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.spawned_at
    }

    /// Whether the task is entered in `owned.rs`: it has waited, or is about to.
    #[inline]
    pub fn is_owned(&self) -> bool {
        self.table.get() != NO_TABLE
    }
}

/// A header in a queue stands for the task's `SCHEDULED`: it is a [`Runnable`](super::Runnable).
// SAFETY: (1) and (2) the link is a field of the header, at the same place for as long as the cell lives.
// (3) Only `Header::new` touches the field besides, before the task is in a queue.
unsafe impl Linked for Header {
    unsafe fn next(item: NonNull<Self>) -> NonNull<Next<Self>> {
        // SAFETY: the caller guarantees that `item` is live; only an address is computed.
        unsafe { NonNull::new_unchecked(&raw mut (*item.as_ptr()).next) }
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Header").field("id", &self.id).field("state", &self.state).finish_non_exhaustive()
    }
}
