//! A lock for a value that many threads read often and for a short time, and that is written rarely.
//!
//! Each reader writes to a slot of its own thread: one read-modify-write to enter, and a plain store to
//! leave, on a cache line to which no other reader writes. The writer pays for this: it looks at every slot.
//!
//! # States
//! ```text
//! word   bit 63 … 3         2          1         0
//!        of the owner   DRAINING   BLOCKED   WRITER
//!
//! slot   0 ── ClaimSlot ──▶ thread's number << 16 | 1 ◀── nested ──▶ … | 2 ──▶ …
//!        ▲                            │
//!        └──────── ClearSlot ─────────┘
//! ```
//! - WRITER: one thread writes, or waits for the readers to leave.
//! - BLOCKED: threads sleep until WRITER is cleared.
//! - DRAINING: the writer sleeps until readers leave.
//!
//! The bits from 3 on belong to the owner of the lock. The owner changes them while it lowers WRITER, or by
//! its own read-modify-writes. One slot lies beside the word. The first time that two threads want it at
//! once, one of them makes a table with more slots, which then stays. A reader that finds no free slot is
//! counted in `unnumbered`.
//!
//! # Steps
//! ```text
//! reader                                          writer
//! ClaimSlot    slot: 0 → own number (CAS)         RaiseWriter  WRITER: 0 → 1 (CAS)
//! CheckWriter  WRITER? ClearSlot, sleep, again    ScanSlots    wait until every slot is 0
//! …            read                               …            write
//! ClearSlot    slot := 0                          LowerWriter  WRITER: 1 → 0, and the owner's bits
//! ```
//! A thread that holds a slot already and reads again only counts up its slot. No writer can be active,
//! because the slot is not 0, so CheckWriter is not needed. So a nested read waits for no other thread, not
//! even for a writer that waits. A thread that is counted in `unnumbered` holds no slot, so its nested reads
//! do wait.
//!
//! # The race
//! A reader claims its slot while a writer raises WRITER, and each looks for the other too early.
//!
//! # Ordering
//! ClaimSlot, CheckWriter, RaiseWriter and ScanSlots are `SeqCst`, so all threads agree on one order of them.
//! If CheckWriter does not see RaiseWriter, it comes before RaiseWriter in that order. So does ClaimSlot,
//! which the same thread did earlier. ScanSlots comes after RaiseWriter and sees ClaimSlot. A `SeqCst` CAS
//! publishes the table before a slot in it is claimed, and ScanSlots loads the table's address by a `SeqCst`
//! load. On x86-64 this costs no fence, because a read-modify-write is one. `model_fence` tells loom.
//!
//! LowerWriter is Release and pairs with CheckWriter (the reader sees what was written) and with RaiseWriter
//! (the next writer sees it). ClearSlot is Release and pairs with ScanSlots, so the reads of a reader come
//! before the next write.
//!
//! # Sleeping
//! A reader or writer that finds WRITER sets BLOCKED and sleeps. LowerWriter sees BLOCKED in the word that it
//! changes. The sleeper holds the lock of `sleepers` from before BLOCKED until it sleeps, and the waker takes
//! that lock.
//!
//! A writer that waits long for a reader sets DRAINING. ClearSlot is a plain store, so the look at DRAINING
//! that follows may come too early, and then the reader does not wake the writer. A fence would cost as much
//! as all the rest. So the writer also looks by itself, every [`LOOK`].
//!
//! # Deadlocks
//! A slot names its thread, and `writer` names the thread that writes. So a thread that would wait for itself
//! panics with a message that says what to do, where Tokio's lock hangs. `unnumbered` names no thread: a
//! reader that is counted there and then writes hangs, too.
//!
//! # Rejected
//! - One count of readers in the word: two read-modify-writes for each reader, on a line that all readers
//!   share.
//! - A slot for each receiver, not for each thread: the writer of a channel with 100 receivers would look at
//!   100 lines.
//! - One table for the whole process: a writer would look at the slots of all threads.
//! - `membarrier`, which would make ClaimSlot a plain store: a system call for each writer.
//!
//! Prior art: Linux's `brlock`, which gave the name; Dice and Kogan, *BRAVO: Biased Locking for Reader-Writer
//! Locks* (2019), where readers publish themselves in a table by a hash of the thread.

