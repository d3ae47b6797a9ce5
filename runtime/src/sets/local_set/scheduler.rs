//! The scheduler of a [`LocalSet`](super::LocalSet): run queue, tables, and the part that other threads
//! reach.
//!
//! The thread that made the set is its *owner*: it spawns, polls and ends the tasks. Another thread may wake
//! a task or abort it, and may drop wakers and handles. So the state is in two halves:
//! ```text
//!   Own      the owner's alone, plain code: the run queue, the tasks that wait, numbers
//!   inbox    tasks that other threads woke or aborted (queue/inbox.rs); the owner appends them to its queue
//! ```
//!
//! # A task's way
//! `SCHEDULED`, the right to poll (`task/state.rs`), goes to the thread that wakes or aborts a task that
//! waits. If that is another thread, it passes the right on by its push, and does nothing else with it. Only
//! the owner polls and drops the future.
//!
//! # Sleep
//! A poll of the set runs tasks until run queue and inbox are empty, or for one round (`ROUND`). If tasks are
//! left, it has itself polled again. If none is left, it leaves its waker in the inbox. A push by another
//! thread wakes that waker. A wake on the owner's thread pushes to the run queue. If a poll of the set is
//! going on, it looks there before it ends, and once more after it has left its waker, because foreign code
//! runs then. Otherwise the wake takes the waker out of the inbox and wakes it (`notify`). So it does when
//! the poll that goes on has had another poll of the set inside of it: that one may be waited for, and has
//! left its waker.
//!
//! # Several calls
//! Several calls of `run_until` may go on at a time, in tasks of their own. The inbox has the waker of one,
//! `last`. So each call keeps its own waker in `calls`. While there is one call, it keeps nothing: the second
//! one wakes it when it begins.
//!
//! *If `last` is a call, its waker is in the inbox, or it is about to be polled. If it is none, each call is
//! about to be polled.* A call writes `last` when it has itself woken for tasks that are left, and just before
//! it leaves its waker. Leaving it runs foreign code. If that code had another call polled, or begun, the call
//! sets `last` to none, or has no waker kept, and has itself polled again.
//!
//! A call that was `last` and ends leaves a waker in the inbox that leads nowhere, or has been woken for
//! tasks. So it takes all kept wakers out and wakes them, and the call that is polled last leaves its waker in
//! the inbox. One waker is not enough: its task may have stopped to poll the call, as a `select!` does with
//! the branch that has lost. Any other call that ends wakes `last` if tasks are queued, because its own last
//! poll may have queued them. So calls that end one after the other do not wake all the rest each time.
//!
//! Rejected: a waker in the inbox that wakes all calls. It would also cover a `last` that its task neglects
//! for long, but each wake by another thread would poll every call.
//!
//! # The end
//! The set's drop cancels the tasks: first the tasks in the run queue and in the inbox, then the waiting
//! tasks, until none lives. A task that a destructor wakes comes into the run queue and is cancelled there. A
//! task that a destructor spawns is cancelled at once. A task whose `SCHEDULED` another thread has just taken
//! is in neither queue, and its future must not outlive the drop. So the owner yields its time slice until
//! the push. The push is a few instructions away on that thread, without foreign code between. A task that is
//! being polled further up on this stack (in a destructor of a thread-local, when a task exits the process)
//! is left out.
//!
//! After the end all tasks are `DONE`, so a wake does nothing. The last waker that goes frees the cell, on
//! any thread; the future is long gone.
//!
//! # What keeps this alive
//! The set, each guard of `enter`, and each cell, hold a reference. The owner counts in `Own`, without atomic
//! operations, until the set is dropped. Other threads count what they free in `left`:
//! ```text
//!   owner                                              another thread
//!   LocalLeave left += references that Own counts;     CellFreed   left -= 1; if that makes 0: free
//!              if that makes 0: free
//! ```
//! Before LocalLeave `left` is at most 0 and only falls, so CellFreed does not make 0. After it, `left` is
//! the number of references. All changes are `AcqRel`, so the thread that frees has acquired what the others
//! did.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::future::Future;
use std::mem;
use std::panic::Location;
use std::ptr::NonNull;
use std::task::Waker;

