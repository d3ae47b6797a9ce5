//! A program: the tree of operations that is run, printed and judged.
//!
//! There are two sorts of operation. [`Async`] ones are awaited: in a task, or in the future of a `block_on`.
//! [`Call`] ones are called: in jobs, closures and threads, and directly in the poll of a task.

use std::sync::Arc;

/// The number of an operation, its place in [`Program::facts`].
pub type Id = usize;

/// The number of a pool, its place in [`Program::pools`]. Pool 0 is the program's runtime.
pub type PoolId = usize;

/// A time in microseconds.
pub type Micros = u64;

/// What runs tasks or jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pool {
    /// A multi-thread runtime.
    Workers {
        /// `worker_threads`.
        workers: usize,
        /// `spare_workers`.
        spares: usize,
        /// `max_blocking_threads`.
        blocking: usize,
    },
    /// A `current_thread` runtime.
    Single,
    /// A `ThreadPool` of so many threads.
    Threads(usize),
    /// The process-wide pool of so many threads.
    Global(usize),
}

impl Pool {
    /// Says whether tasks run there.
    pub fn is_runtime(self) -> bool {
        matches!(self, Pool::Workers { .. } | Pool::Single)
    }

    /// How many threads run a broadcast.
    pub fn threads(self) -> usize {
        match self {
            Pool::Workers { workers, .. } => workers,
            Pool::Single => 1,
            Pool::Threads(threads) | Pool::Global(threads) => threads,
        }
    }
}

/// What becomes of a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It is awaited.
    Await,
    /// It is detached.
    Detach,
    /// It is aborted after that time, and awaited.
    Abort(Micros),
    /// It is dropped after that time: a computation is then cancelled.
    Drop(Micros),
}

/// How a runtime is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    /// `drop`.
    Drop,
    /// `shutdown_timeout`.
    Timeout(Micros),
    /// `shutdown_background`.
    Background,
}

/// How a waiter learns that the opener of its gate has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateKind {
    /// The waiter is a task.
    Oneshot,
    /// The waiter is a task.
    Notify,
    /// The waiter is a task.
    Semaphore,
    /// The waiter is a closure of `spawn_blocking` in `blocking_recv`.
    Closure,
    /// The waiter is a computation in `blocking_recv`.
    Computation,
    /// The waiter is a task that blocks in `block_in_place`.
    InPlace,
    /// The waiter is a task that blocks in a channel of `std`.
    Unmarked,
}

/// What a waker of the program's own does before it wakes the task behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OddKind {
    /// It sleeps for a millisecond.
    Blocks,
    /// It spawns a task.
    Spawns,
    /// It computes, with `join`.
    Joins,
    /// It panics after it has woken the task.
    Panics,
    /// It takes that lock of `std`, which a computation may hold across a `join`.
    Locks(usize),
}

/// Where the second of two timers is that are due at once. The waker of the first blocks until the second has
/// fired, and its own wake has had its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TwinKind {
    /// In the task of the first, with a waker that wakes the task.
    Same,
    /// In another task, with a waker that wakes that task.
    Task,
    /// In a `block_on` on a thread outside.
    Thread,
}

/// What a thread outside does after a [`PAUSE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseKind {
    /// It wakes the task that waits.
    Wakes,
    /// It spawns a task.
    Spawns,
    /// It starts a computation, with a `join`.
    Computes,
    /// It sends through `mpsc`.
    Sends,
}

/// What the program's runtimes wait for, beside their queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drivers {
    /// Timers and sockets.
    Used,
    /// Nothing, so that workers sleep without a time-out.
    Idle,
    /// Nothing, because they were built without drivers.
    None,
}

/// How the first closure of a `join` waits for the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeetKind {
    /// `blocking_recv`.
    Channel,
    /// A channel of `std` in `block_in_place`.
    InPlace,
    /// A channel of `std` on a thread of that pool, by `install`.
    Install(PoolId),
}

/// Where broadcasts are called at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarrierKind {
    /// On threads outside.
    Threads,
    /// In the jobs of a scope, by the threads of the pool.
    Scope,
}

/// How guards are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardOrder {
    /// The one that was made first is dropped first.
    pub is_oldest_first: bool,
    /// In an isolated part.
    pub is_isolated: bool,
}

