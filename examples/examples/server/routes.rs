//! What is answered to which request.
//!
//! | request | answer |
//! |---|---|
//! | `GET /` | `Hello, World!` |
//! | `POST /echo` | the request's body, up to [`MAX_BODY`] bytes |
//! | `GET /sleep?ms=50` | after that time; holds no thread |
//! | `GET /block?ms=50` | the same, but blocks a thread of the blocking pool |
//! | `GET /mandelbrot.png?width=600` | a picture, computed by all workers while the client waits for it |
//! | `GET /metrics` | the runtime's metrics for Prometheus |
//!
//! Anything else gets a line of text and a status: 404 unknown path, 405 wrong method, 400 bad parameter or
//! body, 413 body too long, 408 body too slow, 503 not run.

use std::convert::Infallible;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use crate::mandelbrot;
use crate::metrics;

/// The longest body that `/echo` takes, in bytes. The server holds it in memory whole. If it passed a body
/// through as it comes, a client that sends everything before it reads anything would wait for the server,
/// and the server for the client.
const MAX_BODY: usize = 1 << 20;

/// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest time that `/sleep` and `/block` take, in milliseconds.
const MAX_MS: u64 = 60_000;

/// Answers one request. It cannot fail: a refusal is an answer too.
pub async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(route(request).await.unwrap_or_else(Refusal::into_response))
}

/// Why a request is not served.
struct Refusal {
    status: StatusCode,
    text: String,
    /// The methods that the path does take, if the method is what is wrong.
    allow: Option<&'static str>,
}

async fn route(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Refusal> {
    let method = request.method();
    // hyper leaves the body out of an answer to HEAD.
    let get = method == Method::GET || method == Method::HEAD;
    let post = method == Method::POST;
    match request.uri().path() {
        "/" if get => Ok(text("Hello, World!")),
        "/echo" if post => echo(request.into_body()).await,
        "/sleep" if get => sleep(milliseconds(request.uri().query())?).await,
        "/block" if get => block(milliseconds(request.uri().query())?).await,
        "/mandelbrot.png" if get => picture(width(request.uri().query())?).await,
        "/metrics" if get => Ok(text(metrics::prometheus())),
        "/" | "/sleep" | "/block" | "/mandelbrot.png" | "/metrics" => {
            Err(Refusal::method(method, "GET, HEAD"))
        }
        "/echo" => Err(Refusal::method(method, "POST")),
        path => Err(Refusal::new(StatusCode::NOT_FOUND, format_args!("no such path: {path}"))),
    }
}

async fn echo(body: Incoming) -> Result<Response<Full<Bytes>>, Refusal> {
    // A body that says how long it is can be refused before it is sent.
    if body.size_hint().lower() > MAX_BODY as u64 {
        return Err(Refusal::too_long());
    }
    match runtime::time::timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY).collect()).await {
        Ok(Ok(body)) => Ok(Response::new(Full::new(body.to_bytes()))),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Refusal::too_long()),
        Ok(Err(error)) => {
            Err(Refusal::new(StatusCode::BAD_REQUEST, format_args!("cannot read the body: {error}")))
        }
        Err(_) => Err(Refusal::new(
            StatusCode::REQUEST_TIMEOUT,
            format_args!("the body took more than {} s", BODY_TIMEOUT.as_secs()),
        )),
    }
}

async fn sleep(ms: u64) -> Result<Response<Full<Bytes>>, Refusal> {
    runtime::time::sleep(Duration::from_millis(ms)).await;
    Ok(text(format!("slept {ms} ms\n")))
}

async fn block(ms: u64) -> Result<Response<Full<Bytes>>, Refusal> {
    let blocking = runtime::task::spawn_blocking(move || std::thread::sleep(Duration::from_millis(ms)));
    match blocking.await {
        Ok(()) => Ok(text(format!("blocked {ms} ms\n"))),
        // The runtime is being shut down, or the system refuses a thread.
        Err(error) => Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, format_args!("not run: {error}"))),
    }
}

/// If the client leaves, hyper drops this future, and with it the handle of the computation, which cancels
/// it.
async fn picture(width: u32) -> Result<Response<Full<Bytes>>, Refusal> {
    let not_run = |text: fmt::Arguments<'_>| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text);
    match runtime::compute(move || mandelbrot::png(width)).await {
        Ok(Ok(file)) => {
            let mut response = Response::new(Full::new(file.into()));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("image/png"));
            Ok(response)
        }
        Ok(Err(error)) => Err(not_run(format_args!("not encoded: {error}"))),
        // The runtime is being shut down.
        Err(error) => Err(not_run(format_args!("not run: {error}"))),
    }
}

fn milliseconds(query: Option<&str>) -> Result<u64, Refusal> {
    number(query, "ms", "MILLISECONDS", 0..=MAX_MS)
}

fn width(query: Option<&str>) -> Result<u32, Refusal> {
    number(query, "width", "PIXELS", 1..=mandelbrot::MAX_WIDTH)
}

/// The value of `name`, which must be there once and alone.
fn number<N>(query: Option<&str>, name: &str, unit: &str, range: RangeInclusive<N>) -> Result<N, Refusal>
where
    N: FromStr + PartialOrd + fmt::Display,
{
    let bad = |text: fmt::Arguments<'_>| Refusal::new(StatusCode::BAD_REQUEST, text);
    let query = query.unwrap_or_default();
    match query.split_once('=') {
        Some((key, value)) if key == name => {
            let number = value.parse().ok().filter(|number| range.contains(number));
            let (start, end) = (range.start(), range.end());
            number.ok_or_else(|| {
                bad(format_args!("{name} must be a whole number from {start} to {end}, got {value:?}"))
            })
        }
        _ => Err(bad(format_args!("the query must be {name}={unit}, got {query:?}"))),
    }
}

/// A response of plain text.
fn text(body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

impl Refusal {
    fn new(status: StatusCode, text: fmt::Arguments<'_>) -> Self {
        Self { status, text: format!("{text}\n"), allow: None }
    }

    fn method(method: &Method, allow: &'static str) -> Self {
        let text = format_args!("{method} is not allowed here, only {allow}");
        Self { allow: Some(allow), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, text) }
    }

    fn too_long() -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, format_args!("a body may have at most {MAX_BODY} bytes"))
    }

    fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = text(self.text);
        *response.status_mut() = self.status;
        if let Some(allow) = self.allow {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
        }
        response
    }
}
