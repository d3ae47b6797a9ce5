//! What the tests of stalls share: tasks that hold their threads until the test lets them go, a server, and those who notice if
//! nobody serves them meanwhile.
//!
//! A task is stuck until its test has seen what should happen meanwhile, and no longer than [`TOO_LONG`], at which the test
//! fails. So nothing depends on how fast the machine is, but for one generous bound: [`assert_prompt`].
#![allow(dead_code, reason = "each test binary uses its part")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use runtime::Runtime;
use runtime::task::JoinHandle;

use crate::support::until;

/// Who is stuck this long has not been rescued from.
pub const TOO_LONG: Duration = Duration::from_secs(30);

/// What half of all pings and ticks may be late on a machine that does much else.
const PROMPT: Duration = Duration::from_millis(250);

/// How a stuck task holds its thread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Way {
    /// It computes.
    Spins,
    /// It waits in a system call that the runtime does not know of.
    Blocks,
}

pub const WAYS: [Way; 2] = [Way::Spins, Way::Blocks];

/// Holds the threads that enter it until it is released.
#[derive(Clone, Default)]
pub struct Trap(Arc<(Mutex<Held>, Condvar)>);

#[derive(Default)]
struct Held {
    is_released: bool,
    /// Somebody was held too long.
    has_failed: bool,
    /// The seat of each thread that is held, None for relief.
    seats: Vec<Option<usize>>,
}

impl Trap {
    /// Holds the calling thread.
    pub fn enter(&self, way: Way) {
        let (held, released) = &*self.0;
        let give_up = Instant::now() + TOO_LONG;
        held.lock().seats.push(runtime::parallel::current_thread_index());
        match way {
            Way::Spins => {
                while !held.lock().is_released && Instant::now() < give_up {
                    (0..1000).for_each(|_| std::hint::spin_loop());
                }
            }
            Way::Blocks => {
                let mut held = held.lock();
                while !held.is_released && !released.wait_until(&mut held, give_up).timed_out() {}
            }
        }
        let mut held = held.lock();
        held.has_failed |= !held.is_released;
    }

    /// How many threads have entered.
    pub fn count(&self) -> usize {
        self.0.0.lock().seats.len()
    }

    /// How many of those have seats.
    pub fn seats(&self) -> usize {
        self.0.0.lock().seats.iter().flatten().count()
    }

    /// Lets all go. Whatever the test has done since they entered was done while they were stuck.
    #[track_caller]
    pub fn release(&self) {
        self.0.0.lock().is_released = true;
        self.0.1.notify_all();
        assert!(!self.0.0.lock().has_failed, "nobody was served before the stuck tasks gave up");
    }
}

/// Tasks that are stuck.
pub struct Stuck {
    pub trap: Trap,
    tasks: Vec<JoinHandle<()>>,
}

/// Has `seats` workers of `runtime` stuck in one poll each.
pub fn stick(runtime: &Runtime, seats: usize, way: Way) -> Stuck {
    for tries in 1.. {
        let trap = Trap::default();
        let tasks = (0..seats)
            .map(|_| {
                let trap = trap.clone();
                runtime.spawn(async move { trap.enter(way) })
            })
            .collect();
        let stuck = Stuck { trap, tasks };
        until("all are stuck", || stuck.trap.count() == seats);
        // On a busy machine relief may have come before the last worker had the CPU.
        if stuck.trap.seats() == seats || tries == 10 {
            return stuck;
        }
        stuck.end(runtime);
    }
    unreachable!()
}

impl Stuck {
    /// Lets the stuck tasks go and waits for them.
    #[track_caller]
    pub fn end(self, runtime: &Runtime) {
        self.trap.release();
        for task in self.tasks {
            runtime.block_on(task).unwrap();
        }
    }
}

/// What a client sends to be answered at once.
pub const PING: u8 = b'p';

/// A server that answers each byte with the same one, any but [`PING`] after its task has been stuck in `trap`.
pub fn serve(runtime: &Runtime, trap: &Trap, way: Way) -> SocketAddr {
    use runtime::io::{AsyncReadExt, AsyncWriteExt};

    let listener = runtime.block_on(runtime::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let trap = trap.clone();
    runtime.spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let trap = trap.clone();
            runtime::spawn(async move {
                let mut byte = [0];
                while socket.read_exact(&mut byte).await.is_ok() {
                    if byte != [PING] {
                        trap.enter(way);
                    }
                    socket.write_all(&byte).await.unwrap();
                }
            });
        }
    });
    address
}

/// A connection to [`serve`].
pub struct Client(TcpStream);

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let mut client = Self(TcpStream::connect(address).unwrap());
        client.0.set_nodelay(true).unwrap();
        // Its task is there.
        client.ping();
        client
    }

    /// Sends a byte, and does not wait for the answer.
    pub fn send(&mut self, byte: u8) {
        self.0.write_all(&[byte]).unwrap();
    }

    pub fn receive(&mut self) -> u8 {
        let mut byte = [0];
        self.0.read_exact(&mut byte).unwrap();
        byte[0]
    }

    /// How long an answer takes.
    pub fn ping(&mut self) -> Duration {
        let start = Instant::now();
        self.send(PING);
        assert_eq!(self.receive(), PING);
        start.elapsed()
    }

    /// So many pings, one every 10 ms.
    pub fn pings(&mut self, count: usize) -> Vec<Duration> {
        let ping = |_| {
            let time = self.ping();
            thread::sleep(Duration::from_millis(10));
            time
        };
        (0..count).map(ping).collect()
    }
}

/// A task that notes how late a timer of 10 ms is.
pub struct Ticker(Arc<Mutex<Vec<Duration>>>);

impl Ticker {
    pub fn start(runtime: &Runtime) -> Self {
        let ticker = Self(Arc::default());
        let late = ticker.0.clone();
        runtime.spawn(async move {
            loop {
                let due = Instant::now() + Duration::from_millis(10);
                runtime::time::sleep_until(due.into()).await;
                late.lock().push(due.elapsed());
            }
        });
        ticker
    }

    /// The next `count` ticks.
    pub fn ticks(&self, count: usize) -> Vec<Duration> {
        self.0.lock().clear();
        until("the timer ticks", || self.0.lock().len() >= count);
        self.0.lock().clone()
    }
}

/// Asserts that half of `times` were short.
#[track_caller]
pub fn assert_prompt(what: &str, mut times: Vec<Duration>) {
    times.sort();
    assert!(times[times.len() / 2] < PROMPT, "{what}: {times:?}");
}