/// What a [`Level`] runs its local tasks in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LevelKind {
    /// A `LocalSet`, in a `block_on` of the runtime.
    Set,
    /// A `LocalRuntime`, which the level builds and drops.
    Own,
    /// The same as the level around, which is still in its poll.
    Again,
}

/// A `block_on` with local tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// What it runs its tasks in.
    pub kind: LevelKind,
    /// The runtime of the `block_on`.
    pub rt: PoolId,
    /// Whether the next level is inside of a local task, in `block_in_place`. Otherwise it is in the future.
    pub in_task: bool,
    /// How long another local task sleeps, if it does.
    pub sleeps: Option<Micros>,
}

/// What the destructor of a task's value does at the end of the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropKind {
    /// Nothing but to tell that it has run.
    Plain,
    /// It takes the lock of the operation.
    Locks,
    /// It takes the lock of the operation, and holds it across `block_in_place`.
    Holds,
    /// It waits in `block_in_place` until the destructor of another task has run.
    Waits { other: usize },
    /// As `Waits`, in a `block_on` of its own runtime, which is a `current_thread` one.
    Drives { other: usize },
    /// It calls `join`.
    Joins,
    /// It waits in `block_in_place` until that queued closure has ended, or was dropped.
    AfterClosure { closure: usize },
    /// It waits in `block_in_place` until all sleepers have ended.
    AfterSleepers,
}

/// What the destructor of a closure does that was queued and is not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueuedKind {
    /// It takes the lock of the operation.
    Locks,
    /// It waits in `block_in_place` until the destructor of a task has run.
    Waits { other: usize },
}

/// How a task waits for the destructor of another one, once the shutdown has begun unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaiterKind {
    /// In `block_in_place`.
    InPlace,
    /// In `block_in_place`, and from the start.
    Early,
    /// In `block_in_place` in the second closure of a `join`, which another worker can steal.
    Join,
    /// On a thread of that pool, by `install`.
    Install(PoolId),
}

impl WaiterKind {
    /// Whether it may hold a lock meanwhile: it runs nothing else.
    pub fn may_lock(self) -> bool {
        matches!(self, WaiterKind::InPlace | WaiterKind::Early)
    }
}

/// A task that is in its poll until the shutdown has begun, and waits for the destructor of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiter {
    /// How it waits.
    pub kind: WaiterKind,
    /// The task.
    pub other: usize,
    /// Whether it holds the lock of the operation meanwhile. Then no task's destructor takes it.
    pub holds_lock: bool,
}

/// Tasks that wait for ever, and closures that wait for a thread, with destructors that block.
#[derive(Debug)]
pub struct Drops {
    /// By task.
    pub kept: Vec<DropKind>,
    /// Whether a task holds the lock until the shutdown has begun, or [`time`](Self::time) is over, and then
    /// across `block_in_place`.
    pub has_holder: bool,
    /// Whether a task blocks in `block_in_place` until the shutdown has begun, or `time` is over. In the
    /// first case it then takes the lock, without a word.
    pub has_returner: bool,
    /// Tasks that wait for the others in polls. If `time` is over before the shutdown begins, they do not,
    /// unless they have waited from the start.
    pub waiters: Vec<Waiter>,
    /// Closures that sleep for `time`, so many that those behind them are queued.
    pub sleepers: usize,
    /// The task for whose destructor the sleepers wait, instead of a sleep.
    pub awaited: Option<usize>,
    /// Closures behind the sleepers.
    pub closures: Vec<QueuedKind>,
    /// See the others.
    pub time: Micros,
}

/// How the program waits for a job that no call waits for by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    No,
    /// In a channel of `std`, which is not announced.
    Unmarked,
    /// In `blocking_recv`.
    Channel,
    /// In a channel of `std`, marked by `mark_blocked`.
    Marked,
}

/// How a job is spawned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// `spawn`.
    Lifo,
    /// `spawn_fifo`.
    Fifo,
    /// `spawn_broadcast`.
    Broadcast,
}

/// An operation that is awaited.
#[derive(Debug)]
pub struct Async {
    /// Its number.
    pub id: Id,
    /// What it does.
    pub op: AsyncOp,
}

