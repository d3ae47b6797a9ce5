//! A client in a process of its own: the benchmark's program, started again by [`measure`].
//!
//! It is a closed loop. Each connection sends one request, waits for the whole response, and sends the next;
//! one thread looks after all of them. So the server is never flooded, and the latency is what a patient
//! client sees. [`measure_paced`] starts the other kind, which does not wait: [`paced`].

use std::io;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};

use crate::paced;
use crate::table::quantile;
use crate::transport::{Address, Socket};

/// This variable is set in the client's process, and holds its task.
const VARIABLE: &str = "BENCH_CLIENT";

/// How long the connections run before they are measured.
pub(crate) const WARM_UP: Duration = Duration::from_millis(300);

/// What to send and what to expect.
#[derive(Clone, Copy, Debug)]
pub enum Protocol {
    /// 64 bytes, which come back.
    Echo,
    /// `GET /`, and a response that ends with [`HELLO`](crate::peer::HELLO).
    Http,
}

impl Protocol {
    fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Http => "http",
        }
    }

    fn request(self) -> &'static [u8] {
        match self {
            Self::Echo => &[b'x'; 64],
            Self::Http => b"GET / HTTP/1.1\r\nHost: benchmark\r\n\r\n",
        }
    }

    /// Whether `response` is whole.
    fn is_complete(self, response: &[u8]) -> bool {
        match self {
            Self::Echo => response.len() == self.request().len(),
            Self::Http => response.ends_with(crate::peer::HELLO.as_bytes()),
        }
    }
}

/// The result of one run.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Requests answered in a second.
    pub rate: f64,
    /// Requests answered altogether, with those of the warm-up.
    pub requests: u64,
    /// Latencies in microseconds; NaN where the client did not tell.
    pub p50: f64,
    /// 99 of 100 were faster.
    pub p99: f64,
    /// 999 of 1000 were faster.
    pub p999: f64,
}

/// A new process loads the server at `addr` over a number of `connections` for `time`.
///
/// # Panics
/// If the client cannot be started or fails.
pub fn measure(addr: SocketAddr, protocol: Protocol, connections: usize, time: Duration) -> Outcome {
    measure_at(&Address::Tcp(addr), protocol, connections, time)
}

/// The same for a server of any transport.
pub fn measure_at(addr: &Address, protocol: Protocol, connections: usize, time: Duration) -> Outcome {
    start(format!("{addr} {} {connections} {}", protocol.name(), time.as_millis()))
}

/// The same with `rate` echo requests a second on each connection, whether the server keeps up or not.
pub fn measure_paced(addr: SocketAddr, connections: usize, rate: usize, time: Duration) -> Outcome {
    let addr = Address::Tcp(addr);
    start(format!("{addr} {PACED} {connections} {} {rate}", time.as_millis()))
}

/// In place of a protocol: [`paced`].
const PACED: &str = "paced";

fn start(order: String) -> Outcome {
    let program = std::env::current_exe().expect("a program knows where it is");
    let output = Command::new(program)
        .env(VARIABLE, order)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .expect("the client starts");
    assert!(output.status.success(), "the client failed: {}", output.status);
    let text = String::from_utf8(output.stdout).expect("the client prints numbers");
    let numbers: Vec<f64> = text.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    let [rate, requests, p50, p99, p999] = numbers[..] else {
        panic!("five numbers expected, got {text:?}");
    };
    Outcome { rate, requests: requests as u64, p50, p99, p999 }
}

/// Runs the client, and does not return, if [`measure`] has started this process. It is the first line of
/// every `main` that uses `measure`.
pub fn run_if_asked() {
    let Ok(order) = std::env::var(VARIABLE) else {
        return;
    };
    let words: Vec<_> = order.split(' ').collect();
    let [addr, protocol, connections, milliseconds, ref rate @ ..] = words[..] else {
        panic!("{VARIABLE} must be four words or more, got {order:?}");
    };
    let addr: Address = addr.parse().expect("an address");
    let connections = connections.parse().expect("a number of connections");
    let time = Duration::from_millis(milliseconds.parse().expect("a number of milliseconds"));
    let outcome = match protocol {
        PACED => paced::run(&addr, connections, rate[0].parse().expect("a number of requests"), time),
        "http" => run(&addr, Protocol::Http, connections, time),
        _ => run(&addr, Protocol::Echo, connections, time),
    };
    let outcome = outcome.expect("the server stays");
    println!("{} {} {} {} {}", outcome.rate, outcome.requests, outcome.p50, outcome.p99, outcome.p999);
    std::process::exit(0);
}

/// One connection, with at most one request on its way.
pub(crate) struct Connection {
    socket: Socket,
    sent_at: Instant,
    received: Vec<u8>,
}

fn run(addr: &Address, protocol: Protocol, connections: usize, time: Duration) -> io::Result<Outcome> {
    let mut poll = Poll::new()?;
    let mut connections: Vec<_> = (0..connections)
        .map(|index| {
            let mut connection = Connection::open(addr, &poll, Token(index))?;
            connection.send(protocol)?;
            Ok(connection)
        })
        .collect::<io::Result<_>>()?;

    let begin = Instant::now() + WARM_UP;
    let end = begin + time;
    let mut events = Events::with_capacity(connections.len());
    let mut requests = 0;
    let mut latencies = Vec::with_capacity(1 << 20);
    loop {
        poll.poll(&mut events, Some(Duration::from_secs(10)))?;
        if events.is_empty() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the server has not answered for 10 s"));
        }
        for event in &events {
            let connection = &mut connections[event.token().0];
            if !connection.receive(protocol)? {
                continue;
            }
            let now = Instant::now();
            requests += 1;
            if now >= end {
                return Ok(Outcome::new(requests, &mut latencies, time));
            }
            if now >= begin {
                latencies.push((now - connection.sent_at).as_nanos() as f64 / 1000.0);
            }
            connection.send(protocol)?;
        }
    }
}

impl Connection {
    pub(crate) fn open(addr: &Address, poll: &Poll, token: Token) -> io::Result<Self> {
        Ok(Self { socket: Socket::open(addr, poll, token)?, sent_at: Instant::now(), received: Vec::new() })
    }

    pub(crate) fn send(&mut self, protocol: Protocol) -> io::Result<()> {
        self.sent_at = Instant::now();
        self.received.clear();
        // A request fits into an empty send buffer, and it is empty since the last request has been answered.
        let sent = self.socket.write(protocol.request())?;
        assert_eq!(sent, protocol.request().len());
        Ok(())
    }

    /// Reads what is there. Returns whether that completes the response; if not, mio reports when more comes.
    /// The end of the stream is an error.
    pub(crate) fn receive(&mut self, protocol: Protocol) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.received.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
            // Nothing can follow a response before the next request, so there is no need to read until
            // EAGAIN.
            if protocol.is_complete(&self.received) {
                return Ok(true);
            }
        }
    }
}

impl Outcome {
    /// `latencies` are in microseconds.
    pub(crate) fn new(requests: u64, latencies: &mut [f64], time: Duration) -> Self {
        Self {
            rate: latencies.len() as f64 / time.as_secs_f64(),
            requests,
            p50: quantile(latencies, 0.5),
            p99: quantile(latencies, 0.99),
            p999: quantile(latencies, 0.999),
        }
    }
}
