//! The readiness word of a source: what the system has reported, and which thread holds which of the two
//! cached wakers.
//!
//! ```text
//!  bit  0..6      6 / 7      8 / 9       10 / 11    12           13        14        32..64
//!       ready     ARMED_R/W  WAKING_R/W  HELD_R/W   HAS_WAITERS  SHUTDOWN  DETACHED  tick
//! ```
//!
//! # The slots
//! A source caches one waker for reading and one for writing, for the `poll_*` functions. (Any number of
//! tasks can wait in the list of `source.rs`.) Per direction:
//! ```text
//!                    hold                    arm (not ready)
//!   idle, or armed ────────▶ held by a task ────────────────▶ armed
//!        ▲  ▲                     │                             │
//!        │  └─────────────────────┘ ready meanwhile             │ event
//!        └───────────────────────────────────────────────── waking
//!                                 finish
//!   hold: one task compares or replaces the waker     arm: the task sleeps; an event must wake it
//!   finish: the event has woken by reference
//! ```
//! - HELD excludes ARMED: `hold` takes both steps at once. An event that comes meanwhile finds no task to
//!   wake, and only adds its bits. `arm` fails when it sees them. Nothing is lost, because all of this is one
//!   word.
//! - Only a task that set HELD while WAKING was clear may write the slot. A task that set HELD beside WAKING
//!   may compare the wakers, and arm again if the stored waker is its own. This is the usual case of a fast
//!   peer, and neither thread waits for the other. If the task has another waker, it wakes itself instead and
//!   comes back.
//! - ARMED beside WAKING means "wake again". A second event leaves the wake to the first event, whose
//!   `finish` sees ARMED and the readiness.
//! - A task that finds HELD has a rival in the same direction. The contract of `poll_*` allows the rival to
//!   win.
//!
//! After SHUTDOWN no task waits in a slot any more. But a waker that stayed there could keep the owner of the
//! source alive, and so the source and the waker itself. So the last thread that has a slot empties it. The
//! shutdown takes each slot that is neither WAKING nor HELD, as an event takes an armed one. A thread that is
//! WAKING or HELD meanwhile finds SHUTDOWN when it finishes. If the other of the two bits is set as well, it
//! leaves the slot to that thread. Otherwise it keeps its own bit for ever, and no other thread touches the
//! slot.
//!
//! # Why a late clear loses no event
//! An operation that answered `WouldBlock` (or came short) clears the bits it had relied on. An event may
//! have come since. Clearing the bits of that event would lose it, because an edge is reported once. So each
//! event advances the tick. The operation carries the tick that it began with, and a clear with an old tick
//! does nothing:
//! ```text
//!   task:    load (readable, tick 4)   read: WouldBlock              clear(4): tick is 5, nothing happens
//!   poller:                                   event: readable, tick 5
//! ```
//! The other order needs no help: if the descriptor gets ready after the read, this is a new edge, whose
//! event follows the clear. The tick has 32 bits, so it deceives a task only if exactly 2^32 events come
//! while the task is stopped.
//!
//! The bits of [`Ready::FINAL`] stay: after a short read the end of the stream is news, and no edge repeats
//! it. They are cleared only if nothing is closed for good and an operation answered `WouldBlock`. The
//! operation proves that the source is open, and a later close is a new edge.
//!
//! # Ordering
//! `hold` acquires, and `arm`, `finish_wake` and `release` release, so each write of a slot happens before
//! the next access. An event acquires what `arm` released, and so sees the waker. Readiness itself publishes
//! nothing but hints about the kernel's state.
//!
//! # Rejected
//! A mutex around the two wakers, as in Tokio: simpler, but it costs twice the read-modify-writes and a waker
//! clone per wait.
//!
//! # Sources
//! The tick comes from Tokio's `ScheduledIo`, the slots from futures' `AtomicWaker`.

use crate::loom::sync::atomic::AtomicU64;
use crate::loom::sync::atomic::Ordering::{AcqRel, Acquire};

use super::interest::Ready;

