//! The queries, and the check that each answer is the same as before.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};

use crate::{Failure, data};

pub const COUNT: usize = 6;
/// By their numbers in TPC-H.
const QUERIES: [(u32, &str); COUNT] = [
    (1, include_str!("../queries/1.sql")),
    (3, include_str!("../queries/3.sql")),
    (6, include_str!("../queries/6.sql")),
    (12, include_str!("../queries/12.sql")),
    (14, include_str!("../queries/14.sql")),
    (18, include_str!("../queries/18.sql")),
];

/// What is left of an answer to compare it with others.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Digest {
    rows: usize,
    checksum: u64,
}

/// The open tables, and the answer that each query must have.
#[derive(Clone)]
pub struct Database {
    context: SessionContext,
    expected: [Digest; COUNT],
}

impl Database {
    /// Opens the tables in `folder` and runs each query once, split in `partitions`.
    pub async fn open(folder: &Path, partitions: usize) -> Result<Self, Failure> {
        let config = SessionConfig::new().with_target_partitions(partitions);
        let context = SessionContext::new_with_config(config);
        for table in data::TABLES {
            let path = data::path(folder, table);
            let path = path.to_str().ok_or("the path of the tables is not UTF-8")?;
            context.register_parquet(table, path, ParquetReadOptions::default()).await?;
        }
        let mut expected = [Digest { rows: 0, checksum: 0 }; COUNT];
        for ((_, query), digest) in QUERIES.iter().zip(&mut expected) {
            *digest = run(&context, query).await?;
        }
        Ok(Self { context, expected })
    }

    /// A line for each query. Equal answers have equal lines.
    pub fn answers(&self) -> Vec<String> {
        let answers = QUERIES.iter().zip(&self.expected);
        answers
            .map(|((number, _), digest)| {
                format!("query {number}: {} rows, checksum {:016x}", digest.rows, digest.checksum)
            })
            .collect()
    }

    /// Runs the queries in turns for ever, from the one at `start` on, and counts them.
    pub async fn repeat(self, start: usize, done: Arc<AtomicU64>) -> Result<(), Failure> {
        for index in (0..COUNT).cycle().skip(start % COUNT) {
            let (number, query) = QUERIES[index];
            let (digest, expected) = (run(&self.context, query).await?, self.expected[index]);
            if digest != expected {
                return Err(format!("query {number} answered {digest:?} after {expected:?}").into());
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
        unreachable!("the cycle has no end")
    }
}

async fn run(context: &SessionContext, query: &str) -> Result<Digest, Failure> {
    let batches = context.sql(query).await?.collect().await?;
    let text = pretty_format_batches(&batches)?.to_string();
    // Rows that the query's order leaves equal may come in any order.
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    let mut hasher = DefaultHasher::new();
    lines.hash(&mut hasher);
    Ok(Digest { rows: batches.iter().map(|batch| batch.num_rows()).sum(), checksum: hasher.finish() })
}
