//! The everyday methods of readers and writers.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use runtime::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, empty, repeat, sink};

fn block_on<F: Future>(future: F) -> F::Output {
    runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// A stream that gives or takes one byte at a time, and waits before each.
#[derive(Default)]
struct Slow<T> {
    inner: T,
    has_waited: bool,
}

impl<T> Slow<T> {
    fn new(inner: T) -> Self {
        Self { inner, has_waited: false }
    }

    fn waits(&mut self, cx: &mut Context<'_>) -> bool {
        self.has_waited = !self.has_waited;
        if self.has_waited {
            cx.waker().wake_by_ref();
        }
        self.has_waited
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Slow<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.waits(cx) {
            return Poll::Pending;
        }
        let mut byte = [0];
        let mut part = ReadBuf::new(&mut byte[..buf.remaining().min(1)]);
        let result = Pin::new(&mut self.inner).poll_read(cx, &mut part);
        buf.put_slice(part.filled());
        result
    }
}

impl AsyncWrite for Slow<Vec<u8>> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.waits(cx) {
            return Poll::Pending;
        }
        self.inner.extend(buf.first());
        Poll::Ready(Ok(buf.len().min(1)))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[test]
fn numbers_are_written_and_read_in_both_byte_orders() {
    block_on(async {
        let mut writer = Slow::new(Vec::new());
        writer.write_u8(1).await.unwrap();
        writer.write_i8(-2).await.unwrap();
        writer.write_u16(0x0102).await.unwrap();
        writer.write_i16_le(-3).await.unwrap();
        writer.write_u32_le(0x0102_0304).await.unwrap();
        writer.write_i64(i64::MIN).await.unwrap();
        writer.write_u128(u128::MAX - 1).await.unwrap();
        writer.write_f32(1.5).await.unwrap();
        writer.write_f64_le(-0.25).await.unwrap();
        assert_eq!(writer.inner[..6], [1, 254, 1, 2, 253, 255]);
        assert_eq!(writer.inner[6..10], [4, 3, 2, 1]);

        let mut reader = Slow::new(&writer.inner[..]);
        assert_eq!(reader.read_u8().await.unwrap(), 1);
        assert_eq!(reader.read_i8().await.unwrap(), -2);
        assert_eq!(reader.read_u16().await.unwrap(), 0x0102);
        assert_eq!(reader.read_i16_le().await.unwrap(), -3);
        assert_eq!(reader.read_u32_le().await.unwrap(), 0x0102_0304);
        assert_eq!(reader.read_i64().await.unwrap(), i64::MIN);
        assert_eq!(reader.read_u128().await.unwrap(), u128::MAX - 1);
        assert_eq!(reader.read_f32().await.unwrap(), 1.5);
        assert_eq!(reader.read_f64_le().await.unwrap(), -0.25);
        assert_eq!(reader.read_u8().await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    });
}

#[test]
fn an_early_end_says_how_far_it_came() {
    block_on(async {
        let mut buf = [0; 8];
        let error = Slow::new(&b"abc"[..]).read_exact(&mut buf).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        assert_eq!(error.to_string(), "the stream ended after 3 of 8 bytes");
        assert_eq!(&buf[..3], b"abc");
        let error = (&b"abc"[..]).read_u64().await.unwrap_err();
        assert_eq!(error.to_string(), "the stream ended after 3 of 8 bytes");
    });
}

#[test]
fn everything_is_read_to_the_end_and_appended() {
    block_on(async {
        let long: Vec<u8> = (0..10_000).map(|i| b'a' + (i % 26) as u8).collect();
        let mut bytes = b"> ".to_vec();
        assert_eq!(Slow::new(&long[..]).read_to_end(&mut bytes).await.unwrap(), 10_000);
        assert!(bytes.starts_with(b"> abc") && bytes.len() == 10_002);
        let mut text = String::from("> ");
        assert_eq!((&long[..]).read_to_string(&mut text).await.unwrap(), 10_000);
        assert_eq!(text.as_bytes(), bytes);

        // A buffer of the right size is not made larger.
        let mut exact = Vec::with_capacity(10_000);
        (&long[..]).read_to_end(&mut exact).await.unwrap();
        assert_eq!(exact.capacity(), 10_000);
    });
}

#[test]
fn what_is_not_utf8_leaves_the_string_as_it_was() {
    block_on(async {
        let mut text = String::from("before");
        let error = (&b"ab\xff"[..]).read_to_string(&mut text).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert_eq!(text, "before");
    });
}

#[test]
fn buffers_of_bytes_are_read_into_and_written_from() {
    block_on(async {
        let mut buf = BytesMut::with_capacity(4);
        let mut reader = &b"hello, world"[..];
        while reader.read_buf(&mut buf).await.unwrap() > 0 {}
        assert_eq!(buf, "hello, world");

        let mut chained = Bytes::from("hello").chain(Bytes::from(", world"));
        let mut writer = Vec::new();
        assert_eq!(writer.write_buf(&mut chained).await.unwrap(), 12, "both pieces at once");
        let mut chained = Bytes::from("hello").chain(Bytes::from(", world"));
        let mut slow = Slow::new(Vec::new());
        slow.write_all_buf(&mut chained).await.unwrap();
        assert_eq!((slow.inner, chained.remaining()), (writer, 0));

        let mut room = [0_u8; 2];
        let mut full = (&mut room[..]).limit(0);
        assert_eq!((&b"x"[..]).read_buf(&mut full).await.unwrap(), 0);
    });
}

#[test]
fn a_writer_that_takes_no_more_is_an_error() {
    block_on(async {
        let mut room = [0; 3];
        let error = io::Cursor::new(&mut room[..]).write_all(b"hello").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WriteZero);
        assert_eq!(error.to_string(), "the writer takes no more, with 2 bytes left");
        assert_eq!(&room, b"hel");
        let error = io::Cursor::new(&mut room[..]).write_u64(1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WriteZero);
    });
}

#[test]
fn take_ends_early_and_chain_goes_on() {
    block_on(async {
        let mut reader = Slow::new(&b"hello, world"[..]).take(5).chain(&b"!"[..]).chain(empty());
        let mut text = String::new();
        reader.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "hello!");

        let mut take = AsyncReadExt::take(&b"abc"[..], 2);
        assert_eq!(take.read(&mut []).await.unwrap(), 0);
        assert_eq!(take.read(&mut [0; 8]).await.unwrap(), 2);
        assert_eq!((take.limit(), take.read(&mut [0; 8]).await.unwrap()), (0, 0));
        take.set_limit(u64::MAX);
        assert_eq!(take.read(&mut [0; 8]).await.unwrap(), 1);
        assert_eq!(take.into_inner(), b"");
    });
}

