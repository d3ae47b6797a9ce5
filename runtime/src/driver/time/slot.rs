//! Ticks, and the slots of a wheel.

/// Eighths of a millisecond since the driver began. [`NEVER`] is later than all others.
pub type Tick = u64;

/// The tick of a timer that waits only for the driver's end.
pub const NEVER: Tick = u64::MAX;

pub(super) const LEVELS: usize = 6;
/// log2 of the slots of a level.
pub(super) const DIGIT_BITS: u32 = 6;
pub(super) const SLOTS: usize = 1 << DIGIT_BITS;
/// One for each slot of each level, and one for the far timers.
pub(super) const LISTS: usize = LEVELS * SLOTS + 1;

/// The place of an entry, so that it can be unlinked: level and slot. The list of far timers counts as the
/// first slot of one more level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotId(
    /// Below [`LISTS`].
    u16,
);

impl SlotId {
    /// The value for a timer that is in no wheel: any will do.
    pub const NONE: SlotId = Self::FAR;
    pub(super) const FAR: SlotId = SlotId((LEVELS * SLOTS) as u16);

    /// # Safety
    /// 1. `level` is below `LEVELS`, and `slot` below `SLOTS`.
    #[inline]
    pub(super) unsafe fn new(level: usize, slot: usize) -> Self {
        debug_assert!(level < LEVELS && slot < SLOTS);
        Self((level * SLOTS + slot) as u16)
    }

    #[inline]
    pub(super) fn level(self) -> usize {
        self.list() / SLOTS
    }

    #[inline]
    pub(super) fn slot(self) -> usize {
        self.list() % SLOTS
    }

    /// The index of the list.
    ///
    /// The bound is not checked again for each timer: a panic under the lock would cost registers, too.
    #[inline]
    pub(super) fn list(self) -> usize {
        let list = usize::from(self.0);
        // SAFETY: `FAR` is the last list, and each value that `new` makes comes before it, by the duty of
        // `new`.
        unsafe { std::hint::assert_unchecked(list < LISTS) };
        list
    }
}
