//! `std::thread::scope` whose end ThreadSanitizer sees. A part of `std` that is not instrumented has the
//! count by which the scope knows that its threads have ended.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::thread::{Scope, ScopedJoinHandle};

/// What the threads of a scope have done happens before the load at the end of that scope.
static ENDS: AtomicUsize = AtomicUsize::new(0);

/// Runs `f` as [`std::thread::scope`] does.
pub fn joined_scope<'env, T>(f: impl for<'scope> FnOnce(Threads<'scope, 'env>) -> T) -> T {
    let result = std::thread::scope(|scope| f(Threads(scope)));
    ENDS.load(Acquire);
    result
}

/// The threads of one scope.
#[derive(Clone, Copy)]
pub struct Threads<'scope, 'env>(&'scope Scope<'scope, 'env>);

impl<'scope> Threads<'scope, '_> {
    /// Starts a thread as [`Scope::spawn`] does.
    pub fn spawn<T: Send + 'scope>(
        self,
        f: impl FnOnce() -> T + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, T> {
        self.0.spawn(|| {
            struct End;
            impl Drop for End {
                fn drop(&mut self) {
                    ENDS.fetch_add(1, AcqRel);
                }
            }
            let _end = End;
            f()
        })
    }
}
