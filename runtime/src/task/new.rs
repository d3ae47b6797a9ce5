//! Making a task.

use std::alloc::Layout;
use std::cell::Cell;
use std::future::Future;
use std::panic::Location;
use std::ptr::NonNull;

use super::cell::{Header, NO_TABLE, Stage, TaskCell, Vtable};
use super::id;
use super::join::JoinHandle;
use super::raw::{Runnable, Schedule};
use super::reserved::Reserved;
use crate::loom::cell::UnsafeCell;
use crate::queue::Next;

/// Makes a task of `future`. The caller queues it. The scheduler counts the cell.
///
/// # Safety
/// 1. `future` and its output may be used by the threads that run and join the task. 2. `scheduler` stays
///    valid until `S::free`.
pub unsafe fn new<F: Future + 'static, S: Schedule>(
    future: F,
    scheduler: NonNull<S>,
    spawned_at: &'static Location<'static>,
) -> (Runnable, JoinHandle<F::Output>) {
    let vtable = Vtable::of::<F, S>();
    // SAFETY: (1), (2); the vtable is that of `F` and `S`.
    let header = unsafe { TaskCell::allocate(future, scheduler, id::next(), spawned_at, vtable) };
    // SAFETY: a new cell is `SCHEDULED` and ours; one of its references is the handle's.
    unsafe { (Runnable::from_raw(header), JoinHandle::from_raw(header)) }
}

/// The layout of a task with a future of type `F`.
#[inline(always)]
pub fn layout_of<F: Future>() -> Layout {
    Layout::new::<TaskCell<F>>()
}

/// As [`new`], in memory that the caller provides.
///
/// # Safety
/// As [`new`]; 3. `memory` is what `S::allocate` would return for [`layout_of`] the future, and the caller
/// gives it up.
#[inline]
pub unsafe fn new_in<F: Future + 'static, S: Schedule>(
    memory: NonNull<u8>,
    future: F,
    scheduler: NonNull<S>,
    spawned_at: &'static Location<'static>,
) -> (Runnable, JoinHandle<F::Output>) {
    let vtable = Vtable::of::<F, S>();
    // SAFETY: (1), (2), (3); the vtable is that of `F` and `S`. Then as in `new`.
    unsafe {
        let header = TaskCell::place(memory, future, scheduler, id::next(), spawned_at, vtable);
        (Runnable::from_raw(header), JoinHandle::from_raw(header))
    }
}

impl<F: Future> TaskCell<F> {
    /// Makes a task with a reference for its life, one for its handle, and the reserved ones. Its spawner is
    /// about to queue it, and gets the handle.
    ///
    /// # Safety
    /// 1. `scheduler` is valid. 2. `vtable` is that of `F` and `S`.
    unsafe fn allocate<S: Schedule>(
        future: F,
        scheduler: NonNull<S>,
        id: u64,
        spawned_at: &'static Location<'static>,
        vtable: &'static Vtable,
    ) -> NonNull<Header> {
        // SAFETY: (1); (2); the memory has the layout that was asked for.
        unsafe {
            let memory = S::allocate(scheduler, Layout::new::<Self>());
            Self::place(memory, future, scheduler, id, spawned_at, vtable)
        }
    }

    /// As [`allocate`](Self::allocate), in `memory`.
    ///
    /// # Safety
    /// As [`allocate`](Self::allocate); 3. `memory` is what `S::allocate` would return for this type.
    #[inline]
    unsafe fn place<S: Schedule>(
        memory: NonNull<u8>,
        future: F,
        scheduler: NonNull<S>,
        id: u64,
        spawned_at: &'static Location<'static>,
        vtable: &'static Vtable,
    ) -> NonNull<Header> {
        let cell = memory.cast::<Self>();
        let header = Header::new(scheduler.cast(), id, spawned_at, vtable);
        // SAFETY: by (3) it is memory for a `Self`, ours alone.
        unsafe { cell.write(Self { header, stage: UnsafeCell::new(Stage::Running(future)) }) };
        cell.cast()
    }
}

impl Header {
    #[inline]
    fn new(
        scheduler: NonNull<()>,
        id: u64,
        spawned_at: &'static Location<'static>,
        vtable: &'static Vtable,
    ) -> Self {
        let (reserved, state) = Reserved::new();
        Self {
            join_waker: UnsafeCell::new(None),
            next: Next::new(),
            spawned_at,
            state,
            vtable,
            scheduler,
            id,
            reserved,
            table: Cell::new(NO_TABLE),
            slot: Cell::new(0),
        }
    }
}
