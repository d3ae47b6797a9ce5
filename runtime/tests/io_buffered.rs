//! Buffered readers and writers, lines and pieces, as far as std has nothing to compare with.

mod io_support;

use std::future::poll_fn;
use std::io::{Cursor, ErrorKind, IoSlice};
use std::pin::{Pin, pin};
use std::task::Poll;

use futures_core::Stream;
use io_support::{Faults, Random, Rough, Terrain, Waiting, block_on, finish, poll_once};
use runtime::io::{
    AsyncBufReadExt, AsyncReadExt, AsyncSeek, AsyncSeekExt, AsyncWriteExt, BufReader, BufStream, BufWriter,
    SeekFrom, copy, copy_bidirectional_with_sizes, copy_buf, duplex, sink,
};

/// A stream of `bytes` that is interrupted, so that each operation that may be repeated has to be repeated.
fn interrupted(bytes: &[u8]) -> Waiting<Rough> {
    Waiting::new(Rough::new(bytes.to_vec(), Terrain::new(7, Faults::Interruptions)), 7)
}

#[test]
fn a_large_read_goes_past_the_buffer() {
    block_on(async {
        let mut reader = BufReader::with_capacity(4, &b"hello, world"[..]);
        let mut bytes = [0; 5];
        assert_eq!(reader.read(&mut bytes).await.unwrap(), 5);
        assert_eq!((reader.buffer(), *reader.get_ref()), (&b""[..], &b", world"[..]));
        assert_eq!(reader.read(&mut bytes[..2]).await.unwrap(), 2);
        assert_eq!((reader.buffer(), reader.get_ref().len()), (&b"wo"[..], 3));
        // A large read, too, takes first what is in the buffer.
        assert_eq!(reader.read(&mut bytes).await.unwrap(), 2);
        assert_eq!(reader.into_inner(), b"rld");
    });
}

#[test]
fn a_writer_of_slices_takes_what_fits_and_passes_on_what_is_large() {
    block_on(async {
        let mut writer = BufWriter::with_capacity(8, Vec::new());
        let slices = [IoSlice::new(b"abc"), IoSlice::new(b"de")];
        assert_eq!(writer.write_vectored(&slices).await.unwrap(), 5);
        assert_eq!((writer.buffer(), writer.get_ref().len()), (&b"abcde"[..], 0));
        assert_eq!(writer.write_vectored(&[slices[0], slices[0], slices[0]]).await.unwrap(), 9);
        assert_eq!((writer.buffer(), &writer.get_ref()[..]), (&b""[..], &b"abcdeabcabcabc"[..]));
        assert_eq!(writer.write_vectored(&[]).await.unwrap(), 0);

        let mut unbuffered = BufWriter::with_capacity(0, Vec::new());
        unbuffered.write_all(b"x").await.unwrap();
        assert_eq!(unbuffered.into_inner(), b"x");
    });
}

#[test]
fn a_write_that_waits_shows_what_it_has_not_passed_on() {
    block_on(async {
        let (near, mut far) = duplex(3);
        let mut writer = BufWriter::new(near);
        writer.write_all(b"hello").await.unwrap();
        assert!(poll_once(pin!(writer.flush())).is_pending());
        assert_eq!(writer.buffer(), b"lo");
        writer.write_all(b"!").await.unwrap();
        far.read_exact(&mut [0; 3]).await.unwrap();
        writer.shutdown().await.unwrap();
        let mut rest = String::new();
        far.read_to_string(&mut rest).await.unwrap();
        assert_eq!((rest.as_str(), writer.buffer()), ("lo!", &b""[..]));
    });
}

#[test]
fn a_move_writes_what_is_in_the_buffer_and_forgets_what_was_read() {
    block_on(async {
        let mut stream = BufStream::new(Waiting::new(Cursor::new(b"hello, world".to_vec()), 3));
        assert_eq!(stream.read_u8().await.unwrap(), b'h');
        assert_eq!(stream.stream_position().await.unwrap(), 1);
        stream.write_all(b"E").await.unwrap();
        assert_eq!(stream.seek(SeekFrom::Current(1)).await.unwrap(), 3);
        assert_eq!(stream.read_u8().await.unwrap(), b'l');
        stream.rewind().await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "hEllo, world");
    });
}

