//! Fork-join beside Rayon and chili: one process, one allocator, one number of workers, turn by turn.
//!
//! - [`peer`]: what a load needs from a pool, so that each load is written once;
//! - [`ours`]: what this project brings;
//! - [`loads`], [`quicksort`], [`list`]: the loads, and all of them by name;
//! - [`contest`]: runs a load on all of them in turns, and prints a line of the table.

pub mod contest;
pub mod list;
pub mod loads;
pub mod ours;
pub mod peer;
pub mod quicksort;