/// A read into no room says nothing about the end of the first reader.
#[test]
fn chain_does_not_skip_a_reader_for_want_of_room() {
    block_on(async {
        let mut chain = AsyncReadExt::chain(&b"a"[..], &b"b"[..]);
        assert_eq!(chain.read(&mut []).await.unwrap(), 0);
        assert_eq!(chain.read_u8().await.unwrap(), b'a');
    });
}

#[test]
#[should_panic = "replaced the buffer that it was given"]
fn a_reader_that_swaps_the_buffer_is_found_out() {
    struct Swapping;
    impl AsyncRead for Swapping {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let other = Box::leak(vec![1; buf.capacity() + 8].into_boxed_slice());
            *buf = ReadBuf::new(other);
            buf.advance(buf.capacity());
            Poll::Ready(Ok(()))
        }
    }
    let _ = block_on(Swapping.read_to_end(&mut Vec::new()));
}

/// `take` hands its reader a part of the buffer. If the buffer has no room, that part is empty, and begins
/// where the other half of the memory begins. If the counts of that half were taken over, the buffer would
/// reach beyond its end.
#[test]
#[should_panic = "replaced the buffer that it was given"]
fn a_reader_that_swaps_an_empty_buffer_is_found_out() {
    struct Swapping(Option<&'static mut [u8]>);
    impl Swapping {
        /// Returns a half of some memory, and a reader with the other half. `.ci/lsan.supp` names this.
        fn with_half() -> (&'static mut [u8], Self) {
            let (near, far) = Box::leak(Box::new([0; 8])).split_at_mut(4);
            (near, Self(Some(far)))
        }
    }
    impl AsyncRead for Swapping {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let other = self.0.take().expect("it is read once");
            *buf = ReadBuf::new(other);
            buf.advance(buf.capacity());
            Poll::Ready(Ok(()))
        }
    }
    let (near, reader) = Swapping::with_half();
    let mut buf = ReadBuf::new(near);
    buf.advance(4);
    let mut reader = AsyncReadExt::take(reader, 4);
    let mut cx = Context::from_waker(std::task::Waker::noop());
    _ = Pin::new(&mut reader).poll_read(&mut cx, &mut buf);
    assert_eq!(buf.filled().len(), 4);
}

