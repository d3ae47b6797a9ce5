//! Makes tasks and closures whose destructors block at the end of the runtime.

use super::surroundings::Ctx;
use super::{At, Maker, micros};
use crate::kinds::Kind;
use crate::program::*;
use crate::rules::{Of, Set, Wait as Waiting};

/// Most copies of such an operation at once: each of its destructors may block a thread.
const MOST_DROPS: u32 = 4;
/// The largest `max_blocking_threads` with which closures are queued.
const MOST_SLEEPERS: usize = 3;

impl Maker<'_> {
    pub(super) fn drops(&mut self, at: At, ctx: &Ctx) -> Option<(AsyncOp, Set)> {
        let rt = self.runtime(ctx, at.a())?;
        // Without `shutdown`, a runtime ends when nothing is left that waits.
        let Pool::Workers { blocking, .. } = self.pools[rt] else { return None };
        if !self.on(Kind::Shutdown) || ctx.times > MOST_DROPS {
            return None;
        }
        let (b, c) = (at.b(), at.c());
        let count = 2 + usize::from(b) % 3;
        let is_backward = b / 4 % 2 == 1;
        let kept: Vec<_> = (0..count).map(|task| self.drop_kind(c, task, count, is_backward)).collect();
        let has_holder = b / 8 % 2 == 1 && self.on(Kind::Unmarked);
        let queues = b / 16 % 2 == 1 && self.on(Kind::Blocking) && blocking <= MOST_SLEEPERS;
        let (sleepers, closures) = match queues {
            true => (blocking, 1 + usize::from(b) / 32 % 2),
            false => (0, 0),
        };
        let end = Set::of(rt, Of::Poll);
        let is_wait = |kind: &&DropKind| matches!(kind, DropKind::Waits { .. });
        let waits = kept.iter().filter(is_wait).count() as u32;
        if waits > 0 {
            let holds = self.blocked(&self.task(ctx, rt));
            let (gene, times) = (at.number, ctx.times * waits);
            self.waits.push(Waiting { gene, holds, needs: end, times, is_busy: false });
        }
        let drops = Drops { kept, has_holder, sleepers, closures, time: 200 + micros(c) / 2 };
        Some((AsyncOp::Drops { rt, drops }, end))
    }

    /// What the destructor of a task does. It waits for a neighbour, all in one direction, so that there is
    /// no circle.
    fn drop_kind(&self, n: u8, task: usize, count: usize, is_backward: bool) -> DropKind {
        let other = if is_backward { task.checked_sub(1) } else { Some(task + 1).filter(|&i| i < count) };
        match (n >> (2 * task) & 3, other) {
            (0, _) => DropKind::Plain,
            (1, _) if n & 4 == 4 && self.on(Kind::InPlace) => DropKind::Holds,
            (1, _) => DropKind::Locks,
            (2 | 3, Some(other)) if self.on(Kind::InPlace) => DropKind::Waits { other },
            _ => DropKind::Locks,
        }
    }
}
