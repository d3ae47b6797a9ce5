//! A worker's part in computations: its deque of jobs, and the lists beside it.
//!
//! A *child job* is a job that a frame on some stack waits for: a half of a `join` (a *join job*), or a
//! job of a scope (a *scope job*). Child jobs lie in the deque. Scope jobs that do not fit lie in the
//! overflow list. Detached jobs (`spawn`) lie in a list of their own, so that a thread that waits for a child
//! job never gets a detached job on its stack. Injected jobs are in `injected.rs`.
//!
//! Each worker has a job processor, and so has each external thread while it takes part (`external.rs`). This
//! file calls the thread that has a job processor its *owner*. Any thread may call the methods of
//! [`JobProcessor`]. What only the owner may do is in the methods of its view, `OwnJobs` (`owner.rs`).
//!
//! In the files beside: `owner.rs` (the owner's view), `publish.rs` (when the owner shares its child jobs),
//! `own_jobs.rs` (the owner takes jobs from its job processor), `steal.rs` (thieves), `region.rs` (for which
//! computation the owner works), `kept.rs` (regions that outlive their guards), `estimate.rs` (how long child
//! jobs take), `belonging.rs` (to which runtime and worker it belongs).

use std::cell::Cell;
use std::fmt;
use std::ptr::{NonNull, null};

use crate::job::{JobFifo, JobHeader, JobRef, Question, Region, Tag};
use crate::loom::sync::atomic::AtomicI32;
use crate::memory::Magazine;
use crate::queue::{Deque, LockedList};
use crate::scheduler::estimate::{Estimates, Theft};
use crate::scheduler::external_indices::ExternalTag;
use crate::scheduler::hints::slices::Slices;
use crate::scheduler::jobs::kept::KeptRegions;
use crate::scheduler::poll_interval::PollInterval;

/// The owner takes the oldest job first.
pub(super) const BREADTH_FIRST: u32 = 1;

/// The owner has put a job into the overflow list, and has not found the list empty since.
pub(super) const OVERFLOWED: u32 = 2;

/// `OwnJobs::waits_for` is not `Tag::NONE`: a wait of the owner runs only jobs with that tag.
pub(super) const HELD: u32 = 4;

/// The publish budget follows from rule 1 of `publish.rs`.
pub(super) const RELIES_ON_PUBLIC: u32 = 8;

/// See the module's docs. Alone on its cache lines.
#[repr(align(128))]
pub struct JobProcessor {
    /// Each item is a word from [`JobRef::into_raw`]. Only a join job that is begun is no such word yet, and
    /// `OwnJobs::finish` makes it one before any thread can claim it. The deque gives each item out once.
    pub(super) deque: Deque<JobHeader>,
    /// The pushes that are left of the publish budget, never negative; see `publish.rs`.
    pub(super) left: AtomicI32,
    /// The length of the publish budget. Only the owner touches this and all other cells here: every function
    /// that does so is a method of `OwnJobs`.
    pub(super) budget: Cell<u32>,
    /// The reasons why `OwnJobs::pop` takes the slow path: [`BREADTH_FIRST`] and the like. Mostly zero.
    pub(super) flags: Cell<u32>,
    /// The region of the job that the owner runs, or null.
    pub(super) region: Cell<*const Region>,
    /// That region's tag, or that of an external thread's jobs.
    pub(super) tag: Cell<Tag>,
    /// The flags that the region's split points read, or null.
    pub(super) question: Cell<*const Question>,
    /// Whether the job processor is for external threads. Written like `shared`.
    pub(super) is_external: Cell<bool>,
    pub(super) estimates: Estimates,
    /// The countdown to the next look at the clock; see `split.rs`.
    pub(super) poll_interval: PollInterval,
    pub(super) slices: Slices,
    pub(super) theft: Theft,
    pub(super) index: usize,
    /// The `Shared` to which the job processor belongs; `belonging.rs` reads it. Set before any other thread
    /// knows the job processor.
    pub(super) shared: Cell<*const ()>,
    /// Scope jobs that did not fit into the deque.
    pub overflow: LockedList<JobRef>,
    /// Detached jobs spawned here.
    pub detached: LockedList<JobRef>,
    /// Jobs that only this job processor may run.
    pub broadcasts: LockedList<JobRef>,
    /// For `spawn_fifo`.
    pub(super) fifo: JobFifo<LockedList<JobRef>>,
    pub(super) external_tag: ExternalTag,
    /// How many waits for latches lie on the owner's stack.
    pub(super) waits: Cell<u32>,
    pub(super) kept: KeptRegions,
    /// The runtime that the owner, a thread of a pool, has entered for all its jobs; see `region.rs`.
    pub(super) entered: Cell<Option<NonNull<()>>>,
    /// Memory for jobs.
    pub(super) magazine: Magazine,
}

// SAFETY: the cells, and the owner's side of the deque, are private to this folder, and only methods of
// `OwnJobs` touch them there: a thread has that view only while it is the owner. `shared` and `is_external`
// are not written once others know the job processor. The queues hold jobs, which may be sent (`JobRef`).
unsafe impl Send for JobProcessor {}
// SAFETY: as above.
unsafe impl Sync for JobProcessor {}

impl JobProcessor {
    pub fn new(index: usize) -> Self {
        Self {
            deque: Deque::new(),
            left: AtomicI32::new(0),
            budget: Cell::new(0),
            flags: Cell::new(0),
            region: Cell::new(null()),
            tag: Cell::new(Tag::NONE),
            question: Cell::new(null()),
            is_external: Cell::new(false),
            estimates: Estimates::new(),
            poll_interval: PollInterval::new(),
            slices: Slices::default(),
            theft: Theft::new(),
            index,
            shared: Cell::new(null()),
            overflow: LockedList::new(),
            detached: LockedList::new(),
            broadcasts: LockedList::new(),
            fifo: JobFifo::new(null()),
            external_tag: ExternalTag::default(),
            waits: Cell::new(0),
            kept: KeptRegions::default(),
            entered: Cell::new(None),
            magazine: Magazine::new(),
        }
    }

    pub fn index(&self) -> usize {
        self.index
    }

    /// Whether the job processor is for external threads.
    pub fn is_external(&self) -> bool {
        self.is_external.get()
    }
}

impl fmt::Debug for JobProcessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobProcessor")
            .field("index", &self.index)
            .field("deque", &self.deque)
            .finish_non_exhaustive()
    }
}
