//! The program as its user starts it, and its clients, which run on `runtime`, too.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use futures_util::SinkExt;
use reqwest::{Client, StatusCode, Version, header};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_app::kept::{Answer, MAX_CONNECTIONS};
use tokio_app::rpc::{Below, primes_client::PrimesClient};
use tokio_app::web::Numbers;
use tokio_stream::StreamExt;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;
use tonic::transport::{Channel, Endpoint};

/// Counting the primes below this number takes years.
const FOR_EVER: i64 = 1_000_000_000_000_000;
/// How long a condition may take on a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program, which is killed when this is dropped.
struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
    folder: PathBuf,
    address: SocketAddr,
    client: Client,
}

impl Server {
    /// Starts the program in a folder of this name.
    async fn start(name: &str) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => panic!("{folder:?}: {error}"),
            _ => fs::create_dir_all(folder.join("files")).unwrap(),
        }
        let mut child = Command::new(env!("CARGO_BIN_EXE_tokio-app"))
            .arg(&folder)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).await.unwrap();
        let address = line.trim_end().strip_prefix("http://").expect("an address").parse().unwrap();
        Self { child, stdout, folder, address, client: Client::builder().no_proxy().build().unwrap() }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    async fn ask(&self, path: &str) -> reqwest::Response {
        self.client.get(self.url(path)).send().await.unwrap()
    }

    async fn grpc(&self) -> PrimesClient<Channel> {
        PrimesClient::new(Endpoint::from_shared(self.url("")).unwrap().connect().await.unwrap())
    }

    /// Waits until the server's numbers are as they should be.
    async fn until(&self, what: &str, holds: impl Fn(&Numbers) -> bool) -> Numbers {
        let start = Instant::now();
        loop {
            let numbers = self.ask("/numbers").await.json().await.unwrap();
            if holds(&numbers) {
                return numbers;
            }
            assert!(start.elapsed() < PATIENCE, "waited for {what}: {numbers:?}");
            sleep(Duration::from_millis(10)).await;
        }
    }

    async fn until_begun(&self, computations: u64) {
        self.until("computations that begin", |now| now.computations_begun == computations).await;
    }

    async fn until_cancelled(&self, computations: u64) {
        self.until("cancelled computations", |now| now.computations_cancelled == computations).await;
    }

    fn process(&self, entry: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{entry}", self.child.id().unwrap()))
    }

    /// The names of the server's threads, in order, cut to 15 bytes by the system.
    fn threads(&self) -> Vec<String> {
        let threads = fs::read_dir(self.process("task")).unwrap();
        // A thread that ends meanwhile has no name.
        let mut names: Vec<_> = threads
            .filter_map(|thread| fs::read_to_string(thread.unwrap().path().join("comm")).ok())
            .map(|name| name.trim_end().to_owned())
            .collect();
        names.sort();
        names
    }

    /// Whether the server has a file open.
    fn has_open(&self, file: &str) -> bool {
        let links = fs::read_dir(self.process("fd")).unwrap();
        links.flatten().any(|link| fs::read_link(link.path()).is_ok_and(|target| target.ends_with(file)))
    }

    async fn terminate(&self) {
        let kill = format!("kill -TERM {}", self.child.id().unwrap());
        assert!(Command::new("sh").args(["-c", &kill]).status().await.unwrap().success());
    }
}

#[tokio::test]
async fn one_port_answers_each_protocol() {
    let server = Server::start("protocols").await;

    let response = server.ask("/primes/1000").await;
    assert_eq!(response.version(), Version::HTTP_11);
    assert_eq!(response.json::<Answer>().await.unwrap(), Answer { below: 1000, primes: 168 });

    let http2 = Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    let response = http2.get(server.url("/primes/10000")).send().await.unwrap();
    assert_eq!(response.version(), Version::HTTP_2);
    assert_eq!(response.json::<Answer>().await.unwrap(), Answer { below: 10_000, primes: 1229 });

    let mut grpc = server.grpc().await;
    let count = grpc.count(Below { below: 100_000 }).await.unwrap();
    assert_eq!(count.into_inner().primes, 9592);
    let mut primes = grpc.list(Below { below: 30_000 }).await.unwrap().into_inner();
    let mut listed = Vec::new();
    while let Some(prime) = primes.next().await {
        listed.push(prime.unwrap().prime);
    }
    assert_eq!((listed.len(), listed.last()), (3245, Some(&29_989)));
    assert!(listed.is_sorted());

    let (mut socket, _) = connect_async(format!("ws://{}/socket", server.address)).await.unwrap();
    for (question, answer) in [("100", "25"), ("a", "\"a\" is not a number"), ("200000", "17984")] {
        socket.send(Message::text(question)).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::text(answer));
    }

    // The server as a client of itself.
    assert_eq!(server.ask("/own/2000").await.json::<[i64; 3]>().await.unwrap(), [303; 3]);

    // What was asked over HTTP was kept; an answer that was kept is not computed again.
    let kept: Vec<Answer> = server.ask("/kept").await.json().await.unwrap();
    assert_eq!(kept.iter().map(|answer| answer.below).collect::<Vec<_>>(), [1000, 2000, 10_000]);
    let before = server.until("an answer", |_| true).await.computations_asked;
    assert_eq!(server.ask("/primes/1000").await.json::<Answer>().await.unwrap().primes, 168);
    assert_eq!(server.until("an answer", |_| true).await.computations_asked, before);
}