use std::fmt;
use std::iter;
use std::marker::PhantomData;
use std::ptr;
use std::time::{Duration, Instant};

use crate::loom::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::loom::sync::atomic::{AtomicPtr, AtomicUsize};
use crate::loom::sync::{Condvar, Mutex};
use crate::loom::{READER_SLOTS, WAITS_AWAKE, hint, model_fence, thread};
use crate::util::block_on::blocking;
use crate::util::pad::CachePadded;

const WRITER: usize = 1;
const BLOCKED: usize = 2;
const DRAINING: usize = 4;
/// The bits from here on belong to the owner.
pub(super) const OWNERS_SHIFT: u32 = 3;

/// The number of bits in which a slot counts its thread's nested reads.
const DEPTH_BITS: u32 = 16;
const DEPTH: usize = (1 << DEPTH_BITS) - 1;

/// The number of looks in a row before a thread lets others have the CPU: some two microseconds.
const SPINS: u32 = 64;
/// The number of looks that each let others have the CPU, before a thread sleeps.
const YIELDS: u32 = 16;
/// How long a writer that waits for readers sleeps between two looks.
const LOOK: Duration = Duration::from_millis(1);

type Slot = AtomicUsize;

/// The slots of a lock that many threads read at once.
struct Table([CachePadded<Slot>; READER_SLOTS]);

/// The lock. Its owner says what it guards.
pub(super) struct BigReaderLock {
    word: AtomicUsize,
    /// The slot that readers use while there is no table.
    first: Slot,
    /// Null until two threads want `first` at once. It never changes after that.
    table: AtomicPtr<Table>,
    /// The number of readers that found no slot.
    unnumbered: AtomicUsize,
    /// The stamp of the thread that has set WRITER, or 0.
    writer: AtomicUsize,
    /// Held to fall asleep and to wake sleepers.
    sleepers: Mutex<()>,
    changed: Condvar,
}

impl BigReaderLock {
    pub(super) fn new() -> Self {
        Self {
            word: AtomicUsize::new(0),
            first: Slot::new(0),
            table: AtomicPtr::new(ptr::null_mut()),
            unnumbered: AtomicUsize::new(0),
            writer: AtomicUsize::new(0),
            sleepers: Mutex::new(()),
            changed: Condvar::new(),
        }
    }

    /// The word, for its owner.
    #[inline]
    pub(super) fn word(&self) -> &AtomicUsize {
        &self.word
    }

    /// Enters as a reader, and waits for a writer to leave. Also returns the word. Until the `Reading` is
    /// dropped, no writer gets past ScanSlots. So the owner's bits that only [`finish`](Writing::finish)
    /// changes stay as they are in that word.
    ///
    /// # Panics
    /// If the calling thread is the writer.
    #[inline]
    #[track_caller]
    pub(super) fn read(&self) -> (Reading<'_>, usize) {
        let stamp = stamp();
        let slot = self.slot_of(stamp);
        // ClaimSlot, pairs with ScanSlots.
        if slot.compare_exchange(0, stamp | 1, SeqCst, Relaxed).is_ok() {
            let reading = Reading::of(self, Some(slot));
            if let Some(word) = self.check_writer() {
                return (reading, word);
            }
        }
        self.read_slowly(stamp)
    }

