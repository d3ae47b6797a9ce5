//! Wakers of the program's own, and threads and hooks that wake.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use runtime::Handle;
use runtime::parallel::{isolated, join};
use runtime::sync::{mpsc, oneshot};
use runtime::task::LocalSet;
use runtime::time::{Instant, Sleep, sleep, sleep_until};

use super::{Boom, Cx, OnDrop, World, lock, micros};
use crate::program::{Micros, OddKind, PAUSE, PauseKind, PoolId, TwinKind};

/// How many wakers are kept for hooks.
const KEPT: usize = 4;

/// What a thread outside tells a future.
#[derive(Default)]
struct Told {
    is_told: bool,
    waker: Option<Waker>,
}

/// Waits until a thread outside wakes it, `late` from now; `again`: keeps a waker, which is woken when all
/// has ended.
pub async fn foreign(cx: &Cx, late: Micros, again: bool) {
    let told = Arc::new(Mutex::new(Told::default()));
    let mut is_started = false;
    poll_fn(|context| {
        let mut state = lock(&told);
        if state.is_told {
            return Poll::Ready(());
        }
        state.waker = Some(context.waker().clone());
        drop(state);
        if !std::mem::replace(&mut is_started, true) {
            if again {
                lock(&cx.w.late).push(context.waker().clone());
            }
            let (told, token) = (told.clone(), cx.token());
            let wakes = move || {
                let _token = token;
                std::thread::sleep(micros(late));
                let waker = {
                    let mut state = lock(&told);
                    state.is_told = true;
                    state.waker.take()
                };
                waker.into_iter().for_each(|waker| {
                    waker.wake_by_ref();
                    waker.wake();
                });
            };
            if std::thread::Builder::new().name("late".into()).spawn(wakes).is_err() {
                cx.w.fault("the system refused a thread");
            }
        }
        Poll::Pending
    })
    .await;
}

/// Waits until a thread outside has done this after a [`PAUSE`]. Returns false if what it has started is
/// dropped.
pub async fn after_pause(cx: &Cx, kind: PauseKind, handle: Handle) -> bool {
    if kind == PauseKind::Wakes {
        foreign(cx, PAUSE, false).await;
        return true;
    }
    let (send, mut receive) = mpsc::channel(1);
    let (token, started) = (cx.token(), cx.token());
    let acts = move || {
        let _token = token;
        std::thread::sleep(micros(PAUSE));
        let tell = move || {
            // Dropped first: the other thread may end the runtime when it is told, and look what is left.
            drop(started);
            _ = send.try_send(());
        };
        match kind {
            PauseKind::Wakes => unreachable!("it is done above"),
            PauseKind::Spawns => drop(handle.spawn(async move { tell() })),
            PauseKind::Computes => handle.compute(move || join(|| (), tell)).detach(),
            PauseKind::Sends => tell(),
        }
    };
    if std::thread::Builder::new().name("pauses".into()).spawn(acts).is_err() {
        cx.w.fault("the system refused a thread");
    }
    receive.recv().await.is_some()
}

/// A waker that does something before it wakes the task behind it.
struct Odd {
    kind: OddKind,
    behind: Waker,
    handle: Handle,
    // Keeps the world, so that a waker which is kept for ever is noticed.
    w: Arc<World>,
}

impl Wake for Odd {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        match self.kind {
            OddKind::Blocks => std::thread::sleep(Duration::from_millis(1)),
            OddKind::Spawns => {
                let token = self.w.tokens.token();
                drop(self.handle.spawn(async move { drop(token) }));
            }
            OddKind::Joins => {
                let (a, b) = isolated(|| join(|| 1, || 2));
                if a + b != 3 {
                    self.w.fault("a join in a waker came to something else");
                }
            }
            OddKind::Locks(number) => drop(lock(&self.w.locks[number - 2])),
            OddKind::Panics => {
                self.behind.wake_by_ref();
                panic_any(Boom(usize::MAX));
            }
        }
        self.behind.wake_by_ref();
    }
}

/// Polls `future` with such a waker.
pub async fn with_waker<T>(cx: &Cx, kind: OddKind, handle: Handle, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    poll_fn(|context| {
        let odd = Odd { kind, behind: context.waker().clone(), handle: handle.clone(), w: cx.w.clone() };
        let waker = Waker::from(Arc::new(odd));
        future.as_mut().poll(&mut Context::from_waker(&waker))
    })
    .await
}

/// Keeps the waker of the task that awaits this, if hooks wake tasks. Otherwise does nothing.
pub async fn keep_waker(cx: &Cx) {
    if !cx.w.program.has_waking_hook() {
        return;
    }
    poll_fn(|context| {
        let mut kept = lock(&cx.w.kept);
        // The oldest goes.
        let oldest = if kept.len() < KEPT { None } else { Some(kept.remove(0)) };
        kept.push(context.waker().clone());
        drop((kept, oldest));
        Poll::Ready(())
    })
    .await;
}

/// Wakes one of the tasks whose wakers are kept, unless hooks have done so often. Returns whether it did.
pub fn wake_kept(w: &Weak<World>) -> bool {
    let Some(w) = w.upgrade() else { return false };
    let left = w.wakes_left.fetch_sub(1, SeqCst);
    if left <= 0 {
        w.wakes_left.fetch_add(1, SeqCst);
        return false;
    }
    let waker = {
        let kept = lock(&w.kept);
        kept.get(left as usize % kept.len().max(1)).cloned()
    };
    waker.map(Waker::wake).is_some()
}

