//! A part of a computation that can be cancelled, or that keeps unrelated work off its stacks.
//!
//! A region lives in the frame that began it, and that frame waits for every job that was made inside. So a
//! job may point at its region until the job has run. Each region points to the region around it. A region
//! knows nothing of a runtime but its address.
//!
//! A guard that enters a runtime begins a region without a frame. So its region notes whether jobs may refer
//! to it ([`Region::mark_used`]). If they may, it stays when the guard is dropped (`scheduler/jobs/kept.rs`).
//!
//! A thief compares the *tag* of a region before it may look at a job. A region that is not isolated has the
//! tag of the isolated region around it, or none. A job that an external thread
//! (`scheduler/jobs/external.rs`) splits off has a tag of another kind, which restricts only that
//! thread.

use std::fmt;
use std::ptr::{self, NonNull, null};

use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::Ordering::{Acquire, Relaxed};
use crate::loom::sync::atomic::{AtomicBool, AtomicPtr};
use crate::task::Header;
use crate::util::unwind::Payload;

/// The lowest bit of the tag. Addresses of user space on Linux have 47 bits (x86-64) or 48 (aarch64), unless
/// a program asks for more.
pub(super) const TAG_SHIFT: u32 = 48;

/// Set in an external thread's tag. Headers are aligned to eight bytes, and the deque uses the two lowest
/// bits.
pub(super) const EXTERNAL: usize = 4;

/// All bits of the tag.
pub(super) const TAG: usize = !((1 << TAG_SHIFT) - 1) | EXTERNAL;
/// Decides whether a thread that waits in an isolated region, or as an external thread, may run a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag(usize);

impl Tag {
    /// The tag outside of every isolated region.
    pub const NONE: Self = Self(0);

    /// The tag of regions that share nothing. No job has it.
    pub const SOLITARY: Self = Self((u16::MAX as usize) << TAG_SHIFT);

    /// Whether a thread that waits inside the isolated region with this tag (or in none) may run a job with
    /// the tag `job`.
    #[inline]
    pub fn may_run(self, job: Self) -> bool {
        self == Self::NONE || self == job
    }

    pub fn new(tag: u16) -> Self {
        Self((tag as usize) << TAG_SHIFT)
    }

    #[inline(always)]
    pub(super) fn shifted(self) -> usize {
        self.0
    }

    #[inline(always)]
    pub(super) fn from_shifted(address: usize) -> Self {
        Self(address & TAG)
    }

    /// The tag of the jobs that the external thread with this number splits off.
    pub fn of_external(number: u16) -> Self {
        Self((number as usize) << TAG_SHIFT | EXTERNAL)
    }

    /// Whether [`of_external`](Self::of_external) made this tag.
    #[inline]
    pub fn is_external(self) -> bool {
        self.0 & EXTERNAL != 0
    }

    /// This tag, or none if it is an external thread's, which restricts no other thread.
    #[inline]
    pub fn without_external(self) -> Self {
        if self.is_external() { Self::NONE } else { self }
    }

    /// The number that was passed to [`new`](Self::new).
    pub const fn number(self) -> u16 {
        (self.0 >> TAG_SHIFT) as u16
    }
}

/// The place where a computation reads whether it should end. Not a trait object, because every split point
/// reads it.
#[derive(Debug)]
pub struct Question {
    task: NonNull<Header>,
    /// The pool's shared state. Only its address is used.
    pool: NonNull<()>,
    /// Whether the shutdown of the pool has begun.
    has_begun: NonNull<AtomicBool>,
}

impl Question {
    /// # Safety
    /// 1. `task` and `has_begun` stay valid for as long as the question is asked.
    pub unsafe fn new(task: NonNull<Header>, pool: NonNull<()>, has_begun: NonNull<AtomicBool>) -> Self {
        Self { task, pool, has_begun }
    }

    /// Whether the computation began in `pool`. If so, the thread that cancels it ends the publish budgets
    /// there.
    pub fn is_of(&self, pool: NonNull<()>) -> bool {
        self.pool == pool
    }

    #[inline(always)]
    pub fn is_cancelled(&self) -> bool {
        // SAFETY: duty 1 of `new`.
        // Acquire: as in `Lifecycle::has_begun`.
        unsafe { self.task.as_ref().is_cancelled() || self.has_begun.as_ref().load(Acquire) }
    }
}

