//! What a runtime holds of its blocking pool.

use super::queue::PoolQueue;
use crate::scheduler::polling::Records;
use crate::task::Header;

/// The blocking pool of one runtime.
#[derive(Debug)]
pub struct Pool {
    /// Each item came out of a [`Runnable`]. The thread that takes it makes it a `Runnable` again.
    pub queue: PoolQueue<Header>,
    /// The closure that each thread runs.
    pub records: Records,
}

impl Pool {
    /// Makes a pool of at most `most` threads. It begins with none.
    pub fn new(most: usize) -> Self {
        Self { queue: PoolQueue::new(most), records: Records::default() }
    }
}
