//! The client that does not wait: on each connection a request becomes due at fixed times.
//!
//! A latency counts from the time when the request was due, so a request that had to wait for a late answer
//! before it could be sent counts with its waiting time ("no coordinated omission"). The connections' times
//! are spread evenly.
//!
//! The client asks for the highest priority, since its own delays would count as the server's: nice −20, or
//! `SCHED_FIFO` if `BENCH_CLIENT_FIFO` is set. A kernel that lets a running thread end its time slice delays
//! it all the same, but for `SCHED_FIFO`.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use crate::client::{Connection, Outcome, Protocol, WARM_UP};
use crate::transport::Address;

/// How long the server may be silent.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection and when its unanswered requests were due. The first of them is on its way.
struct Paced {
    connection: Connection,
    due: VecDeque<Instant>,
}

/// Sends `rate` echo requests a second over each connection.
pub fn run(addr: &Address, connections: usize, rate: u32, time: Duration) -> io::Result<Outcome> {
    if let Err(error) = raise_priority(std::env::var_os("BENCH_CLIENT_FIFO").is_some()) {
        eprintln!("the client runs at normal priority ({error}): its own delays count as the server's");
    }

    let mut poll = Poll::new()?;
    let timer = Timer::new(&poll, Token(connections))?;
    let mut connections: Vec<_> = (0..connections)
        .map(|index| {
            let connection = Connection::open(addr, &poll, Token(index))?;
            Ok(Paced { connection, due: VecDeque::new() })
        })
        .collect::<io::Result<_>>()?;

    // The requests are due one after the other, connection by connection.
    let between = Duration::from_secs(1) / rate / connections.len() as u32;
    let start = Instant::now();
    let begin = start + WARM_UP;
    let end = begin + time;
    let mut events = Events::with_capacity(connections.len() + 1);
    let mut latencies = Vec::with_capacity(1 << 16);
    let (mut due, mut next, mut unanswered, mut requests) = (start, 0, 0_usize, 0);
    // What was due in time is waited for, however late it is.
    while due < end || unanswered > 0 {
        let now = Instant::now();
        while due <= now && due < end {
            let paced = &mut connections[next];
            paced.due.push_back(due);
            unanswered += 1;
            if paced.due.len() == 1 {
                paced.connection.send(Protocol::Echo)?;
            }
            due += between;
            next = (next + 1) % connections.len();
        }
        if due < end {
            timer.set(due)?;
        }

        poll.poll(&mut events, Some(PATIENCE))?;
        if events.is_empty() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the server is silent"));
        }
        for event in &events {
            let Some(paced) = connections.get_mut(event.token().0) else {
                // The timer.
                continue;
            };
            if !paced.connection.receive(Protocol::Echo)? {
                continue;
            }
            let was_due = paced.due.pop_front().expect("an answer has a request");
            unanswered -= 1;
            requests += 1;
            if was_due >= begin {
                latencies.push(was_due.elapsed().as_nanos() as f64 / 1000.0);
            }
            if !paced.due.is_empty() {
                paced.connection.send(Protocol::Echo)?;
            }
        }
    }
    Ok(Outcome::new(requests, &mut latencies, time))
}

/// Lets the calling thread run before others: by nice −20, or by `SCHED_FIFO` if `is_fifo`. Threads that it
/// starts do not inherit `SCHED_FIFO`.
pub(crate) fn raise_priority(is_fifo: bool) -> io::Result<()> {
    let result = if is_fifo {
        // SAFETY: plain data, for which zero is a value.
        let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
        parameters.sched_priority = 1;
        // SAFETY: the pointer is valid for a read.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &parameters) }
    } else {
        // SAFETY: touches no memory.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) }
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Wakes the poll at a time, to the microsecond; the poll's own time-out counts in milliseconds.
struct Timer(OwnedFd);

impl Timer {
    fn new(poll: &Poll, token: Token) -> io::Result<Self> {
        // SAFETY: touches no memory.
        let fd =
            unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call above opened it, and no other code knows it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        poll.registry().register(&mut SourceFd(&fd.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self(fd))
    }

    /// Replaces the time that was set before.
    fn set(&self, time: Instant) -> io::Result<()> {
        // Zero would stop the timer.
        let left = time.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
        let timespec = |time: Duration| libc::timespec {
            tv_sec: time.as_secs() as libc::time_t,
            tv_nsec: time.subsec_nanos().into(),
        };
        let times = libc::itimerspec { it_interval: timespec(Duration::ZERO), it_value: timespec(left) };
        // SAFETY: the pointer is valid for a read, and null is allowed where the old time would go.
        let result = unsafe { libc::timerfd_settime(self.0.as_raw_fd(), 0, &times, std::ptr::null_mut()) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_server_that_stalls_cannot_hide_it() {
        const STALL: Duration = Duration::from_secs(2);

        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let addr = Address::Tcp(listener.local_addr().expect("it is bound"));
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("the client connects");
            std::thread::sleep(STALL);
            let mut buffer = [0; 64];
            while stream.read_exact(&mut buffer).is_ok() {
                stream.write_all(&buffer).expect("the client reads");
            }
        });

        let time = Duration::from_millis(500);
        let outcome = run(&addr, 1, 100, time).expect("the server answers in the end");
        server.join().expect("the server does not panic");
        // Every request was due during the stall, though all but one were sent after it.
        assert_eq!(outcome.rate, 100.0);
        let least = (STALL - WARM_UP - time) / 2;
        assert!(outcome.p50 >= least.as_micros() as f64, "{outcome:?}");
    }
}
