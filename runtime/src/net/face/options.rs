//! Options of sockets, by socket2.

/// Pairs of `name` and `set_name`, for a type that is `AsFd`. The given docs are those of `set_name`. The
/// docs of `name` say that it returns what `set_name` sets.
macro_rules! options {
    ($(
        $(#[$doc:meta])*
        $get:ident, $set:ident($value:ident: $ty:ty) => $their_get:ident, $their_set:ident;
    )*) => {$(
        #[doc = concat!("Returns what [`", stringify!($set), "`](Self::", stringify!($set), ") sets.")]
        ///
        /// # Errors
        /// The system's errors.
        pub fn $get(&self) -> std::io::Result<$ty> {
            socket2::SockRef::from(self).$their_get()
        }

        $(#[$doc])*
        ///
        /// # Errors
        /// The system's errors.
        pub fn $set(&self, $value: $ty) -> std::io::Result<()> {
            socket2::SockRef::from(self).$their_set($value)
        }
    )*};
}

/// `device` and `bind_device`.
macro_rules! device {
    () => {
        /// Returns the name of the interface to which the socket is bound (`SO_BINDTODEVICE`), if it is.
        ///
        /// # Errors
        /// The system's errors.
        pub fn device(&self) -> std::io::Result<Option<Vec<u8>>> {
            socket2::SockRef::from(self).device()
        }

        /// Binds the socket to an interface by its name (`SO_BINDTODEVICE`), or to none. The socket receives
        /// nothing from other interfaces then.
        ///
        /// # Errors
        /// The system's errors.
        pub fn bind_device(&self, interface: Option<&[u8]>) -> std::io::Result<()> {
            socket2::SockRef::from(self).bind_device(interface)
        }
    };
}

/// `tos` and `set_tos`, which are `tos_v4` and `set_tos_v4`.
macro_rules! deprecated_tos {
    () => {
        #[doc(hidden)]
        #[deprecated = "it is for IPv4 only, and called `tos_v4`"]
        pub fn tos(&self) -> std::io::Result<u32> {
            self.tos_v4()
        }

        #[doc(hidden)]
        #[deprecated = "it is for IPv4 only, and called `set_tos_v4`"]
        pub fn set_tos(&self, tos: u32) -> std::io::Result<()> {
            self.set_tos_v4(tos)
        }
    };
}

/// `take_error`.
macro_rules! take_error {
    () => {
        /// Takes the error that is pending on the socket (`SO_ERROR`), if there is one.
        ///
        /// # Errors
        /// The system's errors.
        pub fn take_error(&self) -> std::io::Result<Option<std::io::Error>> {
            socket2::SockRef::from(self).take_error()
        }
    };
}

pub(crate) use {deprecated_tos, device, options, take_error};
