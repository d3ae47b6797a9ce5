//! A database in the process of a service, and how late the service is. See [`benches::queries`].

fn main() {
    benches::client::run_if_asked();
    benches::queries::compare();
}
