//! Fork-join on three pools. See [`benches::fork_join::loads`].
//!
//! `cargo bench -p benches --bench fork_join -- tree scope` runs the loads with one of these in their names.
//! `BENCH_PIN=1` keeps each worker on a CPU of its own: see [`benches::pin`].

use benches::arguments::is_test;
use benches::fork_join::contest::Contest;
use benches::fork_join::list;

fn main() {
    list::visit(&mut Contest::new(), is_test());
}
