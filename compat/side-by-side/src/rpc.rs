//! The gRPC service.

use tonic::{Request, Response, Status};

tonic::include_proto!("side.Greeter");

#[derive(Clone, PartialEq, prost::Message)]
pub struct Name {
    #[prost(string, tag = "1")]
    pub name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Greeting {
    #[prost(string, tag = "1")]
    pub text: String,
}

pub struct Greeter;

#[tonic::async_trait]
impl greeter_server::Greeter for Greeter {
    async fn hello(&self, request: Request<Name>) -> Result<Response<Greeting>, Status> {
        Ok(Response::new(Greeting { text: format!("Hello, {}!", request.into_inner().name) }))
    }
}
