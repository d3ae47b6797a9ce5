//! What becomes of the bytes of a read on the pool whose future was dropped.
#![cfg(feature = "fs")]

mod fs_support;
mod support;

use std::io::SeekFrom;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::PathBuf;

use fs_support::{
    begin_to_read, begin_to_read_up_to, everywhere, poll_once, runtime_with_one_blocking_thread,
};
use runtime::fs::File;
use runtime::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

/// A file whose system cannot say what is in memory, so that the pool reads it. The file is removed when this
/// is dropped.
struct Shm(PathBuf);

impl Shm {
    /// `None` if this machine has no such file system.
    fn new(name: &str, text: &str) -> Option<Self> {
        let dir = PathBuf::from("/dev/shm");
        if !dir.is_dir() {
            return None;
        }
        let path = dir.join(format!("runtime-fs-test-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Some(Self(path))
    }

    async fn open(&self) -> File {
        File::options().read(true).write(true).open(&self.0).await.unwrap()
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap()
    }
}

impl Drop for Shm {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.0);
    }
}

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

/// The kernel's log does not say its position, but moves to its end.
#[test]
fn a_device_that_does_not_say_its_position_can_be_moved() {
    use std::io::{Read, Seek};
    use std::os::unix::fs::OpenOptionsExt;
    let open = std::fs::File::options().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg");
    let has_record =
        |mut log: std::fs::File| log.stream_position().is_err() && log.read(&mut [0; 8192]).is_ok();
    if !open.is_ok_and(has_record) {
        return;
    }
    runtime_with_one_blocking_thread().block_on(async {
        let mut file = File::open("/dev/kmsg").await.unwrap();
        let mut record = [0; 8192];
        begin_to_read_up_to(record.len(), &mut file);
        // The read has ended.
        file.flush().await.unwrap();
        file.seek(SeekFrom::End(0)).await.unwrap();
        assert!(file.read(&mut record).await.unwrap() > 0, "the bytes were kept");
    });
}

/// Another descriptor of the same open file.
fn file_of(file: &File) -> std::fs::File {
    std::os::fd::AsFd::as_fd(file).try_clone_to_owned().unwrap().into()
}

#[test]
fn a_clone_begins_where_the_dropped_read_began() {
    let Some(shm) = Shm::new("clone", "hello") else { return };
    runtime_with_one_blocking_thread().block_on(async {
        let mut file = shm.open().await;
        begin_to_read(&mut file);
        let mut clone = file.try_clone().await.unwrap();
        let mut bytes = [0; 5];
        clone.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"hello");
        clone.rewind().await.unwrap();
        assert_eq!(file.rewind().await.unwrap(), 0);
        file.write_all(b"J").await.unwrap();
        file.flush().await.unwrap();
        assert_eq!(shm.text(), "Jello");
    });
}

#[test]
fn a_handle_leaves_the_place_to_which_another_one_has_moved_the_file() {
    let Some(shm) = Shm::new("moved", "hello") else { return };
    runtime_with_one_blocking_thread().block_on(async {
        let mut file = shm.open().await;
        let mut clone = file.try_clone().await.unwrap();
        for call in 0..5 {
            file.rewind().await.unwrap();
            begin_to_read(&mut file);
            // The read has ended.
            file.flush().await.unwrap();
            assert_eq!(clone.seek(SeekFrom::Start(60)).await.unwrap(), 60);
            match call {
                0 => _ = file.try_clone().await.unwrap(),
                1 => file.set_len(5).await.unwrap(),
                2 => assert_eq!(file.stream_position().await.unwrap(), 60),
                3 => assert_eq!(file.seek(SeekFrom::End(-1)).await.unwrap(), 4),
                _ => _ = file.write(b"!").await.unwrap(),
            }
            file.flush().await.unwrap();
            let place = [60, 60, 60, 4, 61][call];
            assert_eq!(clone.stream_position().await.unwrap(), place, "call {call}");
        }
        file.rewind().await.unwrap();
        begin_to_read(&mut file);
        file.flush().await.unwrap();
        assert_eq!(clone.seek(SeekFrom::Start(70)).await.unwrap(), 70);
        file.into_std().await;
        assert_eq!(clone.stream_position().await.unwrap(), 70);
    });
}
