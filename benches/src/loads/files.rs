//! Files in memory: whole ones, lines, pieces, questions; and a file that comes from the disk.

use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;

use super::{Load, in_task};
use crate::peer::Files;

/// Bytes of the file that is read whole.
pub const WHOLE: usize = 64 << 10;

/// Bytes of a piece.
const PIECE: usize = 4 << 10;

/// The loads, with the number of operations in one iteration.
pub fn all<P: Files>() -> [(&'static str, usize, Load<P>); 6] {
    [
        ("file_read_64k", 1_000, read_whole),
        ("file_read_cold", 100, read_cold),
        ("file_lines", 100_000, lines),
        ("file_read_4k", 10_000, read_pieces),
        ("file_write_4k", 2_000, write_pieces),
        ("file_metadata", 2_000, ask_length),
    ]
}

/// A file that is removed when dropped.
#[derive(Debug)]
pub struct TemporaryFile(pub PathBuf);

impl TemporaryFile {
    /// A file with these bytes in it, which the page cache holds.
    pub fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("runtime-bench-{name}-{}", std::process::id()));
        std::fs::write(&path, bytes).expect("there is room for a file");
        Self(path)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.0);
    }
}

/// A task reads a file of 64 KiB, `times` times.
pub fn read_whole<P: Files>(peer: &P, times: usize) {
    let file = Arc::new(TemporaryFile::new("whole", &[b'x'; WHOLE]));
    in_task(peer, async move { assert_eq!(P::read_whole(&file.0, times).await, times * WHOLE) });
}

/// A task reads a file of 64 KiB that is not in memory, `times` times. The page cache drops it before each
/// read.
pub fn read_cold<P: Files>(peer: &P, times: usize) {
    let file = TemporaryFile::new("cold", &[b'x'; WHOLE]);
    in_task(peer, async move {
        let pages = std::fs::File::open(&file.0).expect("the file is there");
        // The page cache keeps pages that are not on the disk yet.
        pages.sync_all().expect("there is room for a file");
        for _ in 0..times {
            // SAFETY: no memory is passed, and `pages` keeps the descriptor open.
            let error = unsafe { libc::posix_fadvise(pages.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
            assert_eq!(error, 0, "the page cache takes advice");
            assert_eq!(P::read_whole(&file.0, 1).await, WHOLE);
        }
    });
}

/// A task reads the `lines` lines of a file, each of 10 to 90 bytes.
pub fn lines<P: Files>(peer: &P, lines: usize) {
    let mut text = String::new();
    for line in 0..lines {
        text.extend(std::iter::repeat_n('x', 9 + line * 37 % 81));
        text.push('\n');
    }
    let file = TemporaryFile::new("lines", text.as_bytes());
    in_task(peer, async move { assert_eq!(P::lines_of_file(&file.0).await, lines) });
}

/// A task reads `pieces` of 4 KiB.
pub fn read_pieces<P: Files>(peer: &P, pieces: usize) {
    let file = TemporaryFile::new("pieces", &[b'x'; 1 << 20]);
    in_task(peer, async move { P::read_pieces(&file.0, pieces, PIECE).await });
}

/// A task writes `pieces` of 4 KiB, each of which is flushed.
pub fn write_pieces<P: Files>(peer: &P, pieces: usize) {
    let file = TemporaryFile::new("written", &[b'x'; PIECE]);
    in_task(peer, async move { P::write_pieces(&file.0, pieces, PIECE).await });
}

/// A task asks how long a file is, `times` times.
pub fn ask_length<P: Files>(peer: &P, times: usize) {
    let file = TemporaryFile::new("asked", &[b'x'; 1]);
    in_task(peer, async move { assert_eq!(P::ask_length(&file.0, times).await, 1) });
}
