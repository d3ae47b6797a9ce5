//! The number of the surroundings in which a thread runs; `scheduler/context.rs` says what they are.

use std::cell::Cell;

use crate::loom::thread_cell;

thread_cell! {
    /// The number of the present surroundings, and the last number that was given out.
    static NUMBERS: (Cell<u64>, Cell<u64>) = (Cell::new(0), Cell::new(0));
}

/// The number of the surroundings in which the calling thread runs. One thread gives out each number once.
#[inline]
pub fn surroundings() -> u64 {
    NUMBERS.with(|(present, _)| present.get())
}

/// Begins surroundings with a number of their own. Returns the number of those around.
pub fn begin() -> u64 {
    NUMBERS.with(|(present, last)| {
        let number = last.get() + 1;
        last.set(number);
        present.replace(number)
    })
}

/// Ends surroundings: those with the number `outer` are present again.
pub fn end(outer: u64) {
    NUMBERS.with(|(present, _)| present.set(outer));
}
