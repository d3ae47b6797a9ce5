//! What nodes and clients send each other: JSON in gRPC calls.

use std::future::Future;

use openraft::alias::{SnapshotMetaOf, SnapshotOf, VoteOf};
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::{BasicNode, OptionalSend, RaftNetworkFactory, RaftNetworkV2};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

use crate::Types;
use crate::machine::State;

tonic::include_proto!("cluster.Node");

#[derive(Clone, PartialEq, prost::Message)]
pub struct Json {
    #[prost(bytes = "vec", tag = "1")]
    pub bytes: Vec<u8>,
}

impl Json {
    pub fn of(value: &impl Serialize) -> Result<Self, Status> {
        let bytes = serde_json::to_vec(value).map_err(|error| Status::internal(error.to_string()))?;
        Ok(Self { bytes })
    }

    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Status> {
        serde_json::from_slice(&self.bytes).map_err(|error| Status::invalid_argument(error.to_string()))
    }
}

/// What a node answers to a client.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The write is committed.
    Written,
    Value(Option<u64>),
    /// Another node leads: the one with this number, if it is known.
    Elsewhere(Option<u64>),
    /// Whether the write will be made is unknown.
    Failed(String),
}

/// A snapshot, and the leader's right to send it.
#[derive(Serialize, Deserialize)]
pub struct SnapshotRequest {
    pub vote: VoteOf<Types>,
    pub meta: SnapshotMetaOf<Types>,
    pub state: State,
}

/// Contents are longer than tonic's limit of 4 MiB in a long trial.
const LONGEST: usize = 256 << 20;

pub type Client = node_client::NodeClient<Channel>;

/// Returns a client that connects when it is used.
pub fn client(address: &str) -> Client {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("it is an address");
    node_client::NodeClient::new(endpoint.connect_lazy())
        .max_decoding_message_size(LONGEST)
        .max_encoding_message_size(LONGEST)
}

pub fn server<T: node_server::Node>(node: T) -> node_server::NodeServer<T> {
    node_server::NodeServer::new(node).max_decoding_message_size(LONGEST).max_encoding_message_size(LONGEST)
}

/// The way to the other nodes.
pub struct Network;

impl RaftNetworkFactory<Types> for Network {
    type Network = Peer;

    async fn new_client(&mut self, _target: u64, node: &BasicNode) -> Peer {
        Peer(client(&node.addr))
    }
}

/// The way to one node.
pub struct Peer(Client);

impl RaftNetworkV2<Types> for Peer {
    type SnapshotData = State;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        let client = &mut self.0;
        in_time(&option, async { answer(client.append(Json::of(&request)?).await) }).await
    }

    async fn vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let client = &mut self.0;
        in_time(&option, async { answer(client.vote(Json::of(&request)?).await) }).await
    }

    async fn full_snapshot(
        &mut self,
        vote: VoteOf<Types>,
        snapshot: SnapshotOf<Types, State>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let request = SnapshotRequest { vote, meta: snapshot.meta, state: snapshot.snapshot };
        let client = &mut self.0;
        tokio::select! {
            closed = cancel => Err(StreamingError::Closed(closed)),
            result = in_time(&option, async { answer(client.snapshot(Json::of(&request)?).await) }) => {
                Ok(result?)
            }
        }
    }
}

/// Gives a call as much time as openraft allows.
async fn in_time<T>(
    option: &RPCOption,
    call: impl Future<Output = Result<T, Status>>,
) -> Result<T, RPCError<Types>> {
    match timeout(option.soft_ttl(), call).await {
        Ok(result) => result.map_err(|status| RPCError::Unreachable(Unreachable::new(&status))),
        Err(elapsed) => Err(RPCError::Unreachable(Unreachable::new(&elapsed))),
    }
}

pub fn answer<T: DeserializeOwned>(response: Result<Response<Json>, Status>) -> Result<T, Status> {
    response?.into_inner().read()
}

pub fn question<T: DeserializeOwned>(request: Request<Json>) -> Result<T, Status> {
    request.into_inner().read()
}
