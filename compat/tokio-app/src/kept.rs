//! The answers that the server keeps, in SQLite. The compiler has checked each query against `schema.sql`.

use std::path::Path;

use serde::{Deserialize, Serialize};
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

/// SQLite has no asynchronous calls, so sqlx gives each connection a thread.
pub const MAX_CONNECTIONS: u32 = 2;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub below: i64,
    pub primes: i64,
}

pub async fn open(file: &Path) -> sqlx::Result<SqlitePool> {
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let pool = SqlitePoolOptions::new().max_connections(MAX_CONNECTIONS).connect_with(options).await?;
    sqlx::raw_sql(include_str!("../schema.sql")).execute(&pool).await?;
    Ok(pool)
}

pub async fn find(pool: &SqlitePool, below: i64) -> sqlx::Result<Option<Answer>> {
    sqlx::query_as!(Answer, "SELECT below, primes FROM counts WHERE below = ?", below)
        .fetch_optional(pool)
        .await
}

pub async fn keep(pool: &SqlitePool, answer: &Answer) -> sqlx::Result<()> {
    sqlx::query!(
        "INSERT INTO counts (below, primes) VALUES (?, ?) ON CONFLICT DO NOTHING",
        answer.below,
        answer.primes
    )
    .execute(pool)
    .await?;
    Ok(())
}

pub async fn all(pool: &SqlitePool) -> sqlx::Result<Vec<Answer>> {
    let rows = sqlx::query!("SELECT below, primes FROM counts ORDER BY below").fetch_all(pool).await?;
    Ok(rows.into_iter().map(|row| Answer { below: row.below, primes: row.primes }).collect())
}
