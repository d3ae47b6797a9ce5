//! Readers with a buffer of their own, and streams with positions.

mod io_support;

use std::future::poll_fn;
use std::io::{self, Cursor, ErrorKind, SeekFrom};
use std::pin::Pin;

use io_support::{block_on, filled};
use runtime::io::{AsyncBufRead, AsyncReadExt, AsyncSeek, empty};

fn consume<R: AsyncBufRead + Unpin + ?Sized>(reader: &mut R, amt: usize) {
    Pin::new(reader).consume(amt);
}

async fn seek<S: AsyncSeek + Unpin + ?Sized>(stream: &mut S, position: SeekFrom) -> io::Result<u64> {
    Pin::new(&mut *stream).start_seek(position)?;
    poll_fn(|cx| Pin::new(&mut *stream).poll_complete(cx)).await
}

#[test]
fn bytes_in_memory_are_their_own_buffer() {
    block_on(async {
        let mut slice = &b"abc"[..];
        consume(&mut slice, 1);
        assert_eq!(filled(&mut slice).await, b"bc");

        let mut cursor = Cursor::new("abc");
        consume(&mut cursor, 2);
        assert_eq!(filled(&mut cursor).await, b"c");
        cursor.set_position(u64::MAX);
        assert_eq!(filled(&mut cursor).await, b"");

        consume(&mut empty(), 9);
        assert_eq!(filled(&mut empty()).await, b"");
    });
}

#[test]
fn pointers_to_buffered_readers_are_buffered_readers() {
    block_on(async {
        let mut boxed: Box<dyn AsyncBufRead + Unpin> = Box::new(&b"abc"[..]);
        consume(&mut boxed, 1);
        assert_eq!(filled(&mut &mut boxed).await, b"bc");
        let mut pinned: Pin<Box<dyn AsyncBufRead>> = Box::pin(&b"abc"[..]);
        consume(&mut pinned, 2);
        assert_eq!(filled(&mut pinned).await, b"c");
    });
}

#[test]
fn take_shows_no_more_than_its_limit_and_counts_what_is_consumed() {
    block_on(async {
        let mut take = AsyncReadExt::take(&b"hello"[..], 3);
        assert_eq!(filled(&mut take).await, b"hel");
        consume(&mut take, 1);
        assert_eq!((take.limit(), filled(&mut take).await), (2, b"el".to_vec()));
        // More than was shown.
        consume(&mut take, 4);
        assert_eq!((take.limit(), filled(&mut take).await), (0, Vec::new()));
        assert_eq!(take.into_inner(), b"lo");
    });
}

#[test]
fn chain_goes_on_when_the_first_buffer_stays_empty() {
    block_on(async {
        let mut chain = AsyncReadExt::chain(&b"ab"[..], &b"cd"[..]);
        assert_eq!(filled(&mut chain).await, b"ab");
        consume(&mut chain, 1);
        assert_eq!(filled(&mut chain).await, b"b");
        consume(&mut chain, 1);
        assert_eq!(filled(&mut chain).await, b"cd");
        consume(&mut chain, 1);
        let (first, second) = Pin::new(&mut chain).get_pin_mut();
        assert_eq!((*first, *second), (&b""[..], &b"d"[..]));
    });
}

#[test]
fn positions_in_memory_are_those_of_std() {
    block_on(async {
        let mut cursor = Cursor::new(b"hello");
        assert_eq!(seek(&mut cursor, SeekFrom::End(-2)).await.unwrap(), 3);
        assert_eq!(seek(&mut &mut cursor, SeekFrom::Current(-1)).await.unwrap(), 2);
        assert_eq!(filled(&mut cursor).await, b"llo");
        let error = seek(&mut cursor, SeekFrom::Current(-3)).await.unwrap_err();
        assert_eq!((error.kind(), cursor.position()), (ErrorKind::InvalidInput, 2));

        let mut boxed: Box<dyn AsyncSeek + Unpin> = Box::new(cursor);
        assert_eq!(seek(&mut boxed, SeekFrom::Start(9)).await.unwrap(), 9);
        let mut pinned: Pin<Box<dyn AsyncSeek>> = Box::pin(empty());
        assert_eq!(seek(&mut pinned, SeekFrom::Start(9)).await.unwrap(), 0);
    });
}
