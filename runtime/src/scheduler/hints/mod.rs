//! Speed hints: guesses about what is worth a wake, a wait, or a move to another CPU.
//!
//! Nothing here is needed for correctness. Each hint may be wrong at any time. `docs/performance/tried.md` has
//! what was measured.
//!
//! One of them touches an argument elsewhere: a worker that leaves tasks to the one that samples does not look
//! for tasks in SleepLook (`sleep/idle.rs`). The worker that samples looks for it; see *The sampler looks
//! later* in `sampling.rs`, and the model `sampler`.

pub mod linger;
pub mod reinforcement;
pub mod samplers;
pub mod sampling;
pub mod slices;
pub mod spread;
