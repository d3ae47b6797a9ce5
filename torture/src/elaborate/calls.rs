//! Makes `Call` operations: what is called in jobs, closures and threads.

use std::sync::Arc;

use super::steps::lock_of;
use super::surroundings::{Ctx, Place};
use super::tables::{Called, called};
use super::{At, MOST_OPERATIONS, MOST_TIMES, Maker, RUNTIME, close, micros};
use crate::expect;
use crate::kinds::Kind;
use crate::program::*;
use crate::rules::{MOST_REGIONS, Of, Set};

impl Maker<'_> {
    pub(super) fn call(&mut self, at: At, ctx: &Ctx) -> (Call, Set) {
        let chosen = called(at.gene.kind, self.kinds);
        if self.is_more(at) && chosen != Called::Seq {
            let mark = self.facts.len();
            if let Some((op, needs)) = self.call_op(at, ctx, chosen) {
                return (Call { id: self.fact(ctx), op }, needs);
            }
            debug_assert_eq!(mark, self.facts.len(), "an operation that is not allowed is refused at once");
        }
        self.calls(at.kids(), ctx)
    }

    pub(super) fn calls(&mut self, kids: Vec<At>, ctx: &Ctx) -> (Call, Set) {
        let mut needs = Set::NONE;
        let mut calls = Vec::new();
        for kid in kids {
            if self.facts.len() < MOST_OPERATIONS {
                let (call, more) = self.call(kid, ctx);
                needs |= more;
                calls.push(call);
            }
        }
        if calls.len() == 1 {
            return (calls.remove(0), needs);
        }
        (Call { id: self.fact(ctx), op: CallOp::Seq(calls) }, needs)
    }

    pub(super) fn call_op(&mut self, at: At, ctx: &Ctx, chosen: Called) -> Option<(CallOp, Set)> {
        let (a, b) = (at.a(), at.b());
        let done = |op| Some((op, Set::NONE));
        let is_pure = matches!(
            chosen,
            Called::Spin
                | Called::Join
                | Called::Scope
                | Called::Isolated
                | Called::Catch
                | Called::Panic
                | Called::Local
                | Called::Borrow
        );
        if ctx.pure && !is_pure {
            return None;
        }
        match chosen {
            Called::Seq => None,
            Called::Spin => done(CallOp::Spin(micros(a) / 8)),
            Called::Block if self.on(Kind::Unmarked) => done(CallOp::Block(micros(a))),
            Called::Pause if ctx.place == Place::Outside && self.may_pause(ctx) => {
                self.pauses += 1;
                let (body, needs) = self.call_body(at, ctx);
                Some((CallOp::Pause(Box::new(body)), needs))
            }
            Called::Panic if self.on(Kind::Panics) => done(CallOp::Panic),
            Called::Catch => {
                let (body, needs) = self.call_body(at, ctx);
                Some((CallOp::Catch(Box::new(body)), needs))
            }
            Called::Join => self.join(at, ctx),
            Called::Unwound if self.on(Kind::Panics) && self.on(Kind::Unwinding) => self.unwound(at, ctx),
            Called::Scope if self.on(Kind::Scopes) => self.scope(at, ctx),
            Called::Isolated if self.on(Kind::Isolated) && self.regions < MOST_REGIONS => {
                let inner = self.isolate(ctx);
                let (body, needs) = self.call_body(at, &inner);
                Some((CallOp::Isolated(Box::new(body)), needs))
            }
            Called::Install if self.on(Kind::Installs) && !ctx.threads.is_empty() => {
                let pool = ctx.threads[usize::from(a) % ctx.threads.len()];
                let (inner, needs) = self.send(at, ctx, pool);
                let (body, more) = self.call_body(at, &inner);
                let needs = self.wait(at, ctx, self.waiting(ctx), needs | more);
                Some((CallOp::Install(pool, Arc::new(body)), needs))
            }
            Called::Broadcast if self.on(Kind::Broadcast) => {
                let named = (a % 2 == 1 && !ctx.threads.is_empty())
                    .then(|| ctx.threads[usize::from(a / 2) % ctx.threads.len()]);
                let pool = named.unwrap_or_else(|| self.pool_of(ctx));
                if named.is_none() && !self.has_deque(ctx) {
                    return None;
                }
                let threads = self.pools[pool].threads();
                let times = ctx.times * threads as u32;
                if times > MOST_TIMES {
                    return None;
                }
                let (inner, needs) = self.sent(ctx, pool);
                let inner = Ctx { times, stealable: true, unwinding: true, in_poll: ctx.in_poll, ..inner };
                let (body, more) = self.call_body(at, &inner);
                let needs = needs | more | self.on_top(ctx);
                let needs =
                    needs | Set::of(pool, Of::All) | Set::of(pool, Of::Root) | Set::of(pool, Of::Help);
                self.wait(at, ctx, self.waiting(ctx) | Set::of(pool, Of::Busy), needs);
                if let (true, Some(processor)) = (ctx.stealable, self.processor(ctx)) {
                    // The frames below it wait for all threads, too.
                    self.wait(at, ctx, Set::of(processor, Of::Top), Set::of(pool, Of::All));
                }
                Some((CallOp::Broadcast { on: named, threads, body: Arc::new(body) }, needs))
            }
            Called::Barriers if self.on(Kind::Barriers) => self.barriers(at, ctx),
            Called::Detached if self.on(Kind::Detached) => self.detached(at, ctx),
            Called::BlockOn if self.on(Kind::BlockOn) && !ctx.in_poll => {
                let rt = self.runtime(ctx, a)?;
                if !self.may_drive(ctx, rt) || ctx.maybe_in_place && self.is_multi(rt) {
                    return None;
                }
                let inner = self.in_block_on(ctx, rt);
                let (body, needs) = self.async_body(at, &inner);
                self.wait(at, ctx, self.blocked(ctx), needs);
                Some((CallOp::BlockOn { rt, body: Arc::new(body) }, needs))
            }
            Called::InPlace | Called::Blocking if self.on(Kind::InPlace) => {
                let inner = Ctx { in_poll: false, ..ctx.clone() };
                let (body, needs) = self.call_body(at, &inner);
                let body = Box::new(body);
                let is_plain = chosen == Called::InPlace;
                Some((if is_plain { CallOp::InPlace(body) } else { CallOp::Blocking(body) }, needs))
            }
            Called::Meet if self.on(Kind::Meets) => self.meet(at, ctx),
            Called::Yield if self.on(Kind::Yields) => {
                let pool = self.processor(ctx)?;
                let all = [Of::All, Of::Top, Of::Busy];
                let needs = all.into_iter().fold(Set::NONE, |set, of| set | Set::of(pool, of));
                self.wait(at, ctx, self.waiting(ctx), needs);
                Some((CallOp::Yield { local: a % 2 == 1 }, needs))
            }
            Called::Task => {
                let rt = self.runtime(ctx, a)?;
                let inner = self.task(&Self::ended(ctx, End::Detach), rt);
                let (body, needs) = self.async_body(at, &inner);
                Some((CallOp::Task { rt, body: Arc::new(body) }, needs))
            }
            Called::Thread if self.on(Kind::Threads) => {
                let is_announced = matches!(ctx.place, Place::Outside | Place::Closure(_));
                if !is_announced && !self.on(Kind::Unmarked) || ctx.times > 8 {
                    return None;
                }
                let enter = (a % 2 == 0).then(|| ctx.runtimes.last().copied()).flatten();
                let inner = Self::fresh(ctx, Place::Outside, enter);
                let (body, needs) = self.call_body(at, &inner);
                self.blocks_silently(at, ctx, needs);
                self.wait(at, ctx, self.blocked(ctx), needs);
                Some((CallOp::Thread { enter, body: Arc::new(body) }, needs))
            }
            Called::Nested if self.on(Kind::Nested) && !ctx.in_poll && self.may_nest(ctx) => {
                let early = b % 4 == 3 && self.on(Kind::Shutdown);
                let is_single = b % 4 == 2 && self.on(Kind::Single);
                let mut around = ctx.clone();
                around.certain &= !early;
                // A job that runs in place has no deque. Its calls then go to the runtime of the `block_on`,
                // and do not see its task-local.
                if ctx.maybe_in_place && !is_single {
                    return None;
                }
                let pool = match is_single {
                    true => {
                        self.nested += 1;
                        self.pools.push(Pool::Single);
                        self.pools.len() - 1
                    }
                    false => {
                        let pool = self.nest(ctx, a);
                        around.runtimes.push(pool);
                        pool
                    }
                };
                let inner = match early {
                    true => self.task(&around, pool),
                    false => self.in_block_on(&around, pool),
                };
                let (body, needs) = self.async_body(at, &inner);
                let needs = needs | if is_single { Set::NONE } else { Set::of(pool, Of::Poll) };
                self.wait(at, ctx, self.blocked(ctx), needs);
                Some((CallOp::Nested { pool, close: close(b / 4), early, body: Arc::new(body) }, needs))
            }
            Called::OwnPool if self.on(Kind::Installs) && self.may_nest(ctx) => {
                self.nested += 1;
                self.pools.push(Pool::Threads(1 + usize::from(a % 2)));
                let pool = self.pools.len() - 1;
                let mut around = ctx.clone();
                around.threads.push(pool);
                let (inner, needs) = self.sent(&around, pool);
                let (body, more) = self.call_body(at, &inner);
                let needs = self.wait(at, ctx, self.waiting(ctx), needs | more);
                Some((CallOp::OwnPool { pool, body: Arc::new(body) }, needs))
            }
            Called::Local if self.on(Kind::Locals) && !ctx.borrowed => {
                let (body, needs) = self.call_body(at, ctx);
                Some((CallOp::Local(Box::new(body)), needs))
            }
            Called::Borrow if self.on(Kind::Borrows) && !ctx.borrowed => {
                let (body, needs) = self.call_body(at, &Ctx { borrowed: true, ..ctx.clone() });
                Some((CallOp::Borrow(Box::new(body)), needs))
            }
            Called::Locked if self.may_lock(ctx) => {
                let lock = lock_of(a);
                let inner = Ctx { pure: true, ..self.isolate(ctx) };
                let rings = self.multi(ctx, a).filter(|&rt| at.b() % 2 == 0 && self.may_lock_in_waker(rt));
                let (body, mut needs) = self.call_body(at, &inner);
                if let Some(rt) = rings {
                    self.waker(at, ctx, rt, OddKind::Locks(lock));
                    // A `join` of its own.
                    let (fork, more) = self.fork(&inner);
                    needs |= more | self.on_top(&fork);
                    self.wait(at, &fork, self.waiting(&fork), needs);
                }
                self.wait(at, ctx, Set::lock(lock), needs);
                self.wait(at, ctx, self.blocked(ctx), Set::lock(lock));
                Some((CallOp::Locked { lock, rings, body: Box::new(body) }, needs | Set::lock(lock)))
            }
            Called::UntilEnd if self.ends_by_time && !ctx.in_poll && self.on(Kind::BlockOn) => {
                if !ctx.runtimes.contains(&RUNTIME) {
                    return None;
                }
                let needs = Set::of(RUNTIME, Of::Poll);
                self.wait(at, ctx, self.blocked(ctx), needs);
                Some((CallOp::UntilEnd { rt: RUNTIME }, needs))
            }
            Called::Set if self.on(Kind::Sets) && self.on(Kind::Timers) && !ctx.in_poll => {
                let is_announced = matches!(ctx.place, Place::Outside | Place::Closure(_));
                if !is_announced && !self.on(Kind::Unmarked) {
                    return None;
                }
                let rt = self.multi(ctx, a).filter(|&rt| self.is_multi(rt))?;
                let kind = match b % 4 {
                    1 => OddKind::Spawns,
                    2 if self.on(Kind::Panics) => OddKind::Panics,
                    3 if self.on(Kind::Locks) => OddKind::Locks(lock_of(b / 4)),
                    _ => OddKind::Blocks,
                };
                let bytes = if self.on(Kind::Tcp) && at.c() % 2 == 0 { 64 } else { 0 };
                let needs = Set::of(rt, Of::Poll) | self.waker(at, ctx, rt, kind);
                self.blocks_silently(at, ctx, needs);
                self.wait(at, ctx, self.blocked(ctx), needs);
                Some((CallOp::Set { rt, kind, time: micros(at.c()), bytes }, needs))
            }
            Called::Levels if self.on(Kind::Levels) && !ctx.in_poll => self.levels(at, ctx),
            Called::Crowd if self.on(Kind::Crowds) => self.crowd(at, ctx),
            Called::Guards if self.on(Kind::Guards) && self.on(Kind::Scopes) => self.guards(at, ctx),
            Called::Guarded if self.on(Kind::ForkingDrops) => {
                let (body, needs) = self.call_body(at, ctx);
                let unwound = Ctx { unwinding: true, pure: true, ..ctx.clone() };
                let (end, more) = self.forks(at, &unwound, 2);
                Some((CallOp::Guarded { body: Arc::new(body), end: Arc::new(end) }, needs | more))
            }
            Called::Close if self.may_close(ctx) => done(CallOp::Close(close(a))),
            _ => None,
        }
    }

    /// Calls of `join` inside of each other, with nothing else.
    fn forks(&mut self, at: At, ctx: &Ctx, depth: u32) -> (Call, Set) {
        if depth == 0 {
            return (self.leaf(at.c(), ctx), Set::NONE);
        }
        let (inner, needs) = self.fork(ctx);
        let (a, needs_a) = self.forks(at, &inner, depth - 1);
        let (b, needs_b) = self.forks(at, &Ctx { stealable: true, ..inner.clone() }, depth - 1);
        let needs = needs | needs_a | needs_b | self.on_top(&inner);
        self.wait(at, &inner, self.waiting(&inner), needs);
        self.wait(at, ctx, self.waiting(ctx), needs);
        let op = CallOp::Join { on: None, a: Arc::new(a), b: Arc::new(b) };
        (Call { id: self.fact(ctx), op }, needs)
    }

    /// Guards that are dropped in the body of a scope.
    fn guards(&mut self, at: At, ctx: &Ctx) -> Option<(CallOp, Set)> {
        // A job that runs in place has no deque. Its calls then go to the runtime that is entered.
        if ctx.maybe_in_place {
            return None;
        }
        let b = usize::from(at.b());
        let rts: Vec<_> = (0..1 + b % 2)
            .filter_map(|i| self.multi(ctx, at.a().rotate_left(i as u32)).filter(|&rt| self.is_multi(rt)))
            .collect();
        let &current = rts.last()?;
        let order = GuardOrder {
            is_oldest_first: rts.len() > 1 && b / 2 % 2 == 1,
            is_isolated: b / 4 % 4 == 3 && self.on(Kind::Isolated),
        };
        let around = Ctx { current: Some(current), ..ctx.clone() };
        let pool = self.pool_of(&around);
        let (sent, mut needs) = self.fork(&around);
        needs |= self.on_top(&sent);
        needs |= self.injected(ctx, pool);
        let job = Ctx { stealable: true, no_close: true, pure: true, ..sent };
        let (first, rest) = Self::first_and_rest(at);
        let (one, more) = if first.is_empty() { self.call_leaf(at, &job) } else { self.calls(first, &job) };
        needs |= more;
        let other = self.leaf(at.c(), &job);
        let inner = Ctx { no_close: true, ..ctx.clone() };
        let (body, more) = self.calls(rest, &inner);
        needs |= more;
        let needs = self.wait(at, &inner, self.waiting(&inner), needs);
        let jobs = [Arc::new(one), Arc::new(other)];
        Some((CallOp::Guards { rts, order, jobs, body: Arc::new(body) }, needs))
    }

    fn call_leaf(&mut self, at: At, ctx: &Ctx) -> (Call, Set) {
        (self.leaf(at.c(), ctx), Set::NONE)
    }

    /// Threads in `block_on` of a `current_thread` runtime.
    fn crowd(&mut self, at: At, ctx: &Ctx) -> Option<(CallOp, Set)> {
        let is_announced = matches!(ctx.place, Place::Outside | Place::Closure(_));
        let is_on = self.on(Kind::Threads) && self.on(Kind::Single);
        if !is_on || !is_announced && !self.on(Kind::Unmarked) || !self.may_nest(ctx) {
            return None;
        }
        let b = usize::from(at.b());
        self.nested += 1;
        self.pools.push(Pool::Single);
        let pool = self.pools.len() - 1;
        let inner = self.in_block_on(&Self::fresh(ctx, Place::Outside, None), pool);
        let (body, needs) = self.async_body(at, &inner);
        self.blocks_silently(at, ctx, needs);
        self.wait(at, ctx, self.blocked(ctx), needs);
        let (blockers, others, close) = (1 + b % 3, b / 3 % 3, close(at.a()));
        Some((CallOp::Crowd { pool, blockers, others, close, body: Arc::new(body) }, needs))
    }

    pub(super) fn may_lock(&self, ctx: &Ctx) -> bool {
        let kinds = [Kind::Locks, Kind::Isolated, Kind::Unmarked];
        kinds.into_iter().all(|kind| self.on(kind)) && self.regions < MOST_REGIONS && !ctx.pure
    }

    pub(super) fn isolate(&mut self, ctx: &Ctx) -> Ctx {
        let mut inner = ctx.clone();
        inner.outer.extend(inner.region);
        inner.region = Some((self.regions, self.processor(ctx)));
        inner.home_waits = false;
        self.regions += 1;
        inner
    }

    pub(super) fn join(&mut self, at: At, ctx: &Ctx) -> Option<(CallOp, Set)> {
        let named = self.named_pool(at, ctx);
        let (inner, mut needs) = match named {
            Some(pool) => self.send(at, ctx, pool),
            None => self.fork(ctx),
        };
        needs |= self.on_top(&inner);
        let (first, rest) = Self::first_and_rest(at);
        let (a, needs_a) =
            if first.is_empty() { (self.leaf(at.b(), &inner), Set::NONE) } else { self.calls(first, &inner) };
        let unwinds = expect::panics_of_call(&a);
        let second = Ctx { stealable: true, unwinding: inner.unwinding || unwinds, ..inner.clone() };
        let is_plain = unwinds && !self.on(Kind::Unwinding);
        let (b, needs_b) = if rest.is_empty() || is_plain {
            (self.leaf(at.c(), &second), Set::NONE)
        } else {
            self.calls(rest, &second)
        };
        needs |= needs_a | needs_b;
        // Both the caller, if it is elsewhere, and the thread that forks wait. If the first closure panics,
        // the thread that forks unwinds while it waits.
        let unwound = Ctx { unwinding: second.unwinding, ..inner.clone() };
        self.wait(at, &inner, self.waiting(&unwound), needs);
        if named.is_some() || self.processor(ctx).is_none() {
            self.wait(at, ctx, self.waiting(ctx), needs);
        }
        Some((CallOp::Join { on: named, a: Arc::new(a), b: Arc::new(b) }, needs))
    }

    /// `catch_unwind(join(panic, body))`.
    pub(super) fn unwound(&mut self, at: At, ctx: &Ctx) -> Option<(CallOp, Set)> {
        let (inner, needs) = self.fork(ctx);
        let a = Call { id: self.fact(&inner), op: CallOp::Panic };
        let unwound = Ctx { unwinding: true, ..inner };
        let (b, more) = self.call_body(at, &Ctx { stealable: true, ..unwound.clone() });
        let needs = needs | more;
        self.wait(at, &unwound, self.waiting(&unwound), needs);
        self.wait(at, ctx, self.waiting(ctx), needs);
        let join = CallOp::Join { on: None, a: Arc::new(a), b: Arc::new(b) };
        let join = Call { id: self.fact(ctx), op: join };
        Some((CallOp::Catch(Box::new(join)), needs))
    }

    /// A `ThreadPool`; its method is called instead of the free function.
    pub(super) fn named_pool(&self, at: At, ctx: &Ctx) -> Option<PoolId> {
        let is_named = at.a() % 8 == 7 && self.on(Kind::Installs) && !ctx.threads.is_empty();
        (is_named && !ctx.pure).then(|| ctx.threads[usize::from(at.a() / 8) % ctx.threads.len()])
    }

    pub(super) fn scope(&mut self, at: At, ctx: &Ctx) -> Option<(CallOp, Set)> {
        let b = at.b();
        let named = self.named_pool(at, ctx);
        let (fifo, in_place) = (b % 2 == 1, b % 8 >= 6 && !ctx.pure);
        let pool = named.unwrap_or_else(|| self.pool_of(ctx));
        let (sent, mut needs) = match named {
            Some(pool) => self.send(at, ctx, pool),
            None => self.fork(ctx),
        };
        needs |= self.on_top(&sent);
        let mut inner = if in_place { ctx.clone() } else { sent.clone() };
        let mut job = Ctx { stealable: true, ..sent };
        if in_place {
            inner.no_close = true;
            job.no_close = true;
            needs |= self.injected(ctx, pool);
        }
        let mut kids = at.kids();
        let (mut jobs, mut body) = (Vec::new(), None);
        if !kids.is_empty() {
            let (first, more) = self.call(kids.remove(0), &inner);
            needs |= more;
            body = Some(first);
        }
        let mut bodies = Vec::new();
        for kid in kids {
            let (call, more) = self.call(kid, &job);
            needs |= more;
            bodies.push(call);
        }
        if bodies.is_empty() {
            bodies.push(self.leaf(at.c(), &job));
        }
        // The last is spawned by the first, sometimes.
        let nested = if bodies.len() > 1 && b / 16 % 2 == 1 { bodies.pop() } else { None };
        let mut nested: Vec<_> =
            nested.into_iter().map(|body| Arc::new(Job { more: Vec::new(), body })).collect();
        for body in bodies {
            jobs.push(Arc::new(Job { more: std::mem::take(&mut nested), body }));
        }
        let body = body.unwrap_or_else(|| self.leaf(at.c(), &inner));
        let needs = self.wait(at, &inner, self.waiting(&inner), needs);
        let needs = self.wait(at, ctx, self.waiting(ctx), needs);
        Some((CallOp::Scope { on: named, fifo, in_place, jobs, body: Arc::new(body) }, needs))
    }

    pub(super) fn detached(&mut self, at: At, ctx: &Ctx) -> Option<(CallOp, Set)> {
        let (a, b) = (at.a(), at.b());
        let named = (a % 2 == 1 && self.on(Kind::Installs) && !ctx.threads.is_empty())
            .then(|| ctx.threads[usize::from(a / 2) % ctx.threads.len()]);
        let pool = named.unwrap_or_else(|| self.pool_of(ctx));
        self.note_use(pool);
        let order = match b % 8 {
            0..=3 => Order::Lifo,
            4..=6 => Order::Fifo,
            // In place of a runtime that has ended, the process-wide pool may run it: more often.
            _ if self.on(Kind::Broadcast) && !ctx.maybe_in_place => Order::Broadcast,
            _ => Order::Lifo,
        };
        let wait = match b / 8 % 4 {
            1 if self.on(Kind::Unmarked) => Wait::Unmarked,
            2 if !ctx.in_poll => Wait::Channel,
            3 if !ctx.in_poll => Wait::Marked,
            _ => Wait::No,
        };
        if self.may_have_ended(ctx, pool) {
            // The calls of a job that runs in place may go there.
            self.note_use(GLOBAL);
        }
        let is_broadcast = order == Order::Broadcast;
        let runs = if is_broadcast { self.pools[pool].threads() } else { 1 };
        let times = ctx.times * runs as u32;
        if times > MOST_TIMES {
            return None;
        }
        let current = Some(pool).filter(|&pool| self.pools[pool].is_runtime()).or(ctx.current);
        let inner = Ctx {
            times,
            stealable: is_broadcast,
            unwinding: is_broadcast,
            certain: ctx.certain && wait != Wait::No,
            maybe_in_place: self.may_have_ended(ctx, pool),
            // Run by the call that spawns it, it holds up the poll.
            in_poll: ctx.in_poll && self.may_have_ended(ctx, pool),
            ..Self::fresh(ctx, Place::Job(pool), current)
        };
        let (body, needs) = self.call_body(at, &inner);
        let mut needs = needs | Set::of(pool, Of::Root);
        if is_broadcast {
            needs |= Set::of(pool, Of::All) | Set::of(pool, Of::Help);
        }
        if wait == Wait::Unmarked {
            self.blocks_silently(at, ctx, needs);
        }
        if wait != Wait::No {
            let busy = if is_broadcast { Set::of(pool, Of::Busy) } else { Set::NONE };
            self.wait(at, ctx, self.blocked(ctx) | busy, needs);
        }
        Some((CallOp::Detached { on: named, order, runs, wait, body: Arc::new(body) }, needs))
    }

    /// Whether a program may rely on the thread's deque. Without `spares` it does not rely on that of a spare
    /// worker (R26). A call that runs in place has none.
    pub(super) fn has_deque(&self, ctx: &Ctx) -> bool {
        match ctx.place {
            _ if ctx.maybe_in_place => false,
            Place::Task(rt) => match self.pools[rt] {
                Pool::Workers { spares, .. } => spares == 0 || self.on(Kind::Spares),
                _ => ctx.driven_by.is_none(),
            },
            _ => true,
        }
    }

    pub(super) fn meet(&mut self, at: At, ctx: &Ctx) -> Option<(CallOp, Set)> {
        let pool = self.processor(ctx)?;
        let others: Vec<_> = ctx.threads.iter().copied().filter(|&other| other != pool).collect();
        let kind = match at.a() % 4 {
            0 if !others.is_empty() && self.on(Kind::Installs) => {
                MeetKind::Install(others[usize::from(at.a() / 4) % others.len()])
            }
            1 | 2 if !ctx.in_poll => MeetKind::Channel,
            _ if self.on(Kind::InPlace) => MeetKind::InPlace,
            _ => return None,
        };
        if !self.has_deque(ctx) {
            return None;
        }
        let second = Ctx { stealable: true, ..ctx.clone() };
        let (body, needs_body) = self.call_body(at, &second);
        let piece = match (ctx.region, kind) {
            (Some((region, home)), MeetKind::Install(_)) if home == Some(pool) => Set::region(region),
            _ => Set::of(pool, Of::Help),
        };
        let needs = needs_body | piece;
        let fork = needs | self.on_top(ctx);
        let all = match kind {
            MeetKind::Install(other) => {
                let (there, way) = self.send(at, ctx, other);
                self.wait(at, ctx, self.blocked(&there), needs);
                fork | way
            }
            MeetKind::Channel | MeetKind::InPlace => {
                self.wait(at, ctx, self.blocked(ctx), needs);
                fork
            }
        };
        self.wait(at, ctx, self.waiting(ctx), all);
        Some((CallOp::Meet { kind, body: Arc::new(body) }, all))
    }
}
