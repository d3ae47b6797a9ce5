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

/// So many spare workers are enough for all destructors that wait.
const ENOUGH_SPARES: usize = 64;

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
        let mut closures = vec![QueuedKind::Locks; closures];
        let mut awaited = None;
        if self.on(Kind::InPlace) && !closures.is_empty() {
            match c / 16 % 4 {
                1 => {
                    let waits = |(i, kind): (usize, &mut QueuedKind)| {
                        *kind = QueuedKind::Waits { other: (usize::from(c) + i) % kept.len() };
                    };
                    closures.iter_mut().enumerate().for_each(waits);
                    // Until the runtime ends, no thread is left for other closures.
                    let may_wait = self.ends_by_time && rt == RUNTIME;
                    awaited = may_wait.then_some(usize::from(c) % kept.len());
                }
                2 if waiters.iter().all(|waiter| !waiter.holds_lock) => {
                    Self::wait_for_closures(&mut kept, |task| DropKind::AfterClosure {
                        closure: task / 2 % closures.len(),
                    });
                }
                3 => Self::wait_for_closures(&mut kept, |_| DropKind::AfterSleepers),
                _ => {}
            }
        }
        if matches!(self.pools[rt], Pool::Workers { spares, .. } if spares < ENOUGH_SPARES) {
            self.drops_keep(at, Set::of(rt, Of::Poll) | Set::of(rt, Of::Root) | Set::of(rt, Of::Help));
        }
        self.fork_in_drops(at, ctx, rt, &mut kept, waiters.is_empty() && awaited.is_none());
        let time = 200 + micros(c) / 2;
        let drops = Drops { kept, has_holder, has_returner, waiters, sleepers, awaited, closures, time };
        Some((AsyncOp::Drops { rt, drops }, Set::of(rt, Of::Poll)))
    }

    /// What the destructors of the tasks do. If they wait, then for a neighbour, all in one direction, so
    /// that there is no circle. Half of the groups are one chain. A thread that drives a `current_thread`
    /// runtime has all of them on one stack: there, no destructor waits for one that waits itself.
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

    /// Has the destructors of a group in which none waits for another one call `join`, sometimes.
    fn fork_in_drops(&mut self, at: At, ctx: &Ctx, rt: PoolId, kept: &mut [DropKind], is_free: bool) {
        let waits = |kind: &DropKind| !matches!(kind, DropKind::Plain | DropKind::Locks | DropKind::Holds);
        if !self.on(Kind::ForkingDrops) || !is_free || kept.iter().any(waits) {
            return;
        }
        let mut joins = 0;
        for own in kept.iter_mut().filter(|own| **own == DropKind::Plain) {
            *own = DropKind::Joins;
            joins += 1;
        }
        // The thread may be one of the runtime, or of no pool.
        let all = [Of::Poll, Of::Root, Of::Help, Of::All, Of::Closure];
        let holds = all.into_iter().fold(Set::NONE, |set, of| set | Set::of(rt, of));
        let needs = Set::of(rt, Of::Help) | Set::of(GLOBAL, Of::Help) | Set::of(rt, Of::Top);
        self.note_use(GLOBAL);
        self.wait(at, &Ctx { times: ctx.times * joins, ..ctx.clone() }, holds, needs);
    }

    /// Has some destructors wait for closures: those that wait for nothing yet, and of every other task only.
    /// So a thread that drives a `current_thread` runtime waits in a `block_on` for none of them.
    fn wait_for_closures(kept: &mut [DropKind], kind: impl Fn(usize) -> DropKind) {
        for (task, own) in kept.iter_mut().enumerate().step_by(2) {
            if matches!(own, DropKind::Plain | DropKind::Locks) {
                *own = kind(task);
            }
        }
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
