//! Functions that read, write and copy whole files, and the errors for files that they cannot handle.
#![cfg(feature = "fs")]

mod fs_support;
mod support;

use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use fs_support::{Dir, check_error, everywhere, poll_once};
use runtime::fs;
use support::{build, in_child, until};

#[test]
fn files_of_every_size_are_read_whole() {
    everywhere(async || {
        let dir = Dir::new();
        for size in [0, 1, 4095, 4096, 4097, 65_536, 300_000, (5 << 20) + 3] {
            let bytes: Vec<_> = (0..size).map(|n| (n % 251) as u8).collect();
            let path = dir.file("file", &bytes);
            assert!(fs::read(&path).await.unwrap() == bytes, "{size}");
            fs::write(dir.join("copy"), &bytes).await.unwrap();
            assert!(std::fs::read(dir.join("copy")).unwrap() == bytes, "{size}");
        }
    });
}

#[test]
fn files_that_say_they_are_empty_are_read_whole() {
    everywhere(async || {
        // Some come in pieces, some are longer than a page.
        for path in ["/proc/self/status", "/proc/self/maps", "/proc/cpuinfo", "/proc/self/cmdline"] {
            let (theirs, ours) = (std::fs::read(path).unwrap(), fs::read(path).await.unwrap());
            assert_eq!(theirs.is_empty(), ours.is_empty(), "{path}");
            // What changes changes little.
            assert!(ours.len() > theirs.len() / 2, "{path}: {} of {}", ours.len(), theirs.len());
            assert_eq!(theirs.ends_with(b"\n"), ours.ends_with(b"\n"), "{path}");
        }
        let text = fs::read_to_string("/proc/self/comm").await.unwrap();
        assert_eq!(text, std::fs::read_to_string("/proc/self/comm").unwrap());
    });
}

#[test]
fn what_is_not_in_memory_is_read_by_the_pool() {
    everywhere(async || {
        let dir = Dir::new();
        let bytes: Vec<_> = (0..3 << 20).map(|n: u32| (n % 253) as u8).collect();
        let path = dir.file("file", &bytes);
        let file = std::fs::File::open(&path).unwrap();
        file.sync_all().unwrap();
        let forget = || {
            use std::os::fd::AsRawFd;
            // SAFETY: the call only says what the file's pages are for.
            assert_eq!(unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) }, 0);
        };
        forget();
        assert!(fs::read(&path).await.unwrap() == bytes);
        forget();
        let mut read = Vec::new();
        let mut open = fs::File::open(&path).await.unwrap();
        runtime::io::AsyncReadExt::read_to_end(&mut open, &mut read).await.unwrap();
        assert!(read == bytes);
        forget();
        let mut part = vec![0; 100_000];
        open.read_exact_at(&mut part, 1 << 20).await.unwrap();
        assert!(part == bytes[1 << 20..][..100_000]);
        forget();
        let (count, parts) = open.read_vectored_at(vec![vec![0; 5000], vec![0; 5000]], 1 << 20).await;
        let count = count.unwrap();
        assert!(count > 0 && parts.concat()[..count] == bytes[1 << 20..][..count]);
    });
}

#[test]
fn text_that_is_none_is_an_error_that_names_the_file() {
    everywhere(async || {
        let dir = Dir::new();
        let path = dir.file("file", b"ab\xff");
        let error = fs::read_to_string(&path).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        if !cfg!(feature = "raw-os-errors") {
            assert!(error.to_string().contains("/file\""), "{error}");
        }
        assert_eq!(fs::read_to_string(dir.file("file", "grüße")).await.unwrap(), "grüße");
    });
}

#[test]
fn a_file_replaces_what_was_there() {
    everywhere(async || {
        let dir = Dir::new();
        let path = dir.file("file", "longer than what comes");
        fs::write(&path, "short").await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"short");
        fs::write(&path, b"").await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        fs::write(dir.join("other"), vec![1, 2]).await.unwrap();
        assert_eq!(std::fs::read(dir.join("other")).unwrap(), [1, 2]);
    });
}

#[test]
fn a_copy_has_the_bytes_and_the_permissions() {
    everywhere(async || {
        let dir = Dir::new();
        let path = dir.file("file", "hello");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(fs::copy(&path, dir.join("copy")).await.unwrap(), 5);
        assert_eq!(std::fs::read(dir.join("copy")).unwrap(), b"hello");
        assert_eq!(std::fs::metadata(dir.join("copy")).unwrap().permissions().mode() & 0o777, 0o640);
    });
}

