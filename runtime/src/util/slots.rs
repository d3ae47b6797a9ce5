//! A table of pointers with constant-time insertion and removal by number.
//!
//! The table grows by segments, each twice as large as the one before it. No pointer is ever copied. So the
//! holder of a lock around the table needs only a few instructions, even with a million pointers. (A
//! `slab::Slab` moves all pointers when it grows, and takes twice the memory.) When the last pointer leaves,
//! the table frees all but the first segments.

use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::ops::Range;
use std::ptr::NonNull;

/// The number of slots in the first segment, a power of two.
const FIRST: usize = 64;
/// The number of segments that are kept when the table is empty. They take 960 × 8 bytes.
const KEPT: usize = 4;
/// Stands for no free slot.
const NONE: u32 = u32::MAX;

/// The table.
pub struct Slots<T> {
    /// Segment `i` has `FIRST << i` slots.
    segments: Vec<Box<[Slot]>>,
    /// The slot that was freed last. Each free slot below `end` has the number of the slot that was freed
    /// before it.
    free: u32,
    /// The slots from here on have never been used.
    end: u32,
    len: usize,
    marker: PhantomData<NonNull<T>>,
}

// SAFETY: the table does not follow its pointers.
unsafe impl<T> Send for Slots<T> {}

/// A pointer, whose lowest bit is 0; or the number of a free slot, shifted, with a 1 as its lowest bit.
#[derive(Clone, Copy)]
struct Slot(usize);

impl<T> Slots<T> {
    pub const fn new() -> Self {
        const { assert!(mem::align_of::<T>() > 1, "the lowest bit of a pointer tells a slot in use") };
        Self { segments: Vec::new(), free: NONE, end: 0, len: 0, marker: PhantomData }
    }

    /// The number of pointers in the table.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Puts `pointer` in, and returns its number.
    ///
    /// # Panics
    /// If the table holds 2^32 - 1 pointers.
    #[inline]
    pub fn insert(&mut self, pointer: NonNull<T>) -> u32 {
        self.len += 1;
        let number = self.free;
        if number == NONE {
            return self.insert_at_end(pointer);
        }
        let slot = self.slot(number);
        let next = mem::replace(slot, Slot::used(pointer)).next_free();
        self.free = next;
        number
    }

    fn insert_at_end(&mut self, pointer: NonNull<T>) -> u32 {
        let number = self.end;
        assert!(number < NONE, "a table has room for {NONE} pointers");
        let (segment, _) = place(number);
        if segment == self.segments.len() {
            self.segments.push(vec![Slot(0); FIRST << segment].into_boxed_slice());
        }
        self.end += 1;
        *self.slot(number) = Slot::used(pointer);
        number
    }

    /// Takes out the pointer that was put in under `number`.
    #[inline]
    pub fn remove(&mut self, number: u32) {
        let free = self.free;
        let removed = mem::replace(self.slot(number), Slot::free(free));
        debug_assert!(removed.pointer::<T>().is_some(), "slot {number} was free");
        self.free = number;
        self.len -= 1;
        if self.len == 0 {
            self.free = NONE;
            self.end = 0;
            self.segments.truncate(KEPT);
        }
    }

    /// All pointers, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = NonNull<T>> {
        self.range(0..self.end)
    }

    /// All numbers of pointers in the table are below this.
    pub fn end(&self) -> u32 {
        self.end
    }

    /// The pointers whose numbers are in `range`, which ends at [`end`](Self::end) at the latest.
    pub fn range(&self, range: Range<u32>) -> impl Iterator<Item = NonNull<T>> {
        range.filter_map(|number| {
            let (segment, offset) = place(number);
            self.segments[segment][offset].pointer()
        })
    }

    #[inline]
    fn slot(&mut self, number: u32) -> &mut Slot {
        let (segment, offset) = place(number);
        &mut self.segments[segment][offset]
    }
}

impl<T> fmt::Debug for Slots<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Slot {
    fn used<T>(pointer: NonNull<T>) -> Self {
        Self(pointer.as_ptr().expose_provenance())
    }

    fn free(next: u32) -> Self {
        Self((next as usize) << 1 | 1)
    }

    fn next_free(self) -> u32 {
        (self.0 >> 1) as u32
    }

    fn pointer<T>(self) -> Option<NonNull<T>> {
        (self.0 & 1 == 0).then(|| NonNull::new(std::ptr::with_exposed_provenance_mut(self.0))).flatten()
    }
}

/// The segment of a slot, and the slot's place there. Segment `i` begins at number `FIRST × (2^i - 1)`.
#[inline]
fn place(number: u32) -> (usize, usize) {
    let shifted = number as usize + FIRST;
    let segment = shifted.ilog2() - FIRST.ilog2();
    (segment as usize, shifted - (FIRST << segment))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::util::rand::FastRand;

    #[test]
    fn numbers_lie_side_by_side_in_growing_segments() {
        assert_eq!([0, 63, 64, 191, 192].map(place), [(0, 0), (0, 63), (1, 0), (1, 127), (2, 0)]);
    }

    #[test]
    fn behaves_as_a_map_from_numbers_to_pointers() {
        let values: Vec<u64> = (0..5000).collect();
        let mut slots = Slots::new();
        let mut model = HashMap::new();
        let mut rand = FastRand::from_seed(11);
        for round in 0..20_000 {
            // The table grows, then shrinks, and so on.
            let grows = rand.below(10) < if round / 5000 % 2 == 0 { 7 } else { 3 };
            if grows {
                let pointer = NonNull::from(&values[rand.below(5000) as usize]);
                assert_eq!(model.insert(slots.insert(pointer), pointer), None);
            } else if let Some(&number) = model.keys().next() {
                model.remove(&number);
                slots.remove(number);
            }
            assert_eq!(slots.len(), model.len());
        }
        let mut left: Vec<_> = slots.iter().collect();
        let mut expected: Vec<_> = model.values().copied().collect();
        left.sort();
        expected.sort();
        assert_eq!(left, expected);
    }

    #[test]
    fn memory_goes_back_when_the_last_pointer_leaves() {
        let value = 1_u64;
        let mut slots = Slots::new();
        let numbers: Vec<_> = (0..100_000).map(|_| slots.insert(NonNull::from(&value))).collect();
        assert!(slots.segments.len() > KEPT);
        numbers.into_iter().for_each(|number| slots.remove(number));
        assert_eq!((slots.segments.len(), slots.iter().count()), (KEPT, 0));
        assert_eq!(slots.insert(NonNull::from(&value)), 0);
    }
}
