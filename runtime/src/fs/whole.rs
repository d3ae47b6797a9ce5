//! Functions that handle whole files.

use std::fs::{File as StdFile, OpenOptions as StdOpenOptions};
use std::io::{self, ErrorKind, IoSlice, Read, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::backend::{self, Opened, Route, uninterrupted};
use super::entries;
use crate::coop;
use crate::task::yield_now;

/// The bytes of one system call, which take some ten microseconds.
const PIECE: usize = 256 << 10;

/// The number of bytes after which other tasks have their turn. Copying them takes some hundred microseconds.
const TURN: usize = 1 << 20;

/// The room for a file that reports size zero, as those of `/proc` do.
const OF_UNKNOWN_SIZE: usize = 4 << 10;

/// Returns the bytes of a file.
///
/// The calling task copies what is in memory, and lets other tasks run after each MiB. A thread of the
/// blocking pool reads the rest.
///
/// # Errors
/// The system's errors, with the path. [`OutOfMemory`](ErrorKind::OutOfMemory) if there is no memory for the
/// bytes.
///
/// # Cancel safety
/// Safe: the bytes that were read are dropped.
///
/// # Examples
/// ```
/// # #[runtime::main]
/// # async fn main() -> std::io::Result<()> {
/// let status = runtime::fs::read("/proc/self/status").await?;
/// assert!(status.starts_with(b"Name:"));
/// # Ok(())
/// # }
/// ```
///
/// Prior art: `tokio::fs::read`.
pub async fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let path = path.as_ref();
    read_path(path).await.map_err(|error| entries::about("read", path, error))
}

/// Returns the text of a file.
///
/// It works as [`read()`].
///
/// # Errors
/// As for [`read()`], and [`InvalidData`](ErrorKind::InvalidData) if the text is not UTF-8.
///
/// # Cancel safety
/// Safe: the bytes that were read are dropped.
///
/// # Examples
/// ```
/// # #[runtime::main]
/// # async fn main() -> std::io::Result<()> {
/// let status = runtime::fs::read_to_string("/proc/self/status").await?;
/// assert!(status.starts_with("Name:"));
/// # Ok(())
/// # }
/// ```
///
/// Prior art: `tokio::fs::read_to_string`.
pub async fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let path = path.as_ref();
    let text = read_path(path).await.and_then(|bytes| {
        String::from_utf8(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error.utf8_error()))
    });
    text.map_err(|error| entries::about("read", path, error))
}

async fn read_path(path: &Path) -> io::Result<Vec<u8>> {
    match backend::open_here(StdOpenOptions::new().read(true), path, false).await {
        Some(opened) => read_opened(opened?).await,
        None => {
            let path = path.to_owned();
            backend::lengthy(move || std::fs::read(path)).await
        }
    }
}

async fn read_opened(Opened { std, mut route, size }: Opened) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One more byte than there should be, so that a short read tells the end.
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    reserve(&mut bytes, if size == 0 { OF_UNKNOWN_SIZE } else { size.saturating_add(1) })?;
    let mut turn = 0;
    loop {
        if bytes.len() == bytes.capacity() {
            let more = bytes.len().max(32);
            reserve(&mut bytes, more)?;
        }
        match read_piece(&std, &mut route, &mut bytes) {
            None => return backend::lengthy(move || read_rest(&std, bytes)).await,
            Some(Err(error)) => return Err(error),
            Some(Ok(Piece { count: 0, .. })) => return Ok(bytes),
            // The file is exactly as long as it was said to be. Other reads may be short before the end of
            // the file: the system's own files report size zero.
            Some(Ok(piece)) if piece.is_short && bytes.len() == size => return Ok(bytes),
            Some(Ok(piece)) => turn += piece.count,
        }
        if turn >= TURN {
            turn = 0;
            yield_now().await;
        } else {
            coop::spend();
        }
    }
}

/// The result of one read.
struct Piece {
    count: usize,
    /// There was room for more.
    is_short: bool,
}

/// Reads once, behind `bytes`. `None` if the rest must be read on the pool.
fn read_piece(file: &StdFile, route: &mut Route, bytes: &mut Vec<u8>) -> Option<io::Result<Piece>> {
    let room = bytes.spare_capacity_mut();
    let most = room.len().min(PIECE);
    let result = route.read(file, &mut room[..most], None)?;
    Some(result.map(|count| {
        // SAFETY: the read has initialised `count` bytes behind the others, and has written them to the spare
        // capacity, so the new length is within the capacity.
        unsafe { bytes.set_len(bytes.len() + count) };
        Piece { count, is_short: count < most }
    }))
}

