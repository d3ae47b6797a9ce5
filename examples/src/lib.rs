//! Example programs: see the `examples` folder beside this one.
//!
//! | program | shows |
//! |---|---|
//! | `server` | an HTTP/1.1 server with hyper: timers, blocking work, computation, metrics, a graceful end |
//! | `echo` | the smallest useful network program |
//! | `chat` | the server of the book's tutorial: messages to all, a computation, a stall, a graceful end |
//! | `graceful_shutdown` | a server that stops without cutting off an answer |
//! | `channels` | mpsc, oneshot, broadcast, watch: which one for what |
//! | `select` | the first of several things: `select!`, time-outs, intervals, batches |
//! | `worker_pool` | many jobs, of which only a few run at once: a `JoinSet` with a `Semaphore` |
//! | `stalls` | tasks that block: what the others notice, and what the hook is told |
//! | `parallel_sort` | fork-join: quicksort on all workers, and the times |
//! | `cancel` | a computation that ends because its handle is dropped |
//! | `embed` | a runtime inside a program that has threads of its own |
//!
//! `cargo run --release --example server` runs the first.
