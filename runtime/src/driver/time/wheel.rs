//! The timing wheel: plain data without atomics. The thread that has exclusive access drives it.
//!
//! Six levels of 64 slots. A slot of level 0 holds the timers of one tick (an eighth of a millisecond), a
//! slot of level 1 those of 64 ticks, a slot of level `n` those of 64ⁿ. Write ticks in base 64. A timer's
//! level is the highest digit in which its tick differs from the wheel's position, and its slot is that
//! digit:
//! ```text
//!   position  0 0 3 7   (base 64)
//!   timer A   0 0 3 9   differs in digit 0: level 0, slot 9
//!   timer B   0 0 5 1   differs in digit 1: level 1, slot 5; at 0 0 5 0 it moves down to level 0
//! ```
//! So all slots of a level lie ahead, in the same block of the level above, and none wraps. The first set bit
//! of a level's bitmap is its earliest slot. The first level that has a set bit has the earliest slot of all.
//! Timers that differ above digit 5 wait in a list of their own: they are due in a later turn of the whole
//! wheel, which lasts three months. When the next turn begins, a step sorts them in.
//!
//! The work is done in [steps](Wheel::step) of one timer each, so that a holder of the lock can stop after a
//! few. A slot above level 0 that is half moved down begins at the position. It is finished before anything
//! later fires.
//!
//! The owner may have put a timer off (`entry.rs`) without telling the wheel. The wheel finds out when it
//! comes to the timer, to move it down or to hand it out. Then the timer goes where it belongs. So putting
//! off is nearly free. A timer that is put off again and again is moved once in the time that it lasts.
//!
//! Prior art: Varghese and Lauck, "Hashed and hierarchical timing wheels" (1987). The rule of the digits is
//! that of the Linux kernel before 4.8 and of Tokio.

use std::ptr::NonNull;

use crate::util::list::List;

use super::entry::TimerEntry;
use super::slot::{DIGIT_BITS, LEVELS, LISTS, NEVER, SLOTS, SlotId, Tick};

/// log2 of the ticks in a turn of the whole wheel.
const TURN_BITS: u32 = DIGIT_BITS * LEVELS as u32;
/// The outcome of a [step](Wheel::step).
#[derive(Debug)]
pub enum Step {
    /// Unlinked a timer that is due.
    Due(NonNull<TimerEntry>),
    /// Moved timers closer. More may be left to do.
    Moved,
    /// Nothing is due.
    Done,
}

/// Timers ordered by tick.
#[derive(Debug)]
pub struct Wheel {
    /// The position: the wheel has dealt with all ticks before it. It never goes back.
    position: Tick,
    /// For each level, bit `i` says whether slot `i` holds a timer. The last is for the far timers alone.
    occupied: [u64; LEVELS + 1],
    /// The slots' timers, level after level; at last the timers of a later turn of the whole wheel.
    lists: [List<TimerEntry>; LISTS],
    /// A slot that is being moved down. It begins at the position. No other slot above level 0 begins so
    /// early.
    moving: Option<SlotId>,
}

/// The earliest slot that holds a timer.
struct First {
    id: SlotId,
    /// Its first tick. Not after the ticks of its timers, except for timers that were late when inserted.
    begins: Tick,
}

impl Wheel {
    pub fn new() -> Self {
        Self { position: 0, occupied: [0; LEVELS + 1], lists: [const { List::new() }; LISTS], moving: None }
    }

    /// Links `entry` under its tick. A tick behind the position is due at the next step.
    ///
    /// # Safety
    /// 1. `entry` is live and stays so, at its place, until it has left the wheel. 2. It is in no wheel.
    ///    3. The caller may touch `entry` and all entries of this wheel.
    #[inline]
    pub unsafe fn insert(&mut self, entry: NonNull<TimerEntry>) {
        // SAFETY: (1) and (3) are the caller's.
        let id = self.slot_of(unsafe { TimerEntry::tick(entry) });
        self.occupied[id.level()] |= 1 << id.slot();
        // SAFETY: (1), (2) and (3) are the caller's.
        unsafe {
            TimerEntry::set_slot(entry, id);
            self.list(id).push_back(entry);
        }
    }

