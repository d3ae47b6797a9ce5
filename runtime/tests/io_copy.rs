//! `copy`, `copy_bidirectional`, `split`, `duplex`: streams connected to each other.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use runtime::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, copy, copy_bidirectional, duplex, join,
    split,
};

fn block_on<F: Future>(future: F) -> F::Output {
    runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// A writer that holds everything back until flushed, and takes at most 3 bytes at once.
#[derive(Default)]
struct Holding {
    held: Vec<u8>,
    passed_on: Vec<u8>,
    flushes: usize,
}

impl AsyncWrite for Holding {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let n = buf.len().min(3);
        self.held.extend(&buf[..n]);
        Poll::Ready(Ok(n))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.passed_on.append(&mut this.held);
        this.flushes += 1;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

#[test]
fn copy_writes_in_pieces_and_flushes_at_the_end() {
    block_on(async {
        let bytes: Vec<u8> = (0..100_000).map(|i| i as u8).collect();
        let mut writer = Holding::default();
        assert_eq!(copy(&mut &bytes[..], &mut writer).await.unwrap(), 100_000);
        assert!(writer.passed_on == bytes && writer.held.is_empty());
        assert_eq!(writer.flushes, 1);
    });
}

#[test]
fn copy_flushes_while_the_reader_has_nothing() {
    block_on(async {
        let (mut source, mut reader) = duplex(64);
        let mut writer = Holding::default();
        source.write_all(b"hello").await.unwrap();
        {
            let mut copying = std::pin::pin!(copy(&mut reader, &mut writer));
            poll_fn(|cx| {
                assert!(copying.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
        }
        assert_eq!(writer.passed_on, b"hello");
    });
}

#[test]
fn copy_reports_a_writer_that_takes_nothing() {
    block_on(async {
        let mut room = [0; 4];
        let mut writer = io::Cursor::new(&mut room[..]);
        let error = copy(&mut &b"hello"[..], &mut writer).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WriteZero);
        assert!(error.to_string().contains("after 4 bytes"), "{error}");
    });
}

/// Has five bytes to read, then nothing until it is reset. Takes no bytes.
#[derive(Default)]
struct Resettable {
    has_given: bool,
    is_reset: bool,
    reader: Option<Waker>,
}

#[derive(Clone, Default)]
struct Stuck(Arc<Mutex<Resettable>>);

impl Stuck {
    fn reset(&self) {
        let mut this = self.0.lock();
        this.is_reset = true;
        this.reader.take().expect("the copy watches the reader").wake();
    }
}

impl AsyncRead for Stuck {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut this = self.0.lock();
        if this.is_reset {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        if this.has_given {
            this.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        this.has_given = true;
        buf.put_slice(b"hello");
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stuck {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

#[test]
fn a_reset_is_noticed_while_the_writer_takes_nothing() {
    fn is_told<T>(copying: impl Future<Output = io::Result<T>>, resets: &Stuck) {
        let mut copying = std::pin::pin!(copying);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(copying.as_mut().poll(&mut cx).is_pending());
        resets.reset();
        match copying.poll(&mut cx) {
            Poll::Ready(Err(error)) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
            _ => panic!("the reader's error is not told"),
        }
    }
    let (mut near, mut far) = (Stuck::default(), Stuck::default());
    let resets = near.clone();
    is_told(copy(&mut near, &mut far), &resets);
    for is_near in [true, false] {
        let (mut near, mut far) = (Stuck::default(), Stuck::default());
        let resets = if is_near { near.clone() } else { far.clone() };
        is_told(copy_bidirectional(&mut near, &mut far), &resets);
    }
}

/// Foreign streams that never wait and know no budget.
#[test]
fn copy_between_streams_that_are_always_ready_lets_others_run() {
    struct Endless(std::sync::Arc<std::sync::atomic::AtomicBool>);
    impl AsyncRead for Endless {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if !self.0.load(std::sync::atomic::Ordering::Relaxed) {
                buf.put_slice(b"x");
            }
            Poll::Ready(Ok(()))
        }
    }
    block_on(async {
        let has_run = std::sync::Arc::default();
        let mut reader = Endless(std::sync::Arc::clone(&has_run));
        let copying =
            runtime::spawn(async move { copy(&mut reader, &mut Holding::default()).await.unwrap() });
        runtime::spawn(async move { has_run.store(true, std::sync::atomic::Ordering::Relaxed) });
        copying.await.unwrap();
    });
}

/// One direction is always ready, and uses up the budget of each poll.
#[test]
fn both_directions_have_their_turn() {
    /// Knows no budget.
    struct Ready;
    impl AsyncRead for Ready {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            buf.put_slice(b"ready");
            Poll::Ready(Ok(()))
        }
    }
    impl AsyncWrite for Ready {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(buf.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }
    for is_up_endless in [true, false] {
        block_on(async {
            let (mut client, server) = duplex(64);
            let (out, mut seen) = duplex(64);
            let mut endless = join(Ready, out);
            let mut slow = join(server, Ready);
            runtime::spawn(async move {
                match is_up_endless {
                    true => copy_bidirectional(&mut endless, &mut slow).await,
                    false => copy_bidirectional(&mut slow, &mut endless).await,
                }
            });
            client.write_all(b"x").await.unwrap();
            let mut byte = [0];
            seen.read_exact(&mut byte).await.unwrap();
            assert_eq!(byte, *b"x");
        });
    }
}

/// The writer takes a part at a time, and the reader fails after its first bytes.
#[test]
fn what_was_read_is_written_before_the_reader_fails() {
    struct Fails(bool);
    impl AsyncRead for Fails {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if std::mem::replace(&mut self.0, true) {
                return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
            }
            buf.put_slice(b"abcdef");
            Poll::Ready(Ok(()))
        }
    }
    block_on(async {
        let mut writer = Holding::default();
        let error = copy(&mut Fails(false), &mut writer).await.unwrap_err();
        assert_eq!((error.kind(), &writer.held[..]), (ErrorKind::ConnectionReset, &b"abcdef"[..]));
    });
}

#[test]
fn both_directions_are_copied_until_both_have_ended() {
    block_on(async {
        let (mut client, mut near) = duplex(8);
        let (mut far, mut server) = duplex(8);
        let relay = runtime::spawn(async move { copy_bidirectional(&mut near, &mut far).await.unwrap() });
        let server = runtime::spawn(async move {
            let mut question = String::new();
            server.read_to_string(&mut question).await.unwrap();
            // The other direction goes on after this one has ended.
            server.write_all(b"a long answer that does not fit at once").await.unwrap();
            question
        });
        client.write_all(b"a question longer than the pipe").await.unwrap();
        client.shutdown().await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!(server.await.unwrap(), "a question longer than the pipe");
        assert_eq!(answer, "a long answer that does not fit at once");
        assert_eq!(relay.await.unwrap(), (31, 39));
    });
}

#[test]
fn an_error_of_one_direction_ends_both() {
    block_on(async {
        let (mut client, mut near) = duplex(8);
        let (mut far, server) = duplex(8);
        drop(server);
        client.write_all(b"x").await.unwrap();
        let error = copy_bidirectional(&mut near, &mut far).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn a_pipe_is_bounded_and_wakes_both_sides() {
    block_on(async {
        let (mut near, mut far) = duplex(4);
        let writer = runtime::spawn(async move {
            near.write_all(&[9; 1000]).await.unwrap();
            near
        });
        let mut received = vec![0; 1000];
        assert_eq!(far.read(&mut received).await.unwrap(), 4, "no more than it holds");
        far.read_exact(&mut received[4..]).await.unwrap();
        assert_eq!(received, [9; 1000]);
        drop(writer.await.unwrap());
        assert_eq!(far.read(&mut received).await.unwrap(), 0);
        assert_eq!(far.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn a_pipe_whose_other_end_goes_wakes_its_waiter() {
    block_on(async {
        let (near, mut far) = duplex(1);
        let task = runtime::spawn(async move {
            let n = far.read(&mut [0; 8]).await.unwrap();
            (n, far.write_all(b"xy").await.map_err(|error| error.kind()))
        });
        runtime::task::yield_now().await;
        drop(near);
        assert_eq!(task.await.unwrap(), (0, Err(ErrorKind::BrokenPipe)));
    });
}

#[test]
fn halves_of_any_stream_work_in_two_tasks_and_come_together_again() {
    block_on(async {
        let (near, mut far) = duplex(8);
        let (mut reader, mut writer) = split(near);
        let (other, _) = split(duplex(1).0);
        assert!(reader.is_pair_of(&writer) && writer.is_pair_of(&reader) && !writer.is_pair_of(&other));
        let reading = runtime::spawn(async move {
            let mut buf = [0; 4];
            reader.read_exact(&mut buf).await.unwrap();
            (buf, reader)
        });
        writer.write_all(b"ping").await.unwrap();
        far.read_exact(&mut [0; 4]).await.unwrap();
        far.write_all(b"pong").await.unwrap();
        let (buf, reader) = reading.await.unwrap();
        assert_eq!(&buf, b"pong");
        let mut near = reader.unsplit(writer);
        near.write_all(b"x").await.unwrap();
        assert_eq!(far.read_u8().await.unwrap(), b'x');
    });
}

#[test]
#[should_panic = "`unsplit` needs the two halves of one stream"]
fn strangers_cannot_be_put_together() {
    let ((reader, _writer), (_reader, writer)) = (split(duplex(1).0), split(duplex(1).0));
    reader.unsplit(writer);
}
