//! What a task asks of its runtime: where it goes when woken, its owner, and where its memory comes from.

use std::alloc::Layout;
use std::panic::Location;
use std::ptr::NonNull;

use super::context;
use super::current_thread;
use super::idle::Work;
use super::reference::Reference;
use super::shared::Shared;
use super::worker::Worker;
use crate::config::UnhandledPanic;
use crate::config::observer::Observer;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::memory;
use crate::task::{Header, Id, Runnable, Schedule};

/// Queues a task that the calling thread has woken. That thread is no worker of the runtime, or a worker that
/// does not come back to its queues soon, or a worker that is also a worker of another runtime.
///
/// # Safety
/// 1. `shared` is valid for the whole call.
#[inline(never)]
unsafe fn schedule_elsewhere(shared: NonNull<Shared>, task: Runnable) {
    context::with_worker_of(shared, |worker| match worker {
        Some(worker) if worker.takes_tasks() => worker.push(task),
        // SAFETY: (1).
        _ => unsafe { shared.as_ref() }.inject(task),
    });
}

// SAFETY: (1) a task goes to a ring, a LIFO slot or the injector, which the workers drain, and which are
// drained at shutdown; (2) cells are counted as references.
unsafe impl Schedule for Shared {
    #[inline]
    unsafe fn schedule(this: NonNull<Self>, task: Runnable) {
        context::with_worker(|newest| match newest {
            Some(worker) if worker.shared_ptr() == this && worker.is_here() => worker.push(task),
            // SAFETY: (1) is our (1).
            _ => unsafe { schedule_elsewhere(this, task) },
        });
    }

    #[inline]
    unsafe fn reschedule(this: NonNull<Self>, task: Runnable) {
        context::with_worker_of(this, |worker| match worker {
            Some(worker) if worker.takes_tasks() => worker.requeue(task),
            // SAFETY: valid for the call by our (1).
            _ => unsafe { this.as_ref() }.inject(task),
        });
    }

    #[inline]
    fn is_own_thread(this: NonNull<Self>) -> bool {
        context::with_worker_of(this, |worker| worker.is_some())
    }

    #[inline]
    unsafe fn adopt(this: NonNull<Self>, task: NonNull<Header>) -> bool {
        context::with_worker_of(this, |worker| {
            // SAFETY: `this` is valid by our (1). `enter`: (1) the worker is the calling thread, and `table`
            // is `None` while its table is lent. (2) is our (2). (3) is our (4).
            unsafe { this.as_ref().owned.enter(task, worker.and_then(Worker::table)) }
        })
    }

    #[inline]
    unsafe fn release(this: NonNull<Self>, task: NonNull<Header>) {
        // SAFETY: `this` is valid by our (1), and by our (2) `SCHEDULED` keeps the task live.
        let (state, header) = unsafe { (this.as_ref(), task.as_ref()) };
        context::with_worker_of(this, |worker| {
            match worker {
                Some(worker) => worker.processor().metrics.ended.add(1),
                // Relaxed: a number by itself.
                None => _ = state.ended_elsewhere.fetch_add(1, Relaxed),
            }
            if header.is_owned() {
                // SAFETY: (1) the worker is the calling thread, and `table` is `None` while its table is
                // lent. (2) is our (2). (3) `is_owned`: the task was entered. By our (4) it has not left.
                unsafe { state.owned.leave(task, worker.and_then(Worker::table)) };
                if let Some(observer) = &state.config.observer {
                    observer.on_terminate(header.id(), header.spawned_at());
                }
            }
        });
    }

    unsafe fn around_poll(
        this: NonNull<Self>,
        id: Id,
        spawned_at: &'static Location<'static>,
        poll: impl FnOnce(),
    ) {
        // SAFETY: (1).
        let observer = unsafe { this.as_ref() }.config.observer.as_ref();
        let worker = context::with_worker_of(this, |worker| worker.map(Worker::index));
        observer.expect("tasks are observed").around_poll(worker, id, spawned_at, poll);
    }

    unsafe fn after_panic(this: NonNull<Self>) {
        // SAFETY: (1).
        let state = unsafe { this.as_ref() };
        if state.config.unhandled_panic == UnhandledPanic::ShutdownRuntime {
            current_thread::end_by_panic(state);
        }
    }