use super::own::Own;
use crate::coop;
use crate::loom::cell::UnsafeCell;
use crate::loom::sync::atomic::AtomicUsize;
use crate::loom::sync::atomic::Ordering::AcqRel;
use crate::loom::thread;
use crate::queue::Inbox;
use crate::runtime::spawn::LARGE;
use crate::scheduler::context;
use crate::task::{self, Header, JoinHandle, Runnable, Schedule};
use crate::util::unwind::{drop_quietly, run_quietly};

/// The number of tasks that one poll of the set runs before the thread's other work has its turn.
const ROUND: usize = 61;
/// The owner looks in the inbox once in this many tasks, even if tasks are in the run queue.
const INBOX_INTERVAL: u32 = 31;

/// See the module's docs.
pub struct LocalScheduler {
    /// The owner, by the number of its thread, which no other thread has or had.
    owner: usize,
    own: UnsafeCell<Own>,
    inbox: Inbox<Header>,
    /// References that the owner does not count; see *what keeps this alive*.
    left: AtomicUsize,
}

// SAFETY: `own` is the owner's: its methods are unsafe, and ask for the owner's thread. All other fields are
// made for all threads.
unsafe impl Send for LocalScheduler {}
// SAFETY: as above.
unsafe impl Sync for LocalScheduler {}

impl LocalScheduler {
    /// Makes the state of a set of the calling thread, with a reference for the set.
    pub fn new() -> NonNull<Self> {
        task::introduce_wakers();
        let own = Own::new();
        NonNull::from(Box::leak(Box::new(Self {
            owner: thread::number(),
            own: UnsafeCell::new(own),
            inbox: Inbox::new(),
            left: AtomicUsize::new(0),
        })))
    }

    /// Calls `f` with the owner's part.
    ///
    /// # Safety
    /// 1. The caller is the owner. 2. `f` runs no foreign code, and does not come back here.
    unsafe fn with_own<R>(&self, f: impl FnOnce(&mut Own) -> R) -> R {
        // SAFETY: by (1) no other thread has a reference to it. By (2) no other reference of this thread is
        // in use.
        self.own.with_mut(|own| f(unsafe { &mut *own }))
    }

