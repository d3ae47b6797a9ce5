//! PostgreSQL: a pool, and connections that the server ends. What is printed is the same each time.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use deadpool_postgres::{
    Config, ManagerConfig, Pool, PoolConfig, PoolError, RecyclingMethod, Runtime, Timeouts,
};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_postgres::{Client, NoTls};

use crate::Failure;

const TASKS: i32 = 64;
const POOL: usize = 16;
const WRITES: i32 = 50;
const KILLS: u64 = 10;
const PATIENCE: Duration = Duration::from_secs(60);

pub async fn run(address: &str) -> Result<(), Failure> {
    timeout(PATIENCE, writes(address)).await??;
    timeout(PATIENCE, errors(address)).await??;
    Ok(())
}

/// A pool of connections to the server `HOST:PORT`.
pub fn pool(address: &str, size: usize) -> Result<Pool, Failure> {
    let (host, port) = address.split_once(':').ok_or("an address is HOST:PORT")?;
    let config = Config {
        host: Some(host.into()),
        port: Some(port.parse()?),
        user: Some("postgres".into()),
        dbname: Some("postgres".into()),
        manager: Some(ManagerConfig { recycling_method: RecyclingMethod::Fast }),
        pool: Some(PoolConfig {
            max_size: size,
            timeouts: Timeouts { wait: Some(PATIENCE), ..Timeouts::default() },
            ..PoolConfig::default()
        }),
        ..Config::default()
    };
    Ok(config.create_pool(Some(Runtime::Tokio1), NoTls)?)
}

async fn connect(address: &str) -> Result<Client, Failure> {
    let (host, port) = address.split_once(':').ok_or("an address is HOST:PORT")?;
    let config = format!("host={host} port={port} user=postgres");
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// 64 tasks insert rows through a pool of 16 connections, which the server ends again and again. Each row
/// whose insertion was acknowledged is there.
async fn writes(address: &str) -> Result<(), Failure> {
    let own = connect(address).await?;
    own.batch_execute("DROP TABLE IF EXISTS rows; CREATE TABLE rows (task int, number int, attempt int)")
        .await?;
    let pool = pool(address, POOL)?;
    let acknowledged = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (pool, acknowledged) = (pool.clone(), acknowledged.clone());
        tasks.spawn(async move {
            let (mut rows, mut errors) = (Vec::new(), BTreeSet::new());
            for number in 0..WRITES {
                for attempt in 0.. {
                    match insert(&pool, [task, number, attempt]).await {
                        Ok(()) => {
                            acknowledged.fetch_add(1, Relaxed);
                            rows.push((task, number, attempt));
                            break;
                        }
                        Err(error) => _ = errors.insert(error),
                    }
                }
            }
            (rows, errors)
        });
    }

    let mut ended = 0;
    for kill in 1..=KILLS {
        while acknowledged.load(Relaxed) < kill * (TASKS * WRITES) as u64 / (KILLS + 1) {
            sleep(Duration::from_millis(1)).await;
        }
        let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                      WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
        ended += own.query(others, &[]).await?.len();
    }
    let (mut rows, mut errors) = (BTreeSet::new(), BTreeSet::new());
    while let Some(result) = tasks.join_next().await {
        let (of_task, errors_of_task) = result?;
        rows.extend(of_task);
        errors.extend(errors_of_task);
    }
    assert!(ended >= KILLS as usize, "only {ended} connections were ended");
    let found = own.query("SELECT task, number, attempt FROM rows", &[]).await?;
    let found: BTreeSet<(i32, i32, i32)> =
        found.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    let lost = rows.difference(&found).count();
    println!(
        "postgres: {TASKS} tasks inserted {WRITES} rows each through a pool of {POOL}, the server ended all"
    );
    println!("    connections {KILLS} times, {lost} rows are lost; errors: {errors:?}");
    if lost == 0 { Ok(()) } else { Err("acknowledged rows are lost".into()) }
}

/// Inserts one row, in a transaction. An error is told by what it is.
async fn insert(pool: &Pool, [task, number, attempt]: [i32; 3]) -> Result<(), String> {
    let mut client = match pool.get().await {
        Ok(client) => client,
        Err(PoolError::Backend(error)) => return Err(kind(&error)),
        Err(error) => panic!("the pool fails: {error}"),
    };
    let insert = async {
        let transaction = client.transaction().await?;
        let statement = transaction.prepare_cached("INSERT INTO rows VALUES ($1, $2, $3)").await?;
        transaction.execute(&statement, &[&task, &number, &attempt]).await?;
        transaction.commit().await
    };
    insert.await.map_err(|error| kind(&error))
}

/// What an error is. Whether the server's last word is read before the connection ends is chance, so these
/// are one kind.
fn kind(error: &tokio_postgres::Error) -> String {
    let is_ended = error.code().is_some_and(|code| code.code() == "57P01")
        || error.is_closed()
        || error.source().is_some_and(|source| source.is::<std::io::Error>());
    if is_ended { "connection ended".into() } else { error.to_string() }
}

/// The texts of errors.
async fn errors(address: &str) -> Result<(), Failure> {
    let own = connect(address).await?;
    told("a mistake", own.query("SELEKT", &[]).await);
    told("a table that is not there", own.query("SELECT * FROM missing", &[]).await);
    let wrong = own.query("SELECT $1::int", &[&"text"]).await;
    told("a value of another type", wrong);

    // Queries that are sent at once are answered in order, also behind one that fails.
    let (first, wrong, last) =
        tokio::join!(own.query("SELECT 1", &[]), own.query("SELECT 1/0", &[]), own.query("SELECT 3", &[]));
    told("the first of three", first);
    told("the second", wrong);
    told("the third", last);

    // Ended while it waits in a transaction.
    let mut waiting = connect(address).await?;
    let pid: i32 = waiting.query_one("SELECT pg_backend_pid()", &[]).await?.get(0);
    let wait = tokio::spawn(async move {
        let transaction = waiting.transaction().await?;
        transaction.query("SELECT pg_sleep(3600)", &[]).await
    });
    let is_there =
        "SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND query LIKE '%pg_sleep%' AND state = 'active'";
    while own.query(is_there, &[&pid]).await?.is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    own.query("SELECT pg_terminate_backend($1)", &[&pid]).await?;
    told("a connection that is ended while a query waits", wait.await?);

    // Cancelled by its own side.
    let waiting = connect(address).await?;
    let token = waiting.cancel_token();
    let pid: i32 = waiting.query_one("SELECT pg_backend_pid()", &[]).await?.get(0);
    let wait = tokio::spawn(async move {
        let result = waiting.query("SELECT pg_sleep(3600)", &[]).await;
        (result, waiting.query("SELECT 1", &[]).await)
    });
    while own.query(is_there, &[&pid]).await?.is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    token.cancel_query(NoTls).await?;
    let (cancelled, next) = wait.await?;
    told("a query that is cancelled", cancelled);
    told("the next query of its connection", next);

    let refused = tokio_postgres::connect("host=127.0.0.1 port=1 user=postgres", NoTls).await;
    told("a port that nothing listens on", refused.map(|_| Vec::new()));
    Ok(())
}

fn told(what: &str, result: Result<Vec<tokio_postgres::Row>, tokio_postgres::Error>) {
    match result {
        Ok(rows) => println!("postgres: {what}: {} row", rows.len()),
        Err(error) => {
            let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
            println!("postgres: {what}: {error}{source}");
        }
    }
}
