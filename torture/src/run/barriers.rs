//! Broadcasts that are called at once, in each of which all threads of the pool wait for each other.

use std::hint;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use runtime::parallel::{BroadcastContext, broadcast, scope};
use runtime::task::block_in_place;

use super::calls::{job, on_outside};
use super::{Cx, Failed, Reaches, lock};
use crate::program::*;

/// How many broadcasts each caller makes, so that two of them begin at the same moment more often.
const ROUNDS: usize = 8;

/// How long a caller waits at most for the others before each broadcast.
const LINE_UP: Duration = Duration::from_micros(50);

/// What the broadcasts of one operation share.
#[derive(Debug)]
struct Group {
    id: Id,
    /// The `ThreadPool` that threads outside name.
    named: Option<PoolId>,
    threads: usize,
    is_marked: bool,
    body: Arc<Call>,
    callers: usize,
    /// How many broadcasts the callers were about to call.
    called: AtomicUsize,
    /// By thread, the numbers of the broadcasts in the order in which they began there.
    begun: Mutex<Vec<Vec<usize>>>,
}

/// Where the parts of one broadcast wait for each other.
#[derive(Debug, Default)]
struct Barrier {
    come: Mutex<usize>,
    all_have_come: Condvar,
}

impl Barrier {
    /// Blocks until so many parts have come.
    fn wait(&self, parts: usize) {
        let mut come = lock(&self.come);
        *come += 1;
        self.all_have_come.notify_all();
        let waits = self.all_have_come.wait_while(come, |come| *come < parts);
        drop(waits.unwrap_or_else(PoisonError::into_inner));
    }
}

/// Has `count` callers call broadcasts at once, and waits for all.
pub fn run(
    cx: &Cx,
    id: Id,
    pool: PoolId,
    kind: BarrierKind,
    (count, threads): (usize, usize),
    is_marked: bool,
    body: &Arc<Call>,
) {
    let begun = Mutex::new(vec![Vec::new(); threads]);
    let is_named = kind == BarrierKind::Threads && !cx.w.program.pools[pool].is_runtime();
    let group = Arc::new(Group {
        id,
        named: is_named.then_some(pool),
        threads,
        is_marked,
        body: body.clone(),
        callers: count,
        called: AtomicUsize::new(0),
        begun,
    });
    match kind {
        BarrierKind::Scope => scope(|scope| {
            for number in 0..count {
                let (cx, group, token) = (cx.clone(), group.clone(), cx.token());
                scope.spawn(move |_| {
                    let _token = token;
                    group.call(&cx, number);
                });
            }
        }),
        BarrierKind::Threads => {
            let enter = if is_named { None } else { Some(pool) };
            let started: Vec<_> = (0..count).map(|number| start(cx, enter, &group, number)).collect();
            for thread in started {
                match thread.map(thread::JoinHandle::join) {
                    Ok(Ok(())) => {}
                    Ok(Err(payload)) => _ = cx.settle(id, body.id, Err(Failed::Panicked(payload))),
                    Err(error) => cx.w.fault(format!("[{id}]: {error}")),
                }
            }
        }
    }
    group.check_order(cx);
}

/// Starts a thread outside that enters a runtime, or none, and calls broadcasts.
fn start(
    cx: &Cx,
    enter: Option<PoolId>,
    group: &Arc<Group>,
    number: usize,
) -> std::io::Result<thread::JoinHandle<()>> {
    let (mut cx, group, token) = (cx.clone(), group.clone(), cx.token());
    thread::Builder::new().name("outside".into()).spawn(move || {
        let _token = token;
        let reaches = std::mem::replace(&mut cx.reaches, Reaches::NONE);
        on_outside(&cx.w, reaches, enter, |cx| group.call(cx, number));
    })
}

impl Group {
    /// Calls some broadcasts, one after the other, in the pool where `cx` is, or in the `ThreadPool` that is
    /// named. The parts of the last one run the body.
    fn call(&self, cx: &Cx, number: usize) {
        let (inner, token) = (cx.on(self.named), cx.token());
        let expected = cx.fact(self.body.id).value;
        for round in 0..ROUNDS {
            let (barrier, is_last) = (Barrier::default(), round == ROUNDS - 1);
            let each = |context: BroadcastContext<'_>| {
                let _token = &token;
                lock(&self.begun)[context.index()].push(number * ROUNDS + round);
                let wait = || barrier.wait(context.num_threads());
                if self.is_marked {
                    block_in_place(wait)
                } else {
                    wait()
                }
                if is_last { job(&inner, &self.body) } else { expected }
            };
            let broadcasts = || match self.named {
                Some(pool) => cx.threads(pool).broadcast(each),
                None => broadcast(each),
            };
            self.line_up(round);
            let result = catch_unwind(AssertUnwindSafe(broadcasts)).map(|values| {
                if values.len() != self.threads && cx.is_certain(self.id) {
                    cx.w.fault(format!("[{}] ran {} times, not {}", self.id, values.len(), self.threads));
                }
                values.into_iter().find(|&value| value != expected).unwrap_or(expected)
            });
            if is_last || result.is_err() {
                cx.settle(self.id, self.body.id, result.map_err(Failed::Panicked));
                return;
            }
        }
    }

    /// Waits a moment until all callers are about to call their broadcasts of that round.
    fn line_up(&self, round: usize) {
        self.called.fetch_add(1, SeqCst);
        let end = Instant::now() + LINE_UP;
        while self.called.load(SeqCst) < self.callers * (round + 1) && Instant::now() < end {
            hint::spin_loop();
        }
    }

    /// All threads begin the broadcasts of all callers in one order.
    fn check_order(&self, cx: &Cx) {
        let begun = lock(&self.begun);
        // In place of a runtime that has ended, the caller runs the closure once.
        let is_whole =
            cx.is_certain(self.id) || begun.iter().all(|order| order.len() == self.callers * ROUNDS);
        if is_whole && begun.iter().any(|order| *order != begun[0]) {
            cx.w.fault(format!("[{}] began broadcasts in several orders: {begun:?}", self.id));
        }
    }
}
