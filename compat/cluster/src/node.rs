//! One node: its settings, and the service that it offers to peers and clients.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use openraft::{BasicNode, Config, ReadPolicy, SnapshotPolicy};
use serde::Serialize;
use tokio::fs;
use tokio::io::{AsyncReadExt, stdin};
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::log::Log;
use crate::machine::Machine;
use crate::wire::{self, Answer, Json, SnapshotRequest, question};
use crate::{Failure, Raft};

/// A leader sends a heartbeat at least once in this time.
const HEARTBEAT_MS: u64 = 50;
/// openraft chooses a time between these once for each start of a node.
const ELECTION_TIMEOUT_MS: [u64; 2] = [200, 400];

/// The longest time that a follower waits after it last heard from a leader until it stands for election:
/// openraft lets the leader's lease of the greatest timeout pass, and then the timeout itself.
pub const ELECTION_TIME: Duration = Duration::from_millis(2 * ELECTION_TIMEOUT_MS[1]);

/// Runs node `id`, whose address is the one with that index, until the standard input ends.
pub async fn run(id: u64, folder: &Path, addresses: [&str; 3]) -> Result<(), Failure> {
    let config = Config {
        cluster_name: "cluster".into(),
        heartbeat_interval: HEARTBEAT_MS,
        election_timeout_min: ELECTION_TIMEOUT_MS[0],
        election_timeout_max: ELECTION_TIMEOUT_MS[1],
        // So often that a node that was away gets a snapshot now and then.
        snapshot_policy: SnapshotPolicy::LogsSinceLast(2000),
        replication_lag_threshold: 2500,
        max_in_snapshot_log_to_keep: 500,
        backoff: "50ms 100ms 200ms ..200ms".into(),
        ..Config::default()
    };
    fs::create_dir_all(folder).await?;
    let log = Log::open(&folder.join("log")).await?;
    let machine = Machine::open(&folder.join("snapshot")).await?;
    let raft = Raft::new(id, Arc::new(config.validate()?), wire::Network, log, machine.clone()).await?;

    let stop = async {
        _ = stdin().read_to_end(&mut Vec::new()).await;
    };
    let service = wire::server(Node { raft: raft.clone(), machine });
    let server = Server::builder().add_service(service);
    let address = addresses[id as usize].parse()?;
    let serving = tokio::spawn(async move { server.serve_with_shutdown(address, stop).await });

    if !raft.is_initialized().await? {
        let members = addresses.into_iter().map(|address| BasicNode { addr: address.into() });
        let members: BTreeMap<u64, _> = (0..).zip(members).collect();
        // Every node does so, with the same members. It is refused if a peer was faster.
        if let Err(error) = raft.initialize(members).await {
            eprintln!("node {id}: {error}");
        }
    }
    serving.await??;
    Ok(raft.shutdown().await?)
}

struct Node {
    raft: Raft,
    machine: Machine,
}

#[tonic::async_trait]
impl wire::node_server::Node for Node {
    async fn append(&self, request: Request<Json>) -> Result<Response<Json>, Status> {
        reply(self.raft.append_entries(question(request)?).await)
    }

    async fn vote(&self, request: Request<Json>) -> Result<Response<Json>, Status> {
        reply(self.raft.vote(question(request)?).await)
    }

    async fn snapshot(&self, request: Request<Json>) -> Result<Response<Json>, Status> {
        let SnapshotRequest { vote, meta, state } = question(request)?;
        let snapshot = openraft::Snapshot { meta, snapshot: state };
        reply(self.raft.install_full_snapshot(vote, snapshot).await)
    }

    async fn write(&self, request: Request<Json>) -> Result<Response<Json>, Status> {
        let answer = match self.raft.client_write(question(request)?).await {
            Ok(_) => Answer::Written,
            Err(error) => match error.forward_to_leader() {
                Some(forward) => Answer::Elsewhere(forward.leader_id),
                None => Answer::Failed(error.to_string()),
            },
        };
        Ok(Response::new(Json::of(&answer)?))
    }

    async fn read(&self, request: Request<Json>) -> Result<Response<Json>, Status> {
        let key: String = question(request)?;
        let answer = match self.raft.ensure_linearizable(ReadPolicy::ReadIndex).await {
            Ok(_) => Answer::Value(self.machine.value(&key)),
            Err(error) => match error.forward_to_leader() {
                Some(forward) => Answer::Elsewhere(forward.leader_id),
                None => Answer::Failed(error.to_string()),
            },
        };
        Ok(Response::new(Json::of(&answer)?))
    }

    async fn state(&self, _: Request<Json>) -> Result<Response<Json>, Status> {
        Ok(Response::new(Json::of(&self.machine.state())?))
    }
}

fn reply<T: Serialize>(result: Result<T, impl std::error::Error>) -> Result<Response<Json>, Status> {
    let value = result.map_err(|error| Status::internal(error.to_string()))?;
    Ok(Response::new(Json::of(&value)?))
}
