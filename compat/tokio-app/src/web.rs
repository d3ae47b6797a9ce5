//! What the server answers over HTTP and WebSocket.

use std::convert::Infallible;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use axum::body::Body;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{self, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use tower_http::services::ServeDir;
use tower_http::timeout::TimeoutLayer;

use crate::kept::{self, Answer};
use crate::rpc::{self, Below, primes_client::PrimesClient};
use crate::{App, primes};

/// All that one port serves: HTTP/1, HTTP/2 without TLS, WebSocket, gRPC.
pub fn router(app: Arc<App>, files: &Path) -> Router {
    let hurry = TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, Duration::from_millis(100));
    Router::new()
        .route("/primes/{below}", get(count))
        .route("/hurried/{below}", get(count).layer(hurry))
        .route("/kept", get(kept))
        .route("/own/{below}", get(ask_own_server))
        .route("/socket", get(socket))
        .route("/last", get(last))
        .route("/numbers", get(numbers))
        .nest_service("/files", ServeDir::new(files))
        .route_service("/app.Primes/{*method}", rpc::service(app.clone()))
        .with_state(app)
}

/// Takes the answer from the database, else computes it and keeps it there.
async fn count(
    State(app): State<Arc<App>>,
    extract::Path(below): extract::Path<i64>,
) -> Result<Json<Answer>> {
    if let Some(answer) = kept::find(&app.database, below).await? {
        return Ok(Json(answer));
    }
    // If the client leaves or the time is over, this future is dropped, and the computation ends.
    let primes = app.computations.start(move || primes::count(below)).await?;
    let answer = Answer { below, primes };
    kept::keep(&app.database, &answer).await?;
    Ok(Json(answer))
}

async fn kept(State(app): State<Arc<App>>) -> Result<Json<Vec<Answer>>> {
    Ok(Json(kept::all(&app.database).await?))
}

/// Asks this server, as a client of three protocols.
async fn ask_own_server(
    State(app): State<Arc<App>>,
    extract::Path(below): extract::Path<i64>,
) -> Result<Json<[i64; 3]>> {
    let url = format!("http://{}", app.address);
    let ask = async |client: reqwest::ClientBuilder| -> Result<i64> {
        let response = client.build()?.get(format!("{url}/primes/{below}")).send().await?;
        Ok(response.error_for_status()?.json::<Answer>().await?.primes)
    };
    let http1 = ask(reqwest::Client::builder().http1_only());
    let http2 = ask(reqwest::Client::builder().http2_prior_knowledge());
    let grpc = async {
        let channel = Endpoint::from_shared(url.clone())?.connect().await?;
        Ok(PrimesClient::new(channel).count(Below { below }).await?.into_inner().primes)
    };
    let (http1, http2, grpc) = tokio::try_join!(http1, http2, grpc)?;
    Ok(Json([http1, http2, grpc]))
}

async fn socket(State(app): State<Arc<App>>, upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(async |socket| {
        let tasks = app.tasks.clone();
        tasks.track_future(converse(app, socket)).await;
    })
}

/// Answers each number with the count of primes below it, until either side ends the conversation.
async fn converse(app: Arc<App>, mut socket: WebSocket) {
    loop {
        let message = tokio::select! {
            message = socket.recv() => message,
            () = app.stop.cancelled() => {
                let _ = socket.send(Message::Close(None)).await;
                return;
            }
        };
        let Some(Ok(Message::Text(text))) = message else { return };
        let answer = match text.parse() {
            Err(_) => format!("{:?} is not a number", text.as_str()),
            Ok(below) => tokio::select! {
                primes = app.computations.start(move || primes::count(below)) => match primes {
                    Ok(primes) => primes.to_string(),
                    Err(error) => error.to_string(),
                },
                // A client that speaks before it has its answer has left, or will not wait.
                _ = socket.recv() => return,
            },
        };
        if socket.send(Message::text(answer)).await.is_err() {
            return;
        }
    }
}

/// Begins an answer at once, and ends it when the server is told to stop.
async fn last(State(app): State<Arc<App>>) -> Body {
    let (sender, receiver) = mpsc::channel(2);
    app.tasks.clone().spawn(async move {
        let _ = sender.send("wait: ").await;
        tokio::select! {
            () = app.stop.cancelled() => _ = sender.send("the end").await,
            () = sender.closed() => {} // The client has left.
        }
    });
    Body::from_stream(ReceiverStream::new(receiver).map(Ok::<_, Infallible>))
}

/// What the server knows of itself.
#[derive(Debug, Serialize, Deserialize)]
pub struct Numbers {
    pub workers: usize,
    pub spare_workers: usize,
    pub blocking_threads: usize,
    /// Connections to the database, each of which has a thread.
    pub database_connections: u32,
    pub computations_asked: u64,
    pub computations_begun: u64,
    pub computations_finished: u64,
    pub computations_cancelled: u64,
    /// Tasks that no connection waits for.
    pub tasks: usize,
}

async fn numbers(State(app): State<Arc<App>>) -> Json<Numbers> {
    let metrics = tokio::runtime::Handle::current().metrics();
    let counts = app.computations.counts();
    Json(Numbers {
        workers: metrics.num_workers(),
        spare_workers: metrics.num_spare_workers(),
        blocking_threads: metrics.num_blocking_threads(),
        database_connections: app.database.size(),
        computations_asked: counts.asked.load(Relaxed),
        computations_begun: counts.begun.load(Relaxed),
        computations_finished: counts.finished.load(Relaxed),
        computations_cancelled: counts.cancelled.load(Relaxed),
        tasks: app.tasks.len(),
    })
}

type Result<T> = std::result::Result<T, Failure>;

/// Any error, as the answer to a request.
struct Failure(Box<dyn Error + Send + Sync>);

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (StatusCode::INTERNAL_SERVER_ERROR, self.0.to_string()).into_response()
    }
}
