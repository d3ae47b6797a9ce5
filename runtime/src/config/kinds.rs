//! Settings that have a type of their own.

#[cfg(doc)]
use crate::Builder;

/// The kind of scheduler that a runtime has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flavor {
    /// Tasks run on the thread that is in `block_on`.
    CurrentThread,
    /// Tasks run on worker threads that steal from each other.
    MultiThread,
}

/// What a panic in a task does to its runtime; see [`Builder::unhandled_panic`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnhandledPanic {
    /// The runtime goes on. The task's [`JoinHandle`](crate::task::JoinHandle) returns the panic. This is the
    /// default.
    Ignore,
    /// The runtime shuts down, and `block_on` panics. A panic in the destructor of a task that was cancelled
    /// is the task's alone.
    ShutdownRuntime,
}

/// A seed for [`Builder::rng_seed`].
///
/// # Examples
/// ```
/// use runtime::runtime::RngSeed;
///
/// assert_eq!(RngSeed::from_bytes(b"one"), RngSeed::from_bytes(b"one"));
/// assert_ne!(RngSeed::from_bytes(b"one"), RngSeed::from_bytes(b"two"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RngSeed(u64);

impl RngSeed {
    /// Makes a seed from `bytes`. The same bytes give the same seed on all machines, and in all releases.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        // FNV-1a.
        Self(bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        }))
    }

    /// Returns seed `index` of the series that begins with this seed.
    pub(crate) fn of(&self, index: u64) -> u64 {
        // The mixing function of splitmix64. It makes the seeds of neighbouring indices unlike each other.
        let mixed = self.0.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
