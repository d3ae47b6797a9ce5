//! Names to addresses.
//!
//! The system resolves names by a call that blocks, so the call runs on a thread that may block. An address,
//! or a text that spells an address in digits, needs no call.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::Handle;
use crate::coop;
use crate::task::JoinHandle;
use crate::util::named_error::named;

/// A type that can be turned into addresses: an address, several, or a name with a port.
///
/// It is implemented for the address types, for pairs of an IP address and a port, for slices of addresses,
/// and for names: `"example.com:80"` as `&str` or `String`, `("example.com", 80)` with either. Other crates
/// cannot implement it. It is the same as Tokio's.
pub trait ToSocketAddrs: sealed::Resolve {}

mod sealed {
    pub trait Resolve {
        fn resolve(&self) -> super::Resolving;
    }
}

/// Resolves a name, or a pair of name and port.
///
/// The system's `getaddrinfo` resolves names, on a blocking thread of the current runtime.
///
/// # Errors
/// The system's errors, or an error if the runtime was shut down or the system refused a thread. Each has the
/// name in the text.
///
/// # Panics
/// Outside of a runtime, if a name has to be resolved.
///
/// # Cancel safety
/// Safe: a call that has begun ends, and its result is dropped.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let mut addrs = runtime::net::lookup_host("localhost:80").await.unwrap();
/// assert!(addrs.next().unwrap().ip().is_loopback());
/// # });
/// ```
pub async fn lookup_host<T: ToSocketAddrs>(host: T) -> io::Result<impl Iterator<Item = SocketAddr>> {
    resolve(host).await
}

/// Returns the addresses of `host`.
pub(super) async fn resolve(host: impl ToSocketAddrs) -> io::Result<Addrs> {
    // A loop that only resolves, for instance by `bind`, is always ready. So this call consumes budget.
    coop::consume_budget().await;
    let resolving = host.resolve();
    // Not kept while waiting, so that the future's size does not depend on it.
    drop(host);
    resolving.await
}

/// Returns the first address of `host`, for an operation that consumes budget itself.
pub(super) async fn resolve_first(host: impl ToSocketAddrs) -> io::Result<SocketAddr> {
    let addrs = match host.resolve() {
        Resolving::Known(addrs) => Ok(addrs),
        lookup => lookup.await,
    };
    addrs?.next().ok_or_else(no_address)
}

/// The error of a call that got no address.
pub(super) fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "no address given, or the name has none")
}

/// Addresses, without an allocation for a single one.
#[derive(Debug, Clone)]
pub enum Addrs {
    One(Option<SocketAddr>),
    Many(std::vec::IntoIter<SocketAddr>),
}

impl Iterator for Addrs {
    type Item = SocketAddr;

    fn next(&mut self) -> Option<SocketAddr> {
        match self {
            Self::One(addr) => addr.take(),
            Self::Many(addrs) => addrs.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::One(addr) => addr.iter().size_hint(),
            Self::Many(addrs) => addrs.size_hint(),
        }
    }
}

/// Addresses that are there at once, or that come from a blocking thread.
pub enum Resolving {
    Known(Addrs),
    Lookup { name: String, call: JoinHandle<io::Result<Vec<SocketAddr>>> },
}

impl Resolving {
    fn known(addr: impl Into<SocketAddr>) -> Self {
        Self::Known(Addrs::One(Some(addr.into())))
    }

    /// Resolves `host`, which errors call `name`.
    #[track_caller]
    fn lookup(name: String, host: impl std::net::ToSocketAddrs + Send + 'static) -> Self {
        let call = Handle::current_for("lookup_host")
            .spawn_blocking(move || host.to_socket_addrs().map(Iterator::collect));
        Self::Lookup { name, call }
    }
}

impl Future for Resolving {
    type Output = io::Result<Addrs>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Known(addrs) => Poll::Ready(Ok(std::mem::replace(addrs, Addrs::One(None)))),
            Self::Lookup { name, call } => Poll::Ready(match ready!(Pin::new(call).poll(cx)) {
                Ok(Ok(addrs)) => Ok(Addrs::Many(addrs.into_iter())),
                Ok(Err(error)) => Err(named("lookup", name, error)),
                Err(error) => Err(named("lookup", name, error.into())),
            }),
        }
    }
}

impl fmt::Debug for Resolving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(addrs) => f.debug_tuple("Known").field(addrs).finish(),
            Self::Lookup { name, .. } => f.debug_struct("Lookup").field("name", name).finish_non_exhaustive(),
        }
    }
}

macro_rules! known {
    ($($ty:ty),* $(,)?) => {$(
        impl ToSocketAddrs for $ty {}

        impl sealed::Resolve for $ty {
            fn resolve(&self) -> Resolving {
                Resolving::known(*self)
            }
        }
    )*};
}

known!(SocketAddr, SocketAddrV4, SocketAddrV6, (IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16));

impl<T: ToSocketAddrs + ?Sized> ToSocketAddrs for &T {}

impl<T: ToSocketAddrs + ?Sized> sealed::Resolve for &T {
    fn resolve(&self) -> Resolving {
        (**self).resolve()
    }
}

impl ToSocketAddrs for [SocketAddr] {}

impl sealed::Resolve for [SocketAddr] {
    fn resolve(&self) -> Resolving {
        Resolving::Known(Addrs::Many(Vec::from(self).into_iter()))
    }
}

impl ToSocketAddrs for str {}

impl sealed::Resolve for str {
    fn resolve(&self) -> Resolving {
        match self.parse::<SocketAddr>() {
            Ok(addr) => Resolving::known(addr),
            Err(_) => Resolving::lookup(self.to_owned(), self.to_owned()),
        }
    }
}

impl ToSocketAddrs for (&str, u16) {}

impl sealed::Resolve for (&str, u16) {
    fn resolve(&self) -> Resolving {
        let (host, port) = *self;
        match host.parse::<IpAddr>() {
            Ok(ip) => Resolving::known((ip, port)),
            Err(_) => Resolving::lookup(format!("{host}:{port}"), (host.to_owned(), port)),
        }
    }
}

impl ToSocketAddrs for String {}

impl sealed::Resolve for String {
    fn resolve(&self) -> Resolving {
        self.as_str().resolve()
    }
}

impl ToSocketAddrs for (String, u16) {}

impl sealed::Resolve for (String, u16) {
    fn resolve(&self) -> Resolving {
        (self.0.as_str(), self.1).resolve()
    }
}
