//! Runs a program, and notes what is not as it should be.
//!
//! [`World`] is what one run shares; [`Cx`] is where an operation is and what it should see there. `steps`
//! runs what is awaited, `calls` what is called. Larger operations have files of their own: `barriers` for
//! broadcasts at once, `crowd` for threads in `block_on` of one runtime, `drops` for destructors that block
//! or fork, `guards` for runtimes that are left inside of a scope, `levels` for local tasks that block. `odd`
//! holds wakers of the program's own. `whole` builds and ends the runtime.

mod barriers;
pub mod calls;
mod crowd;
mod drops;
mod guards;
mod levels;
pub mod odd;
mod sabotage;
pub mod steps;
pub mod whole;

use std::any::Any;
use std::panic::{panic_any, resume_unwind};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use runtime::parallel::ThreadPool;
use runtime::runtime::RuntimeFlavor;
use runtime::task::JoinError;
use runtime::{Handle, Runtime};

use crate::check::token::{Token, Tokens};
use crate::cli::Sabotage;
use crate::program::*;

runtime::task_local! {
    static KEY: u64;
}

/// What a leaf panics with.
#[derive(Debug)]
pub struct Boom(pub Id);

/// A panic's payload.
pub type Payload = Box<dyn Any + Send>;

/// What a run shares.
#[derive(Debug)]
pub struct World {
    /// The program.
    pub program: Program,
    marks: Box<[Mark]>,
    faults: Mutex<Vec<String>>,
    /// The program's runtime, until an operation or the main thread ends it.
    pub runtime: Mutex<Option<Runtime>>,
    /// Tokens in closures and futures.
    pub tokens: Arc<Tokens>,
    mutexes: [runtime::sync::Mutex<()>; 2],
    semaphores: [runtime::sync::Semaphore; 2],
    locks: [Mutex<()>; 2],
    /// Woken when everything has ended.
    pub late: Mutex<Vec<Waker>>,
    /// Wakers of tasks, which hooks wake.
    pub kept: Mutex<Vec<Waker>>,
    /// How often hooks may still wake: a hook that woke each time would never let its worker sleep.
    pub wakes_left: AtomicI32,
    /// The runtime ends, and no hook has forked since.
    pub hook_forks: AtomicBool,
    /// Released by the deadlock handler.
    pub deadlocked: Mutex<Vec<SyncSender<()>>>,
    /// The threads with live jobs, by pool and index: thread and number of jobs.
    indexes: Box<[[AtomicU64; INDEXES]]>,
    /// By `current_thread` runtime, the threads that have driven it: a bit for each pool that parallel calls
    /// on such a thread belong to, see [`Cx::as_driver`].
    drivers: Box<[AtomicU64]>,
    has_marks: AtomicBool,
    sabotage: Option<Sabotage>,
}

/// In [`World::drivers`]: a thread has driven the runtime while it unwinds.
const UNWINDS: u64 = 1 << 63;

/// How often hooks wake while the runtime runs, and how often while it ends.
pub const HOOK_WAKES: i32 = 12;

/// Indexes of threads that are looked at.
const INDEXES: usize = 8;

/// What has become of an operation.
#[derive(Debug, Default)]
struct Mark {
    begun: AtomicU32,
    ended: AtomicU32,
}

/// Locks a mutex of the checker's own, also if a panic has poisoned it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    /// The world of a program that has not begun.
    pub fn new(program: Program, sabotage: Option<Sabotage>) -> Self {
        let marks = program.facts.iter().map(|_| Mark::default()).collect();
        let indexes = program.pools.iter().map(|_| Default::default()).collect();
        let drivers = program.pools.iter().map(|_| AtomicU64::new(0)).collect();
        Self {
            program,
            marks,
            faults: Mutex::new(Vec::new()),
            runtime: Mutex::new(None),
            tokens: Arc::default(),
            mutexes: [(); 2].map(runtime::sync::Mutex::new),
            semaphores: [(); 2].map(|()| runtime::sync::Semaphore::new(1)),
            locks: [(); 2].map(Mutex::new),
            late: Mutex::new(Vec::new()),
            kept: Mutex::new(Vec::new()),
            wakes_left: AtomicI32::new(HOOK_WAKES),
            hook_forks: AtomicBool::new(false),
            deadlocked: Mutex::new(Vec::new()),
            indexes,
            drivers,
            has_marks: AtomicBool::new(false),
            sabotage,
        }
    }

    /// Notes that something is not as it should be.
    pub fn fault(&self, text: impl Into<String>) {
        let mut faults = lock(&self.faults);
        if faults.len() < 20 {
            faults.push(text.into());
        }
    }

    /// What was noted.
    pub fn faults(&self) -> Vec<String> {
        lock(&self.faults).clone()
    }

    /// What has become of operation `id`, for a margin.
    pub fn state(&self, id: Id) -> String {
        let mark = &self.marks[id];
        let (begun, ended) = (mark.begun.load(SeqCst), mark.ended.load(SeqCst));
        match (begun, ended) {
            (0, _) => "-".to_owned(),
            (1, 0) => "begun".to_owned(),
            (1, 1) => "ok".to_owned(),
            _ if begun == ended => format!("{ended} ok"),
            _ => format!("{ended}/{begun}"),
        }
    }

    /// Compares how often each operation was begun with what was predicted.
    pub fn check_counts(&self) {
        for (id, (mark, fact)) in self.marks.iter().zip(&self.program.facts).enumerate() {
            let begun = mark.begun.load(SeqCst);
            if begun < fact.least || begun > fact.most {
                let Fact { least, most, .. } = fact;
                self.fault(format!("[{id}] was begun {begun} times, not {least} to {most} times"));
            }
        }
    }

    fn fact(&self, id: Id) -> &Fact {
        &self.program.facts[id]
    }
}

