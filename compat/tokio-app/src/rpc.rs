//! The gRPC service: one answer, or a stream of them.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::{App, primes};

tonic::include_proto!("app.Primes");

#[derive(Clone, PartialEq, prost::Message)]
pub struct Below {
    #[prost(int64, tag = "1")]
    pub below: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Count {
    #[prost(int64, tag = "1")]
    pub primes: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Prime {
    #[prost(int64, tag = "1")]
    pub prime: i64,
}

pub fn service(app: Arc<App>) -> primes_server::PrimesServer<Primes> {
    primes_server::PrimesServer::new(Primes(app))
}

pub struct Primes(Arc<App>);

#[tonic::async_trait]
impl primes_server::Primes for Primes {
    async fn count(&self, request: Request<Below>) -> Result<Response<Count>, Status> {
        let below = request.into_inner().below;
        let computation = self.0.computations.start(move || primes::count(below));
        let primes = computation.await.map_err(|error| Status::internal(error.to_string()))?;
        Ok(Response::new(Count { primes }))
    }

    type ListStream = ReceiverStream<Result<Prime, Status>>;

    async fn list(&self, request: Request<Below>) -> Result<Response<Self::ListStream>, Status> {
        let below = request.into_inner().below;
        let (sender, receiver) = mpsc::channel(8);
        let app = self.0.clone();
        self.0.tasks.spawn(async move {
            for block in primes::blocks(below) {
                let primes = match app.computations.start(move || primes::list(block)).await {
                    Ok(primes) => primes,
                    Err(error) => {
                        let _ = sender.send(Err(Status::internal(error.to_string()))).await;
                        return;
                    }
                };
                for prime in primes {
                    if sender.send(Ok(Prime { prime })).await.is_err() {
                        return; // The client has left.
                    }
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}
