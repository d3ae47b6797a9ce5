//! The jobs of a scope: how they are made, where they are pushed, and how they run.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use super::base::{Base, run_here};
use crate::job::{HeapJob, JobFifo, JobHeader, JobRef, Memory, Spot};
use crate::parallel::broadcast::BroadcastContext;
use crate::parallel::enter::JobEnd;
use crate::queue::TicketQueue;
use crate::scheduler::context;
use crate::scheduler::reference::Reference;
use crate::scheduler::{JobMemory, OwnJobs, Shared};
use crate::util::unwind;

/// One of the two kinds of scope.
pub(super) trait Kind<'scope>: Sync {
    fn base(&self) -> &Base<'scope>;
}

/// One job processor's jobs of a FIFO scope.
type ScopedFifo = JobFifo<TicketQueue<JobHeader>>;

/// The jobs of a FIFO scope.
pub(super) struct Fifos {
    /// One for each permanent worker's job processor.
    pub(super) of_workers: Box<[OnceLock<ScopedFifo>]>,
    /// The jobs of the scope's owner, if it is at home on another kind of job processor.
    pub(super) of_owner: OnceLock<ScopedFifo>,
}

impl Fifos {
    /// The queue of the calling thread, which holds `processor`. `is_home`: the thread is the scope's owner,
    /// at home.
    fn at(&self, processor: &OwnJobs, is_home: bool) -> Option<&OnceLock<ScopedFifo>> {
        self.of_workers.get(processor.index()).or(is_home.then_some(&self.of_owner))
    }
}

/// A scope's address, for its jobs.
struct Pointer<T>(*const T);

// SAFETY: scopes are `Sync`.
unsafe impl<T: Sync> Send for Pointer<T> {}

impl<T> Pointer<T> {
    /// A method, so that a closure captures the whole struct. The field alone is not `Send`.
    #[inline(always)]
    fn get(self) -> *const T {
        self.0
    }
}

#[inline(always)]
pub(super) fn spawn<'scope, S: Kind<'scope>>(scope: &S, fifos: Option<&Fifos>, body: impl FnOnce(&S) + Send) {
    let base = scope.base();
    // SAFETY: (1) used in this call only.
    let processor = unsafe { context::job_processor() };
    let (is_home, processor) = match base.at_home(processor) {
        Some(processor) => (true, processor),
        None => match processor {
            Some(processor) if Some(processor.shared_ptr()) == base.pool => (false, processor),
            _ => return spawn_outside(scope, processor, body),
        },
    };
    let fifo = match fifos {
        None => None,
        Some(fifos) => match fifos.at(processor, is_home) {
            None => return spawn_outside(scope, Some(processor), body),
            fifo => fifo,
        },
    };
    // SAFETY: (1) `at_home` says whether this thread is the owner and has not folded. (2) The calling thread
    // has the scope. So it runs the body or a job of the scope, or such a frame waits for it.
    unsafe { base.count.increment(is_home) };
    // SAFETY: (1) just counted; (2) all job processors and workers have their memory from one allocator.
    let job = unsafe { job(scope, |layout| processor.allocate(layout), body) };
    let job = match fifo {
        None => job,
        // SAFETY: (1) the FIFO is the scope's, which stays until the job has run; (2) the token is pushed
        // below; (3) this thread is the job processor's owner, or the scope's.
        Some(fifo) => unsafe { fifo.get_or_init(|| JobFifo::new(base.region)).push(job) },
    };
    // SAFETY: (1) the job is counted, so that the scope waits for it.
    unsafe { processor.push(job) };
}

#[cold]
#[inline(never)]
fn spawn_outside<'scope, S: Kind<'scope>>(
    scope: &S,
    processor: Option<&OwnJobs>,
    body: impl FnOnce(&S) + Send,
) {
    let base = scope.base();
    // SAFETY: (1) the call does not count as the owner's. (2) As in `spawn`.
    unsafe { base.count.increment(false) };
    let Some(pool) = base.pool else {
        // SAFETY: (1) just counted; (2) `JobMemory` takes its own memory.
        return base.list.push_back(unsafe { job(scope, JobMemory::allocate, body) });
    };
    // SAFETY: a scope's pool is valid.
    let shared = unsafe { pool.as_ref() };
    if shared.injected_jobs.try_begin() {
        // SAFETY: (1) the scope and the pool have just counted it.
        return shared.queue_install(unsafe { injected_job(scope, pool, body) });
    }
    // SAFETY: (1) a scope's pool is valid, as above. The hold is for the owner's latch, which a thread of no
    // pool is about to set.
    let _hold = unsafe { Reference::new(pool) };
    // SAFETY: `job`: (1) counted above; (2) `JobMemory` takes its own memory. `run_here`: (1) the job was
    // just made, and is in no queue.
    unsafe { run_here(processor, job(scope, JobMemory::allocate, body)) };
}

