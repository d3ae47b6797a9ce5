//! How late a ticker is beside a task that is always ready. See [`benches::fairness`].

fn main() {
    benches::fairness::compare();
}
