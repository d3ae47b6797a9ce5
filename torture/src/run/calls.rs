//! Runs `Call` operations: what is called in jobs, closures and threads.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::thread::ThreadId;
use std::time::Duration;

use runtime::parallel::{self, Mark, Scope, ScopeFifo, ThreadPool, ThreadPoolBuilder};
use runtime::sync::oneshot;
use runtime::task::{block_in_place, yield_now};

use super::steps::{blocked_on, task};
use super::whole::{build, end, end_own, until};
use super::{
    Boom, Cx, Failed, KEY, OnDrop, Reach, Reaches, barriers, crowd, guards, levels, lock, micros, odd, spin,
};
use crate::program::*;

/// How long a lock is held for a timer to fire meanwhile.
const RING: Micros = 300;

/// Runs a call.
pub fn call(cx: &Cx, call: &Call) -> u64 {
    cx.begin(call.id);
    let value = run_op(cx, call);
    cx.end(call.id);
    value
}

/// Runs a call as a job of the pool that the call around it belongs to.
pub fn job(cx: &Cx, body: &Call) -> u64 {
    let cx = cx.clone().into_job(body.id);
    let _index = cx.claim_index(body.id);
    call(&cx, body)
}

/// Runs a part of a call on the thread `caller` that makes the call, or as a job if that thread is not one of
/// the pool. A job may be run by the call that makes it, if the pool has ended: on a thread without an index,
/// from which a scope goes to another thread.
fn here_or_job(cx: &Cx, caller: ThreadId, body: &Call) -> u64 {
    let is_callers = std::thread::current().id() == caller;
    let is_here = cx.is_on_processor && is_callers && parallel::current_thread_index().is_some();
    if is_here { call(cx, body) } else { job(cx, body) }
}