pub(super) fn spawn_broadcast<'scope, S: Kind<'scope>>(
    scope: &S,
    body: impl Fn(&S, BroadcastContext<'_>) + Send + Sync,
) {
    let base = scope.base();
    // SAFETY: a scope's pool is valid.
    let shared = base.pool.map(|pool| (pool, unsafe { pool.as_ref() }));
    let Some((pool, shared)) = shared.filter(|(_, shared)| shared.try_begin_many(shared.config.workers))
    else {
        return spawn(scope, None, move |scope: &S| body(scope, BroadcastContext::new(0, 1)));
    };
    let (threads, body) = (shared.config.workers, Arc::new(body));
    shared.queue_broadcast((0..threads).map(|index| {
        // SAFETY: (1) the call does not count as the owner's. (2) As in `spawn`.
        unsafe { base.count.increment(false) };
        let body = body.clone();
        // SAFETY: (1) the scope has just counted it, and the pool in `try_begin_many`.
        unsafe {
            injected_job(scope, pool, move |scope: &S| body(scope, BroadcastContext::new(index, threads)))
        }
    }));
    // All runs may have ended, and its destructor may panic.
    unwind::catch(|| drop(body)).unwrap_or_else(|payload| base.keep_panic(payload));
}

/// A job of the scope that is also an injected job of its pool.
///
/// # Safety
/// 1. It was counted, by both.
unsafe fn injected_job<'scope, S: Kind<'scope>>(
    scope: &S,
    pool: NonNull<Shared>,
    body: impl FnOnce(&S) + Send,
) -> JobRef {
    // SAFETY: (1) by our (1) the pool has counted it. (2) The job processor that runs or drops it keeps its
    // pool.
    let end = unsafe { JobEnd::new(pool) };
    let body = move |scope: &S| {
        // Drops in this order, also if the job is dropped unrun: the injected job ends last.
        let (body, _end) = (body, end);
        body(scope);
    };
    // SAFETY: (1); (2) `JobMemory` takes its own memory.
    unsafe { job(scope, JobMemory::allocate, body) }
}

/// A job of the scope.
///
/// # Safety
/// 1. It was counted. 2. `allocate` returns memory that [`JobMemory`] takes.
#[inline(always)]
unsafe fn job<'scope, S: Kind<'scope>>(
    scope: &S,
    allocate: impl FnOnce(Layout) -> NonNull<u8>,
    body: impl FnOnce(&S) + Send,
) -> JobRef {
    let (this, base) = (Pointer(scope), scope.base());
    let run = move |spot| {
        // SAFETY: (1).
        unsafe { run_job(this.get(), spot, body) }
    };
    // SAFETY: (1) to (3) by our (1) the job is counted, so that the scope, whatever its body borrows, and the
    // region are there until it has run. It does not unwind. The body is `Send`; the scope is `Sync`. (4) is
    // our (2).
    unsafe { HeapJob::<JobMemory, _>::allocate_by(allocate, base.region, base.tag, run) }
}

/// # Safety
/// 1. The scope is live: the job is counted.
#[inline(always)]
unsafe fn run_job<'scope, S: Kind<'scope>>(scope: *const S, spot: Spot<JobMemory>, body: impl FnOnce(&S)) {
    // `Base` frees the memory after the body, so that nothing but the memory has to be kept meanwhile.
    let (memory, layout) = spot.into_raw();
    // SAFETY: (1), until the decrement; the memory is not used any more.
    unsafe {
        let base: *const Base<'scope> = (*scope).base();
        if (*base).is_cancelled() {
            return Base::cancel_job(base, memory, layout, body);
        }
        match unwind::catch(|| body(&*scope)) {
            Ok(()) => Base::end_job(base, memory, layout),
            Err(payload) => Base::end_panicked(base, memory, layout, payload),
        }
    }
}
