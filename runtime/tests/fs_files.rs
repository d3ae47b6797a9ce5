//! `File`: what is written is read, in order, and nothing is lost.
#![cfg(feature = "fs")]

mod fs_support;
mod support;

use std::io::{ErrorKind, IoSlice, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::Poll;
use std::time::{Duration, SystemTime};

use fs_support::{Dir, begin_to_read, both_ends, everywhere, poll_once, runtime_with_one_blocking_thread};
use runtime::fs::{File, FileTimes};
use runtime::io::{AsyncReadExt, AsyncSeek, AsyncSeekExt, AsyncWrite, AsyncWriteExt};
use support::{Gate, KINDS, build, builder, each_kind, in_child, watchdog};

async fn empty_file(dir: &Dir) -> File {
    let path = dir.join("file");
    File::options().read(true).write(true).create(true).truncate(true).open(path).await.unwrap()
}

#[test]
fn what_is_written_is_read_back() {
    everywhere(async || {
        let dir = Dir::new();
        let mut file = empty_file(&dir).await;
        file.write_all(b"hello, ").await.unwrap();
        file.write_all(b"world").await.unwrap();
        file.rewind().await.unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "hello, world");
        assert_eq!(file.read(&mut [0; 8]).await.unwrap(), 0, "the end");
        assert_eq!(file.seek(SeekFrom::End(-5)).await.unwrap(), 7);
        assert_eq!(file.read(&mut []).await.unwrap(), 0);
        let mut word = [0; 5];
        file.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"world");
    });
}

#[test]
fn where_others_take_over_a_write_is_done_when_it_returns() {
    let runtime = build(1);
    runtime.block_on(async {
        let dir = Dir::new();
        let mut file = empty_file(&dir).await;
        file.write_all(b"now").await.unwrap();
        assert_eq!(std::fs::read(dir.join("file")).unwrap(), b"now");
    });
}

#[test]
fn a_flush_waits_for_what_the_pool_writes() {
    everywhere(async || {
        let dir = Dir::new();
        let mut file = empty_file(&dir).await;
        for n in 0..100_u8 {
            assert_eq!(file.write(&[n; 100]).await.unwrap(), 100);
        }
        file.flush().await.unwrap();
        assert_eq!(std::fs::metadata(dir.join("file")).unwrap().len(), 10_000);
        file.write_all(b"more").await.unwrap();
        file.shutdown().await.unwrap();
        assert_eq!(std::fs::metadata(dir.join("file")).unwrap().len(), 10_004);
    });
}

#[test]
fn what_a_file_has_taken_is_written_also_if_file_and_runtime_are_dropped() {
    each_kind(|runtime| {
        let dir = Dir::new();
        runtime.block_on(async {
            let mut file = empty_file(&dir).await;
            file.write_all(b"taken").await.unwrap();
        });
        drop(runtime);
        assert_eq!(std::fs::read(dir.join("file")).unwrap(), b"taken");
    });
}

#[test]
fn slices_are_written_one_after_the_other() {
    everywhere(async || {
        let dir = Dir::new();
        let mut file = empty_file(&dir).await;
        assert!(file.is_write_vectored());
        let slices = [IoSlice::new(b"abc"), IoSlice::new(b""), IoSlice::new(b"def")];
        assert_eq!(file.write_vectored(&slices).await.unwrap(), 6);
        assert_eq!(file.write_vectored(&slices[1..2]).await.unwrap(), 0);
        assert_eq!(file.write_vectored(&[]).await.unwrap(), 0);
        file.flush().await.unwrap();
        assert_eq!(std::fs::read(dir.join("file")).unwrap(), b"abcdef");
    });
}