/// A waker that calls `f`.
struct Calls<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for Calls<F> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        (self.0)();
    }
}

fn waker(f: impl Fn() + Send + Sync + 'static) -> Waker {
    Arc::new(Calls(f)).into()
}

/// Polls a [`LocalSet`] by hand to its end, with a waker of the program's own. Returns how many of its tasks
/// came to their values.
pub fn local_set(cx: &Cx, rt: PoolId, kind: OddKind, time: Micros, bytes: usize) -> usize {
    let handle = cx.handle(rt).clone();
    let _entered = handle.enter();
    let ended = Rc::new(Cell::new(0));
    let mut set = LocalSet::new();
    let (token, sleeps) = (cx.token(), ended.clone());
    set.spawn_local(async move {
        let _token = token;
        sleep(micros(time)).await;
        sleeps.set(sleeps.get() + 1);
    });
    if bytes > 0 {
        let (token, echoes, inner) = (cx.token(), ended.clone(), cx.clone());
        set.spawn_local(async move {
            let _token = token;
            if super::steps::echo(&inner, rt, bytes).await.is_ok() {
                echoes.set(echoes.get() + 1);
            }
        });
    }
    let (send, receive) = sync_channel(1);
    let (w, inside, owner) = (cx.w.clone(), handle.clone(), std::thread::current().id());
    let wakes = waker(move || {
        // The set wakes itself, if it has more to do, on the thread that polls it.
        if std::thread::current().id() == owner {
            _ = send.try_send(());
            return;
        }
        match kind {
            OddKind::Blocks | OddKind::Joins => std::thread::sleep(Duration::from_millis(1)),
            OddKind::Spawns => {
                let token = w.tokens.token();
                drop(inside.spawn(async move { drop(token) }));
            }
            OddKind::Locks(number) => drop(lock(&w.locks[number - 2])),
            OddKind::Panics => {
                _ = send.try_send(());
                panic_any(Boom(usize::MAX));
            }
        }
        _ = send.try_send(());
    });
    while Pin::new(&mut set).poll(&mut Context::from_waker(&wakes)).is_pending() {
        _ = receive.recv();
    }
    ended.get()
}

/// A timer of `rt` that fires soon, with a waker that takes a lock of `std`.
pub fn ring(cx: &Cx, rt: PoolId, number: usize) -> Pin<Box<Sleep>> {
    let _entered = cx.handle(rt).enter();
    let mut timer = Box::pin(sleep(micros(100)));
    let w = cx.w.clone();
    let takes = waker(move || drop(lock(&w.locks[number - 2])));
    // A timer of a runtime that has ended panics.
    _ = catch_unwind(AssertUnwindSafe(|| timer.as_mut().poll(&mut Context::from_waker(&takes))));
    timer
}

/// A task waits for two timers that are due at once. The waker of the first blocks until what waits for the
/// second has gone on. Returns false if the task or a timer was cut short.
pub async fn twins(cx: &Cx, handle: &Handle, kind: TwinKind, time: Micros) -> bool {
    let at = Instant::now() + micros(time);
    let (inside, token, other) = (handle.clone(), cx.token(), cx.token());
    // A task of its own: the two timers then have the budget of a poll for themselves, so that none wakes
    // itself.
    let waits = handle.spawn(async move {
        let _token = token;
        let (send, receive) = sync_channel::<()>(1);
        let receive = Mutex::new(receive);
        let first = behind(sleep_until(at), move |waker| {
            _ = lock(&receive).recv();
            waker.wake_by_ref();
        });
        let second = async move {
            let _token = other;
            let _told = OnDrop::new(move || drop(send));
            behind(sleep_until(at), Waker::wake_by_ref).await;
        };
        match kind {
            TwinKind::Same => _ = runtime::join!(first, second),
            TwinKind::Task => {
                let second = inside.spawn(second);
                first.await;
                return second.await.is_ok();
            }
            TwinKind::Thread => {
                let (done, is_done) = oneshot::channel();
                let blocks = move || {
                    let waits = AssertUnwindSafe(|| inside.block_on(second));
                    _ = done.send(catch_unwind(waits).is_ok());
                };
                if std::thread::Builder::new().name("twin".into()).spawn(blocks).is_err() {
                    return false;
                }
                first.await;
                return is_done.await == Ok(true);
            }
        }
        true
    });
    waits.await.is_ok_and(|has_ended| has_ended)
}

/// Polls `future` with a waker that calls `wake` with the waker behind it.
async fn behind<T>(future: impl Future<Output = T>, wake: impl Fn(&Waker) + Send + Sync + 'static) -> T {
    let mut future = pin!(future);
    let wake = Arc::new(wake);
    let mut current = None;
    poll_fn(|context| {
        let waker = current.get_or_insert_with(|| {
            let (behind, wake) = (context.waker().clone(), wake.clone());
            waker(move || wake(&behind))
        });
        future.as_mut().poll(&mut Context::from_waker(waker))
    })
    .await
}
