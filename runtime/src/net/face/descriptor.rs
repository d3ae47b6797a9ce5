//! Conversions from and to the standard library, and the number of the descriptor.

/// `from_std` and `into_std` of a socket that has the registration in its field `io`. `$what` names it in
/// texts. `$mio` is the type below, whose socket must be non-blocking already. `$setup` makes a socket of the
/// standard library in the examples, called `$what`.
macro_rules! std_socket {
    ($type:ident, $std:ty, $mio:ty, $what:literal, $setup:literal) => {
        /// Conversions from and to the standard library.
        impl $type {
            #[doc = concat!("Takes over a ", $what, " of the standard library.")]
            ///
            /// This sets it to non-blocking mode. (Tokio leaves that to the caller.)
            ///
            /// # Errors
            #[doc = concat!("Those of the system; the ", $what, " is closed then.")]
            ///
            /// # Panics
            /// Outside of a runtime, or if its I/O is not enabled: call it inside `block_on`, a task, or the
            /// scope of `Handle::enter`, and build the runtime with `enable_io` or `enable_all`.
            ///
            /// # Examples
            /// ```
            /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            #[doc = concat!("use runtime::net::", stringify!($type), ";")]
            ///
            #[doc = $setup]
            #[doc = concat!("let ", $what, " = ", stringify!($type), "::from_std(", $what, ")?;")]
            /// # std::io::Result::Ok(())
            /// # }).unwrap();
            /// ```
            #[track_caller]
            pub fn from_std(socket: $std) -> std::io::Result<$type> {
                socket.set_nonblocking(true)?;
                Self::register(<$mio>::from_std(socket))
            }

            #[doc = concat!("Gives the socket back as a ", $what, " of the standard library, non-blocking.")]
            ///
            /// # Errors
            #[doc = concat!("Those of the system; the ", $what, " is closed then.")]
            ///
            /// # Examples
            /// ```
            /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            #[doc = $setup]
            #[doc = concat!("# use runtime::net::", stringify!($type), ";")]
            #[doc = concat!("# let ", $what, " = ", stringify!($type), "::from_std(", $what, ")?;")]
            #[doc = concat!("let ", $what, " = ", $what, ".into_std()?;")]
            #[doc = concat!($what, ".set_nonblocking(false)?;")]
            /// # std::io::Result::Ok(())
            /// # }).unwrap();
            /// ```
            pub fn into_std(self) -> std::io::Result<$std> {
                self.io.into_inner().map(Into::into)
            }
        }

        impl TryFrom<$std> for $type {
            type Error = std::io::Error;

            /// Takes over the socket as `from_std` does.
            #[track_caller]
            fn try_from(socket: $std) -> std::io::Result<Self> {
                Self::from_std(socket)
            }
        }

        $crate::net::face::descriptor::descriptor!($type, io);
    };
}

/// `Debug` and the number, for a type with a field that has a descriptor.
macro_rules! descriptor {
    ($type:ident, $field:ident) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&self.$field, f)
            }
        }

        impl std::os::fd::AsRawFd for $type {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                std::os::fd::AsRawFd::as_raw_fd(&*self.$field)
            }
        }

        impl std::os::fd::AsFd for $type {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                std::os::fd::AsFd::as_fd(&*self.$field)
            }
        }
    };
}

pub(crate) use {descriptor, std_socket};
