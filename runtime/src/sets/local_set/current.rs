//! The thread-local: the [`LocalSet`](super::LocalSet) in which `spawn_local` spawns.
//!
//! The sets that were entered form a chain, newest first, as runtimes do in `scheduler/context.rs`. Each
//! entry lives in the guard or the stack frame that made it, and unlinks itself from any place in the chain.
//! So guards may be dropped in any order. A job of another computation, or a task of a runtime that is driven
//! further in, does not see the set that is being polled below, which could not go on before it ends. It does
//! see the set of a guard.
//!
//! A second chain has a set for each [`LocalRuntime`](crate::runtime::LocalRuntime) of the thread.
//! `spawn_local` spawns there while that runtime is the current one.

use std::cell::Cell;
use std::iter;
use std::ptr::{NonNull, null};

use super::scheduler::LocalScheduler;
use crate::loom::thread_cell;
use crate::scheduler;
use crate::scheduler::context;
use crate::util::surroundings::surroundings;

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
    /// The number of the only surroundings in which it counts.
    only_in: Option<u64>,
    older: Cell<*const EnteredSet>,
}

impl EnteredSet {
    /// Makes an entry of a set. With a `runtime`, it is for futures that are spawned in that runtime; the
    /// entry's owner keeps the runtime valid.
    pub fn new(set: NonNull<LocalScheduler>, runtime: Option<NonNull<scheduler::Shared>>) -> Self {
        Self { set, runtime, only_in: None, older: Cell::new(null()) }
    }

    /// Makes an entry of a set that is about to be polled, which counts in the present surroundings.
    pub fn of_poll(set: NonNull<LocalScheduler>) -> Self {
        Self { only_in: Some(surroundings()), ..Self::new(set, None) }
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

    /// The entries from `newest` on.
    ///
    /// # Safety
    /// 1. `newest` is linked or null, and no entry leaves while the result is used.
    unsafe fn chain_from<'a>(newest: *const Self) -> impl Iterator<Item = &'a Self> {
        let mut next = newest;
        iter::from_fn(move || {
            // SAFETY: (1), because linked entries are live (duty 1 of `enter`).
            let entry = unsafe { next.as_ref() }?;
            next = entry.older.get();
            Some(entry)
        })
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

/// The set of the current runtime if that is a local one, otherwise the set that was entered last, not left,
/// and counts in these surroundings. The calling thread is its owner.
pub fn current() -> Option<NonNull<LocalScheduler>> {
    let entered = || {
        // SAFETY: (1) nothing but numbers is compared here.
        let mut entries = unsafe { EnteredSet::chain_from(ENTERED.with(Cell::get)) };
        entries.find(|entry| entry.only_in.is_none_or(|only| only == surroundings()))
    };
    of_current_runtime().or_else(|| entered().map(|entry| entry.set))
}

fn of_current_runtime() -> Option<NonNull<LocalScheduler>> {
    let newest = OF_RUNTIMES.with(Cell::get);
    if newest.is_null() {
        return None;
    }
    let runtime = context::current()?;
    // SAFETY: (1) as in `current`.
    let mut entries = unsafe { EnteredSet::chain_from(newest) };
    entries.find(|entry| entry.runtime == Some(runtime)).map(|entry| entry.set)
}
