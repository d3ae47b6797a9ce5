//! Makes broadcasts that are called at once, in each of which all threads of the pool wait for each other.

use std::sync::Arc;

use super::surroundings::{Ctx, Place};
use super::{At, MOST_TIMES, Maker};
use crate::kinds::Kind;
use crate::program::*;
use crate::rules::{Of, Set};

/// Most copies of such an operation that start threads at once.
const MOST_STARTERS: u32 = 4;

impl Maker<'_> {
    pub(super) fn barriers(&mut self, at: At, ctx: &Ctx) -> Option<(CallOp, Set)> {
        let b = at.b();
        // A worker that blocks without a word keeps its table, and with it tasks for whose destructors others
        // may wait.
        let is_marked = (b % 2 == 0 || self.on(Kind::Drops)) && self.on(Kind::InPlace);
        // Two broadcasts inside of different isolated parts may wait for each other.
        if !is_marked && (!self.on(Kind::Unmarked) || self.on(Kind::Drops)) || ctx.region.is_some() {
            return None;
        }
        let count = 2 + usize::from(b) / 2 % 2;
        let is_scope = b / 4 % 2 == 1 && self.on(Kind::Scopes) && self.has_deque(ctx);
        let own = self.processor(ctx).filter(|_| is_scope && ctx.driven_by.is_none());
        let kind = if own.is_some() { BarrierKind::Scope } else { BarrierKind::Threads };
        let pool = match own {
            Some(pool) => pool,
            None => self.pool_for_threads(at, ctx)?,
        };
        let threads = self.pools[pool].threads();
        let times = ctx.times * (threads * count) as u32;
        if times > MOST_TIMES {
            return None;
        }
        let caller = match kind {
            BarrierKind::Scope => Ctx { stealable: true, ..ctx.clone() },
            BarrierKind::Threads => {
                let enter = Some(pool).filter(|&pool| self.pools[pool].is_runtime());
                Self::fresh(ctx, Place::Outside, enter)
            }
        };
        let (sent, _) = self.sent(&caller, pool);
        // A broadcast runs on the pool's own threads, also if its caller is an external thread.
        let part = Ctx { times, stealable: true, unwinding: true, guest: false, pure: true, ..sent };
        let (body, needs) = self.call_body(at, &part);
        let all = Set::of(pool, Of::All);
        // The threads that have come wait for all others. They do not keep the others from coming, because
        // each thread comes to one broadcast after the other.
        let holds = self.blocked(&part).without(all) | Set::of(pool, Of::Busy);
        self.wait(at, &part, holds, all);
        let needs = needs | all | self.on_top(ctx);
        match kind {
            BarrierKind::Threads => _ = self.wait(at, ctx, self.blocked(ctx), needs),
            BarrierKind::Scope => {
                let several = Ctx { times: ctx.times * count as u32, ..caller };
                self.wait(at, &several, self.waiting(&several), needs);
                // The frames below a job wait for all threads, too.
                self.wait(at, ctx, Set::of(pool, Of::Top), all);
            }
        }
        let body = Arc::new(body);
        Some((CallOp::Barriers { pool, kind, count, threads, is_marked, body }, needs))
    }

    /// The pool in which threads outside call `broadcast`, if such threads may be started here.
    fn pool_for_threads(&self, at: At, ctx: &Ctx) -> Option<PoolId> {
        let is_announced = matches!(ctx.place, Place::Outside | Place::Closure(_));
        let may_wait = is_announced || self.on(Kind::Unmarked);
        if !self.on(Kind::Threads) || !may_wait || ctx.times > MOST_STARTERS {
            return None;
        }
        let a = usize::from(at.a());
        if a % 2 == 1 && !ctx.threads.is_empty() {
            return Some(ctx.threads[a / 2 % ctx.threads.len()]);
        }
        self.multi(ctx, at.a()).filter(|&rt| self.is_multi(rt))
    }
}