/// A runtime or a pool that is at hand.
#[derive(Debug, Clone)]
enum Reach {
    Runtime(Handle),
    Threads(Arc<ThreadPool>),
}

/// Runtimes and pools that are at hand, the innermost first.
#[derive(Debug, Clone)]
pub struct Reaches(Option<Arc<(PoolId, Reach, Reaches)>>);

impl Reaches {
    /// None.
    pub const NONE: Reaches = Reaches(None);

    fn with(&self, pool: PoolId, reach: Reach) -> Self {
        Reaches(Some(Arc::new((pool, reach, self.clone()))))
    }

    fn find(&self, pool: PoolId) -> &Reach {
        let (own, reach, rest) = &**self.0.as_ref().expect("the rules know what is at hand");
        if *own == pool { reach } else { rest.find(pool) }
    }
}

/// How a runtime looks from inside: its flavour and its number of workers.
type Look = (bool, usize);

fn look_of(pool: Pool) -> Option<Look> {
    match pool {
        Pool::Single => Some((true, 1)),
        Pool::Workers { workers, .. } => Some((false, workers)),
        Pool::Threads(_) | Pool::Global(_) => None,
    }
}

/// What an operation sees around it: the current runtime and the task-local.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    runtime: Option<Look>,
    local: Option<u64>,
}

fn seen() -> Seen {
    let look = |handle: Handle| {
        (handle.runtime_flavor() == RuntimeFlavor::CurrentThread, handle.metrics().num_workers())
    };
    Seen { runtime: Handle::try_current().ok().map(look), local: KEY.try_get().ok() }
}

/// Where an operation is.
#[derive(Debug, Clone)]
pub struct Cx {
    /// The run.
    pub w: Arc<World>,
    /// The tokens of the part of the program that is around.
    tokens: Arc<Tokens>,
    reaches: Reaches,
    seen: Seen,
    /// The pool that parallel calls belong to.
    pool: PoolId,
    /// Whether the thread is one of that pool.
    is_on_processor: bool,
    /// The `current_thread` runtime that says which pool it is, and which thread had driven that runtime when
    /// it was asked.
    driven: Option<(PoolId, u64)>,
}

impl Cx {
    /// On a thread outside, with these at hand.
    pub fn outside(w: &Arc<World>, reaches: Reaches) -> Self {
        let seen = Seen { runtime: None, local: None };
        Self {
            w: w.clone(),
            tokens: w.tokens.clone(),
            reaches,
            seen,
            pool: GLOBAL,
            is_on_processor: false,
            driven: None,
        }
    }

    fn fact(&self, id: Id) -> &Fact {
        self.w.fact(id)
    }

    fn is_certain(&self, id: Id) -> bool {
        self.fact(id).certain
    }

    fn handle(&self, rt: PoolId) -> &Handle {
        match self.reaches.find(rt) {
            Reach::Runtime(handle) => handle,
            Reach::Threads(_) => unreachable!("the rules know which pools are runtimes"),
        }
    }

    fn threads(&self, pool: PoolId) -> &Arc<ThreadPool> {
        match self.reaches.find(pool) {
            Reach::Threads(threads) => threads,
            Reach::Runtime(_) => unreachable!("the rules know which pools are runtimes"),
        }
    }

    fn look(&self, pool: PoolId) -> Option<Look> {
        look_of(self.w.program.pools[pool])
    }

    /// The pool of parallel calls where `rt` is current, on a thread of no pool.
    fn pool_of_runtime(&self, rt: PoolId) -> PoolId {
        if self.w.program.pools[rt] == Pool::Single { 1 } else { rt }
    }