    /// Makes a task of `future`.
    ///
    /// # Safety
    /// 1. The caller is the owner. 2. `this` is valid.
    pub unsafe fn spawn<F: Future + 'static>(
        this: NonNull<Self>,
        future: F,
        site: &'static Location<'static>,
    ) -> JoinHandle<F::Output> {
        // SAFETY: (1) and (2).
        unsafe {
            match size_of::<F>() > LARGE {
                true => Self::spawn_small(this, Box::pin(future), site),
                false => Self::spawn_small(this, future, site),
            }
        }
    }

    /// # Safety
    /// As [`spawn`](Self::spawn).
    unsafe fn spawn_small<F: Future + 'static>(
        this: NonNull<Self>,
        future: F,
        site: &'static Location<'static>,
    ) -> JoinHandle<F::Output> {
        // SAFETY: (1) tasks run on the owner's thread, which is the caller's by our (1). A handle that leaves
        // that thread has an output that is `Send`. (2) By our (2) `this` is valid now. From then on the cell
        // counts a reference (`allocate`).
        let (task, handle) = unsafe { task::new(future, this, site) };
        // SAFETY: `this` is valid by our (2). `with_own`: (1), and (2) the closure reads a flag. `run`: (1).
        // `push`: (1), and (2) is our (2).
        unsafe {
            match this.as_ref().with_own(|own| own.is_closed) {
                true => this.as_ref().run(task, Runnable::cancel),
                false => Self::push(this, task),
            }
        }
        handle
    }

    /// Puts a task into the run queue, and has the set polled.
    ///
    /// # Safety
    /// 1. The caller is the owner. 2. `this` is valid when the call begins. The waker may drop the set, which
    ///    frees it.
    unsafe fn push(this: NonNull<Self>, task: Runnable) {
        // SAFETY: `this` is valid by (2). `with_own`: (1), and (2) the closure queues the task and reads a
        // flag. `notify`: (1) until here no foreign code has run.
        unsafe {
            let is_polled = this.as_ref().with_own(|own| {
                own.queue.push_task(task);
                own.is_polled
            });
            if !is_polled {
                Self::notify(this);
            }
        }
    }

    /// Takes the next task that is to be polled.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    unsafe fn next_task(&self) -> Option<Runnable> {
        // SAFETY: (1). (2) The closure moves tasks between queues, and runs none of them.
        unsafe {
            self.with_own(|own| {
                own.ticks = own.ticks.wrapping_add(1);
                if own.queue.is_empty() || own.ticks % INBOX_INTERVAL == 0 {
                    own.queue.append(self.inbox.take_all());
                }
                own.queue.pop_task()
            })
        }
    }

    /// Polls or cancels a task by `how`.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    unsafe fn run(&self, task: Runnable, how: impl FnOnce(Runnable)) {
        // SAFETY: (1). (2) The closures only count. `how` runs between them. It may free the task's cell, but
        // the state stays. The set, which is polled or dropped meanwhile, has a reference. In `spawn_small`
        // the new handle keeps the cell, which has one.
        unsafe {
            let outer = self.with_own(|own| {
                own.running += 1;
                mem::replace(&mut own.is_uncounted, false)
            });
            how(task);
            self.with_own(|own| {
                own.running -= usize::from(!mem::replace(&mut own.is_uncounted, outer));
            });
        }
    }

    /// Polls tasks for one round. Returns whether more tasks wait.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    pub unsafe fn run_round(&self) -> bool {
        // The record of the surrounding poll is put back afterwards.
        coop::suspended(|| {
            for _ in 0..ROUND {
                // SAFETY: (1).
                unsafe { self.check_panicked() };
                // SAFETY: (1).
                match unsafe { self.next_task() } {
                    // SAFETY: (1).
                    Some(task) => unsafe { self.run(task, Runnable::run) },
                    None => return false,
                }
            }
            // SAFETY: (1).
            unsafe {
                self.check_panicked();
                self.has_queued()
            }
        })
    }

    /// Whether tasks wait to be polled.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    pub unsafe fn has_queued(&self) -> bool {
        // SAFETY: (1). (2) The closure looks at the queue.
        unsafe { !self.with_own(|own| own.queue.is_empty()) || !self.inbox.is_empty() }
    }

    /// Whether all tasks have ended.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    pub unsafe fn is_done(&self) -> bool {
        // SAFETY: (1). (2) The closure reads a count.
        unsafe { self.with_own(|own| own.live == 0) }
    }

    /// Has `waker` woken when a task has to be polled. Returns false if the set must be polled again at once,
    /// because another thread has woken a task, or another call was polled meanwhile. The caller has found
    /// the run queue empty, and looks there again afterwards.
    ///
    /// # Safety
    /// 1. The caller is the owner. 2. It is in a poll of call `call`, or of the set itself.
    pub unsafe fn wait(&self, waker: &Waker, call: Option<usize>) -> bool {
        // SAFETY: (1). (2) The closures write and compare numbers. The inbox, which runs foreign code, is used
        // between them.
        unsafe {
            self.with_own(|own| own.calls.set_last(call));
            let is_waiting = self.inbox.wait(waker);
            let is_disturbed = self.with_own(|own| {
                let is_last = own.calls.last() == call;
                if !is_last {
                    own.calls.set_last(None);
                }
                !is_last || call.is_some_and(|number| own.calls.lacks_waker(number))
            });
            is_waiting && !is_disturbed
        }
    }

    /// Notes that call `call`, or the set itself, has itself woken for tasks that are left.
    ///
    /// # Safety
    /// 1. The caller is the owner. 2. It is in a poll of that call, or of the set.
    pub unsafe fn note_busy(&self, call: Option<usize>) {
        // SAFETY: (1). (2) The closure writes a number.
        unsafe { self.with_own(|own| own.calls.set_last(call)) }
    }

    /// Wakes the task that waits in [`wait`](Self::wait), if there is one.
    ///
    /// # Safety
    /// 1. `this` is valid when the call begins. The waker may drop the set, which frees it.
    unsafe fn notify(this: NonNull<Self>) {
        // SAFETY: (1). The reference ends before the wake, because a reference must not outlive what it
        // refers to.
        let waker = unsafe { this.as_ref().inbox.take_waker() };
        waker.into_iter().for_each(context::wake);
    }

    /// Notes a call of `run_until`, and returns its number.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    pub unsafe fn begin_call(&self) -> usize {
        // SAFETY: (1). (2) The closure notes the call.
        let (number, is_second) = unsafe {
            self.with_own(|own| {
                let number = own.calls.begin();
                (number, own.calls.len() == 2)
            })
        };
        if is_second {
            // The first one keeps its waker when it is polled.
            // SAFETY: (1) `self` is valid. The caller's set keeps it during the wake.
            run_quietly(|| unsafe { Self::notify(self.into()) });
        }
        number
    }

    /// Keeps a call's waker, while other calls go on.
    ///
    /// # Safety
    /// 1. The caller is the owner. 2. It is in a poll of call `number`.
    pub unsafe fn keep_waker(&self, number: usize, waker: &Waker) {
        // SAFETY: (1). (2) The closures compare the addresses of wakers and replace one. The clone, and the
        // drop of the older waker, are foreign code, and happen outside.
        unsafe {
            if self.with_own(|own| own.calls.must_keep(number, waker)) {
                let waker = waker.clone();
                let older = self.with_own(|own| own.calls.keep(number, waker));
                drop(older);
            }
        }
    }

    /// Removes a call, and wakes the others if they may have to poll the set's tasks in its place.
    ///
    /// # Safety
    /// 1. The caller is the owner. 2. `number` is of `begin_call`, and was not given here since.
    pub unsafe fn end_call(&self, number: usize) {
        // SAFETY: (1). (2) The closure takes wakers out, and neither wakes nor drops them.
        let (ended, others, has_last) = unsafe {
            self.with_own(|own| {
                let ended = own.calls.end(number);
                let has_last = own.calls.last().is_some();
                (ended, if has_last { Vec::new() } else { own.calls.take_kept() }, has_last)
            })
        };
        // SAFETY: `has_queued`: (1). `notify`: (1) `self` is valid. The caller's set keeps it during the wake.
        unsafe {
            if has_last && self.has_queued() {
                run_quietly(|| Self::notify(self.into()));
            }
        }
        drop_quietly(ended);
        for waker in others {
            run_quietly(|| waker.wake());
        }
    }

    /// Notes that a poll of the set begins or ends.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    pub unsafe fn note_poll(&self, begins: bool) {
        // SAFETY: (1). (2) The closure writes a flag.
        unsafe { self.with_own(|own| own.is_polled = begins) }
    }

    /// Cancels all tasks, and every task that is spawned from now on. See *the end*.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    pub unsafe fn shut_down(&self) {
        // SAFETY: `next_task`, `run`: (1). `with_own`: (1), and (2) the closures set a flag, and move tasks
        // to the queue, and run none of them. `claim_idle`: (1) tasks in the table live, because they leave
        // it before they are `DONE`.
        unsafe {
            self.with_own(|own| own.is_closed = true);
            loop {
                while let Some(task) = self.next_task() {
                    self.run(task, Runnable::cancel);
                }
                // Into the queue: a destructor may come here, too, and needs the tasks that are left.
                let is_over = self.with_own(|own| {
                    let claimed = own.tasks.iter().filter_map(|task| Runnable::claim_idle(task));
                    claimed.for_each(|task| own.queue.push_task(task));
                    own.live == own.running
                });
                if is_over {
                    return;
                }
                if !self.has_queued() {
                    // Other threads are about to push the other tasks into the inbox.
                    thread::yield_now();
                }
            }
        }
    }

    /// Says that a task's panic is the end of the set.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    pub unsafe fn end_by_panic(&self, ends: bool) {
        // SAFETY: (1). (2) The closure sets a flag.
        unsafe { self.with_own(|own| own.ends_by_panic = ends) }
    }

    /// Whether a task has panicked and `ends_by_panic` was set.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    pub unsafe fn has_panicked(&self) -> bool {
        // SAFETY: (1). (2) The closure reads a flag.
        unsafe { self.with_own(|own| own.has_panicked) }
    }

    /// Ends the set and panics, if a task has panicked and `ends_by_panic` was set. Tasks that are being
    /// polled further up on the stack are left out.
    ///
    /// # Safety
    /// 1. The caller is the owner.
    unsafe fn check_panicked(&self) {
        // SAFETY: (1).
        if unsafe { self.has_panicked() } {
            // SAFETY: (1).
            unsafe { self.shut_down() };
            panic!("a spawned task panicked and the LocalSet is configured to shutdown on unhandled panic");
        }
    }

    /// Takes another reference.
    ///
    /// # Safety
    /// 1. The caller is the owner. 2. The set has not begun to `leave`.
    pub unsafe fn retain(&self) {
        // SAFETY: (1). (2) The closure only counts.
        unsafe { self.with_own(|own| own.references += 1) };
    }

    /// Gives up a reference. For any thread.
    ///
    /// # Safety
    /// 1. The caller has a reference.
    pub unsafe fn release(this: NonNull<Self>) {
        // SAFETY: our (1) keeps `this` valid until the reference is given up. `with_own`: (1) `is_own_thread`
        // says so, and (2) the closure only counts. `Box::from_raw`: `Box` made it in `new`, and the change
        // of `left` gave up the last reference.
        unsafe {
            let is_counted = Self::is_own_thread(this)
                && this.as_ref().with_own(|own| {
                    own.references -= usize::from(!own.is_left);
                    !own.is_left
                });
            // CellFreed.
            if !is_counted && this.as_ref().left.fetch_sub(1, AcqRel) == 1 {
                drop(Box::from_raw(this.as_ptr()));
            }
        }
    }

    /// Gives up the set's reference.
    ///
    /// # Safety
    /// 1. The caller is the owner, and the set is being dropped.
    pub unsafe fn leave(this: NonNull<Self>) {
        // SAFETY: by our (1) the set's reference keeps `this` valid until LocalLeave. `with_own`: (1), and
        // (2) the closure sets a flag and reads a count. `Box::from_raw`: `Box` made it in `new`, and the
        // change of `left` says that no other reference is left.
        unsafe {
            // Wakers in foreign hands may keep this state alive for long. They must not keep alive what the
            // set's own waker keeps alive.
            this.as_ref().inbox.forget_waker();
            let others = this.as_ref().with_own(|own| {
                own.is_left = true;
                own.references - 1
            });
            // LocalLeave.
            if this.as_ref().left.fetch_add(others, AcqRel).wrapping_add(others) == 0 {
                drop(Box::from_raw(this.as_ptr()));
            }
        }
    }
}