    /// Enters as a reader, unless it would have to wait for a writer.
    pub(super) fn try_read(&self) -> Option<Reading<'_>> {
        let stamp = stamp();
        self.nest(stamp).or_else(|| {
            let reading = self.claim_any(stamp);
            self.check_writer().map(|_| reading)
        })
    }

    /// CheckWriter, after a slot was claimed: returns the word, if no thread writes. Pairs with RaiseWriter
    /// and LowerWriter.
    #[inline]
    fn check_writer(&self) -> Option<usize> {
        model_fence();
        Some(self.word.load(SeqCst)).filter(|word| word & WRITER == 0)
    }

    #[cold]
    #[track_caller]
    fn read_slowly(&self, stamp: usize) -> (Reading<'_>, usize) {
        loop {
            if let Some(reading) = self.nest(stamp) {
                // Relaxed: no writer was active since this thread entered, so it reads at least the word that
                // it saw then.
                return (reading, self.word.load(Relaxed));
            }
            let reading = self.claim_any(stamp);
            if let Some(word) = self.check_writer() {
                return (reading, word);
            }
            // The writer waits for this reading.
            drop(reading);
            self.assert_not_writing(stamp);
            self.wait_for_writer();
        }
    }

    /// Counts up the slot that the calling thread holds, if it holds one.
    fn nest(&self, stamp: usize) -> Option<Reading<'_>> {
        // Relaxed, both: only the thread itself writes to its slot.
        self.slots().find_map(|slot| {
            let held = slot.load(Relaxed);
            if held & !DEPTH != stamp || held & DEPTH == DEPTH {
                return None;
            }
            slot.store(held + 1, Relaxed);
            Some(Reading::of(self, Some(slot)))
        })
    }

    /// ClaimSlot, with any slot that is free, or with none.
    fn claim_any(&self, stamp: usize) -> Reading<'_> {
        let claim = |slot: &&Slot| slot.compare_exchange(0, stamp | 1, SeqCst, Relaxed).is_ok();
        let is_crowded = self.table().is_some();
        if !is_crowded && claim(&&self.first) {
            return Reading::of(self, Some(&self.first));
        }
        let Table(slots) = self.table().unwrap_or_else(|| self.make_table());
        let own = place(stamp);
        let mut in_turn = slots[own..].iter().chain(&slots[..own]).map(|slot| &**slot);
        let slot = in_turn.find(claim);
        if slot.is_none() {
            // ClaimSlot, for a reader without a slot.
            self.unnumbered.fetch_add(1, SeqCst);
        }
        Reading::of(self, slot)
    }

    /// ClearSlot.
    #[inline]
    fn leave(&self, slot: Option<&Slot>) {
        match slot {
            Some(slot) => {
                // Relaxed: only the thread itself writes to its slot.
                let held = slot.load(Relaxed);
                let is_last = held & DEPTH == 1;
                slot.store(if is_last { 0 } else { held - 1 }, Release);
            }
            None => _ = self.unnumbered.fetch_sub(1, Release),
        }
        // Relaxed: a hint, because the writer also looks by itself.
        if self.word.load(Relaxed) & DRAINING != 0 {
            self.wake_sleepers();
        }
    }

    /// RaiseWriter and ScanSlots: waits until the calling thread is alone.
    ///
    /// # Panics
    /// If the calling thread is the writer, or a reader.
    #[inline]
    #[track_caller]
    pub(super) fn write(&self) -> Writing<'_> {
        let stamp = stamp();
        let mut word = self.word.load(Relaxed);
        loop {
            if word & WRITER != 0 {
                self.assert_not_writing(stamp);
                self.assert_not_reading(stamp);
                self.wait_for_writer();
                word = self.word.load(Relaxed);
                continue;
            }
            // RaiseWriter, pairs with CheckWriter, and with LowerWriter of the last writer.
            match self.word.compare_exchange_weak(word, word | WRITER, SeqCst, Relaxed) {
                Ok(_) => break,
                Err(actual) => word = actual,
            }
        }
        model_fence();
        // Relaxed: it concerns this thread alone.
        self.writer.store(stamp, Relaxed);
        let mut writing = Writing { lock: self, flags: WRITER, _not_send: PhantomData };
        // ScanSlots, pairs with ClaimSlot and ClearSlot. If this panics, `writing` lowers WRITER.
        for slot in self.slots().chain(iter::once(&self.unnumbered)) {
            if slot.load(SeqCst) != 0 {
                self.assert_not_reading(stamp);
                self.drain(slot, &mut writing);
            }
        }
        writing
    }

    /// Panics if the calling thread is the writer.
    #[track_caller]
    fn assert_not_writing(&self, stamp: usize) {
        // Relaxed: a thread sees what it stored itself, and no other thread stores its stamp.
        assert!(
            self.writer.load(Relaxed) != stamp,
            "this thread is changing the value of this watch channel: use the reference that the closure was \
             given, and send when it has returned"
        );
    }

    /// Panics if the calling thread is a reader with a slot.
    #[track_caller]
    fn assert_not_reading(&self, stamp: usize) {
        // Relaxed: as above.
        assert!(
            self.slots().all(|slot| slot.load(Relaxed) & !DEPTH != stamp),
            "this thread holds a `Ref` of this watch channel, for which a send waits: drop it first"
        );
    }

    /// Waits until `slot` is 0.
    #[cold]
    fn drain(&self, slot: &Slot, writing: &mut Writing<'_>) {
        // Acquire, here and below: pairs with ClearSlot.
        let is_clear = || slot.load(Acquire) == 0;
        if wait_awake(is_clear) {
            return;
        }
        blocking(|| {
            let mut sleepers = self.sleepers.lock();
            if writing.flags & DRAINING == 0 {
                writing.flags |= DRAINING;
                self.word.fetch_or(DRAINING, SeqCst);
            }
            while !is_clear() {
                self.changed.wait_until(&mut sleepers, Instant::now() + LOOK);
            }
        });
    }

    /// Waits until the writer, if there is one, has left.
    #[cold]
    fn wait_for_writer(&self) {
        // Relaxed: a hint, because the caller looks again.
        if wait_awake(|| self.word.load(Relaxed) & WRITER == 0) {
            return;
        }
        blocking(|| {
            let mut sleepers = self.sleepers.lock();
            let mut word = self.word.load(Relaxed);
            while word & WRITER != 0 {
                let next = word | BLOCKED;
                // Relaxed: the lock orders the threads that sleep and the threads that wake them.
                match self.word.compare_exchange(word, next, Relaxed, Relaxed) {
                    Ok(_) => {
                        self.changed.wait(&mut sleepers);
                        word = self.word.load(Relaxed);
                    }
                    Err(actual) => word = actual,
                }
            }
        });
    }

    #[cold]
    fn wake_sleepers(&self) {
        let _sleepers = self.sleepers.lock();
        self.changed.notify_all();
    }

    /// The slots that exist.
    fn slots(&self) -> impl Iterator<Item = &Slot> {
        let table = self.table().map(|Table(slots)| slots).into_iter().flatten();
        iter::once(&self.first).chain(table.map(|slot| &**slot))
    }

    /// The slot that the thread with `stamp` tries first.
    #[inline]
    fn slot_of(&self, stamp: usize) -> &Slot {
        self.table().map_or(&self.first, |Table(slots)| &slots[place(stamp)])
    }

    #[inline]
    fn table(&self) -> Option<&Table> {
        // SeqCst: pairs with the CAS in `make_table`, as the module docs say.
        let table = self.table.load(SeqCst);
        // SAFETY: the pointer is null, or `make_table` published it. The drop of the lock frees the table.
        unsafe { table.as_ref() }
    }

    #[cold]
    fn make_table(&self) -> &Table {
        let fresh = Box::into_raw(Box::new(Table(std::array::from_fn(|_| CachePadded::new(Slot::new(0))))));
        match self.table.compare_exchange(ptr::null_mut(), fresh, SeqCst, SeqCst) {
            // SAFETY: the table is published, and the drop of the lock frees it.
            Ok(_) => unsafe { &*fresh },
            Err(theirs) => {
                // SAFETY: this thread made the table and did not publish it.
                drop(unsafe { Box::from_raw(fresh) });
                // SAFETY: another thread published the table, and the drop of the lock frees it.
                unsafe { &*theirs }
            }
        }
    }
}

