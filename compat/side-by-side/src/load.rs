//! Clients that measure.
//!
//! `rpc`, `redis` and `postgres` ask again when they have their answer. `mixed` sends each request when it is
//! due, and a latency counts from that time. So a late answer makes the next request late, too, and both
//! count.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use deadpool_redis::redis;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tonic::transport::Endpoint;

use crate::Failure;
use crate::figures::{Requests, Usage};
use crate::rpc::{Name, greeter_client::GreeterClient};

const WARM_UP: Duration = Duration::from_secs(1);
/// How long `mixed` waits before its first request, so that all connections are there.
const MIXED_CONNECTS: Duration = Duration::from_millis(200);
/// Connections of `mixed`, each with a thread, and the requests of each one in a second.
const MIXED_CONNECTIONS: u32 = 64;
const MIXED_RATE: u32 = 30;
/// One request in so many computes.
const LIGHT_PER_HEAVY: u32 = 10;

/// Prints the figures of the requests; of `mixed` the light requests, then the heavy ones. Otherwise the last
/// line says what this process has used.
pub async fn run(load: &str, address: &str, seconds: u64) -> Result<(), Failure> {
    let time = Duration::from_secs(seconds);
    let before = match load {
        "rpc" => rpc(address, time).await?,
        "redis" => redis(address, time).await?,
        "postgres" => postgres(address, time).await?,
        "mixed" => {
            for requests in mixed(address.parse()?, time)? {
                println!("{requests}");
            }
            return Ok(());
        }
        _ => return Err(format!("no load is named `{load}`").into()),
    };
    let now = Usage::of("self")?;
    println!("{}", Usage { cpu: now.cpu - before.cpu, ..now });
    Ok(())
}

/// How long the load waits before its first request.
pub fn pause_of(load: &str) -> Duration {
    if load == "mixed" { MIXED_CONNECTS } else { Duration::ZERO }
}

/// How long a task of a closed loop goes on, and what it has measured.
struct Loop {
    state: Arc<State>,
    latencies: Vec<u32>,
    errors: u64,
}

#[derive(Default)]
struct State {
    is_measured: AtomicBool,
    is_over: AtomicBool,
}

impl Loop {
    fn goes_on(&self) -> bool {
        !self.state.is_over.load(Relaxed)
    }

    fn count<T, E>(&mut self, start: Instant, result: Result<T, E>) {
        if self.state.is_measured.load(Relaxed) {
            match result {
                Ok(_) => self.latencies.push(start.elapsed().as_micros() as u32),
                Err(_) => self.errors += 1,
            }
        }
    }
}

/// Runs the tasks that `start` spawns. Prints their figures, and returns what the process had used when they
/// began to count.
async fn closed(
    time: Duration,
    start: impl AsyncFnOnce(&mut dyn FnMut() -> Loop, &mut JoinSet<Loop>) -> Result<(), Failure>,
) -> Result<Usage, Failure> {
    let state = Arc::new(State::default());
    let mut tasks = JoinSet::new();
    let mut new = || Loop { state: state.clone(), latencies: Vec::with_capacity(1 << 16), errors: 0 };
    start(&mut new, &mut tasks).await?;

    sleep(WARM_UP).await;
    let before = Usage::of("self")?;
    state.is_measured.store(true, Relaxed);
    sleep(time).await;
    state.is_measured.store(false, Relaxed);
    state.is_over.store(true, Relaxed);
    let done = tasks.join_all().await;
    let errors = done.iter().map(|task| task.errors).sum();
    let latencies = done.into_iter().flat_map(|task| task.latencies).collect();
    println!("{}", Requests::new(time, latencies, errors));
    Ok(before)
}

async fn rpc(address: &str, time: Duration) -> Result<Usage, Failure> {
    closed(time, async |new, tasks| {
        for _ in 0..8 {
            let channel = Endpoint::from_shared(format!("http://{address}"))?.connect().await?;
            for _ in 0..8 {
                let (mut client, mut work) = (GreeterClient::new(channel.clone()), new());
                tasks.spawn(async move {
                    while work.goes_on() {
                        let start = Instant::now();
                        let answer = client.hello(Name { name: "side by side".into() }).await;
                        work.count(start, answer);
                    }
                    work
                });
            }
        }
        Ok(())
    })
    .await
}

