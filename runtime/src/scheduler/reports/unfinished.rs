//! The names of the work that has not ended when a shutdown has waited long enough.
//!
//! [`Exit`](crate::scheduler::exit::Exit) counts the threads that have not gone. Each thread's record says
//! what it runs; see `polling.rs`. Once the shutdown has begun, a worker begins no poll, and clears its
//! record when it has returned from its last poll. So from then on its record names the work that keeps the
//! worker, or nothing. A thread without a record is only counted. Such a thread may be in a hook, or in the
//! destructor of a task that waited, or it stays for a worker that blocks.

use std::fmt;
use std::panic::Location;

use crate::scheduler::polling::Record;
use crate::scheduler::shared::Shared;
use crate::task::Id;

/// The work that had not ended when [`Runtime::shutdown_report`](crate::Runtime::shutdown_report) returned.
///
/// Its `Display` is a line for each task, and a last line with the number of other threads, if there are any.
/// It has no line feed at the end. If everything has ended, it says so.
#[derive(Debug, Clone)]
pub struct Unfinished {
    threads: usize,
    tasks: Vec<UnfinishedTask>,
}

impl Unfinished {
    /// Returns whether everything has ended.
    pub fn is_empty(&self) -> bool {
        self.threads == 0
    }

    /// Returns the number of the runtime's threads that had not ended.
    ///
    /// May be more than the number of [`tasks`](Self::tasks). While a worker is
    /// [blocked](UnfinishedTask::is_blocked), another thread stays for the work that the worker may wait for.
    /// A hook of the user, or the destructor of a task that waited, may keep a thread. If the time was short,
    /// some threads were just about to end.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Returns the work that those threads had not returned from: that of the workers by their index, then
    /// blocking closures. On a `current_thread` runtime, only blocking closures are listed.
    pub fn tasks(&self) -> &[UnfinishedTask] {
        &self.tasks
    }
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return write!(f, "everything has ended");
        }
        for (i, task) in self.tasks.iter().enumerate() {
            write!(f, "{}{task}", if i == 0 { "" } else { "\n" })?;
        }
        let (before, other) = if self.tasks.is_empty() { ("", "") } else { ("\n", "other ") };
        match self.threads.saturating_sub(self.tasks.len()) {
            0 => Ok(()),
            1 => write!(f, "{before}1 {other}thread has not ended"),
            others => write!(f, "{before}{others} {other}threads have not ended"),
        }
    }
}

/// The kind of a task in a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnfinishedKind {
    /// A future, of [`spawn`](crate::spawn) and the like, that is being polled or dropped.
    Task,
    /// A computation, of [`compute`](crate::compute()).
    Computation,
    /// A closure of [`spawn_blocking`](crate::task::spawn_blocking).
    BlockingClosure,
}

/// A task, computation or closure that a thread has not returned from.
///
/// Its `Display` is one line with all that is known.
#[derive(Clone, PartialEq, Eq)]
pub struct UnfinishedTask {
    worker: Option<usize>,
    is_spare: bool,
    id: Id,
    spawned_at: &'static Location<'static>,
    kind: UnfinishedKind,
    is_blocked: bool,
}

impl UnfinishedTask {
    /// Returns the id of the task, computation or closure.
    pub fn id(&self) -> Id {
        self.id
    }

    /// Returns where it was spawned.
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.spawned_at
    }

    /// Returns what it is.
    pub fn kind(&self) -> UnfinishedKind {
        self.kind
    }

    /// Returns the index of the worker that runs it, or `None` for a blocking closure. The index of a spare
    /// worker is at least the number of workers.
    pub fn worker(&self) -> Option<usize> {
        self.worker
    }

    /// Returns whether the thread is in [`block_in_place`](crate::task::block_in_place), sleeps in a
    /// `block_on`, or is in a call that was marked by [`mark_blocked`](crate::parallel::mark_blocked).
    pub fn is_blocked(&self) -> bool {
        self.is_blocked
    }
}

impl fmt::Debug for UnfinishedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnfinishedTask")
            .field("id", &self.id)
            .field("spawned_at", &format_args!("{}", self.spawned_at))
            .field("kind", &self.kind)
            .field("worker", &self.worker)
            .field("is_blocked", &self.is_blocked)
            .finish()
    }
}

impl fmt::Display for UnfinishedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.worker {
            Some(worker) if self.is_spare => write!(f, "spare worker {worker}: ")?,
            Some(worker) => write!(f, "worker {worker}: ")?,
            None => write!(f, "blocking thread: ")?,
        }
        let kind = match self.kind {
            UnfinishedKind::Task => "task",
            UnfinishedKind::Computation => "computation",
            UnfinishedKind::BlockingClosure => "closure",
        };
        write!(f, "{kind} {}, spawned at {}", self.id, self.spawned_at)?;
        if self.is_blocked { write!(f, ", blocked") } else { Ok(()) }
    }
}

