//! The `server` example as its users meet it: a process, a port, raw HTTP, signals.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::program;

/// No step takes this long unless it hangs.
const DEADLINE: Duration = Duration::from_secs(20);

/// A running server; killed when dropped.
struct Server {
    process: Child,
    addr: SocketAddr,
}

impl Server {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(options: &[&str]) -> Self {
        let mut process = Command::new(program("server"))
            .args(["--addr", "127.0.0.1:0"])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        let stdout = process.stdout.take().expect("stdout is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("the server's first line");
        let addr = line.trim_end().strip_prefix("listening on http://").and_then(|addr| addr.parse().ok());
        Self { addr: addr.unwrap_or_else(|| panic!("no address in {line:?}")), process }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect_timeout(&self.addr, DEADLINE).expect("the server accepts");
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout can be set");
        stream
    }

    /// Sends `request` on a connection of its own and reads one response.
    fn ask(&self, request: &str) -> Response {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("the server reads");
        Response::read(&mut BufReader::new(stream))
    }

    fn get(&self, target: &str) -> Response {
        self.ask(&format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n"))
    }

    fn signal(&self, signal: i32) {
        let pid = self.process.id().try_into().expect("a process id is positive");
        // SAFETY: `kill` reads no memory. The process has not been waited for, so the number is still its
        // own.
        let result = unsafe { libc::kill(pid, signal) };
        assert_eq!(result, 0, "cannot signal the server: {}", std::io::Error::last_os_error());
    }

    /// The CPU time that the server has used, to a hundredth of a second.
    fn cpu_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).expect("it runs");
        let fields = stat.rsplit(')').next().expect("a name in parentheses").split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number")).sum();
        Duration::from_millis(10 * ticks)
    }

