//! Foreign code that the calling thread may not run itself.

use std::io;
use std::mem;
use std::panic::Location;
use std::thread;

use super::away::deadlock::Expecting;
use super::away::marks::Report;
use super::blocking;
use super::context;
use super::reference::Reference;
use super::shared::Shared;
use crate::driver::foreign::Waking;
use crate::loom::sync::atomic::AtomicUsize;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::loom::sync::{Arc, Mutex};
use crate::util::unwind;

/// See [`Shared::wake_at_the_end`].
struct LastWakes {
    wakes: Waking,
    /// The threads that take wakers, and are not inside of one.
    free: AtomicUsize,
}

/// Calls `f`, which the program was promised and which may block without limit, on a thread of its own, because
/// the calling thread may be the one that ends `runtime`. That end waits for the thread, as long as it waits
/// at all. If the system refuses the thread, `f` is called here.
pub fn call_beside(runtime: Option<Reference>, f: impl FnOnce() + Send + 'static) {
    let exit = runtime.as_ref().map(|runtime| runtime.shared().lifecycle.exit());
    exit.iter().for_each(|exit| exit.enter());
    let call = move || {
        unwind::run_quietly(f);
        drop(runtime);
        exit.into_iter().for_each(|exit| exit.leave());
    };
    // Still there if the system refuses the thread.
    let call = Arc::new(Mutex::new(Some(call)));
    let others = call.clone();
    let main = move || {
        let call = others.lock().take();
        call.into_iter().for_each(|call| call());
    };
    if thread::Builder::new().name("runtime-output".into()).spawn(main).is_err() {
        let call = call.lock().take();
        call.into_iter().for_each(|call| call());
    }
}

impl Shared {
    /// Calls `f` on a thread for blocking closures. After the shutdown has begun there is none, and `f` is
    /// dropped; likewise if the system refuses a thread. The caller keeps the state valid.
    #[track_caller]
    pub fn call_elsewhere(&self, f: impl FnOnce() + Send + 'static) {
        let site = Location::caller();
        // SAFETY: (1) the caller keeps the state until this returns.
        let handle = unsafe { Reference::new(self.ptr()) };
        // If the system refuses the thread for `f`, the thread that asked for it drops closures of the
        // program that came meanwhile. Their destructors and the wakers of their handles are foreign, too.
        _ = self.run_apart(move |_| drop(blocking::spawn_on(&handle, f, site)));
    }

    /// Has the foreign wakers that worker `index` has not called yet called on a thread of their own. The
    /// caller keeps the state valid.
    ///
    /// # Errors
    /// The system's error if it refuses the thread. The wakers stay where they are.
    pub fn wake_apart(&self, index: usize) -> io::Result<()> {
        self.run_apart(move |shared| shared.processor(index).waking.wake_rest())
    }

    /// Wakes all of `wakes` at the end of the runtime, when no monitor looks after this thread. If it is
    /// inside of a waker and some are left, another thread goes on with them. The caller keeps the state
    /// valid.
    pub fn wake_at_the_end(&self, wakes: Waking) {
        self.help_to_wake(&Arc::new(LastWakes { wakes, free: AtomicUsize::new(1) }));
    }

    /// For a thread that `free` counts.
    fn help_to_wake(&self, last: &Arc<LastWakes>) {
        // Relaxed, all of them: the lock of `wakes` orders what matters, and one thread too many does no
        // harm. Of threads that begin a call at the same time, the one that counts last starts a thread.
        while let Some(kept) = last.wakes.next() {
            if last.free.fetch_sub(1, Relaxed) == 1 && !last.wakes.is_empty() {
                last.free.fetch_add(1, Relaxed);
                let shared = last.clone();
                if self.run_apart(move |state| state.help_to_wake(&shared)).is_err() {
                    last.free.fetch_sub(1, Relaxed);
                }
            }
            kept.wake();
            last.free.fetch_add(1, Relaxed);
        }
        last.free.fetch_sub(1, Relaxed);
    }

    /// Calls the deadlock handler on a thread of its own. Threads for blocking closures may all take part in
    /// the deadlock. Returns the report if the system refuses the thread. The caller keeps the state valid.
    pub fn deliver_apart(&self, report: Report) -> Option<Report> {
        let report = Arc::new(Mutex::new(Some(report)));
        let shared = report.clone();
        let take = move || shared.lock().take();
        match self.run_apart(move |_| take().into_iter().for_each(Report::deliver)) {
            Ok(()) => None,
            Err(_) => report.lock().take(),
        }
    }

    /// As [`deliver_apart`](Self::deliver_apart). If the system refuses the thread, the threads are left that
    /// the blocking pool has. If it has none, the report is lost.
    pub fn deliver_elsewhere(&self, report: Report) {
        self.deliver_apart(report).into_iter().for_each(|report| self.deliver_on_present(report));
    }

    /// For a caller to which the system has just refused a thread.
    fn deliver_on_present(&self, report: Report) {
        // SAFETY: (1) the caller keeps the state until this returns.
        let handle = unsafe { Reference::new(self.ptr()) };
        drop(blocking::spawn_on_present(&handle, move || report.deliver(), Location::caller()));
    }

    /// Runs `f` on a thread that is started for it. The end of the runtime waits for that thread, and it
    /// counts as something under way (`deadlock.rs`). The runtime is the current one there, unless it is a
    /// pool. The caller keeps the state valid.
    ///
    /// # Errors
    /// The system's error if it refuses the thread. `f` was dropped by then.
    pub fn run_apart(&self, f: impl FnOnce(&Shared) + Send + 'static) -> io::Result<()> {
        // SAFETY: (1) the caller keeps the state until this returns.
        let handle = unsafe { Reference::new(self.ptr()) };
        let exit = self.lifecycle.exit();
        exit.enter();
        // `Expecting` would borrow the handle that goes to the thread.
        self.expect().into_iter().for_each(mem::forget);
        let main = {
            let exit = exit.clone();
            move || {
                let shared = handle.shared();
                // A runtime that is dropped here does not wait for this thread.
                let call = || context::enter_block_on(|| f(shared));
                match shared.current_on_threads() {
                    // SAFETY: `handle` keeps the state.
                    Some(current) => unsafe { context::enter_runtime(current, call) },
                    None => call(),
                }
                drop(Expecting::of(shared));
                drop(handle);
                exit.leave();
            }
        };
        self.config.start_helper(main).map(drop).inspect_err(|_| {
            // The handler is foreign code, and this thread may not run it.
            let report = Expecting::of(self).and_then(Expecting::end);
            report.into_iter().for_each(|report| self.deliver_on_present(report));
            exit.leave();
        })
    }
}
