//! Speed hints: guesses about what is worth a wake, a wait, or a move to another CPU.
//!
//! Nothing here is needed for correctness, and no argument elsewhere mentions it. Each hint may be wrong at
//! any time. What each brings was measured with and without it (`docs/performance/tried.md`); `SWITCHES`
//! turns them off one by one for that.

pub mod linger;
pub mod reinforcement;
pub mod sampling;
pub mod slices;
pub mod spread;
