//! An open file, whose position the calls share.

use std::fmt;
use std::fs::{File as StdFile, Metadata, Permissions};
use std::io::{self, IoSlice, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::SystemTime;

use super::flow::Flow;
use super::syncs::Syncs;
use crate::fs::FileTimes;
use crate::fs::backend::{self, Route};
use crate::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};
use crate::sync::{Mutex, MutexGuard};
use crate::util::as_tokio;

/// The default size of one call in bytes, which is Tokio's.
const MAX_BUF_SIZE: usize = 2 << 20;

/// An open file. The traits of [`io`](crate::io) read, write and move it.
///
/// On a runtime with several workers a write is done when it returns: there is no buffer, and flushing does
/// nothing. On a `current_thread` runtime, and for FIFOs, terminals and devices, a thread of the blocking
/// pool makes the write after the call has returned. The next write,
/// [`flush`](crate::io::AsyncWriteExt::flush) or [`sync_all`](Self::sync_all) reports its error. So flush
/// before you drop a file. Otherwise its last error is lost, but the bytes are not.
///
/// A read takes what is in memory, and lets the blocking pool read what is not; see [the
/// module](crate::fs#where-a-call-is-made). A dropped read loses nothing: the next read has its bytes.
///
/// For many small reads or writes, use a [`BufReader`](crate::io::BufReader) or
/// [`BufWriter`](crate::io::BufWriter). For calls with an offset of their own, also several at once, see
/// [`read_at`](Self::read_at).
///
/// # Examples
/// ```
/// # #[runtime::main]
/// # async fn main() -> std::io::Result<()> {
/// use runtime::fs::File;
/// use runtime::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
///
/// # let path = std::env::temp_dir().join(format!("runtime-file-{}", std::process::id()));
/// let mut file = File::options().read(true).write(true).create(true).open(&path).await?;
/// file.write_all(b"hello").await?;
/// file.flush().await?;
///
/// file.rewind().await?;
/// let mut text = String::new();
/// file.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello");
/// # std::fs::remove_file(&path)
/// # }
/// ```
///
/// Prior art: `tokio::fs::File`.
pub struct File {
    pub(super) std: Arc<StdFile>,
    flow: Mutex<Flow>,
    syncs: Syncs,
    pub(super) max_buf_size: usize,
}

impl File {
    /// Turns a file of std's into a file of this type.
    ///
    /// # Examples
    /// ```
    /// let std = std::fs::File::open("/proc/self/status").unwrap();
    /// let file = runtime::fs::File::from_std(std);
    /// ```
    pub fn from_std(std: StdFile) -> File {
        Self::with_route(std, Route::UNKNOWN)
    }

    pub(in crate::fs) fn with_route(std: StdFile, route: Route) -> File {
        let flow = Mutex::new(Flow::new(route));
        Self { std: Arc::new(std), flow, syncs: Syncs::new(), max_buf_size: MAX_BUF_SIZE }
    }

