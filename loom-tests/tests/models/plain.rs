//! Plain memory with a name.
//!
//! Loom reports each data race in the same words. A twin that expected these words would pass for a race on
//! any cell. A `Plain` reports the race under its own name, so a twin can expect that name.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use loom::cell::UnsafeCell;

/// What loom says when two threads access a cell, and nothing orders the two accesses.
const RACES: [&str; 3] = ["Causality violation", "currently reading from cell", "currently writing to cell"];

/// Memory that one thread at a time writes. A race on it fails the model with "data race on NAME".
pub struct Plain<T> {
    name: &'static str,
    cell: UnsafeCell<T>,
}

impl<T> Plain<T> {
    pub fn new(name: &'static str, value: T) -> Self {
        Self { name, cell: UnsafeCell::new(value) }
    }

    /// Calls `f` with the memory, for reading. Loom checks that no thread writes.
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        name_races(self.name, || self.cell.with(f))
    }

    /// Calls `f` with the memory, for writing. Loom checks that no other thread accesses it.
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        name_races(self.name, || self.cell.with_mut(f))
    }
}

/// Calls `f`, which accesses `what`. A race there fails with "data race on WHAT".
pub fn name_races<R>(what: &str, f: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        if RACES.iter().any(|race| text_of(&*panic).contains(race)) {
            panic!("data race on {what}");
        }
        resume_unwind(panic)
    })
}

/// The text of a panic, or nothing.
pub fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default()
}
