//! Ids of tasks.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::loom::thread_cell;

/// The id of a task, unique among all tasks of the process, including ended ones.
///
/// Prior art: `tokio::task::Id`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub(crate) u64);

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({})", self.0)
    }
}

/// The number of ids that a thread takes at a time, so that spawning writes no cache line that other threads
/// write.
const BLOCK: u64 = 1 << 16;

static NEXT_BLOCK: AtomicU64 = AtomicU64::new(0);

thread_cell! {
    /// This thread's next id; a multiple of [`BLOCK`] if its block is used up.
    static NEXT: Cell<u64> = Cell::new(0);
}

/// Makes a new id.
#[inline]
pub fn next() -> u64 {
    NEXT.with(|names| {
        let next = match names.get() {
            used_up if used_up % BLOCK == 0 => first_of_block(),
            next => next,
        };
        names.set(next + 1);
        next
    })
}

/// The first id of a new block. The multiple of [`BLOCK`] itself is left out, because it means that a block
/// is used up.
#[cold]
#[inline(never)]
fn first_of_block() -> u64 {
    // Relaxed: only uniqueness matters.
    NEXT_BLOCK.fetch_add(BLOCK, Relaxed) + 1
}
