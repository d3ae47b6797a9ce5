//! An echo server with 64 connections and 64 bytes a message; the client is a process of its own.

use benches::client::{self, Protocol};
use benches::network;
use benches::peer::Service;

fn main() {
    client::run_if_asked();
    network::compare("tcp_echo", (Service::serve_echo, Service::serve_echo), |addr, time| {
        client::measure(addr, Protocol::Echo, 64, time)
    });
}