#[test]
fn a_move_that_fails_is_over() {
    block_on(async {
        let mut reader = BufReader::new(Cursor::new(b"hello"));
        reader.read_u8().await.unwrap();
        let error = reader.seek(SeekFrom::Current(-2)).await.unwrap_err();
        assert_eq!((error.kind(), reader.buffer()), (ErrorKind::InvalidInput, &b"ello"[..]));
        assert_eq!(reader.stream_position().await.unwrap(), 1);

        let mut writer = BufWriter::new(Cursor::new(Vec::new()));
        writer.write_all(b"x").await.unwrap();
        let error = writer.seek(SeekFrom::Current(-2)).await.unwrap_err();
        assert_eq!((error.kind(), writer.get_ref().get_ref().len()), (ErrorKind::InvalidInput, 1));
        assert_eq!(writer.stream_position().await.unwrap(), 1);
    });
}

#[test]
fn a_writer_completes_one_move_before_the_next() {
    for seed in 0..100 {
        let mut writer = BufWriter::new(Waiting::new(Cursor::new(Vec::new()), seed));
        for position in [3, 5] {
            Pin::new(&mut writer).start_seek(SeekFrom::Start(position)).unwrap();
            let _ = poll_once(pin!(poll_fn(|cx| Pin::new(&mut writer).poll_complete(cx))));
        }
        assert_eq!(finish(writer.stream_position()).unwrap(), 5, "seed {seed}");
    }
}

#[test]
fn a_line_that_was_given_up_leaves_whole_characters_or_nothing() {
    block_on(async {
        let (mut near, far) = duplex(64);
        let mut reader = BufReader::new(far);
        let mut line = String::from("> ");
        near.write_all("é".as_bytes()).await.unwrap();
        assert!(poll_once(pin!(reader.read_line(&mut line))).is_pending());
        assert_eq!(line, "> é");
        near.write_all(&"é".as_bytes()[..1]).await.unwrap();
        assert!(poll_once(pin!(reader.read_line(&mut line))).is_pending());
        assert_eq!(line, "> é");
        assert!(poll_once(pin!(reader.read_to_string(&mut line))).is_pending());
        assert_eq!(line, "> é");
        // And so the rest of it is no text.
        near.write_all(&"é".as_bytes()[1..]).await.unwrap();
        drop(near);
        let error = reader.read_line(&mut line).await.unwrap_err();
        assert_eq!((error.kind(), line.as_str()), (ErrorKind::InvalidData, "> é"));
    });
}

#[test]
fn text_is_read_into_the_memory_of_the_string() {
    block_on(async {
        let mut line = String::with_capacity(64);
        let memory = line.as_ptr();
        let mut reader = &b"one\ntwo\nthree"[..];
        assert_eq!(reader.read_line(&mut line).await.unwrap(), 4);
        assert_eq!(reader.read_line(&mut line).await.unwrap(), 4);
        assert_eq!(reader.read_to_string(&mut line).await.unwrap(), 5);
        assert_eq!((line.as_str(), line.as_ptr()), ("one\ntwo\nthree", memory));
    });
}

#[test]
fn lines_and_pieces_are_streams() {
    block_on(async {
        let mut lines = (&b"a\r\nb"[..]).lines();
        let mut next = async || poll_fn(|cx| Pin::new(&mut lines).poll_next(cx)).await.transpose().unwrap();
        assert_eq!((next().await.as_deref(), next().await.as_deref()), (Some("a"), Some("b")));
        assert_eq!(next().await, None);
        let mut pieces = pin!(BufReader::new(&b"a,b"[..]).split(b','));
        let piece = poll_fn(|cx| pieces.as_mut().poll_next(cx)).await;
        assert_eq!(piece.unwrap().unwrap(), b"a");
    });
}

#[test]
#[should_panic = "`fill_buf` was polled after it was ready"]
fn bytes_that_borrow_from_a_reader_are_lent_once() {
    let mut reader = &b"abc"[..];
    let mut future = pin!(reader.fill_buf());
    assert!(poll_once(future.as_mut()).is_ready());
    let _ = poll_once(future);
}

#[test]
fn a_buffer_is_copied_without_another_one() {
    block_on(async {
        let bytes = Random::new(1).text(100_000, false);
        let mut reader = BufReader::new(interrupted(&bytes));
        let mut writer = interrupted(b"");
        assert_eq!(copy_buf(&mut reader, &mut writer).await.unwrap(), bytes.len() as u64);
        assert_eq!(writer.inner.stream.into_inner(), bytes);

        let mut room = [0; 4];
        let mut reader = &b"hello"[..];
        let error = copy_buf(&mut reader, &mut Cursor::new(&mut room[..])).await.unwrap_err();
        assert_eq!((error.kind(), reader), (ErrorKind::WriteZero, &b"o"[..]));
    });
}

