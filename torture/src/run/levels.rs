//! Calls of `block_on` with local tasks, inside of each other.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;

use runtime::Handle;
use runtime::runtime::LocalRuntime;
use runtime::task::{JoinError, JoinHandle, LocalSet, block_in_place};
use runtime::time::sleep;

use super::whole::build_local;
use super::{Cx, Reach, micros, steps};
use crate::program::*;

/// What runs local tasks.
enum Host {
    Set(LocalSet, Handle),
    Own(LocalRuntime),
}

impl Host {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        match self {
            Host::Set(set, handle) => handle.block_on(set.run_until(future)),
            Host::Own(runtime) => runtime.block_on(future),
        }
    }

    /// Spawns a local task. (The function `spawn_local` would spawn in the current `LocalRuntime`, if there
    /// is one, also in the future of a set.)
    fn spawn<T: 'static>(&self, cx: &Cx, future: impl Future<Output = T> + 'static) -> JoinHandle<T> {
        let token = cx.token();
        let future = async move {
            let _token = token;
            future.await
        };
        match self {
            Host::Set(set, _) => set.spawn_local(future),
            Host::Own(runtime) => runtime.spawn_local(future),
        }
    }
}

/// Runs the levels of operation `id`, and the body inside of the last one.
pub fn run(cx: &Cx, id: Id, levels: &[Level], body: &Arc<Async>) -> u64 {
    call(cx.clone(), id, levels.into(), body.clone(), None)
}

/// Calls the first of `levels` inside of the level that `around` runs.
fn call(mut cx: Cx, id: Id, levels: Rc<[Level]>, body: Arc<Async>, around: Option<Rc<Host>>) -> u64 {
    let (level, rest): (Level, Rc<[Level]>) = (levels[0], levels[1..].into());
    let host = match (level.kind, around) {
        (LevelKind::Again, Some(around)) => around,
        (LevelKind::Own, _) => match build_local(&cx.w.program, level.rt) {
            Ok(runtime) => {
                cx.reaches = cx.reaches.with(level.rt, Reach::Runtime(runtime.handle().clone()));
                Rc::new(Host::Own(runtime))
            }
            Err(error) => {
                cx.w.fault(format!("[{id}]: {error}"));
                return cx.fact(body.id).value;
            }
        },
        _ => Rc::new(Host::Set(LocalSet::new(), cx.handle(level.rt).clone())),
    };
    let inside = host.clone();
    let token = cx.token();
    host.block_on(async move {
        let _token = token;
        let cx = cx.into_block_on(level.rt, body.id);
        let sleeps = level.sleeps.map(|time| inside.spawn(&cx, async move { sleep(micros(time)).await }));
        let value = if rest.is_empty() {
            steps::run(&cx, &body).await
        } else if level.in_task {
            let (inner, around, of) = (cx.clone(), inside.clone(), body.id);
            // Caught here: a task in which a cancelled computation unwinds counts as cancelled itself.
            let next = move || catch_unwind(AssertUnwindSafe(|| call(inner, id, rest, body, Some(around))));
            match inside.spawn(&cx, async move { block_in_place(next) }).await {
                Ok(Ok(value)) => value,
                Ok(Err(payload)) => resume_unwind(payload),
                Err(error) => {
                    cx.w.fault(format!("[{id}], a local task: {error}"));
                    cx.fact(of).value
                }
            }
        } else {
            call(cx.clone(), id, rest, body, Some(inside))
        };
        // A timer of a runtime that has ended panics.
        if let Some(Err(error)) = wait(sleeps).await {
            if cx.is_certain(id) {
                cx.w.fault(format!("[{id}], a local task that sleeps: {error}"));
            }
        }
        value
    })
}

async fn wait<T>(task: Option<JoinHandle<T>>) -> Option<Result<T, JoinError>> {
    match task {
        Some(task) => Some(task.await),
        None => None,
    }
}
