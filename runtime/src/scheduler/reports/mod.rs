//! What the scheduler tells of itself: `metrics.rs` (counters of a worker), `polling.rs` (which task each
//! worker polls), `call_sites.rs` (counters for each place of a call), `unfinished.rs` (what had not ended
//! when a shutdown had waited long enough). Nothing in here decides anything. The monitor and the hints read
//! some of the counters and the records.

pub mod call_sites;
pub mod metrics;
pub mod polling;
pub mod unfinished;