    #[inline]
    unsafe fn allocate(this: NonNull<Self>, layout: Layout) -> NonNull<u8> {
        context::with_worker_of(this, |worker| match worker {
            Some(worker) => worker.magazine().allocate(layout, &worker.shared().depot),
            // SAFETY: (1).
            None => memory::allocate_outside(layout, unsafe { &this.as_ref().depot }),
        })
    }

    #[inline]
    unsafe fn free(this: NonNull<Self>, memory: NonNull<u8>, layout: Layout) {
        context::with_worker_of(this, |worker| match worker {
            Some(worker) => {
                worker.count_references(-1);
                // SAFETY: (1) is our (2): `allocate` gives memory of a magazine, or of the depot. The worker
                // keeps the shared state.
                unsafe { worker.magazine().free_by(memory, layout, || &worker.shared().depot) };
            }
            // SAFETY: (1) and (2) are ours.
            None => unsafe { Self::free_elsewhere(this, memory, layout) },
        });
    }
}

impl Shared {
    /// `free` on a non-worker thread.
    ///
    /// # Safety
    /// As [`Schedule::free`].
    #[inline(never)]
    unsafe fn free_elsewhere(this: NonNull<Self>, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: `free_outside`: (1) is our (2). `release_elsewhere`: (1) by our (1) the cell's reference is
        // given up, and the caller does not use `this` afterwards.
        unsafe {
            memory::free_outside(memory, layout, &this.as_ref().depot);
            Self::release_elsewhere(this);
        }
    }

    /// Queues a newborn task in the injector, or cancels it if the shutdown has begun. If the spawner is no
    /// worker, the task `is_from_outside`, and the reference of the task's cell is taken here. The spawner
    /// itself has a reference.
    #[inline(never)]
    pub fn take_newborn(&self, task: Runnable, is_from_outside: bool) {
        if let Some(observer) = &self.config.observer {
            return self.take_observed(task, is_from_outside, observer);
        }
        let refused = match self.lifecycle.has_begun() {
            true => Err(task),
            false => self.inject_newborn(task, is_from_outside),
        };
        if let Err(task) = refused {
            self.refuse(task, is_from_outside);
        }
    }

    /// Queues a newborn task as [`inject`](Self::inject) does. Once the last worker has left, gives the task
    /// back instead. A task that `is_from_outside` is counted, unless it is given back.
    #[inline]
    fn inject_newborn(&self, task: Runnable, is_from_outside: bool) -> Result<(), Runnable> {
        self.injector.push_task_unless_closed(task, is_from_outside)?;
        self.fetch_strictly(Work::Task);
        Ok(())
    }

    /// [`take_newborn`](Self::take_newborn) in a runtime that observes its tasks. All newborn tasks come
    /// here.
    fn take_observed(&self, task: Runnable, is_from_outside: bool, observer: &Observer) {
        if self.lifecycle.has_begun() {
            // Neither its beginning nor its end is told: a hook that replaces each task that ends would go on
            // for ever.
            return self.refuse(task, is_from_outside);
        }
        // The hook may drop the guard and all else by which the spawner has the runtime.
        // SAFETY: (1) the spawner has a reference now.
        let _hold = unsafe { Reference::new(self.ptr()) };
        let (this, id, spawned_at) = (self.ptr(), Id(task.id()), task.spawned_at());
        // SAFETY: (1) the task is newborn: it was in no queue, and its spawner, the calling thread, has given
        // its handle to no other thread yet.
        unsafe { task.observe() };
        observer.on_spawn(id, spawned_at);
        // SAFETY: (1) `self` is borrowed. (2) `task`, a `Runnable`, owns `SCHEDULED`. (3) This thread has
        // made the task, so it may cancel it. (4) The task is newborn.
        if !unsafe { Self::adopt(this, task.header()) } {
            self.refuse(task, is_from_outside);
            return observer.on_terminate(id, spawned_at);
        }
        let refused = context::with_worker_of(this, |worker| match worker {
            Some(worker) if worker.takes_tasks() => {
                worker.push(task);
                Ok(())
            }
            _ => self.inject_newborn(task, is_from_outside),
        });
        if let Err(task) = refused {
            self.refuse(task, is_from_outside);
        }
    }

    #[cold]
    fn refuse(&self, task: Runnable, is_from_outside: bool) {
        if is_from_outside {
            // SAFETY: (1) the handle by which the task is spawned is a reference. (2) The number is positive.
            unsafe { self.add_references(1) };
            // Relaxed: a number by itself.
            self.refused_elsewhere.fetch_add(1, Relaxed);
        }
        task.cancel();
    }
}
