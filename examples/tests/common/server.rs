//! A server that speaks in lines, as its clients and its operator meet it.

// Each test uses a part.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// No step takes this long unless it hangs.
const DEADLINE: Duration = Duration::from_secs(20);

/// A running server; killed when dropped.
pub struct Server {
    process: Child,
    stdout: BufReader<std::process::ChildStdout>,
    addr: SocketAddr,
}

/// How a server has ended, and what it has said after `listening on …`.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Server {
    pub fn start(name: &str) -> Self {
        Self::start_with_workers(name, 2)
    }

    pub fn start_with_workers(name: &str, workers: usize) -> Self {
        let mut process = Command::new(crate::common::program(name))
            .arg("127.0.0.1:0")
            .env("RUNTIME_WORKER_THREADS", workers.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut stdout = BufReader::new(process.stdout.take().expect("stdout is a pipe"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("the server prints a line");
        let addr = line.trim_end().rsplit(' ').next().and_then(|addr| addr.parse().ok());
        Self { process, stdout, addr: addr.expect("the line ends with an address") }
    }

    pub fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.addr).expect("the server accepts");
        stream.set_read_timeout(Some(DEADLINE)).expect("a stream has a time-out");
        Client(BufReader::new(stream))
    }

    /// Sends SIGINT, and waits for the end.
    pub fn stop(mut self) -> Ended {
        let pid = self.process.id().try_into().expect("a process id is positive");
        // SAFETY: a plain system call; the child has not been waited for, so the number is its own.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.stdout.read_to_string(&mut stdout).expect("the server prints text");
        let errors = self.process.stderr.as_mut().expect("stderr is a pipe");
        errors.read_to_string(&mut stderr).expect("the server prints text");
        let status = self.process.wait().expect("the server is a child of this process");
        Ended { code: status.code(), stdout, stderr }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A connection to a server.
pub struct Client(BufReader<TcpStream>);

impl Client {
    pub fn address(&self) -> SocketAddr {
        self.0.get_ref().local_addr().expect("a connected stream has an address")
    }

    pub fn write(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).expect("the server reads");
    }

    /// The next line from the server; empty at the end.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("the server writes in time");
        line
    }

    /// Writes a line, and returns the next line from the server.
    pub fn ask(&mut self, line: &str) -> String {
        self.write(&format!("{line}\n"));
        self.line()
    }
}