// A panic leaves the word and the slots as their methods do.
impl std::panic::UnwindSafe for BigReaderLock {}
impl std::panic::RefUnwindSafe for BigReaderLock {}

impl Drop for BigReaderLock {
    fn drop(&mut self) {
        // Relaxed: `&mut self` comes after everything else.
        let table = self.table.load(Relaxed);
        if !table.is_null() {
            // SAFETY: `Box` made the table in `make_table`, and no other thread has the lock any more.
            drop(unsafe { Box::from_raw(table) });
        }
    }
}

impl fmt::Debug for BigReaderLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word.load(Relaxed);
        f.debug_struct("BigReaderLock")
            .field("is_written", &(word & WRITER != 0))
            .field("is_crowded", &self.table().is_some())
            .finish_non_exhaustive()
    }
}

/// A reader inside of a [`BigReaderLock`].
pub(super) struct Reading<'a> {
    lock: &'a BigReaderLock,
    /// `None` if the reader is counted in `unnumbered`.
    slot: Option<&'a Slot>,
    /// A slot belongs to its thread.
    _not_send: PhantomData<std::sync::MutexGuard<'static, ()>>,
}

impl<'a> Reading<'a> {
    #[inline]
    fn of(lock: &'a BigReaderLock, slot: Option<&'a Slot>) -> Self {
        Self { lock, slot, _not_send: PhantomData }
    }
}

