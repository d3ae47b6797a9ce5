//! Where an operation is, and what a thread that waits there holds.

use super::{At, MOST_NESTED, MOST_OPERATIONS, Maker, RUNTIME};
use crate::kinds::Kind;
use crate::program::*;
use crate::rules::{MOST_POOLS, Of, Set, Wait as Waiting};

/// The thread that an operation is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A thread that belongs to nothing.
    Outside,
    /// A closure of this runtime's `spawn_blocking`.
    Closure(PoolId),
    /// A thread that polls this runtime's tasks, at a task.
    Task(PoolId),
    /// A thread of this pool, at a job.
    Job(PoolId),
}

/// Where an operation is.
#[derive(Debug, Clone)]
pub(super) struct Ctx {
    pub(super) place: Place,
    /// Directly in the poll of a task.
    pub(super) in_poll: bool,
    /// In a `block_on`, a task or a blocking closure, however deep: ending a runtime does not wait.
    pub(super) is_inside: bool,
    /// The current runtime, as the documents say.
    pub(super) current: Option<PoolId>,
    /// What an awaited operation needs to be polled.
    pub(super) poller: Set,
    /// What timers and sockets need.
    pub(super) driver: Set,
    /// The `current_thread` runtimes that this thread drives.
    pub(super) drives: Set,
    /// The pool of the thread that drives the task's `current_thread` runtime, if it is one of a pool.
    pub(super) driven_by: Option<PoolId>,
    /// Multi-thread runtimes that are at hand, the innermost last.
    pub(super) runtimes: Vec<PoolId>,
    /// `ThreadPool`s that are at hand.
    pub(super) threads: Vec<PoolId>,
    pub(super) certain: bool,
    pub(super) times: u32,
    pub(super) unwinding: bool,
    /// See [`Fact::computation`].
    pub(super) computation: usize,
    pub(super) cancellable: bool,
    /// Inside of `LocalKey::with`.
    pub(super) borrowed: bool,
    /// Inside of a lock of `std`: nothing but forks.
    pub(super) pure: bool,
    /// A waiting thread may run this on top of its own frames.
    pub(super) stealable: bool,
    /// No sibling in the same task.
    pub(super) alone: bool,
    /// The isolated part, and the pool of the thread that is in it.
    pub(super) region: Option<(usize, Option<PoolId>)>,
    /// The isolated parts around that one.
    pub(super) outer: Vec<(usize, Option<PoolId>)>,
    /// The thread that is in the isolated part waits in an `install`.
    pub(super) home_waits: bool,
    pub(super) no_close: bool,
    /// The thread may be an external thread, which runs only child jobs of its own call.
    pub(super) guest: bool,
    /// The job may be run by the call that spawns it, since the pool may have ended.
    pub(super) maybe_in_place: bool,
    /// Nothing but tasks waits for this.
    pub(super) quiet: bool,
}

/// The thread that drives a `current_thread` runtime, below the runtime's tasks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Driver {
    /// Its pool, if it has a deque.
    processor: Option<PoolId>,
    unwinding: bool,
    borrowed: bool,
}

