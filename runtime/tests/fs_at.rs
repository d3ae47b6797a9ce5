//! Reads and writes with an offset of their own.
#![cfg(feature = "fs")]

mod fs_support;
mod support;

use std::io::{ErrorKind, SeekFrom};
use std::sync::Arc;

use fs_support::{Dir, both_ends, everywhere};
use runtime::fs::File;
use runtime::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use support::{build, each_kind, refuse};

async fn file(dir: &Dir, bytes: &str) -> File {
    File::options().read(true).write(true).open(dir.file("file", bytes)).await.unwrap()
}

#[test]
fn the_position_stays_where_it_is() {
    everywhere(async || {
        let dir = Dir::new();
        let mut file = file(&dir, "hello, world").await;
        file.seek(SeekFrom::Start(3)).await.unwrap();
        let mut word = [0; 5];
        assert_eq!(file.read_at(&mut word, 7).await.unwrap(), 5);
        assert_eq!(&word, b"world");
        assert_eq!(file.read_at(&mut word, 10).await.unwrap(), 2);
        assert_eq!(file.read_at(&mut word, 12).await.unwrap(), 0);
        assert_eq!(file.read_at(&mut word, 1 << 40).await.unwrap(), 0);
        assert_eq!(file.read_at(&mut [], 0).await.unwrap(), 0);
        assert_eq!(file.write_at(b"W", 7).await.unwrap(), 1);
        assert_eq!(file.write_at(b"", 7).await.unwrap(), 0);
        assert_eq!(file.write_at(b"!", 12).await.unwrap(), 1);
        file.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"lo, W");
        assert_eq!(std::fs::read(dir.join("file")).unwrap(), b"hello, World!");
    });
}

#[test]
fn all_is_read_or_the_end_is_told() {
    everywhere(async || {
        let dir = Dir::new();
        let mut file = file(&dir, "hello, world").await;
        file.set_max_buf_size(2);
        let mut word = [0; 5];
        file.read_exact_at(&mut word, 7).await.unwrap();
        assert_eq!(&word, b"world");
        file.read_exact_at(&mut [], 100).await.unwrap();
        let error = file.read_exact_at(&mut word, 9).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        assert_eq!(error.to_string(), "the file ends at 12, 2 bytes were expected behind");
        file.write_all_at(b"there!", 7).await.unwrap();
        assert_eq!(std::fs::read(dir.join("file")).unwrap(), b"hello, there!");
    });
}