/// Each request is a pipeline of 16 commands. Eight tasks share a connection.
async fn redis(address: &str, time: Duration) -> Result<Usage, Failure> {
    let client = redis::Client::open(format!("redis://{address}"))?;
    closed(time, async |new, tasks| {
        for connection in 0..4 {
            let shared = client.get_multiplexed_async_connection().await?;
            for task in 0..8 {
                let (mut shared, mut work) = (shared.clone(), new());
                tasks.spawn(async move {
                    let mut pipeline = redis::pipe();
                    for command in 0..8 {
                        let key = format!("{connection}/{task}/{command}");
                        pipeline.set(&key, command).ignore().get(&key);
                    }
                    while work.goes_on() {
                        let start = Instant::now();
                        let answer: redis::RedisResult<Vec<u32>> = pipeline.query_async(&mut shared).await;
                        work.count(start, answer);
                    }
                    work
                });
            }
        }
        Ok(())
    })
    .await
}

/// Each request takes one of 16 connections from a pool that 64 tasks share.
async fn postgres(address: &str, time: Duration) -> Result<Usage, Failure> {
    let pool = crate::check_postgres::pool(address, 16)?;
    closed(time, async |new, tasks| {
        for task in 0..64_i32 {
            let (pool, mut work) = (pool.clone(), new());
            tasks.spawn(async move {
                while work.goes_on() {
                    let start = Instant::now();
                    let answer = async {
                        let client = pool.get().await?;
                        let statement = client.prepare_cached("SELECT $1::int + 1").await?;
                        Ok::<i32, Failure>(client.query_one(&statement, &[&task]).await?.try_get(0)?)
                    };
                    let answer = answer.await;
                    work.count(start, answer);
                }
                work
            });
        }
        Ok(())
    })
    .await
}

/// Returns the figures of the light requests and those of the heavy ones.
fn mixed(address: SocketAddr, time: Duration) -> Result<[Requests; 2], Failure> {
    let between = Duration::from_secs(1) / MIXED_RATE;
    let start = Instant::now() + MIXED_CONNECTS;
    let begin = start + WARM_UP;
    let threads: Vec<_> = (0..MIXED_CONNECTIONS)
        .map(|connection| {
            let first = start + between * connection / MIXED_CONNECTIONS;
            thread::spawn(move || paced(address, connection, first, between, begin, begin + time))
        })
        .collect();
    let mut latencies = [Vec::new(), Vec::new()];
    for thread in threads {
        let of_thread = thread.join().expect("it does not panic")?;
        for (all, of_thread) in latencies.iter_mut().zip(of_thread) {
            all.extend(of_thread);
        }
    }
    Ok(latencies.map(|latencies| Requests::new(time, latencies, 0)))
}

/// One connection. Returns the latencies of light and of heavy requests.
fn paced(
    address: SocketAddr,
    connection: u32,
    mut due: Instant,
    between: Duration,
    begin: Instant,
    end: Instant,
) -> io::Result<[Vec<u32>; 2]> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut latencies = [Vec::new(), Vec::new()];
    let mut number = connection;
    while due < end {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let is_heavy = number.is_multiple_of(LIGHT_PER_HEAVY);
        let path = if is_heavy { "/heavy" } else { "/light" };
        write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")?;
        receive(&mut stream)?;
        if due >= begin {
            latencies[usize::from(is_heavy)].push(due.elapsed().as_micros() as u32);
        }
        due += between;
        number += 1;
    }
    Ok(latencies)
}

/// Reads one answer, whose status must be 200.
fn receive(stream: &mut TcpStream) -> io::Result<()> {
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
    let (mut answer, mut length) = ([0; 1024], 0);
    loop {
        let read = stream.read(&mut answer[length..])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        length += read;
        let text = str::from_utf8(&answer[..length]).map_err(|_| invalid("an answer is not text"))?;
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        if !head.starts_with("HTTP/1.1 200 ") {
            return Err(invalid("an answer has another status than 200"));
        }
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        if body.len() == length.ok_or_else(|| invalid("an answer has no length"))? {
            return Ok(());
        }
    }
}