    /// Waits for the server to end by itself; gives its status and what it wrote to stderr.
    fn end(mut self) -> (ExitStatus, String) {
        let status = wait(&mut self.process);
        let mut stderr = String::new();
        let mut pipe = self.process.stderr.take().expect("stderr is a pipe");
        pipe.read_to_string(&mut stderr).expect("stderr is text");
        (status, stderr)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn wait(process: &mut Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = process.try_wait().expect("the server is our child") {
            return status;
        }
        assert!(start.elapsed() < DEADLINE, "the server did not end");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Runs the program to its end, which must come by itself.
fn run(arguments: &[&str]) -> Output {
    let mut process = Command::new(program("server"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the server starts");
    wait(&mut process);
    process.wait_with_output().expect("the output is readable")
}

#[derive(Debug)]
struct Response {
    status: u16,
    head: String,
    body: String,
}

impl Response {
    /// Reads the response to anything but HEAD.
    fn read(stream: &mut impl BufRead) -> Self {
        let mut response = Self::read_head(stream);
        let length = response.header("content-length").expect("every response has a length");
        let mut body = vec![0; length.parse().expect("a length is a number")];
        stream.read_exact(&mut body).expect("the body is complete");
        response.body = String::from_utf8(body).expect("the tests use text only");
        response
    }

    fn read_head(stream: &mut impl BufRead) -> Self {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = stream.read_line(&mut head).expect("a response within the deadline");
            assert_ne!(read, 0, "the connection ended in the head: {head:?}");
        }
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Self { status: status.unwrap_or_else(|| panic!("no status in {head:?}")), head, body: String::new() }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// Checks that a request was refused with `status`, and that the text tells `what`.
    #[track_caller]
    fn assert_refused(&self, status: u16, what: &str) {
        assert_eq!(self.status, status, "{self:?}");
        assert!(self.body.contains(what), "{what:?} is not in {self:?}");
        assert_eq!(self.body.lines().count(), 1, "{self:?}");
    }
}

fn post(body: &str) -> String {
    format!("POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn the_root_says_hello() {
    let response = Server::start().get("/");
    assert_eq!((response.status, response.body.as_str()), (200, "Hello, World!"));
}

#[test]
fn head_gives_the_head_of_get() {
    let server = Server::start();
    let mut stream = BufReader::new(server.connect());
    stream.get_mut().write_all(b"HEAD / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
    let response = Response::read_head(&mut stream);
    assert_eq!((response.status, response.header("content-length")), (200, Some("13")));
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

#[test]
fn echo_returns_the_body() {
    let server = Server::start();
    assert_eq!(server.ask(&post("")).body, "");
    assert_eq!(server.ask(&post("a body")).body, "a body");
    let long = "0123456789abcdef".repeat((1 << 20) / 16);
    let response = server.ask(&post(&long));
    assert_eq!(response.status, 200);
    assert!(response.body == long, "{} bytes came back, {} were sent", response.body.len(), long.len());
}

#[test]
fn echo_returns_a_chunked_body() {
    let response = Server::start().ask(
        "POST /echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n\
         3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n",
    );
    assert_eq!((response.status, response.body.as_str()), (200, "onetwo"));
}

#[test]
fn a_body_that_is_too_long_is_refused() {
    let server = Server::start();
    // Refused by its head alone.
    let declared = "POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 1048577\r\n\r\n";
    server.ask(declared).assert_refused(413, "1048576");
    // Refused when the limit is passed.
    let half = format!("80000\r\n{}\r\n", "x".repeat(0x80000));
    let chunked = "POST /echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n";
    server.ask(&format!("{chunked}{half}{half}1\r\nx\r\n")).assert_refused(413, "1048576");
}

#[test]
fn a_body_that_is_malformed_is_refused() {
    let chunked = "POST /echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\nno length\r\n";
    Server::start().ask(chunked).assert_refused(400, "cannot read the body");
}

#[test]
fn sleep_and_block_take_their_time() {
    let server = Server::start();
    for path in ["/sleep", "/block"] {
        let start = Instant::now();
        let response = server.get(&format!("{path}?ms=60"));
        assert_eq!(response.status, 200, "{response:?}");
        assert!(response.body.ends_with("60 ms\n"), "{response:?}");
        assert!(start.elapsed() >= Duration::from_millis(60), "{path} took {:?}", start.elapsed());
    }
    assert_eq!(server.get("/sleep?ms=0").status, 200);
}

#[test]
fn sleeping_and_blocking_requests_hold_no_worker() {
    let server = Server::start_with(&["--workers", "1"]);
    let mut waiting: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for (number, stream) in waiting.iter_mut().enumerate() {
        let path = if number % 2 == 0 { "sleep" } else { "block" };
        write!(stream, "GET /{path}?ms=60000 HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    }
    assert_eq!(server.get("/").body, "Hello, World!");
}

#[test]
fn bad_parameters_are_refused_with_their_value() {
    let server = Server::start();
    for path in ["/sleep", "/block"] {
        for (query, told) in [
            ("", "\"\""),
            ("?", "\"\""),
            ("?ms", "\"ms\""),
            ("?ms=", "\"\""),
            ("?ms=soon", "\"soon\""),
            ("?ms=-1", "\"-1\""),
            ("?ms=1.5", "\"1.5\""),
            ("?ms=60001", "\"60001\""),
            ("?ms=99999999999999999999999999", "\"99999999999999999999999999\""),
            ("?ms=1&ms=2", "\"1&ms=2\""),
            ("?s=1", "\"s=1\""),
        ] {
            server.get(&format!("{path}{query}")).assert_refused(400, told);
        }
    }
}

#[test]
fn unknown_paths_and_wrong_methods_are_refused() {
    let server = Server::start();
    server.get("/nothing/here").assert_refused(404, "/nothing/here");
    server.get("/echo").assert_refused(405, "POST");
    assert_eq!(server.get("/echo").header("allow"), Some("POST"));
    for path in ["/", "/sleep", "/block", "/metrics"] {
        let response = server.ask(&format!("DELETE {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
        response.assert_refused(405, "DELETE");
        assert_eq!(response.header("allow"), Some("GET, HEAD"));
    }
}

#[test]
fn what_is_not_http_is_refused() {
    let server = Server::start();
    let mut stream = server.connect();
    stream.write_all(b"\x16\x03\x01 this is not HTTP\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer:?}");
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn a_picture_is_a_png_of_the_width_asked_for() {
    let server = Server::start();
    let mut stream = BufReader::new(server.connect());
    let request = "GET /mandelbrot.png?width=60 HTTP/1.1\r\nHost: test\r\n\r\n";
    stream.get_mut().write_all(request.as_bytes()).expect("the server reads");
    let head = Response::read_head(&mut stream);
    assert_eq!((head.status, head.header("content-type")), (200, Some("image/png")));
    let length = head.header("content-length").expect("it has a length").parse().expect("a number");
    let mut file = vec![0; length];
    stream.read_exact(&mut file).expect("the body is complete");
    let mut picture = png::Decoder::new(std::io::Cursor::new(file)).read_info().expect("a PNG file");
    assert_eq!(picture.info().size(), (60, 40));
    let mut pixels = vec![0; picture.output_buffer_size().expect("a small one")];
    picture.next_frame(&mut pixels).expect("a whole picture");
    // The set is black, in the middle; the corner is not.
    let pixel = |x: usize, y: usize| &pixels[3 * (60 * y + x)..][..3];
    assert_eq!(pixel(40, 20), [0, 0, 0]);
    assert_ne!(pixel(0, 0), [0, 0, 0]);
}

#[test]
fn a_width_that_is_none_or_too_large_is_refused() {
    let server = Server::start();
    for width in ["0", "4097", "-1", "x", "", "99999999999"] {
        let text = format!("width must be a whole number from 1 to 4096, got {width:?}");
        server.get(&format!("/mandelbrot.png?width={width}")).assert_refused(400, &text);
    }
    server.get("/mandelbrot.png").assert_refused(400, "the query must be width=PIXELS");
    server.get("/mandelbrot.png?height=5").assert_refused(400, "the query must be width=PIXELS");
}

#[test]
fn a_picture_whose_client_left_is_computed_no_further() {
    let server = Server::start_with(&["--workers", "2"]);
    // Alone, it takes seconds on each of two workers.
    let request = "GET /mandelbrot.png?width=4096 HTTP/1.1\r\nHost: test\r\n\r\n";
    let mut stream = server.connect();
    stream.write_all(request.as_bytes()).expect("the server reads");
    let start = Instant::now();
    while server.cpu_time() < Duration::from_millis(100) {
        assert!(start.elapsed() < DEADLINE, "nothing is computed");
        thread::sleep(Duration::from_millis(5));
    }
    drop(stream);
    // It rests once it uses no CPU time for a tenth of a second.
    let at_end = server.cpu_time();
    let mut before = at_end;
    let now = loop {
        thread::sleep(Duration::from_millis(100));
        let now = server.cpu_time();
        if now == before {
            break now;
        }
        before = now;
        assert!(start.elapsed() < DEADLINE, "it goes on");
    };
    assert!(now - at_end < Duration::from_millis(300), "it took {:?} to stop", now - at_end);
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn metrics_are_in_the_prometheus_format() {
    let server = Server::start_with(&["--workers=2"]);
    let page = server.get("/metrics").body;
    let value = |name: &str| -> f64 {
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {page}")).parse().expect("a value is a number")
    };
    assert_eq!(value("runtime_workers"), 2.0);
    // The accept loop and this connection.
    assert!(value("runtime_tasks_alive") >= 2.0, "{page}");
    value("runtime_worker_polls_total{worker=\"0\"}");
    value("runtime_worker_polls_total{worker=\"1\"}");

    // Each sample follows the help and the type of its metric, and no metric is there twice.
    let mut metrics = Vec::new();
    for line in page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect("a help text");
            assert!(!help.is_empty() && !metrics.contains(&name), "{line:?}");
            metrics.push(name);
        } else {
            let name = line.strip_prefix("# TYPE ").unwrap_or(line);
            let name = name.split(['{', ' ']).next();
            assert_eq!(name, metrics.last().copied(), "{line:?}");
        }
    }
    assert!(metrics.len() >= 20, "{metrics:?}");
}

#[test]
fn requests_in_one_packet_are_answered_in_order() {
    let server = Server::start();
    let mut stream = BufReader::new(server.connect());
    let requests = format!(
        "GET /sleep?ms=30 HTTP/1.1\r\nHost: test\r\n\r\n{}GET / HTTP/1.1\r\nHost: test\r\n\r\n",
        post("second")
    );
    stream.get_mut().write_all(requests.repeat(10).as_bytes()).unwrap();
    for _ in 0..10 {
        assert_eq!(Response::read(&mut stream).body, "slept 30 ms\n");
        assert_eq!(Response::read(&mut stream).body, "second");
        assert_eq!(Response::read(&mut stream).body, "Hello, World!");
    }
}

#[test]
fn a_client_that_leaves_in_mid_request_disturbs_nobody() {
    let server = Server::start();
    for beginning in [
        "",
        "GE",
        "GET / HTTP/1.1\r\nHost: te",
        "POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 100\r\n\r\nnot hundred",
        "GET /sleep?ms=100 HTTP/1.1\r\nHost: test\r\n\r\n",
        "GET /block?ms=100 HTTP/1.1\r\nHost: test\r\n\r\n",
    ] {
        for reset in [false, true] {
            let mut stream = server.connect();
            stream.write_all(beginning.as_bytes()).unwrap();
            if reset {
                // An answer that is never read makes the close a reset.
                stream.write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
            }
            drop(stream);
        }
    }
    assert_eq!(server.get("/").body, "Hello, World!");
    server.signal(libc::SIGTERM);
    let (status, stderr) = server.end();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
}

/// A connection whose request has arrived: the answer to the one before it in the same packet is here.
fn open_request(server: &Server, target: &str) -> BufReader<TcpStream> {
    let mut stream = BufReader::new(server.connect());
    let requests = format!("GET / HTTP/1.1\r\nHost: test\r\n\r\nGET {target} HTTP/1.1\r\nHost: test\r\n\r\n");
    stream.get_mut().write_all(requests.as_bytes()).unwrap();
    assert_eq!(Response::read(&mut stream).body, "Hello, World!");
    stream
}

#[test]
fn open_requests_finish_before_the_server_ends() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let server = Server::start();
        let mut idle = server.connect();
        let mut sleeping = open_request(&server, "/sleep?ms=400");
        let mut blocking = open_request(&server, "/block?ms=400");
        server.signal(signal);

        // The idle connection is closed while the others are still being served.
        assert_eq!(idle.read(&mut [0]).expect("the end of the stream"), 0);
        assert_eq!(Response::read(&mut sleeping).body, "slept 400 ms\n");
        assert_eq!(Response::read(&mut blocking).body, "blocked 400 ms\n");
        let mut rest = Vec::new();
        sleeping.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"");
        let addr = server.addr;
        let (status, stderr) = server.end();
        assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
        TcpStream::connect(addr).expect_err("the server listens no more");
    }
}

#[test]
fn a_second_signal_ends_the_server_at_once() {
    let server = Server::start();
    let mut idle = server.connect();
    let _open = open_request(&server, "/sleep?ms=60000");
    let _blocked = open_request(&server, "/block?ms=60000");
    server.signal(libc::SIGTERM);
    assert_eq!(idle.read(&mut [0]).expect("the end of the stream"), 0);
    server.signal(libc::SIGTERM);
    let (status, stderr) = server.end();
    assert_eq!(status.code(), Some(1));
    assert!(stderr.contains("second signal"), "{stderr:?}");
}

#[test]
fn a_blocking_request_whose_client_left_does_not_delay_the_end() {
    let server = Server::start();
    drop(open_request(&server, "/block?ms=60000"));
    server.signal(libc::SIGTERM);
    assert_eq!(server.end().0.code(), Some(0));
}

#[test]
fn bad_options_are_told_in_one_line() {
    for (arguments, told) in [
        (&["--port", "80"][..], "\"--port\""),
        (&["8080"], "\"8080\""),
        (&["--help=yes"], "\"--help=yes\""),
        (&["--addr"], "--addr needs a value"),
        (&["--addr", "localhost"], "\"localhost\""),
        (&["--addr", ":80"], "\":80\""),
        (&["--addr=127.0.0.1:65536"], "\"127.0.0.1:65536\""),
        (&["--workers"], "--workers needs a value"),
        (&["--workers", "0"], "\"0\""),
        (&["--workers=many"], "\"many\""),
        (&["--workers", "-1"], "\"-1\""),
    ] {
        let output = run(arguments);
        let stderr = String::from_utf8(output.stderr).expect("the message is text");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(told), "{arguments:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn an_address_in_use_is_told_in_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let output = run(&["--addr", &addr]);
    let stderr = String::from_utf8(output.stderr).expect("the message is text");
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(&addr) && stderr.lines().count() == 1, "{stderr}");
}

#[test]
fn help_names_every_option_and_route() {
    let output = run(&["--help"]);
    let help = String::from_utf8(output.stdout).expect("the text is text");
    assert!(output.status.success());
    for word in ["--addr", "--workers", "/echo", "/sleep", "/block", "/metrics"] {
        assert!(help.contains(word), "{word} is not in {help}");
    }
}

#[test]
fn a_closed_stdout_does_not_stop_the_server() {
    // A free port, known beforehand because the server cannot tell: no other process has it, as the system
    // does not hand out the same port again so soon.
    let addr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut process = Command::new(program("server"))
        .args(["--addr", &addr.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(process.stdout.take());
    let server = Server { process, addr };
    let start = Instant::now();
    while TcpStream::connect(addr).is_err() {
        assert!(start.elapsed() < DEADLINE, "the server does not accept");
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(server.get("/").body, "Hello, World!");
}

#[test]
fn the_listener_recovers_when_descriptors_return() {
    let mut server = Server::start();
    let pid = server.process.id().try_into().expect("a process id is positive");
    let limit = |soft| {
        let limit = libc::rlimit { rlim_cur: soft, rlim_max: 1024 };
        // SAFETY: `limit` is a live rlimit, and no old value is asked for.
        let result = unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, &limit, std::ptr::null_mut()) };
        assert_eq!(result, 0, "cannot limit the server: {}", std::io::Error::last_os_error());
    };
    let mut before = server.connect();
    before.write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    assert_eq!(Response::read(&mut BufReader::new(&mut before)).status, 200);

    // No new descriptor: the kernel completes the connection, the server cannot accept it.
    limit(3);
    let mut waiting = server.connect();
    waiting.write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    let mut line = String::new();
    let mut stderr = BufReader::new(server.process.stderr.take().expect("stderr is a pipe"));
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("cannot accept a connection"), "{line:?}");
    // A connected client is served meanwhile.
    before.write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    assert_eq!(Response::read(&mut BufReader::new(&mut before)).status, 200);

    limit(1024);
    assert_eq!(Response::read(&mut BufReader::new(waiting)).body, "Hello, World!");
}
