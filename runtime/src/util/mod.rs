//! Small parts without a protocol of their own.

pub mod affinity;
pub mod as_tokio;
pub mod block_on;
pub mod crowd;
pub mod either_thread;
pub mod erased_future;
#[cfg(all(test, not(loom)))]
pub mod joined;
pub mod list;
pub mod named_error;
pub mod numbers;
pub mod pad;
pub mod patience;
pub mod prefetch;
pub mod rand;
pub mod slots;
pub mod surroundings;
pub mod thread_probe;
pub mod time_slice;
pub mod unwind;
pub mod wake_list;