#[test]
fn a_call_handles_no_more_than_was_set() {
    everywhere(async || {
        let dir = Dir::new();
        let mut file = empty_file(&dir).await;
        assert_eq!(file.max_buf_size(), 2 << 20);
        // More than one call takes, and more than a file may need.
        let mut huge = vec![7; 5 << 20];
        assert_eq!(file.write(&huge).await.unwrap(), 2 << 20);
        file.rewind().await.unwrap();
        assert_eq!(file.read(&mut huge).await.unwrap(), 2 << 20);

        file.set_max_buf_size(4);
        file.rewind().await.unwrap();
        let slices = [IoSlice::new(b"abc"), IoSlice::new(b"d"), IoSlice::new(b"efghijk")];
        assert_eq!(file.write_vectored(&slices).await.unwrap(), 4);
        assert_eq!(file.write_vectored(&slices[2..]).await.unwrap(), 4, "a long slice alone");
        let slices = [IoSlice::new(b""), IoSlice::new(b""), slices[2]];
        assert_eq!(file.write_vectored(&slices).await.unwrap(), 4, "a long slice after empty ones");
        file.rewind().await.unwrap();
        let mut bytes = [0; 9];
        assert_eq!(file.read(&mut bytes).await.unwrap(), 4);
        assert_eq!(file.read_at(&mut bytes, 1).await.unwrap(), 4);
        assert_eq!(&bytes[..4], b"bcde");
        assert_eq!(file.write_at(&bytes, 1).await.unwrap(), 4);
        assert_eq!(file.try_clone().await.unwrap().max_buf_size(), 4);
    });
}

#[test]
#[should_panic(expected = "`max_buf_size` must be greater than 0")]
fn a_call_of_no_bytes_is_refused() {
    File::from_std(std::fs::File::open("/proc/self/status").unwrap()).set_max_buf_size(0);
}

#[test]
fn a_read_that_was_dropped_loses_nothing() {
    each_kind(|runtime| {
        let dir = Dir::new();
        let mut end = both_ends(&dir.fifo("fifo"));
        runtime.block_on(async {
            let mut file = File::from_std(end.try_clone().unwrap());
            assert!(poll_once(file.read(&mut [0; 3])).is_pending());
            end.write_all(b"abcde").unwrap();
            // With less room than the dropped one had.
            let mut bytes = Vec::new();
            for room in [1, 1, 1, 2] {
                let mut part = vec![0; room];
                let count = file.read(&mut part).await.unwrap();
                bytes.extend_from_slice(&part[..count]);
            }
            assert_eq!(bytes, b"abcde");
        });
    });
}

#[test]
fn a_write_to_a_fifo_after_a_dropped_read_keeps_what_was_read() {
    everywhere(|| async {
        let dir = Dir::new();
        let mut end = both_ends(&dir.fifo("fifo"));
        let mut file = File::from_std(end.try_clone().unwrap());
        assert!(poll_once(file.read(&mut [0; 3])).is_pending());
        end.write_all(b"abc").unwrap();
        file.flush().await.unwrap();
        assert_eq!(file.seek(SeekFrom::Start(0)).await.unwrap_err().kind(), ErrorKind::NotSeekable);
        file.write_all(b"de").await.unwrap();
        let mut bytes = [0; 5];
        file.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"abcde");
    });
}

#[test]
fn a_file_becomes_std_s_at_the_position_where_a_dropped_read_began() {
    runtime_with_one_blocking_thread().block_on(async {
        let mut file = File::open("/proc/self/status").await.unwrap();
        begin_to_read(&mut file);
        let mut std = loop {
            match file.try_into_std() {
                Ok(std) => break std,
                Err(busy) => file = busy,
            }
            runtime::task::yield_now().await;
        };
        assert_eq!(std.stream_position().unwrap(), 0);
    });
}

#[test]
fn a_move_or_write_after_a_dropped_read_counts_from_where_that_began() {
    runtime_with_one_blocking_thread().block_on(async {
        let mut file = File::open("/proc/self/status").await.unwrap();
        begin_to_read(&mut file);
        assert_eq!(file.stream_position().await.unwrap(), 0);
        begin_to_read(&mut file);
        let mut name = [0; 2];
        file.read_exact(&mut name).await.unwrap();
        assert_eq!(&name, b"Na");
        assert_eq!(file.seek(SeekFrom::Current(1)).await.unwrap(), 3);
        let mut rest = [0; 2];
        file.read_exact(&mut rest).await.unwrap();
        assert_eq!(&rest, b"e:");
        for refused in [SeekFrom::Current(i64::MIN), SeekFrom::Current(-6), SeekFrom::Start(u64::MAX)] {
            begin_to_read(&mut file);
            assert!(file.seek(refused).await.is_err(), "{refused:?}");
            assert_eq!(file.stream_position().await.unwrap(), 5, "{refused:?}");
        }
        begin_to_read(&mut file);
        assert_eq!(file.into_std().await.stream_position().unwrap(), 5);

        // Files of this file system are in memory, and cannot say so, either.
        if !std::path::Path::new("/dev/shm").is_dir() {
            return;
        }
        let path = format!("/dev/shm/runtime-fs-test-{}", std::process::id());
        std::fs::write(&path, "hello").unwrap();
        let mut file = File::options().read(true).write(true).open(&path).await.unwrap();
        begin_to_read(&mut file);
        file.write_all(b"J").await.unwrap();
        file.flush().await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"Jello");
        std::fs::remove_file(&path).unwrap();
    });
}

