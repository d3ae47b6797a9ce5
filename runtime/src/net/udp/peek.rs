//! Looking at the datagram that would be received next.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use super::UdpSocket;
use crate::io::ReadBuf;
use crate::net::face::Face;

/// Looking at a datagram without taking it.
impl UdpSocket {
    /// Reads the next datagram into `buf` without taking it, and returns how many of its bytes fit into
    /// `buf`.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv).
    ///
    /// # Cancel safety
    /// Safe: nothing is taken.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let socket = runtime::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// # socket.send_to(b"hello", socket.local_addr()?).await?;
    /// let mut kind = [0; 1];
    /// socket.peek(&mut kind).await?;
    /// let mut buf = [0; 1500];
    /// assert_eq!(socket.recv(&mut buf).await?, 5);
    /// assert_eq!(kind[0], buf[0]);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.registered().recv(buf, libc::MSG_PEEK).await
    }

    /// Polls for a datagram to look at, and appends it to the contents of `buf`. If several tasks poll, only
    /// the last task that called is woken.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv).
    pub fn poll_peek(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.registered().poll_recv(cx, buf, libc::MSG_PEEK)
    }

    /// Looks as [`peek`](Self::peek) does, without waiting.
    ///
    /// # Errors
    /// As for [`try_recv`](Self::try_recv).
    pub fn try_peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.registered().try_recv(buf, libc::MSG_PEEK)
    }

    /// Reads the next datagram into `buf` without taking it. Returns how many of its bytes fit into `buf`,
    /// and the sender's address.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv).
    ///
    /// # Cancel safety
    /// Safe: nothing is taken.
    pub async fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.registered().recv_from(buf, libc::MSG_PEEK).await
    }

    /// Polls for a datagram to look at, appends it to the contents of `buf`, and returns the sender's
    /// address. If several tasks poll, only the last task that called is woken.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv).
    pub fn poll_peek_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        self.registered().poll_recv_from(cx, buf, libc::MSG_PEEK)
    }

    /// Looks as [`peek_from`](Self::peek_from) does, without waiting.
    ///
    /// # Errors
    /// As for [`try_recv`](Self::try_recv).
    pub fn try_peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.registered().try_recv_from(buf, libc::MSG_PEEK)
    }

    /// Waits for a datagram without taking it, and returns the sender's address.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv).
    ///
    /// # Cancel safety
    /// Safe: nothing is taken.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let socket = runtime::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// # let peer = runtime::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// # peer.send_to(b"hello", socket.local_addr()?).await?;
    /// let sender = socket.peek_sender().await?;
    /// // From now on only its datagrams are received.
    /// socket.connect(sender).await?;
    /// assert_eq!(socket.recv(&mut [0; 1500]).await?, 5);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub async fn peek_sender(&self) -> io::Result<SocketAddr> {
        self.peek_from(&mut []).await.map(|(_, sender)| sender)
    }

    /// Polls for a datagram without taking it, and returns the sender's address. If several tasks poll, only
    /// the last task that called is woken.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv).
    pub fn poll_peek_sender(&self, cx: &mut Context<'_>) -> Poll<io::Result<SocketAddr>> {
        self.poll_peek_from(cx, &mut ReadBuf::new(&mut []))
    }

    /// Looks as [`peek_sender`](Self::peek_sender) does, without waiting.
    ///
    /// # Errors
    /// As for [`try_recv`](Self::try_recv).
    pub fn try_peek_sender(&self) -> io::Result<SocketAddr> {
        self.try_peek_from(&mut []).map(|(_, sender)| sender)
    }
}