    /// Whether [`pool`](Self::pool) is certain. It is not where threads of several pools have driven the
    /// `current_thread` runtime that says so.
    fn is_pool_known(&self) -> bool {
        let is_known = |(rt, seen): (PoolId, u64)| {
            (seen & !UNWINDS).count_ones() == 1 && seen == self.w.drivers[rt].load(SeqCst)
        };
        self.driven.is_none_or(is_known)
    }

    /// What [`World::drivers`] says of the thread that is here: its pool, and whether it is one of that pool.
    fn as_driver(&self) -> u64 {
        let pool = match self.is_pool_known() {
            true => 1 << (2 * self.pool + usize::from(self.is_on_processor)),
            false => !UNWINDS,
        };
        if std::thread::panicking() { pool | UNWINDS } else { pool }
    }

    /// Whether the thread of operation `id` may be unwinding.
    fn may_unwind(&self, id: Id) -> bool {
        let is_unwound = |(rt, _): (PoolId, u64)| self.w.drivers[rt].load(SeqCst) & UNWINDS != 0;
        self.fact(id).unwinding || self.driven.is_some_and(is_unwound)
    }

    /// Where a call is that names a pool, or none.
    fn on(&self, pool: Option<PoolId>) -> Self {
        match pool {
            Some(pool) => Self { pool, driven: None, ..self.clone() },
            None => self.clone(),
        }
    }

    fn token(&self) -> Token {
        self.tokens.token()
    }

    /// An operation begins here: notes it, and looks around.
    fn begin(&self, id: Id) {
        self.w.marks[id].begun.fetch_add(1, Relaxed);
        let seen = seen();
        if seen != self.seen {
            self.w.fault(format!("[{id}] sees {seen:?}, not {:?}", self.seen));
        }
        if std::thread::panicking() && !self.may_unwind(id) {
            self.w.fault(format!("[{id}] runs on a thread that unwinds"));
        }
    }

    fn end(&self, id: Id) {
        self.w.marks[id].ended.fetch_add(1, Relaxed);
    }

    /// As a task of `rt`; for its first poll.
    fn into_task(mut self, rt: PoolId, id: Id) -> Self {
        let seen = seen();
        let is_single = self.w.program.pools[rt] == Pool::Single;
        if seen.runtime != self.look(rt) || seen.local.is_some() && !is_single {
            self.w.fault(format!("[{id}], a task of pool {rt}, sees {seen:?}"));
        }
        self.seen = seen;
        if is_single {
            let drivers = self.w.drivers[rt].load(SeqCst);
            let driver = drivers.trailing_zeros() as usize;
            (self.pool, self.is_on_processor) = (driver / 2, driver % 2 == 1);
            self.driven = Some((rt, drivers));
        } else {
            (self.pool, self.is_on_processor, self.driven) = (rt, true, None);
        }
        self
    }

    /// As a closure of `spawn_blocking`.
    fn into_closure(mut self, rt: PoolId, id: Id) -> Self {
        self.seen = Seen { runtime: self.look(rt), local: None };
        (self.pool, self.is_on_processor, self.driven) = (self.pool_of_runtime(rt), false, None);
        self.must_see(id);
        self
    }

    /// As the future of a `block_on`; for its first poll.
    fn into_block_on(mut self, rt: PoolId, id: Id) -> Self {
        let seen = seen();
        let is_local = seen.local.is_none() || seen.local == self.seen.local;
        if seen.runtime != self.look(rt) || !is_local {
            self.w.fault(format!("[{id}], a block_on of pool {rt}, sees {seen:?} inside of {:?}", self.seen));
        }
        self.seen = seen;
        if !self.is_on_processor {
            self.pool = self.pool_of_runtime(rt);
        }
        if self.w.program.pools[rt] == Pool::Single {
            // Before this thread polls a task of it.
            self.w.drivers[rt].fetch_or(self.as_driver(), SeqCst);
        }
        self
    }

    fn must_see(&self, id: Id) {
        let seen = seen();
        if seen != self.seen {
            self.w.fault(format!("[{id}] sees {seen:?}, not {:?}", self.seen));
        }
    }

    /// As a job of the pool that the call belongs to.
    fn into_job(mut self, id: Id) -> Self {
        let seen = seen();
        let is_known = seen.runtime == self.seen.runtime || seen.runtime.is_none();
        let is_known = is_known || seen.runtime == self.look(self.pool) || !self.is_pool_known();
        let is_local = seen.local == self.seen.local || seen.local.is_none();
        if self.w.program.checks_surroundings && !(is_known && is_local) {
            let Self { pool, seen: call, .. } = &self;
            self.w.fault(format!("[{id}], a job of pool {pool}, sees {seen:?}, and its call {call:?}"));
        }
        if std::thread::panicking() && !self.may_unwind(id) {
            self.w.fault(format!("[{id}], a job, begins on a thread that unwinds"));
        }
        self.seen = seen;
        self.is_on_processor = true;
        self
    }

