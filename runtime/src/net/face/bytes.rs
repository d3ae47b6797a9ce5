//! Reading and writing of byte streams.

/// `try_read` and its variants.
macro_rules! try_read {
    ($noun:literal, $setup:expr) => {
        /// Reads the bytes that are there into `buf`, without waiting, and returns their number.
        ///
        /// Zero means the end of the stream, or that `buf` has no room.
        ///
        /// # Errors
        /// [`WouldBlock`](std::io::ErrorKind::WouldBlock) if there are no bytes, or if the driver has not
        /// noticed them yet. The system's errors, or an error if the runtime that watches the descriptor was
        /// shut down.
        pub fn try_read(&self, buf: &mut [u8]) -> std::io::Result<usize> {
            $crate::net::face::Face::registered(self).try_read(buf)
        }

        /// Reads the bytes that are there into `bufs`, one after the other, without waiting, and returns
        /// their number. Zero has the meaning that it has for [`try_read`](Self::try_read).
        ///
        /// # Errors
        /// As for [`try_read`](Self::try_read).
        ///
        /// # Examples
        /// ```
        /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        #[doc = $setup]
        /// use std::io::IoSliceMut;
        ///
        #[doc = concat!($noun, ".readable().await?;")]
        /// let (mut head, mut body) = ([0; 1], [0; 8]);
        /// let mut bufs = [IoSliceMut::new(&mut head), IoSliceMut::new(&mut body)];
        #[doc = concat!("assert_eq!(", $noun, ".try_read_vectored(&mut bufs)?, 5);")]
        /// assert_eq!((&head, &body[..4]), (b"h", &b"ello"[..]));
        /// # std::io::Result::Ok(())
        /// # }).unwrap();
        /// ```
        pub fn try_read_vectored(&self, bufs: &mut [std::io::IoSliceMut<'_>]) -> std::io::Result<usize> {
            $crate::net::face::Face::registered(self).try_read_vectored(bufs)
        }

        /// Reads the bytes that are there into the room of `buf`, without waiting, advances `buf`, and
        /// returns their number. Zero has the meaning that it has for [`try_read`](Self::try_read).
        ///
        /// # Errors
        /// As for [`try_read`](Self::try_read).
        ///
        /// # Examples
        /// ```
        /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        #[doc = $setup]
        #[doc = concat!($noun, ".readable().await?;")]
        /// let mut buf = Vec::with_capacity(64);
        #[doc = concat!($noun, ".try_read_buf(&mut buf)?;")]
        /// assert_eq!(buf, b"hello");
        /// # std::io::Result::Ok(())
        /// # }).unwrap();
        /// ```
        pub fn try_read_buf<B: ::bytes::BufMut>(&self, buf: &mut B) -> std::io::Result<usize> {
            $crate::net::face::Face::registered(self).try_read_buf(buf)
        }
    };
}

/// `try_write` and its variant.
macro_rules! try_write {
    ($noun:literal, $setup:expr) => {
        /// Writes the beginning of `buf`, as much as fits, without waiting, and returns the number of bytes.
        ///
        /// # Errors
        /// [`WouldBlock`](std::io::ErrorKind::WouldBlock) if there is no room, or if the driver has not
        /// noticed it yet. The system's errors, or an error if the runtime that watches the descriptor was
        /// shut down.
        pub fn try_write(&self, buf: &[u8]) -> std::io::Result<usize> {
            $crate::net::face::Face::registered(self).try_write(buf)
        }

        /// Writes the beginning of `bufs`, one after the other, without waiting, and returns the number of
        /// bytes.
        ///
        /// # Errors
        /// As for [`try_write`](Self::try_write).
        ///
        /// # Examples
        /// ```
        /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        #[doc = $setup]
        /// use std::io::IoSlice;
        ///
        #[doc = concat!($noun, ".writable().await?;")]
        /// let bufs = [IoSlice::new(b"head"), IoSlice::new(b"body")];
        #[doc = concat!("assert_eq!(", $noun, ".try_write_vectored(&bufs)?, 8);")]
        /// # std::io::Result::Ok(())
        /// # }).unwrap();
        /// ```
        pub fn try_write_vectored(&self, bufs: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
            $crate::net::face::Face::registered(self).try_write_vectored(bufs)
        }
    };
}

macro_rules! async_read {
    ($type:ty) => {
        impl $crate::io::AsyncRead for $type {
            fn poll_read(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buf: &mut $crate::io::ReadBuf<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                $crate::net::face::Face::registered(&*self).poll_read(cx, buf)
            }
        }
    };
}

/// `$shutdown` closes the writing side. `$this` is a `Pin<&mut Self>` in it.
macro_rules! async_write {
    ($type:ty, $this:ident => $shutdown:expr) => {
        impl $crate::io::AsyncWrite for $type {
            fn poll_write(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buf: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                $crate::net::face::Face::registered(&*self).poll_write(cx, buf)
            }

            /// Does nothing, because the system holds the written bytes.
            fn poll_flush(
                self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::task::Poll::Ready(Ok(()))
            }

            fn poll_shutdown(
                $this: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::task::Poll::Ready($shutdown)
            }

            fn poll_write_vectored(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                bufs: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                $crate::net::face::Face::registered(&*self).poll_write_vectored(cx, bufs)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }
        }
    };
}

/// All macros above, and readiness, for a stream socket that has the registration in its field `io`.
macro_rules! stream_socket {
    ($type:ident, $io:ty, $setup:expr) => {
        impl $crate::net::face::Face for $type {
            type Io = $io;

            fn registered(&self) -> &$crate::io::registered::Registered<$io> {
                &self.io
            }
        }

        /// Waiting, and trying without waiting.
        impl $type {
            $crate::net::face::readiness::ready!("stream", $setup, READABLE, is_readable);
            $crate::net::face::readiness::readable!("stream", $setup, try_read);
            $crate::net::face::readiness::writable!("stream", $setup, try_write);
            $crate::net::face::readiness::poll_ready!("stream", poll_read_ready, Read, "readable");
            $crate::net::face::readiness::poll_ready!("stream", poll_write_ready, Write, "writable");
            $crate::net::face::bytes::try_read!("stream", $setup);
            $crate::net::face::bytes::try_write!("stream", $setup);
            $crate::net::face::readiness::user_io!("stream", $setup);
        }

        $crate::net::face::bytes::async_read!($type);
        $crate::net::face::bytes::async_write!($type, self => self.io.shutdown_write());
    };
}

pub(crate) use {async_read, async_write, stream_socket, try_read, try_write};
