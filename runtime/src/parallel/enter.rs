//! Which pool a call belongs to, and how the call gets onto a seat of that pool.
//!
//! | the calling thread                                    | the work runs                      |
//! | has a seat (of a runtime, of a `ThreadPool`)          | there, on its own stack            |
//! | is in a solitary part (see `isolated.rs`)             | in place                           |
//! | has entered a multi-thread runtime, or blocks in one  | on a seat of that runtime          |
//! | any other, also if it drives a current_thread runtime | on a seat of the process-wide pool |
//!
//! In the last two cases the thread runs the work itself, as an *external thread*
//! (`scheduler/computations/external.rs`), if it may and a worker sleeps. Otherwise the thread sends the work
//! to a worker, and waits.
//!
//! A pool whose workers are leaving accepts no more work. Then the work runs in place, too. The same holds if
//! the system refused every thread of the process-wide pool.

use std::ptr::NonNull;

use super::pool::ThreadPool;
use super::{global, scope};
use crate::job::region::Current;
use crate::job::{CoreLatch, CrossLatch, Latch, Region, SpinLatch, StackJob, Tag, ThreadLatch};
use crate::scheduler::context;
use crate::scheduler::{Seat, Shared, Worker};
use crate::util::block_on;
use crate::util::unwind::Payload;

/// The place to which a call belongs.
pub enum Place<'a> {
    /// The calling thread's own seat.
    Seat(&'a Seat),
    /// On another thread: on a seat of this pool. The pool is valid for as long as the caller keeps the
    /// reason why it is current.
    Pool(NonNull<Shared>),
    /// Here, sequentially.
    Here,
}

/// The place of a call that names no pool.
#[inline]
pub fn place<'a>() -> Place<'a> {
    // SAFETY: used for one call, on this thread.
    match unsafe { context::seat() } {
        Some(seat) => Place::Seat(seat),
        None => place_without_seat(),
    }
}

#[cold]
fn place_without_seat<'a>() -> Place<'a> {
    if is_solitary() || worker_pool().is_some() {
        return Place::Here;
    }
    entered_pool().map_or(Place::Here, Place::Pool)
}

/// Whether the calling thread shares nothing of what it runs.
fn is_solitary() -> bool {
    context::region().1 == Tag::SOLITARY
}

/// The pool that has the calling thread for a worker.
fn worker_pool() -> Option<NonNull<Shared>> {
    context::with_worker(|worker| worker.map(Worker::shared_ptr)).filter(has_seats)
}

/// The runtime that the calling thread has entered, or the process-wide pool.
fn entered_pool() -> Option<NonNull<Shared>> {
    context::current().filter(has_seats).or_else(global_pool)
}

fn global_pool() -> Option<NonNull<Shared>> {
    global::get().map(ThreadPool::shared_ptr)
}

fn has_seats(shared: &NonNull<Shared>) -> bool {
    // SAFETY: whatever is current is valid.
    !unsafe { shared.as_ref() }.is_current_thread()
}

/// The pool of an injected job that the caller does not wait for, valid as in [`Place::Pool`]. A spare worker
/// uses its runtime's seats for the job, and a solitary part makes no difference. None: there is no pool, so
/// the job runs in place.
pub fn root_pool() -> Option<NonNull<Shared>> {
    match place() {
        Place::Seat(seat) => Some(seat.shared_ptr()),
        Place::Pool(shared) => Some(shared),
        Place::Here => worker_pool().or_else(entered_pool),
    }
}

/// As [`root_pool`], for a job that was meant for the runtime `shared`, which is valid. A `current_thread`
/// runtime has no seats.
pub fn root_pool_of(shared: NonNull<Shared>) -> Option<NonNull<Shared>> {
    Some(shared).filter(has_seats).or_else(global_pool)
}

/// The region to which the jobs of a call belong, if the call leaves the calling thread for a pool.
pub struct CallRegion {
    region: *const Region,
    tag: Tag,
    /// A region made for this call. It is needed if the thread's current runtime is not the one that its
    /// region, or the pool's threads, would give.
    entered: Option<Box<Region>>,
}

impl CallRegion {
    /// The region of a call that goes to `pool`, on the calling thread, which holds `seat`.
    pub fn of(seat: Option<&Seat>, pool: &Shared) -> Self {
        let (region, tag) = scope::region_of(seat);
        let here = context::current();
        // SAFETY: the region of the calling thread is live.
        let there = match unsafe { Region::current_of(region) } {
            Current::OfThread => pool.current_on_threads(),
            Current::Is(current) => current.map(NonNull::cast),
        };
        // SAFETY: the region around is live until this call ends.
        let entered = || Box::new(unsafe { Region::entered(region, tag, here.map(NonNull::cast)) });
        Self { region, tag, entered: (here != there).then(entered) }
    }