#[test]
fn a_move_waits_its_turn() {
    runtime_with_one_blocking_thread().block_on(async {
        let mut file = File::open("/proc/self/status").await.unwrap();
        begin_to_read(&mut file);
        let error = Pin::new(&mut file).start_seek(SeekFrom::Start(0)).unwrap_err();
        assert!(error.to_string().contains("poll_complete"), "{error}");
        assert_eq!(file.rewind().await.unwrap(), 0);
    });
}

#[test]
fn an_impossible_move_is_an_error_and_changes_nothing() {
    everywhere(async || {
        let dir = Dir::new();
        let mut file = File::open(dir.file("file", "hello")).await.unwrap();
        assert_eq!(file.seek(SeekFrom::Start(2)).await.unwrap(), 2);
        assert_eq!(file.seek(SeekFrom::Current(-3)).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(file.stream_position().await.unwrap(), 2);
        assert_eq!(file.seek(SeekFrom::Start(1 << 40)).await.unwrap(), 1 << 40, "beyond the end");
        assert_eq!(file.read(&mut [0]).await.unwrap(), 0);
    });
}

#[test]
fn a_file_that_is_cut_while_it_is_read_ends_there() {
    everywhere(async || {
        let dir = Dir::new();
        let path = dir.file("file", [1; 100]);
        let mut file = File::open(&path).await.unwrap();
        file.read_exact(&mut [0; 50]).await.unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(60).unwrap();
        assert_eq!(file.read(&mut [0; 100]).await.unwrap(), 10);
        std::fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        assert_eq!(file.read(&mut [0; 100]).await.unwrap(), 0);
        assert_eq!(file.read_exact(&mut [0; 1]).await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    });
}

#[test]
fn the_length_is_set_and_the_position_stays() {
    everywhere(async || {
        let dir = Dir::new();
        let mut file = empty_file(&dir).await;
        file.write_all(b"hello, world").await.unwrap();
        file.set_len(5).await.unwrap();
        assert_eq!(file.metadata().await.unwrap().len(), 5);
        assert_eq!(file.stream_position().await.unwrap(), 12);
        file.set_len(8).await.unwrap();
        file.rewind().await.unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).await.unwrap();
        assert_eq!(bytes, b"hello\0\0\0");
        // And a call that is not awaited does not change places with the calls that follow.
        _ = poll_once(file.set_len(0));
        file.rewind().await.unwrap();
        file.write_all(b"after").await.unwrap();
        file.sync_all().await.unwrap();
        assert_eq!(std::fs::read(dir.join("file")).unwrap(), b"after");
        let read_only = File::open(dir.join("file")).await.unwrap();
        assert_eq!(read_only.set_len(0).await.unwrap_err().raw_os_error(), Some(libc::EINVAL));
    });
}

#[test]
fn times_permissions_and_syncs_reach_the_file() {
    everywhere(async || {
        let dir = Dir::new();
        let mut file = empty_file(&dir).await;
        let then = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        file.write_all(b"old").await.unwrap();
        file.set_times(FileTimes::new().set_accessed(then(1_600_000_000)).set_modified(then(1_500_000_000)))
            .await
            .unwrap();
        let found = file.metadata().await.unwrap();
        assert_eq!(found.accessed().unwrap(), then(1_600_000_000));
        assert_eq!(found.modified().unwrap(), then(1_500_000_000));
        file.set_modified(then(1_400_000_000)).await.unwrap();
        assert_eq!(file.metadata().await.unwrap().modified().unwrap(), then(1_400_000_000));
        assert_eq!(file.metadata().await.unwrap().accessed().unwrap(), then(1_600_000_000));

        let mut permissions = file.metadata().await.unwrap().permissions();
        permissions.set_readonly(true);
        file.set_permissions(permissions).await.unwrap();
        assert!(std::fs::metadata(dir.join("file")).unwrap().permissions().readonly());
        file.sync_data().await.unwrap();
        file.sync_all().await.unwrap();
    });
}

#[test]
fn files_go_to_std_and_come_back() {
    everywhere(async || {
        let dir = Dir::new();
        let path = dir.file("file", "hello");
        let mut file = File::from(std::fs::File::open(&path).unwrap());
        file.read_exact(&mut [0; 2]).await.unwrap();
        assert!(format!("{file:?}").contains("fd:"), "{file:?}");
        assert_eq!(file.as_fd().as_raw_fd(), file.as_raw_fd());
        let mut clone = file.try_clone().await.unwrap();
        let mut std = file.into_std().await;
        let mut letter = [0];
        std.read_exact(&mut letter).unwrap();
        clone.read_exact(&mut letter).await.unwrap();
        assert_eq!(&letter, b"l", "the position is shared");
        // SAFETY: `into_raw_fd` has just given up the descriptor of an open file, so no other code closes it.
        let mut file = unsafe { File::from_raw_fd(std.into_raw_fd()) };
        file.read_exact(&mut letter).await.unwrap();
        assert_eq!(&letter, b"o");
        let std = file.try_into_std().unwrap();
        let mut file = File::from(OwnedFd::from(std));
        assert_eq!(file.read(&mut letter).await.unwrap(), 0);
    });
}

#[test]
fn a_file_that_the_pool_reads_does_not_become_std_s_before() {
    each_kind(|runtime| {
        let dir = Dir::new();
        let mut end = both_ends(&dir.fifo("fifo"));
        runtime.block_on(async {
            let mut file = File::from_std(end.try_clone().unwrap());
            assert!(poll_once(file.read(&mut [0; 3])).is_pending());
            let mut file = file.try_into_std().expect_err("it is being read");
            end.write_all(b"abc").unwrap();
            let mut bytes = [0; 3];
            file.read_exact(&mut bytes).await.unwrap();
            assert_eq!(&bytes, b"abc");
            file.into_std().await;
        });
    });
}

#[test]
fn a_loop_of_calls_lets_other_tasks_run() {
    let _watchdog = watchdog();
    for workers in [0, 1] {
        let runtime = build(workers);
        let is_over = Arc::new(AtomicBool::new(false));
        let other = is_over.clone();
        let looping = runtime.spawn(async move {
            let dir = Dir::new();
            let path = dir.file("file", [7; 100]);
            let mut file = File::options().read(true).write(true).open(&path).await.unwrap();
            let other = runtime::spawn(async move { other.store(true, SeqCst) });
            // None of these calls waits, so without a budget the loop would go on for ever.
            let mut round = 0;
            while !is_over.load(SeqCst) {
                round += 1;
                match round % 4 {
                    0 => _ = file.read(&mut [0; 10]).await.unwrap(),
                    1 => _ = file.rewind().await.unwrap(),
                    2 => _ = file.write(&[0]).await.unwrap(),
                    _ => _ = runtime::fs::metadata(&path).await.unwrap(),
                }
            }
            other.await.unwrap();
        });
        runtime.block_on(looping).unwrap();
    }
}

#[test]
fn each_call_alone_costs_budget() {
    let _watchdog = watchdog();
    // With one worker and no spare worker, no other thread could run the task that ends the loop.
    for call in 0..8 {
        let runtime = support::builder(1).spare_workers(0).build().unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let other = is_over.clone();
        let looping = runtime.spawn(async move {
            let dir = Dir::new();
            let path = dir.file("file", [7; 100]);
            let mut file = File::options().read(true).write(true).open(&path).await.unwrap();
            runtime::spawn(async move { other.store(true, SeqCst) });
            while !is_over.load(SeqCst) {
                match call {
                    0 => _ = file.read(&mut [0; 10]).await.unwrap(),
                    1 => _ = file.rewind().await.unwrap(),
                    2 => _ = file.write_at(&[0], 0).await.unwrap(),
                    3 => _ = runtime::fs::metadata(&path).await.unwrap(),
                    4 => _ = runtime::fs::read(&path).await.unwrap(),
                    5 => runtime::fs::write(&path, "1").await.unwrap(),
                    6 => _ = file.read_at(&mut [0; 10], 0).await.unwrap(),
                    _ => file.set_len(7).await.unwrap(),
                }
            }
        });
        runtime.block_on(looping).unwrap();
    }
}

#[test]
fn a_write_that_the_system_cuts_short_says_so() {
    if !in_child("a_write_that_the_system_cuts_short_says_so", &[]) {
        return;
    }
    // SAFETY: the calls write to nothing; this process is the test's own.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let limit = libc::rlimit { rlim_cur: 1000, rlim_max: 1000 };
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
    let runtime = build(1);
    runtime.block_on(async {
        let dir = Dir::new();
        let mut file = empty_file(&dir).await;
        assert_eq!(file.write(&[1; 4000]).await.unwrap(), 1000);
        let error = file.write(&[1]).await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFBIG));
        assert_eq!(file.write_at(&[2; 600], 500).await.unwrap(), 500);
        assert_eq!(file.write_all_at(&[2; 600], 500).await.unwrap_err().raw_os_error(), Some(libc::EFBIG));
        let error = runtime::fs::write(dir.join("other"), [3; 4000]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge, "{error}");
    });
    // A write that the pool makes later reports its error at the next call.
    build(0).block_on(async {
        let dir = Dir::new();
        let mut file = empty_file(&dir).await;
        assert_eq!(file.write(&[1; 4000]).await.unwrap(), 4000);
        assert_eq!(file.flush().await.unwrap_err().raw_os_error(), Some(libc::EFBIG));
        file.flush().await.unwrap();
        assert_eq!(file.write(&[1]).await.unwrap(), 1);
        assert_eq!(file.sync_all().await.unwrap_err().raw_os_error(), Some(libc::EFBIG));
        assert_eq!(file.write(&[1]).await.unwrap(), 1);
        assert_eq!(file.write(&[1]).await.unwrap_err().raw_os_error(), Some(libc::EFBIG));
    });
}

