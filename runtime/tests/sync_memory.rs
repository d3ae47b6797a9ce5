//! What the primitives of `sync` allocate, they free, and they use no memory before they wrote to it or after
//! they freed it. Tests that count drops do not see most of this: cells, blocks and tables hold no values any
//! more when they are to be freed.

mod support;
mod sync_support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::pin::{Pin, pin};
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, Ordering::SeqCst};

use runtime::sync::{broadcast, mpsc, oneshot, watch};
use support::joined_scope;
use sync_support::*;

/// Counts the blocks of memory that are live, and fills those that are new or freed with [`POISON`].
struct Counting;

/// As a pointer it leads nowhere, and as a word of flags it has them all.
const POISON: u8 = 0xff;

/// Whether freed memory stays poisoned, because it is not used again. Sanitizers see by themselves what is
/// used too late, and would call the rest a leak.
const KEEPS_FREED: bool = !cfg!(any(asan, tsan));

thread_local! {
    /// Blocks that this thread has allocated, and how many more these are than it has freed.
    static OWN: Cell<(usize, isize)> = const { Cell::new((0, 0)) };
}

/// Live blocks of all threads with the alignment of a cache line. The test harness allocates none of these
/// while tests run.
static PADDED: AtomicIsize = AtomicIsize::new(0);

/// One test at a time: [`PADDED`] counts for the whole process. A lock of `parking_lot` would allocate a table
/// when two threads want it.
static ONE: Mutex<()> = Mutex::new(());

fn count(layout: Layout, blocks: isize) {
    let (allocated, live) = OWN.get();
    OWN.set((allocated + usize::from(blocks > 0), live + blocks));
    if layout.align() >= 64 {
        PADDED.fetch_add(blocks, SeqCst);
    }
}

// SAFETY: the system's allocator does the work, and the blocks are the system's. The counting neither
// allocates nor unwinds: the numbers are small, and a thread-local of this kind has no destructor and no
// initializer.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout, 1);
        // SAFETY: the caller's duties are the same. The system has the memory that the tests ask for, so the
        // block is as large as the layout says.
        unsafe {
            let block = System.alloc(layout);
            block.write_bytes(POISON, layout.size());
            block
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(layout, -1);
        // SAFETY: the caller gives the block up, and it is as large as the layout says. `alloc` took it from
        // the system.
        unsafe {
            block.write_bytes(POISON, layout.size());
            if !KEEPS_FREED {
                System.dealloc(block, layout);
            }
        }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Asserts that `run`, which stays on this thread, leaves no memory behind.
#[track_caller]
fn assert_frees_all(run: impl Fn()) {
    // What the first run of anything leaves in this thread stays there.
    run();
    let (_, before) = OWN.get();
    run();
    let (_, after) = OWN.get();
    assert_eq!(after - before, 0, "blocks were left behind");
}

#[test]
fn a_oneshot_channel_is_freed_by_the_side_that_leaves_last() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    for is_sent in [false, true] {
        for rx_waits in [false, true] {
            for tx_waits in [false, true] {
                for tx_first in [false, true] {
                    assert_frees_all(|| {
                        let (mut tx, mut rx) = oneshot::channel();
                        if rx_waits {
                            assert!(poll_once(Pin::new(&mut rx)).is_pending());
                        }
                        if tx_waits {
                            assert!(poll_once(pin!(tx.closed())).is_pending());
                        }
                        let send = |tx: oneshot::Sender<Box<i32>>| {
                            if is_sent { drop(tx.send(Box::new(3))) } else { drop(tx) }
                        };
                        if tx_first {
                            send(tx);
                            assert!(poll_once(Pin::new(&mut rx)).is_ready());
                        } else {
                            rx.close();
                            drop(rx);
                            send(tx);
                        }
                    });
                }
            }
        }
    }
}

#[test]
fn the_blocks_of_an_mpsc_channel_are_freed_with_it() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    for count in [0, 1, 30, 31, 32, 100] {
        for taken in [0, 1, 31, 100] {
            assert_frees_all(|| {
                let (tx, mut rx) = mpsc::unbounded_channel();
                (0..count).for_each(|n| tx.send(Box::new(n)).unwrap());
                (0..taken).for_each(|_| drop(rx.try_recv()));
                assert!(count > taken || poll_once(pin!(rx.recv())).is_pending());
                // From a block that was used before.
                (0..40).for_each(|n| tx.send(Box::new(n)).unwrap());
            });
        }
    }
}

#[test]
fn a_steady_stream_through_an_mpsc_channel_allocates_nothing() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let (tx, mut rx) = mpsc::channel(10);
    let mut exchange = |count| {
        for n in 0..count {
            tx.try_send(n).unwrap();
            assert_eq!(rx.try_recv(), Ok(n));
        }
    };
    exchange(100);
    let (before, _) = OWN.get();
    exchange(1000);
    assert_eq!(OWN.get().0, before);
}

#[test]
fn a_broadcast_channel_is_freed_with_the_values_that_it_has() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    assert_frees_all(|| {
        let (tx, mut rx) = broadcast::channel(4);
        let other = tx.subscribe();
        (0..10).for_each(|n| drop(tx.send(Box::new(n))));
        assert!(rx.try_recv().is_err() && rx.try_recv().is_ok());
        assert!(poll_once(pin!(tx.closed())).is_pending());
        drop((tx, rx, other));
    });
}

#[test]
fn the_readers_of_a_watch_channel_share_one_table_which_is_freed_with_it() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let before = PADDED.load(SeqCst);
    let (tx, rx) = watch::channel(1);
    let alone = PADDED.load(SeqCst);
    // One thread at a time needs no table, also if it prints the value.
    assert_eq!((*rx.borrow(), format!("{:?}", tx.borrow()).contains('1')), (1, true));
    assert!(format!("{rx:?}").contains("value: 1"));
    assert_eq!(PADDED.load(SeqCst), alone);
    let value = rx.borrow();
    joined_scope(|scope| {
        for _ in 0..4 {
            let thread = scope.spawn(|| {
                let both = (rx.borrow(), tx.borrow());
                assert_eq!(*both.0, *both.1);
            });
            thread.join().unwrap();
        }
    });
    assert_eq!(PADDED.load(SeqCst), alone + 1);
    drop(value);
    drop((tx, rx));
    assert_eq!(PADDED.load(SeqCst), before);
}
