//! The client that does not wait: on each connection a request becomes due at fixed times.
//!
//! A latency counts from the time when the request was due, so a request that had to wait for a late answer
//! before it could be sent counts with its waiting time ("no coordinated omission"). The connections' times
//! are spread evenly. `benches/src/paced.rs` does the same; this one uses nothing of Tokio's.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::setup::Service;

/// How long the server may be silent.
const PATIENCE: Duration = Duration::from_secs(60);

/// When requests are sent, and when they are counted.
#[derive(Clone, Copy)]
pub struct Schedule {
    pub start: Instant,
    /// Requests that are due before are not counted.
    pub begin: Instant,
    pub end: Instant,
}

struct Connection {
    stream: TcpStream,
    /// What has come of the answer.
    answer: Vec<u8>,
    /// When its unanswered requests were due. The first of them is on its way.
    due: VecDeque<Instant>,
}

/// Returns the latencies in milliseconds, in ascending order.
pub fn run(address: SocketAddr, service: Service, schedule: Schedule) -> io::Result<Vec<f64>> {
    be_prompt();
    let mut connections: Vec<_> = (0..service.connections())
        .map(|_| {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            Ok(Connection { stream, answer: Vec::with_capacity(1024), due: VecDeque::new() })
        })
        .collect::<io::Result<_>>()?;

    // The requests are due one after the other, connection by connection.
    let between = Duration::from_secs(1) / service.rate() / connections.len() as u32;
    let mut latencies = Vec::with_capacity(1 << 16);
    let (mut due, mut next, mut unanswered) = (schedule.start, 0, 0_usize);
    // What was due in time is waited for, however late it is.
    while due < schedule.end || unanswered > 0 {
        let now = Instant::now();
        while due <= now && due < schedule.end {
            let connection = &mut connections[next];
            connection.due.push_back(due);
            unanswered += 1;
            if connection.due.len() == 1 {
                connection.send(service)?;
            }
            due += between;
            next = (next + 1) % connections.len();
        }

        let ready = wait(&connections, if due < schedule.end { Some(due) } else { None })?;
        for index in ready {
            let connection = &mut connections[index];
            if !connection.receive(service)? {
                continue;
            }
            let was_due = connection.due.pop_front().expect("an answer has a request");
            unanswered -= 1;
            if was_due >= schedule.begin {
                latencies.push(was_due.elapsed().as_secs_f64() * 1e3);
            }
            if !connection.due.is_empty() {
                connection.send(service)?;
            }
        }
    }
    latencies.sort_by(f64::total_cmp);
    Ok(latencies)
}

/// Lets the calling thread run before others, by nice −20, and has its waits end to the microsecond.
fn be_prompt() {
    let result = rustix::process::setpriority_process(None, -20)
        .and_then(|()| rustix::thread::set_current_timer_slack(NonZeroU64::new(1)));
    if let Err(error) = result {
        eprintln!("the client runs at normal priority ({error}): its own delays count as the server's");
    }
}

/// Returns the connections that have something to read; none if `until` comes before. Without `until`, a
/// server that is silent for [`PATIENCE`] is an error.
fn wait(connections: &[Connection], until: Option<Instant>) -> io::Result<Vec<usize>> {
    let mut polled: Vec<_> =
        connections.iter().map(|connection| PollFd::new(&connection.stream, PollFlags::IN)).collect();
    let time = until.map_or(PATIENCE, |until| until.saturating_duration_since(Instant::now()));
    let timeout = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    if poll(&mut polled, Some(&timeout))? == 0 && until.is_none() {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "the server is silent"));
    }
    Ok((0..polled.len()).filter(|&index| !polled[index].revents().is_empty()).collect())
}

impl Connection {
    fn send(&mut self, service: Service) -> io::Result<()> {
        let request: &[u8] = match service {
            Service::Echo => b"0123456789abcdef0123456789abcdef",
            Service::Axum => b"GET /status HTTP/1.1\r\nhost: localhost\r\naccept: application/json\r\n\r\n",
        };
        // A request is small, and the last one was taken.
        self.stream.write_all(request)
    }

    /// Says whether the answer is complete.
    fn receive(&mut self, service: Service) -> io::Result<bool> {
        let mut buffer = [0; 1024];
        match self.stream.read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => self.answer.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
        let is_complete = match service {
            Service::Echo => self.answer.len() == 32,
            Service::Axum => is_http_answer(&self.answer)?,
        };
        if is_complete {
            self.answer.clear();
        }
        Ok(is_complete)
    }
}

/// Says whether `bytes` are a whole answer with status 200.
fn is_http_answer(bytes: &[u8]) -> io::Result<bool> {
    let invalid = |what| io::Error::new(io::ErrorKind::InvalidData, what);
    let text = str::from_utf8(bytes).map_err(|_| invalid("an answer is not text"))?;
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return Ok(false);
    };
    if !head.starts_with("HTTP/1.1 200 ") {
        return Err(invalid("an answer has another status than 200"));
    }
    let mut lines = head.lines();
    let length = lines.find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    Ok(body.len() == length.ok_or_else(|| invalid("an answer has no length"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_complete_with_its_last_byte() {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        assert!(!is_http_answer(&answer[..20]).expect("it is valid"));
        assert!(!is_http_answer(&answer[..answer.len() - 1]).expect("it is valid"));
        assert!(is_http_answer(answer).expect("it is valid"));
        assert!(is_http_answer(b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n").is_err());
    }
}
