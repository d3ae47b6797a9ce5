//! TCP, UDP, Unix sockets, pipes, and names to addresses.
//!
//! - [`TcpListener`] accepts, and [`TcpStream`] connects. [`TcpSocket`] sets options before either.
//! - [`UdpSocket`] sends and receives datagrams.
//! - [`UnixListener`], [`UnixStream`], [`UnixDatagram`], [`UnixSocket`]: the same between processes of one
//!   machine. [`unix::pipe`] has pipes.
//! - [`lookup_host`] resolves names. The functions here take any [`ToSocketAddrs`] as an address.
//!
//! Names and meaning are Tokio's. Errors that concern an address name it: `connect 127.0.0.1:1: Connection
//! refused`. Such an error keeps its [`kind`](std::io::Error::kind). Its
//! [`source`](std::error::Error::source) is the error that the system reported, with its
//! [`raw_os_error`](std::io::Error::raw_os_error):
//! ```
//! # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use std::{error::Error, io};
//!
//! let error = runtime::net::TcpStream::connect("127.0.0.1:1").await.unwrap_err();
//! assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
//! assert!(error.to_string().starts_with("connect 127.0.0.1:1: "));
//! let reported = error.source().and_then(|source| source.downcast_ref::<io::Error>()).unwrap();
//! assert_eq!(reported.raw_os_error(), Some(111));
//! # });
//! ```
//! With the feature `raw-os-errors` such an error stays as the system reports it.
//
// For readers of the code: each type is a thin layer over a `Registered` of `io/registered`. `face` has the
// methods that several types have.

mod addr;
pub(crate) mod face;
pub mod tcp;
mod udp;
pub mod unix;

pub use addr::{ToSocketAddrs, lookup_host};
pub use tcp::listener::{Incoming, TcpListener};
pub use tcp::socket::TcpSocket;
pub use tcp::stream::TcpStream;
pub use udp::UdpSocket;
pub use unix::datagram::UnixDatagram;
pub use unix::listener::UnixListener;
pub use unix::socket::UnixSocket;
pub use unix::stream::UnixStream;
