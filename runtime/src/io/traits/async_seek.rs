//! Moving to another position of a stream without blocking.

use std::io::{self, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::forward::{forward, forward_pointers};

/// Moves to a position, in bytes, of a stream that has positions.
///
/// It is to async streams what `std::io::Seek` is to blocking ones. It has two steps, because a future that
/// waits for a position may be dropped. Programs use the methods of
/// [`AsyncSeekExt`](crate::io::AsyncSeekExt). This trait is for code that implements a stream. It is the same
/// as Tokio's.
///
/// # Examples
/// ```
/// use std::{future::poll_fn, io::Cursor, pin::Pin};
/// use runtime::io::{AsyncSeek, SeekFrom};
///
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let mut cursor = Cursor::new(b"hello");
/// Pin::new(&mut cursor).start_seek(SeekFrom::End(-2))?;
/// assert_eq!(poll_fn(|cx| Pin::new(&mut cursor).poll_complete(cx)).await?, 3);
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub trait AsyncSeek {
    /// Begins to move to `position`. [`poll_complete`](Self::poll_complete) tells when the seek is done.
    ///
    /// A position beyond the end is allowed; the stream defines its meaning.
    ///
    /// # Errors
    /// The stream's errors. The stream may refuse while an earlier seek has not completed, so complete that
    /// seek first.
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()>;

    /// Waits until the seek has completed, and returns the new position, in bytes from the start.
    ///
    /// The position is that right after the seek. The stream defines whether later reads and writes change
    /// the result, and what the result is if [`start_seek`](Self::start_seek) was never called. `Pending`
    /// means that the task will be woken when another try is worthwhile. Only the last task that called is
    /// woken.
    ///
    /// # Errors
    /// The stream's errors, for instance for a position before the start.
    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>>;
}

forward_pointers!(AsyncSeek);

impl<T: AsRef<[u8]> + Unpin> AsyncSeek for io::Cursor<T> {
    #[inline]
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        io::Seek::seek(self.get_mut(), position).map(drop)
    }

    #[inline]
    fn poll_complete(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Poll::Ready(Ok(self.position()))
    }
}
