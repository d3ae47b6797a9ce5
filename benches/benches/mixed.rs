//! An echo server that computes at the same time. See [`benches::mixed`].
//!
//! `cargo bench -p benches --bench mixed -- light` runs one of the three loads.

fn main() {
    benches::client::run_if_asked();
    benches::mixed::compare();
}
