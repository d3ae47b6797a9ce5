//! `Hello, World!` by hyper with 50 connections. The client is `wrk -t1 -c50` if it is installed, else our
//! own.

use benches::peer::Service;
use benches::{client, network, wrk};

fn main() {
    client::run_if_asked();
    network::compare("http_hello", (Service::serve_http, Service::serve_http), wrk::measure);
}