fn run_op(cx: &Cx, this: &Call) -> u64 {
    let id = this.id;
    let value = id as u64;
    match &this.op {
        CallOp::Seq(calls) => return calls.iter().fold(value, |value, next| mix(value, call(cx, next))),
        CallOp::Spin(time) => spin(*time),
        CallOp::Block(time) => std::thread::sleep(micros(*time)),
        CallOp::Pause(body) => {
            std::thread::sleep(micros(PAUSE));
            return mix(value, call(cx, body));
        }
        CallOp::Panic => cx.boom(id),
        CallOp::Catch(body) => {
            let result = catch_unwind(AssertUnwindSafe(|| call(cx, body)));
            let own = cx.settle(id, body.id, result.map_err(Failed::Panicked));
            return mix(mix(value, value), own);
        }
        CallOp::Join { on, a, b } => {
            let (token_a, token_b) = (cx.token(), cx.token());
            let (value_a, value_b) = match on {
                Some(pool) => {
                    let inner = cx.on(Some(*pool));
                    let first = || {
                        let _token = token_a;
                        job(&inner, a)
                    };
                    let second = || {
                        let _token = token_b;
                        job(&inner, b)
                    };
                    cx.threads(*pool).join(first, second)
                }
                None => {
                    let caller = std::thread::current().id();
                    let first = || {
                        let _token = token_a;
                        here_or_job(cx, caller, a)
                    };
                    let second = || {
                        let _token = token_b;
                        job(cx, b)
                    };
                    parallel::join(first, second)
                }
            };
            return mix(mix(value, value_a), value_b);
        }
        CallOp::Scope { on, fifo, in_place, jobs, body } => {
            return mix(value, scope(cx, *on, (*fifo, *in_place), jobs, body));
        }
        CallOp::Isolated(body) => return mix(value, parallel::isolated(|| call(cx, body))),
        CallOp::Install(pool, body) => {
            let (inner, token) = (cx.clone(), cx.token());
            let installed = move || {
                let _token = token;
                let cx = inner.into_job_of(*pool, body.id);
                let _index = cx.claim_index(body.id);
                call(&cx, body)
            };
            return mix(value, cx.threads(*pool).install(installed));
        }
        CallOp::Broadcast { on, threads, body } => {
            let token = cx.token();
            let inner = cx.on(*on);
            let each = |context: parallel::BroadcastContext<'_>| {
                let _token = &token;
                let index = parallel::current_thread_index();
                // In place of a pool that has ended, the closure runs once.
                if context.num_threads() > 1 && index != Some(context.index()) {
                    cx.w.fault(format!("[{id}]: the part of thread {} ran on {index:?}", context.index()));
                }
                job(&inner, body)
            };
            let values = match on {
                Some(pool) => cx.threads(*pool).broadcast(each),
                None => parallel::broadcast(each),
            };
            let expected = cx.fact(body.id).value;
            if values.len() != *threads && cx.is_certain(id) {
                cx.w.fault(format!("[{id}] ran {} times, not {threads}", values.len()));
            }
            if let Some(other) = values.iter().find(|&&value| value != expected) {
                cx.w.fault(format!("[{id}] came to {other:x} once, not {expected:x}"));
            }
            return mix(value, expected);
        }
        CallOp::Barriers { pool, kind, count, threads, is_marked, body } => {
            barriers::run(cx, id, *pool, *kind, (*count, *threads), *is_marked, body);
        }
        CallOp::Detached { on, order, wait, body, .. } => detached(cx, id, *on, *order, *wait, body),
        CallOp::BlockOn { rt, body } => {
            return mix(value, cx.handle(*rt).block_on(blocked_on(cx.clone(), *rt, body.clone())));
        }
        CallOp::InPlace(body) => return mix(value, block_in_place(|| call(cx, body))),
        CallOp::Blocking(body) => return mix(value, parallel::blocking(|| call(cx, body))),
        CallOp::Meet { kind, body } => return mix(value, meet(cx, *kind, body)),
        CallOp::Yield { local: true } => _ = parallel::yield_local(),
        CallOp::Yield { local: false } => _ = parallel::yield_now(),
        CallOp::Task { rt, body } => drop(cx.handle(*rt).spawn(task(cx.clone(), *rt, body.clone()))),
        CallOp::Thread { enter, body } => thread(cx, id, *enter, body),
        CallOp::Nested { pool, close, early, body } => {
            let runtime = match build(&cx.w.program, *pool) {
                Ok(runtime) => runtime,
                Err(error) => {
                    cx.w.fault(format!("[{id}]: {error}"));
                    return value;
                }
            };
            let mut inner = cx.clone();
            inner.reaches = inner.reaches.with(*pool, Reach::Runtime(runtime.handle().clone()));
            inner.tokens = cx.tokens.part();
            let tokens = inner.tokens.clone();
            let value = match early {
                true => {
                    drop(runtime.spawn(task(inner, *pool, body.clone())));
                    value
                }
                false => mix(value, runtime.block_on(blocked_on(inner, *pool, body.clone()))),
            };
            if cx.w.program.is_awaited && cx.w.program.pools[*pool] != Pool::Single {
                until(|| tokens.live() == 0);
            }
            end(&cx.w, runtime, *close);
            return value;
        }
        CallOp::OwnPool { pool, body } => {
            let threads = cx.w.program.pools[*pool].threads();
            let own = match build_threads(threads) {
                Ok(own) => Arc::new(own),
                Err(error) => {
                    cx.w.fault(format!("[{id}]: {error}"));
                    return value;
                }
            };
            let mut inner = cx.clone();
            inner.reaches = inner.reaches.with(*pool, Reach::Threads(own.clone()));
            let token = cx.token();
            let installed = own.install(|| {
                let _token = token;
                call(&inner.into_job_of(*pool, body.id), body)
            });
            return mix(value, installed);
        }
        CallOp::Local(body) => {
            let mut inner = cx.clone();
            inner.seen.local = Some(value + 1);
            return mix(value, KEY.sync_scope(value + 1, || call(&inner, body)));
        }
        CallOp::Borrow(body) => {
            let mut inner = cx.clone();
            inner.seen.local = Some(value + 1);
            let with = || KEY.with(|_| call(&inner, body));
            return mix(value, KEY.sync_scope(value + 1, with));
        }
        CallOp::Locked { lock: number, rings, body } => {
            let _timer = rings.map(|rt| odd::ring(cx, rt, *number));
            let _guard = lock(&cx.w.locks[number - 2]);
            let locked = || {
                let value = call(cx, body);
                if rings.is_some() {
                    // If another thread takes the second closure, this one waits when the timer fires.
                    parallel::join(|| (), || spin(RING));
                }
                value
            };
            return mix(value, parallel::isolated(locked));
        }
        CallOp::UntilEnd { rt } => {
            let handle = cx.handle(*rt);
            while handle.block_on(handle.spawn(yield_now())).is_ok() {}
        }
        CallOp::Set { rt, kind, time, bytes } => {
            let ended = odd::local_set(cx, *rt, *kind, *time, *bytes);
            let tasks = if *bytes > 0 { 2 } else { 1 };
            if ended != tasks && cx.is_certain(id) {
                cx.w.fault(format!("[{id}]: {ended} tasks of {tasks} have ended in their values"));
            }
        }
        CallOp::Levels { levels, body } => return mix(value, levels::run(cx, id, levels, body)),
        CallOp::Crowd { pool, blockers, others, close, body } => {
            crowd::run(cx, id, *pool, (*blockers, *others), *close, body);
        }
        CallOp::Guarded { body, end } => {
            let _end = OnDrop::new(|| {
                let own = call(cx, end);
                if own != cx.fact(end.id).value {
                    cx.w.fault(format!("[{}], in a destructor, came to something else", end.id));
                }
            });
            return mix(value, call(cx, body));
        }
        CallOp::Guards { rts, order, jobs, body } => {
            return mix(value, guards::run(cx, rts, *order, jobs, body));
        }
        CallOp::Close(how) => {
            let runtime = lock(&cx.w.runtime).take();
            runtime.into_iter().for_each(|runtime| end_own(&cx.w, runtime, *how));
        }
    }
    value
}

