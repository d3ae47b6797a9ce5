//! The services that are measured.

use std::hint::black_box;
use std::str::FromStr;

use axum::routing::get;
use axum::{Json, Router};
use http_body_util::Either;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde::Serialize;
use tokio::io::{AsyncReadExt, stdin};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task;
use tonic::transport::server::TcpIncoming;

use crate::Failure;
use crate::rpc::{Greeter, greeter_server::GreeterServer};

/// How many steps of [`compute`] take 5 ms on a CPU of 2 to 3 GHz.
const STEPS: u64 = 3_300_000;

pub enum Service {
    /// axum: `/` and `/json`.
    Web,
    /// tonic.
    Rpc,
    /// hyper, in front of the server with this address.
    Proxy(String),
    /// axum: `/light`, and `/heavy`, which computes.
    Mixed(Way),
}

/// How a handler computes.
#[derive(Clone, Copy)]
pub enum Way {
    /// In the handler.
    Inline,
    Blocking,
    Rayon,
}

impl FromStr for Service {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name.split_once('=').unwrap_or((name, "")) {
            ("web", "") => Ok(Self::Web),
            ("rpc", "") => Ok(Self::Rpc),
            ("proxy", backend) => Ok(Self::Proxy(backend.into())),
            ("mixed", "inline") => Ok(Self::Mixed(Way::Inline)),
            ("mixed", "blocking") => Ok(Self::Mixed(Way::Blocking)),
            ("mixed", "rayon") => Ok(Self::Mixed(Way::Rayon)),
            _ => Err(format!("no service is named `{name}`")),
        }
    }
}

/// Prints the address and serves until the standard input ends.
pub async fn run(service: Service) -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let end = async {
        stdin().read_to_end(&mut Vec::new()).await?;
        Ok(())
    };
    tokio::select! {
        result = serve(service, listener) => result,
        result = end => result,
    }
}

async fn serve(service: Service, listener: TcpListener) -> Result<(), Failure> {
    match service {
        Service::Web => {
            let router = Router::new().route("/", get(async || "Hello, World!")).route("/json", get(json));
            Ok(axum::serve(listener, router).await?)
        }
        Service::Rpc => {
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            let server = tonic::transport::Server::builder().add_service(GreeterServer::new(Greeter));
            Ok(server.serve_with_incoming(incoming).await?)
        }
        Service::Proxy(backend) => proxy(listener, &backend).await,
        Service::Mixed(way) => {
            let heavy = async move || compute_by(way).await.to_string();
            let router = Router::new().route("/light", get(json)).route("/heavy", get(heavy));
            Ok(axum::serve(listener, router).await?)
        }
    }
}

#[derive(Serialize)]
struct Article {
    id: u32,
    name: &'static str,
    price: f64,
    tags: [&'static str; 3],
}

async fn json() -> Json<Article> {
    Json(Article { id: 42, name: "lamp", price: 12.5, tags: ["home", "light", "new"] })
}

/// Forwards each request to the backend, over connections that are kept.
async fn proxy(listener: TcpListener, backend: &str) -> Result<(), Failure> {
    let client: Client<_, Incoming> = Client::builder(TokioExecutor::new()).build_http();
    let authority: hyper::http::uri::Authority = backend.parse()?;
    let forward = move |mut request: Request<Incoming>| {
        let (client, authority) = (client.clone(), authority.clone());
        async move {
            let mut uri = request.uri().clone().into_parts();
            uri.scheme = Some(hyper::http::uri::Scheme::HTTP);
            uri.authority = Some(authority);
            *request.uri_mut() = Uri::from_parts(uri).expect("it has all parts");
            Ok::<_, hyper::Error>(match client.request(request).await {
                Ok(response) => response.map(Either::Left),
                Err(error) => {
                    let mut response = Response::new(Either::Right(error.to_string()));
                    *response.status_mut() = StatusCode::BAD_GATEWAY;
                    response
                }
            })
        }
    };
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let forward = forward.clone();
        task::spawn(async move {
            // An error means that the client has left.
            _ = connection(stream, service_fn(forward)).await;
        });
    }
}

async fn connection<S, B>(stream: TcpStream, service: S) -> Result<(), hyper::Error>
where
    S: hyper::service::Service<Request<Incoming>, Response = Response<B>, Error = hyper::Error>,
    B: hyper::body::Body + 'static,
    B::Error: Into<Failure>,
{
    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await
}

async fn compute_by(way: Way) -> u64 {
    match way {
        Way::Inline => compute(),
        Way::Blocking => task::spawn_blocking(compute).await.expect("it does not panic"),
        Way::Rayon => {
            let (sender, receiver) = oneshot::channel();
            rayon::spawn(move || _ = sender.send(compute()));
            receiver.await.expect("it does not panic")
        }
    }
}

/// A chain of multiplications that no compiler shortens.
fn compute() -> u64 {
    (0..black_box(STEPS))
        .fold(1, |x: u64, step| (x ^ step).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23))
}
