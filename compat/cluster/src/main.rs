//! A replicated key-value store of three processes: openraft and tonic as published, on the workers of
//! `runtime`.
//!
//! ```sh
//! bash compat/cluster/run              # on ours
//! bash compat/cluster/run published    # the same on the published Tokio
//! ```
//!
//! `trial` starts three nodes, writes from 16 clients at once, and kills the leader with SIGKILL again and
//! again, at the end all three. It fails if a write that was acknowledged is lost, if a read misses a write
//! that was acknowledged before it, if the nodes end with different contents, or if a new leader takes too
//! long.
//!
//! | command | what it does |
//! |---|---|
//! | `trial FOLDER KILLS` | all of it; the nodes keep their files in the folder |
//! | `node ID FOLDER ADDRESS ADDRESS ADDRESS` | one node, until its standard input ends |
//!
//! | file | what is in it |
//! |---|---|
//! | `node.rs` | one node: its settings, and the service that it offers to peers and clients |
//! | `log.rs` | the log of Raft, in a file |
//! | `machine.rs` | the contents that the log makes, and snapshots of them |
//! | `wire.rs` | what nodes and clients send each other |
//! | `trial.rs` | clients, kills and checks |

mod log;
mod machine;
mod node;
mod trial;
mod wire;

use std::env;
use std::error::Error;
use std::path::Path;

type Failure = Box<dyn Error + Send + Sync>;

const USAGE: &str = "usage: cluster trial FOLDER KILLS | node ID FOLDER ADDRESS ADDRESS ADDRESS";

openraft::declare_raft_types!(
    /// What this store replicates. A node is named by its place in the list of addresses.
    pub Types:
        D = machine::Write,
        R = machine::Written,
);

pub type Raft = openraft::Raft<Types, machine::Machine>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["trial", folder, kills] => trial::run(Path::new(folder), kills.parse()?).await,
        ["node", id, folder, a, b, c] => node::run(id.parse()?, Path::new(folder), [a, b, c]).await,
        _ => Err(USAGE.into()),
    }
}