/// The runtime that is current for the jobs of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Current {
    /// The runtime of the thread that runs the jobs.
    OfThread,
    /// This runtime, or none.
    Is(Option<NonNull<()>>),
}

/// The purpose of a region.
#[derive(Debug)]
enum Kind {
    /// A computation that can be asked to end.
    Cancellable(Question),
    /// A part whose waits run only its own jobs.
    Isolated,
    /// A part in which another runtime is current.
    Entered {
        /// This one, or none. If it is [`FORGOTTEN`], that of the outer region.
        current: AtomicPtr<()>,
        /// Whether jobs may refer to the region, or did.
        is_used: AtomicBool,
    },
}

/// No runtime has this address.
const FORGOTTEN: *mut () = std::ptr::dangling_mut();

/// See the module's docs.
pub struct Region {
    /// The outer region, or null. Atomic only for [`renew_parent`](Self::renew_parent).
    parent: AtomicPtr<Region>,
    kind: Kind,
    pub tag: Tag,
    /// A panic that could not go on because of a cancellation. The computation ends with it.
    panic: Mutex<Option<Payload>>,
}

impl Region {
    /// A computation that can be asked to end.
    pub fn cancellable(question: Question) -> Self {
        Self::new(null(), Kind::Cancellable(question), Tag::NONE)
    }

    /// A part of the computation in `parent` (null: of none) that runs only its own jobs.
    ///
    /// # Safety
    /// 1. `parent` is null, or outlives the region.
    pub unsafe fn isolated(parent: *const Region, tag: Tag) -> Self {
        Self::new(parent, Kind::Isolated, tag)
    }

    /// A part of the computation in `parent` (null: of none) in which another runtime is current. `tag` is
    /// the tag of the part.
    ///
    /// # Safety
    /// 1. `parent` is null, or outlives the region, or its end is the last use of the region before
    ///    [`renew_parent`](Self::renew_parent).
    pub unsafe fn entered(parent: *const Region, tag: Tag, current: Option<NonNull<()>>) -> Self {
        let current = AtomicPtr::new(current.map_or(std::ptr::null_mut(), NonNull::as_ptr));
        let kind = Kind::Entered { current, is_used: AtomicBool::new(false) };
        Self::new(parent, kind, tag)
    }

    fn new(parent: *const Self, kind: Kind, tag: Tag) -> Self {
        Self { parent: AtomicPtr::new(parent.cast_mut()), kind, tag, panic: Mutex::new(None) }
    }

    /// A job of `region` (null: of none) becomes known to other threads, or a scope or call begins there
    /// whose jobs will.
    ///
    /// # Safety
    /// 1. `region` is null, or live until this returns.
    #[inline]
    pub unsafe fn mark_used(region: *const Self) {
        // SAFETY: (1).
        if let Some(Self { kind: Kind::Entered { is_used, .. }, .. }) = unsafe { region.as_ref() } {
            // Relaxed: the thread that reads it made the region current. Another thread that works in the
            // region runs a job of it, and the region was marked before that. Or it runs a job of a forgotten
            // region inside. Then the first thread is in a frame inside of that region, too, and marks this
            // one itself when it comes back to it.
            is_used.store(true, Relaxed);
        }
    }

    /// Whether the region was marked by [`mark_used`](Self::mark_used).
    pub fn is_used(&self) -> bool {
        // Relaxed: see there.
        matches!(&self.kind, Kind::Entered { is_used, .. } if is_used.load(Relaxed))
    }

    /// The runtime that is current for the jobs of `region` (null: of none).
    ///
    /// # Safety
    /// 1. `region` is null, or live until this returns.
    pub unsafe fn current_of(region: *const Self) -> Current {
        // SAFETY: (1).
        let mut regions = unsafe { region.as_ref() }.into_iter().flat_map(Self::chain);
        let current = regions.find_map(|region| match &region.kind {
            // Relaxed: the first write came before the region was handed over. Of later writes, either value
            // will do.
            Kind::Entered { current, .. } => {
                Some(current.load(Relaxed)).filter(|&current| current != FORGOTTEN)
            }
            Kind::Cancellable(_) | Kind::Isolated => None,
        });
        current.map_or(Current::OfThread, |current| Current::Is(NonNull::new(current)))
    }

