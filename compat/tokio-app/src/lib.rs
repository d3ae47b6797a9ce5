//! The parts of the program, which `main.rs` describes.

pub mod kept;
pub mod primes;
pub mod rpc;
pub mod web;

use std::net::SocketAddr;
use std::sync::Arc;

use sqlx::SqlitePool;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::primes::Computations;

/// What all handlers share.
pub struct App {
    /// Where the server listens, for the requests that it sends to itself.
    pub address: SocketAddr,
    pub database: SqlitePool,
    pub computations: Computations,
    /// Cancelled when the server is told to stop.
    pub stop: CancellationToken,
    /// The tasks that no connection waits for: those of web sockets and of streams.
    pub tasks: TaskTracker,
}

impl App {
    pub fn new(address: SocketAddr, database: SqlitePool) -> Arc<Self> {
        Arc::new(Self {
            address,
            database,
            computations: Computations::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        })
    }
}
