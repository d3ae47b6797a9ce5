//! What every kind of stream socket does: TCP and Unix, with real sockets.

mod net_support;

use std::future::poll_fn;
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use net_support::{assert_pending, block_on, tcp_pair};
use runtime::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest, ReadBuf};
use runtime::net::UnixStream;

/// The tests, for streams that `pair` connects.
macro_rules! tests {
    () => {
        #[test]
        fn what_is_written_is_read_both_ways() {
            block_on(async {
                let (mut near, mut far) = pair().await;
                let mut buf = [0; 64];
                for round in 0..100_u8 {
                    near.write_all(&[round; 64]).await.unwrap();
                    far.read_exact(&mut buf).await.unwrap();
                    assert_eq!(buf, [round; 64]);
                    far.write_all(&buf).await.unwrap();
                    near.read_exact(&mut buf).await.unwrap();
                }
            });
        }

        #[test]
        fn a_megabyte_passes_through_short_reads_and_writes() {
            block_on(async {
                let (mut near, mut far) = pair().await;
                let sent: Vec<u8> = (0..1 << 20).map(|i: u32| ((i * 31) >> 3) as u8).collect();
                let expected = sent.clone();
                let writer = runtime::spawn(async move {
                    // In pieces of odd sizes, more than the socket holds at once.
                    for piece in sent.chunks(77_777) {
                        near.write_all(piece).await.unwrap();
                    }
                    near.shutdown().await.unwrap();
                    near
                });
                let mut received = Vec::new();
                far.read_to_end(&mut received).await.unwrap();
                assert!(received == expected);
                drop(writer.await.unwrap());
            });
        }

        #[test]
        fn a_write_to_a_peer_that_is_gone_is_an_error_and_raises_no_signal() {
            // SAFETY: all zero is a valid set.
            let [mut broken_pipe, mut raised] = unsafe { std::mem::zeroed::<[libc::sigset_t; 2]>() };
            // SAFETY: the calls write to the set. A blocked signal stays with this thread, ignored or not.
            unsafe {
                libc::sigemptyset(&mut broken_pipe);
                libc::sigaddset(&mut broken_pipe, libc::SIGPIPE);
                libc::pthread_sigmask(libc::SIG_BLOCK, &broken_pipe, std::ptr::null_mut());
            }
            block_on(async {
                let (mut near, far) = pair().await;
                drop(far);
                // TCP learns by the answer to the first bytes that the peer is gone.
                while near.write(b"x").await.is_ok() {}
                let slices = [IoSlice::new(b"a"), IoSlice::new(b"b")];
                assert_eq!(near.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
                assert_eq!(near.write_vectored(&slices).await.unwrap_err().kind(), ErrorKind::BrokenPipe);
                assert_eq!(near.try_write_vectored(&slices).unwrap_err().kind(), ErrorKind::BrokenPipe);
            });
            // SAFETY: the calls read and write the sets.
            unsafe {
                assert_eq!(libc::sigpending(&mut raised), 0);
                assert_eq!(libc::sigismember(&raised, libc::SIGPIPE), 0);
            }
        }

        #[test]
        fn a_peer_that_stops_writing_can_still_be_written_to() {
            block_on(async {
                let (mut near, mut far) = pair().await;
                near.write_all(b"question").await.unwrap();
                near.shutdown().await.unwrap();
                let mut question = String::new();
                far.read_to_string(&mut question).await.unwrap();
                assert_eq!(question, "question");
                assert_eq!(far.read(&mut [0; 8]).await.unwrap(), 0, "the end stays the end");
                far.write_all(b"answer").await.unwrap();
                drop(far);
                let mut answer = String::new();
                near.read_to_string(&mut answer).await.unwrap();
                assert_eq!(answer, "answer");
                assert_eq!(near.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
            });
        }

        /// The end of the stream comes with the last bytes: the short read must not make the reader wait for
        /// another event.
        #[test]
        fn an_end_that_comes_with_the_last_bytes_is_seen_after_a_short_read() {
            block_on(async {
                for _ in 0..100 {
                    let (mut near, mut far) = pair().await;
                    near.write_all(b"bye").await.unwrap();
                    drop(near);
                    far.readable().await.unwrap();
                    let mut buf = [0; 64];
                    assert_eq!(far.read(&mut buf).await.unwrap(), 3);
                    assert_eq!(far.read(&mut buf).await.unwrap(), 0);
                }
            });
        }

        /// The system ends a read before urgent data, and skips that; what is behind it may be there already,
        /// and then there is no event for it any more.
        #[test]
        fn bytes_behind_urgent_data_are_read() {
            block_on(async {
                let (near, mut far) = pair().await;
                near.writable().await.unwrap();
                assert_pending(far.read(&mut [0; 8])).await;
                near.try_write(b"before").unwrap();
                // SAFETY: one byte is read from a static.
                let sent = unsafe { libc::send(near.as_raw_fd(), b"!".as_ptr().cast(), 1, libc::MSG_OOB) };
                if sent < 0 {
                    // Before Linux 5.15 there is none for Unix sockets.
                    let error = std::io::Error::last_os_error();
                    return assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP));
                }
                near.try_write(b"behind").unwrap();
                // The event for all of it has come before the first read.
                far.readable().await.unwrap();
                let mut all = Vec::new();
                while all != b"beforebehind" {
                    let mut buf = [0; 64];
                    let n = far.read(&mut buf).await.unwrap();
                    all.extend_from_slice(&buf[..n]);
                }
            });
        }

        #[test]
        fn a_writer_waits_for_room_and_is_woken_when_the_peer_reads() {
            block_on(async {
                let (near, mut far) = pair().await;
                let chunk = [7; 64 * 1024];
                let mut sent = 0;
                loop {
                    near.writable().await.unwrap();
                    match near.try_write(&chunk) {
                        Ok(n) => sent += n,
                        Err(error) => break assert_eq!(error.kind(), ErrorKind::WouldBlock),
                    }
                }
                let waiting = runtime::spawn(async move {
                    near.writable().await.unwrap();
                    near
                });
                let mut received = vec![0; sent];
                far.read_exact(&mut received).await.unwrap();
                let near = waiting.await.unwrap();
                assert!(near.try_write(&chunk).unwrap() > 0);
            });
        }

        #[test]
        fn trying_does_not_wait() {
            block_on(async {
                let (near, far) = pair().await;
                assert_eq!(far.try_read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
                let hello = [IoSlice::new(b"hel"), IoSlice::new(b"lo!")];
                near.writable().await.unwrap();
                assert_eq!(near.try_write_vectored(&hello).unwrap(), 6);
                assert!(far.ready(Interest::READABLE).await.unwrap().is_readable());
                let (mut a, mut b) = ([0; 2], [0; 2]);
                let mut bufs = [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)];
                assert_eq!(far.try_read_vectored(&mut bufs).unwrap(), 4);
                let mut rest = Vec::with_capacity(8);
                assert_eq!(far.try_read_buf(&mut rest).unwrap(), 2);
                assert_eq!([&a[..], &b[..], &rest[..]].concat(), b"hello!");
                assert_eq!(far.try_read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
                assert_pending(far.readable()).await;
                assert_eq!(
                    far.try_io(Interest::READABLE, || Ok(1)).unwrap_err().kind(),
                    ErrorKind::WouldBlock
                );
            });
        }

        #[test]
        fn async_io_tries_until_it_succeeds() {
            block_on(async {
                let (mut near, far) = pair().await;
                let tries = Arc::new(AtomicUsize::new(0));
                let counted = tries.clone();
                let reading = runtime::spawn(async move {
                    // The first try fails.
                    let read = || match counted.fetch_add(1, SeqCst) {
                        0 => Err(ErrorKind::WouldBlock.into()),
                        _ => far.try_read(&mut [0; 8]),
                    };
                    far.async_io(Interest::READABLE, read).await.unwrap()
                });
                near.write_all(b"abc").await.unwrap();
                while tries.load(SeqCst) == 0 {
                    runtime::task::yield_now().await;
                }
                near.write_all(b"de").await.unwrap();
                assert!(reading.await.unwrap() >= 3);
                assert!(tries.load(SeqCst) >= 2);
            });
        }

        /// A user's operation that answers `WouldBlock` although the stream has ended would be tried for
        /// ever.
        #[test]
        fn an_operation_that_never_succeeds_on_a_closed_stream_lets_others_run() {
            block_on(async {
                let (near, far) = pair().await;
                drop(near);
                far.readable().await.unwrap();
                runtime::spawn(async move {
                    let never =
                        far.async_io(Interest::READABLE, || Err::<(), _>(ErrorKind::WouldBlock.into()));
                    // Without a budget, so that only `async_io` itself can let the others run.
                    runtime::task::coop::unconstrained(never).await
                });
                for _ in 0..10 {
                    runtime::task::yield_now().await;
                }
            });
        }

        #[test]
        fn many_tasks_wait_for_one_stream() {
            block_on(async {
                let (mut near, far) = pair().await;
                let far = Arc::new(far);
                let waiting: Vec<_> = (0..50)
                    .map(|_| {
                        let far = far.clone();
                        runtime::spawn(async move { far.readable().await })
                    })
                    .collect();
                runtime::task::yield_now().await;
                near.write_all(b"x").await.unwrap();
                for task in waiting {
                    task.await.unwrap().unwrap();
                }
            });
        }

        #[test]
        fn borrowed_halves_work_at_the_same_time() {
            block_on(async {
                let (mut near, mut far) = pair().await;
                let echo = runtime::spawn(async move {
                    let (mut reader, mut writer) = far.split();
                    runtime::io::copy(&mut reader, &mut writer).await.unwrap()
                });
                near.write_all(b"hello").await.unwrap();
                near.shutdown().await.unwrap();
                let mut back = String::new();
                near.read_to_string(&mut back).await.unwrap();
                assert_eq!((back.as_str(), echo.await.unwrap()), ("hello", 5));
            });
        }

        #[test]
        fn owned_halves_reunite_only_with_their_other_half() {
            block_on(async {
                let ((near, mut far), (other, _other_far)) = (pair().await, pair().await);
                let (reader, writer) = near.into_split();
                let (other_reader, other_writer) = other.into_split();
                let error = reader.reunite(other_writer).unwrap_err();
                assert_eq!(error.to_string(), "the two halves are not of the same stream");
                let (reader, other_writer) = (error.0, error.1);
                other_reader.reunite(other_writer).unwrap();
                let near = writer.reunite(reader).unwrap();
                let (peer, local) = (near.peer_addr().unwrap(), far.local_addr().unwrap());
                assert_eq!(format!("{peer:?}"), format!("{local:?}"));
                assert_pending(far.read(&mut [0; 8])).await;
            });
        }

        #[test]
        fn dropping_the_writing_half_ends_the_stream_and_forgetting_it_does_not() {
            block_on(async {
                let (near, mut far) = pair().await;
                let (mut reader, writer) = near.into_split();
                drop(writer);
                assert_eq!(far.read(&mut [0; 8]).await.unwrap(), 0);
                far.write_all(b"still there").await.unwrap();
                assert_eq!(reader.read(&mut [0; 64]).await.unwrap(), 11);

                let (near, far) = pair().await;
                let (_reader, writer) = near.into_split();
                writer.forget();
                runtime::task::yield_now().await;
                assert_eq!(far.try_read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
            });
        }

        /// Always ready on both sides: without the budget, the neighbour would never run.
        #[test]
        fn a_stream_that_is_always_ready_lets_others_run() {
            block_on(async {
                let (mut near, mut far) = pair().await;
                let has_run = Arc::new(std::sync::atomic::AtomicBool::new(false));
                let busy = runtime::spawn({
                    let has_run = has_run.clone();
                    async move {
                        let mut buf = [0; 1];
                        for rounds in 0.. {
                            near.write_all(b"x").await.unwrap();
                            far.read_exact(&mut buf).await.unwrap();
                            if has_run.load(std::sync::atomic::Ordering::Relaxed) {
                                break;
                            }
                            assert!(rounds < 10_000, "the neighbour has not run");
                        }
                    }
                });
                runtime::spawn(async move { has_run.store(true, std::sync::atomic::Ordering::Relaxed) });
                busy.await.unwrap();
            });
        }

        /// Two tasks read through a `poll_*` function, one after the other: the last one is woken.
        #[test]
        fn the_last_task_that_polled_is_the_one_woken() {
            block_on(async {
                let (mut near, mut far) = pair().await;
                // An accepted stream is tried first; from then on it waits.
                assert_pending(far.read(&mut [0; 8])).await;
                assert_pending(poll_fn(|cx| far.poll_read_ready(cx))).await;
                let task = runtime::spawn(async move {
                    let mut buf = [0; 8];
                    poll_fn(|cx| Pin::new(&mut far).poll_read(cx, &mut ReadBuf::new(&mut buf)))
                        .await
                        .unwrap();
                    far
                });
                runtime::task::yield_now().await;
                let n = poll_fn(|cx| Pin::new(&mut near).poll_write(cx, b"x")).await.unwrap();
                assert_eq!(n, 1);
                task.await.unwrap();
            });
        }

        #[test]
        fn halves_wait_for_readiness_of_their_own() {
            block_on(async {
                let (mut near, mut far) = pair().await;
                let (reader, writer) = near.split();
                assert!(writer.ready(Interest::WRITABLE).await.unwrap().is_writable());
                writer.writable().await.unwrap();
                assert_eq!(writer.try_write(b"x").unwrap(), 1);
                assert_pending(reader.readable()).await;
                far.write_all(b"yz").await.unwrap();
                reader.readable().await.unwrap();
                assert_eq!(reader.try_read(&mut [0; 8]).unwrap(), 2);
                assert_eq!(far.read(&mut [0; 8]).await.unwrap(), 1);
            });
        }
    };
}

mod tcp {
    use super::*;

    use tcp_pair as pair;

    tests!();
}

mod unix {
    use super::*;

    async fn pair() -> (UnixStream, UnixStream) {
        UnixStream::pair().unwrap()
    }

    tests!();
}
