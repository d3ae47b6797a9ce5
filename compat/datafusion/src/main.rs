//! Queries of DataFusion beside a service, on the workers of one runtime.
//!
//! Two tasks run queries of TPC-H without a pause, each split over both workers. A service with open
//! connections shares the process: an echo over TCP, or axum. A client in a process of its own sends requests
//! at fixed times and measures how late the answers are. DataFusion, axum and all that they depend on are as
//! published.
//!
//! ```sh
//! bash compat/datafusion/run
//! ```
//!
//! builds this source twice, on `runtime` and on the published Tokio, and compares the two.
//!
//! | command | what it does |
//! |---|---|
//! | `data FOLDER` | writes the tables as Parquet files, unless they are there |
//! | `serve FOLDER SERVICE LAYOUT` | the process that is measured: see `server.rs` |
//! | `compare FOLDER SERVICE OURS PUBLISHED` | runs rounds of the two programs by turns, prints a table |
//!
//! `SERVICE` is `echo` or `axum`. `LAYOUT` is `one` (the queries and the service are on one runtime), `two`
//! (each has its own) or `idle` (no queries). `compare` reads `SECONDS_PER_ROUND` (10) and `ROUNDS` (5) from
//! the environment.

mod client;
mod compare;
mod data;
mod queries;
mod server;
mod setup;

use std::env;
use std::error::Error;
use std::path::Path;

type Failure = Box<dyn Error + Send + Sync>;

const USAGE: &str =
    "usage: datafusion-app data FOLDER | serve FOLDER SERVICE LAYOUT | compare FOLDER SERVICE OURS PUBLISHED";

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["data", folder] => data::write(Path::new(folder)),
        ["serve", folder, service, layout] => {
            server::run(Path::new(folder), service.parse()?, layout.parse()?)
        }
        ["compare", folder, service, ours, published] => {
            compare::run(folder, service.parse()?, ours, published)
        }
        _ => Err(USAGE.into()),
    }
}