    /// Waits until the file's data and all its metadata have reached the device.
    ///
    /// A thread of the blocking pool waits, so several files can be synced at once.
    ///
    /// # Errors
    /// The system's errors. The error of an earlier write, or of an earlier sync whose future was dropped, if
    /// it was not reported before; the file was not synced then.
    ///
    /// # Cancel safety
    /// Safe: the system goes on. The next sync waits for it, and returns its error. So does a
    /// [`flush`](crate::io::AsyncWriteExt::flush) or `shutdown`, but without waiting.
    ///
    /// # Examples
    /// ```no_run
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// use runtime::io::AsyncWriteExt;
    ///
    /// let mut file = runtime::fs::File::create("ledger").await?;
    /// file.write_all(b"paid").await?;
    /// file.sync_all().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn sync_all(&self) -> io::Result<()> {
        self.quiet().await.take_write_error()?;
        let std = self.std.clone();
        self.syncs.sync(move || std.sync_all()).await
    }

    /// Waits until the file's data has reached the device, and the metadata that is needed to read it.
    ///
    /// Unlike [`sync_all`](Self::sync_all), it does not wait for other metadata, such as the file's times.
    ///
    /// # Errors
    /// As for [`sync_all`](Self::sync_all).
    ///
    /// # Cancel safety
    /// As for [`sync_all`](Self::sync_all).
    ///
    /// # Examples
    /// ```no_run
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let file = runtime::fs::File::options().append(true).open("ledger").await?;
    /// file.sync_data().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn sync_data(&self) -> io::Result<()> {
        self.quiet().await.take_write_error()?;
        let std = self.std.clone();
        self.syncs.sync(move || std.sync_data()).await
    }

    /// Cuts the file to `size` bytes, or extends it by zeros. Its position stays.
    ///
    /// # Errors
    /// The system's errors, for instance for a file that is open only for reading.
    ///
    /// # Cancel safety
    /// Not safe: the length may have been set or not.
    ///
    /// # Examples
    /// ```no_run
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let file = runtime::fs::File::create("hole").await?;
    /// file.set_len(1 << 20).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_len(&self, size: u64) -> io::Result<()> {
        self.quiet().await.set_len(&self.std, size).await
    }

    /// Returns what the system knows of the file: its size, times, permissions.
    ///
    /// # Errors
    /// The system's errors.
    ///
    /// # Cancel safety
    /// Safe.
    ///
    /// # Examples
    /// ```
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let file = runtime::fs::File::open("/proc/self/status").await?;
    /// assert!(file.metadata().await?.is_file());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn metadata(&self) -> io::Result<Metadata> {
        backend::on_shared(&self.std, StdFile::metadata).await
    }

    /// Returns another handle to the same open file. Both handles share the position, which is behind the
    /// bytes that reads have returned, or where the last handle has moved it.
    ///
    /// The new handle has the same [`max_buf_size`](Self::max_buf_size).
    ///
    /// # Errors
    /// The system's errors, for instance that there are too many descriptors.
    ///
    /// # Cancel safety
    /// Safe.
    ///
    /// # Examples
    /// ```
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let file = runtime::fs::File::open("/proc/self/status").await?;
    /// let other = file.try_clone().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_clone(&self) -> io::Result<File> {
        let mut flow = self.quiet().await;
        // The clone may read the bytes that a dropped read has fetched. A file without a position keeps them
        // for this handle.
        _ = flow.move_back(&self.std);
        let mut clone = Self::with_route(self.std.try_clone()?, flow.route);
        clone.max_buf_size = self.max_buf_size;
        Ok(clone)
    }

    /// Turns the file into a file of std's, after its calls have ended.
    ///
    /// If it has a position, the position is as for [`try_clone`](Self::try_clone). An error of an earlier
    /// write or sync that was not reported yet is lost, so flush before.
    ///
    /// # Panics
    /// If a call on the pool still uses the file after its future was dropped, and the system refuses another
    /// descriptor.
    ///
    /// # Cancel safety
    /// Not safe: the file is dropped.
    ///
    /// # Examples
    /// ```
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let file = runtime::fs::File::open("/proc/self/status").await?;
    /// let std: std::fs::File = file.into_std().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn into_std(mut self) -> StdFile {
        let flow = self.flow.get_mut();
        flow.quiet().await;
        // A file without a position keeps none.
        _ = flow.move_back(&self.std);
        Arc::try_unwrap(self.std).unwrap_or_else(|shared| {
            shared.try_clone().unwrap_or_else(|error| {
                panic!(
                    "a dropped future still uses the file, and it cannot be cloned ({error}): await the \
                     future"
                )
            })
        })
    }

    /// Turns the file into a file of std's, unless a call is under way.
    ///
    /// The position, and an error of an earlier write, are as for [`into_std`](Self::into_std).
    ///
    /// # Errors
    /// The file, if a thread of the pool uses it.
    ///
    /// # Examples
    /// ```
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let file = runtime::fs::File::open("/proc/self/status").await?;
    /// assert!(file.try_into_std().is_ok());
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::result_large_err)]
    pub fn try_into_std(mut self) -> Result<StdFile, Self> {
        // A read that has ended may have fetched bytes for which the program has not asked again.
        let mut cx = Context::from_waker(Waker::noop());
        if self.flow.get_mut().poll_quiet(&mut cx).is_pending() {
            return Err(self);
        }
        match Arc::try_unwrap(self.std) {
            Ok(std) => {
                _ = self.flow.get_mut().move_back(&std);
                Ok(std)
            }
            Err(std) => {
                self.std = std;
                Err(self)
            }
        }
    }

    /// Changes the file's permissions.
    ///
    /// # Errors
    /// The system's errors, for instance that the file belongs to another user.
    ///
    /// # Cancel safety
    /// Not safe: the permissions may have been changed or not.
    ///
    /// # Examples
    /// ```no_run
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let file = runtime::fs::File::open("notes.txt").await?;
    /// let mut permissions = file.metadata().await?.permissions();
    /// permissions.set_readonly(true);
    /// file.set_permissions(permissions).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_permissions(&self, perm: Permissions) -> io::Result<()> {
        backend::on_shared(&self.std, move |std| std.set_permissions(perm)).await
    }

    /// Sets the times of the last read and of the last write, or whichever of them `times` has.
    ///
    /// # Errors
    /// The system's errors.
    ///
    /// # Cancel safety
    /// Not safe: the times may have been set or not.
    ///
    /// # Examples
    /// ```no_run
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// use runtime::fs::{File, FileTimes};
    ///
    /// let file = File::options().write(true).open("notes.txt").await?;
    /// file.set_times(FileTimes::new().set_modified(std::time::SystemTime::UNIX_EPOCH)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_times(&self, times: FileTimes) -> io::Result<()> {
        drop(self.quiet().await);
        backend::on_shared(&self.std, move |std| std.set_times(times.into_std())).await
    }

    /// Sets the time of the last write.
    ///
    /// # Errors
    /// As for [`set_times`](Self::set_times).
    ///
    /// # Cancel safety
    /// As for [`set_times`](Self::set_times).
    ///
    /// # Examples
    /// ```no_run
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let file = runtime::fs::File::options().write(true).open("notes.txt").await?;
    /// file.set_modified(std::time::SystemTime::now()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        self.set_times(FileTimes::new().set_modified(time)).await
    }

    /// Sets how many bytes one read or write handles at most. The default is 2 MiB.
    ///
    /// One poll may copy so many bytes, and the worker's other tasks wait meanwhile. 2 MiB take some hundred
    /// microseconds.
    ///
    /// # Panics
    /// If `max_buf_size` is 0.
    ///
    /// # Examples
    /// ```
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut file = runtime::fs::File::open("/proc/self/status").await?;
    /// file.set_max_buf_size(64 << 10);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn set_max_buf_size(&mut self, max_buf_size: usize) {
        assert!(
            max_buf_size > 0,
            "`max_buf_size` must be greater than 0, or no byte could be read or written"
        );
        self.max_buf_size = max_buf_size;
    }

    /// Returns how many bytes one read or write handles at most.
    ///
    /// # Examples
    /// ```
    /// let file = runtime::fs::File::from_std(std::fs::File::open("/proc/self/status").unwrap());
    /// assert_eq!(file.max_buf_size(), 2 << 20);
    /// ```
    pub fn max_buf_size(&self) -> usize {
        self.max_buf_size
    }

    /// Returns the file's state, after the call that the blocking pool makes for it has ended.
    pub(super) async fn quiet(&self) -> MutexGuard<'_, Flow> {
        let mut flow = self.flow.lock().await;
        flow.quiet().await;
        flow
    }
}