#[test]
fn a_full_device_is_an_error() {
    each_kind(|runtime| {
        runtime.block_on(async {
            let mut file = File::options().write(true).open("/dev/full").await.unwrap();
            file.write_all(b"x").await.unwrap();
            assert_eq!(file.flush().await.unwrap_err().kind(), ErrorKind::StorageFull);
            let result = runtime::fs::write("/dev/full", "x").await;
            let says = ["write", "/dev/full"];
            fs_support::check_error(result, ErrorKind::StorageFull, Some(libc::ENOSPC), &says);
        });
    });
}

#[test]
fn a_wrong_descriptor_is_an_error() {
    everywhere(async || {
        let dir = Dir::new();
        let path = dir.file("file", "hello");
        let mut write_only = File::options().write(true).open(&path).await.unwrap();
        assert_eq!(write_only.read(&mut [0]).await.unwrap_err().raw_os_error(), Some(libc::EBADF));
        let mut read_only = File::open(&path).await.unwrap();
        let written = read_only.write(&[0]).await;
        let error = if written.is_ok() { read_only.flush().await } else { written.map(drop) };
        assert_eq!(error.unwrap_err().raw_os_error(), Some(libc::EBADF));
        let mut directory = File::open(dir.path()).await.unwrap();
        assert_eq!(directory.read(&mut [0]).await.unwrap_err().kind(), ErrorKind::IsADirectory);

        // SAFETY: the promise that the descriptor is open is broken on purpose. No descriptor has a number
        // that high, so each call fails and none reaches a file of other code. The number is given back
        // below, so that it is not closed.
        let mut closed = unsafe { File::from_raw_fd(i32::MAX) };
        assert_eq!(closed.read(&mut [0]).await.unwrap_err().raw_os_error(), Some(libc::EBADF));
        assert_eq!(closed.metadata().await.unwrap_err().raw_os_error(), Some(libc::EBADF));
        assert_eq!(closed.seek(SeekFrom::Start(0)).await.unwrap_err().raw_os_error(), Some(libc::EBADF));
        assert_eq!(closed.read_at(&mut [0], 0).await.unwrap_err().raw_os_error(), Some(libc::EBADF));
        assert_eq!(closed.into_std().await.into_raw_fd(), i32::MAX);
    });
}

