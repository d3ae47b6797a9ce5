//! Small parts without a protocol of their own.

pub mod block_on;
pub mod list;
pub mod pad;
pub mod rand;
pub mod slots;
pub mod unwind;
pub mod wake_list;
