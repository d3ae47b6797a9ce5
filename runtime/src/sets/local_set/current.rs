//! The thread-local: the [`LocalSet`](super::LocalSet) in which `spawn_local` spawns.
//!
//! The sets that were entered form a chain, newest first, as runtimes do in `scheduler/context.rs`. Each
//! entry lives in the guard or the stack frame that made it, and unlinks itself from any place in the chain.
//! So guards may be dropped in any order.
//!
//! A second chain has a set for each [`LocalRuntime`](crate::runtime::LocalRuntime) of the thread.
//! `spawn_local` spawns there while that runtime is the current one.

use std::cell::Cell;
use std::ptr::{NonNull, null};

use super::scheduler::LocalScheduler;
use crate::loom::thread_cell;
use crate::scheduler;
use crate::scheduler::context;

thread_cell! {
    /// The sets that were entered.
    static ENTERED: Cell<*const EnteredSet> = Cell::new(null());
}

thread_cell! {
    /// The sets of local runtimes.
    static OF_RUNTIMES: Cell<*const EnteredSet> = Cell::new(null());
}

/// One of the chains.
#[derive(Clone, Copy)]
enum Chain {
    Entered,
    OfRuntimes,
}

impl Chain {
    fn with<R>(self, f: impl FnOnce(&Cell<*const EnteredSet>) -> R) -> R {
        match self {
            Self::Entered => ENTERED.with(f),
            Self::OfRuntimes => OF_RUNTIMES.with(f),
        }
    }
}

/// A set in a chain.
pub struct EnteredSet {
    /// Kept valid by the owner of the entry.
    set: NonNull<LocalScheduler>,
    /// The local runtime to which the set belongs, if there is one.
    runtime: Option<NonNull<scheduler::Shared>>,
    older: Cell<*const EnteredSet>,
}

impl EnteredSet {
    /// Makes an entry of a set. With a `runtime`, it is for futures that are spawned in that runtime; the
    /// entry's owner keeps the runtime valid.
    pub fn new(set: NonNull<LocalScheduler>, runtime: Option<NonNull<scheduler::Shared>>) -> Self {
        Self { set, runtime, older: Cell::new(null()) }
    }

    pub fn set(&self) -> NonNull<LocalScheduler> {
        self.set
    }

    fn chain(&self) -> Chain {
        if self.runtime.is_some() { Chain::OfRuntimes } else { Chain::Entered }
    }

    /// Puts the entry into its chain.
    ///
    /// # Safety
    /// 1. The entry stays at its place, and its set valid, until [`leave`](Self::leave), on the same thread.
    ///    2. It is not linked. 3. The thread is the set's owner.
    pub unsafe fn enter(&self) {
        self.chain().with(|newest| self.older.set(newest.replace(self)));
    }

    /// Takes the entry out of the chain.
    pub fn leave(&self) {
        self.chain().with(|newest| {
            let mut link = newest;
            while !link.get().is_null() {
                if std::ptr::eq(link.get(), self) {
                    return link.set(self.older.get());
                }
                // SAFETY: linked entries are live (duty 1 of `enter`).
                link = unsafe { &(*link.get()).older };
            }
        });
    }
}

/// The set of the current runtime if that is a local one, otherwise the set that was entered last and not
/// left. The calling thread is its owner.
pub fn current() -> Option<NonNull<LocalScheduler>> {
    // SAFETY: linked entries are live (duty 1 of `EnteredSet::enter`).
    let entered = || ENTERED.with(|newest| unsafe { newest.get().as_ref() }.map(|entry| entry.set));
    of_current_runtime().or_else(entered)
}

fn of_current_runtime() -> Option<NonNull<LocalScheduler>> {
    let mut entry = OF_RUNTIMES.with(Cell::get);
    if entry.is_null() {
        return None;
    }
    let runtime = context::current()?;
    // SAFETY: as in `current`.
    while let Some(this) = unsafe { entry.as_ref() } {
        if this.runtime == Some(runtime) {
            return Some(this.set);
        }
        entry = this.older.get();
    }
    None
}
