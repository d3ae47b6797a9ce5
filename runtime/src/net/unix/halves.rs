//! The halves of a Unix stream.

use super::SocketAddr;
use super::example::setup;
use super::stream::UnixStream;
use crate::net::face::halves::halves;

halves!(UnixStream, SocketAddr, setup!());