impl AsyncRead for File {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.flow.get_mut().poll_read(cx, &this.std, buf, this.max_buf_size)
    }
}

impl AsyncWrite for File {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.flow.get_mut().poll_flush(cx))?;
        Poll::Ready(this.syncs.take_error())
    }

    /// Flushes. The file stays open.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.flow.get_mut().poll_write(cx, &this.std, bufs, this.max_buf_size)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

impl AsyncSeek for File {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        let this = self.get_mut();
        this.flow.get_mut().start_seek(&this.std, position)
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        self.get_mut().flow.get_mut().poll_complete(cx)
    }
}

impl From<StdFile> for File {
    fn from(std: StdFile) -> Self {
        Self::from_std(std)
    }
}

impl From<OwnedFd> for File {
    fn from(fd: OwnedFd) -> Self {
        Self::from_std(fd.into())
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if as_tokio::IS_STRICT { "tokio::fs::File" } else { "File" };
        f.debug_struct(name).field("std", &self.std).finish_non_exhaustive()
    }
}

impl AsRawFd for File {
    fn as_raw_fd(&self) -> RawFd {
        self.std.as_raw_fd()
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.std.as_fd()
    }
}

impl FromRawFd for File {
    unsafe fn from_raw_fd(fd: RawFd) -> Self {
        // SAFETY: the caller vouches that `fd` is open and owned by no other value, which is also this call's
        // duty.
        Self::from_std(unsafe { StdFile::from_raw_fd(fd) })
    }
}
