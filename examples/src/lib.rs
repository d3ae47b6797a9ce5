//! Example programs: see the `examples` folder beside this one.
//!
//! | program | shows |
//! |---|---|
//! | `server` | an HTTP/1.1 server with hyper: routes, timers, blocking work, a cancellable computation, metrics, a graceful end |
//! | `echo` | the smallest useful network program |
//! | `parallel_sort` | fork-join: quicksort on all workers, and the times |
//! | `cancel` | a computation that ends because its handle is dropped |
//! | `embed` | a runtime inside a program that has threads of its own |
//!
//! `cargo run --release --example server` runs the first.
