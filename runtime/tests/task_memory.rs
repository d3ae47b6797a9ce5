//! The memory of tasks is freed with the layout with which it was allocated, also if many tasks live at once
//! or come one after the other.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Counts live bytes, and checks that each block is freed with the layout it was allocated with.
struct Checking;

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// Before each block: its size and alignment, and a mark.
const FRONT: usize = 32;
const MARK: usize = 0x7a5c_0001;

fn widened(layout: Layout) -> (Layout, usize) {
    let front = FRONT.max(layout.align());
    // Never overflows for what the tests allocate.
    (Layout::from_size_align(layout.size() + front, layout.align().max(16)).unwrap(), front)
}

// SAFETY: each block lies `front` bytes behind the start of a block of the system's allocator, which is
// larger by `front` and at least as aligned. `front` is a multiple of the alignment. `widened` gives the same
// result for the same layout, and does not unwind for what the tests allocate. The counting does not
// allocate.
unsafe impl GlobalAlloc for Checking {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (wide, front) = widened(layout);
        // SAFETY: the wide layout is not empty, because the front is in it. The system has the memory that
        // the tests ask for, so the block is not null. The three words before the block are inside of the
        // front, and aligned because the block and the front are.
        unsafe {
            let block = System.alloc(wide).add(front);
            block.cast::<[usize; 3]>().sub(1).write([layout.size(), layout.align(), MARK]);
            LIVE.fetch_add(layout.size(), SeqCst);
            block
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let (wide, front) = widened(layout);
        // SAFETY: the caller's block came from `alloc`, so the three words are there. If they hold the mark
        // and this layout, `front` and `wide` are those of `alloc`, and the block was not freed before.
        unsafe {
            let note = block.cast::<[usize; 3]>().sub(1);
            if note.read() != [layout.size(), layout.align(), MARK] {
                eprintln!("freed as {layout:?}, noted {:?}", note.read());
                std::process::abort();
            }
            // Not again.
            note.write([0; 3]);
            LIVE.fetch_sub(layout.size(), SeqCst);
            System.dealloc(block.sub(front), wide);
        }
    }
}

#[global_allocator]
static ALLOCATOR: Checking = Checking;

/// The tests measure the whole process: one at a time.
static ONE: Mutex<()> = Mutex::new(());

/// Sanitizers look at accesses, not at the amount of memory, and take ten times as long.
const MILLION: usize = if cfg!(any(asan, tsan)) { 100_000 } else { 1_000_000 };

fn build(workers: usize) -> runtime::Runtime {
    match workers {
        0 => runtime::Builder::new_current_thread().build().unwrap(),
        _ => runtime::Builder::new_multi_thread().worker_threads(workers).build().unwrap(),
    }
}

/// Waits until no more than `slack` bytes are live beyond `before`: other threads may be about to end.
#[track_caller]
fn assert_returns_to(before: usize, slack: usize) {
    let begin = std::time::Instant::now();
    while LIVE.load(SeqCst) > before + slack {
        let grown = LIVE.load(SeqCst) - before.min(LIVE.load(SeqCst));
        assert!(begin.elapsed().as_secs() < 20, "{grown} bytes are still there");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn a_million_live_tasks_give_their_memory_back() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    for workers in [0, 2] {
        let before = LIVE.load(SeqCst);
        let runtime = build(workers);
        let handles: Vec<_> = (0..MILLION).map(|_| runtime.spawn(std::future::pending::<()>())).collect();
        runtime.block_on(async {
            while runtime.metrics().global_queue_depth() > 0 {
                runtime::task::yield_now().await;
            }
        });
        assert_eq!(runtime.metrics().num_alive_tasks(), MILLION);
        let each = (LIVE.load(SeqCst) - before) / MILLION;
        assert!(each <= 160 + 8, "{each} bytes a task, with its handle");
        for handle in handles {
            handle.abort();
        }
        runtime.block_on(async {
            while runtime.metrics().num_alive_tasks() > 0 {
                runtime::task::yield_now().await;
            }
        });
        // A worker keeps up to 2 MiB for its next tasks.
        assert_returns_to(before, (workers + 1) * (3 << 20));
        drop(runtime);
        assert_returns_to(before, 64 << 10);
    }
}

#[test]
fn a_million_live_tasks_end_with_their_runtime() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    for workers in [0, 2] {
        let before = LIVE.load(SeqCst);
        let runtime = build(workers);
        (0..MILLION).for_each(|_| drop(runtime.spawn(std::future::pending::<()>())));
        runtime.block_on(runtime::task::yield_now());
        drop(runtime);
        assert_returns_to(before, 64 << 10);
    }
}

#[test]
fn millions_of_tasks_in_a_row_leave_nothing() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    // Ten million in an optimised build.
    let tasks = if cfg!(debug_assertions) { MILLION } else { 10 * MILLION };
    for workers in [0, 2] {
        let before = LIVE.load(SeqCst);
        let runtime = build(workers);
        let spawner = runtime.spawn(async move {
            for i in 0..tasks / 2 {
                let task = runtime::spawn(async move { i });
                if i % 64 == 0 {
                    assert_eq!(task.await.unwrap(), i);
                }
            }
        });
        // Half of them from outside.
        for i in 0..tasks / 2 {
            drop(runtime.spawn(async move { i }));
            if i % 10_000 == 0 {
                runtime.block_on(runtime::task::yield_now());
            }
        }
        runtime.block_on(spawner).unwrap();
        runtime.block_on(async {
            while runtime.metrics().num_alive_tasks() > 0 {
                runtime::task::yield_now().await;
            }
        });
        assert_eq!(runtime.metrics().spawned_tasks_count() as usize, tasks / 2 * 2 + 1);
        assert_returns_to(before, (workers + 1) * (3 << 20));
        drop(runtime);
        assert_returns_to(before, 64 << 10);
    }
}

#[test]
fn tasks_of_all_sizes_and_alignments_are_freed_as_they_were_allocated() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    #[repr(align(128))]
    struct Aligned([u8; 128]);
    let before = LIVE.load(SeqCst);
    for workers in [0, 2] {
        let runtime = build(workers);
        macro_rules! sized {
            ($($n:literal)*) => {$(
                let bytes = [7_u8; $n];
                let task = runtime.spawn(async move {
                    runtime::task::yield_now().await;
                    bytes
                });
                // Freed by the worker, by this thread, and at the end.
                drop(runtime.spawn(async move { bytes }));
                runtime.spawn(async move {
                    let _bytes = bytes;
                    std::future::pending::<()>().await;
                });
                assert_eq!(runtime.block_on(task).unwrap().len(), $n);
            )*};
        }
        for _ in 0..20 {
            sized!(0 1 8 16 24 31 33 64 100 255 500 900 1000 1024 1500 2047 3000 5000);
            let aligned = Aligned([1; 128]);
            assert_eq!(runtime.block_on(runtime.spawn(async move { aligned })).unwrap().0[0], 1);
        }
        drop(runtime);
    }
    assert_returns_to(before, 64 << 10);
}