#[test]
fn buffers_come_back_with_the_result() {
    everywhere(async || {
        let dir = Dir::new();
        let file = file(&dir, "").await;
        let (count, parts) = file.write_vectored_at(vec!["head", "", "body"], 2).await;
        assert_eq!((count.unwrap(), parts), (8, vec!["head", "", "body"]));
        assert_eq!(std::fs::read(dir.join("file")).unwrap(), b"\0\0headbody");
        let room = vec![vec![b'.'; 3], vec![], vec![b'.'; 4], vec![b'.'; 2]];
        let (count, parts) = file.read_vectored_at(room, 2).await;
        assert_eq!(count.unwrap(), 8);
        assert_eq!(parts, [&b"hea"[..], b"", b"dbod", b"y."]);
        let (count, parts) = file.read_vectored_at(Vec::<[u8; 4]>::new(), 0).await;
        assert_eq!((count.unwrap(), parts.len()), (0, 0));
        // More than the system takes at once.
        let (count, parts) = file.write_vectored_at(vec![b"x"; 3000], 0).await;
        assert_eq!((count.unwrap(), parts.len()), (1024, 3000));
        let empty_ones_first = [vec![""; 1024], vec!["y"; 1024], vec!["z"]].concat();
        let (count, parts) = file.write_vectored_at(empty_ones_first, 1024).await;
        assert_eq!((count.unwrap(), parts.len()), (1024, 2049));
        let (count, _) = file.write_vectored_at(vec![""; 3000], 0).await;
        assert_eq!(count.unwrap(), 0);
        assert_eq!(std::fs::read(dir.join("file")).unwrap(), [[b'x'; 1024], [b'y'; 1024]].concat());
        let (count, parts) = file.read_vectored_at(vec![[0; 1]; 3000], 0).await;
        assert_eq!((count.unwrap(), parts.len()), (1024, 3000));
        assert!(parts[..1024].iter().all(|part| part == b"x"));
        let empty_ones_first = [vec![vec![]; 1024], vec![vec![0; 1]; 1025]].concat();
        let (count, parts) = file.read_vectored_at(empty_ones_first, 1024).await;
        assert_eq!((count.unwrap(), parts.len()), (1024, 2049));
        assert!(parts[1024..2048].iter().all(|part| part == b"y") && parts[2048] == [0]);
        let (count, _) = file.read_vectored_at(vec![vec![]; 3000], 0).await;
        assert_eq!(count.unwrap(), 0);
        let (count, _) = file.read_vectored_at(vec![[0; 1]], u64::MAX).await;
        assert_eq!(count.unwrap_err().kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn an_offset_that_no_file_has_is_an_error() {
    everywhere(async || {
        let dir = Dir::new();
        let file = file(&dir, "hello").await;
        for offset in [u64::MAX, 1 << 63] {
            assert_eq!(file.read_at(&mut [0], offset).await.unwrap_err().kind(), ErrorKind::InvalidInput);
            assert_eq!(file.write_at(&[0], offset).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        let error = file.write_all_at(&[0; 10], u64::MAX - 3).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(std::fs::read(dir.join("file")).unwrap(), b"hello");
    });
}

#[test]
fn what_has_no_positions_is_an_error() {
    each_kind(|runtime| {
        let dir = Dir::new();
        let file = File::from_std(both_ends(&dir.fifo("fifo")));
        runtime.block_on(async {
            assert_eq!(file.read_at(&mut [0], 0).await.unwrap_err().raw_os_error(), Some(libc::ESPIPE));
            assert_eq!(file.write_at(&[0], 0).await.unwrap_err().raw_os_error(), Some(libc::ESPIPE));
        });
    });
}

#[test]
fn a_read_sees_what_a_write_before_it_has_taken() {
    everywhere(async || {
        let dir = Dir::new();
        let mut file = file(&dir, "").await;
        for n in 0..100 {
            file.write_all(&[n; 100]).await.unwrap();
            let mut last = [0];
            assert_eq!(file.read_at(&mut last, u64::from(n) * 100 + 99).await.unwrap(), 1);
            assert_eq!(last, [n]);
        }
    });
}

#[test]
fn many_tasks_share_a_file() {
    for workers in support::KINDS {
        let runtime = build(workers);
        runtime.block_on(async {
            let dir = Dir::new();
            let file = Arc::new(file(&dir, "").await);
            let tasks: Vec<_> = (0..20_u8)
                .map(|n| {
                    let file = file.clone();
                    runtime::spawn(async move {
                        file.write_all_at(&[n; 5000], u64::from(n) * 5000).await.unwrap();
                        let mut back = [0; 5000];
                        file.read_exact_at(&mut back, u64::from(n) * 5000).await.unwrap();
                        assert_eq!(back, [n; 5000]);
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(file.metadata().await.unwrap().len(), 100_000);
        });
    }
}

/// As on Linux before 4.6, and under filters of system calls that do not know `preadv2`.
#[test]
fn a_system_without_preadv2_reads_all_the_same() {
    for errno in [libc::ENOSYS, libc::EOPNOTSUPP, libc::EPERM, libc::EACCES] {
        refuse(libc::SYS_preadv2, errno);
        everywhere(async || {
            let dir = Dir::new();
            let mut file = file(&dir, "hello, world").await;
            let mut word = [0; 5];
            assert_eq!(file.read_at(&mut word, 7).await.unwrap(), 5);
            assert_eq!(&word, b"world");
            let (read, bufs) = file.read_vectored_at(vec![vec![0; 5], vec![0; 2]], 0).await;
            assert_eq!((read.unwrap(), bufs), (7, vec![b"hello".to_vec(), b", ".to_vec()]));
            file.read_exact(&mut word).await.unwrap();
            assert_eq!(&word, b"hello");
        });
    }
}
