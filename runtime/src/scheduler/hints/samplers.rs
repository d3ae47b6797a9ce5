//! Which worker of a runtime samples; see `sampling.rs`.

use crate::loom::sync::atomic::AtomicUsize;
use crate::loom::sync::atomic::Ordering::Relaxed;

/// Which worker of a runtime samples.
#[derive(Debug)]
pub struct Samplers {
    /// The index of the sampler, or [`NO_SAMPLER`].
    sampler: AtomicUsize,
}

const NO_SAMPLER: usize = usize::MAX;

impl Samplers {
    pub fn new() -> Self {
        Self { sampler: AtomicUsize::new(NO_SAMPLER) }
    }

    // All Relaxed. For a worker that is about to sleep, the fences of the sleep protocol order `sampler` and
    // `end`: see *The sampler looks later* in `sampling.rs`. For all others they are hints.
    /// The index of the worker that samples, if one does.
    pub fn sampler(&self) -> Option<usize> {
        Some(self.sampler.load(Relaxed)).filter(|&index| index != NO_SAMPLER)
    }

    /// Worker `index` is about to sample. Returns false if another worker samples already.
    pub fn begin(&self, index: usize) -> bool {
        self.sampler.compare_exchange(NO_SAMPLER, index, Relaxed, Relaxed).is_ok()
    }

    /// The worker that samples has ended its pause.
    pub fn end(&self) {
        self.sampler.store(NO_SAMPLER, Relaxed);
    }
}