// SAFETY: (1) a scheduled task comes into the run queue, whose tasks the owner polls, or cancels at the end;
// (2) each cell counts a reference, and the owner's thread has the set's reference until all tasks are
// `DONE`.
unsafe impl Schedule for LocalScheduler {
    unsafe fn schedule(this: NonNull<Self>, task: Runnable) {
        // SAFETY: by the caller's (1) `this` is valid, and the caller gives the task up. `push`: (1)
        // `is_own_thread` says so. (2) No foreign code has run yet. `Inbox::push`: (1) and (2) the cell lives
        // until the owner has taken the task and ended it, and keeps the inbox. (3) The caller owned
        // `SCHEDULED`, so the task is in no queue, and its right is the caller's.
        unsafe {
            if Self::is_own_thread(this) {
                return Self::push(this, task);
            }
            let inbox = NonNull::from(&this.as_ref().inbox);
            Inbox::push(inbox, task.into_raw(), context::wake).expect("it is never closed");
        }
    }

    unsafe fn reschedule(this: NonNull<Self>, task: Runnable) {
        // SAFETY: `with_own`, `push`: (1) the caller has polled the task in `run`, so it is the owner. It
        // guarantees that `this` is valid. `with_own`: (2) the closure counts. `push`: (2) no foreign code
        // has run yet.
        unsafe {
            this.as_ref().with_own(|own| own.uncount());
            Self::push(this, task);
        }
    }