/// Builds a pool.
pub fn build_threads(threads: usize) -> Result<ThreadPool, parallel::ThreadPoolBuildError> {
    ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("pool-{i}")).build()
}

/// Scopes of both kinds.
trait Spawns<'scope>: Sized {
    fn spawn_job(&self, f: impl FnOnce(&Self) + Send + 'scope);
}

impl<'scope> Spawns<'scope> for Scope<'scope> {
    fn spawn_job(&self, f: impl FnOnce(&Self) + Send + 'scope) {
        self.spawn(f);
    }
}

impl<'scope> Spawns<'scope> for ScopeFifo<'scope> {
    fn spawn_job(&self, f: impl FnOnce(&Self) + Send + 'scope) {
        self.spawn_fifo(f);
    }
}

fn spawn_job<'scope, S: Spawns<'scope>>(scope: &S, cx: Cx, this: Arc<Job>) {
    let token = cx.token();
    scope.spawn_job(move |scope| {
        let _token = token;
        this.more.iter().for_each(|more| spawn_job(scope, cx.clone(), more.clone()));
        let own = job(&cx, &this.body);
        if own != cx.fact(this.body.id).value {
            cx.w.fault(format!("[{}], a job, came to something else", this.body.id));
        }
    });
}

fn scope(
    cx: &Cx,
    on: Option<PoolId>,
    (fifo, in_place): (bool, bool),
    jobs: &[Arc<Job>],
    body: &Arc<Call>,
) -> u64 {
    fn fill<'scope, S: Spawns<'scope>>(
        scope: &S,
        jobs_cx: &Cx,
        jobs: &[Arc<Job>],
        body: impl FnOnce() -> u64,
    ) -> u64 {
        jobs.iter().for_each(|job| spawn_job(scope, jobs_cx.clone(), job.clone()));
        body()
    }
    let (jobs_cx, caller) = (cx.on(on), std::thread::current().id());
    // Where the body is: at the caller's, or with the jobs.
    let body = || match (in_place, on) {
        (true, _) => call(cx, body),
        (false, Some(_)) => job(&jobs_cx, body),
        (false, None) => here_or_job(cx, caller, body),
    };
    let lifo_op = |scope: &Scope<'_>| fill(scope, &jobs_cx, jobs, body);
    let fifo_op = |scope: &ScopeFifo<'_>| fill(scope, &jobs_cx, jobs, body);
    match (on.map(|pool| cx.threads(pool)), fifo, in_place) {
        (Some(pool), false, false) => pool.scope(lifo_op),
        (Some(pool), true, false) => pool.scope_fifo(fifo_op),
        (Some(pool), false, true) => pool.in_place_scope(lifo_op),
        (Some(pool), true, true) => pool.in_place_scope_fifo(fifo_op),
        (None, false, false) => parallel::scope(lifo_op),
        (None, true, false) => parallel::scope_fifo(fifo_op),
        (None, false, true) => parallel::in_place_scope(lifo_op),
        (None, true, true) => parallel::in_place_scope_fifo(fifo_op),
    }
}

