//! Runtimes that are entered around a scope, and left in its body.

use std::sync::Arc;

use runtime::Handle;
use runtime::parallel::{Scope, in_place_scope, isolated};

use super::calls::{call, job};
use super::{Cx, Look, seen};
use crate::program::*;

/// Enters `rts`, leaves them in the body of a scope between the two jobs, and then runs `body`.
pub fn run(cx: &Cx, rts: &[PoolId], order: GuardOrder, jobs: &[Arc<Call>; 2], body: &Call) -> u64 {
    let handles: Vec<Handle> = rts.iter().map(|&rt| cx.handle(rt).clone()).collect();
    let mut guards: Vec<_> = handles.iter().map(|handle| Some(handle.enter())).collect();
    // What a job may see: the runtimes that were current before, between and behind the guards.
    let looks: Vec<_> = rts.iter().map(|&rt| cx.look(rt)).chain([cx.seen.runtime]).collect();
    let mut inner = cx.clone();
    if let (false, Some(&rt)) = (cx.is_on_processor, rts.last()) {
        inner = cx.on(Some(cx.pool_of_runtime(rt)));
    }
    in_place_scope(|scope| {
        spawn(scope, &inner, &looks, &jobs[0]);
        let mut drops = || match order.is_oldest_first {
            true => guards.iter_mut().for_each(|guard| *guard = None),
            false => guards.iter_mut().rev().for_each(|guard| *guard = None),
        };
        if order.is_isolated {
            isolated(drops)
        } else {
            drops()
        }
        spawn(scope, &inner, &looks, &jobs[1]);
        call(cx, body)
    })
}

fn spawn(scope: &Scope<'_>, cx: &Cx, looks: &[Option<Look>], body: &Arc<Call>) {
    let (mut cx, body, token, looks) = (cx.clone(), body.clone(), cx.token(), looks.to_vec());
    scope.spawn(move |_| {
        let _token = token;
        let now = seen().runtime;
        if looks.contains(&now) {
            cx.seen.runtime = now;
        }
        if job(&cx, &body) != cx.fact(body.id).value {
            cx.w.fault(format!("[{}], a job, came to something else", body.id));
        }
    });
}