/// What an [`Async`] does. Bodies are shared, since tasks own what they run.
#[derive(Debug)]
pub enum AsyncOp {
    /// One after the other.
    Seq(Vec<Async>),
    /// `yield_now` so many times.
    Yield(u8),
    /// `sleep`.
    Sleep(Micros),
    /// Computes in the poll.
    Spin(Micros),
    /// `std::thread::sleep` in the poll.
    Block(Micros),
    /// Panics.
    Panic,
    /// `spawn` on a runtime; by the free function if `free` and that one is current.
    Spawn { rt: PoolId, free: bool, body: Arc<Async>, end: End },
    /// Spawns so many tasks and awaits them in turn.
    Many { rt: PoolId, count: usize, body: Arc<Async> },
    /// `spawn_blocking`.
    Blocking { rt: PoolId, body: Arc<Call>, end: End },
    /// `compute`, by a handle if one is named.
    Compute { on: Option<PoolId>, body: Arc<Call>, end: End },
    /// A computation that ends only by being cancelled, which is done behind the body. If `forks`, a
    /// destructor in it calls `join`.
    Endless { rt: PoolId, forks: bool, body: Arc<Async> },
    /// `block_in_place`.
    InPlace(Arc<Call>),
    /// Called in the poll.
    Here(Arc<Call>),
    /// `join!`.
    Both(Vec<Async>),
    /// `select!`.
    Select(Vec<Async>),
    /// `timeout`.
    Timeout(Micros, Box<Async>),
    /// Two parts on a runtime; the second begins when the first has ended.
    Gate { rt: PoolId, kind: GateKind, opener: Arc<Async>, waiter: Arc<Async> },
    /// A task or a closure sends so many values through `mpsc`, with a bound if there is one; then runs the
    /// body.
    Pipe { rt: PoolId, bound: Option<usize>, count: usize, blocking: bool, body: Arc<Async> },
    /// Holds a `Mutex` or, if `is_semaphore`, a permit meanwhile.
    Hold { lock: usize, is_semaphore: bool, body: Box<Async> },
    /// A listener and a client over loopback, so many bytes there and back.
    Echo { rt: PoolId, bytes: usize },
    /// Waits for a thread that wakes after that time; `again`: and once more when everything has ended.
    Foreign { late: Micros, again: bool },
    /// Waits for a thread that does this after a [`PAUSE`], then runs the body.
    Pause { rt: PoolId, kind: PauseKind, body: Box<Async> },
    /// The body is polled with a waker of the program's own.
    Odd { kind: OddKind, rt: PoolId, body: Box<Async> },
    /// A task on the runtime waits for two timers that are due after that time.
    Twins { rt: PoolId, kind: TwinKind, time: Micros },
    /// Spawns tasks and closures that are there until the runtime ends.
    Drops { rt: PoolId, drops: Drops },
    /// `LocalKey::scope`.
    Local(Box<Async>),
    /// Ends the program's runtime.
    Close(Close),
    /// Builds a runtime in the task, spawns the body there, awaits it unless `early`, and ends the runtime in
    /// the task.
    Nested { pool: PoolId, close: Close, early: bool, body: Arc<Async> },
    /// Yields until the task is cancelled by the end of the runtime.
    UntilEnd,
    /// Marks the thread as blocked and waits until the deadlock handler releases it.
    Deadlock,
}

/// An operation that is called.
#[derive(Debug)]
pub struct Call {
    /// Its number.
    pub id: Id,
    /// What it does.
    pub op: CallOp,
}

/// A job of a scope, which first spawns others.
#[derive(Debug)]
pub struct Job {
    /// Spawned by the job into the same scope.
    pub more: Vec<Arc<Job>>,
    /// What the job does.
    pub body: Call,
}

