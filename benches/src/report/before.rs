//! This program as another commit built it, beside ours: what a change cost or gained, load by load.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::peer::{Ours, Peer};

/// The peer's name.
pub const NAME: &str = "before";

/// The contestants, if there is such a program: both builds, and no other peer.
pub const PAIR: [&str; 2] = [Ours::NAME, NAME];

/// The other program, if the command line names one.
pub static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Whether the page is about the two builds.
pub fn takes_part() -> bool {
    PROGRAM.get().is_some()
}
