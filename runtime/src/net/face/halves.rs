//! The halves of a stream socket: two that borrow it, and two that own it together.

use std::io;
use std::ops::Deref;
use std::sync::Arc;

use super::Face;
use crate::io::transfer::ByteStream;

/// The stream in an owned writing half, and whether the drop has anything left to close. It is a type of its
/// own, so that the half has no destructor and can be taken apart.
#[derive(Debug)]
pub(crate) struct WritingSide<S: Face<Io: ByteStream>> {
    pub(crate) stream: Arc<S>,
    closes: bool,
}

impl<S: Face<Io: ByteStream>> WritingSide<S> {
    pub(crate) fn new(stream: Arc<S>) -> Self {
        Self { stream, closes: true }
    }

    /// Closes the writing side now. After a success the drop does nothing.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        self.stream.registered().shutdown_write()?;
        self.closes = false;
        Ok(())
    }

    /// Lets the drop close nothing.
    pub(crate) fn keep_open(&mut self) {
        self.closes = false;
    }
}

impl<S: Face<Io: ByteStream>> Drop for WritingSide<S> {
    fn drop(&mut self) {
        if self.closes {
            // The peer may be gone already, and there is no caller to tell.
            let _ = self.close();
        }
    }
}

impl<S: Face<Io: ByteStream>> Deref for WritingSide<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.stream
    }
}