    /// The region. It lives as long as `self`, and is not null if the call has one.
    pub fn region(&self) -> *const Region {
        self.entered.as_ref().map_or(self.region, |region| &raw const **region)
    }

    pub fn tag(&self) -> Tag {
        self.tag
    }
}

/// What a call does on a non-worker thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outside {
    /// The thread runs the call itself if it can, as an external thread.
    Visits,
    /// The thread sends its work to a worker, whatever that costs.
    Sends,
}

/// Runs `op` on a seat of the pool that the call belongs to, if there is one. `op` gets the seat, and whether
/// it was moved to another thread. A panic in `op` goes on here.
#[inline]
pub fn on_seat<R: Send>(outside: Outside, op: impl FnOnce(Option<&Seat>, bool) -> R + Send) -> R {
    match (place(), outside) {
        (Place::Seat(seat), _) => op(Some(seat), false),
        // SAFETY: valid while this thread has it entered.
        (Place::Pool(shared), Outside::Visits) => unsafe { visit_or_install(shared, op) },
        // SAFETY: as above.
        (Place::Pool(shared), Outside::Sends) => unsafe { install(shared, op) },
        (Place::Here, _) => op(None, false),
    }
}

/// Runs `op` here, as an external thread of `shared`, or else on a worker's thread.
///
/// # Safety
/// 1. `shared` is valid until this returns.
unsafe fn visit_or_install<R: Send>(
    shared: NonNull<Shared>,
    op: impl FnOnce(Option<&Seat>, bool) -> R + Send,
) -> R {
    // SAFETY: (1).
    let state = unsafe { shared.as_ref() };
    match Visit::begin(state) {
        Some(visit) => context::enter_seat(visit.seat, || op(Some(visit.seat), false)),
        // SAFETY: (1).
        None => unsafe { install(shared, op) },
    }
}

/// The calling thread has an external thread's seat until this is dropped.
struct Visit<'a> {
    seat: &'a Seat,
    _region: CallRegion,
}

impl<'a> Visit<'a> {
    /// Returns `None` if no seat is free, or if this thread must not take one.
    fn begin(shared: &'a Shared) -> Option<Self> {
        // The worker of a `current_thread` runtime has to come back to that runtime's tasks.
        let is_stranger = || context::with_worker(|worker| worker.is_none());
        if !shared.idle.has_sleepers() || !is_stranger() || !shared.jobs.try_begin() {
            return None;
        }
        let Some((seat, own_tag)) = shared.take_external() else {
            shared.root_ended();
            return None;
        };
        let region = CallRegion::of(None, shared);
        let tag =
            if region.tag() == Tag::NONE || region.tag().is_external() { own_tag } else { region.tag() };
        // SAFETY: (1) the region is in `self`, whose drop ends the visit; (2) it was taken just now.
        unsafe { seat.begin_external(region.region(), tag) };
        Some(Self { seat, _region: region })
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        let shared = self.seat.shared();
        // SAFETY: (1) `begin` did; the seat is given back below.
        let has_moved = unsafe { self.seat.end_external() };
        shared.give_external_back(self.seat, has_moved);
        shared.root_ended();
    }
}

/// Runs `op` on a seat of `shared`.
///
/// # Safety
/// 1. `shared` is valid until this returns.
pub unsafe fn install<R: Send>(
    shared: NonNull<Shared>,
    op: impl FnOnce(Option<&Seat>, bool) -> R + Send,
) -> R {
    // SAFETY: used in this call only.
    match unsafe { context::seat() } {
        Some(seat) if seat.shared_ptr() == shared => op(Some(seat), false),
        Some(seat) => {
            // This seat's pool does not know the thread that sets the latch.
            let _expecting = seat.shared().expect();
            let wait = |latch: &CrossLatch<Seat>| seat.wait(latch.core(), seat.head());
            // SAFETY: (1).
            unsafe { install_and_wait(shared, Some(seat), CrossLatch::new(seat), wait, op) }
        }
        None if is_solitary() => op(None, false),
        None => {
            // SAFETY: (1).
            unsafe { install_and_wait(shared, None, ThreadLatch::new(), wait_blocking, op) }
        }
    }
}