#[test]
fn bad_paths_are_errors_that_show_them() {
    everywhere(async || {
        let dir = Dir::new();
        let path = dir.file("file", "");
        let invalid = ErrorKind::InvalidInput;
        check_error(fs::read("a\0b").await, invalid, None, &["read \"a\\0b\"", "NUL"]);
        check_error(fs::write("a\0b", "").await, invalid, None, &["write \"a\\0b\"", "NUL"]);
        check_error(fs::File::open("a\0b").await, invalid, None, &["open \"a\\0b\"", "NUL"]);
        check_error(fs::copy("a\0b", "c").await, invalid, None, &["copy \"a\\0b\" to \"c\"", "NUL"]);
        let copied = fs::copy(dir.path(), dir.join("copy")).await;
        check_error(copied, invalid, None, &["copy", "neither a regular file"]);
        assert!(!dir.join("copy").exists());
        check_error(fs::rename("c", "a\0b").await, invalid, None, &["rename \"c\" to \"a\\0b\"", "NUL"]);
        check_error(fs::metadata("a\0b").await, invalid, None, &["metadata of \"a\\0b\"", "NUL"]);

        let (absent, enoent) = (ErrorKind::NotFound, Some(libc::ENOENT));
        check_error(fs::read("").await, absent, enoent, &["read \"\""]);
        check_error(fs::write("", "").await, absent, enoent, &["write \"\""]);
        check_error(fs::File::open("").await, absent, enoent, &["open \"\""]);
        check_error(fs::create_dir("").await, absent, enoent, &["create directory \"\""]);
        check_error(fs::read(dir.join("absent")).await, absent, enoent, &["read", "/absent\""]);
        check_error(fs::File::open(dir.join("absent")).await, absent, enoent, &["open", "/absent\""]);

        let (directory, eisdir) = (ErrorKind::IsADirectory, Some(libc::EISDIR));
        check_error(fs::read(dir.path()).await, directory, eisdir, &["read", dir.path().to_str().unwrap()]);
        check_error(fs::write(dir.path(), "").await, directory, eisdir, &["write"]);
        check_error(fs::File::create(dir.path()).await, directory, eisdir, &["open"]);
        check_error(
            fs::read(path.join("below")).await,
            ErrorKind::NotADirectory,
            Some(libc::ENOTDIR),
            &["/file/below\""],
        );
        check_error(
            fs::File::create_new(&path).await,
            ErrorKind::AlreadyExists,
            Some(libc::EEXIST),
            &["open", "/file\""],
        );
        let long = "x".repeat(300);
        let theirs = std::fs::read(dir.join(&long)).unwrap_err();
        check_error(fs::read(dir.join(&long)).await, theirs.kind(), Some(libc::ENAMETOOLONG), &[&long]);
        assert_eq!(fs::OpenOptions::new().open(&path).await.unwrap_err().kind(), invalid, "for nothing");
    });
}

#[test]
fn without_permission_there_is_an_error() {
    const NAME: &str = "without_permission_there_is_an_error";
    const FOLDER: &str = "RUNTIME_TEST_FOLDER";
    if !support::is_child(NAME) {
        let dir = Dir::new();
        let path = dir.file("file", "secret");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
        std::fs::create_dir(dir.join("shut")).unwrap();
        std::fs::set_permissions(dir.join("shut"), std::fs::Permissions::from_mode(0o000)).unwrap();
        in_child(NAME, &[(FOLDER, dir.path().to_str().unwrap())]);
        std::fs::set_permissions(dir.join("shut"), std::fs::Permissions::from_mode(0o700)).unwrap();
        return;
    }
    let dir = std::path::PathBuf::from(std::env::var_os(FOLDER).unwrap());
    // Root may do anything, so the test becomes another user, for good.
    // SAFETY: the call changes this process, which is the test's own.
    unsafe { libc::setuid(65_534) };
    for workers in support::KINDS {
        build(workers).block_on(async {
            let (denied, eacces) = (ErrorKind::PermissionDenied, Some(libc::EACCES));
            let path = dir.join("file");
            check_error(fs::read(&path).await, denied, eacces, &["read", "/file\""]);
            check_error(fs::write(&path, "").await, denied, eacces, &["write", "/file\""]);
            check_error(fs::File::open(&path).await, denied, eacces, &["open", "/file\""]);
            check_error(fs::try_exists(dir.join("shut/file")).await, denied, eacces, &["/shut/file\""]);
            check_error(fs::read_dir(dir.join("shut")).await, denied, eacces, &["/shut\""]);
        });
    }
}

/// Opens `path` until there is no descriptor left, then makes `call`. The monitor opens a file now and then.
/// If the call succeeds because the monitor has just closed one, this begins again.
async fn without_descriptors<T>(
    path: &Path,
    others: &mut Vec<fs::File>,
    call: impl AsyncFn() -> std::io::Result<T>,
) -> std::io::Result<()> {
    for _ in 0..100 {
        while let Ok(other) = fs::File::open(path).await {
            others.push(other);
        }
        call().await.map(drop)?;
    }
    panic!("a hundred times a descriptor was left");
}