    fn is_own_thread(this: NonNull<Self>) -> bool {
        // SAFETY: the caller's cell keeps it.
        unsafe { this.as_ref() }.owner == thread::number()
    }

    unsafe fn adopt(this: NonNull<Self>, task: NonNull<Header>) -> bool {
        // SAFETY: `this` is valid by our (1), and by our (2) `SCHEDULED` keeps the task live. By our (4) the
        // task is in no table. `with_own`: (1) is our (3): only the owner runs and cancels tasks. (2) The
        // closure puts the task into the table.
        unsafe {
            this.as_ref().with_own(|own| {
                if !own.is_closed {
                    task.as_ref().table.set(0);
                    task.as_ref().slot.set(own.tasks.insert(task));
                }
                !own.is_closed
            })
        }
    }

    unsafe fn release(this: NonNull<Self>, task: NonNull<Header>) {
        // SAFETY: `this` is valid by our (1), and by our (2) `SCHEDULED` keeps the task live. By our (4) the
        // task is counted, and still in the table if `is_owned`. `with_own`: (1) is our (3): only the owner
        // runs and cancels tasks. (2) The closure counts, and takes the task out of the table.
        unsafe {
            this.as_ref().with_own(|own| {
                own.live -= 1;
                own.uncount();
                if task.as_ref().is_owned() {
                    own.tasks.remove(task.as_ref().slot.get());
                }
            });
        }
    }