impl Shared {
    /// The work that has not ended, once the shutdown has begun. The caller has a reference of its own,
    /// because the last worker may be about to give up its reference.
    pub fn unfinished(&self) -> Unfinished {
        let workers = self.processors.indices().filter_map(|index| {
            let processor = self.processor(index);
            let record = processor.polling.read()?;
            let kind = match record.is_computation {
                true => UnfinishedKind::Computation,
                false => UnfinishedKind::Task,
            };
            let (is_blocked, is_spare) = (processor.may_block(), index >= self.config.workers);
            Some(UnfinishedTask { is_spare, is_blocked, ..task(record, kind, Some(index)) })
        });
        let closures = self.blocking.records.read_all().into_iter();
        let closures = closures.map(|record| task(record, UnfinishedKind::BlockingClosure, None));
        // On a `current_thread` runtime, the threads that run tasks are not waited for.
        let tasks: Vec<_> = workers.filter(|_| !self.is_current_thread()).chain(closures).collect();
        // Read afterwards: if everything has ended meanwhile, nothing is reported.
        match self.lifecycle.exit().threads() {
            0 => Unfinished { threads: 0, tasks: Vec::new() },
            threads => Unfinished { threads, tasks },
        }
    }
}

fn task(record: Record, kind: UnfinishedKind, worker: Option<usize>) -> UnfinishedTask {
    let Record { id, spawned_at, .. } = record;
    UnfinishedTask { worker, is_spare: false, id, spawned_at, kind, is_blocked: false }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::loom::sync::Mutex;
    use crate::{Builder, Runtime};

    /// Closed while it is locked.
    type Gate = Arc<Mutex<()>>;

    #[track_caller]
    fn until(what: &str, condition: impl Fn() -> bool) {
        let start = Instant::now();
        while !condition() {
            assert!(start.elapsed() < Duration::from_secs(20), "still not true: {what}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn listed(runtime: &Runtime) -> usize {
        runtime.handle().shared().unfinished().tasks().len()
    }

    #[test]
    fn threads_without_a_task_are_counted_in_whole_sentences() {
        let here = Location::caller();
        let record = Record { id: Id(7), spawned_at: here, is_computation: false };
        let text = |threads, tasks| {
            let tasks = vec![task(record, UnfinishedKind::BlockingClosure, None); tasks];
            Unfinished { threads, tasks }.to_string()
        };
        let line = format!("blocking thread: closure {}, spawned at {here}", Id(7));
        assert_eq!(text(0, 0), "everything has ended");
        assert_eq!(text(1, 0), "1 thread has not ended");
        assert_eq!(text(2, 0), "2 threads have not ended");
        assert_eq!(text(1, 1), line);
        assert_eq!(text(2, 1), format!("{line}\n1 other thread has not ended"));
        assert_eq!(text(3, 1), format!("{line}\n2 other threads have not ended"));
    }

    #[test]
    fn whoever_has_returned_from_all_it_began_is_listed_with_nothing() {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).thread_keep_alive(Duration::MAX).build().unwrap();
        runtime.block_on(runtime.spawn(async {})).unwrap();
        until("the worker sleeps", || listed(&runtime) == 0);
        runtime.block_on(runtime.spawn_blocking(|| ())).unwrap();
        until("the blocking thread rests", || listed(&runtime) == 0);
        runtime.block_on(runtime.compute(|| ())).unwrap();
        until("the worker sleeps again", || listed(&runtime) == 0);
    }

    #[test]
    fn a_worker_that_has_left_its_poll_for_good_is_only_counted() {
        let (gate, hook_gate) = (Gate::default(), Gate::default());
        let (stuck, hook_stuck) = (gate.clone(), hook_gate.clone());
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).on_thread_stop(move || drop(hook_stuck.lock()));
        let runtime = builder.build().unwrap();
        let (closed, hook_closed) = (gate.lock(), hook_gate.lock());
        let task = runtime.spawn(async move { drop(stuck.lock()) });
        until("the task is stuck", || listed(&runtime) == 1);
        runtime.handle().shared().begin_shutdown();
        drop(closed);
        until("the worker is in its hook", || task.is_finished() && listed(&runtime) == 0);
        assert!(runtime.handle().shared().unfinished().threads() > 0);
        drop(hook_closed);
    }

    #[test]
    fn a_task_whose_destructor_is_stuck_is_listed() {
        struct Stuck(Gate);
        impl Drop for Stuck {
            fn drop(&mut self) {
                drop(self.0.lock());
            }
        }
        let (gate, other_gate) = (Gate::default(), Gate::default());
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (closed, other_closed) = (gate.lock(), other_gate.lock());
        let (spin, stuck) = (gate.clone(), Stuck(other_gate.clone()));
        let (send, receive) = mpsc::channel();
        runtime.spawn(async move {
            // The task lies in the worker's own queue.
            send.send(crate::spawn(async move { drop(stuck) }).id()).unwrap();
            drop(spin.lock());
        });
        let second = receive.recv_timeout(Duration::from_secs(60)).expect("the first task runs");
        runtime.handle().shared().begin_shutdown();
        drop(closed);
        until("the destructor of the second is stuck", || {
            let unfinished = runtime.handle().shared().unfinished();
            unfinished.tasks().iter().any(|task| task.id() == second)
        });
        drop(other_closed);
    }
}
