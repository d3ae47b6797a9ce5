//! What a client reaches its server by.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net as std_unix;
use std::str::FromStr;

use mio::net::{TcpStream, UdpSocket, UnixStream};
use mio::{Interest, Poll, Token};

/// Where a server is; one word, when it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP listener.
    Tcp(SocketAddr),
    /// A UDP socket.
    Udp(SocketAddr),
    /// A listener for Unix streams, with a name in the abstract namespace.
    Unix(String),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(addr) => write!(f, "tcp:{addr}"),
            Self::Udp(addr) => write!(f, "udp:{addr}"),
            Self::Unix(name) => write!(f, "unix:{name}"),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no address");
        match text.split_once(':').ok_or_else(bad)? {
            ("tcp", addr) => addr.parse().map(Self::Tcp).map_err(|_| bad()),
            ("udp", addr) => addr.parse().map(Self::Udp).map_err(|_| bad()),
            ("unix", name) => Ok(Self::Unix(name.to_owned())),
            _ => Err(bad()),
        }
    }
}

/// The abstract address of this name.
pub fn unix_address(name: &str) -> io::Result<std_unix::SocketAddr> {
    std_unix::SocketAddr::from_abstract_name(name)
}

/// The client's end of a connection. A UDP socket counts as connected to its server.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Udp(UdpSocket),
    Unix(UnixStream),
}

impl Socket {
    /// Connects, and has `poll` tell what there is to read.
    pub(crate) fn open(addr: &Address, poll: &Poll, token: Token) -> io::Result<Self> {
        let (registry, readable) = (poll.registry(), Interest::READABLE);
        match addr {
            Address::Tcp(addr) => {
                let stream = std::net::TcpStream::connect(addr)?;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                let mut stream = TcpStream::from_std(stream);
                registry.register(&mut stream, token, readable)?;
                Ok(Self::Tcp(stream))
            }
            Address::Udp(addr) => {
                let mut socket = UdpSocket::bind((addr.ip(), 0).into())?;
                socket.connect(*addr)?;
                registry.register(&mut socket, token, readable)?;
                Ok(Self::Udp(socket))
            }
            Address::Unix(name) => {
                let stream = std_unix::UnixStream::connect_addr(&unix_address(name)?)?;
                stream.set_nonblocking(true)?;
                let mut stream = UnixStream::from_std(stream);
                registry.register(&mut stream, token, readable)?;
                Ok(Self::Unix(stream))
            }
        }
    }

    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Udp(socket) => socket.recv(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Udp(socket) => socket.send(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_the_same_there_and_back() {
        for text in ["tcp:127.0.0.1:80", "udp:[::1]:9", "unix:name:with:colons"] {
            assert_eq!(text.parse::<Address>().expect("it is one").to_string(), text);
        }
        assert!("sctp:127.0.0.1:80".parse::<Address>().is_err());
    }
}
