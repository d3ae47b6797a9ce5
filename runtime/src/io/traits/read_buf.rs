//! A buffer that knows how far it is filled and how far it is initialised.

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Range;

use bytes::BufMut;
use bytes::buf::UninitSlice;

/// A borrowed buffer into which a reader reads, step by step, without the cost of zeroing it first.
///
/// ```text
/// [             capacity             ]
/// [ filled |        unfilled         ]
/// [    initialized    |    uninit    ]
/// ```
/// The filled part is the beginning of the initialised part. It is the same as Tokio's.
///
/// # Examples
/// ```
/// let mut bytes = [0; 8];
/// let mut buf = runtime::io::ReadBuf::new(&mut bytes);
/// buf.put_slice(b"hello");
/// assert_eq!(buf.filled(), b"hello");
/// assert_eq!(buf.remaining(), 3);
/// ```
pub struct ReadBuf<'a> {
    bytes: &'a mut [MaybeUninit<u8>],
    /// At most `initialized`.
    filled: usize,
    /// At most `bytes.len()`. All bytes below it have been written.
    initialized: usize,
}

impl<'a> ReadBuf<'a> {
    /// Creates a buffer, with nothing filled, from initialised bytes.
    #[inline]
    pub fn new(bytes: &'a mut [u8]) -> ReadBuf<'a> {
        let initialized = bytes.len();
        // SAFETY: the layout is the same, and nothing uninitialised is ever written: safe methods write
        // bytes, and the caller of `inner_mut` or `unfilled_mut` promises to write nothing uninitialised.
        let bytes = unsafe { &mut *(std::ptr::from_mut(bytes) as *mut [MaybeUninit<u8>]) };
        ReadBuf { bytes, filled: 0, initialized }
    }

    /// Creates a buffer, with nothing filled, from bytes that need not be initialised.
    #[inline]
    pub fn uninit(bytes: &'a mut [MaybeUninit<u8>]) -> ReadBuf<'a> {
        ReadBuf { bytes, filled: 0, initialized: 0 }
    }

    /// Returns the whole length.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Returns where the bytes lie. A reader may replace the `ReadBuf` that it was given by one of another
    /// buffer, which lies elsewhere, unless both are empty.
    #[inline]
    pub(crate) fn place(&self) -> Range<*const MaybeUninit<u8>> {
        self.bytes.as_ptr_range()
    }

    /// Panics if this is not the buffer that lay at `place`. The counts of another buffer would be wrong.
    #[inline]
    pub(crate) fn assert_at(&self, place: Range<*const MaybeUninit<u8>>) {
        assert_eq!(
            self.place(),
            place,
            "`poll_read` replaced the buffer that it was given: read into it instead"
        );
    }

    /// Returns the length of the unfilled part.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.capacity() - self.filled
    }

    /// Returns the filled part.
    #[inline]
    pub fn filled(&self) -> &[u8] {
        // SAFETY: (1) by the rules at the fields, `filled` is at most `bytes.len()`, which is also the duty
        // of `get_unchecked`, and the bytes below `filled` have been written.
        unsafe { assume(self.bytes.get_unchecked(..self.filled)) }
    }

    /// Returns the filled part, for changes.
    #[inline]
    pub fn filled_mut(&mut self) -> &mut [u8] {
        let filled = self.filled;
        &mut self.initialized_mut()[..filled]
    }

    /// Returns the initialised part, which includes the filled one.
    #[inline]
    pub fn initialized(&self) -> &[u8] {
        // SAFETY: (1) the bytes below `initialized` have been written.
        unsafe { assume(&self.bytes[..self.initialized]) }
    }

    /// Returns the initialised part, for changes.
    #[inline]
    pub fn initialized_mut(&mut self) -> &mut [u8] {
        // SAFETY: (1) the bytes below `initialized` have been written.
        unsafe { assume_mut(&mut self.bytes[..self.initialized]) }
    }

    /// Returns a buffer over the first `n` bytes of the unfilled part, or over all of it if it is shorter.
    ///
    /// This buffer does not learn what is filled and initialised there. Tell it by
    /// [`assume_init`](Self::assume_init) and [`advance`](Self::advance).
    #[inline]
    pub fn take(&mut self, n: usize) -> ReadBuf<'_> {
        let n = n.min(self.remaining());
        ReadBuf::uninit(&mut self.bytes[self.filled..][..n])
    }

