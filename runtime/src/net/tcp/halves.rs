//! The halves of a TCP stream.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use super::example::setup;
use super::stream::TcpStream;
use crate::io::ReadBuf;
use crate::net::face::halves::halves;

halves!(TcpStream, SocketAddr, setup!());

/// A method that only TCP has: looking at bytes before they are taken.
macro_rules! peek {
    ($half:ty) => {
        impl $half {
            /// Reads into `buf` without taking the bytes from the stream, and returns their number: see
            /// [`TcpStream::peek`].
            ///
            /// # Errors
            /// The system's errors.
            ///
            /// # Cancel safety
            /// Safe: nothing is taken.
            pub async fn peek(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.0.peek(buf).await
            }

            /// Polls for bytes to look at, without taking them, and returns how many were put into `buf`.
            ///
            /// If several tasks poll, only the last task that called is woken.
            ///
            /// # Errors
            /// The system's errors.
            pub fn poll_peek(
                &mut self,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<usize>> {
                self.0.poll_peek(cx, buf)
            }
        }
    };
}

peek!(ReadHalf<'_>);
peek!(OwnedReadHalf);
