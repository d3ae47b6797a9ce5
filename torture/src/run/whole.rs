//! Runs a whole program: builds the runtime, ends it, and waits until nothing of it is left.

use std::error::Error;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use runtime::parallel::scope;
use runtime::runtime::{LocalOptions, LocalRuntime};
use runtime::task::block_in_place;
use runtime::time::sleep;
use runtime::{Builder, Handle, Runtime};

use super::steps::{blocked_on, task};
use super::{
    Boom, Cx, Failed, HOOK_WAKES, OnDrop, Reach, Reaches, World, calls, lock, micros, odd, spin, text_of,
};
use crate::check::process;
use crate::cli::Sabotage;
use crate::program::*;

/// Tells what the run is at.
pub type Phase<'a> = &'a mut dyn FnMut(&str);

/// The time that a hook takes before it forks.
const HOOK_DELAY: Duration = Duration::from_millis(3);

/// What the process has while no program runs.
#[derive(Debug, Clone, Copy)]
pub struct AtRest {
    /// Threads.
    pub threads: usize,
    /// Descriptors.
    pub descriptors: usize,
}

/// Builds a runtime of the program.
pub fn build(program: &Program, id: PoolId) -> io::Result<Runtime> {
    builder(program, id).build()
}

/// Builds a local runtime of the program.
pub fn build_local(program: &Program, id: PoolId) -> io::Result<LocalRuntime> {
    builder(program, id).build_local(LocalOptions::default())
}

