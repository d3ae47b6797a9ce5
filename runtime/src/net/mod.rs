//! TCP, and names to addresses.
//!
//! - [`TcpListener`] accepts, [`TcpStream`] connects; [`TcpSocket] sets options before either.
//! - [`lookup_host`] resolves names, [`ToSocketAddrs`] is what the functions here take as an address.
//!
//! Names and meaning are Tokio's. Errors that concern an address name it: `connect 127.0.0.1:1: Connection refused`.
//! Such an error keeps its [`kind`](std::io::Error::kind); what the system reported, with its
//! [`raw_os_error`](std::io::Error::raw_os_error), is its [`source`](std::error::Error::source):
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
//! UDP, Unix sockets and what else has a descriptor are to be built on the same `io/registered.rs`.

mod addr;
mod addr_error;
pub mod tcp;

pub use addr::{ToSocketAddrs, lookup_host};
pub use tcp::listener::{Incoming, TcpListener};
pub use tcp::socket::TcpSocket;
pub use tcp::stream::TcpStream;
