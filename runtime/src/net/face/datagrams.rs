//! Sending and receiving of datagrams.

/// The common methods of sockets for datagrams, for a socket that has the registration in its field `io`.
/// `$setup` makes a `socket` that is connected to a `peer`, which has sent `hello`.
macro_rules! datagram_socket {
    ($type:ident, $io:ty, $addr:ty, $setup:expr) => {
        impl $crate::net::face::Face for $type {
            type Io = $io;

            fn registered(&self) -> &$crate::io::registered::Registered<$io> {
                &self.io
            }
        }

        /// Waiting, and trying without waiting.
        impl $type {
            $crate::net::face::readiness::ready!("socket", $setup, READABLE, is_readable);
            $crate::net::face::readiness::readable!("socket", $setup, try_recv);
            $crate::net::face::readiness::writable!("socket", $setup, try_send);
            $crate::net::face::readiness::poll_ready!("socket", poll_recv_ready, Read, "readable");
            $crate::net::face::readiness::poll_ready!("socket", poll_send_ready, Write, "writable");
            $crate::net::face::readiness::user_io!("socket", $setup);
        }

        /// Sending to the connected socket.
        impl $type {
            /// Sends `buf` as one datagram, and returns its length.
            ///
            /// # Errors
            /// The system's errors, for instance that the socket is not connected, that the datagram is too
            /// long, or that an earlier datagram found no receiver
            /// ([`ConnectionRefused`](std::io::ErrorKind::ConnectionRefused)). An error if the runtime that
            /// watches the socket was shut down.
            ///
            /// # Cancel safety
            /// Safe: if the future is dropped before it is ready, the datagram was not sent.
            ///
            /// # Examples
            /// ```
            /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            #[doc = $setup]
            /// socket.send(b"question").await?;
            /// let mut buf = [0; 16];
            /// assert_eq!(peer.recv(&mut buf).await?, 8);
            /// # std::io::Result::Ok(())
            /// # }).unwrap();
            /// ```
            pub async fn send(&self, buf: &[u8]) -> std::io::Result<usize> {
                self.io.send(buf).await
            }

            /// Polls until `buf` is sent as one datagram. If several tasks poll, only the last task that
            /// called is woken.
            ///
            /// # Errors
            /// As for [`send`](Self::send).
            pub fn poll_send(
                &self,
                cx: &mut std::task::Context<'_>,
                buf: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.io.poll_send(cx, buf)
            }

            /// Sends `buf` as one datagram without waiting, and returns its length.
            ///
            /// # Errors
            /// [`WouldBlock`](std::io::ErrorKind::WouldBlock) if there is no room, or if the driver has not
            /// noticed it yet. Otherwise as for [`send`](Self::send).
            pub fn try_send(&self, buf: &[u8]) -> std::io::Result<usize> {
                self.io.try_send(buf)
            }
        }

        /// Receiving.
        impl $type {
            /// Receives a datagram into `buf`, and returns how many of its bytes are in `buf`.
            ///
            /// Bytes of a datagram that do not fit into `buf` are lost silently. A datagram may be empty.
            ///
            /// # Errors
            /// The system's errors. [`ConnectionRefused`](std::io::ErrorKind::ConnectionRefused) says that an
            /// earlier datagram found no receiver. The socket can still be used.
            /// [`UnexpectedEof`](std::io::ErrorKind::UnexpectedEof) if the socket was shut down for reading
            /// and no datagram is left. An error if the runtime that watches the socket was shut down.
            ///
            /// # Cancel safety
            /// Safe: a datagram that has not been returned waits for the next call.
            ///
            /// # Examples
            /// ```
            /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            #[doc = $setup]
            /// let mut buf = [0; 1500];
            /// let n = socket.recv(&mut buf).await?;
            /// assert_eq!(&buf[..n], b"hello");
            /// # std::io::Result::Ok(())
            /// # }).unwrap();
            /// ```
            pub async fn recv(&self, buf: &mut [u8]) -> std::io::Result<usize> {
                self.io.recv(buf, 0).await
            }

            /// Polls for a datagram, and appends it to the contents of `buf`. If several tasks poll, only the
            /// last task that called is woken.
            ///
            /// # Errors
            /// As for [`recv`](Self::recv).
            pub fn poll_recv(
                &self,
                cx: &mut std::task::Context<'_>,
                buf: &mut $crate::io::ReadBuf<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                self.io.poll_recv(cx, buf, 0)
            }

            /// Receives a datagram into `buf` without waiting, and returns how many of its bytes are in
            /// `buf`.
            ///
            /// # Errors
            /// [`WouldBlock`](std::io::ErrorKind::WouldBlock) if there is no datagram, or if the driver has
            /// not noticed it yet. Otherwise as for [`recv`](Self::recv).
            pub fn try_recv(&self, buf: &mut [u8]) -> std::io::Result<usize> {
                self.io.try_recv(buf, 0)
            }

            /// Receives a datagram into the room of `buf`, advances `buf`, and returns how many bytes it has
            /// received.
            ///
            /// The room is what [`BufMut::chunk_mut`](bytes::BufMut::chunk_mut) returns. So reserve room for
            /// the largest datagram.
            ///
            /// # Errors
            /// As for [`recv`](Self::recv).
            ///
            /// # Cancel safety
            /// Safe: a datagram that has not been returned waits for the next call.
            ///
            /// # Examples
            /// ```
            /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            #[doc = $setup]
            /// let mut buf = Vec::with_capacity(1500);
            /// socket.recv_buf(&mut buf).await?;
            /// assert_eq!(buf, b"hello");
            /// # std::io::Result::Ok(())
            /// # }).unwrap();
            /// ```
            pub async fn recv_buf<B: ::bytes::BufMut>(&self, buf: &mut B) -> std::io::Result<usize> {
                self.io.recv_buf(buf).await
            }

            /// Receives as [`recv_buf`](Self::recv_buf) does, without waiting.
            ///
            /// # Errors
            /// As for [`try_recv`](Self::try_recv).
            pub fn try_recv_buf<B: ::bytes::BufMut>(&self, buf: &mut B) -> std::io::Result<usize> {
                self.io.try_recv_buf(buf)
            }

            /// Receives a datagram into `buf`. Returns how many of its bytes are in `buf`, and the sender's
            /// address.
            ///
            /// Bytes of a datagram that do not fit into `buf` are lost silently. A datagram may be empty.
            ///
            /// # Errors
            /// As for [`recv`](Self::recv).
            ///
            /// # Cancel safety
            /// Safe: a datagram that has not been returned waits for the next call.
            ///
            /// # Examples
            /// ```
            /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            #[doc = $setup]
            /// let mut buf = [0; 1500];
            /// let (n, sender) = socket.recv_from(&mut buf).await?;
            /// println!("{sender:?}: {:?}", &buf[..n]);
            /// # assert_eq!(&buf[..n], b"hello");
            /// # std::io::Result::Ok(())
            /// # }).unwrap();
            /// ```
            pub async fn recv_from(&self, buf: &mut [u8]) -> std::io::Result<(usize, $addr)> {
                self.io.recv_from(buf, 0).await
            }

            /// Polls for a datagram, appends it to the contents of `buf`, and returns the sender's address.
            /// If several tasks poll, only the last task that called is woken.
            ///
            /// # Errors
            /// As for [`recv`](Self::recv).
            pub fn poll_recv_from(
                &self,
                cx: &mut std::task::Context<'_>,
                buf: &mut $crate::io::ReadBuf<'_>,
            ) -> std::task::Poll<std::io::Result<$addr>> {
                self.io.poll_recv_from(cx, buf, 0)
            }

            /// Receives as [`recv_from`](Self::recv_from) does, without waiting.
            ///
            /// # Errors
            /// As for [`try_recv`](Self::try_recv).
            pub fn try_recv_from(&self, buf: &mut [u8]) -> std::io::Result<(usize, $addr)> {
                self.io.try_recv_from(buf, 0)
            }

            /// Receives a datagram into the room of `buf`, and advances `buf`. Returns how many bytes it has
            /// received, and the sender's address.
            ///
            /// The room is what [`BufMut::chunk_mut`](bytes::BufMut::chunk_mut) returns. So reserve room for
            /// the largest datagram.
            ///
            /// # Errors
            /// As for [`recv`](Self::recv).
            ///
            /// # Cancel safety
            /// Safe: a datagram that has not been returned waits for the next call.
            pub async fn recv_buf_from<B: ::bytes::BufMut>(
                &self,
                buf: &mut B,
            ) -> std::io::Result<(usize, $addr)> {
                self.io.recv_buf_from(buf).await
            }

            /// Receives as [`recv_buf_from`](Self::recv_buf_from) does, without waiting.
            ///
            /// # Errors
            /// As for [`try_recv`](Self::try_recv).
            pub fn try_recv_buf_from<B: ::bytes::BufMut>(
                &self,
                buf: &mut B,
            ) -> std::io::Result<(usize, $addr)> {
                self.io.try_recv_buf_from(buf)
            }
        }
    };
}

pub(crate) use datagram_socket;
