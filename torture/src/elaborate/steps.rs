//! Makes `Async` operations: what is awaited in tasks and in the future of a `block_on`.

use std::sync::Arc;

use super::surroundings::{Ctx, Place};
use super::tables::{Awaited, awaited};
use super::{At, MOST_OPERATIONS, MOST_TIMES, Maker, RUNTIME, close, micros};
use crate::kinds::Kind;
use crate::program::*;
use crate::rules::{MOST_LOCKS, Of, Set, Wait as Waiting};

/// One of the locks of `std`.
pub(super) fn lock_of(n: u8) -> usize {
    2 + usize::from(n) % (MOST_LOCKS - 2)
}

impl Maker<'_> {
    pub(super) fn step(&mut self, at: At, ctx: &Ctx) -> (Async, Set) {
        let chosen = awaited(at.gene.kind, self.kinds);
        if self.is_more(at) && chosen != Awaited::Seq {
            let mark = self.facts.len();
            if let Some((op, needs)) = self.async_op(at, ctx, chosen) {
                // The operation's own number is behind those below it: nothing depends on the order.
                let id = self.fact(ctx);
                return (Async { id, op }, needs);
            }
            debug_assert_eq!(mark, self.facts.len(), "an operation that is not allowed is refused at once");
        }
        self.steps(at.kids(), ctx)
    }

    /// One after the other.
    pub(super) fn steps(&mut self, kids: Vec<At>, ctx: &Ctx) -> (Async, Set) {
        let mut needs = Set::NONE;
        let mut steps = Vec::new();
        for kid in kids {
            if self.facts.len() < MOST_OPERATIONS {
                let (step, more) = self.step(kid, ctx);
                needs |= more;
                steps.push(step);
            }
        }
        if steps.len() == 1 {
            return (steps.remove(0), needs);
        }
        (Async { id: self.fact(ctx), op: AsyncOp::Seq(steps) }, needs)
    }

    pub(super) fn async_body(&mut self, at: At, ctx: &Ctx) -> (Async, Set) {
        let kids = at.kids();
        if !kids.is_empty() {
            return self.steps(kids, ctx);
        }
        let op = match at.c() % 4 {
            0 => AsyncOp::Seq(Vec::new()),
            1 => AsyncOp::Yield(at.c() / 4 % 3),
            2 if self.on(Kind::Timers) => {
                return (Async { id: self.fact(ctx), op: AsyncOp::Sleep(micros(at.c())) }, ctx.driver);
            }
            _ => AsyncOp::Spin(u64::from(at.c()) / 4),
        };
        (Async { id: self.fact(ctx), op }, Set::NONE)
    }

    pub(super) fn call_body(&mut self, at: At, ctx: &Ctx) -> (Call, Set) {
        let kids = at.kids();
        if !kids.is_empty() { self.calls(kids, ctx) } else { (self.leaf(at.c(), ctx), Set::NONE) }
    }

    pub(super) fn leaf(&mut self, n: u8, ctx: &Ctx) -> Call {
        let op = match n % 8 {
            0..=2 => CallOp::Seq(Vec::new()),
            3 if self.on(Kind::Unmarked) && !ctx.pure => CallOp::Block(u64::from(n) * 8),
            4 => CallOp::Spin(u64::from(n) * 2),
            _ => CallOp::Spin(u64::from(n) / 4),
        };
        Call { id: self.fact(ctx), op }
    }

    /// The first child, and the others.
    pub(super) fn first_and_rest(at: At<'_>) -> (Vec<At<'_>>, Vec<At<'_>>) {
        let mut kids = at.kids();
        let rest = kids.split_off(kids.len().min(1));
        (kids, rest)
    }

    pub(super) fn async_op(&mut self, at: At, ctx: &Ctx, chosen: Awaited) -> Option<(AsyncOp, Set)> {
        let (a, b) = (at.a(), at.b());
        let done = |op| Some((op, Set::NONE));
        match chosen {
            Awaited::Seq => None,
            Awaited::Yield => done(AsyncOp::Yield(1 + a % 8)),
            Awaited::Sleep if self.on(Kind::Timers) => Some((AsyncOp::Sleep(micros(a)), ctx.driver)),
            Awaited::Spin => done(AsyncOp::Spin(micros(a) / 8)),
            Awaited::Block if self.on(Kind::Unmarked) => done(AsyncOp::Block(micros(a))),
            Awaited::Panic if self.on(Kind::Panics) => done(AsyncOp::Panic),
            Awaited::Spawn => {
                let rt = self.runtime(ctx, a)?;
                let end = self.end(b);
                let inner = self.task(&Self::ended(ctx, end), rt);
                let (body, needs) = self.async_body(at, &inner);
                let free = a % 2 == 0;
                let op = AsyncOp::Spawn { rt, free, body: Arc::new(body), end };
                Some((op, needs | inner.poller | self.after(ctx, end)))
            }
            Awaited::Many => {
                let rt = self.runtime(ctx, a)?;
                let count = usize::from(2 + b % 6);
                let times = ctx.times * count as u32;
                if times > MOST_TIMES {
                    return None;
                }
                let inner = self.task(&Ctx { times, ..ctx.clone() }, rt);
                let (body, needs) = self.async_body(at, &inner);
                Some((AsyncOp::Many { rt, count, body: Arc::new(body) }, needs | inner.poller))
            }
            Awaited::Blocking if self.on(Kind::Blocking) => {
                let rt = self.runtime(ctx, a)?;
                let end = self.end(b);
                let inner = Self::fresh(&Self::ended(ctx, end), Place::Closure(rt), Some(rt));
                let (body, needs) = self.call_body(at, &inner);
                let op = AsyncOp::Blocking { rt, body: Arc::new(body), end };
                Some((op, needs | Set::of(rt, Of::Closure) | self.after(ctx, end)))
            }
            Awaited::Compute if self.on(Kind::Compute) => self.compute(at, ctx),
            Awaited::Endless if self.on(Kind::Endless) && ctx.alone && ctx.times == 1 => {
                // A closure of a `join` may run on a worker, or on a plain thread. On a plain thread a
                // computation goes to the current runtime, perhaps behind the endless one.
                if matches!(ctx.place, Place::Job(pool) if ctx.current != Some(pool)) {
                    return None;
                }
                let rt = self.multi(ctx, a)?;
                let (body, needs) = self.async_body(at, &Ctx { quiet: false, ..ctx.clone() });
                let all = [Of::Poll, Of::Root, Of::Help, Of::All, Of::Busy];
                let holds = all.into_iter().fold(Set::NONE, |set, of| set | Set::of(rt, of));
                let times = ctx.times;
                let forks = self.on(Kind::ForkingDrops) && b % 2 == 1;
                // The thread that unwinds waits for a thread that has taken a closure of the destructor.
                let needs = if forks { needs | Set::of(rt, Of::Top) } else { needs };
                let blocks = Waiting {
                    gene: at.number,
                    holds,
                    needs: needs | ctx.poller | ctx.driver,
                    times,
                    is_busy: true,
                };
                self.waits.push(blocks);
                // Whatever waits until all is dropped also waits for a worker, which takes the computation
                // out of its queue.
                Some((AsyncOp::Endless { rt, forks, body: Arc::new(body) }, needs | Set::of(rt, Of::Root)))
            }
            Awaited::InPlace if self.on(Kind::InPlace) => {
                let inner = Ctx { in_poll: false, quiet: false, ..ctx.clone() };
                let (body, needs) = self.call_body(at, &inner);
                Some((AsyncOp::InPlace(Arc::new(body)), needs))
            }
            Awaited::Here => {
                let (body, needs) = self.call_body(at, &Ctx { quiet: false, ..ctx.clone() });
                Some((AsyncOp::Here(Arc::new(body)), needs))
            }
            Awaited::Both | Awaited::Select if self.on(Kind::Select) => {
                let is_select = chosen == Awaited::Select;
                let inner =
                    Ctx { alone: false, quiet: false, certain: ctx.certain && !is_select, ..ctx.clone() };
                let mut needs = Set::NONE;
                let mut branches = Vec::new();
                for kid in at.kids() {
                    let (branch, more) = self.step(kid, &inner);
                    needs |= more;
                    branches.push(branch);
                }
                if branches.is_empty() {
                    branches.push(self.async_body(at, &inner).0);
                    needs |= ctx.driver;
                }
                Some((if is_select { AsyncOp::Select(branches) } else { AsyncOp::Both(branches) }, needs))
            }
            Awaited::Timeout if self.on(Kind::Select) && self.on(Kind::Timers) => {
                let inner = Ctx { alone: false, quiet: false, certain: false, ..ctx.clone() };
                let (body, needs) = self.async_body(at, &inner);
                Some((AsyncOp::Timeout(micros(a), Box::new(body)), needs | ctx.driver))
            }
            Awaited::Gate if self.on(Kind::Gates) => self.gate(at, ctx),
            Awaited::Pipe if self.on(Kind::Channels) => {
                let rt = self.runtime(ctx, a)?;
                // The closure keeps its thread until this part receives. So another part of the task must not
                // block the poll for a closure meanwhile.
                let blocking = b % 4 == 3 && self.on(Kind::Blocking) && ctx.alone;
                let quiet = Ctx { quiet: false, ..ctx.clone() };
                let inner = match blocking {
                    // The body runs in a `block_on` there.
                    true => self.in_block_on(&Self::fresh(&quiet, Place::Closure(rt), Some(rt)), rt),
                    false => self.task(&quiet, rt),
                };
                let (body, needs) = self.async_body(at, &inner);
                let own = if blocking { Set::of(rt, Of::Closure) } else { inner.poller };
                if blocking {
                    // The closure waits for this consumer, too.
                    self.wait(at, ctx, Set::of(rt, Of::Closure), needs | ctx.poller | ctx.driver);
                }
                let bound = (b % 2 == 0).then_some(1 + usize::from(b / 4 % 4));
                let count = usize::from(at.c() % 16);
                // The body may stop the sender while the receiver waits, and so they are alone in their
                // tasks.
                Some((AsyncOp::Pipe { rt, bound, count, blocking, body: Arc::new(body) }, needs | own))
            }
            Awaited::Hold if self.on(Kind::Locks) && ctx.alone => {
                let lock = usize::from(a) % 2;
                let (body, needs) = self.async_body(at, &Ctx { quiet: false, ..ctx.clone() });
                self.wait(at, ctx, Set::lock(lock), needs | ctx.poller | ctx.driver);
                let op = AsyncOp::Hold { lock, is_semaphore: a % 4 >= 2, body: Box::new(body) };
                Some((op, needs | Set::lock(lock)))
            }
            Awaited::Echo if self.on(Kind::Tcp) => {
                let rt = ctx.current?;
                let bytes = 1 + 64 * usize::from(a);
                Some((AsyncOp::Echo { rt, bytes }, Set::of(rt, Of::Poll) | ctx.driver))
            }
            Awaited::Foreign if self.on(Kind::Wakers) => {
                done(AsyncOp::Foreign { late: micros(a), again: b % 2 == 1 })
            }
            Awaited::Pause if self.may_pause(ctx) => {
                let rt = self.runtime(ctx, a)?;
                self.pauses += 1;
                let (kind, needs) = match b % 4 {
                    0 => (PauseKind::Wakes, Set::NONE),
                    1 => (PauseKind::Sends, Set::NONE),
                    2 if self.pools[rt] != Pool::Single => (PauseKind::Computes, Set::of(rt, Of::Root)),
                    _ => (PauseKind::Spawns, Set::of(rt, Of::Poll)),
                };
                let (body, more) = self.async_body(at, ctx);
                Some((AsyncOp::Pause { rt, kind, body: Box::new(body) }, needs | more))
            }
            Awaited::Odd if self.on(Kind::Wakers) => {
                let rt = self.runtime(ctx, 0)?;
                let kind = match a % 4 {
                    0 => OddKind::Blocks,
                    1 => OddKind::Spawns,
                    2 if self.on(Kind::WakerForks) => OddKind::Joins,
                    3 if b % 2 == 0 && self.may_lock_in_waker(rt) => OddKind::Locks(lock_of(b / 2)),
                    _ if self.on(Kind::Panics) && self.on(Kind::Timers) => OddKind::Panics,
                    _ => OddKind::Blocks,
                };
                if matches!(kind, OddKind::Panics | OddKind::Locks(_)) {
                    // Only the runtime calls it then.
                    let body = Box::new(Async { id: self.fact(ctx), op: AsyncOp::Sleep(micros(b)) });
                    let needs = ctx.driver | self.waker(at, ctx, rt, kind);
                    return Some((AsyncOp::Odd { kind, rt, body }, needs));
                }
                let (body, mut needs) =
                    self.async_body(at, &Ctx { alone: false, quiet: false, ..ctx.clone() });
                if kind == OddKind::Joins {
                    // The thread that wakes may have to send the fork to the pool where it belongs.
                    let pools = || ctx.runtimes.iter().chain(&ctx.current).copied();
                    let help =
                        pools().fold(Set::of(GLOBAL, Of::Help), |set, pool| set | Set::of(pool, Of::Help));
                    // That thread has no deque if it is one of the blocking pool, or drives a
                    // `current_thread` runtime.
                    let holds = pools().fold(Set::NONE, |set, pool| match self.pools[pool] {
                        Pool::Single => set | Set::of(pool, Of::Poll) | Set::of(pool, Of::Closure),
                        _ => set | Set::of(pool, Of::Closure),
                    });
                    self.note_use(GLOBAL);
                    self.wait(at, ctx, holds, help);
                    needs |= help;
                }
                Some((AsyncOp::Odd { kind, rt, body: Box::new(body) }, needs))
            }
            Awaited::Twins if self.on(Kind::Twins) && self.on(Kind::Timers) => {
                let rt = self.runtime(ctx, a).filter(|&rt| self.is_multi(rt))?;
                let kind = match b % 4 {
                    0 if self.on(Kind::Threads) => TwinKind::Thread,
                    1 => TwinKind::Same,
                    _ => TwinKind::Task,
                };
                // The waker of the second may be called by a thread of the blocking pool, too.
                let needs = Set::of(rt, Of::Poll) | Set::of(rt, Of::Closure);
                self.wait(at, ctx, Self::calls_wakers(rt), needs);
                Some((AsyncOp::Twins { rt, kind, time: 100 + micros(at.c()) }, needs))
            }
            Awaited::Drops if self.on(Kind::Drops) => self.drops(at, ctx),
            Awaited::Local if self.on(Kind::Locals) && !ctx.borrowed => {
                let (body, needs) = self.async_body(at, ctx);
                Some((AsyncOp::Local(Box::new(body)), needs))
            }
            Awaited::Close if self.may_close(ctx) => done(AsyncOp::Close(close(a))),
            Awaited::Nested if self.on(Kind::Nested) && self.may_nest(ctx) && ctx.current.is_some() => {
                let pool = self.nest(ctx, a);
                let early = b % 4 == 3 && self.on(Kind::Shutdown);
                let mut around = ctx.clone();
                around.runtimes.push(pool);
                around.certain &= !early;
                around.quiet = false;
                let inner = self.task(&around, pool);
                let (body, needs) = self.async_body(at, &inner);
                let op = AsyncOp::Nested { pool, close: close(b / 4), early, body: Arc::new(body) };
                Some((op, needs | inner.poller | ctx.driver))
            }
            Awaited::UntilEnd if self.ends_by_time && ctx.in_poll && ctx.place == Place::Task(RUNTIME) => {
                if !self.on(Kind::Shutdown) || ctx.stealable {
                    return None;
                }
                done(AsyncOp::UntilEnd)
            }
            Awaited::Deadlock
                if self.has_handler && !self.ends_early && ctx.quiet && self.on(Kind::Deadlocks) =>
            {
                let mut needs = Set::NONE;
                for (pool, kind) in self.pools.iter().enumerate() {
                    // All that is going on must end first, whatever else could run.
                    needs |= Set::of(pool, Of::Root) | Set::of(pool, Of::Help) | Set::of(pool, Of::Busy);
                    if kind.is_runtime() {
                        needs |= Set::of(pool, Of::Poll);
                    }
                }
                self.wait(at, ctx, self.blocked(ctx), needs);
                Some((AsyncOp::Deadlock, needs))
            }
            _ => None,
        }
    }

    pub(super) fn compute(&mut self, at: At, ctx: &Ctx) -> Option<(AsyncOp, Set)> {
        let (a, b) = (at.a(), at.b());
        let on = if a % 2 == 0 { Some(self.runtime(ctx, a / 2)?) } else { None };
        let pool = match on {
            Some(rt) if self.pools[rt] != Pool::Single => rt,
            Some(_) => GLOBAL,
            None => self.pool_of(ctx),
        };
        self.note_use(pool);
        let end = self.end(b);
        let current = Some(pool).filter(|&pool| self.pools[pool].is_runtime()).or(ctx.current);
        let inner = Ctx {
            cancellable: self.ends_early || end != End::Await || !ctx.certain,
            computation: self.new_computation(),
            ..Self::fresh(&Self::ended(ctx, end), Place::Job(pool), current)
        };
        let (body, needs) = self.call_body(at, &inner);
        let op = AsyncOp::Compute { on, body: Arc::new(body), end };
        Some((op, needs | Set::of(pool, Of::Root) | self.after(ctx, end)))
    }

    pub(super) fn gate(&mut self, at: At, ctx: &Ctx) -> Option<(AsyncOp, Set)> {
        let rt = self.runtime(ctx, at.a())?;
        let is_single = self.pools[rt] == Pool::Single;
        let kind = match at.b() % 8 {
            0 | 7 => GateKind::Oneshot,
            1 => GateKind::Notify,
            2 => GateKind::Semaphore,
            3 if self.on(Kind::Blocking) => GateKind::Closure,
            4 if self.on(Kind::Compute) && !is_single => GateKind::Computation,
            5 if self.on(Kind::InPlace) => GateKind::InPlace,
            6 if self.on(Kind::Unmarked) => GateKind::Unmarked,
            _ => GateKind::Oneshot,
        };
        let (first, rest) = Self::first_and_rest(at);
        let around = Ctx { quiet: false, ..ctx.clone() };
        let task = self.task(&around, rt);
        let (opener, opener_needs) = self.steps(first, &task);
        let opener_needs = opener_needs | task.poller;
        let (waiter_ctx, waiter_own) = match kind {
            GateKind::Closure => {
                let closure = Self::fresh(&around, Place::Closure(rt), Some(rt));
                (self.in_block_on(&closure, rt), Set::of(rt, Of::Closure))
            }
            GateKind::Computation => {
                let job = Self::fresh(&around, Place::Job(rt), Some(rt));
                let cancellable = self.ends_early || !ctx.certain;
                let job = Ctx { cancellable, computation: self.new_computation(), ..job };
                (self.in_block_on(&job, rt), Set::of(rt, Of::Root))
            }
            _ => (task.clone(), task.poller),
        };
        let (waiter, waiter_needs) = self.steps(rest, &waiter_ctx);
        match kind {
            GateKind::Oneshot | GateKind::Notify | GateKind::Semaphore => {}
            GateKind::Closure | GateKind::Computation => {
                // Blocked at the gate, and then in a `block_on`.
                let holds = self.blocked(&waiter_ctx);
                self.wait(at, ctx, holds, opener_needs | waiter_needs);
            }
            GateKind::InPlace | GateKind::Unmarked => {
                if kind == GateKind::Unmarked {
                    self.blocks_silently(at, &waiter_ctx, opener_needs);
                }
                let holds = self.blocked(&waiter_ctx);
                self.wait(at, ctx, holds, opener_needs);
            }
        }
        let op = AsyncOp::Gate { rt, kind, opener: Arc::new(opener), waiter: Arc::new(waiter) };
        Some((op, opener_needs | waiter_needs | waiter_own))
    }

    pub(super) fn end(&self, n: u8) -> End {
        // A time of 0 is a `yield_now`.
        let time = if self.on(Kind::Timers) { micros(n) / 4 } else { 0 };
        match n % 8 {
            5 => End::Detach,
            6 if self.on(Kind::Cancel) => End::Abort(time),
            7 if self.on(Kind::Cancel) => End::Drop(time),
            _ => End::Await,
        }
    }

    /// What is spawned with such an end.
    pub(super) fn ended(ctx: &Ctx, end: End) -> Ctx {
        match end {
            End::Await => ctx.clone(),
            End::Detach | End::Abort(_) | End::Drop(_) => Ctx { certain: false, quiet: false, ..ctx.clone() },
        }
    }

    /// The timer before an abort.
    pub(super) fn after(&self, ctx: &Ctx, end: End) -> Set {
        if matches!(end, End::Abort(_) | End::Drop(_)) { ctx.driver } else { Set::NONE }
    }

    pub(super) fn may_lock_in_waker(&self, rt: PoolId) -> bool {
        let kinds = [Kind::Locks, Kind::Timers, Kind::Wakers];
        kinds.into_iter().all(|kind| self.on(kind)) && self.is_multi(rt)
    }

    pub(super) fn is_multi(&self, rt: PoolId) -> bool {
        matches!(self.pools[rt], Pool::Workers { .. })
    }

    /// What a thread that is inside of a foreign waker for a timer of `rt` may hold. In a region it calls
    /// none.
    pub(super) fn calls_wakers(rt: PoolId) -> Set {
        let all = [Of::Poll, Of::Root, Of::Help, Of::Closure, Of::All, Of::Top];
        all.into_iter().fold(Set::NONE, |set, of| set | Set::of(rt, of))
    }

    /// What a waker for a timer of `rt` needs.
    pub(super) fn waker(&mut self, at: At, ctx: &Ctx, rt: PoolId, kind: OddKind) -> Set {
        let OddKind::Locks(lock) = kind else { return Set::NONE };
        self.wait(at, ctx, Self::calls_wakers(rt), Set::lock(lock))
    }

    pub(super) fn may_pause(&self, ctx: &Ctx) -> bool {
        self.has_pauses && self.on(Kind::Pauses) && self.pauses < MOST_PAUSES && ctx.times == 1
    }

    pub(super) fn may_close(&self, ctx: &Ctx) -> bool {
        // A program that ends its runtime from inside does so only where no part is certain.
        self.ends_early && ctx.is_inside && !ctx.no_close && !ctx.pure
    }
}
