//! Speed hints: guesses about what is worth a wake, a wait, or a move to another CPU.
//!
//! Nothing here is needed for correctness, and no argument elsewhere mentions it. Each hint may be wrong at
//! any time. `docs/performance/tried.md` has what was measured.

pub mod linger;
pub mod reinforcement;
pub mod samplers;
pub mod sampling;
pub mod slices;
pub mod spread;
