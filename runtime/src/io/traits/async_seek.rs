//! Moving to another position of a stream without blocking.

use std::io::{self, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::forward::{forward, forward_pointers};

/// Moves to a position, in bytes, of a stream that has positions.
///
/// What `std::io::Seek` is to blocking streams, in two steps, since a future that waits for a position may be
/// dropped. Programs use the methods of [`AsyncSeekExt`](crate::io::AsyncSeekExt); this trait is for code
/// that implements a stream. The same as Tokio's.
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
    /// Begins to move to `position`; [`poll_complete`](Self::poll_complete) says when it is done.
    ///
    /// A position beyond the end is allowed; what it means is up to the stream.
    ///
    /// # Errors
    /// The stream's errors. The stream may refuse while an earlier move has not completed, so complete that
    /// one first.
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()>;

    /// Waits until the move has completed, and says the new position, counted from the start.
    ///
    /// The position is that right after the move: whether later reads and writes count is up to the stream,
    /// and so is the result if [`start_seek`](Self::start_seek) was never called. `Pending` means that the
    /// task will be woken when it is worth trying again; only the last task that called is.
    ///
    /// # Errors
    /// The stream's errors, such as for a position before the start.
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