#[test]
fn too_many_open_files_are_an_error() {
    if !in_child("too_many_open_files_are_an_error", &[]) {
        return;
    }
    for workers in support::KINDS {
        let runtime = build(workers);
        let dir = Dir::new();
        let path = dir.file("file", "hello");
        runtime.block_on(async {
            let file = fs::File::open(&path).await.unwrap();
            let mut others = Vec::new();
            support::limit(libc::RLIMIT_NOFILE, 64);
            let emfile = Some(libc::EMFILE);
            let kind = std::io::Error::from_raw_os_error(libc::EMFILE).kind();
            let open = without_descriptors(&path, &mut others, async || fs::File::open(&path).await).await;
            check_error(open, kind, emfile, &["open", "/file\""]);
            let read = without_descriptors(&path, &mut others, async || fs::read(&path).await).await;
            check_error(read, kind, emfile, &["read", "/file\""]);
            let write = without_descriptors(&path, &mut others, async || fs::write(&path, "").await).await;
            check_error(write, kind, emfile, &["write", "/file\""]);
            let list = without_descriptors(&path, &mut others, async || fs::read_dir(dir.path()).await).await;
            check_error(list, kind, emfile, &["read directory"]);
            let clone = without_descriptors(&path, &mut others, async || file.try_clone().await).await;
            assert_eq!(clone.unwrap_err().raw_os_error(), emfile);
            assert!(fs::metadata(&path).await.is_ok(), "that needs none");
            others.clear();
            assert_eq!(fs::read(&path).await.unwrap(), b"hello");
        });
    }
}

#[test]
fn no_room_for_a_file_is_an_error() {
    let dir = Dir::new();
    let path = dir.join("hole");
    // As long as the file system allows; no memory is as large.
    let file = std::fs::File::create(&path).unwrap();
    let len = [i64::MAX as u64 - 4096, 1 << 43].into_iter().find(|len| file.set_len(*len).is_ok());
    if len.is_none() {
        return;
    }
    build(1).block_on(async {
        // Where memory is given out before it is there, a hole of 8 TiB might be read for hours.
        if len > Some(1 << 46) {
            let error = fs::read(&path).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
        }
    });
}

#[test]
fn a_long_file_lets_other_tasks_run() {
    let runtime = support::builder(1).spare_workers(0).build().unwrap();
    let dir = Dir::new();
    let path = dir.file("file", vec![1; 8 << 20]);
    let is_over = Arc::new(AtomicBool::new(false));
    let other = is_over.clone();
    runtime
        .block_on(runtime.spawn(async move {
            let other = runtime::spawn(async move { other.store(true, SeqCst) });
            let bytes = fs::read(&path).await.unwrap();
            assert!(is_over.load(SeqCst), "the other task ran before the end");
            is_over.store(false, SeqCst);
            other.await.unwrap();
            let also = is_over.clone();
            runtime::spawn(async move { also.store(true, SeqCst) });
            fs::write(&path, bytes).await.unwrap();
            assert!(is_over.load(SeqCst), "here as well");
        }))
        .unwrap();
}

#[test]
fn a_fifo_is_read_to_its_end_and_holds_nobody() {
    everywhere(async || {
        let dir = Dir::new();
        let fifo = dir.fifo("fifo");
        let mut reading = Box::pin(fs::read(&fifo));
        assert!(poll_once(&mut reading).is_pending());
        let mut writer = std::fs::File::options().write(true).open(&fifo).unwrap();
        writer.write_all(b"through").unwrap();
        drop(writer);
        assert_eq!(reading.await.unwrap(), b"through");

        let mut writing = Box::pin(fs::write(fifo.clone(), "back"));
        assert!(poll_once(&mut writing).is_pending());
        let text = std::thread::spawn(move || std::fs::read_to_string(fifo).unwrap());
        writing.await.unwrap();
        assert_eq!(text.join().unwrap(), "back");
    });
}

#[test]
fn a_cancelled_wait_for_a_fifo_ends_with_the_other_end() {
    let runtime = build(1);
    let dir = Dir::new();
    let fifo = dir.fifo("fifo");
    runtime.block_on(async {
        let open = fs::File::open(fifo.clone());
        let late = runtime::time::timeout(std::time::Duration::from_millis(5), open).await;
        assert!(late.is_err(), "the open waits on the pool, and the time-out fires");
    });
    // The thread is still there, and goes when the other end comes.
    let writer = std::fs::File::options().write(true).open(&fifo).unwrap();
    until("the pool's thread is free", || runtime.metrics().num_idle_blocking_threads() == 1);
    drop(writer);
}
