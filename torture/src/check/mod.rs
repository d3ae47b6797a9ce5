//! What is counted: memory, threads, descriptors, and that everything is dropped once.

pub mod allocator;
pub mod process;
pub mod token;
