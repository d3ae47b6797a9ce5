//! The halves of a borrowed stream.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::stream::TcpStream;
use crate::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The reading half of a borrowed stream, made by [`TcpStream::split`].
///
/// [`as_ref`](AsRef::as_ref) leads to what else a stream can do.
#[derive(Debug)]
pub struct ReadHalf<'a>(pub(super) &'a TcpStream);

/// The writing half of a borrowed stream, made by [`TcpStream::split`].
///
/// Dropping it does not close the writing side: call [`shutdown`](crate::io::AsyncWriteExt::shutdown).
/// [`as_ref`](AsRef::as_ref) leads to what else a stream can do.
#[derive(Debug)]
pub struct WriteHalf<'a>(pub(super) &'a TcpStream);

pub(super) fn split(stream: &mut TcpStream) -> (ReadHalf<'_>, WriteHalf<'_>) {
    (ReadHalf(stream), WriteHalf(stream))
}

/// What a reading half takes over from its stream.
macro_rules! read_half_methods {
    ($half:ty) => {
        impl $half {
            /// Polls for bytes to look at: see [`TcpStream::poll_peek`].
            ///
            /// # Errors
            /// As there.
            pub fn poll_peek(
                &mut self,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<usize>> {
                self.0.poll_peek(cx, buf)
            }

            /// Reads without taking the bytes from the stream: see [`TcpStream::peek`].
            ///
            /// # Errors
            /// As there.
            ///
            /// # Cancel safety
            /// Safe: nothing is taken.
            pub async fn peek(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.0.peek(buf).await
            }

            /// Waits until ready for any of `interest`: see [`TcpStream::ready`].
            ///
            /// # Errors
            /// As there.
            ///
            /// # Cancel safety
            /// Safe.
            pub async fn ready(&self, interest: crate::io::Interest) -> io::Result<crate::io::Ready> {
                self.0.ready(interest).await
            }

            /// Waits until readable: see [`TcpStream::readable`].
            ///
            /// # Errors
            /// As there.
            ///
            /// # Cancel safety
            /// Safe.
            pub async fn readable(&self) -> io::Result<()> {
                self.0.readable().await
            }

            /// Reads without waiting: see [`TcpStream::try_read`].
            ///
            /// # Errors
            /// As there.
            pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
                self.0.try_read(buf)
            }

            /// Reads into several buffers without waiting: see [`TcpStream::try_read_vectored`].
            ///
            /// # Errors
            /// As there.
            pub fn try_read_vectored(&self, bufs: &mut [io::IoSliceMut<'_>]) -> io::Result<usize> {
                self.0.try_read_vectored(bufs)
            }

            /// Reads into the room that `buf` has, without waiting: see [`TcpStream::try_read_buf`].
            ///
            /// # Errors
            /// As there.
            pub fn try_read_buf<B: bytes::BufMut>(&self, buf: &mut B) -> io::Result<usize> {
                self.0.try_read_buf(buf)
            }
        }

        impl AsyncRead for $half {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                self.0.poll_read_shared(cx, buf)
            }
        }

        half_methods!($half);
    };
}

/// What a writing half takes over from its stream, but for the end of its life.
macro_rules! write_half_methods {
    ($half:ty) => {
        impl $half {
            /// Waits until ready for any of `interest`: see [`TcpStream::ready`].
            ///
            /// # Errors
            /// As there.
            ///
            /// # Cancel safety
            /// Safe.
            pub async fn ready(&self, interest: crate::io::Interest) -> io::Result<crate::io::Ready> {
                self.0.ready(interest).await
            }

            /// Waits until writable: see [`TcpStream::writable`].
            ///
            /// # Errors
            /// As there.
            ///
            /// # Cancel safety
            /// Safe.
            pub async fn writable(&self) -> io::Result<()> {
                self.0.writable().await
            }

            /// Writes without waiting: see [`TcpStream::try_write`].
            ///
            /// # Errors
            /// As there.
            pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
                self.0.try_write(buf)
            }

            /// Writes several buffers without waiting: see [`TcpStream::try_write_vectored`].
            ///
            /// # Errors
            /// As there.
            pub fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
                self.0.try_write_vectored(bufs)
            }
        }

        half_methods!($half);
    };
}

/// What both halves take over from their stream.
macro_rules! half_methods {
    ($half:ty) => {
        impl $half {
            /// Returns the address of the other end.
            ///
            /// # Errors
            /// Those of the system, such as that there is none any more.
            pub fn peer_addr(&self) -> io::Result<std::net::SocketAddr> {
                self.0.peer_addr()
            }

            /// Returns the address of this end.
            ///
            /// # Errors
            /// Those of the system.
            pub fn local_addr(&self) -> io::Result<std::net::SocketAddr> {
                self.0.local_addr()
            }
        }

        impl AsRef<TcpStream> for $half {
            fn as_ref(&self) -> &TcpStream {
                &self.0
            }
        }
    };
}

pub(super) use {half_methods, read_half_methods, write_half_methods};

read_half_methods!(ReadHalf<'_>);
write_half_methods!(WriteHalf<'_>);

impl AsyncWrite for WriteHalf<'_> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write_shared(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.shutdown_write())
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write_vectored_shared(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