/// The system cannot sync `/dev/null`, and says so each time. The one blocking thread is busy, so that the
/// sync has not begun when its future is dropped.
#[test]
fn an_error_of_a_dropped_sync_is_told_by_the_next_flush() {
    let _watchdog = watchdog();
    for workers in KINDS {
        let runtime = builder(workers).max_blocking_threads(1).build().unwrap();
        let mut file = File::from_std(std::fs::File::options().write(true).open("/dev/null").unwrap());
        let _entered = runtime.enter();
        for sync_all in [false, true] {
            let gate = Gate::default();
            let waits = gate.clone();
            let busy = runtime.spawn_blocking(move || waits.wait());
            match sync_all {
                true => assert!(poll_once(file.sync_all()).is_pending()),
                false => assert!(poll_once(file.sync_data()).is_pending()),
            }
            assert!(
                matches!(poll_once(file.flush()), Poll::Ready(Ok(()))),
                "a flush does not wait for a sync"
            );
            gate.open();
            runtime.block_on(async {
                busy.await.unwrap();
                let error = loop {
                    match if sync_all { file.flush().await } else { file.shutdown().await } {
                        Ok(()) => runtime::task::yield_now().await,
                        Err(error) => break error,
                    }
                };
                assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
                file.flush().await.expect("the error is told once");
            });
        }
    }
}