#[tokio::test]
async fn a_file_arrives_whole_in_parts_or_not_at_all() {
    let server = Server::start("files").await;
    // More than the sockets' buffers hold, so that a client can leave in the middle.
    let bytes: Vec<u8> = (0..32 << 20).map(|i: u32| (i.wrapping_mul(0x9E37_79B1) >> 24) as u8).collect();
    fs::write(server.folder.join("files/large"), &bytes).unwrap();

    let whole = server.ask("/files/large").await.bytes().await.unwrap();
    assert!(whole == bytes, "{} bytes came, some of them wrong", whole.len());

    let request = server.client.get(server.url("/files/large")).header(header::RANGE, "bytes=1000-1999");
    let part = request.send().await.unwrap();
    assert_eq!(part.status(), StatusCode::PARTIAL_CONTENT);
    assert!(part.bytes().await.unwrap() == bytes[1000..2000]);

    assert_eq!(server.ask("/files/absent").await.status(), StatusCode::NOT_FOUND);

    let mut response = server.ask("/files/large").await;
    response.chunk().await.unwrap().unwrap();
    assert!(server.has_open("large"), "the download goes on");
    drop(response);
    let start = Instant::now();
    while server.has_open("large") {
        assert!(start.elapsed() < PATIENCE, "the file stays open after its client has left");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_computation() {
    let server = Server::start("leaving").await;

    // HTTP/1: the connection ends, or is reset, as by a client that is killed with unread bytes.
    for (client, reset) in [(1, false), (2, true)] {
        let mut socket = TcpStream::connect(server.address).await.unwrap();
        let request = format!("GET /primes/{FOR_EVER} HTTP/1.1\r\nhost: a\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        server.until_begun(client).await;
        if reset {
            socket.set_zero_linger().unwrap();
        }
        drop(socket);
        server.until_cancelled(client).await;
    }

    // HTTP/2: the request is reset, and the connection goes on.
    let http2 = Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    let request = tokio::spawn(http2.get(server.url(&format!("/primes/{FOR_EVER}"))).send());
    server.until_begun(3).await;
    request.abort();
    server.until_cancelled(3).await;
    let answer: Answer = http2.get(server.url("/primes/100")).send().await.unwrap().json().await.unwrap();
    assert_eq!(answer.primes, 25);

    // gRPC: as well.
    let mut grpc = server.grpc().await;
    let mut other = grpc.clone();
    let request = tokio::spawn(async move { other.count(Below { below: FOR_EVER }).await });
    server.until_begun(5).await;
    request.abort();
    server.until_cancelled(4).await;
    assert_eq!(grpc.count(Below { below: 100 }).await.unwrap().into_inner().primes, 25);

    // WebSocket: the connection ends without a closing message.
    let (mut socket, _) = connect_async(format!("ws://{}/socket", server.address)).await.unwrap();
    socket.send(Message::text(FOR_EVER.to_string())).await.unwrap();
    server.until_begun(7).await;
    drop(socket);
    server.until_cancelled(5).await;

    // The server itself leaves, when the time is over.
    assert_eq!(server.ask(&format!("/hurried/{FOR_EVER}")).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    server.until_cancelled(6).await;

    // A stream: the handler stops making what is not taken. The task that is left waits for the signal.
    let mut primes = grpc.list(Below { below: FOR_EVER }).await.unwrap().into_inner();
    for prime in [2, 3, 5, 7, 11] {
        assert_eq!(primes.next().await.unwrap().unwrap().prime, prime);
    }
    drop(primes);
    server.until("the end of the stream's task", |now| now.tasks == 1).await;
}

/// More computations than workers: some have begun when their clients leave, some have not.
#[tokio::test]
async fn a_crowd_that_leaves_ends_all_its_computations() {
    const CROWD: u64 = 32;
    let server = Server::start("crowd").await;
    let mut clients = JoinSet::new();
    for _ in 0..CROWD {
        let request = server.client.get(server.url(&format!("/primes/{FOR_EVER}")));
        clients.spawn(async { request.send().await.map(|response| response.status()) });
    }
    server.until("requests of the whole crowd", |now| now.computations_asked == CROWD).await;
    server.until("a computation that begins", |now| now.computations_begun > 0).await;
    clients.shutdown().await;
    let numbers = server.until("their end", |now| now.computations_cancelled == CROWD).await;
    assert_eq!(numbers.computations_finished, 0);
    assert_eq!(server.ask("/primes/100").await.json::<Answer>().await.unwrap().primes, 25);
}

#[tokio::test]
async fn the_threads_are_those_that_the_documentation_names() {
    let server = Server::start("threads").await;
    fs::write(server.folder.join("files/small"), "small").unwrap();
    let known = ["app-worker", "runtime-monitor", "sqlx-sqlite-wor", "tokio-app"];

    // Some of everything, at the same time.
    let mut clients = JoinSet::new();
    for client in 0..16 {
        for path in [format!("/own/{}", 10_000 + client), "/kept".into(), "/files/small".into()] {
            let request = server.client.get(server.url(&path));
            clients.spawn(async { request.send().await.unwrap().error_for_status().unwrap().bytes().await });
        }
    }
    let mut seen = BTreeSet::new();
    while let Some(answer) = clients.join_next().await {
        answer.unwrap().unwrap();
        seen.extend(server.threads());
    }
    assert!(seen.iter().all(|name| known.contains(&name.as_str())), "{seen:?}");

    // At rest: no spare workers, no threads for blocking closures.
    let start = Instant::now();
    loop {
        let rest = |now: &Numbers| now.spare_workers == 0 && now.blocking_threads == 0;
        let numbers = server.until("the end of spare workers and blocking threads", rest).await;
        assert_eq!(numbers.workers, 2);
        assert!((1..=MAX_CONNECTIONS).contains(&numbers.database_connections), "{numbers:?}");
        let mut expected = vec!["app-worker"; 2];
        expected.push("runtime-monitor");
        expected.extend(vec!["sqlx-sqlite-wor"; numbers.database_connections as usize]);
        expected.push("tokio-app");
        let threads = server.threads();
        if threads == expected {
            break;
        }
        // A thread that is no more counted may be there for a moment.
        assert!(start.elapsed() < PATIENCE, "{threads:?} instead of {expected:?}");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_stop_finishes_what_has_begun() {
    let mut server = Server::start("stop").await;
    // An answer that has begun, a conversation, an idle connection of each version.
    let mut last = server.ask("/last").await;
    assert_eq!(last.chunk().await.unwrap().unwrap(), "wait: ");
    let (mut socket, _) = connect_async(format!("ws://{}/socket", server.address)).await.unwrap();
    socket.send(Message::text("10")).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::text("4"));
    let mut grpc = server.grpc().await;
    assert_eq!(grpc.count(Below { below: 10 }).await.unwrap().into_inner().primes, 4);
    assert_eq!(server.ask("/own/1000").await.json::<[i64; 3]>().await.unwrap(), [168; 3]);

    server.terminate().await;
    assert_eq!(last.chunk().await.unwrap().unwrap(), "the end");
    assert_eq!(last.chunk().await.unwrap(), None);
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::Close(None));

    let mut rest = String::new();
    let ended = tokio::time::timeout(PATIENCE, async {
        server.stdout.read_to_string(&mut rest).await.unwrap();
        server.child.wait().await.unwrap()
    });
    let status = ended.await.expect("the server ends");
    assert!(status.success(), "{status}");
    // The program prints this when no thread but the main one is left.
    assert_eq!(rest, "stopped\n");
    let refused = TcpStream::connect(server.address).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    grpc.count(Below { below: 10 }).await.unwrap_err();
}

/// Cargo takes the shims, and says so in the lock file by naming no source.
#[test]
fn no_tokio_and_no_rayon_core_come_from_a_registry() {
    let lock = include_str!("../Cargo.lock");
    for name in ["tokio", "rayon-core"] {
        let header = format!("name = \"{name}\"\n");
        let entries: Vec<_> = lock.split("[[package]]").filter(|entry| entry.contains(&header)).collect();
        assert_eq!(entries.len(), 1, "{entries:?}");
        assert!(!entries[0].contains("\nsource = "), "{}", entries[0]);
    }
}
