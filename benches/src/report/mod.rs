//! Everything beside its peers, on one page: `cargo run --release -p benches --bin report`.
//!
//! - [`catalog`]: what is measured, of which contestants, how long;
//! - [`order`], [`child`]: one peer with one load is a process of its own, which takes its turns when it is
//!   told to;
//! - [`contestant`]: such a process, seen from outside;
//! - [`go`], [`before`]: the peers that are other programs;
//! - [`run`]: the rounds, in which every peer gets its turn, so that a machine that slows down slows down
//!   all;
//! - [`count`]: instructions, system calls and wakes, which other tools count;
//! - [`building`]: how long the compilers work for a program that says hello;
//! - [`results`]: what came out;
//! - [`machine`], [`render`], [`plot`]: the page and its pictures.
//!
//! A process between its turns is stopped, not only idle: a peer that spends CPU time while it has nothing to
//! do spends none of another's.

pub mod before;
pub mod building;
pub mod catalog;
pub mod child;
pub mod contestant;
pub mod count;
pub mod go;
pub mod machine;
pub mod order;
pub mod plot;
pub mod render;
pub mod results;
pub mod run;
