//! Wakers of the program's own, and threads that wake.

use std::future::{Future, poll_fn};
use std::panic::panic_any;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use runtime::Handle;
use runtime::parallel::{isolated, join};
use runtime::sync::mpsc;

use super::{Boom, Cx, World, lock, micros};
use crate::program::{Micros, OddKind, PAUSE, PauseKind};

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
