//! Files on a device that is full: the error names what failed, the bytes that fitted are there, and the next
//! write works when there is room.
#![cfg(feature = "fs")]

mod fs_support;
mod support;

use std::ffi::CString;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

use fs_support::{Dir, check_error};
use runtime::fs::File;
use runtime::io::{AsyncSeekExt, AsyncWriteExt};
use support::{Gate, KINDS, build, builder, each_kind, watchdog};

const DISK_SIZE: usize = 64 << 10;
/// More than the disk holds.
const TOO_MUCH: usize = 100_000;

/// A file system of [`DISK_SIZE`] bytes in memory. Only the thread that mounts it sees it, and the threads
/// that it starts.
struct Disk(Dir);

impl Disk {
    fn mount() -> io::Result<Disk> {
        let check = |result| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
        let (root, nothing) = (c"/".as_ptr(), ptr::null());
        let dir = Dir::new();
        let (path, kind) = (c_string(dir.path()), c"tmpfs".as_ptr());
        // SAFETY: the calls read strings that end with a zero, and pointers may be null where they are.
        unsafe {
            check(libc::unshare(libc::CLONE_NEWNS))?;
            // What is mounted from now on stays within this thread's name space.
            check(libc::mount(nothing, root, nothing, libc::MS_REC | libc::MS_PRIVATE, nothing.cast()))?;
            check(libc::mount(kind, path.as_ptr(), kind, 0, c"size=64k,nr_inodes=8".as_ptr().cast()))?;
        }
        Ok(Disk(dir))
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Makes a file that takes all room but `room` bytes. To remove the file makes room.
    fn fill_but(&self, room: usize) -> PathBuf {
        self.0.file("filler", vec![0xff; DISK_SIZE - room])
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let path = c_string(self.0.path());
        // SAFETY: the call reads a string that ends with a zero.
        assert_eq!(unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) }, 0);
    }
}

fn c_string(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// Calls `test` with a new disk and the number of workers of each kind of runtime. Says so if the process may
/// not mount.
fn on_a_small_disk(test: impl Fn(&Disk, usize) + Sync) {
    let _watchdog = watchdog();
    // The name space is that of a thread of its own, and ends with it. The threads of a runtime have the name
    // space of the thread that starts them.
    let thread = || {
        for workers in KINDS {
            match Disk::mount() {
                Ok(disk) => test(&disk, workers),
                Err(error) => return println!("skipped: a file system cannot be mounted: {error}"),
            }
        }
    };
    let result = std::thread::scope(|scope| scope.spawn(thread).join());
    result.unwrap_or_else(|payload| std::panic::resume_unwind(payload));
}

/// Bytes of which no block is like another.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

/// Writes all of `bytes` and flushes: what is written behind the caller's back fails in the flush.
async fn write_and_flush(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes).await?;
    file.flush().await
}

#[track_caller]
fn is_full<T>(result: io::Result<T>) {
    let error = result.err().expect("there is no room");
    assert_eq!((error.kind(), error.raw_os_error()), (ErrorKind::StorageFull, Some(libc::ENOSPC)));
}

#[test]
fn a_write_keeps_what_fitted_and_goes_on_when_there_is_room() {
    on_a_small_disk(|disk, workers| {
        let runtime = build(workers);
        let path = disk.join("file");
        runtime.block_on(async {
            let bytes = pattern(TOO_MUCH);
            let mut file = File::create(&path).await.unwrap();
            is_full(write_and_flush(&mut file, &bytes).await);
            assert!(std::fs::read(&path).unwrap() == bytes[..DISK_SIZE], "what fitted is there");
            file.flush().await.expect("the error is told once");
            is_full(write_and_flush(&mut file, b"x").await);
            file.sync_all().await.expect("what fitted can be written to the disk");

            file.set_len(1000).await.unwrap();
            assert_eq!(file.seek(io::SeekFrom::End(0)).await.unwrap(), 1000);
            write_and_flush(&mut file, b"and more").await.unwrap();
            assert!(std::fs::read(&path).unwrap() == [&bytes[..1000], b"and more"].concat());
        });
    });
}

#[test]
fn a_write_at_an_offset_keeps_what_fitted() {
    on_a_small_disk(|disk, workers| {
        let runtime = build(workers);
        let path = disk.join("file");
        runtime.block_on(async {
            let filler = disk.fill_but(8192);
            let bytes = pattern(10_000);
            let file = File::options().read(true).write(true).create(true).open(&path).await.unwrap();
            is_full(file.write_all_at(&bytes, 0).await);
            assert!(std::fs::read(&path).unwrap() == bytes[..8192], "what fitted is there");
            is_full(file.write_at(b"x", 8192).await);
            let (result, returned) = file.write_vectored_at(vec!["one", "two"], 8192).await;
            is_full(result);
            assert_eq!(returned, ["one", "two"], "the buffers come back with the error");
            // What is there can be overwritten.
            assert_eq!(file.write_at(b"other", 0).await.unwrap(), 5);

            // A longer file takes no room before its hole is written to.
            file.set_len(1 << 20).await.unwrap();
            is_full(file.write_all_at(b"x", 1 << 19).await);
            let mut hole = [1];
            file.read_exact_at(&mut hole, 1 << 19).await.unwrap();
            assert_eq!(hole, [0]);

            std::fs::remove_file(filler).unwrap();
            file.write_all_at(b"x", 1 << 19).await.unwrap();
            file.read_exact_at(&mut hole, 1 << 19).await.unwrap();
            assert_eq!(hole, *b"x");
        });
    });
}

