//! What the tests of stalls share: tasks that hold their threads until the test lets them go, a server, and
//! clients and timers that notice if they are not served meanwhile.
//!
//! A task is stuck until its test has seen what should happen meanwhile, and no longer than [`TOO_LONG`], at
//! which the test fails. So nothing depends on how fast the machine is, but for one generous bound,
//! [`assert_prompt`], and that is higher while a plain thread is late, too.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use runtime::Runtime;
use runtime::task::JoinHandle;

use crate::support::{Patience, until};

/// If a task is stuck for this long, no thread has taken over for it.
pub const TOO_LONG: Duration = Duration::from_secs(30);

/// Half of all pings and ticks may be late by [`PROMPT`] on any machine, and by [`LATER`] times what a plain
/// thread is late.
const PROMPT: Duration = Duration::from_millis(250);
const LATER: u32 = 10;

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
    /// A task was held too long.
    has_failed: bool,
    /// The index of each thread that is held, if it is a permanent worker.
    workers: Vec<Option<usize>>,
}

impl Trap {
    /// Holds the calling thread.
    pub fn enter(&self, way: Way) {
        let (held, released) = &*self.0;
        let mut patience = Patience::new(TOO_LONG);
        held.lock().workers.push(runtime::runtime::worker_index());
        match way {
            Way::Spins => {
                while !held.lock().is_released && !patience.is_over() {
                    (0..1000).for_each(|_| std::hint::spin_loop());
                }
            }
            Way::Blocks => {
                let mut held = held.lock();
                while !held.is_released && !patience.is_over() {
                    released.wait_for(&mut held, Patience::ROUND);
                }
            }
        }
        let mut held = held.lock();
        held.has_failed |= !held.is_released;
    }

    /// How many threads have entered.
    pub fn count(&self) -> usize {
        self.0.0.lock().workers.len()
    }

    /// How many of those are permanent workers.
    pub fn workers(&self) -> usize {
        self.0.0.lock().workers.iter().flatten().count()
    }

    /// Lets all go. Whatever the test has done since they entered was done while they were stuck.
    #[track_caller]
    pub fn release(&self) {
        self.0.0.lock().is_released = true;
        self.0.1.notify_all();
        assert!(!self.0.0.lock().has_failed, "no client was served before the stuck tasks gave up");
    }
}

/// Tasks that are stuck.
pub struct Stuck {
    pub trap: Trap,
    tasks: Vec<JoinHandle<()>>,
}

/// Has `workers` permanent workers of `runtime` stuck in one poll each. At the tenth try it accepts spare
/// workers among the stuck threads.
pub fn stick(runtime: &Runtime, workers: usize, way: Way) -> Stuck {
    Yardstick::of_this_process();
    for tries in 1.. {
        let stuck = try_to_stick(runtime, workers, way);
        until("all are stuck", || stuck.trap.count() == workers);
        // On a busy machine a spare worker may have come before the last worker had the CPU.
        if stuck.trap.workers() == workers || tries == 10 {
            return stuck;
        }
        stuck.end(runtime);
    }
    unreachable!()
}

/// Spawns `tasks` tasks that will be stuck in one poll each, as soon as there are threads for them.
pub fn try_to_stick(runtime: &Runtime, tasks: usize, way: Way) -> Stuck {
    let trap = Trap::default();
    let spawn = |_| {
        let trap = trap.clone();
        runtime.spawn(async move { trap.enter(way) })
    };
    Stuck { tasks: (0..tasks).map(spawn).collect(), trap }
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

/// A server that answers each byte with the same byte: [`PING`] at once, any other after its task has been
/// stuck in `trap`.
pub fn serve(runtime: &Runtime, trap: &Trap, way: Way) -> SocketAddr {
    use runtime::io::{AsyncReadExt, AsyncWriteExt};

    Yardstick::of_this_process();

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

/// Asserts that half of `times` were short. They were measured just now: a plain thread is compared over the
/// same time.
#[track_caller]
pub fn assert_prompt(what: &str, mut times: Vec<Duration>) {
    let taken = times.iter().sum::<Duration>() + times.len() as u32 * Duration::from_millis(10);
    let late = Yardstick::of_this_process().late_since(Instant::now() - 2 * taken);
    let bound = PROMPT + LATER * late;
    times.sort();
    assert!(times[times.len() / 2] < bound, "{what}: {times:?}; a plain thread was late by {late:?}");
}

/// A thread that wants to run every 10 ms, and notes how late it is: what the machine, and the stuck tasks on
/// it, do to any thread.
pub struct Yardstick(Mutex<Vec<(Instant, Duration)>>);

impl Yardstick {
    pub fn of_this_process() -> &'static Self {
        static ONE: OnceLock<&Yardstick> = OnceLock::new();
        ONE.get_or_init(|| {
            let yardstick: &Yardstick = Box::leak(Box::new(Yardstick(Mutex::default())));
            thread::spawn(|| yardstick.measure());
            yardstick
        })
    }

    fn measure(&self) {
        loop {
            let due = Instant::now() + Duration::from_millis(10);
            thread::sleep(Duration::from_millis(10));
            self.0.lock().push((due, due.elapsed()));
        }
    }

    /// How late it was since `begin`: the 90th percentile, or zero if no turn was due since.
    fn late_since(&self, begin: Instant) -> Duration {
        let mut late: Vec<_> =
            self.0.lock().iter().filter(|(due, _)| *due >= begin).map(|(_, late)| *late).collect();
        late.sort();
        late.get(late.len() * 9 / 10).copied().unwrap_or_default()
    }
}