impl Drop for Reading<'_> {
    #[inline]
    fn drop(&mut self) {
        self.lock.leave(self.slot);
    }
}

/// The writer inside of a [`BigReaderLock`]. Dropping it leaves the owner's bits as they are.
pub(super) struct Writing<'a> {
    lock: &'a BigReaderLock,
    /// The bits that the end of the writer clears in the word.
    flags: usize,
    /// `writer` names its thread.
    _not_send: PhantomData<std::sync::MutexGuard<'static, ()>>,
}

impl Writing<'_> {
    /// LowerWriter: leaves, and in the same step adds `plus`, a number of the owner's, to the word. Returns
    /// the word as it was before.
    #[inline]
    pub(super) fn finish(self, plus: usize) -> usize {
        let this = std::mem::ManuallyDrop::new(self);
        this.lower(plus)
    }

    #[inline]
    fn lower(&self, plus: usize) -> usize {
        // Relaxed: it concerns this thread alone.
        self.lock.writer.store(0, Relaxed);
        // Pairs with CheckWriter and RaiseWriter.
        let word = self.lock.word.fetch_add(plus.wrapping_sub(self.flags), Release);
        if word & BLOCKED != 0 {
            self.unblock();
        }
        word
    }

    #[cold]
    fn unblock(&self) {
        let _sleepers = self.lock.sleepers.lock();
        // Relaxed: the lock orders the threads that sleep and the threads that wake them.
        self.lock.word.fetch_and(!BLOCKED, Relaxed);
        self.lock.changed.notify_all();
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.lower(0);
    }
}

/// The number that the calling thread writes into a slot, without the depth.
#[inline]
fn stamp() -> usize {
    thread::number() << DEPTH_BITS
}

/// The slot of a table that the thread with `stamp` tries first. Threads that were started together have
/// different ones.
#[inline]
fn place(stamp: usize) -> usize {
    (stamp >> DEPTH_BITS) % READER_SLOTS
}

/// Looks for some microseconds whether `condition` holds, and returns whether it does.
fn wait_awake(condition: impl Fn() -> bool) -> bool {
    if WAITS_AWAKE {
        for look in 0..SPINS + YIELDS {
            if condition() {
                return true;
            }
            if look < SPINS { hint::spin_loop() } else { thread::yield_now() }
        }
    }
    condition()
}

#[cfg(all(test, not(loom)))]
mod tests;