const ARMED: u64 = 1 << 6;
const WAKING: u64 = 1 << 8;
const HELD: u64 = 1 << 10;
const HAS_WAITERS: u64 = 1 << 12;
const SHUTDOWN: u64 = 1 << 13;
const DETACHED: u64 = 1 << 14;
const TICK_SHIFT: u32 = 32;
/// Both directions.
const ARMED_BOTH: u64 = ARMED | ARMED << 1;
/// The distance from a direction's ARMED to its WAKING.
const TO_WAKING: u32 = 2;
/// The distance from a direction's ARMED to its HELD.
const TO_HELD: u32 = 4;
const _: () = assert!(ARMED << TO_WAKING == WAKING && ARMED << TO_HELD == HELD);
/// The distance from a closed direction's flag to the flag for ready.
const FROM_CLOSED: u32 = 2;
/// The distance from a direction's flag for ready to its ARMED.
const TO_ARMED: u32 = 6;
const _: () = {
    let (readable, writable) = (Ready::READABLE.bits(), Ready::WRITABLE.bits());
    assert!(readable << TO_ARMED == ARMED && writable << TO_ARMED == ARMED << 1);
    assert!(Ready::READ_CLOSED.bits() >> FROM_CLOSED == readable);
    assert!(Ready::WRITE_CLOSED.bits() >> FROM_CLOSED == writable);
};

/// One of the two slots of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Read,
    Write,
}

impl Direction {
    pub const BOTH: [Direction; 2] = [Direction::Read, Direction::Write];

    /// The flags that end a wait in this direction.
    pub fn mask(self) -> Ready {
        match self {
            Direction::Read => Ready::READABLE | Ready::READ_CLOSED,
            Direction::Write => Ready::WRITABLE | Ready::WRITE_CLOSED,
        }
    }

    /// This direction's bit of a pair that begins at `bit`.
    fn of(self, bit: u64) -> u64 {
        bit << self as u64
    }
}

/// What ended a wait; the caller hands it back to [`Readiness::clear`].
#[derive(Debug, Clone, Copy)]
pub struct ReadyEvent {
    pub ready: Ready,
    pub is_shutdown: bool,
    tick: u32,
}

/// One value of the word.
#[derive(Debug, Clone, Copy)]
struct Snapshot(u64);

impl Snapshot {
    /// What ends a wait for `mask`, if anything does.
    fn event(self, mask: Ready) -> Option<ReadyEvent> {
        let ready = Ready::from_bits(self.0) & mask;
        let is_shutdown = self.has(SHUTDOWN);
        (is_shutdown || !ready.is_empty()).then_some(ReadyEvent { ready, is_shutdown, tick: self.tick() })
    }

    /// ARMED of each direction in which an event that leads to `next` wakes. After the shutdown: ARMED of
    /// each slot that is neither WAKING nor HELD.
    #[inline]
    fn taken_by(self, next: Snapshot) -> u64 {
        // Beside WAKING, ARMED stays: the waking thread sees it when it finishes.
        let free = ARMED_BOTH & !(self.0 >> TO_WAKING);
        if next.has(SHUTDOWN) {
            return free & !(self.0 >> TO_HELD);
        }
        let ready = (next.0 | next.0 >> FROM_CLOSED) << TO_ARMED;
        free & self.0 & ready
    }

    /// Whether the source is shut down and none of `bits_of_others` is set: the slot is left to the caller.
    fn is_left_to_last(self, bits_of_others: u64) -> bool {
        self.has(SHUTDOWN) && !self.has(bits_of_others)
    }

    fn tick(self) -> u32 {
        (self.0 >> TICK_SHIFT) as u32
    }

    fn has(self, bit: u64) -> bool {
        self.0 & bit != 0
    }

    fn with(self, bits: u64) -> Self {
        Self(self.0 | bits)
    }

    fn without(self, bits: u64) -> Self {
        Self(self.0 & !bits)
    }

    fn with_next_tick(self) -> Self {
        // The tick is in the highest bits, so its carry leaves the word.
        Self(self.0.wrapping_add(1 << TICK_SHIFT))
    }
}