    /// As a job of `pool`.
    fn into_job_of(self, pool: PoolId, id: Id) -> Self {
        self.on(Some(pool)).into_job(id)
    }

    /// While a job lives, no other thread of its pool has its index.
    fn claim_index(&self, id: Id) -> Claim<'_> {
        let programs = 2 + self.w.program.thread_pools.len();
        let index = runtime::parallel::current_thread_index();
        let slot = index
            .filter(|&index| index < INDEXES && self.pool < programs && self.is_pool_known())
            .map(|index| &self.w.indexes[self.pool][index]);
        // SAFETY: it has no duties.
        let thread = unsafe { libc::gettid() } as u64;
        if let Some(slot) = slot {
            let before = slot.fetch_add(1, SeqCst);
            if before == 0 {
                slot.fetch_add(thread << 16, SeqCst);
            } else if before >> 16 != thread && before >> 16 != 0 {
                self.w.fault(format!("[{id}] has index {index:?} of pool {}, as another thread", self.pool));
            }
        }
        Claim { slot, thread }
    }

    /// Operation `at` awaits or catches part `of`, which has ended with `result`. Notes a fault if the result
    /// is not as predicted. Returns the value that was predicted for the part, or 1 for a panic. A panic by
    /// which a cancelled computation ends goes on; all other panics end here.
    fn settle(&self, at: Id, of: Id, result: Result<u64, Failed>) -> u64 {
        let fact = self.fact(of);
        let is_certain = self.is_certain(at) && fact.certain;
        match result {
            Ok(value) if fact.panics.is_empty() => {
                if value != fact.value {
                    self.w.fault(format!("[{of}] came to {value:x}, not {:x}", fact.value));
                }
            }
            Ok(_) => self.w.fault(format!("[{of}] did not panic")),
            Err(Failed::Cut) if is_certain => {
                self.w.fault(format!("[{of}] was cut short, and nothing is there that does so"));
            }
            Err(Failed::Cut) => {}
            Err(Failed::Panicked(payload)) => {
                let allowed = if is_certain { &fact.panics } else { &fact.any_panics };
                let is_allowed = |id: &Id| {
                    // Any panic of a part counts more than a cancellation, also one that came out nowhere.
                    allowed.contains(id) || fact.cancellable && fact.lost_panics.contains(id)
                };
                match payload.downcast_ref::<Boom>() {
                    Some(Boom(id)) if is_allowed(id) => {}
                    Some(Boom(id)) => self.w.fault(format!("[{of}] ended in the panic of [{id}]")),
                    None if self.is_cancellation(at, &payload) && fact.cancellable => resume_unwind(payload),
                    None => self.w.fault(format!("[{of}] panicked: {}", text_of(&payload))),
                }
            }
        }
        if fact.panics.is_empty() { fact.value } else { 1 }
    }

    /// Whether a panic, caught at `at`, is how a cancelled computation ends. It goes on then.
    fn is_cancellation(&self, at: Id, payload: &Payload) -> bool {
        let is_own = payload.is::<Boom>() || payload.is::<String>() || payload.is::<&str>();
        self.fact(at).cancellable && !is_own
    }

    /// A leaf panics.
    fn boom(&self, id: Id) -> ! {
        panic_any(Boom(id))
    }
}

/// Why a part has no value.
#[derive(Debug)]
enum Failed {
    Cut,
    Panicked(Payload),
}

impl From<JoinError> for Failed {
    fn from(error: JoinError) -> Self {
        match error.try_into_panic() {
            Ok(payload) => Failed::Panicked(payload),
            Err(_) => Failed::Cut,
        }
    }
}

/// The text of a panic of other code.
fn text_of(payload: &Payload) -> String {
    payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("with something that is no text")
        .to_owned()
}

/// See [`Cx::claim_index`].
struct Claim<'a> {
    slot: Option<&'a AtomicU64>,
    thread: u64,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            // The last job of this thread takes the thread's number away, too.
            let last = self.thread << 16 | 1;
            if slot.compare_exchange(last, 0, SeqCst, SeqCst).is_err() {
                slot.fetch_sub(1, SeqCst);
            }
        }
    }
}

/// Computes for so long.
fn spin(time: Micros) {
    let end = Instant::now() + Duration::from_micros(time);
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

fn micros(time: Micros) -> Duration {
    Duration::from_micros(time)
}

/// Opens a gate when it is dropped, however that comes.
struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> OnDrop<F> {
    fn new(f: F) -> Self {
        Self(Some(f))
    }
}

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(f) = self.0.take() {
            f();
        }
    }
}
