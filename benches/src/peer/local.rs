//! Sets of local tasks of this project and of Tokio, under the same names.

use super::{Ours, Peer, Tokio};

/// A runtime with Tokio's `LocalSet`.
pub trait Local: Peer {
    /// Runs `f` in a local task, on the calling thread, which is no worker.
    fn run_local(&self, f: impl FnOnce() + 'static);
}

macro_rules! local {
    ($peer:ident, $rt:ident) => {
        impl Local for $peer {
            fn run_local(&self, f: impl FnOnce() + 'static) {
                let set = ::$rt::task::LocalSet::new();
                let task = set.spawn_local(async move { f() });
                self.block_on(set.run_until(task)).expect("the closure does not panic");
            }
        }
    };
}

local!(Ours, runtime);
local!(Tokio, tokio);
