//! What becomes of the bytes of a read on the pool whose future was dropped.
#![cfg(feature = "fs")]

mod fs_support;
mod support;

use std::os::fd::{FromRawFd, OwnedFd};

use fs_support::{everywhere, poll_once};
use runtime::fs::File;
use runtime::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

#[test]
fn a_move_that_moves_nothing_keeps_the_bytes() {
    everywhere(|| async {
        // Each move of an event descriptor succeeds, and changes nothing.
        // SAFETY: the call takes no pointer.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: the system has just given this descriptor to the test.
        let mut file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        let mut count = [0; 8];
        assert!(poll_once(file.read(&mut count)).is_pending());
        let mut other = file_of(&file);
        std::io::Write::write_all(&mut other, &5_u64.to_ne_bytes()).unwrap();
        file.write_all(&7_u64.to_ne_bytes()).await.unwrap();
        assert_eq!(file.stream_position().await.unwrap(), 0);
        assert_eq!(file.rewind().await.unwrap(), 0);
        for expected in [5_u64, 7] {
            file.read_exact(&mut count).await.unwrap();
            assert_eq!(u64::from_ne_bytes(count), expected);
        }
    });
}

/// Another descriptor of the same open file.
fn file_of(file: &File) -> std::fs::File {
    std::os::fd::AsFd::as_fd(file).try_clone_to_owned().unwrap().into()
}
