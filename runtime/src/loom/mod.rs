//! `std` or `loom`: the one door to atomics, cells, locks and threads, and the one switch between the two.
//!
//! Protocol code imports from here and holds no conditional compilation of its own. Under `cfg(loom)` the
//! same names lead to loom's checked versions; sizes that a model must shrink are constants below.

pub mod byte_lock;
#[cfg(loom)]
mod model;
#[cfg(not(loom))]
mod real;

#[cfg(loom)]
pub use model::*;
#[cfg(not(loom))]
pub use real::*;

/// Slots of a processor's run queue; a power of two.
#[cfg(not(loom))]
pub const RING_CAPACITY: usize = 256;
/// Slots of a processor's run queue: small enough for a model to fill.
#[cfg(loom)]
pub const RING_CAPACITY: usize = 4;

/// Slots of a worker's deque of jobs.
#[cfg(not(loom))]
pub const DEQUE_CAPACITY: usize = 12 << 10;
/// Slots of a worker's deque of jobs: small enough for a model to fill.
#[cfg(loom)]
pub const DEQUE_CAPACITY: usize = 4;

/// Slots of the first ring of a FIFO scope's queue; a power of two.
#[cfg(not(loom))]
pub const TICKET_QUEUE_CAPACITY: usize = 256;
/// Slots of the first ring of a FIFO scope's queue: few enough for a model to need a second ring.
#[cfg(loom)]
pub const TICKET_QUEUE_CAPACITY: usize = 1;

/// References that a task's polls take from its word at once, for the wakers that they clone.
#[cfg(not(loom))]
pub const RESERVED_REFERENCES: u16 = 32;
/// References that a task's polls take from its word at once: few enough for a model to run out of them.
#[cfg(loom)]
pub const RESERVED_REFERENCES: u16 = 1;

/// How often a thread that is no worker looks at its latch before it sleeps: a few microseconds.
#[cfg(not(loom))]
pub const LATCH_SPINS: u32 = 100;
/// How often a thread that is no worker looks at its latch before it sleeps: in a model it is to sleep.
#[cfg(loom)]
pub const LATCH_SPINS: u32 = 1;

/// Positions a block of an mpsc channel stands for; it holds one value less.
#[cfg(not(loom))]
pub const MPSC_LAP: usize = 32;
/// Positions a block of an mpsc channel stands for: few enough for a model to change blocks.
#[cfg(loom)]
pub const MPSC_LAP: usize = 3;

/// Slots of a watch channel whose value many threads read at once; a power of two.
#[cfg(not(loom))]
pub const READER_SLOTS: usize = 16;
/// Slots of a watch channel whose value many threads read at once: few enough for a model to scan.
#[cfg(loom)]
pub const READER_SLOTS: usize = 2;

/// The longest time of one yield of a computation to tasks, in microseconds.
#[cfg(not(loom))]
pub const YIELD_MICROS: u64 = 500;
/// The longest time of one yield of a computation to tasks: in a model for ever, unless the computation is
/// told to go on.
#[cfg(loom)]
pub const YIELD_MICROS: u64 = 1 << 40;

/// How many tasks are remembered by name, to know which of them are slow.
#[cfg(not(loom))]
pub const SLOW_TASKS: usize = 1024;
/// How many tasks are remembered by name: one, because a task's id chooses the word, and a model's
/// executions must choose the same word though their ids differ.
#[cfg(loom)]
pub const SLOW_TASKS: usize = 1;

/// Whether a runtime has a monitor. Not in models, whose threads know no time.
pub const HAS_MONITOR: bool = cfg!(not(loom));

/// Whether the system is asked how busy the machine is. Not in models, which must be the same each time.
pub const ASKS_THE_SYSTEM: bool = cfg!(not(loom));

/// Whether workers measure how long their polls take. Not in models either.
pub const MEASURES_POLLS: bool = cfg!(not(loom));

/// Whether workers sample (`scheduler/hints/sampling.rs`). Not in models either.
pub const SAMPLES: bool = cfg!(not(loom));

/// Whether threads wait awake at times (`util/patience.rs`). Not in models either.
pub const WAITS_AWAKE: bool = cfg!(not(loom));

/// Whether memory of ended tasks is kept for the next ones. Not under AddressSanitizer (`--cfg asan`), which
/// would take a late use of a task's memory for one of the next task.
pub const KEEPS_MEMORY: bool = cfg!(not(asan));

/// Whether threads that are no workers keep some, too. Not in models, whose threads are one thread to
/// thread-locals.
pub const KEEPS_MEMORY_OUTSIDE: bool = cfg!(not(loom));
