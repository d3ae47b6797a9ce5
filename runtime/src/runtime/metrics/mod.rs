//! The numbers that a runtime keeps of itself: `totals.rs` has those of the whole, `workers.rs` those of each
//! worker.

mod totals;
mod workers;

pub use self::totals::{BlockingSite, RuntimeMetrics};
