//! Async I/O and parallel computation on one set of worker threads.
//!
//! A work-stealing async runtime for Linux, whose workers also run fork-join computations. The async part has
//! the names of Tokio, and the computations have the names of Rayon. The book's chapters *Where we differ
//! from Tokio* and *Where we differ from Rayon* list what differs on purpose.
//!
//! # A first program
//! ```no_run
//! #[runtime::main]
//! async fn main() -> std::io::Result<()> {
//!     let listener = runtime::net::TcpListener::bind("127.0.0.1:6142").await?;
//!     loop {
//!         let (mut socket, _) = listener.accept().await?;
//!         runtime::spawn(async move {
//!             let (mut reader, mut writer) = socket.split();
//!             runtime::io::copy(&mut reader, &mut writer).await
//!         });
//!     }
//! }
//! ```
//!
//! # What is where
//! - [`Runtime`], [`Builder`], [`Handle`]: making a runtime, keeping a way in, ending it.
//!   [`#[runtime::main]`](main) and [`#[runtime::test]`](test) do it for you.
//! - [`spawn`] starts a task. [`task`] has the rest about tasks, blocking closures included.
//! - [`parallel`]: [`join`](parallel::join), [`scope`](parallel::scope) and the rest of fork-join. A task
//!   waits for a computation by [`compute()`].
//! - [`net`], [`io`]: sockets and pipes, and reading and writing. `fs`: files. `process`: child processes.
//!   [`signal`]: Ctrl-C and Unix signals.
//! - [`time`]: sleeping, time-outs, intervals, and a clock that tests can pause.
//! - [`sync`]: channels, locks and notifications, which work with any runtime.
//! - [`select!`], [`join!`], [`try_join!`], [`pin!`], [`task_local!`].
//! - [`Handle::metrics`]: what the runtime knows of itself.
//!
//! # Features
//! Everything is on, except files and child processes, which `fs`, `process` or `full` switch on. The names
//! of Tokio's other stable features exist, so that a program that asks for them compiles, but they change
//! nothing. Those of Tokio's optional dependencies, such as `tracing`, do not exist, except `parking_lot`.
//! `hyper` adds hyper 1.x's traits on this crate's types. `abort-on-detached-panic`, `raw-os-errors` and
//! `tokio-panics` are for the crates that stand in for Rayon and Tokio. `tokio-strict` panics also where
//! Tokio does not allow what this crate allows.
//!
//! # How it works
//! Each file begins with its purpose. A file that holds a protocol says why the protocol is right. Begin with
//! the book's chapter *Architecture*, or with `scheduler/mod.rs`.
#![warn(missing_docs)]
// In a model's build these modules are public, and some of their items are not used.
#![cfg_attr(loom, allow(missing_docs, missing_debug_implementations, dead_code))]
#![cfg_attr(loom, allow(clippy::new_without_default, clippy::len_without_is_empty))]

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("`runtime` supports 64-bit Linux; no other system is tested yet");

mod config;
mod coop;
mod driver;
mod job;
mod loom;
mod macros;
mod memory;
mod queue;
mod scheduler;
mod sets;
mod util;

#[cfg(all(feature = "fs", not(loom)))]
pub mod fs;
#[cfg(feature = "hyper")]
pub mod hyper;
pub mod io;
pub mod net;
pub mod parallel;
#[cfg(all(feature = "process", not(loom)))]
pub mod process;
pub mod runtime;
pub mod signal;
pub mod sync;
pub mod task;
pub mod time;

pub use crate::parallel::{Compute, compute};
pub use crate::runtime::{Builder, Handle, Runtime, Stall};
pub use crate::task::spawn;
pub use runtime_macros::{main, test};

// Items that the exported macros use.
#[doc(hidden)]
pub mod __private {
    pub use crate::macros::maybe_done::maybe_done;
    pub use crate::macros::{always_first, poll_budget};
    pub use crate::task::local::LocalSlot;
    pub use crate::util::rand::thread_below;
}

