//! Redis: pipelines, a pool, and connections that are killed. What is printed is the same each time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use deadpool_redis::redis::aio::MultiplexedConnection;
use deadpool_redis::redis::{self, AsyncCommands, Client, RedisError, RedisResult};
use deadpool_redis::{Config, Pool, PoolConfig, PoolError, Runtime, Timeouts};
use tokio::net::TcpListener;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::Failure;

const CONNECTIONS: usize = 64;
const PIPELINES: usize = 50;
const PER_PIPELINE: usize = 16;
const TASKS: usize = 64;
const POOL: usize = 16;
const WRITES: u64 = 200;
const KILLS: usize = 10;
const PATIENCE: Duration = Duration::from_secs(60);

pub async fn run(address: &str) -> Result<(), Failure> {
    let client = Client::open(format!("redis://{address}"))?;
    timeout(PATIENCE, pipelines(&client)).await??;
    timeout(PATIENCE, pool(address, &client)).await??;
    timeout(PATIENCE, errors(&client)).await??;
    Ok(())
}

/// On 64 connections at once, pipelines that count, each with answers in order.
async fn pipelines(client: &Client) -> Result<(), Failure> {
    let mut own: MultiplexedConnection = client.get_multiplexed_async_connection().await?;
    () = redis::cmd("FLUSHALL").query_async(&mut own).await?;
    let mut tasks = JoinSet::new();
    for task in 0..CONNECTIONS {
        let client = client.clone();
        tasks.spawn(async move {
            let mut connection = client.get_multiplexed_async_connection().await?;
            for pipeline in 0..PIPELINES {
                let mut commands = redis::pipe();
                for _ in 0..PER_PIPELINE {
                    commands.incr(format!("own/{task}"), 1).incr("all", 1).ignore();
                }
                let counts: Vec<usize> = commands.query_async(&mut connection).await?;
                let first = pipeline * PER_PIPELINE + 1;
                if !counts.iter().copied().eq(first..first + PER_PIPELINE) {
                    return Err(Failure::from(format!("a pipeline that began at {first} gave {counts:?}")));
                }
            }
            Ok(())
        });
    }
    while let Some(result) = tasks.join_next().await {
        result??;
    }
    let all: usize = own.get("all").await?;
    println!("redis: {CONNECTIONS} connections counted to {all} in pipelines of {PER_PIPELINE}");
    assert_eq!(all, CONNECTIONS * PIPELINES * PER_PIPELINE);
    Ok(())
}

fn new_pool(address: &str) -> Result<Pool, Failure> {
    let mut config = Config::from_url(format!("redis://{address}"));
    config.pool = Some(PoolConfig {
        max_size: POOL,
        timeouts: Timeouts { wait: Some(PATIENCE), ..Timeouts::default() },
        ..PoolConfig::default()
    });
    Ok(config.create_pool(Some(Runtime::Tokio1))?)
}

/// 64 tasks count through a pool of 16 connections, while all connections are killed again and again. Each
/// number that was acknowledged is there.
async fn pool(address: &str, client: &Client) -> Result<(), Failure> {
    let pool = new_pool(address)?;
    let acknowledged = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (pool, acknowledged) = (pool.clone(), acknowledged.clone());
        tasks.spawn(async move {
            let mut kinds = BTreeSet::new();
            let key = format!("pool/{task}");
            let (mut count, mut unknown) = (0, 0);
            while count < WRITES {
                match write(&pool, &key).await {
                    Ok(now) => {
                        count += 1;
                        acknowledged.fetch_add(1, Relaxed);
                        // A write whose connection was killed may have been made all the same.
                        if !(count..=count + unknown).contains(&now) {
                            return Err(Failure::from(format!(
                                "{key} is {now} after {count} writes and {unknown} that are unknown"
                            )));
                        }
                    }
                    Err(error) => {
                        kinds.insert(kind(&error));
                        unknown += 1;
                    }
                }
            }
            Ok(kinds)
        });
    }

    let mut own = client.get_multiplexed_async_connection().await?;
    let mut killed = 0;
    for kill in 1..=KILLS {
        let target = kill as u64 * TASKS as u64 * WRITES / (KILLS as u64 + 1);
        while acknowledged.load(Relaxed) < target {
            sleep(Duration::from_millis(1)).await;
        }
        let kill = ["KILL", "TYPE", "normal", "SKIPME", "yes"];
        killed += redis::cmd("CLIENT").arg(&kill).query_async::<usize>(&mut own).await?;
    }
    let mut kinds = BTreeSet::new();
    while let Some(result) = tasks.join_next().await {
        kinds.append(&mut result??);
    }
    assert!(killed >= KILLS, "only {killed} connections were killed");
    println!(
        "redis: {TASKS} tasks wrote {WRITES} numbers each through a pool of {POOL}, all connections were"
    );
    println!("    killed {KILLS} times, nothing is lost; errors: {kinds:?}");
    Ok(())
}