    /// The region in which a thread works that comes to a job of `region` (null: of none). It is `region`, or
    /// the first one around it that no guard has left: see `kept.rs`.
    ///
    /// # Safety
    /// 1. As [`current_of`](Self::current_of).
    pub unsafe fn without_forgotten(mut region: *const Self) -> *const Self {
        let is_forgotten = |region: &Self| match &region.kind {
            // Relaxed: see `current_of`.
            Kind::Entered { current, .. } => current.load(Relaxed) == FORGOTTEN,
            Kind::Cancellable(_) | Kind::Isolated => false,
        };
        // SAFETY: (1). A region is inside of its parent.
        while let Some(forgotten) = unsafe { region.as_ref() }.filter(|region| is_forgotten(region)) {
            region = forgotten.parent();
            // SAFETY: (1) as above.
            unsafe { Self::mark_used(region) };
        }
        region
    }

    /// If this is an [entered](Self::entered) region, `runtime` is current there from now on; if it is
    /// `None`, the runtime of the outer region.
    pub fn set_current(&self, runtime: Option<NonNull<()>>) {
        if let Kind::Entered { current, .. } = &self.kind {
            // Relaxed: see `current_of`.
            current.store(runtime.map_or(FORGOTTEN, NonNull::as_ptr), Relaxed);
        }
    }

    /// The region around this one, or null.
    pub fn parent(&self) -> *const Self {
        // Relaxed: the region was handed over with it. `renew_parent` writes the same address.
        self.parent.load(Relaxed)
    }

    /// The region is used again. `parent` has the address of its former parent, but is another region if that
    /// one has ended.
    ///
    /// # Safety
    /// 1. As [`entered`](Self::entered).
    pub unsafe fn renew_parent(&self, parent: *const Self) {
        debug_assert!(ptr::eq(self.parent(), parent));
        // Relaxed: see `parent`.
        self.parent.store(parent.cast_mut(), Relaxed);
    }

    /// Whether this is a part with `tag` of the computation in `parent`.
    pub fn is_part_of(&self, parent: *const Self, tag: Tag) -> bool {
        ptr::eq(self.parent(), parent) && self.tag == tag
    }

    fn question(&self) -> Option<&Question> {
        match &self.kind {
            Kind::Cancellable(question) => Some(question),
            Kind::Isolated | Kind::Entered { .. } => None,
        }
    }

    /// This region and its outer regions.
    fn chain(&self) -> impl Iterator<Item = &Self> {
        // SAFETY: a parent is null, or live while its regions are used, by the duties of `isolated`,
        // `entered` and `renew_parent`.
        std::iter::successors(Some(self), |region| unsafe { region.parent().as_ref() })
    }

    /// The region of the whole computation of which `region` is a part, if one can be cancelled. Null if none
    /// can.
    ///
    /// # Safety
    /// 1. `region` is null, or live until this returns.
    pub unsafe fn computation(region: *const Self) -> *const Self {
        // SAFETY: (1).
        unsafe { region.as_ref() }.and_then(Self::root).map_or(null(), ptr::from_ref)
    }

    fn root(&self) -> Option<&Self> {
        self.chain().find(|region| region.question().is_some())
    }

    /// Whether this is a part of the isolated region with `tag`, however deep.
    pub fn is_inside(&self, tag: Tag) -> bool {
        self.chain().any(|region| region.tag == tag)
    }

    /// Whether this computation, or one around it, has been cancelled.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.chain().filter_map(Self::question).any(Question::is_cancelled)
    }

    /// The question that split points in the region ask. Null if no split point may end the computation,
    /// because the region is isolated, or inside of an isolated region.
    pub fn asked_at_splits(&self) -> *const Question {
        let around = self.chain().find(|region| !matches!(region.kind, Kind::Entered { .. }));
        match around.map(|region| &region.kind) {
            // This is the outermost region.
            Some(Kind::Cancellable(question)) if cfg!(panic = "unwind") => question,
            _ => null(),
        }
    }

    /// Keeps a panic for the end of the computation, because the thread unwinds already. Returns `payload` if
    /// an earlier panic is kept already, or if neither this region nor a region around it can be cancelled.
    pub fn keep_panic(&self, payload: Payload) -> Option<Payload> {
        let Some(root) = self.root() else { return Some(payload) };
        let mut panic = root.panic.lock();
        match *panic {
            None => {
                *panic = Some(payload);
                None
            }
            Some(_) => Some(payload),
        }
    }

    pub fn take_panic(&self) -> Option<Payload> {
        self.panic.lock().take()
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("tag", &self.tag).field("kind", &self.kind).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