/// Outcome of [`Readiness::hold`].
#[derive(Debug)]
pub enum Hold {
    /// The caller has the slot until [`Readiness::arm`] or [`Readiness::release`]. While an event
    /// `is_waking`, the caller may read the slot but not write it.
    Held { is_waking: bool },
    /// The caller need not wait.
    Ready(ReadyEvent),
    /// Another task has the slot.
    Busy,
}

/// The tasks that an event has to wake.
#[derive(Debug, Default)]
pub struct Wakes {
    /// HAS_WAITERS, and ARMED of each direction in which the caller is now WAKING.
    bits: u64,
}

impl Wakes {
    /// Whether the caller is WAKING in this direction, and has to call [`Readiness::finish_wake`].
    #[inline]
    pub fn slot(&self, direction: Direction) -> bool {
        self.bits & direction.of(ARMED) != 0
    }

    /// Whether there are tasks in the list.
    #[inline]
    pub fn waiters(&self) -> bool {
        self.bits & HAS_WAITERS != 0
    }
}

/// Outcome of [`Readiness::finish_wake`].
#[derive(Debug, PartialEq, Eq)]
pub enum Finish {
    /// The slot has been given back.
    Done,
    /// The slot was armed again and is ready again: wake once more.
    Again,
    /// The source is detached or shut down: the slot is the caller's for ever, and the caller empties it.
    Last,
}

/// Outcome of [`Readiness::arm`].
#[derive(Debug)]
pub enum Arm {
    /// The next event wakes.
    Armed,
    /// The caller need not wait. The slot was given back.
    Ready(ReadyEvent),
    /// The source was shut down: the slot is the caller's for ever, and the caller empties it.
    Last(ReadyEvent),
}

/// The word. Only this type changes it.
#[derive(Debug)]
pub struct Readiness {
    word: AtomicU64,
}

impl Readiness {
    /// Makes a word. `assumed` is what the first operation may try without an event.
    pub fn new(assumed: Ready) -> Self {
        Self { word: AtomicU64::new(assumed.bits()) }
    }

    /// What ends a wait for `mask` now.
    #[inline]
    pub fn event(&self, mask: Ready) -> Option<ReadyEvent> {
        self.load().event(mask)
    }

    /// Takes the slot and disarms it, if the caller has to wait.
    pub fn hold(&self, direction: Direction) -> Hold {
        let (armed, held) = (direction.of(ARMED), direction.of(HELD));
        let mut seen = self.load();
        loop {
            if let Some(event) = seen.event(direction.mask()) {
                return Hold::Ready(event);
            }
            if seen.has(held) {
                return Hold::Busy;
            }
            match self.replace(seen, seen.without(armed).with(held)) {
                Ok(()) => return Hold::Held { is_waking: seen.has(direction.of(WAKING)) },
                Err(current) => seen = current,
            }
        }
    }

    /// Gives the slot back. It is armed, so that the next event wakes; or idle, if the caller need not wait
    /// any more.
    pub fn arm(&self, direction: Direction) -> Arm {
        let (armed, held) = (direction.of(ARMED), direction.of(HELD));
        let mut seen = self.load();
        loop {
            debug_assert!(seen.has(held) && !seen.has(armed), "armed by its holder: {seen:x?}");
            let event = seen.event(direction.mask());
            let (next, arm) = match event {
                Some(event) if seen.is_left_to_last(direction.of(WAKING)) => return Arm::Last(event),
                Some(event) => (seen.without(held), Arm::Ready(event)),
                None => (seen.without(held).with(armed), Arm::Armed),
            };
            match self.replace(seen, next) {
                Ok(()) => return arm,
                Err(current) => seen = current,
            }
        }
    }

    /// Gives the slot back, idle. If it returns false, the slot is the caller's for ever, and the caller
    /// empties it.
    pub fn release(&self, direction: Direction) -> bool {
        let mut seen = self.load();
        loop {
            if seen.is_left_to_last(direction.of(WAKING)) {
                return false;
            }
            match self.replace(seen, seen.without(direction.of(HELD))) {
                Ok(()) => return true,
                Err(current) => seen = current,
            }
        }
    }