async fn write(pool: &Pool, key: &str) -> Result<u64, RedisError> {
    let mut connection = match pool.get().await {
        Ok(connection) => connection,
        Err(PoolError::Backend(error)) => return Err(error),
        Err(error) => panic!("the pool fails: {error}"),
    };
    connection.incr(key, 1).await
}

/// What an error is. A connection may be found closed while it is read or while it is written, so these are
/// one kind.
fn kind(error: &RedisError) -> String {
    if error.is_connection_dropped() { "connection dropped".into() } else { format!("{:?}", error.kind()) }
}

/// The texts of errors.
async fn errors(client: &Client) -> Result<(), Failure> {
    let mut own = client.get_multiplexed_async_connection().await?;
    let wrong: RedisResult<u32> = redis::cmd("NOSUCH").query_async(&mut own).await;
    told("an unknown command", wrong);
    () = own.set("text", "a").await?;
    told("a text that is no number", own.incr::<_, _, u32>("text", 1).await);
    told("an answer of another type", own.get::<_, u32>("text").await);
    let still: String = own.get("text").await?;
    println!("redis: and the connection still answers {still:?}");

    // Killed while its only command waits.
    let mut waiting = client.get_multiplexed_async_connection_with_config(&without_timeout()).await?;
    let id: u64 = redis::cmd("CLIENT").arg("ID").query_async(&mut waiting).await?;
    let wait = tokio::spawn(async move {
        let command = redis::cmd("BLPOP").arg("never").arg(0).to_owned();
        command.query_async::<(String, String)>(&mut waiting).await
    });
    loop {
        let list: String = redis::cmd("CLIENT").arg("LIST").arg("ID").arg(id).query_async(&mut own).await?;
        if list.contains("cmd=blpop") {
            break;
        }
        sleep(Duration::from_millis(1)).await;
    }
    () = redis::cmd("CLIENT").arg("KILL").arg("ID").arg(id).query_async(&mut own).await?;
    told("a connection that is killed while a command waits", wait.await?);

    // All clones of a connection learn of its end.
    let shared = client.get_multiplexed_async_connection_with_config(&without_timeout()).await?;
    let id: u64 = redis::cmd("CLIENT").arg("ID").query_async(&mut shared.clone()).await?;
    let mut tasks = JoinSet::new();
    let barrier = Arc::new(Barrier::new(9));
    for _ in 0..8 {
        let (mut shared, barrier) = (shared.clone(), barrier.clone());
        tasks.spawn(async move {
            barrier.wait().await;
            loop {
                if let Err(error) = shared.incr::<_, _, u64>("shared", 1).await {
                    return kind(&error);
                }
            }
        });
    }
    barrier.wait().await;
    () = redis::cmd("CLIENT").arg("KILL").arg("ID").arg(id).query_async(&mut own).await?;
    let kinds: BTreeSet<String> = tasks.join_all().await.into_iter().collect();
    println!("redis: 8 users of a connection that is killed: {kinds:?}");

    // A port that nothing listens on, and a server that never answers.
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let config = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(Duration::from_millis(200)))
        .set_response_timeout(Some(Duration::from_millis(200)));
    let silent = Client::open(format!("redis://{address}"))?;
    let silent = silent.get_multiplexed_async_connection_with_config(&config).await;
    told("a server that never answers", silent.map(|_| "a connection"));
    drop(listener);
    let refused = Client::open(format!("redis://{address}"))?.get_multiplexed_async_connection().await;
    told("a port that nothing listens on", refused.map(|_| "a connection"));
    Ok(())
}

fn without_timeout() -> redis::AsyncConnectionConfig {
    redis::AsyncConnectionConfig::new().set_response_timeout(None)
}

fn told<T: std::fmt::Debug>(what: &str, result: RedisResult<T>) {
    match result {
        Ok(value) => println!("redis: {what}: {value:?}"),
        Err(error) => println!("redis: {what}: {:?}: {error}", error.kind()),
    }
}