#[test]
fn a_copy_out_of_a_buffer_loses_nothing_when_it_is_given_up_and_flushes_while_it_waits() {
    block_on(async {
        let (mut source, far) = duplex(64);
        let (near, mut target) = duplex(3);
        let (mut reader, mut writer) = (BufReader::new(far), BufWriter::new(near));
        source.write_all(b"hello").await.unwrap();
        assert!(poll_once(pin!(copy_buf(&mut reader, &mut writer))).is_pending());
        let mut bytes = [0; 5];
        target.read_exact(&mut bytes[..3]).await.unwrap();
        drop(source);
        copy_buf(&mut reader, &mut writer).await.unwrap();
        target.read_exact(&mut bytes[3..]).await.unwrap();
        assert_eq!(&bytes, b"hello");
    });
}

/// Streams that are always ready and know no budget.
#[test]
fn a_copy_out_of_a_buffer_lets_others_run() {
    block_on(async {
        let (mut source, has_run) =
            (AsyncReadExt::chain(&[0; 1 << 16][..], &b"x"[..]), std::rc::Rc::default());
        let other = std::rc::Rc::<std::cell::Cell<bool>>::clone(&has_run);
        let mut small = BufReader::with_capacity(1, &mut source);
        let mut copying = pin!(async {
            copy_buf(&mut small, &mut Vec::new()).await.unwrap();
            assert!(has_run.get());
        });
        poll_fn(|cx| match copying.as_mut().poll(cx) {
            Poll::Pending => {
                other.set(true);
                Poll::Pending
            }
            ready => ready,
        })
        .await;
    });
}

#[test]
fn whatever_takes_all_goes_on_after_an_interruption() {
    let bytes = Random::new(2).text(300, true);
    let mut copied = vec![0; bytes.len()];
    finish(interrupted(&bytes).read_exact(&mut copied)).unwrap();
    assert_eq!(copied, bytes);
    let mut writer = interrupted(b"");
    finish(writer.write_all(&bytes)).unwrap();
    finish(writer.write_all_buf(&mut &bytes[..])).unwrap();
    finish(writer.write_u128_le(1)).unwrap();
    assert_eq!(writer.inner.stream.get_ref().len(), 2 * bytes.len() + 16);
    let mut reader = interrupted(&[1; 320]);
    for _ in 0..20 {
        assert_eq!(finish(reader.read_u128()).unwrap(), u128::from_be_bytes([1; 16]));
    }
    let mut target = interrupted(b"");
    assert_eq!(finish(copy(&mut interrupted(&bytes), &mut target)).unwrap(), bytes.len() as u64);
    assert_eq!(target.inner.stream.into_inner(), bytes);
}

#[test]
fn sizes_of_both_directions_are_checked() {
    block_on(async {
        let ((mut a, far_a), (mut b, far_b)) = (duplex(8), duplex(8));
        drop((far_a, far_b));
        assert_eq!(copy_bidirectional_with_sizes(&mut a, &mut b, 1, 1).await.unwrap(), (0, 0));
        let error = runtime::spawn(async move { copy_bidirectional_with_sizes(&mut a, &mut b, 1, 0).await });
        assert!(error.await.unwrap_err().is_panic());
    });
}

/// A reader that wants cleared memory has it cleared once, not at each read.
#[test]
fn memory_to_read_into_is_cleared_once() {
    struct Clearing {
        left: usize,
        cleared: usize,
    }
    impl runtime::io::AsyncRead for Clearing {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            buf: &mut runtime::io::ReadBuf<'_>,
        ) -> Poll<std::io::Result<()>> {
            let initialized = buf.initialized().len();
            buf.initialize_unfilled();
            self.cleared += buf.initialized().len() - initialized;
            let n = self.left.min(16);
            self.left -= n;
            buf.advance(n);
            Poll::Ready(Ok(()))
        }
    }
    let mut reader = Clearing { left: 100_000, cleared: 0 };
    let mut bytes = Vec::new();
    finish(reader.read_to_end(&mut bytes)).unwrap();
    assert_eq!(bytes.len(), 100_000);
    assert!(reader.cleared < 4 * bytes.len(), "{} bytes cleared", reader.cleared);
}

#[test]
fn a_sink_takes_part_in_the_budget() {
    block_on(async {
        let mut flushing = pin!(async {
            for _ in 0..1000 {
                sink().flush().await.unwrap();
                sink().shutdown().await.unwrap();
            }
        });
        let is_pending = poll_fn(|cx| Poll::Ready(flushing.as_mut().poll(cx).is_pending())).await;
        assert!(is_pending, "2000 operations in one poll");
    });
}
