//! How workers sleep, and which of them is woken: `idle.rs` has the protocol with its proof, and `park.rs`
//! the sleep of one thread.

pub mod idle;
pub mod park;