/// As in Tokio, whose text the panic begins with.
#[cfg(feature = "tokio-strict")]
#[test]
fn without_a_runtime_calls_panic_if_the_crate_is_as_strict_as_tokio() {
    #[track_caller]
    fn is_refused<F: Future>(call: F) {
        let poll = std::panic::AssertUnwindSafe(|| drop(poll_once(call)));
        let panic = std::panic::catch_unwind(poll).expect_err("it needs no runtime");
        let text = support::text_of(&*panic);
        assert!(text.starts_with("there is no reactor running"), "{text}");
    }
    let dir = Dir::new();
    let path = dir.file("file", "hello");
    is_refused(File::create_new(dir.join("new")));
    is_refused(runtime::fs::read(&path));
    is_refused(runtime::fs::copy(&path, dir.join("copy")));
    let mut file = File::from_std(std::fs::File::options().read(true).write(true).open(&path).unwrap());
    is_refused(file.read(&mut [0; 9]));
    is_refused(file.write(b"j"));
    assert_eq!(std::fs::read(&path).unwrap(), b"hello");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was made");
}

#[cfg(not(feature = "tokio-strict"))]
#[test]
fn without_a_runtime_calls_are_made_here() {
    let dir = Dir::new();
    let path = dir.join("file");
    fn ready<T>(poll: Poll<T>) -> T {
        match poll {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("it waits for a runtime"),
        }
    }
    let mut file = ready(poll_once(File::create_new(&path))).unwrap();
    assert_eq!(ready(poll_once(file.write(b"hello"))).unwrap(), 5);
    ready(poll_once(file.sync_all())).unwrap();
    assert_eq!(ready(poll_once(file.rewind())).unwrap(), 0);
    assert_eq!(ready(poll_once(file.read(&mut [0; 9]))).unwrap(), 5);
    assert_eq!(ready(poll_once(runtime::fs::read(&path))).unwrap(), b"hello");
    assert_eq!(ready(poll_once(runtime::fs::copy(&path, dir.join("copy")))).unwrap(), 5);
}

#[test]
fn a_file_outlives_its_runtime() {
    each_kind(|runtime| {
        let dir = Dir::new();
        let mut file = runtime.block_on(empty_file(&dir));
        let handle = runtime.handle().clone();
        drop(runtime);
        let guard = handle.enter();
        // The pool is gone: an error where it is needed, and no hang.
        for _ in 0..2 {
            _ = poll_once(file.write(b"x"));
            _ = poll_once(file.flush());
            _ = poll_once(file.read(&mut [0; 8]));
            _ = poll_once(file.rewind());
            _ = poll_once(file.set_len(0));
        }
        assert!(matches!(poll_once(file.sync_all()), Poll::Ready(Err(_))));
        drop(guard);
        assert!(matches!(poll_once(file.rewind()), Poll::Ready(Ok(0))), "nothing is under way for ever");
    });
}