/// The types of the halves of `$stream`, with addresses of type `$addr`, and the methods that make them.
macro_rules! halves {
    ($stream:ident, $addr:ty, $setup:expr) => {
        use std::sync::Arc;

        use $crate::io::registered::Registered;
        use $crate::net::face::halves::{WritingSide, either_half, read_half, write_half};
        use $crate::net::face::{Face, bytes};

        #[doc = concat!("The reading half of a borrowed stream: see [`", stringify!($stream), "::split`].")]
        ///
        /// [`as_ref`](AsRef::as_ref) gives access to the stream's other methods.
        #[derive(Debug)]
        pub struct ReadHalf<'a>(&'a $stream);

        #[doc = concat!("The writing half of a borrowed stream: see [`", stringify!($stream), "::split`].")]
        ///
        /// Dropping it does not close the writing side: call
        /// [`shutdown`](crate::io::AsyncWriteExt::shutdown). [`as_ref`](AsRef::as_ref) gives access to the
        /// stream's other methods.
        #[derive(Debug)]
        pub struct WriteHalf<'a>(&'a $stream);

        #[doc = concat!("The reading half of a stream, made by [`", stringify!($stream), "::into_split`].")]
        ///
        /// [`as_ref`](AsRef::as_ref) gives access to the stream's other methods.
        #[derive(Debug)]
        pub struct OwnedReadHalf(Arc<$stream>);

        #[doc = concat!("The writing half of a stream, made by [`", stringify!($stream), "::into_split`].")]
        ///
        /// Dropping it closes the writing side. [`as_ref`](AsRef::as_ref) gives access to the stream's other
        /// methods.
        #[derive(Debug)]
        pub struct OwnedWriteHalf(WritingSide<$stream>);

        /// The error of joining two halves that are not of the same stream. It has both halves.
        #[derive(Debug)]
        pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

        impl std::fmt::Display for ReuniteError {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the two halves are not of the same stream")
            }
        }

        impl std::error::Error for ReuniteError {}

        /// Reading and writing at the same time.
        impl $stream {
            /// Splits the borrowed stream into a half that reads and a half that writes, at no cost. Both
            /// stay in this task.
            ///
            /// # Examples
            /// ```
            #[doc = concat!("# use runtime::net::", stringify!($stream), ";")]
            #[doc = concat!("# async fn f(mut stream: ", stringify!($stream), ") -> std::io::Result<()> {")]
            /// let (mut reader, mut writer) = stream.split();
            /// runtime::io::copy(&mut reader, &mut writer).await?;
            /// # Ok(())
            /// # }
            /// ```
            pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
                (ReadHalf(self), WriteHalf(self))
            }

            /// Splits the stream into a half that reads and a half that writes. Each half may live on its
            /// own.
            ///
            /// Dropping the writing half closes the writing side. [`forget`](OwnedWriteHalf::forget) drops it
            /// without closing. [`reunite`](OwnedReadHalf::reunite) joins both halves again.
            ///
            /// # Examples
            /// ```
            #[doc = concat!("# use runtime::net::", stringify!($stream), ";")]
            #[doc = concat!("# async fn f(stream: ", stringify!($stream), ") -> std::io::Result<()> {")]
            /// let (mut reader, mut writer) = stream.into_split();
            /// runtime::spawn(async move { runtime::io::copy(&mut reader, &mut writer).await });
            /// # Ok(())
            /// # }
            /// ```
            pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
                let stream = Arc::new(self);
                (OwnedReadHalf(stream.clone()), OwnedWriteHalf(WritingSide::new(stream)))
            }
        }

        impl OwnedReadHalf {
            /// Joins the two halves again.
            ///
            /// # Errors
            /// [`ReuniteError`], which has both halves, if they are not of the same stream.
            ///
            /// # Examples
            /// ```
            /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            #[doc = $setup]
            /// let (reader, writer) = stream.into_split();
            /// let stream = reader.reunite(writer).unwrap();
            /// # std::io::Result::Ok(())
            /// # }).unwrap();
            /// ```
            pub fn reunite(self, other: OwnedWriteHalf) -> Result<$stream, ReuniteError> {
                if !Arc::ptr_eq(&self.0, &other.0.stream) {
                    return Err(ReuniteError(self, other));
                }
                other.forget();
                Ok(Arc::into_inner(self.0).expect("a stream has two halves, and the other one is gone"))
            }
        }

        impl OwnedWriteHalf {
            /// Joins the two halves again.
            ///
            /// # Errors
            /// [`ReuniteError`], which has both halves, if they are not of the same stream.
            pub fn reunite(self, other: OwnedReadHalf) -> Result<$stream, ReuniteError> {
                other.reunite(self)
            }

            /// Drops this half without closing the writing side.
            pub fn forget(mut self) {
                self.0.keep_open();
            }
        }

        read_half!(ReadHalf<'_>, $stream, $addr, $setup, "mut stream", "(stream, _) = stream.split()");
        read_half!(OwnedReadHalf, $stream, $addr, $setup, "stream", "(stream, _) = stream.into_split()");
        write_half!(WriteHalf<'_>, $stream, $addr, $setup, "mut stream", "(_, stream) = stream.split()");
        write_half!(OwnedWriteHalf, $stream, $addr, $setup, "stream", "(_r, stream) = stream.into_split()");

        bytes::async_write!(WriteHalf<'_>, self => self.registered().shutdown_write());
        bytes::async_write!(OwnedWriteHalf, self => self.get_mut().0.close());
    };
}

macro_rules! read_half {
    ($half:ty, $stream:ident, $addr:ty, $setup:expr, $whole:literal, $split:literal) => {
        read_half! {
            $half, $stream, $addr,
            concat!($setup, "\n# let ", $whole, " = stream;\n# let ", $split, ";")
        }
    };
    ($half:ty, $stream:ident, $addr:ty, $setup:expr) => {
        impl $half {
            $crate::net::face::readiness::ready!("stream", $setup, READABLE, is_readable);
            $crate::net::face::readiness::readable!("stream", $setup, try_read);
            $crate::net::face::bytes::try_read!("stream", $setup);
        }

        either_half!($half, $stream, $addr);
        bytes::async_read!($half);
    };
}

macro_rules! write_half {
    ($half:ty, $stream:ident, $addr:ty, $setup:expr, $whole:literal, $split:literal) => {
        write_half! {
            $half, $stream, $addr,
            concat!($setup, "\n# let ", $whole, " = stream;\n# let ", $split, ";")
        }
    };
    ($half:ty, $stream:ident, $addr:ty, $setup:expr) => {
        impl $half {
            $crate::net::face::readiness::ready!("stream", $setup, WRITABLE, is_writable);
            $crate::net::face::readiness::writable!("stream", $setup, try_write);
            $crate::net::face::bytes::try_write!("stream", $setup);
        }

        either_half!($half, $stream, $addr);
    };
}

macro_rules! either_half {
    ($half:ty, $stream:ident, $addr:ty) => {
        impl $half {
            /// Returns the address of the other end.
            ///
            /// # Errors
            /// The system's errors, for instance that the stream is not connected any more.
            pub fn peer_addr(&self) -> std::io::Result<$addr> {
                self.0.peer_addr()
            }

            /// Returns the address of this end.
            ///
            /// # Errors
            /// The system's errors.
            pub fn local_addr(&self) -> std::io::Result<$addr> {
                self.0.local_addr()
            }
        }

        impl Face for $half {
            type Io = <$stream as Face>::Io;

            fn registered(&self) -> &Registered<Self::Io> {
                self.0.registered()
            }
        }

        impl AsRef<$stream> for $half {
            fn as_ref(&self) -> &$stream {
                &self.0
            }
        }
    };
}

pub(crate) use {either_half, halves, read_half, write_half};
