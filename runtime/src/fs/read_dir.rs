//! The entries of a directory.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{FileType, Metadata};
use std::future::poll_fn;
use std::io;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use super::backend::{Batch, Batches};
use super::{backend, entries};

/// The number of entries that a thread of the pool fetches at once, which is Tokio's.
const AT_ONCE: usize = 32;

/// Returns the entries of a directory, in no promised order, without `.` and `..`.
///
/// # Errors
/// The system's errors, with the path.
///
/// # Cancel safety
/// Safe.
///
/// # Examples
/// ```
/// # #[runtime::main]
/// # async fn main() -> std::io::Result<()> {
/// let mut entries = runtime::fs::read_dir("/proc/self").await?;
/// while let Some(entry) = entries.next_entry().await? {
///     println!("{}", entry.path().display());
/// }
/// # Ok(())
/// # }
/// ```
///
/// Prior art: `tokio::fs::read_dir`.
pub async fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let path = path.as_ref();
    match backend::on_path(path, |path| std::fs::read_dir(path)).await {
        Ok(std) => Ok(ReadDir { batches: Batches::new(std), fetched: VecDeque::new() }),
        Err(error) => Err(entries::about("read directory", path, error)),
    }
}

/// The entries of a directory. [`read_dir`] makes it. It is also a [`Stream`].
///
/// If the directory is removed meanwhile, its entries end there. The system decides whether an entry is seen
/// that is made or removed meanwhile.
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct ReadDir {
    batches: Batches<std::fs::ReadDir, Vec<io::Result<DirEntry>>>,
    /// Entries of the last batch that the reader has not taken yet.
    fetched: VecDeque<io::Result<DirEntry>>,
}

impl ReadDir {
    /// Returns the next entry, or `None` at the end.
    ///
    /// # Errors
    /// The system's errors. Or an error if the runtime ended during the call; later calls fail as well then.
    ///
    /// # Cancel safety
    /// Safe: no entry is lost.
    ///
    /// # Examples
    /// As for [`read_dir`].
    pub async fn next_entry(&mut self) -> io::Result<Option<DirEntry>> {
        poll_fn(|cx| self.poll_next_entry(cx)).await
    }

    /// Polls for the next entry, as [`next_entry`](Self::next_entry) does.
    ///
    /// `Pending` means that the task will be woken. If several tasks poll, only the last task that called is
    /// woken.
    ///
    /// # Errors
    /// As for [`next_entry`](Self::next_entry).
    pub fn poll_next_entry(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<DirEntry>>> {
        loop {
            if let Some(entry) = self.fetched.pop_front() {
                return Poll::Ready(entry.map(Some));
            }
            match ready!(self.batches.poll_next(cx, next_entry, next_batch))? {
                Batch::Here(entry) => return Poll::Ready(entry.transpose()),
                Batch::Fetched(batch) if batch.is_empty() => return Poll::Ready(Ok(None)),
                Batch::Fetched(batch) => self.fetched = batch.into(),
            }
        }
    }
}

fn next_entry(std: &mut std::fs::ReadDir) -> Option<io::Result<DirEntry>> {
    let entry = std.next()?;
    Some(entry.map(|std| DirEntry { std: Arc::new(std), file_type: None }))
}

fn next_batch(std: &mut std::fs::ReadDir) -> Vec<io::Result<DirEntry>> {
    let mut batch = Vec::new();
    while batch.len() < AT_ONCE {
        let Some(entry) = next_entry(std) else { break };
        let is_error = entry.is_err();
        // Mostly the type is known already. Otherwise the system is asked here, where the thread may block.
        batch.push(entry.map(|entry| DirEntry { file_type: entry.std.file_type().ok(), ..entry }));
        if is_error {
            break;
        }
    }
    batch
}

impl Stream for ReadDir {
    type Item = io::Result<DirEntry>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<DirEntry>>> {
        self.poll_next_entry(cx).map(Result::transpose)
    }
}

/// An entry of a directory.
///
/// # Examples
/// ```
/// # #[runtime::main]
/// # async fn main() -> std::io::Result<()> {
/// let mut entries = runtime::fs::read_dir("/proc/self").await?;
/// while let Some(entry) = entries.next_entry().await? {
///     if entry.file_name() == "task" {
///         assert!(entry.file_type().await?.is_dir());
///         assert_eq!(entry.path().to_str(), Some("/proc/self/task"));
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DirEntry {
    std: Arc<std::fs::DirEntry>,
    /// There if it was fetched with the entry.
    file_type: Option<FileType>,
}

impl DirEntry {
    /// Returns the path given to [`read_dir`], joined with the entry's name.
    ///
    /// # Examples
    /// See [`DirEntry`].
    pub fn path(&self) -> PathBuf {
        self.std.path()
    }

    /// Returns the entry's name, without a directory.
    ///
    /// # Examples
    /// See [`DirEntry`].
    pub fn file_name(&self) -> OsString {
        self.std.file_name()
    }

    /// Returns the number of the entry's inode.
    ///
    /// # Examples
    /// ```
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let entry = runtime::fs::read_dir("/").await?.next_entry().await?;
    /// assert_ne!(entry.expect("a system has something in it").ino(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn ino(&self) -> u64 {
        self.std.ino()
    }

    /// Returns what the system knows of the entry. For a symbolic link, this is about the link itself, not
    /// about its target.
    ///
    /// # Errors
    /// The system's errors, with the path, for instance that the entry was removed.
    ///
    /// # Cancel safety
    /// Safe.
    ///
    /// # Examples
    /// ```
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut entries = runtime::fs::read_dir("/").await?;
    /// while let Some(entry) = entries.next_entry().await? {
    ///     println!("{:?}: {} bytes", entry.file_name(), entry.metadata().await?.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn metadata(&self) -> io::Result<Metadata> {
        let found = backend::on_shared(&self.std, std::fs::DirEntry::metadata).await;
        found.map_err(|error| entries::about("metadata of", &self.path(), error))
    }

    /// Returns the entry's type, mostly without a system call. A symbolic link has a type of its own.
    ///
    /// # Errors
    /// As for [`metadata`](Self::metadata).
    ///
    /// # Cancel safety
    /// Safe.
    ///
    /// # Examples
    /// See [`DirEntry`].
    pub async fn file_type(&self) -> io::Result<FileType> {
        if let Some(file_type) = self.file_type {
            return Ok(file_type);
        }
        let found = backend::on_shared(&self.std, std::fs::DirEntry::file_type).await;
        found.map_err(|error| entries::about("metadata of", &self.path(), error))
    }
}
