//! Tasks that hold their threads, and how late the others are. See [`benches::stall`].
//!
//! `cargo bench -p benches --bench stall -- lifo driver` runs the programs with one of these in their names.

fn main() {
    benches::stall::compare();
}
