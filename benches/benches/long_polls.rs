//! Tasks whose polls are long, and how late the others are. See [`benches::long_polls`].

fn main() {
    benches::long_polls::compare();
}
