//! A copy of `SayBlocked` to `SayBack`, `CountBlocked` and `CloseFence` of `away/mod.rs`, with at most one
//! bug.

use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, fence};

use crate::models::once_built::{model, thread};
use crate::models::plain::Plain;

/// The bug that was put back.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// No fence between `SayBlocked` and `SeeShutdown`.
    BlocksWithoutFence,
    /// No fence between the beginning of the shutdown and the scan.
    ScansWithoutFence,
    /// The scan comes before the shutdown has begun.
    ScansFirst,
    /// `SayBack` takes the table back without the lock.
    EndsWithoutLock,
    /// `SayBack` reads `blocked_state`, and then writes it.
    EndsByStore,
    /// `CountBlocked` lends when the lock is free again.
    LendsLate,
    /// `CountBlocked` counts a worker that it finds BLOCKED, and does not write COUNTED.
    CountsAgain,
    /// `SayBlocked` publishes nothing.
    BlocksRelaxed,
}

const HERE: u32 = 0;
const BLOCKED: u32 = 1;
const COUNTED: u32 = 2;

struct World {
    blocked_state: AtomicU32,
    has_begun: AtomicBool,
    lock: Mutex<()>,
    /// Under the lock.
    blocked: AtomicUsize,
    /// The table, and under its lock, whether it is lent.
    table: Plain<u32>,
    is_lent: Mutex<bool>,
    fault: Fault,
}

// SAFETY: the cell is what the models watch.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

impl World {
    fn new(fault: Fault) -> Arc<Self> {
        Arc::new(Self {
            blocked_state: AtomicU32::new(HERE),
            has_begun: AtomicBool::new(false),
            lock: Mutex::new(()),
            blocked: AtomicUsize::new(0),
            table: Plain::new("the worker's table", 0),
            is_lent: Mutex::new(false),
            fault,
        })
    }

    fn touch(&self) {
        // SAFETY: whether we are alone is what the cell checks.
        self.table.with_mut(|table| unsafe { *table += 1 });
    }

    /// `SayBlocked`.
    fn begin(&self) {
        self.blocked_state.swap(BLOCKED, if self.fault == Fault::BlocksRelaxed { Relaxed } else { AcqRel });
        if self.fault != Fault::BlocksWithoutFence {
            fence(SeqCst);
        }
    }

    /// `CountBlocked`.
    fn count(&self) {
        let guard = self.lock.lock().unwrap();
        let is_ours = match self.fault {
            Fault::CountsAgain => self.blocked_state.load(Acquire) == BLOCKED,
            _ => self.blocked_state.compare_exchange(BLOCKED, COUNTED, AcqRel, Relaxed).is_ok(),
        };
        if !is_ours {
            return;
        }
        self.blocked.fetch_add(1, Relaxed);
        let _guard = match self.fault {
            Fault::LendsLate => {
                drop(guard);
                None
            }
            _ => Some(guard),
        };
        let mut is_lent = self.is_lent.lock().unwrap();
        // As `Owned::lend`, which tidies up.
        self.touch();
        *is_lent = true;
    }

    /// Another thread looks in the table, if it is lent.
    fn walk(&self) {
        let is_lent = self.is_lent.lock().unwrap();
        if *is_lent {
            self.touch();
        }
    }

    /// `SayBack`.
    fn end(&self) {
        let before = match self.fault {
            Fault::EndsByStore => {
                let before = self.blocked_state.load(Acquire);
                self.blocked_state.store(HERE, SeqCst);
                before
            }
            _ => self.blocked_state.swap(HERE, AcqRel),
        };
        if before == COUNTED {
            let _guard = (self.fault != Fault::EndsWithoutLock).then(|| self.lock.lock().unwrap());
            self.blocked.fetch_sub(1, Relaxed);
            *self.is_lent.lock().unwrap() = false;
        }
    }

    /// `CloseFence`, and the scan.
    fn begin_shutdown(&self) {
        if self.fault == Fault::ScansFirst {
            self.scan();
        }
        self.has_begun.swap(true, SeqCst);
        if self.fault != Fault::ScansWithoutFence {
            fence(SeqCst);
        }
        if self.fault != Fault::ScansFirst {
            self.scan();
        }
    }

    fn scan(&self) {
        if self.blocked_state.load(Acquire) == BLOCKED {
            self.count();
        }
    }
}

/// The owner blocks twice and uses its table, while two look for the blocked.
fn blocks_while_two_look(fault: Fault) {
    model(move || {
        let world = World::new(fault);
        let others = [0, 1].map(|_| {
            let world = world.clone();
            thread::spawn(move || {
                world.count();
                world.walk();
            })
        });
        for _ in 0..2 {
            world.touch();
            world.begin();
            world.end();
            world.touch();
        }
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(world.blocked.load(Relaxed), 0, "a worker is still counted as blocked");
        assert!(!*world.is_lent.lock().unwrap(), "the table is still lent");
    });
}

/// The call lasts until the shutdown has begun.
fn blocks_while_the_shutdown_begins(fault: Fault) {
    model(move || {
        let world = World::new(fault);
        let ender = {
            let world = world.clone();
            thread::spawn(move || world.begin_shutdown())
        };
        world.begin();
        if world.has_begun.load(Acquire) {
            world.count();
        }
        ender.join().unwrap();
        assert_eq!(world.blocked_state.load(Acquire), COUNTED, "the blocked worker is never counted");
        assert_eq!(world.blocked.load(Relaxed), 1);
        world.end();
    });
}

#[test]
fn a_twin_without_a_fault_passes() {
    blocks_while_two_look(Fault::None);
    blocks_while_the_shutdown_begins(Fault::None);
}

/// A twin for each fault.
macro_rules! refused {
    ($($name:ident: $model:ident($fault:ident), $text:literal;)*) => {$(
        #[test]
        #[should_panic(expected = $text)]
        fn $name() {
            $model(Fault::$fault);
        }
    )*};
}

refused! {
    a_worker_that_blocks_without_a_fence: blocks_while_the_shutdown_begins(BlocksWithoutFence),
        "the blocked worker is never counted";
    a_scan_without_a_fence: blocks_while_the_shutdown_begins(ScansWithoutFence),
        "the blocked worker is never counted";
    a_scan_before_the_beginning: blocks_while_the_shutdown_begins(ScansFirst),
        "the blocked worker is never counted";
    an_end_without_the_lock: blocks_while_two_look(EndsWithoutLock), "data race on the worker's table";
    an_end_that_looks_before_it_writes: blocks_while_two_look(EndsByStore), "data race on the worker's table";
    a_table_lent_behind_the_count: blocks_while_two_look(LendsLate), "data race on the worker's table";
    a_worker_that_is_counted_twice: blocks_while_two_look(CountsAgain), "data race on the worker's table";
    a_worker_that_blocks_without_release: blocks_while_two_look(BlocksRelaxed),
        "data race on the worker's table";
}