/// What a [`Call`] does.
#[derive(Debug)]
pub enum CallOp {
    /// One after the other.
    Seq(Vec<Call>),
    /// Computes.
    Spin(Micros),
    /// `std::thread::sleep`.
    Block(Micros),
    /// `std::thread::sleep` for a [`PAUSE`], on a thread outside, then the body.
    Pause(Box<Call>),
    /// Panics.
    Panic,
    /// `catch_unwind`.
    Catch(Box<Call>),
    /// `join`, in a `ThreadPool` if one is named.
    Join { on: Option<PoolId>, a: Arc<Call>, b: Arc<Call> },
    /// The `scope` functions, in a `ThreadPool` if one is named.
    Scope { on: Option<PoolId>, fifo: bool, in_place: bool, jobs: Vec<Arc<Job>>, body: Arc<Call> },
    /// `isolated`.
    Isolated(Box<Call>),
    /// `ThreadPool::install`.
    Install(PoolId, Arc<Call>),
    /// `broadcast` in a `ThreadPool`, or where the call belongs, on so many threads.
    Broadcast { on: Option<PoolId>, threads: usize, body: Arc<Call> },
    /// So many callers of `broadcast` at once, in a pool of so many threads. Each caller makes some
    /// broadcasts, the last of which runs the body. Each part first waits until all parts of its broadcast
    /// have begun; if `is_marked`, in `block_in_place`.
    Barriers {
        pool: PoolId,
        kind: BarrierKind,
        count: usize,
        threads: usize,
        is_marked: bool,
        body: Arc<Call>,
    },
    /// `parallel::spawn` and the like; `runs`: how often the body is run.
    Detached { on: Option<PoolId>, order: Order, runs: usize, wait: Wait, body: Arc<Call> },
    /// `Handle::block_on`.
    BlockOn { rt: PoolId, body: Arc<Async> },
    /// `block_in_place`.
    InPlace(Box<Call>),
    /// `parallel::blocking`.
    Blocking(Box<Call>),
    /// A `join` whose first closure waits until the second has run the body.
    Meet { kind: MeetKind, body: Arc<Call> },
    /// `parallel::yield_now` or, if `local`, `yield_local`.
    Yield { local: bool },
    /// Spawns a task that no other task awaits.
    Task { rt: PoolId, body: Arc<Async> },
    /// A thread that enters a runtime, if one is named, and is joined.
    Thread { enter: Option<PoolId>, body: Arc<Call> },
    /// Builds a runtime, runs the body in `block_on` or, if `early`, as a task that no other task awaits, and
    /// ends the runtime.
    Nested { pool: PoolId, close: Close, early: bool, body: Arc<Async> },
    /// Builds a `ThreadPool`, installs the body, drops the pool.
    OwnPool { pool: PoolId, body: Arc<Call> },
    /// `LocalKey::sync_scope`.
    Local(Box<Call>),
    /// `LocalKey::with`.
    Borrow(Box<Call>),
    /// A lock of `std`, and `isolated` inside; with `rings`, a timer of that runtime is due meanwhile whose
    /// waker takes the lock, too.
    Locked { lock: usize, rings: Option<PoolId>, body: Box<Call> },
    /// Spawns tasks and waits for them, until the runtime has ended.
    UntilEnd { rt: PoolId },
    /// A `LocalSet` that is polled by hand, with a waker of the program's own. A task of it waits for a timer
    /// of the runtime, and another one echoes so many bytes over loopback, unless there are none.
    Set { rt: PoolId, kind: OddKind, time: Micros, bytes: usize },
    /// Calls of `block_on` with local tasks, each inside of the one before. The last one runs the body.
    Levels { levels: Vec<Level>, body: Arc<Async> },
    /// Enters runtimes, makes a scope in place, spawns the first job, drops the guards in the scope's body,
    /// spawns the other job, and then runs the body where no guard is left.
    Guards { rts: Vec<PoolId>, order: GuardOrder, jobs: [Arc<Call>; 2], body: Arc<Call> },
    /// Runs the body, and then the end, in the destructor of a local value.
    Guarded { body: Arc<Call>, end: Arc<Call> },
    /// Threads in `block_on` of a `current_thread` runtime. One drives the runtime until the polls of all
    /// blockers have begun. One runs the body, some others await tasks. The poll of the first blocker waits
    /// for the end of the body, that of each other one for the blocker before it.
    Crowd { pool: PoolId, blockers: usize, others: usize, close: Close, body: Arc<Async> },
    /// Ends the program's runtime.
    Close(Close),
}

