//! Workers that are blocked, stuck or away, and what others do then: `away.rs` (which workers are away, and
//! the spare workers that stand in), `in_place.rs` (calls that announce that they block), `monitor.rs` (finds
//! the others), `deadlock.rs` (nothing is left that could unblock the blocked).

pub mod away;
pub mod deadlock;
pub mod in_place;
pub mod monitor;