    /// The slot for a timer that is inserted now.
    #[inline]
    fn slot_of(&self, tick: Tick) -> SlotId {
        let tick = tick.max(self.position);
        let differs = tick ^ self.position;
        if differs >> TURN_BITS != 0 {
            return SlotId::FAR;
        }
        // The 1 puts a tick that does not differ into level 0.
        let level = digit_of_bit((differs | 1).ilog2());
        // SAFETY: the difference is below `1 << TURN_BITS`, so its highest digit is one of `LEVELS`. The slot
        // is a remainder by `SLOTS`.
        unsafe { SlotId::new(level as usize, (tick >> (level * DIGIT_BITS)) as usize % SLOTS) }
    }

    /// Unlinks `entry`.
    ///
    /// # Safety
    /// 1. `entry` is in this wheel. 2. The caller may touch all entries of this wheel.
    #[inline]
    pub unsafe fn remove(&mut self, entry: NonNull<TimerEntry>) {
        // SAFETY: by (1) `entry` is live; (2) is the caller's.
        let id = unsafe { TimerEntry::slot(entry) };
        // SAFETY: by (1) the entry is live, and in the list that its slot names; (3) is our (2).
        unsafe { self.list(id).remove_linked(entry) };
        self.note_if_empty(id);
    }

    /// Does a part of the work that is due at `now`: hands out one timer, or moves some closer.
    ///
    /// Timers come out in the order of their ticks.
    ///
    /// # Safety
    /// 1. The caller may touch all entries of this wheel.
    pub unsafe fn step(&mut self, now: Tick) -> Step {
        // Another thread may have driven the wheel with a later reading of the clock.
        let now = now.max(self.position);
        if let Some(first) = self.first().filter(|first| first.begins <= now) {
            self.position = self.position.max(first.begins);
            if first.id.level() > 0 {
                self.moving = Some(first.id);
            }
            // SAFETY: (1) is the caller's.
            let entry = unsafe { self.list(first.id).pop_front() }.expect("an occupied slot holds a timer");
            self.note_if_empty(first.id);
            // SAFETY: (1) the entry was in this wheel, so it is live. (2) By our (1) this may touch it.
            // (3) It was just unlinked.
            let is_later = unsafe { TimerEntry::learn_tick(entry) };
            if first.id.level() == 0 && !is_later {
                return Step::Due(entry);
            }
            // SAFETY: (1) to (3) as above; the pusher's promise that the entry stays live goes on.
            unsafe { self.insert(entry) };
            return Step::Moved;
        }
        if !self.list(SlotId::FAR).is_empty() && self.next_turn() <= now {
            self.position = self.next_turn();
            // SAFETY: (1) is the caller's.
            unsafe { self.sort_far() };
            return Step::Moved;
        }
        self.position = now;
        Step::Done
    }

    /// Unlinks any timer, due or not.
    ///
    /// # Safety
    /// 1. The caller may touch all entries of this wheel.
    pub unsafe fn pop_any(&mut self) -> Option<NonNull<TimerEntry>> {
        let id = self.first().map_or(SlotId::FAR, |first| first.id);
        // SAFETY: (1) is the caller's.
        let entry = unsafe { self.list(id).pop_front() };
        self.note_if_empty(id);
        entry
    }

    /// Moves timers that were put off to where they belong, at most `limit`, as long as they are the first of
    /// all. So fewer sleeps end for a timer that was put off.
    ///
    /// # Safety
    /// 1. The caller may touch all entries of this wheel.
    pub unsafe fn move_put_off(&mut self, limit: usize) {
        for _ in 0..limit {
            let id = self.first().map_or(SlotId::FAR, |first| first.id);
            let Some(entry) = self.list(id).front() else { return };
            // SAFETY: (1) is the caller's, and lets this touch all entries. An entry in the wheel is live, at
            // its place, until it has left for good. Once removed, it is in no list.
            unsafe {
                if !TimerEntry::is_put_off(entry) {
                    return;
                }
                self.remove(entry);
                TimerEntry::learn_tick(entry);
                self.insert(entry);
            }
        }
    }