/// What the documents promise about one operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fact {
    /// Its value, unless it panics.
    pub value: u64,
    /// If not empty, it panics, with one of these.
    pub panics: Vec<Id>,
    /// Every panic that is below it and not caught there.
    pub any_panics: Vec<Id>,
    /// Of a computation: every panic below it that a `join` may lose, because its first closure panics, too.
    pub lost_panics: Vec<Id>,
    /// How often it begins at least.
    pub least: u32,
    /// How often it begins at most.
    pub most: u32,
    /// Whether it must not be cut short: no end of a runtime, no abort and no drop can reach it.
    pub certain: bool,
    /// The number of the computation that it is a part of, or zero. All that is in no `compute` counts as one.
    pub computation: usize,
    /// Whether it is in a job that a waiting thread may run.
    pub is_child: bool,
    /// Whether its thread may be unwinding.
    pub unwinding: bool,
    /// Whether it may be part of a computation that is cancelled.
    pub cancellable: bool,
}

/// When the program's runtime is ended by the main thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Behind the root task and the threads outside.
    Last,
    /// After that time.
    After(Micros),
}

/// A hook of the runtime's threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// Takes some microseconds.
    Spins,
    /// Spawns a task.
    Spawns,
    /// Panics.
    Panics,
    /// Wakes a task of the program.
    Wakes,
    /// Wakes a task of the program, and sleeps for a millisecond.
    Naps,
    /// Once, while the runtime ends: sleeps for a while, then makes a scope and blocks for its job.
    Forks,
    /// Of the stop: waits for a timer and a task of its runtime, which may have ended.
    Waits,
}

impl Hook {
    /// Whether it needs wakers of tasks.
    pub fn wakes(self) -> bool {
        matches!(self, Hook::Wakes | Hook::Naps)
    }
}

/// What the `thread_name_fn` of the runtime does once the runtime is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names {
    /// It takes so long, also while the runtime is built, for the second thread and later ones.
    pub late: Micros,
    /// It panics for one of so many threads, which are then refused; 0: for none.
    pub refuses: u32,
}

/// A whole program.
#[derive(Debug)]
pub struct Program {
    /// What runs tasks and jobs.
    pub pools: Vec<Pool>,
    /// Those of them that the main thread builds, beside the runtime.
    pub thread_pools: Vec<PoolId>,
    /// Whether the main thread is in `block_on` for the root. Otherwise the root is spawned.
    pub in_block_on: bool,
    /// The root.
    pub root: Arc<Async>,
    /// Threads outside, and the runtime that each has entered.
    pub outside: Vec<Arc<Call>>,
    /// When the runtime is ended.
    pub when: When,
    /// How it is ended.
    pub close: Close,
    /// Whether everything that was detached has ended before the runtime is ended.
    pub is_awaited: bool,
    /// Whether it is checked what jobs see.
    pub checks_surroundings: bool,
    /// Whether jobs go to the process-wide pool, which keeps their memory for the next ones.
    pub uses_global: bool,
    /// Whether the runtime has a deadlock handler.
    pub has_handler: bool,
    /// A hook for `on_thread_start` and, if it spawns, `on_thread_stop`; else for `on_thread_park` and
    /// `on_thread_unpark` as well, or for these two only if it wakes; only for `on_thread_park` if it forks.
    pub hook: Option<Hook>,
    /// `thread_name_fn`.
    pub names: Option<Names>,
    /// `pin_workers`.
    pub is_pinned: bool,
    /// `event_interval` and `global_queue_interval`.
    pub interval: u32,
    /// What the runtimes wait for.
    pub drivers: Drivers,
    /// `thread_keep_alive`.
    pub keep_alive: Option<Micros>,
    /// By operation.
    pub facts: Vec<Fact>,
}

impl Program {
    /// Whether threads of the runtime may be refused.
    pub fn may_refuse(&self) -> bool {
        self.names.is_some_and(|names| names.refuses > 0)
    }

    /// Whether a hook wakes tasks.
    pub fn has_waking_hook(&self) -> bool {
        self.hook.is_some_and(Hook::wakes)
    }
}

/// The time in which an idle program becomes as idle as it can: no thread spins, and all that is kept alive
/// for a while has ended. A program has at most [`MOST_PAUSES`].
pub const PAUSE: Micros = 200_000;

/// Most pauses of a program.
pub const MOST_PAUSES: usize = 2;

/// The process-wide pool's number.
pub const GLOBAL: PoolId = 1;

/// Two values as one.
pub fn mix(a: u64, b: u64) -> u64 {
    (a.rotate_left(5) ^ b).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
