//! hyper 1.x on this runtime: hyper's `Read` and `Write` for our streams, an [`Executor`] and a [`Timer`].
//! Needs the feature `hyper`.
//!
//! hyper takes [`TcpStream`], [`UnixStream`], their owned halves and [`DuplexStream`] as they are. Any other
//! [`AsyncRead`] and [`AsyncWrite`] is wrapped in an [`Io`].
//!
//! # Examples
//! ```no_run
//! # async fn f() -> std::io::Result<()> {
//! # /*
//! let (stream, _) = listener.accept().await?;
//! let answer = || Response::new(Full::from("Hello, World!"));
//! let service = service_fn(|request| async { Ok::<_, Infallible>(answer()) });
//! let connection = http1::Builder::new()
//!     .timer(runtime::hyper::Timer::new())
//!     .serve_connection(stream, service);
//! runtime::spawn(connection);
//! # */
//! # Ok(())
//! # }
//! ```

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use ::hyper::rt::{Read, ReadBufCursor, Write};
use pin_project_lite::pin_project;

use crate::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use crate::net::{TcpStream, UnixStream, tcp, unix};

/// hyper's `Read` for an [`AsyncRead`].
fn poll_read<R: AsyncRead>(
    reader: Pin<&mut R>,
    cx: &mut Context<'_>,
    mut cursor: ReadBufCursor<'_>,
) -> Poll<io::Result<()>> {
    // SAFETY: no reader can write uninitialised bytes through a `ReadBuf`.
    let room = unsafe { cursor.as_mut() };
    let mut buf = ReadBuf::uninit(room);
    let place = buf.place();
    ready!(reader.poll_read(cx, &mut buf))?;
    buf.assert_at(place);
    let n = buf.filled().len();
    // SAFETY: the first `n` bytes are filled, and so initialised.
    unsafe { cursor.advance(n) };
    Poll::Ready(Ok(()))
}

/// `$target` is the reader, or the writer, of a `Pin<&mut Self>`.
macro_rules! read {
    ($self:ident => $target:expr) => {
        fn poll_read(
            $self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: ReadBufCursor<'_>,
        ) -> Poll<io::Result<()>> {
            poll_read($target, cx, buf)
        }
    };
}

macro_rules! write {
    ($self:ident => $target:expr, $is_vectored:expr) => {
        fn poll_write($self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            AsyncWrite::poll_write($target, cx, buf)
        }

        fn poll_flush($self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            AsyncWrite::poll_flush($target, cx)
        }

        fn poll_shutdown($self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            AsyncWrite::poll_shutdown($target, cx)
        }

        fn poll_write_vectored(
            $self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            bufs: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            AsyncWrite::poll_write_vectored($target, cx, bufs)
        }

        fn is_write_vectored(&$self) -> bool {
            AsyncWrite::is_write_vectored($is_vectored)
        }
    };
}

macro_rules! reads {
    ($($reader:ty),*) => {$(
        impl Read for $reader {
            read!(self => self);
        }
    )*};
}

macro_rules! writes {
    ($($writer:ty),*) => {$(
        impl Write for $writer {
            write!(self => self, self);
        }
    )*};
}

reads!(TcpStream, tcp::OwnedReadHalf, UnixStream, unix::OwnedReadHalf, DuplexStream);
writes!(TcpStream, tcp::OwnedWriteHalf, UnixStream, unix::OwnedWriteHalf, DuplexStream);

pin_project! {
    /// Any [`AsyncRead`] and [`AsyncWrite`] as hyper's `Read` and `Write`.
    ///
    /// # Examples
    /// ```
    /// fn serve(stream: impl hyper::rt::Read + hyper::rt::Write) {}
    ///
    /// let (reader, writer) = runtime::io::split(runtime::io::duplex(64).0);
    /// serve(runtime::hyper::Io::new(reader.unsplit(writer)));
    /// ```
    #[derive(Debug)]
    pub struct Io<T> {
        #[pin]
        inner: T,
    }
}

impl<T> Io<T> {
    /// Wraps `inner`.
    pub fn new(inner: T) -> Self {
        Self { inner }
    }

    /// Returns a reference to the wrapped value.
    pub fn inner(&self) -> &T {
        &self.inner
    }

    /// Returns the wrapped value.
    pub fn into_inner(self) -> T {
        self.inner
    }
}

impl<T: AsyncRead> Read for Io<T> {
    read!(self => self.project().inner);
}

impl<T: AsyncWrite> Write for Io<T> {
    write!(self => self.project().inner, &self.inner);
}

/// Spawns hyper's tasks on the runtime that is current when hyper spawns them.
///
/// # Panics
/// `execute` panics outside of a runtime, as [`spawn`](crate::spawn()).
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use hyper::rt::Executor as _;
///
/// runtime::hyper::Executor::new().execute(async {});
/// # });
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Executor(());

impl Executor {
    /// Creates an executor. It holds nothing.
    pub fn new() -> Self {
        Self::default()
    }
}

impl<F> ::hyper::rt::Executor<F> for Executor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        drop(crate::spawn(future));
    }
}

/// Runs hyper's timeouts on the timers of the runtime that is current when they begin.
///
/// While the clock is [paused](crate::time::pause), hyper's clock is paused as well.
///
/// # Panics
/// `sleep` and `sleep_until` panic as [`time::sleep`](crate::time::sleep()).
#[derive(Debug, Clone, Copy, Default)]
pub struct Timer(());

impl Timer {
    /// Creates a timer. It holds nothing.
    pub fn new() -> Self {
        Self::default()
    }
}

impl ::hyper::rt::Timer for Timer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn ::hyper::rt::Sleep>> {
        Box::pin(Sleep { inner: crate::time::sleep(duration) })
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn ::hyper::rt::Sleep>> {
        Box::pin(Sleep { inner: crate::time::sleep_until(crate::time::Instant::from_std(deadline)) })
    }

    fn now(&self) -> Instant {
        crate::time::Instant::now().into_std()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn ::hyper::rt::Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<Sleep>() {
            Some(ours) => ours.project().inner.reset(crate::time::Instant::from_std(deadline)),
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

pin_project! {
    /// Our sleep as hyper's `Sleep`.
    struct Sleep {
        #[pin]
        inner: crate::time::Sleep,
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.project().inner.poll(cx)
    }
}

impl ::hyper::rt::Sleep for Sleep {}
