//! Jobs: fork-join closures, from push to latch.
//!
//! A job runs exactly once, on the thread that claims it. Its owner waits for a [`latch`], or for several
//! jobs by a [`count`]. A job lies in its caller's frame ([`stack`]), or on the heap for scopes and detached
//! spawns ([`heap`]). A job that is made in a [`region`] belongs to that region wherever it runs. A region
//! can be cancelled, or is isolated.
//!
//! [`JobRef`] is the word by which queues carry a job ([`job_ref`]).

pub mod count;
pub mod heap;
pub mod heap_region;
pub mod job_ref;
pub mod latch;
pub mod region;
pub mod stack;

pub use count::CountLatch;
pub use heap::{HeapJob, JobFifo, Memory, Spot};
pub use heap_region::HeapRegion;
pub use job_ref::{JobHeader, JobRef};
pub use latch::{CoreLatch, CrossLatch, Latch, Owner, SpinLatch, ThreadLatch};
pub use region::{Question, Region, Tag};
pub use stack::StackJob;
