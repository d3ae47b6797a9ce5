//! Makes tasks and closures whose destructors block at the end of the runtime, and tasks that wait for them.

use super::surroundings::Ctx;
use super::{At, Maker, RUNTIME, micros};
use crate::kinds::Kind;
use crate::program::*;
use crate::rules::{Of, Set};

/// Most copies of such an operation at once: each of its destructors may block a thread.
const MOST_DROPS: u32 = 4;
/// Most tasks that wait for ever, of one operation.
const MOST_KEPT: usize = 6;
/// The largest `max_blocking_threads` with which closures are queued.
const MOST_SLEEPERS: usize = 3;

impl Maker<'_> {
    pub(super) fn drops(&mut self, at: At, ctx: &Ctx) -> Option<(AsyncOp, Set)> {
        let rt = self.runtime(ctx, at.a())?;
        // Without `shutdown`, a runtime ends when nothing is left that waits.
        if !self.on(Kind::Shutdown) || ctx.times > MOST_DROPS {
            return None;
        }
        let (b, c) = (at.b(), at.c());
        let mut kept = self.kept(rt, b, c);
        let has_holder = b / 8 % 2 == 1 && self.on(Kind::Unmarked) && self.is_multi(rt);
        let mut waiters = self.waiters(at, ctx, rt, kept.len());
        if let Some(waiter) = waiters.first_mut().filter(|waiter| b / 64 % 2 == 1 && waiter.kind.may_lock()) {
            waiter.holds_lock = true;
            let locks = |kind: &&mut DropKind| matches!(kind, DropKind::Locks | DropKind::Holds);
            kept.iter_mut().filter(locks).for_each(|kind| *kind = DropKind::Plain);
        }
        let has_returner =
            c / 64 % 2 == 1 && self.on(Kind::Unmarked) && self.on(Kind::InPlace) && self.is_multi(rt);
        let queues = b / 16 % 2 == 1 && self.on(Kind::Blocking);
        let (sleepers, closures) = match self.pools[rt] {
            Pool::Workers { blocking, .. } if queues && blocking <= MOST_SLEEPERS => {
                (blocking, 1 + usize::from(b) / 32 % 2)
            }
            _ => (0, 0),
        };
        let time = 200 + micros(c) / 2;
        let drops = Drops { kept, has_holder, has_returner, waiters, sleepers, closures, time };
        Some((AsyncOp::Drops { rt, drops }, Set::of(rt, Of::Poll)))
    }

    /// What the destructors of the tasks do. If they wait, then for a neighbour, all in one direction, so that
    /// there is no circle. Half of the groups are one chain. A thread that drives a `current_thread` runtime
    /// has all of them on one stack: there, no destructor waits for one that waits itself.
    fn kept(&self, rt: PoolId, b: u8, c: u8) -> Vec<DropKind> {
        let count = 2 + usize::from(b) % (MOST_KEPT - 1);
        let (is_backward, is_chain) = (c % 2 == 1, c / 2 % 2 == 1);
        let kind = |task: usize| {
            let other = if is_backward { task.checked_sub(1) } else { Some(task + 1).filter(|&i| i < count) };
            let n = if is_chain { 3 } else { (usize::from(c / 4) + 7 * task) % 4 };
            match (n, other) {
                (0, _) => DropKind::Plain,
                (1, _) if self.on(Kind::InPlace) => DropKind::Holds,
                (2 | 3, Some(other)) if self.on(Kind::InPlace) && self.is_multi(rt) => {
                    DropKind::Waits { other }
                }
                (2 | 3, Some(other)) if self.on(Kind::InPlace) && task % 2 == 0 => DropKind::Drives { other },
                _ => DropKind::Locks,
            }
        };
        (0..count).map(kind).collect()
    }

    /// Tasks that wait for the destructors.
    fn waiters(&mut self, at: At, ctx: &Ctx, rt: PoolId, kept: usize) -> Vec<Waiter> {
        let (a, c) = (usize::from(at.a()), usize::from(at.c()));
        if !self.on(Kind::Unmarked) || !self.on(Kind::InPlace) || !self.is_multi(rt) {
            return Vec::new();
        }
        // The main thread ends it, whatever waits.
        let may_be_early = self.ends_by_time && rt == RUNTIME;
        let task = self.task(ctx, rt);
        let waiter = |i: usize| {
            let pools = &ctx.threads;
            let (kind, needs) = match (a / 16 + i + c) % 4 {
                0 => (WaiterKind::InPlace, Set::NONE),
                1 if may_be_early => (WaiterKind::Early, Set::NONE),
                1 => (WaiterKind::InPlace, Set::NONE),
                2 if self.on(Kind::Installs) && !pools.is_empty() => {
                    let pool = pools[(a + i) % pools.len()];
                    (WaiterKind::Install(pool), self.sent(&task, pool).1)
                }
                _ => (WaiterKind::Join, self.fork(&task).1),
            };
            (Waiter { kind, other: (c + i) % kept, holds_lock: false }, needs)
        };
        let (waiters, needs): (Vec<_>, Vec<_>) = (0..a / 4 % 4).map(waiter).unzip();
        let holds = self.waiting(&task);
        needs.into_iter().for_each(|needs| _ = self.wait(at, ctx, holds, needs));
        waiters
    }
}
