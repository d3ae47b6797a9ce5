//! Requests of which some compute, and how late the others are. See [`benches::heavy_requests`].

fn main() {
    benches::heavy_requests::compare();
}