/// Reads the rest of a file behind the bytes that were read, all at once.
fn read_rest(mut file: &StdFile, mut bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn reserve(bytes: &mut Vec<u8>, more: usize) -> io::Result<()> {
    bytes.try_reserve_exact(more).map_err(|_| ErrorKind::OutOfMemory.into())
}

/// Writes a file. The file is made if it does not exist, and emptied if it does.
///
/// The calling task copies the bytes to the system's memory, and lets other tasks run after each MiB. On a
/// `current_thread` runtime a thread of the blocking pool does this, with a copy of its own.
///
/// # Errors
/// The system's errors, or [`WriteZero`](ErrorKind::WriteZero) if the system writes nothing, with the path.
/// Part of the bytes may have been written then.
///
/// # Cancel safety
/// Not safe: the file may have been made and emptied, and may hold any part of the bytes.
///
/// # Examples
/// ```no_run
/// # #[runtime::main]
/// # async fn main() -> std::io::Result<()> {
/// runtime::fs::write("notes.txt", "first").await?;
/// # Ok(())
/// # }
/// ```
///
/// Prior art: `tokio::fs::write`.
pub async fn write(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let (path, contents) = (path.as_ref(), contents.as_ref());
    let mut options = StdOpenOptions::new();
    options.write(true).create(true).truncate(true);
    let result = match backend::open_here(&options, path, false).await {
        Some(Ok(opened)) => write_opened(opened, contents).await,
        Some(Err(error)) => Err(error),
        None => {
            let (path, contents) = (path.to_owned(), contents.to_owned());
            backend::lengthy(move || options.open(path)?.write_all(&contents)).await
        }
    };
    result.map_err(|error| entries::about("write", path, error))
}

async fn write_opened(Opened { std, mut route, .. }: Opened, mut contents: &[u8]) -> io::Result<()> {
    let mut turn = 0;
    while !contents.is_empty() {
        let piece = IoSlice::new(&contents[..contents.len().min(PIECE)]);
        let Some(result) = route.write(&std, &[piece], None) else {
            let rest = contents.to_owned();
            return backend::lengthy(move || (&std).write_all(&rest)).await;
        };
        let count = result?;
        if count == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
        contents = &contents[count..];
        turn += count;
        if turn >= TURN {
            turn = 0;
            yield_now().await;
        } else {
            coop::spend();
        }
    }
    Ok(())
}

/// Copies a file's bytes and permissions to another path, and returns the number of bytes. The file there is
/// made, or overwritten.
///
/// A thread of the blocking pool does this. The bytes stay in the kernel where the file systems allow it. For
/// streams see [`io::copy`](crate::io::copy).
///
/// # Errors
/// The system's errors, with both paths. [`InvalidInput`](ErrorKind::InvalidInput) if `from` is not a regular
/// file, or a link to one.
///
/// # Cancel safety
/// Not safe: the copy goes on, unless it had not begun.
///
/// # Examples
/// ```no_run
/// # #[runtime::main]
/// # async fn main() -> std::io::Result<()> {
/// let bytes = runtime::fs::copy("settings", "settings.bak").await?;
/// # Ok(())
/// # }
/// ```
///
/// Prior art: `tokio::fs::copy`.
pub async fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
    let (from, to) = (from.as_ref(), to.as_ref());
    let owned = (from.to_owned(), to.to_owned());
    let copied = backend::lengthy(move || copy_here(&owned.0, &owned.1)).await;
    copied.map_err(|error| entries::about_copy(from, to, error))
}

/// Copies as `std::fs::copy` does, but goes on if a signal interrupts it: `copy_file_range` ends with an
/// error then. To begin again would never end if a long file is copied while signals come regularly.
fn copy_here(from: &Path, to: &Path) -> io::Result<u64> {
    let mut source = StdFile::open(from)?;
    let found = source.metadata()?;
    if !found.is_file() {
        let text = "the source is neither a regular file nor a symlink to one";
        return Err(io::Error::new(ErrorKind::InvalidInput, text));
    }
    let mut options = StdOpenOptions::new();
    options.write(true).create(true).truncate(true).mode(found.permissions().mode());
    let mut target = options.open(to)?;
    // A FIFO or a device keeps its permissions.
    if target.metadata()?.is_file() {
        target.set_permissions(found.permissions())?;
    }
    // The positions of both files are behind what was copied, also after an error.
    uninterrupted(|| io::copy(&mut source, &mut target))?;
    source.stream_position()
}
