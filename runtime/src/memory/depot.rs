//! Where the magazines of one runtime exchange batches.

use std::fmt;
use std::ptr::NonNull;

use super::block::{BATCH, Batch, Block, CLASSES, bytes_of_batch};
use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::AtomicU32;
use crate::loom::sync::atomic::Ordering::Relaxed;

/// The most bytes in the depot: enough for some ten thousand small tasks.
pub(super) const MOST_KEPT: usize = 2 << 20;

/// How many batches are linked ahead after a non-worker thread has needed one.
pub(super) const LINKED: u32 = 4;

/// Batches of free blocks that all threads of a runtime share.
pub struct Depot {
    pub(super) batches: Mutex<FullBatches>,
    /// How many more batches are worth linking ahead: a hint.
    pub(super) to_link: AtomicU32,
}

pub(super) struct FullBatches {
    /// Full batches by class: those at index `n` are of class `n`. The first block of each batch links to the
    /// next batch.
    full: [Option<NonNull<Block>>; CLASSES],
    /// Bytes in `full`.
    pub(super) kept: usize,
}

// SAFETY: blocks are memory that belongs to their list alone.
unsafe impl Send for FullBatches {}

impl Depot {
    pub fn new() -> Self {
        let batches = FullBatches { full: [None; CLASSES], kept: 0 };
        Self { batches: Mutex::new(batches), to_link: AtomicU32::new(0) }
    }

    pub fn take(&self, class: usize) -> Batch {
        self.batches.lock().take(class)
    }

    /// Keeps a full batch, or gives its blocks back to the allocator if the depot has enough.
    ///
    /// # Safety
    /// 1. `class` is the class of the batch.
    pub unsafe fn give(&self, class: usize, mut batch: Batch) {
        // Relaxed: a hint.
        let to_link = self.to_link.load(Relaxed);
        if to_link > 0 {
            self.to_link.store(to_link - 1, Relaxed);
            batch.link_ahead();
        }
        // SAFETY: (1).
        let refused = unsafe { self.batches.lock().put(class, batch) };
        if let Err(batch) = refused {
            // SAFETY: (1).
            unsafe { batch.release(class) };
        }
    }

    /// A non-worker thread had to ask the allocator: the next batches are linked ahead.
    pub fn ask_to_link(&self) {
        // Relaxed: a hint.
        self.to_link.store(LINKED, Relaxed);
    }
}

impl FullBatches {
    /// Takes a full batch of `class`, or returns an empty one if there is none.
    fn take(&mut self, class: usize) -> Batch {
        let Some(first) = self.full[class] else { return Batch::EMPTY };
        // SAFETY: a block in a full batch is ours, and the first of a batch.
        self.full[class] = unsafe { first.as_ref() }.far;
        self.kept -= bytes_of_batch(class);
        Batch { first: Some(first), count: BATCH }
    }

    /// Keeps a full batch. Gives it back if the depot has enough.
    ///
    /// # Safety
    /// 1. `class` is the class of the batch.
    unsafe fn put(&mut self, class: usize, batch: Batch) -> Result<(), Batch> {
        debug_assert_eq!(batch.count, BATCH);
        let Some(mut first) = batch.first else { return Ok(()) };
        if self.kept + bytes_of_batch(class) > MOST_KEPT {
            return Err(batch);
        }
        // SAFETY: the batch is ours. By (1) it may lie with the other batches of `class`.
        unsafe { first.as_mut() }.far = self.full[class].replace(first);
        self.kept += bytes_of_batch(class);
        Ok(())
    }
}

impl Drop for FullBatches {
    fn drop(&mut self) {
        for class in 0..CLASSES {
            while self.full[class].is_some() {
                // SAFETY: (1) `take` returns a batch of this class.
                unsafe { self.take(class).release(class) };
            }
        }
    }
}

impl fmt::Debug for Depot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Depot").finish_non_exhaustive()
    }
}