    /// Returns the whole buffer, filled or not.
    ///
    /// # Safety
    /// 1. Initialised bytes stay so, also those that this buffer does not count as initialised.
    #[inline]
    pub unsafe fn inner_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        self.bytes
    }

    /// Returns the unfilled part.
    ///
    /// # Safety
    /// 1. Initialised bytes stay so, also those that this buffer does not count as initialised.
    #[inline]
    pub unsafe fn unfilled_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        &mut self.bytes[self.filled..]
    }

    /// Returns the unfilled part, and zeroes the bytes that are not initialised. It is for readers that want
    /// a `&mut [u8]`.
    #[inline]
    pub fn initialize_unfilled(&mut self) -> &mut [u8] {
        self.initialize_unfilled_to(self.remaining())
    }

    /// Returns the first `n` bytes of the unfilled part, and zeroes those that are not initialised.
    ///
    /// # Panics
    /// If the unfilled part is shorter.
    #[inline]
    #[track_caller]
    pub fn initialize_unfilled_to(&mut self, n: usize) -> &mut [u8] {
        assert!(n <= self.remaining(), "{n} bytes wanted, but there is room for {}", self.remaining());
        let end = self.filled + n;
        if self.initialized < end {
            self.bytes[self.initialized..end].fill(MaybeUninit::new(0));
            self.initialized = end;
        }
        // SAFETY: (1) `end` is at most `initialized`, and the bytes below `initialized` have been written.
        unsafe { assume_mut(&mut self.bytes[self.filled..end]) }
    }

    /// Empties the buffer. Initialised bytes stay so.
    #[inline]
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// Counts the next `n` bytes as filled.
    ///
    /// # Panics
    /// If they are not initialised.
    #[inline]
    #[track_caller]
    pub fn advance(&mut self, n: usize) {
        let filled = self.filled.checked_add(n).expect("a buffer is shorter than memory");
        self.set_filled(filled);
    }

    /// Counts exactly the first `n` bytes as filled.
    ///
    /// # Panics
    /// If they are not initialised.
    #[inline]
    #[track_caller]
    pub fn set_filled(&mut self, n: usize) {
        assert!(n <= self.initialized, "{n} bytes filled, but only {} are initialized", self.initialized);
        self.filled = n;
    }

    /// Counts the first `n` bytes of the unfilled part as initialised.
    ///
    /// # Safety
    /// 1. These bytes are initialised.
    #[inline]
    pub unsafe fn assume_init(&mut self, n: usize) {
        self.initialized = self.initialized.max(self.filled + n);
    }

    /// Appends `src`.
    ///
    /// # Panics
    /// If there is not enough room.
    #[inline]
    #[track_caller]
    pub fn put_slice(&mut self, src: &[u8]) {
        assert!(
            src.len() <= self.remaining(),
            "{} bytes put, but there is room for {}",
            src.len(),
            self.remaining()
        );
        let end = self.filled + src.len();
        // SAFETY: `filled` is within `bytes`, and there is so much room behind it, by the assertion. A
        // mutable borrow cannot overlap `src`.
        unsafe {
            let room = self.bytes.as_mut_ptr().add(self.filled).cast::<u8>();
            room.copy_from_nonoverlapping(src.as_ptr(), src.len());
        }
        self.initialized = self.initialized.max(end);
        self.filled = end;
    }
}

/// # Safety
/// 1. All of `bytes` is initialised.
#[inline]
unsafe fn assume(bytes: &[MaybeUninit<u8>]) -> &[u8] {
    // SAFETY: the layout is the same, and (1).
    unsafe { &*(std::ptr::from_ref(bytes) as *const [u8]) }
}

/// # Safety
/// 1. All of `bytes` is initialised.
#[inline]
unsafe fn assume_mut(bytes: &mut [MaybeUninit<u8>]) -> &mut [u8] {
    // SAFETY: the layout is the same, and (1).
    unsafe { &mut *(std::ptr::from_mut(bytes) as *mut [u8]) }
}

// SAFETY: `chunk_mut` returns the unfilled part, and `remaining_mut` its length. `advance_mut` moves its
// beginning.
unsafe impl BufMut for ReadBuf<'_> {
    fn remaining_mut(&self) -> usize {
        self.remaining()
    }

    unsafe fn advance_mut(&mut self, n: usize) {
        // SAFETY: (1) the caller of `advance_mut` promises that the next `n` bytes have been written.
        unsafe { self.assume_init(n) };
        self.advance(n);
    }

    fn chunk_mut(&mut self) -> &mut UninitSlice {
        UninitSlice::uninit(&mut self.bytes[self.filled..])
    }
}

impl fmt::Debug for ReadBuf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadBuf")
            .field("filled", &self.filled)
            .field("initialized", &self.initialized)
            .field("capacity", &self.capacity())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_step_by_step_and_remembers_what_is_initialized() {
        let mut bytes = [const { MaybeUninit::uninit() }; 8];
        let mut buf = ReadBuf::uninit(&mut bytes);
        assert_eq!((buf.capacity(), buf.remaining(), buf.initialized().len()), (8, 8, 0));
        buf.put_slice(b"abc");
        buf.initialize_unfilled_to(2).copy_from_slice(b"de");
        buf.advance(1);
        assert_eq!((buf.filled(), buf.initialized()), (&b"abcd"[..], &b"abcde"[..]));
        buf.put(&b"EF"[..]);
        assert_eq!((buf.filled(), buf.remaining()), (&b"abcdEF"[..], 2));
        buf.clear();
        assert_eq!((buf.filled(), buf.initialized()), (&b""[..], &b"abcdEF"[..]));
        assert_eq!(buf.initialize_unfilled(), b"abcdEF\0\0");
    }

    #[test]
    fn a_part_taken_has_a_length_of_its_own() {
        let mut bytes = [0; 4];
        let mut buf = ReadBuf::new(&mut bytes);
        buf.put_slice(b"x");
        assert_eq!(buf.take(2).capacity(), 2);
        assert_eq!(buf.take(9).capacity(), 3);
    }

    #[test]
    #[should_panic = "3 bytes filled, but only 0 are initialized"]
    fn what_is_not_initialized_cannot_be_filled() {
        ReadBuf::uninit(&mut [const { MaybeUninit::uninit() }; 4]).advance(3);
    }

    #[test]
    #[should_panic = "5 bytes put, but there is room for 4"]
    fn too_much_is_refused() {
        ReadBuf::new(&mut [0; 4]).put_slice(b"abcde");
    }
}