    unsafe fn after_panic(this: NonNull<Self>) {
        // SAFETY: the caller guarantees that `this` is valid. `with_own`: (1) only the owner polls and ends
        // tasks. (2) The closure sets flags.
        unsafe {
            this.as_ref().with_own(|own| {
                own.has_panicked |= own.ends_by_panic;
                own.is_closed |= own.ends_by_panic;
            });
        }
    }

    unsafe fn allocate(this: NonNull<Self>, layout: Layout) -> NonNull<u8> {
        // SAFETY: the caller guarantees that `this` is valid. `with_own`: (1) only the owner spawns. (2) The
        // closure only counts. `alloc`: a cell has a header, so the layout is not empty.
        unsafe {
            this.as_ref().with_own(|own| {
                // The set is gone, and only guards are left.
                if own.is_left {
                    this.as_ref().left.fetch_add(1, AcqRel);
                } else {
                    own.references += 1;
                }
                own.live += 1;
            });
            NonNull::new(alloc(layout)).unwrap_or_else(|| handle_alloc_error(layout))
        }
    }

    unsafe fn free(this: NonNull<Self>, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: `dealloc`: by the caller's (2) the memory comes from `allocate`, with this layout, and is
        // not used any more. `release`: (1) the cell's reference, which the caller's (1) gives up.
        unsafe {
            dealloc(memory.as_ptr(), layout);
            Self::release(this);
        }
    }
}
