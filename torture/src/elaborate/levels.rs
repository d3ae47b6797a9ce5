//! Makes calls of `block_on` with local tasks, inside of each other.

use std::sync::Arc;

use super::surroundings::Ctx;
use super::{At, Maker, micros};
use crate::kinds::Kind;
use crate::program::*;
use crate::rules::{Of, Set};

/// Most copies of such an operation at once.
const MOST_COPIES: u32 = 4;

impl Maker<'_> {
    pub(super) fn levels(&mut self, at: At, ctx: &Ctx) -> Option<(CallOp, Set)> {
        if ctx.times > MOST_COPIES {
            return None;
        }
        let mut levels: Vec<Level> = Vec::new();
        let (mut inner, mut needs) = (ctx.clone(), Set::NONE);
        // Where each level is called, and the runtime that it drives itself.
        let mut calls = Vec::new();
        for number in 0..1 + usize::from(at.a()) % 3 {
            let Some(level) = self.level(at, &inner, number, levels.last()) else { break };
            calls.push((inner.clone(), Set::of(level.rt, Of::Poll)));
            inner = self.in_block_on(&inner, level.rt);
            if level.sleeps.is_some() {
                needs |= inner.driver;
            }
            levels.push(level);
        }
        if levels.is_empty() {
            return None;
        }
        let (body, more) = self.async_body(at, &inner);
        needs |= more;
        for (call, driven) in calls {
            // A `block_on` inside of one of the same `current_thread` runtime drives it as well.
            let holds = self.blocked(&call);
            let holds = if call.drives.meets(driven) { holds.without(driven) } else { holds };
            self.wait(at, ctx, holds, needs);
        }
        Some((CallOp::Levels { levels, body: Arc::new(body) }, needs))
    }

    fn level(&mut self, at: At, ctx: &Ctx, number: usize, around: Option<&Level>) -> Option<Level> {
        // The bits for this level.
        let (b, c) = (at.b() >> (2 * number), at.c() >> number);
        let (kind, rt) = match (b % 4, around) {
            (0, _) if self.on(Kind::Single) && self.may_nest(ctx) => {
                self.nested += 1;
                self.pools.push(Pool::Single);
                (LevelKind::Own, self.pools.len() - 1)
            }
            (1, Some(around)) => (LevelKind::Again, around.rt),
            (n, _) => (LevelKind::Set, self.runtime(ctx, n + 4 * (c % 16))?),
        };
        if !self.may_drive(ctx, rt) || ctx.maybe_in_place && self.is_multi(rt) {
            return None;
        }
        let in_task = c % 2 == 1 && self.on(Kind::InPlace);
        let sleeps = (c / 8 % 2 == 1 && self.on(Kind::Timers)).then(|| micros(at.c()));
        Some(Level { kind, rt, in_task, sleeps })
    }
}
