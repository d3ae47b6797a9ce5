//! Servers and clients as people write them, on `runtime` and on the published Tokio.
//!
//! ```sh
//! bash compat/side-by-side/run check      # Redis and PostgreSQL: is anything lost, and are errors the same?
//! bash compat/side-by-side/run measure    # prints a table of figures
//! ```
//!
//! builds this source twice, with and without the patch, and runs both programs. All they depend on is as
//! published. Each has two workers, and listens on the loopback interface only.
//!
//! | command | what it does |
//! |---|---|
//! | `check redis ADDRESS`, `check postgres ADDRESS` | talks to a server whose connections it kills |
//! | `images` | oxipng on rayon, while tasks wait; prints checksums and the time |
//! | `serve SERVICE` | serves until its standard input ends |
//! | `load LOAD ADDRESS SECONDS` | a client that measures |
//! | `compare OURS PUBLISHED REDIS POSTGRES` | runs the two programs by turns, prints a table |

mod check_postgres;
mod check_redis;
mod compare;
mod figures;
mod images;
mod load;
mod rpc;
mod serve;

use std::env;
use std::error::Error;

type Failure = Box<dyn Error + Send + Sync>;

const USAGE: &str = "usage: side-by-side check redis|postgres ADDRESS | images | serve SERVICE | \
                     load LOAD ADDRESS SECONDS | compare OURS PUBLISHED REDIS POSTGRES";

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["check", "redis", address] => check_redis::run(address).await,
        ["check", "postgres", address] => check_postgres::run(address).await,
        ["images"] => images::run().await,
        ["serve", service] => serve::run(service.parse()?).await,
        ["load", load, address, seconds] => load::run(load, address, seconds.parse()?).await,
        ["compare", ours, published, redis, postgres] => {
            compare::run(compare::Programs { ours, published }, redis, postgres)
        }
        _ => Err(USAGE.into()),
    }
}