fn builder(program: &Program, id: PoolId) -> Builder {
    let pool = program.pools[id];
    let mut builder = match pool {
        Pool::Single => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.thread_name(format!("rt{id}"));
    if program.drivers != Drivers::None {
        builder.enable_all();
    }
    if let Some(time) = program.keep_alive {
        builder.thread_keep_alive(micros(time));
    }
    if let Pool::Workers { workers, spares, blocking } = pool {
        builder.worker_threads(workers).spare_workers(spares).max_blocking_threads(blocking);
    }
    builder
}

/// Ends a runtime, which must not have missed a wake until then.
pub fn end(w: &World, runtime: Runtime, close: Close) {
    let handle = runtime.handle().clone();
    w.wakes_left.store(HOOK_WAKES, SeqCst);
    match close {
        Close::Drop => drop(runtime),
        Close::Timeout(limit) => runtime.shutdown_timeout(micros(limit)),
        Close::Background => runtime.shutdown_background(),
    }
    check_wakes(w, &handle);
}

/// As [`end`], for the program's runtime.
pub fn end_own(w: &World, runtime: Runtime, close: Close) {
    w.hook_forks.store(true, SeqCst);
    end(w, runtime, close);
}

/// Makes a scope and blocks for its job, if the program's runtime ends and no other hook has done so. The
/// other workers have the time to find nothing left to do.
fn fork_at_the_end(w: &Weak<World>) {
    let Some(token) = w.upgrade().and_then(|w| w.hook_forks.swap(false, SeqCst).then(|| w.tokens.token()))
    else {
        return;
    };
    thread::sleep(HOOK_DELAY);
    scope(|scope| {
        let (send, receive) = sync_channel(1);
        scope.spawn(move |_| {
            drop(token);
            _ = send.send(());
        });
        block_in_place(|| _ = receive.recv());
    });
}

/// Waits for a timer and for a task of the runtime whose thread ends.
fn wait_in_hook(has_timers: bool) {
    let Ok(handle) = Handle::try_current() else { return };
    if has_timers {
        // Once the runtime has ended, a timer panics.
        _ = catch_unwind(AssertUnwindSafe(|| handle.block_on(sleep(micros(300)))));
    }
    _ = handle.block_on(handle.spawn(async {}));
}

/// Wakes that only the scheduler's own net has caught are faults, although the program goes on.
fn check_wakes(w: &World, handle: &Handle) {
    let missed = handle.metrics().missed_wake_count();
    let missed = missed + u64::from(w.sabotage == Some(Sabotage::Wake));
    if missed > 0 {
        w.fault(format!("the scheduler missed {missed} wakes, and only its net has caught them"));
    }
}

fn build_program(w: &Arc<World>) -> Result<(Runtime, Reaches), Box<dyn Error>> {
    let program = &w.program;
    let mut builder = builder(program, 0);
    builder.pin_workers(program.is_pinned);
    builder.event_interval(program.interval).global_queue_interval(program.interval);
    // The runtime holds its hooks: they must not hold the world, which may hold the runtime.
    let weak = Arc::downgrade(w);
    if program.has_handler {
        let weak = weak.clone();
        builder.deadlock_handler(move |deadlock| release(&weak, deadlock));
    }
    let has_timers = program.drivers == Drivers::Used;
    if let Some(hook) = program.hook {
        let hook = move || match hook {
            Hook::Spins => spin(20),
            Hook::Panics => panic_any(Boom(usize::MAX)),
            Hook::Spawns => {
                if let Ok(handle) = Handle::try_current() {
                    drop(handle.spawn(async {}));
                }
            }
            Hook::Wakes => _ = odd::wake_kept(&weak),
            Hook::Naps => {
                if odd::wake_kept(&weak) {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            Hook::Forks => fork_at_the_end(&weak),
            Hook::Waits => wait_in_hook(has_timers),
        };
        let other = hook.clone();
        match program.hook {
            // A task at each sleep would never let the worker sleep.
            Some(Hook::Spawns) => builder.on_thread_start(hook).on_thread_stop(other),
            Some(Hook::Forks) => builder.on_thread_park(hook),
            Some(Hook::Waits) => builder.on_thread_stop(hook),
            Some(Hook::Wakes | Hook::Naps) => builder.on_thread_park(hook).on_thread_unpark(other),
            _ => builder.on_thread_start(hook.clone()).on_thread_park(hook).on_thread_unpark(other),
        };
    }
    let is_built = Arc::new(AtomicBool::new(false));
    if let Some(names) = program.names {
        builder.thread_name_fn(name_fn(names, is_built.clone()));
    }
    let runtime = builder.build()?;
    is_built.store(true, SeqCst);
    let mut reaches = Reaches::NONE.with(0, Reach::Runtime(runtime.handle().clone()));
    for &pool in &program.thread_pools {
        let threads = calls::build_threads(program.pools[pool].threads())?;
        reaches = reaches.with(pool, Reach::Threads(Arc::new(threads)));
    }
    Ok((runtime, reaches))
}

/// The `thread_name_fn` of the runtime.
fn name_fn(names: Names, is_built: Arc<AtomicBool>) -> impl Fn() -> String + Send + Sync + 'static {
    let calls = AtomicU32::new(0);
    move || {
        let call = calls.fetch_add(1, SeqCst);
        if call > 0 {
            thread::sleep(micros(names.late));
        }
        // A thread that is refused while the runtime is built is an error of `build`.
        if names.refuses > 0 && call % names.refuses == 0 && is_built.load(SeqCst) {
            panic_any(Boom(usize::MAX));
        }
        "rt0".to_owned()
    }
}

/// The deadlock handler: releases all that wait for it.
fn release(w: &Weak<World>, deadlock: &runtime::parallel::Deadlock) {
    let Some(w) = w.upgrade() else { return };
    if !w.has_marks.load(SeqCst) {
        w.fault(format!("a deadlock is reported where nothing was marked: {deadlock}"));
    }
    let waiting = std::mem::take(&mut *lock(&w.deadlocked));
    waiting.into_iter().for_each(|send| _ = send.send(()));
}

/// Runs the program of `w` to its end, and until nothing is left of it.
pub fn run(w: &Arc<World>, at_rest: AtRest, phase: Phase) {
    phase("build");
    let (runtime, reaches) = match build_program(w) {
        Ok(built) => built,
        Err(refused) => return w.fault(format!("the runtime was not built: {refused}")),
    };
    let handle = runtime.handle().clone();
    crate::child::watch(&handle);
    let is_alone = !w.program.in_block_on;
    *lock(&w.runtime) = Some(runtime);

    phase("run");
    let outside: Vec<_> = w.program.outside.iter().filter_map(|call| start(w, &reaches, call)).collect();
    let cx = Cx::outside(w, reaches.clone());
    cx.sabotage();
    let (send, receive) = sync_channel(1);
    if is_alone {
        let root = task(cx.clone(), 0, w.program.root.clone());
        let handle = handle.spawn(root);
        let tell = OnDrop::new(move || drop(send));
        // Asked for by a task of its own, so that the main thread is in no `block_on`, which would never be a
        // deadlock.
        let (inner, of) = (cx.clone(), w.program.root.id);
        drop(cx.handle(0).spawn(async move {
            let _tell = tell;
            inner.settle(of, of, handle.await.map_err(Failed::from));
        }));
        wait(w, receive);
    } else {
        let (handle, cx, root) = (handle.clone(), cx.clone(), w.program.root.clone());
        let main = move || {
            let _tell = OnDrop::new(move || drop(send));
            let of = root.id;
            let root = AssertUnwindSafe(|| handle.block_on(blocked_on(cx.clone(), 0, root)));
            cx.settle(of, of, catch_unwind(root).map_err(Failed::Panicked));
        };
        match w.program.when {
            When::Last => main(),
            When::After(_) => {
                // The main thread ends the runtime meanwhile.
                let thread = thread::Builder::new().name("main-block-on".into()).spawn(main);
                wait(w, receive);
                end_program(w);
                thread.into_iter().for_each(|thread| _ = thread.join());
            }
        }
    }
    drop(cx);
    if matches!(w.program.when, When::After(_)) {
        phase("end");
        end_program(w);
    }
    phase("join");
    for thread in outside {
        if let Err(payload) = thread.join() {
            w.fault(format!("a thread outside panicked: {}", text_of(&payload)));
        }
    }
    // On a `current_thread` runtime no thread runs what is left.
    if w.program.is_awaited && w.program.pools[0] != Pool::Single {
        phase("detached");
        until(|| w.tokens.live() == 0);
    }
    phase("end");
    end_program(w);
    phase("drop");
    drop(reaches);
    lock(&w.deadlocked).clear();
    wake_late(w);
    // Detached jobs of pools that were dropped still run; so do workers of runtimes that were ended in the
    // background.
    phase("left: closures and futures");
    until(|| w.tokens.live() == 0);
    // Wakers that come meanwhile may hold a runtime. Without another reference to the world no more come.
    until(|| {
        wake_late(w);
        Arc::strong_count(w) == 1
    });
    wake_late(w);
    phase("left: threads");
    until(|| process::threads() <= at_rest.threads);
    // A runtime that was ended in the background may have missed a wake since.
    check_wakes(w, &handle);
    crate::child::unwatch();
    drop(handle);
    phase("left: descriptors");
    until(|| process::descriptors() <= at_rest.descriptors);
    phase("checked");
    if w.tokens.is_any_dropped_twice() {
        w.fault("something was dropped twice");
    }
    w.check_counts();
}

/// Wakes what kept a waker for the end, here and on another thread.
fn wake_late(w: &World) {
    let mut late = std::mem::take(&mut *lock(&w.late));
    late.append(&mut lock(&w.kept));
    if late.is_empty() {
        return;
    }
    late.iter().for_each(std::task::Waker::wake_by_ref);
    let wakes = thread::Builder::new().name("later".into()).spawn(move || {
        late.into_iter().for_each(std::task::Waker::wake);
    });
    wakes.into_iter().for_each(|thread| _ = thread.join());
}

/// Waits for the root, or for the time when the runtime is ended.
fn wait(w: &World, receive: Receiver<()>) {
    match w.program.when {
        When::Last => _ = receive.recv(),
        When::After(time) => _ = receive.recv_timeout(micros(time)),
    }
}

/// Ends the program's runtime, unless an operation has.
fn end_program(w: &Arc<World>) {
    let runtime = lock(&w.runtime).take();
    let Some(runtime) = runtime else { return };
    let close = w.program.close;
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| end_own(w, runtime, close))) {
        w.fault(format!("the end of the runtime panicked: {}", text_of(&payload)));
    }
}

/// Starts one of the program's threads outside.
fn start(w: &Arc<World>, reaches: &Reaches, call: &Arc<Call>) -> Option<thread::JoinHandle<()>> {
    let (inner, reaches, call) = (w.clone(), reaches.clone(), call.clone());
    let main = move || {
        let of = call.id;
        let cx = Cx::outside(&inner, Reaches::NONE);
        let result = catch_unwind(AssertUnwindSafe(|| calls::outside(&inner, reaches, None, &call)));
        cx.settle(of, of, result.map_err(Failed::Panicked));
    };
    let started = thread::Builder::new().name("outside".into()).spawn(main);
    started.map_err(|error| w.fault(format!("a thread outside was refused: {error}"))).ok()
}

/// Waits for a condition. If it never comes true the supervisor ends the process.
pub fn until(condition: impl Fn() -> bool) {
    let mut round = 0;
    while !condition() {
        round += 1;
        match round {
            0..50 => thread::yield_now(),
            _ => thread::sleep(Duration::from_micros(200)),
        }
    }
}
