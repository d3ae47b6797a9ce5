//! Threads in `block_on` of one `current_thread` runtime, whose polls wait for each other.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use runtime::Handle;
use runtime::sync::oneshot;
use runtime::task::yield_now;

use super::calls::on_outside;
use super::steps::blocked_on;
use super::whole::{build, end};
use super::{Cx, Failed, OnDrop, Reach, Reaches};
use crate::program::*;

/// How many tasks each of the other threads awaits, one after the other.
const TASKS: usize = 4;

/// Runs operation `id` in a runtime of its own.
pub fn run(
    cx: &Cx,
    id: Id,
    pool: PoolId,
    (blockers, others): (usize, usize),
    close: Close,
    body: &Arc<Async>,
) {
    let runtime = match build(&cx.w.program, pool) {
        Ok(runtime) => runtime,
        Err(error) => return cx.w.fault(format!("[{id}]: {error}")),
    };
    let mut cx = cx.clone();
    cx.reaches = cx.reaches.with(pool, Reach::Runtime(runtime.handle().clone()));
    let of = body.id;

    // No other thread is in `block_on` yet: so this one drives.
    let (driven, drives) = channel();
    let (leave, left) = oneshot::channel::<()>();
    let driver = start(&cx, pool, of, move |handle| async move {
        _ = handle.spawn(async {}).await;
        _ = driven.send(());
        _ = left.await;
    });
    _ = drives.recv();

    let (ended, has_ended) = channel();
    let mut threads = vec![driver];
    threads.extend((0..others).map(|_| {
        start(&cx, pool, of, |handle| async move {
            for _ in 0..TASKS {
                _ = handle.spawn(yield_now()).await;
            }
        })
    }));
    let runs = on_thread(&cx, {
        let body = body.clone();
        move |cx| {
            let _ended = OnDrop::new(move || drop(ended));
            cx.handle(pool).block_on(blocked_on(cx.clone(), pool, body))
        }
    });
    let (begun, begin) = channel();
    let mut before = has_ended;
    for _ in 0..blockers {
        let (ended, has_ended) = channel();
        let awaited = std::mem::replace(&mut before, has_ended);
        let begun = begun.clone();
        threads.push(start(&cx, pool, of, |_| blocks(begun, awaited, ended)));
    }
    // So that the wait ends, too, if a thread was refused.
    drop(begun);
    (0..blockers).for_each(|_| _ = begin.recv());
    _ = leave.send(());
    match runs.map(JoinHandle::join) {
        Ok(result) => _ = cx.settle(id, of, result.map_err(Failed::Panicked)),
        Err(error) => cx.w.fault(format!("[{id}]: {error}")),
    }
    for thread in threads {
        if !thread.is_ok_and(|thread| thread.join().is_ok()) {
            cx.w.fault(format!("[{id}]: a thread was refused, or has panicked"));
        }
    }
    end(&cx.w, runtime, close);
}

/// Blocks its thread in the poll until `awaited` is over.
async fn blocks(begun: Sender<()>, awaited: Receiver<()>, ended: Sender<()>) {
    _ = begun.send(());
    _ = awaited.recv();
    drop(ended);
}

/// Starts a thread outside that is in `block_on` of the runtime for what `f` makes of the runtime's handle.
fn start<F>(
    cx: &Cx,
    pool: PoolId,
    of: Id,
    f: impl FnOnce(Handle) -> F + Send + 'static,
) -> io::Result<JoinHandle<()>>
where
    F: Future<Output = ()>,
{
    on_thread(cx, move |cx| {
        let handle = cx.handle(pool).clone();
        let future = f(handle.clone());
        let cx = cx.clone();
        handle.block_on(async move {
            let _driver = cx.into_block_on(pool, of);
            future.await;
        });
    })
}

/// Starts a thread outside.
fn on_thread<R: Send + 'static>(
    cx: &Cx,
    f: impl FnOnce(&Cx) -> R + Send + 'static,
) -> io::Result<JoinHandle<R>> {
    let (mut cx, token) = (cx.clone(), cx.token());
    thread::Builder::new().name("outside".into()).spawn(move || {
        let _token = token;
        let reaches = std::mem::replace(&mut cx.reaches, Reaches::NONE);
        on_outside(&cx.w, reaches, None, f)
    })
}
