//! Running foreign code: a panic there must not end a worker.

use std::any::Any;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The payload of a panic.
pub type Payload = Box<dyn Any + Send + 'static>;

/// Calls `f`. Returns the payload of its panic as an error.
#[inline]
pub fn catch<R>(f: impl FnOnce() -> R) -> Result<R, Payload> {
    catch_unwind(AssertUnwindSafe(f))
}

/// Drops `value`. A panic of its destructor goes no further.
///
/// Not inlined, because inlining would make callers on hot paths save more registers on entry.
#[inline(never)]
pub fn drop_quietly<T>(value: T) {
    if let Err(payload) = catch(|| drop(value)) {
        drop_payload(payload);
    }
}

/// Calls `f`. A panic goes no further.
#[inline]
pub fn run_quietly(f: impl FnOnce()) {
    if let Err(payload) = catch(f) {
        drop_payload(payload);
    }
}

/// Drops the payload of a panic, and the payload of a panic in its destructor, and so on.
///
/// Each round runs foreign code. After a few rounds the rest is leaked, so that this does not loop for ever.
#[cold]
fn drop_payload(mut payload: Payload) {
    for _ in 0..4 {
        match catch(|| drop(payload)) {
            Ok(()) => return,
            Err(next) => payload = next,
        }
    }
    std::mem::forget(payload);
}

/// The first of several panics. It is resumed when all code that must run has run.
#[derive(Default)]
pub struct FirstPanic(Option<Payload>);

impl FirstPanic {
    pub const fn new() -> Self {
        Self(None)
    }

    /// Calls `f`. `None` if it panics.
    #[inline]
    pub fn catch<R>(&mut self, f: impl FnOnce() -> R) -> Option<R> {
        match catch(f) {
            Ok(result) => return Some(result),
            Err(payload) if self.0.is_none() => self.0 = Some(payload),
            Err(payload) => drop_quietly(payload),
        }
        None
    }

    /// Resumes the panic, if there was one.
    #[inline]
    pub fn resume(self) {
        if let Some(payload) = self.0 {
            std::panic::resume_unwind(payload);
        }
    }
}

/// Prints `text` and aborts the process. For errors after which the runtime could only hang, burn its CPU or
/// corrupt memory, and for panics that have no place to go.
#[cold]
pub fn abort(text: &str) -> ! {
    // Not `eprintln!`, which panics if stderr is closed.
    _ = writeln!(std::io::stderr(), "runtime: {text}");
    std::process::abort()
}

/// The payload with which a cancelled computation unwinds.
#[derive(Debug)]
pub struct Cancelled;
