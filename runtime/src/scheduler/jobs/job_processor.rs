//! A worker's part in computations: its deque of jobs, and the lists beside it.
//!
//! A *child job* is a job that a frame on some stack waits for: a half of a `join` (a *join job*), or a
//! job of a scope (a *scope job*). Child jobs lie in the deque. Scope jobs that do not fit lie in the
//! overflow list. Detached jobs (`spawn`) lie in a list of their own, so that a thread that waits for a child
//! job never gets a detached job on its stack. Injected jobs are in `injected.rs`.
//!
//! Each worker has a job processor, and so has each external thread while it takes part (`external.rs`). This
//! file calls the thread that has a job processor its *owner*.
//!
//! In the files beside: `publish.rs` (when the owner shares its child jobs), `own_jobs.rs` (the owner takes
//! jobs from its job processor), `steal.rs` (thieves), `region.rs` (for which computation the owner works),
//! `estimate.rs` (how long child jobs take), `belonging.rs` (to which runtime and worker it belongs).

use std::alloc::Layout;
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
use crate::scheduler::poll_interval::PollInterval;

/// The owner takes the oldest job first.
pub(super) const BREADTH_FIRST: u32 = 1;

/// The owner has put a job into the overflow list, and has not found the list empty since.
pub(super) const OVERFLOWED: u32 = 2;

/// [`JobProcessor::waits_for`] is a tag.
pub(super) const HELD: u32 = 4;

/// The publish budget follows from rule 1 of `publish.rs`.
pub(super) const RELIES_ON_PUBLIC: u32 = 8;

/// See the module's docs. Alone on its cache lines.
#[repr(align(128))]
pub struct JobProcessor {
    pub(super) deque: Deque<JobHeader>,
    /// The pushes that are left of the publish budget, never negative; see `publish.rs`.
    pub(super) left: AtomicI32,
    /// The length of the publish budget. Only the owner touches this and all other cells here.
    pub(super) budget: Cell<u32>,
    /// The reasons why a [`pop`](Self::pop) takes the slow path: [`BREADTH_FIRST`] and the like. Mostly zero.
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
    pub poll_interval: PollInterval,
    pub slices: Slices,
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
    pub fifo: JobFifo<LockedList<JobRef>>,
    pub external_tag: ExternalTag,
    /// How many waits for latches lie on the owner's stack.
    pub waits: Cell<u32>,
    /// Memory for jobs.
    magazine: Magazine,
}

// SAFETY: the cells are touched only by the methods whose callers are the owner, see
// `context::job_processor`; `shared` is not written once others know the job processor. The queues hold jobs,
// which may be sent (`JobRef`).
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
            magazine: Magazine::new(),
        }
    }

    #[inline]
    pub(super) fn set_flag(&self, what: u32, is_so: bool) {
        let others = self.flags.get() & !what;
        self.flags.set(if is_so { others | what } else { others });
    }

    #[inline]
    pub(super) fn has_flag(&self, what: u32) -> bool {
        self.flags.get() & what != 0
    }

    pub fn index(&self) -> usize {
        self.index
    }

    /// Memory for a job. For the owner.
    #[inline(always)]
    pub fn allocate(&self, layout: Layout) -> NonNull<u8> {
        self.magazine.allocate(layout, &self.shared().depot)
    }

    /// Takes a job's memory back. For the owner.
    ///
    /// # Safety
    /// 1. As [`Memory::free`](crate::job::Memory::free).
    #[inline(always)]
    pub unsafe fn free(&self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: (1).
        unsafe { self.magazine.free_by(memory, layout, || &self.shared().depot) };
    }

    /// Whether the job processor is for external threads.
    pub fn is_external(&self) -> bool {
        self.is_external.get()
    }

    /// Other work begins, so its first split ends the poll interval. For the owner.
    pub fn restart_poll_interval(&self) {
        self.poll_interval.restart();
        if !self.is_external() {
            self.slices.begin();
        }
        self.end_budget();
    }

    /// A split point; see `split.rs`.
    #[inline(always)]
    pub fn pass_split(&self) {
        if self.poll_interval.pass() {
            self.look();
        }
    }

    /// The index that the next child job gets. For the owner.
    #[inline(always)]
    pub fn head(&self) -> u32 {
        // SAFETY: the caller is the owner.
        unsafe { self.deque.head() }
    }

    /// Whether child jobs lie here. For the owner.
    pub fn has_child_jobs(&self) -> bool {
        // SAFETY: the caller is the owner.
        unsafe { self.deque.has_items() || !self.overflow.is_empty() }
    }

    /// Whether jobs that were pushed here wait. For the owner.
    pub fn has_pending_jobs(&self) -> bool {
        self.has_child_jobs() || !self.detached.is_empty()
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
