//! Methods of the traits of readers and writers that only call the same method of another value.

/// The methods of one trait, each forwarded to `$target`. This is an expression for `Pin<&mut _>` in terms of
/// `self`, which it may consume.
///
/// `AsyncWrite` has a method that takes `&self`, so it needs a second expression, for a place to borrow.
macro_rules! forward {
    (AsyncRead: $self:ident => $target:expr $(, $_borrowed:expr)?) => {
        #[inline]
        fn poll_read(
            $self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
            buf: &mut $crate::io::ReadBuf<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            $target.poll_read(cx, buf)
        }
    };

    (AsyncBufRead: $self:ident => $target:expr $(, $_borrowed:expr)?) => {
        #[inline]
        fn poll_fill_buf(
            $self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<std::io::Result<&[u8]>> {
            $target.poll_fill_buf(cx)
        }

        #[inline]
        fn consume($self: std::pin::Pin<&mut Self>, amt: usize) {
            $target.consume(amt);
        }
    };

    (AsyncSeek: $self:ident => $target:expr $(, $_borrowed:expr)?) => {
        #[inline]
        fn start_seek($self: std::pin::Pin<&mut Self>, position: std::io::SeekFrom) -> std::io::Result<()> {
            $target.start_seek(position)
        }

        #[inline]
        fn poll_complete(
            $self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<std::io::Result<u64>> {
            $target.poll_complete(cx)
        }
    };

    (AsyncWrite: $self:ident => $target:expr, $borrowed:expr) => {
        #[inline]
        fn poll_write(
            $self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
            buf: &[u8],
        ) -> std::task::Poll<std::io::Result<usize>> {
            $target.poll_write(cx, buf)
        }

        #[inline]
        fn poll_flush(
            $self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            $target.poll_flush(cx)
        }

        #[inline]
        fn poll_shutdown(
            $self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            $target.poll_shutdown(cx)
        }

        #[inline]
        fn poll_write_vectored(
            $self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
            bufs: &[std::io::IoSlice<'_>],
        ) -> std::task::Poll<std::io::Result<usize>> {
            $target.poll_write_vectored(cx, bufs)
        }

        #[inline]
        fn is_write_vectored(&$self) -> bool {
            $borrowed.is_write_vectored()
        }
    };
}

/// Implements a trait for `Box<T>`, `&mut T` and `Pin<P>`, by their targets.
macro_rules! forward_pointers {
    ($Trait:ident) => {
        impl<T: ?Sized + $Trait + Unpin> $Trait for Box<T> {
            forward!($Trait: self => std::pin::Pin::new(&mut **self.get_mut()), **self);
        }

        impl<T: ?Sized + $Trait + Unpin> $Trait for &mut T {
            forward!($Trait: self => std::pin::Pin::new(&mut **self.get_mut()), **self);
        }

        impl<P> $Trait for std::pin::Pin<P>
        where
            P: std::ops::DerefMut,
            P::Target: $Trait,
        {
            forward!($Trait: self => self.as_deref_mut(), **self);
        }
    };
}

pub(in crate::io) use {forward, forward_pointers};