/// # Safety
/// 1. `shared` is valid until this returns. 2. `wait` returns when its latch is set, and does not unwind
///    before.
unsafe fn install_and_wait<L: Latch, R: Send>(
    shared: NonNull<Shared>,
    seat: Option<&Seat>,
    latch: L,
    wait: impl FnOnce(&L),
    op: impl FnOnce(Option<&Seat>, bool) -> R + Send,
) -> R {
    // SAFETY: (1).
    let region = CallRegion::of(seat, unsafe { shared.as_ref() });
    let job = StackJob::new(region.region(), latch, |is_queued| {
        if !is_queued {
            return op(None, false);
        }
        // SAFETY: the root was counted, and the seat that runs it keeps its pool.
        let _end = unsafe { RootEnd::new(shared) };
        // SAFETY: used in this call only.
        op(unsafe { context::seat() }, true)
    });
    // SAFETY: (1); we wait below; closure and result are `Send`.
    let is_pushed = unsafe { shared.as_ref().push_install(job.as_job_ref(region.tag())) };
    if !is_pushed {
        // SAFETY: no other thread got the reference.
        return unsafe { job.run_inline(false) };
    }
    wait(job.latch());
    // SAFETY: (2); once.
    resume(unsafe { job.take_result() })
}

/// Blocks the calling thread. It has no seat, but may be a worker all the same: a spare worker.
fn wait_blocking(latch: &ThreadLatch) {
    block_on::blocking(|| latch.wait());
}

/// When dropped, an injected job or a detached job has ended, whether it returns or unwinds.
#[derive(Debug)]
pub struct RootEnd(NonNull<Shared>);

// SAFETY: the shared state is made to be used from all threads.
unsafe impl Send for RootEnd {}

impl RootEnd {
    /// # Safety
    /// 1. The job was counted. 2. `shared` is valid when this is dropped.
    pub unsafe fn new(shared: NonNull<Shared>) -> Self {
        Self(shared)
    }
}

impl Drop for RootEnd {
    fn drop(&mut self) {
        // SAFETY: duty 2 of `new`.
        unsafe { self.0.as_ref() }.root_ended();
    }
}

/// The latch of a thread that may or may not have a seat.
#[derive(Debug)]
pub enum OwnerLatch {
    Seat(SpinLatch<Seat>),
    /// For jobs in another pool.
    Cross(CrossLatch<Seat>),
    Thread(ThreadLatch),
}

impl OwnerLatch {
    /// A latch for jobs of the pool `shared`. The calling thread waits for it, and holds `seat`.
    pub fn new(seat: Option<&Seat>, shared: Option<NonNull<Shared>>) -> Self {
        match seat {
            Some(seat) if Some(seat.shared_ptr()) == shared => Self::Seat(SpinLatch::new(seat)),
            Some(seat) => Self::Cross(CrossLatch::new(seat)),
            None => Self::Thread(ThreadLatch::new()),
        }
    }

    /// The state of the latch, if it is that of a seat of the pool.
    pub fn core(&self) -> Option<&CoreLatch> {
        match self {
            Self::Seat(latch) => Some(latch.core()),
            Self::Cross(_) | Self::Thread(_) => None,
        }
    }

    /// Waits until the latch is set. `seat` is as for [`new`](Self::new), and `floor` as for [`Seat::wait`].
    pub fn wait(&self, seat: Option<&Seat>, floor: u32) {
        match (self, seat) {
            (Self::Seat(latch), Some(seat)) => seat.wait(latch.core(), floor),
            (Self::Cross(latch), Some(seat)) => {
                // This seat's pool does not know the thread that sets the latch.
                let _expecting = seat.shared().expect();
                seat.wait(latch.core(), floor);
            }
            (Self::Thread(latch), _) => wait_blocking(latch),
            (Self::Seat(_) | Self::Cross(_), None) => unreachable!("the latch was made for a seat"),
        }
    }
}

impl Latch for OwnerLatch {
    // Runs once for each scope, so it is kept out of line from the code that runs for each job.
    #[cold]
    #[inline(never)]
    unsafe fn set(this: *const Self) {
        // SAFETY: live until the inner latch is set; no reference is kept beyond the match.
        unsafe {
            match &*this {
                Self::Seat(latch) => SpinLatch::set(std::ptr::from_ref(latch)),
                Self::Cross(latch) => CrossLatch::set(std::ptr::from_ref(latch)),
                Self::Thread(latch) => ThreadLatch::set(std::ptr::from_ref(latch)),
            }
        }
    }
}

/// The calling thread's seat, if it belongs to the pool `shared`.
///
/// # Safety
/// 1. As [`context::seat`].
pub unsafe fn seat_of<'a>(shared: NonNull<Shared>) -> Option<&'a Seat> {
    // SAFETY: (1).
    unsafe { context::seat() }.filter(|seat| seat.shared_ptr() == shared)
}

/// Resumes the panic of a job where the job is awaited.
#[inline]
pub fn resume<R>(result: Result<R, Payload>) -> R {
    result.unwrap_or_else(|payload| std::panic::resume_unwind(payload))
}
