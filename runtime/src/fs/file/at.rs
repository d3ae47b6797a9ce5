//! Reads and writes with an offset of their own, which do not change the file's position.

use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::os::unix::fs::FileExt;

use super::super::backend::{Job, Route, uninterrupted};
use super::super::system;
use super::handle::File;
use crate::coop;
use crate::io::transfer::as_uninit;

impl File {
    /// Reads into `buf` the bytes at `offset`, counted in bytes from the start, and returns their number.
    ///
    /// The file's position neither counts nor changes, so several reads may go on at once. 0 means the end,
    /// unless `buf` is empty. At most [`max_buf_size`](Self::max_buf_size) bytes are read.
    ///
    /// # Errors
    /// The system's errors. A file without positions, such as a FIFO, cannot be read this way.
    /// [`InvalidInput`](ErrorKind::InvalidInput) if `offset` is 2⁶³ or more. An error if the call needs
    /// a thread of the blocking pool, and the runtime was shut down or the system refused the thread.
    ///
    /// # Cancel safety
    /// Safe.
    ///
    /// # Examples
    /// ```
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("runtime-read-at-{}", std::process::id()));
    /// runtime::fs::write(&path, "hello, world").await?;
    /// let file = runtime::fs::File::open(&path).await?;
    /// let mut word = [0; 5];
    /// assert_eq!(file.read_at(&mut word, 7).await?, 5);
    /// assert_eq!(&word, b"world");
    /// # std::fs::remove_file(&path)
    /// # }
    /// ```
    ///
    /// Prior art: `std::os::unix::fs::FileExt`, and `tokio_uring::fs::File`, whose calls take buffers by
    /// value.
    pub async fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut route = self.begin().await;
        let len = buf.len().min(self.max_buf_size);
        let buf = &mut buf[..len];
        // SAFETY: (1) only the system writes to the bytes, and it writes only initialised ones.
        let room = unsafe { as_uninit(buf) };
        if let Some(result) = route.read(&self.std, room, Some(offset)) {
            coop::spend();
            return result;
        }
        let std = self.std.clone();
        let job = Job::start(move || {
            let mut bytes = vec![0; len];
            // SAFETY: (1) as above.
            let room = unsafe { as_uninit(&mut bytes) };
            let count = uninterrupted(|| system::read_at(&std, room, offset))?;
            bytes.truncate(count);
            io::Result::Ok(bytes)
        });
        let bytes = job.await??;
        buf[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    /// Fills `buf` with the bytes at `offset`, counted in bytes from the start.
    ///
    /// # Errors
    /// [`UnexpectedEof`](ErrorKind::UnexpectedEof) if the file ends before; its text says where. The errors
    /// of [`read_at`](Self::read_at). The beginning of `buf` may have been filled then.
    ///
    /// # Cancel safety
    /// Safe: the file's position does not change.
    ///
    /// # Examples
    /// ```
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("runtime-read-exact-at-{}", std::process::id()));
    /// runtime::fs::write(&path, "hello").await?;
    /// let file = runtime::fs::File::open(&path).await?;
    /// let error = file.read_exact_at(&mut [0; 3], 4).await.unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
    /// # std::fs::remove_file(&path)
    /// # }
    /// ```
    pub async fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            let here = advanced(offset, done)?;
            match self.read_at(&mut buf[done..], here).await? {
                0 => {
                    let text =
                        format!("the file ends at {here}, {} bytes were expected behind", buf.len() - done);
                    return Err(io::Error::new(ErrorKind::UnexpectedEof, text));
                }
                count => done += count,
            }
        }
        Ok(())
    }

    /// Writes the beginning of `buf` at `offset`, counted in bytes from the start, and returns the number of
    /// bytes.
    ///
    /// The file's position neither counts nor changes. The write is done when this returns, on a runtime of
    /// any kind. In a file opened with [`append`](crate::fs::OpenOptions::append), Linux writes at the end,
    /// whatever the offset. At most [`max_buf_size`](Self::max_buf_size) bytes are written.
    ///
    /// # Errors
    /// The system's errors. [`InvalidInput`](ErrorKind::InvalidInput) if `offset` is 2⁶³ or more. An error if
    /// the call needs a thread of the blocking pool, and the runtime was shut down or the system refused the
    /// thread. Nothing was written then.
    ///
    /// # Cancel safety
    /// Not safe: the bytes may have been written or not.
    ///
    /// # Examples
    /// ```
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("runtime-write-at-{}", std::process::id()));
    /// let file = runtime::fs::File::create(&path).await?;
    /// assert_eq!(file.write_at(b"world", 7).await?, 5);
    /// assert_eq!(file.write_at(b"hello, ", 0).await?, 7);
    /// assert_eq!(runtime::fs::read(&path).await?, b"hello, world");
    /// # std::fs::remove_file(&path)
    /// # }
    /// ```
    pub async fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let mut route = self.begin().await;
        let buf = &buf[..buf.len().min(self.max_buf_size)];
        if let Some(result) = route.write(&self.std, &[IoSlice::new(buf)], Some(offset)) {
            coop::spend();
            return result;
        }
        let (std, bytes) = (self.std.clone(), buf.to_vec());
        Job::start(move || uninterrupted(|| std.write_at(&bytes, offset))).await?
    }

    /// Writes all of `buf` at `offset`, counted in bytes from the start.
    ///
    /// # Errors
    /// The errors of [`write_at`](Self::write_at), or [`WriteZero`](ErrorKind::WriteZero) if the system
    /// writes nothing. The beginning may have been written then.
    ///
    /// # Cancel safety
    /// Not safe: any part may have been written.
    ///
    /// # Examples
    /// ```no_run
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let file = runtime::fs::File::create("table").await?;
    /// file.write_all_at(&[7; 512], 512).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            match self.write_at(&buf[done..], advanced(offset, done)?).await? {
                0 => {
                    let left = buf.len() - done;
                    let text =
                        format!("{done} bytes are written at offset {offset}, and none of {left} more");
                    return Err(io::Error::new(ErrorKind::WriteZero, text));
                }
                count => done += count,
            }
        }
        Ok(())
    }

    /// Reads the bytes at `offset` into `bufs`, one after the other. Returns the number of bytes, and the
    /// buffers.
    ///
    /// Each buffer is filled to its length before the next. The buffers are taken by value, so that a thread
    /// of the blocking pool can fill them without a copy. A call fills at most 1024 buffers, of any length,
    /// from the first on that is not empty.
    ///
    /// # Errors
    /// As for [`read_at`](Self::read_at). If no thread of the blocking pool could make the call, the
    /// buffers are lost, and an empty `Vec` is returned with the error.
    ///
    /// # Cancel safety
    /// Not safe: the buffers are lost. The file is as it was.
    ///
    /// # Examples
    /// ```
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("runtime-vectored-{}", std::process::id()));
    /// runtime::fs::write(&path, "headbody").await?;
    /// let file = runtime::fs::File::open(&path).await?;
    /// let (count, parts) = file.read_vectored_at(vec![vec![0; 4], vec![0; 9]], 0).await;
    /// assert_eq!(count?, 8);
    /// assert_eq!(parts[0], b"head");
    /// # std::fs::remove_file(&path)
    /// # }
    /// ```
    ///
    /// Prior art: `tokio_uring::fs::File::readv_at`.
    pub async fn read_vectored_at<B>(&self, mut bufs: Vec<B>, offset: u64) -> (io::Result<usize>, Vec<B>)
    where
        B: AsMut<[u8]> + Send + 'static,
    {
        let mut route = self.begin().await;
        if let Some(result) = route.read_vectored(&self.std, &mut slices_mut(&mut bufs), offset) {
            coop::spend();
            return (result, bufs);
        }
        let std = self.std.clone();
        let job = Job::start(move || {
            let read = || system::read_vectored_at(&std, &mut slices_mut(&mut bufs), offset, 0);
            let result = uninterrupted(read);
            (result, bufs)
        });
        job.await.unwrap_or_else(|error| (Err(error), Vec::new()))
    }

    /// Writes the beginning of `bufs`, one after the other, at `offset`. Returns the number of bytes, and the
    /// buffers.
    ///
    /// It works as [`write_at`](Self::write_at), but [`max_buf_size`](Self::max_buf_size) is no limit here.
    /// The buffers are taken by value, so that a thread of the blocking pool can write them without a copy. A
    /// call writes at most 1024 buffers, from the first on that is not empty.
    ///
    /// # Errors
    /// As for [`write_at`](Self::write_at). If no thread of the blocking pool could make the call, the
    /// buffers are lost, and an empty `Vec` is returned with the error.
    ///
    /// # Cancel safety
    /// Not safe: the buffers are lost, and may have been written or not.
    ///
    /// # Examples
    /// ```
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("runtime-gather-{}", std::process::id()));
    /// let file = runtime::fs::File::create(&path).await?;
    /// let (count, parts) = file.write_vectored_at(vec!["head", "body"], 0).await;
    /// assert_eq!((count?, parts.len()), (8, 2));
    /// assert_eq!(runtime::fs::read(&path).await?, b"headbody");
    /// # std::fs::remove_file(&path)
    /// # }
    /// ```
    ///
    /// Prior art: `tokio_uring::fs::File::writev_at`.
    pub async fn write_vectored_at<B>(&self, bufs: Vec<B>, offset: u64) -> (io::Result<usize>, Vec<B>)
    where
        B: AsRef<[u8]> + Send + 'static,
    {
        let mut route = self.begin().await;
        if let Some(result) = route.write(&self.std, &slices(&bufs), Some(offset)) {
            coop::spend();
            return (result, bufs);
        }
        let std = self.std.clone();
        let job = Job::start(move || {
            let result = uninterrupted(|| system::write_vectored_at(&std, &slices(&bufs), offset));
            (result, bufs)
        });
        job.await.unwrap_or_else(|error| (Err(error), Vec::new()))
    }

    /// Waits for budget, and for the calls that go through the file in order. So a read sees the writes that
    /// have returned.
    async fn begin(&self) -> Route {
        poll_fn(coop::poll_has_budget).await;
        self.quiet().await.route
    }
}

fn slices_mut<B: AsMut<[u8]>>(bufs: &mut [B]) -> Vec<IoSliceMut<'_>> {
    bufs.iter_mut().map(|buf| IoSliceMut::new(buf.as_mut())).collect()
}

fn slices<B: AsRef<[u8]>>(bufs: &[B]) -> Vec<IoSlice<'_>> {
    bufs.iter().map(|buf| IoSlice::new(buf.as_ref())).collect()
}

/// The offset `done` bytes behind `offset`.
fn advanced(offset: u64, done: usize) -> io::Result<u64> {
    offset.checked_add(done as u64).ok_or_else(|| {
        let text = format!("there is no offset {done} bytes behind {offset}");
        io::Error::new(ErrorKind::InvalidInput, text)
    })
}