    /// The tick of the earliest timer, after all put-off timers are accounted for; or [`NEVER`]. It may look
    /// at many timers.
    ///
    /// # Safety
    /// 1. The caller may touch all entries of this wheel.
    pub unsafe fn exact_tick(&mut self) -> Tick {
        loop {
            let id = self.first().map_or(SlotId::FAR, |first| first.id);
            let mut has_moved = false;
            for _ in 0..self.list(id).len() {
                // SAFETY: (1) is the caller's, and lets this touch all entries. An entry that was just
                // unlinked is in no list, and live until it has left the wheel for good.
                unsafe {
                    let entry = self.list(id).pop_front().expect("as many as the list is long");
                    self.note_if_empty(id);
                    has_moved |= TimerEntry::learn_tick(entry);
                    self.insert(entry);
                }
            }
            if !has_moved {
                // SAFETY: (1) is the caller's.
                return unsafe { self.next_tick(usize::MAX) };
            }
        }
    }

    /// A tick that is not after the earliest timer, or [`NEVER`].
    ///
    /// It is the tick of a timer if at most `limit` timers must be looked at to tell. Otherwise it is the
    /// beginning of the slot, and a thread that sleeps until then wakes once for nothing.
    ///
    /// # Safety
    /// 1. The caller may touch all entries of this wheel.
    pub unsafe fn next_tick(&mut self, limit: usize) -> Tick {
        let (id, begins) = match self.first() {
            Some(First { id, begins }) if id.level() == 0 => return begins,
            Some(First { id, begins }) => (id, begins),
            None if self.list(SlotId::FAR).is_empty() => return NEVER,
            None => (SlotId::FAR, self.next_turn()),
        };
        let position = self.position;
        let list = self.list(id);
        if list.len() > limit {
            return begins;
        }
        let mut earliest = NEVER;
        // Each timer goes from the front to the back, so the order is the same in the end.
        for _ in 0..list.len() {
            // SAFETY: (1) is the caller's; an entry that was just unlinked is in no list.
            unsafe {
                let entry = list.pop_front().expect("as many as the list is long");
                earliest = earliest.min(TimerEntry::tick(entry));
                list.push_back(entry);
            }
        }
        earliest.max(position)
    }

    #[inline]
    fn first(&self) -> Option<First> {
        if let Some(id) = self.moving {
            return Some(First { id, begins: self.position });
        }
        let level = self.occupied[..LEVELS].iter().position(|&occupied| occupied != 0)?;
        let slot = self.occupied[level].trailing_zeros() as usize;
        let shift = level as u32 * DIGIT_BITS;
        let block = self.position >> (shift + DIGIT_BITS) << (shift + DIGIT_BITS);
        // SAFETY: the bit belongs to a slot in the word of a level.
        let id = unsafe { SlotId::new(level, slot) };
        Some(First { id, begins: block | (slot as u64) << shift })
    }

    /// The first tick of the next turn of the whole wheel.
    fn next_turn(&self) -> Tick {
        ((self.position >> TURN_BITS) + 1) << TURN_BITS
    }

    /// Inserts the far timers again. The timers that are still far stay.
    ///
    /// All at once, because it happens every three months.
    ///
    /// # Safety
    /// 1. The caller may touch all entries of this wheel.
    unsafe fn sort_far(&mut self) {
        for _ in 0..self.list(SlotId::FAR).len() {
            // SAFETY: (1) is the caller's; as in `step`.
            unsafe {
                let entry = self.list(SlotId::FAR).pop_front().expect("as many as the list is long");
                self.note_if_empty(SlotId::FAR);
                self.insert(entry);
            }
        }
    }

    #[inline]
    fn list(&mut self, id: SlotId) -> &mut List<TimerEntry> {
        &mut self.lists[id.list()]
    }

    #[inline]
    fn note_if_empty(&mut self, id: SlotId) {
        if self.list(id).is_empty() {
            self.occupied[id.level()] &= !(1 << id.slot());
            if self.moving == Some(id) {
                self.moving = None;
            }
        }
    }
}

/// `bit / DIGIT_BITS` for a `bit` below 64, in fewer instructions than the compiler's.
#[inline]
fn digit_of_bit(bit: u32) -> u32 {
    const {
        let mut bit = 0;
        while bit < u64::BITS {
            assert!((bit * 43) >> 8 == bit / DIGIT_BITS);
            bit += 1;
        }
    }
    (bit * 43) >> 8
}

#[cfg(all(test, not(loom)))]
mod tests;