// Items that `loom-tests` drives.
#[cfg(loom)]
#[doc(hidden)]
#[allow(missing_docs)]
pub mod internals {
    pub use crate::loom::{DEQUE_CAPACITY, RING_CAPACITY};

    pub mod queue {
        pub use crate::queue::intrusive_list::set_next;
        pub use crate::queue::{
            Deque, Inbox, Injector, IntrusiveList, Linked, Local, Next, Taken, TicketQueue,
        };
    }

    pub mod job {
        pub use crate::job::{CoreLatch, CountLatch, CrossLatch, Latch, Owner, SpinLatch, ThreadLatch};
        pub use crate::job::{Question, Region, StackJob, Tag};
    }

    pub mod io {
        pub use crate::driver::io::{
            Arm, Direction, Finish, Hold, Readiness, Ready, ReadyEvent, Retracted, Source, SourceKind,
        };
    }

    pub mod time {
        pub use crate::driver::time::deadline::NANOS_PER_TICK;
        pub use crate::driver::time::entry::{TimerEntry, TimerState};
        pub use crate::driver::time::shard::{Shard, ShutDown};
        pub use crate::driver::time::{Deadline, TimeDriver};
    }

    pub mod task {
        pub use crate::task::cell::Header;
        pub use crate::task::owned::Owned;
        pub use crate::task::raw::{Runnable, Schedule};
        pub use crate::task::reserved::Reserved;
        pub use crate::task::state::{AfterDetach, AfterPoll, AfterWake, Snapshot, Start, State};

        use crate::task::{AbortHandle, JoinHandle, JoinSet};
        use std::future::Future;
        use std::panic::Location;
        use std::ptr::NonNull;

        /// # Safety
        /// As `crate::task::new`.
        #[track_caller]
        pub unsafe fn new<F: Future + 'static, S: Schedule>(
            future: F,
            scheduler: NonNull<S>,
        ) -> (Runnable, JoinHandle<F::Output>) {
            crate::task::introduce_wakers();
            // SAFETY: the caller's.
            unsafe { crate::task::new(future, scheduler, Location::caller()) }
        }

        pub fn insert<T: 'static>(set: &mut JoinSet<T>, handle: JoinHandle<T>) -> AbortHandle {
            set.insert(handle)
        }
    }

    pub mod scheduler {
        pub use crate::config::{Config, Flavor};
        pub use crate::scheduler::context::enter_runtime;
        pub use crate::scheduler::enter::enter_worker;
        pub use crate::scheduler::hints::samplers::Samplers;
        pub use crate::scheduler::idle::{Idle, JobEvents, Pick, Work};
        pub use crate::scheduler::injected::InjectedJobs;
        pub use crate::scheduler::park::Parker;
        pub use crate::scheduler::processor::LifoSlot;
        pub use crate::scheduler::wait::Host;
        pub use crate::scheduler::{JobProcessor, OwnJobs, Shared, Worker, WorkerStart, in_place, monitor};
    }

    pub mod blocking {
        pub use crate::scheduler::blocking::queue::{Next, PendingWake, PoolQueue, PoolThread, Refused};
    }

    pub mod stdio {
        pub use crate::io::stdio::input::Input;
        pub use crate::io::stdio::output::Output;

        /// Notes that wakers of this kind do not block. A foreign one would be called on a thread that the
        /// model does not see.
        pub fn never_blocks(waker: &std::task::Waker) {
            crate::coop::introduce_parker(waker);
        }
    }

    pub mod driver {
        pub use crate::driver::Driver;
        pub use crate::driver::foreign::{ForeignWakes, Waking};
        pub use crate::driver::io::IoDriver;
        pub use crate::driver::time::TimeDriver;
        pub use crate::driver::time::entry::TimerEntry;
    }

    pub use crate::loom::byte_lock::ByteLock;
    pub use crate::loom::thread;
    pub use crate::util::block_on::block_on;
}
