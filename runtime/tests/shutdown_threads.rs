//! Threads that are no workers spawn on several runtimes, and end before or after them. All memory of the
//! runtimes is freed in the end. (AddressSanitizer checks that none is freed twice.)

mod support;

use std::cell::RefCell;
use std::mem;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use runtime::{Builder, Handle, Runtime, task};
use support::{until, watchdog};

/// Simple random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 as usize % limit
    }
}

type Task = task::JoinHandle<[u64; 20]>;

fn spawn_on(handle: &Handle) -> Task {
    handle.spawn(async {
        task::yield_now().await;
        [1; 20]
    })
}

/// A runtime, and a reference that cannot be upgraded once all memory of the runtime is freed.
fn start(workers: usize) -> (Runtime, Weak<()>) {
    let token = Arc::new(());
    let state = Arc::downgrade(&token);
    let mut builder = match workers {
        0 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    if workers > 0 {
        builder.worker_threads(workers);
    }
    (builder.enable_all().on_thread_park(move || _ = &token).build().unwrap(), state)
}

/// Spawns, aborts and drops in the last moments of a thread.
#[derive(Default)]
struct AtExit {
    handles: Vec<Handle>,
    tasks: Vec<Task>,
}

impl Drop for AtExit {
    fn drop(&mut self) {
        for handle in &self.handles {
            let tasks = (spawn_on(handle), spawn_on(handle), handle.spawn_blocking(|| 5));
            tasks.0.abort();
            drop(tasks);
        }
        self.tasks.iter().for_each(Task::abort);
    }
}

thread_local! {
    /// Dropped after what the runtime keeps for the thread: the value that is used first is dropped last.
    static EARLY: RefCell<AtExit> = RefCell::default();
    /// Dropped before that, in most threads.
    static LATE: RefCell<AtExit> = RefCell::default();
}

/// A thread that spawns on all runtimes, sometimes in the context of another one. It aborts or drops some
/// tasks, gives some to the other threads, and keeps some handles and tasks until its thread-locals drop.
fn spawner(mut handles: Vec<Handle>, others: Arc<Mutex<Vec<Task>>>, mut random: Random) -> JoinHandle<()> {
    thread::spawn(move || {
        EARLY.with(|_| ());
        for _ in 0..random.below(600) {
            let mut any = || &handles[random.below(handles.len())];
            let _context = any().enter();
            let task = spawn_on(any());
            match random.below(5) {
                0 => drop(task),
                1 => task.abort(),
                2 => EARLY.with(|early| early.borrow_mut().tasks.push(task)),
                3 => LATE.with(|late| late.borrow_mut().tasks.push(task)),
                _ => others.lock().push(task),
            }
            if random.below(300) == 0 {
                let tasks = mem::take(&mut *others.lock());
                drop(tasks);
            }
        }
        let rest = handles.split_off(random.below(handles.len() + 1));
        EARLY.with(|early| early.borrow_mut().handles = rest);
        LATE.with(|late| late.borrow_mut().handles = handles);
    })
}

fn round(random: &mut Random) {
    let (mut runtimes, states): (Vec<_>, Vec<_>) = [0, 1, 2].map(start).into_iter().unzip();
    let handles: Vec<_> = runtimes.iter().map(|runtime| runtime.handle().clone()).collect();
    let tasks = Arc::<Mutex<Vec<_>>>::default();
    let seeds = [(); 3].map(|()| Random(1 + random.below(1 << 30) as u64));
    let threads = seeds.map(|seed| spawner(handles.clone(), tasks.clone(), seed));
    drop(handles);
    while !runtimes.is_empty() {
        let runtime = runtimes.swap_remove(random.below(runtimes.len()));
        match random.below(3) {
            0 => drop(runtime),
            1 => runtime.shutdown_background(),
            _ => runtime.block_on(task::yield_now()),
        }
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    drop(tasks);
    until("all memory is freed", || states.iter().all(|state| state.strong_count() == 0));
}

#[test]
fn threads_may_end_before_or_after_the_runtimes_on_which_they_spawn() {
    let _watchdog = watchdog();
    let mut random = Random(88_172_645_463_325_252);
    (0..20).for_each(|_| round(&mut random));
}
