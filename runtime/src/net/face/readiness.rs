//! Waiting for readiness, and direct calls of the system.

/// `ready`. The example waits for `$interest`.
macro_rules! ready {
    ($noun:literal, $setup:expr, $interest:ident, $is_ready:ident) => {
        #[doc = concat!("Waits until the ", $noun, " is ready for any of `interest`, and says for what.")]
        ///
        /// Readiness stays until an operation finds that it is over. So call a method whose name begins with
        /// `try_` after this. Otherwise this returns at once for ever.
        ///
        /// # Errors
        /// If the runtime that watches the descriptor was shut down.
        ///
        /// # Cancel safety
        /// Safe.
        ///
        /// # Examples
        /// ```
        /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        #[doc = $setup]
        /// use runtime::io::Interest;
        ///
        #[doc = concat!("let ready = ", $noun, ".ready(Interest::", stringify!($interest), ").await?;")]
        #[doc = concat!("assert!(ready.", stringify!($is_ready), "());")]
        /// # std::io::Result::Ok(())
        /// # }).unwrap();
        /// ```
        pub async fn ready(&self, interest: $crate::io::Interest) -> std::io::Result<$crate::io::Ready> {
            Ok($crate::net::face::Face::registered(self).ready(interest).await?.ready)
        }
    };
}

/// `readable`. The example reads by `$try_read`.
macro_rules! readable {
    ($noun:literal, $setup:expr, $try_read:ident) => {
        #[doc = concat!("Waits until the ", $noun, " is readable: `ready(Interest::READABLE)`.")]
        ///
        /// # Errors
        /// If the runtime that watches the descriptor was shut down.
        ///
        /// # Cancel safety
        /// Safe.
        ///
        /// # Examples
        /// ```
        /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        #[doc = $setup]
        /// let mut buf = [0; 1024];
        /// let n = loop {
        #[doc = concat!("    ", $noun, ".readable().await?;")]
        #[doc = concat!("    match ", $noun, ".", stringify!($try_read), "(&mut buf) {")]
        ///         Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
        ///         result => break result?,
        ///     }
        /// };
        /// assert_eq!(&buf[..n], b"hello");
        /// # std::io::Result::Ok(())
        /// # }).unwrap();
        /// ```
        pub async fn readable(&self) -> std::io::Result<()> {
            $crate::net::face::Face::registered(self).ready($crate::io::Interest::READABLE).await.map(drop)
        }
    };
}

/// `writable`. The example writes by `$try_write`.
macro_rules! writable {
    ($noun:literal, $setup:expr, $try_write:ident) => {
        #[doc = concat!("Waits until the ", $noun, " is writable: `ready(Interest::WRITABLE)`.")]
        ///
        /// # Errors
        /// If the runtime that watches the descriptor was shut down.
        ///
        /// # Cancel safety
        /// Safe.
        ///
        /// # Examples
        /// ```
        /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        #[doc = $setup]
        /// let n = loop {
        #[doc = concat!("    ", $noun, ".writable().await?;")]
        #[doc = concat!("    match ", $noun, ".", stringify!($try_write), "(b\"hello\") {")]
        ///         Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
        ///         result => break result?,
        ///     }
        /// };
        /// assert_eq!(n, 5);
        /// # std::io::Result::Ok(())
        /// # }).unwrap();
        /// ```
        pub async fn writable(&self) -> std::io::Result<()> {
            $crate::net::face::Face::registered(self).ready($crate::io::Interest::WRITABLE).await.map(drop)
        }
    };
}

/// Readiness in `$direction` for callers that poll.
macro_rules! poll_ready {
    ($noun:literal, $name:ident, $direction:ident, $adjective:literal) => {
        #[doc = concat!("Polls until the ", $noun, " is ", $adjective, ".")]
        ///
        /// If several tasks poll, only the last task that called is woken.
        ///
        /// # Errors
        /// If the runtime that watches the descriptor was shut down.
        pub fn $name(&self, cx: &mut std::task::Context<'_>) -> std::task::Poll<std::io::Result<()>> {
            let direction = $crate::driver::io::Direction::$direction;
            $crate::net::face::Face::registered(self).poll_ready(cx, direction).map_ok(drop)
        }
    };
}

/// `try_io` and `async_io`.
macro_rules! user_io {
    ($noun:literal, $setup:expr) => {
        #[doc = concat!("Calls `f`, an operation on this ", $noun, ", if it is ready for `interest`.")]
        ///
        /// If `f` returns [`WouldBlock`](std::io::ErrorKind::WouldBlock), that readiness is cleared. So `f`
        /// must return `WouldBlock` only if the system did. A readiness that is cleared without reason comes
        /// back only with the next event.
        ///
        /// # Errors
        /// `WouldBlock` if it is not ready, or if the driver has not noticed that it is. The errors of `f`,
        /// or an error if the runtime that watches the descriptor was shut down.
        ///
        /// # Examples
        /// ```
        /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        #[doc = $setup]
        /// use runtime::io::Interest;
        /// use socket2::SockRef;
        ///
        #[doc = concat!($noun, ".readable().await?;")]
        /// let mut buf = Vec::with_capacity(64);
        #[doc = concat!("let n = ", $noun, ".try_io(Interest::READABLE, || {")]
        #[doc = concat!("    SockRef::from(&", $noun, ").recv(buf.spare_capacity_mut())")]
        /// })?;
        /// assert_eq!(n, 5);
        /// # std::io::Result::Ok(())
        /// # }).unwrap();
        /// ```
        pub fn try_io<R>(
            &self,
            interest: $crate::io::Interest,
            f: impl FnOnce() -> std::io::Result<R>,
        ) -> std::io::Result<R> {
            $crate::net::face::Face::registered(self).try_io(interest, f)
        }

        #[doc = concat!("Calls `f`, an operation on this ", $noun, ", whenever it is ready for `interest`, ")]
        /// until `f` returns anything but [`WouldBlock`](std::io::ErrorKind::WouldBlock).
        ///
        /// As for [`try_io`](Self::try_io), `f` must return `WouldBlock` only if the system did.
        ///
        /// # Errors
        /// The other errors of `f`, or an error if the runtime that watches the descriptor was shut down.
        ///
        /// # Cancel safety
        /// Safe: `f` is not interrupted.
        ///
        /// # Examples
        /// ```
        /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        #[doc = $setup]
        /// use runtime::io::Interest;
        /// use socket2::SockRef;
        ///
        /// let mut buf = Vec::with_capacity(64);
        #[doc = concat!("let receive = || SockRef::from(&", $noun, ").recv(buf.spare_capacity_mut());")]
        #[doc = concat!("let n = ", $noun, ".async_io(Interest::READABLE, receive).await?;")]
        /// assert_eq!(n, 5);
        /// # std::io::Result::Ok(())
        /// # }).unwrap();
        /// ```
        pub async fn async_io<R>(
            &self,
            interest: $crate::io::Interest,
            f: impl FnMut() -> std::io::Result<R>,
        ) -> std::io::Result<R> {
            $crate::net::face::Face::registered(self).async_user_io(interest, f).await
        }
    };
}

pub(crate) use {poll_ready, readable, ready, user_io, writable};
