//! Panics as Tokio has them, for programs that compare their texts or expect them. The feature `tokio-panics`
//! brings Tokio's texts, and setters that panic. The feature `tokio-strict` panics also where Tokio does not
//! allow what this crate allows. Without the features, this does nothing.

use std::cell::Cell;
use std::fmt::Display;

use crate::coop;

/// Whether to forbid what Tokio forbids: the feature `tokio-strict`.
pub const IS_STRICT: bool = cfg!(feature = "tokio-strict");

thread_local! {
    /// The number of calls of [`in_local_set`] on this thread's stack.
    static LOCAL_SETS: Cell<usize> = const { Cell::new(0) };
}

/// Tokio's text in front of ours.
pub fn text(theirs: &str, ours: impl Display) -> String {
    match cfg!(feature = "tokio-panics") {
        true => format!("{theirs}: {ours}"),
        false => ours.to_string(),
    }
}

/// A setter was given a value. Tokio's setter panics if the value is wrong; ours leaves it to
/// [`build`](crate::Builder::build), which returns an error.
#[track_caller]
pub fn setter(is_right: bool, theirs: &str) {
    assert!(is_right || !cfg!(feature = "tokio-panics"), "{theirs}");
}

/// A synchronous function is about to block the thread. Tokio's panics in async code.
#[track_caller]
pub fn blocks() {
    assert!(
        !IS_STRICT || !coop::is_polling(),
        "Cannot block the current thread from within a runtime: `.await` the async function of the same \
         name, or call this one in `spawn_blocking`"
    );
}

/// A `block_on` begins. Tokio's panics in async code.
#[track_caller]
pub fn enters_block_on() {
    assert!(
        !IS_STRICT || !coop::is_polling(),
        "Cannot start a runtime from within a runtime. This happens because a function (like `block_on`) \
         attempted to block the current thread while the thread is being used to drive asynchronous tasks. \
         If you are in an async function, use `.await` on the future instead of blocking on it. Otherwise \
         call `block_on` in `spawn_blocking`."
    );
}

/// A runtime was ended that waits for its threads. Tokio panics in async code.
#[track_caller]
pub fn ends_runtime() {
    assert!(
        !IS_STRICT || !coop::is_polling() || std::thread::panicking(),
        "Cannot drop a runtime in a context where blocking is not allowed: end it with `shutdown_background`"
    );
}

/// A guard of `Handle::enter` was dropped. Tokio panics if another guard is newer.
#[track_caller]
pub fn leaves_runtime(was_newest: bool) {
    assert!(
        !IS_STRICT || was_newest || std::thread::panicking(),
        "`EnterGuard` values dropped out of order: drop them in the reverse order of `Handle::enter`"
    );
}

/// A `block_in_place` begins. Tokio's panics in async code, if its worker's tasks cannot move to another
/// thread.
#[track_caller]
pub fn blocks_in_place(is_current_thread: impl FnOnce() -> bool) {
    let is_pinned = || is_current_thread() || LOCAL_SETS.get() > 0;
    assert!(
        !IS_STRICT || !coop::is_polling() || !is_pinned(),
        "can call blocking only when running on the multi-threaded runtime: use `spawn_blocking`"
    );
}

/// Runs `f`, the poll or the end of a `LocalSet`.
pub fn in_local_set<R>(f: impl FnOnce() -> R) -> R {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            LOCAL_SETS.set(LOCAL_SETS.get() - 1);
        }
    }
    if !IS_STRICT {
        return f();
    }
    LOCAL_SETS.set(LOCAL_SETS.get() + 1);
    let _leave = Leave;
    f()
}