#[test]
fn a_whole_file_that_does_not_fit_is_an_error_with_its_path() {
    on_a_small_disk(|disk, workers| {
        let runtime = build(workers);
        let (source, target) = (disk.join("source"), disk.join("target"));
        let shown = [source.to_str().unwrap(), target.to_str().unwrap()];
        let full = (ErrorKind::StorageFull, Some(libc::ENOSPC));
        runtime.block_on(async {
            let bytes = pattern(TOO_MUCH);
            let result = runtime::fs::write(&target, &bytes).await;
            check_error(result, full.0, full.1, &["write", shown[1]]);
            assert!(std::fs::read(&target).unwrap() == bytes[..DISK_SIZE], "what fitted is there");
            runtime::fs::write(&target, "little").await.expect("the first write's bytes make room");

            std::fs::remove_file(&target).unwrap();
            let bytes = &bytes[..40 << 10];
            std::fs::write(&source, bytes).unwrap();
            let result = runtime::fs::copy(&source, &target).await;
            check_error(result, full.0, full.1, &["copy", shown[0], shown[1]]);
            let copied = std::fs::read(&target).unwrap();
            assert!(copied == bytes[..DISK_SIZE - bytes.len()], "what fitted is there: {}", copied.len());
            std::fs::write(&source, &bytes[..1000]).unwrap();
            assert_eq!(runtime::fs::copy(&source, &target).await.unwrap(), 1000);

            // There is room for eight files, and the disk's root is one.
            let mut made = Vec::new();
            let (refused, path) = loop {
                let path = disk.join(&format!("empty-{}", made.len()));
                match File::create(&path).await {
                    Ok(_) => made.push(path),
                    refused => break (refused, path),
                }
                assert!(made.len() < 8);
            };
            check_error(refused, full.0, full.1, &["open", path.to_str().unwrap()]);
            let path = disk.join("directory");
            let result = runtime::fs::create_dir(&path).await;
            check_error(result, full.0, full.1, &["create", path.to_str().unwrap()]);
            runtime::fs::remove_file(&made[0]).await.unwrap();
            runtime::fs::create_dir(&path).await.unwrap();
        });
    });
}

/// A file that was dropped has no caller to tell, also if its task panics.
#[test]
fn a_file_whose_last_write_failed_is_dropped_quietly() {
    on_a_small_disk(|disk, workers| {
        let runtime = build(workers);
        let (path, other) = (disk.join("file"), disk.join("other"));
        let bytes = pattern(TOO_MUCH);
        runtime.block_on(async {
            let mut file = File::create(&path).await.unwrap();
            _ = file.write_all(&bytes).await;
            drop(file);
            let (other, bytes) = (other.clone(), bytes.clone());
            let panics = runtime::spawn(async move {
                let mut file = File::create(&other).await.unwrap();
                _ = file.write_all(&bytes).await;
                panic!("with a file whose write fails");
            });
            assert!(panics.await.unwrap_err().is_panic());
        });
        // The end of the runtime waits for the writes.
        drop(runtime);
        let (one, other) = (std::fs::read(&path).unwrap(), std::fs::read(&other).unwrap());
        assert!(one == bytes[..one.len()] && other == bytes[..other.len()]);
        assert_eq!(one.len() + other.len(), DISK_SIZE, "what fitted is there");
    });
}

/// The one blocking thread is busy, so that a write has not begun when its file and runtime are dropped. The
/// thread that drops the runtime makes the write.
#[test]
fn a_write_that_fails_while_its_runtime_is_dropped_is_quiet() {
    on_a_small_disk(|disk, _| {
        let runtime = builder(0).max_blocking_threads(1).build().unwrap();
        let (path, bytes, gate) = (disk.join("file"), pattern(TOO_MUCH), Gate::default());
        runtime.block_on(async {
            let mut file = File::create(&path).await.unwrap();
            let waits = gate.clone();
            runtime::task::spawn_blocking(move || waits.wait());
            file.write_all(&bytes).await.unwrap();
        });
        assert_eq!(std::fs::read(&path).unwrap(), b"", "the write has not begun");
        runtime.shutdown_background();
        assert!(std::fs::read(&path).unwrap() == bytes[..DISK_SIZE], "what fitted is there");
        gate.open();
    });
}

#[test]
fn a_full_device_refuses_each_way_to_write() {
    let _watchdog = watchdog();
    const FULL: &str = "/dev/full";
    each_kind(|runtime| {
        let dir = Dir::new();
        let path = dir.file("file", "bytes");
        runtime.block_on(async {
            let mut file = File::options().write(true).open(FULL).await.unwrap();
            for _ in 0..2 {
                is_full(write_and_flush(&mut file, b"x").await);
                is_full(file.write_at(b"x", 0).await);
                is_full(file.write_all_at(b"x", 7).await);
                let (result, returned) = file.write_vectored_at(vec!["x", "y"], 7).await;
                is_full(result);
                assert_eq!(returned, ["x", "y"], "the buffers come back with the error");
            }
            let result = runtime::fs::copy(&path, FULL).await;
            let says = ["copy", path.to_str().unwrap(), FULL];
            check_error(result, ErrorKind::StorageFull, Some(libc::ENOSPC), &says);
            // Nothing is left of the write that fails now.
            _ = file.write_all(b"x").await;
            drop(file);
        });
    });
}