fn detached(cx: &Cx, id: Id, on: Option<PoolId>, order: Order, wait: Wait, body: &Arc<Call>) {
    let (send_std, receive_std) = channel::<()>();
    let (send, receive) = oneshot::channel::<()>();
    // A mark, and the way to go on, from the thread that is marked to the job.
    let (marks, marked) = channel::<(Mark, Sender<()>)>();
    let ended = OnDrop::new(move || {
        match wait {
            Wait::No => {}
            Wait::Unmarked => _ = send_std.send(()),
            Wait::Channel => _ = send.send(()),
            Wait::Marked => {
                // Not for ever: if the runtime has ended, the job runs in the call that spawns it.
                if let Ok((mark, go_on)) = marked.recv_timeout(Duration::from_millis(200)) {
                    parallel::mark_unblocked(mark);
                    _ = go_on.send(());
                }
            }
        }
    });
    let (inner, body, token) = (cx.on(on), body.clone(), cx.token());
    let ended = std::sync::Mutex::new(ended);
    let run = move || {
        let _keep = (&ended, &token);
        let result = catch_unwind(AssertUnwindSafe(|| job(&inner, &body)));
        let boom = result.as_ref().err().and_then(|payload| payload.downcast_ref()).map(|Boom(of)| *of);
        inner.settle(id, body.id, result.map_err(Failed::Panicked));
        // The pool's handler takes it.
        if let Some(of) = boom {
            resume_unwind(Box::new(Boom(of)));
        }
    };
    match (order, on.map(|pool| cx.threads(pool))) {
        (Order::Lifo, None) => parallel::spawn(run),
        (Order::Fifo, None) => parallel::spawn_fifo(run),
        (Order::Broadcast, None) => parallel::spawn_broadcast(move |_| run()),
        (Order::Lifo, Some(pool)) => pool.spawn(run),
        (Order::Fifo, Some(pool)) => pool.spawn_fifo(run),
        (Order::Broadcast, Some(pool)) => pool.spawn_broadcast(move |_| run()),
    }
    match wait {
        Wait::No => {}
        Wait::Unmarked => _ = receive_std.recv(),
        Wait::Channel => _ = receive.blocking_recv(),
        Wait::Marked => {
            let (go_on, gone) = channel();
            cx.w.has_marks.store(true, SeqCst);
            if marks.send((parallel::mark_blocked(), go_on)).is_ok() {
                _ = gone.recv();
            }
        }
    }
}

fn meet(cx: &Cx, kind: MeetKind, body: &Arc<Call>) -> u64 {
    let (token_a, token_b) = (cx.token(), cx.token());
    let (send_std, receive_std) = sync_channel::<()>(1);
    let (send, receive) = oneshot::channel::<()>();
    let open = OnDrop::new(move || {
        _ = send_std.send(());
        _ = send.send(());
    });
    let first = move || {
        let _token = token_a;
        match kind {
            MeetKind::Channel => _ = receive.blocking_recv(),
            MeetKind::InPlace => _ = block_in_place(|| receive_std.recv()),
            MeetKind::Install(pool) => _ = cx.threads(pool).install(move || receive_std.recv()),
        }
    };
    let second = move || {
        let _kept = (token_b, open);
        job(cx, body)
    };
    parallel::join(first, second).1
}

fn thread(cx: &Cx, id: Id, enter: Option<PoolId>, body: &Arc<Call>) {
    let (mut inner, of, body, token) = (cx.clone(), body.id, body.clone(), cx.token());
    let started = std::thread::Builder::new().name("outside".into()).spawn(move || {
        let _token = token;
        let reaches = std::mem::replace(&mut inner.reaches, Reaches::NONE);
        outside(&inner.w, reaches, enter, &body)
    });
    match started {
        Ok(thread) => _ = cx.settle(id, of, thread.join().map_err(Failed::Panicked)),
        Err(error) => cx.w.fault(format!("[{id}]: {error}")),
    }
}

/// Runs a call on a thread outside, which has entered a runtime or not.
pub fn outside(w: &Arc<super::World>, reaches: Reaches, enter: Option<PoolId>, body: &Call) -> u64 {
    on_outside(w, reaches, enter, |cx| call(cx, body))
}

/// Calls `f` on a thread outside, which has entered a runtime or not.
pub fn on_outside<R>(
    w: &Arc<super::World>,
    reaches: Reaches,
    enter: Option<PoolId>,
    f: impl FnOnce(&Cx) -> R,
) -> R {
    let mut cx = Cx::outside(w, reaches);
    let Some(rt) = enter else { return f(&cx) };
    let handle = cx.handle(rt).clone();
    let _entered = handle.enter();
    cx.seen.runtime = cx.look(rt);
    cx.pool = cx.pool_of_runtime(rt);
    f(&cx)
}