#[test]
fn streams_in_memory_behave_as_those_of_std() {
    block_on(async {
        let mut cursor = io::Cursor::new(b"hello".to_vec());
        cursor.set_position(u64::MAX);
        assert_eq!(cursor.read(&mut [0; 8]).await.unwrap(), 0);
        cursor.set_position(3);
        assert_eq!(cursor.read_u16().await.unwrap(), u16::from_be_bytes(*b"lo"));
        cursor.write_all(b"!").await.unwrap();
        assert_eq!(cursor.into_inner(), b"hello!");

        let mut bytes = Vec::new();
        let slices = [IoSlice::new(b"ab"), IoSlice::new(b"cd")];
        assert_eq!(bytes.write_vectored(&slices).await.unwrap(), 4);
        assert_eq!(bytes, b"abcd");

        let mut buf = [0; 3];
        repeat(7).read_exact(&mut buf).await.unwrap();
        assert_eq!(buf, [7; 3]);
        assert_eq!(sink().write_vectored(&slices).await.unwrap(), 4);
        assert_eq!(empty().write(b"x").await.unwrap(), 1);
    });
}

#[test]
fn pointers_to_streams_are_streams() {
    block_on(async {
        let mut reader: Box<dyn AsyncRead + Unpin> = Box::new(&b"abc"[..]);
        assert_eq!(reader.read_u8().await.unwrap(), b'a');
        assert_eq!(AsyncReadExt::read_u8(&mut &mut reader).await.unwrap(), b'b');
        assert_eq!(Pin::new(&mut reader).read_u8().await.unwrap(), b'c');
        let mut writer: Pin<Box<dyn AsyncWrite>> = Box::pin(Vec::new());
        assert!(writer.is_write_vectored());
        writer.write_all(b"x").await.unwrap();
        writer.shutdown().await.unwrap();
    });
}

/// The futures of generic code can be spawned: they are `Send` if their parts are.
#[test]
fn futures_are_send_in_generic_code() {
    fn assert_send<T: Send>(value: T) -> T {
        value
    }
    fn generic<S: AsyncRead + AsyncWrite + Unpin + Send>(stream: &mut S) {
        drop(assert_send(stream.read(&mut [0])));
        drop(assert_send(stream.read_u16()));
        drop(assert_send(stream.write_all(b"x")));
        drop(assert_send(async move {
            let _ = runtime::io::copy(stream, &mut sink()).await;
        }));
    }
    generic(&mut runtime::io::duplex(1).0);
    drop(assert_send(runtime::net::TcpStream::connect("127.0.0.1:1")));
    drop(assert_send(runtime::net::TcpListener::bind(("localhost", 1))));
    drop(assert_send(runtime::signal::ctrl_c()));
}