impl Maker<'_> {
    /// A task on `rt`.
    pub(super) fn task(&self, ctx: &Ctx, rt: PoolId) -> Ctx {
        let poller = Set::of(rt, Of::Poll);
        // None: a multi-thread runtime, or a runtime that no thread drives.
        let driver = self.drivers.get(&rt).copied().unwrap_or_default();
        Ctx {
            place: Place::Task(rt),
            in_poll: true,
            is_inside: true,
            current: Some(rt),
            poller,
            driver: poller,
            drives: Set::NONE,
            driven_by: driver.processor,
            unwinding: driver.unwinding,
            computation: 0,
            cancellable: false,
            borrowed: driver.borrowed,
            stealable: false,
            alone: true,
            region: None,
            outer: Vec::new(),
            home_waits: false,
            guest: false,
            maybe_in_place: false,
            quiet: ctx.quiet && rt == RUNTIME,
            ..ctx.clone()
        }
    }

    /// A closure on a thread, or a stack, of its own.
    pub(super) fn fresh(ctx: &Ctx, place: Place, current: Option<PoolId>) -> Ctx {
        Ctx {
            place,
            in_poll: false,
            is_inside: !matches!(place, Place::Outside),
            current,
            poller: Set::NONE,
            driver: Set::NONE,
            drives: Set::NONE,
            driven_by: None,
            unwinding: false,
            computation: 0,
            cancellable: false,
            borrowed: false,
            stealable: false,
            alone: true,
            region: None,
            outer: Vec::new(),
            home_waits: false,
            guest: false,
            maybe_in_place: false,
            quiet: false,
            ..ctx.clone()
        }
    }

    /// Whether tasks of `rt`, which may use the task-local, may be polled on top of this frame.
    pub(super) fn may_drive(&self, ctx: &Ctx, rt: PoolId) -> bool {
        !ctx.borrowed || self.drivers.get(&rt).is_none_or(|driver| driver.borrowed)
    }

    /// The future of a `block_on` of `rt`.
    pub(super) fn in_block_on(&mut self, ctx: &Ctx, rt: PoolId) -> Ctx {
        if self.pools[rt] == Pool::Single {
            // Others drive it when this one has ended, and nothing that they wait for waits for a task.
            let driver =
                Driver { processor: self.processor(ctx), unwinding: ctx.unwinding, borrowed: ctx.borrowed };
            self.drivers.entry(rt).or_insert(driver);
        }
        Ctx {
            in_poll: false,
            is_inside: true,
            current: Some(rt),
            poller: Set::NONE,
            driver: Set::of(rt, Of::Poll),
            drives: ctx.drives
                | if self.pools[rt] == Pool::Single { Set::of(rt, Of::Poll) } else { Set::NONE },
            alone: true,
            home_waits: false,
            quiet: false,
            ..ctx.clone()
        }
    }

    /// The pool that parallel calls belong to.
    pub(super) fn pool_of(&self, ctx: &Ctx) -> PoolId {
        let named = match ctx.place {
            Place::Job(pool) => return pool,
            Place::Task(_) if ctx.driven_by.is_some() => ctx.driven_by,
            Place::Task(rt) if self.pools[rt] != Pool::Single => Some(rt),
            Place::Task(_) | Place::Closure(_) | Place::Outside => ctx.current,
        };
        named.filter(|&rt| self.pools[rt] != Pool::Single).unwrap_or(GLOBAL)
    }

    /// The pool of the thread, if it has a deque.
    pub(super) fn processor(&self, ctx: &Ctx) -> Option<PoolId> {
        match ctx.place {
            Place::Job(pool) => Some(pool),
            Place::Task(rt) if self.pools[rt] != Pool::Single => Some(rt),
            Place::Task(_) => ctx.driven_by,
            _ => None,
        }
    }

    /// What a thread that blocks here holds.
    pub(super) fn blocked(&self, ctx: &Ctx) -> Set {
        let Some(pool) = self.processor(ctx) else {
            return ctx.drives
                | match ctx.place {
                    Place::Closure(rt) => Set::of(rt, Of::Closure),
                    Place::Task(rt) => Set::of(rt, Of::Poll),
                    _ => Set::NONE,
                };
        };
        let mut holds = self.at_rest(ctx, pool) | Set::of(pool, Of::Help) | Set::of(pool, Of::All);
        if ctx.stealable {
            holds |= Set::of(pool, Of::Top);
        }
        for &(region, home) in ctx.outer.iter().chain(&ctx.region) {
            if home == Some(pool) {
                holds |= Set::region(region);
            }
        }
        holds
    }

    /// Notes that a thread blocks here without a word. It keeps its table, and with it tasks for whose
    /// destructors others may wait (R34). So if those destructors may keep all workers of a runtime, it must
    /// need none of them, or the operation gives way.
    pub(super) fn blocks_silently(&mut self, at: At, ctx: &Ctx, needs: Set) {
        let common = needs.common(self.blocked(ctx));
        if common.meets(self.kept_by_drops) {
            self.give_way(at);
        }
        self.silent |= common;
    }

    /// Notes that destructors may keep these workers; see [`blocks_silently`](Self::blocks_silently).
    pub(super) fn drops_keep(&mut self, at: At, workers: Set) {
        if self.silent.meets(workers) {
            self.give_way(at);
        }
        self.kept_by_drops |= workers;
    }

    /// The operation is replaced by what is below it: a circle of its own.
    fn give_way(&mut self, at: At) {
        let busy = Set::of(RUNTIME, Of::Busy);
        self.waits.push(Waiting { gene: at.number, holds: busy, needs: busy, times: 1, is_busy: false });
    }

    /// What a thread that waits here, and runs other jobs meanwhile, holds.
    pub(super) fn waiting(&self, ctx: &Ctx) -> Set {
        match self.processor(ctx) {
            // A thread that unwinds may run nothing meanwhile.
            Some(pool) if !ctx.unwinding && ctx.driven_by.is_none() => {
                let rest = self.at_rest(ctx, pool);
                // It unwinds when it is cancelled.
                let block = Set::of(pool, Of::Help) | Set::of(pool, Of::All);
                if ctx.cancellable { rest | block } else { rest }
            }
            // What it waits for began later, also if it is on top of other frames.
            Some(pool) => self.blocked(ctx).without(Set::of(pool, Of::Top)),
            None => self.blocked(ctx),
        }
    }

    /// What a thread of `pool` that waits in whatever way holds.
    pub(super) fn at_rest(&self, ctx: &Ctx, pool: PoolId) -> Set {
        let mut holds = ctx.drives | Set::of(pool, Of::Root);
        if let (Place::Task(rt), Some(_)) = (ctx.place, ctx.driven_by) {
            holds |= Set::of(rt, Of::Poll);
        }
        if self.pools[pool].is_runtime() {
            holds |= Set::of(pool, Of::Poll);
        }
        if ctx.region.is_some() || ctx.guest {
            holds |= Set::of(pool, Of::Help) | Set::of(pool, Of::All);
        }
        for &(region, home) in &ctx.outer {
            if home == Some(pool) {
                holds |= Set::region(region);
            }
        }
        holds
    }

    /// What a thread that waits here, and runs other jobs meanwhile, needs: that each of those jobs ends.
    pub(super) fn on_top(&self, ctx: &Ctx) -> Set {
        match (self.processor(ctx), ctx.region) {
            (None, _) => Set::NONE,
            (Some(pool), Some((region, home))) if home == Some(pool) => Set::region(region),
            (Some(pool), _) => Set::of(pool, Of::Top),
        }
    }

    pub(super) fn note_use(&self, pool: PoolId) {
        if pool == GLOBAL {
            self.uses_global.set(true);
        }
    }

    /// The first closure of a fork at `ctx`, and what the caller needs to get there.
    pub(super) fn fork(&self, ctx: &Ctx) -> (Ctx, Set) {
        match self.processor(ctx) {
            Some(_) => (ctx.clone(), self.on_top(ctx)),
            None => self.sent(ctx, self.pool_of(ctx)),
        }
    }

    /// Whether a runtime may have ended, so that calls into it run in place.
    pub(super) fn may_have_ended(&self, ctx: &Ctx, pool: PoolId) -> bool {
        !ctx.certain && self.pools[pool].is_runtime()
    }

    /// What the jobs of a scope in place need. On a thread outside, they are injected jobs of `pool`, or of the
    /// process-wide pool if `pool` is a runtime that may have ended (R23).
    pub(super) fn injected(&self, ctx: &Ctx, pool: PoolId) -> Set {
        let of = |pool| Set::of(pool, Of::Root) | Set::of(pool, Of::Help);
        if !self.may_have_ended(ctx, pool) {
            return of(pool);
        }
        self.note_use(GLOBAL);
        of(pool) | of(GLOBAL)
    }

    /// As [`sent`](Self::sent). If the caller is a job, it may be on top of another's frames, which wait for
    /// a thread of `pool`, too.
    pub(super) fn send(&mut self, at: At, ctx: &Ctx, pool: PoolId) -> (Ctx, Set) {
        if let (true, Some(processor)) = (ctx.stealable, self.processor(ctx)) {
            if processor != pool {
                self.wait(at, ctx, Set::of(processor, Of::Top), Set::of(pool, Of::Help));
            }
        }
        self.sent(ctx, pool)
    }

    /// A call that a thread of `pool` runs for the caller.
    pub(super) fn sent(&self, ctx: &Ctx, pool: PoolId) -> (Ctx, Set) {
        self.note_use(pool);
        if ctx.place == Place::Job(pool) {
            return (ctx.clone(), Set::NONE);
        }
        let from = self.processor(ctx);
        let mut help = match ctx.region {
            // The thread that is in the isolated part waits, and runs this.
            Some((region, home)) if home == Some(pool) && ctx.home_waits => Set::region(region),
            _ => Set::of(pool, Of::Help),
        };
        if self.may_have_ended(ctx, pool) {
            // A scope goes there (R23).
            self.note_use(GLOBAL);
            help |= Set::of(GLOBAL, Of::Help);
        }
        let home_waits = match ctx.region {
            Some((_, home)) if home == Some(pool) => false,
            Some((_, home)) => ctx.home_waits || home.is_some() && home == from,
            None => false,
        };
        let inner = Ctx {
            place: Place::Job(pool),
            in_poll: false,
            drives: Set::NONE,
            driven_by: None,
            stealable: true,
            home_waits,
            no_close: ctx.no_close || matches!(ctx.place, Place::Outside | Place::Closure(_)),
            guest: matches!(ctx.place, Place::Outside | Place::Closure(_)),
            maybe_in_place: ctx.maybe_in_place || self.may_have_ended(ctx, pool),
            quiet: false,
            ..ctx.clone()
        };
        (inner, help | self.on_top(ctx))
    }

    pub(super) fn wait(&mut self, at: At, ctx: &Ctx, holds: Set, needs: Set) -> Set {
        let (holds, needs) = (self.or_global(ctx, holds), self.or_global(ctx, needs));
        self.waits.push(Waiting { gene: at.number, holds, needs, times: ctx.times, is_busy: false });
        needs
    }

    /// What a job waits for or holds of the pool that it belongs to. If that is a runtime which may have
    /// ended, the job may be one of the process-wide pool instead (R23).
    fn or_global(&self, ctx: &Ctx, mut set: Set) -> Set {
        if let (Place::Job(pool), true) = (ctx.place, ctx.maybe_in_place) {
            for of in [Of::Root, Of::Help, Of::All, Of::Top] {
                if set.meets(Set::of(pool, of)) {
                    set |= Set::of(GLOBAL, of);
                }
            }
        }
        set
    }

    /// The number of a new computation; see [`Fact::computation`].
    pub(super) fn new_computation(&mut self) -> usize {
        self.computations += 1;
        self.computations
    }

    pub(super) fn fact(&mut self, ctx: &Ctx) -> Id {
        self.facts.push(Fact {
            certain: ctx.certain,
            most: ctx.times,
            computation: ctx.computation,
            is_child: ctx.stealable,
            unwinding: ctx.unwinding,
            cancellable: ctx.cancellable,
            ..Fact::default()
        });
        self.facts.len() - 1
    }

    pub(super) fn on(&self, kind: Kind) -> bool {
        self.kinds.has(kind)
    }

    /// Whether the gene may be more than a sequence.
    pub(super) fn is_more(&self, at: At) -> bool {
        self.facts.len() < MOST_OPERATIONS && !self.gave_way.contains(&at.number)
    }

    /// A runtime for what gene `at` spawns.
    pub(super) fn runtime(&self, ctx: &Ctx, n: u8) -> Option<PoolId> {
        match ctx.runtimes.len() {
            len if len > 0 && (n % 4 == 3 || ctx.current.is_none()) => {
                Some(ctx.runtimes[usize::from(n / 4) % len])
            }
            _ => ctx.current,
        }
    }

    pub(super) fn multi(&self, ctx: &Ctx, n: u8) -> Option<PoolId> {
        let rt = self.runtime(ctx, n)?;
        if self.pools[rt] != Pool::Single { Some(rt) } else { ctx.runtimes.last().copied() }
    }

    pub(super) fn may_nest(&self, ctx: &Ctx) -> bool {
        let is_awaited = ctx.certain && !ctx.cancellable || self.on(Kind::Shutdown);
        is_awaited
            && self.nested < MOST_NESTED
            && self.pools.len() < MOST_POOLS
            && ctx.times <= 4
            && !ctx.pure
    }

    /// A new runtime, with another number of workers than those around.
    pub(super) fn nest(&mut self, ctx: &Ctx, n: u8) -> PoolId {
        self.nested += 1;
        let taken = |workers| {
            ctx.runtimes
                .iter()
                .any(|&rt| matches!(self.pools[rt], Pool::Workers { workers: w, .. } if w == workers))
        };
        let first = usize::from(n % 4);
        let workers = (0..4).map(|i| 1 + (first + i) % 4).find(|&w| !taken(w)).unwrap_or(5);
        // So few that closures are queued.
        let blocking = if self.on(Kind::Drops) && n / 4 % 4 == 1 { 1 } else { 512 };
        self.pools.push(Pool::Workers { workers, spares: 512, blocking });
        self.pools.len() - 1
    }
}