    /// Adds the readiness of an event, and takes the armed slots whose wait it ends.
    pub fn add(&self, ready: Ready) -> Wakes {
        self.dispatch(|seen| seen.with(ready.bits()).with_next_tick())
    }

    /// Ends every wait from now on, and takes the slots that no thread has.
    pub fn shut_down(&self) -> Wakes {
        self.dispatch(|seen| seen.with(SHUTDOWN))
    }

    fn dispatch(&self, change: impl Fn(Snapshot) -> Snapshot) -> Wakes {
        let mut seen = self.load();
        loop {
            if seen.has(DETACHED) {
                return Wakes::default();
            }
            let next = change(seen);
            let taken = seen.taken_by(next);
            let bits = taken | seen.0 & HAS_WAITERS;
            match self.replace(seen, next.without(taken).with(taken << TO_WAKING)) {
                Ok(()) => return Wakes { bits },
                Err(current) => seen = current,
            }
        }
    }

    /// Ends the caller's WAKING, unless it has to wake the slot's task again.
    #[inline]
    pub fn finish_wake(&self, direction: Direction) -> Finish {
        let (armed, waking) = (direction.of(ARMED), direction.of(WAKING));
        let mut seen = self.load();
        loop {
            debug_assert!(seen.has(waking), "finished by the thread that woke: {seen:x?}");
            if seen.has(DETACHED) {
                return Finish::Last;
            }
            let (next, finish) = match seen.has(armed) && seen.event(direction.mask()).is_some() {
                true => (seen.without(armed), Finish::Again),
                false if seen.is_left_to_last(direction.of(HELD)) => return Finish::Last,
                false => (seen.without(waking), Finish::Done),
            };
            match self.replace(seen, next) {
                Ok(()) => return finish,
                Err(current) => seen = current,
            }
        }
    }

    /// Takes back the flags of `event` except [`Ready::FINAL`], unless another event has come since.
    pub fn clear(&self, event: ReadyEvent) {
        self.take_back(event.tick, event.ready - Ready::FINAL);
    }

    /// Takes back all flags of `event`, unless another event has come since. For a source that may be opened
    /// again, after an operation has shown that it is open.
    pub fn clear_closed(&self, event: ReadyEvent) {
        self.take_back(event.tick, event.ready);
    }

    fn take_back(&self, tick: u32, stale: Ready) {
        let stale = stale.bits();
        let mut seen = self.load();
        while seen.tick() == tick && seen.has(stale) {
            match self.replace(seen, seen.without(stale)) {
                Ok(()) => return,
                Err(current) => seen = current,
            }
        }
    }

    /// Says that tasks are in the list, whose lock the caller holds. Returns what ends a wait for `mask` now.
    pub fn announce_waiter(&self, mask: Ready) -> Option<ReadyEvent> {
        Snapshot(self.word.fetch_or(HAS_WAITERS, AcqRel)).event(mask)
    }

    /// Says that the list is empty. The caller holds its lock.
    pub fn retract_waiters(&self) {
        self.word.fetch_and(!HAS_WAITERS, AcqRel);
    }

    /// Says that the source is gone: nothing is woken from now on. The caller empties the slots for which
    /// this returns true. The others belong to events that are still waking.
    pub fn detach(&self) -> [bool; 2] {
        let seen = Snapshot(self.word.fetch_or(DETACHED, AcqRel));
        Direction::BOTH.map(|direction| !seen.has(direction.of(WAKING)))
    }

    fn load(&self) -> Snapshot {
        Snapshot(self.word.load(Acquire))
    }

    fn replace(&self, seen: Snapshot, next: Snapshot) -> Result<(), Snapshot> {
        match self.word.compare_exchange(seen.0, next.0, AcqRel, Acquire) {
            Ok(_) => Ok(()),
            Err(current) => Err(Snapshot(current)),
        }
    }
}
