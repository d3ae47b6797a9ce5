//! Every model, run by `cargo loom`; without `--cfg loom` there is nothing here.
//!
//! A model states a property of one protocol and explores all schedules within its bounds, and all values
//! that the memory model lets a load return. Beside it stand twins: small copies of the protocol with one bug
//! put back, which the same model must refuse. A twin without a bug must pass, or the others prove nothing.
//!
//! A twin expects what the model says of the property that its bug breaks. A limit of loom's, or a panic in
//! the set-up, is never a pass. Loom's own texts do not say which memory they mean. So plain memory has a
//! name (`plain.rs`), and a twin names the freed memory that it touches (`poison.rs`).
//!
//! `LOOM_MAX_PREEMPTIONS` is 2 by default (`.cargo/config.toml`).
#![cfg(loom)]

mod models {
    mod barrier;
    mod behind;
    mod block_on;
    mod blocking;
    mod blocking_pool;
    mod broadcast;
    mod byte_lock;
    mod capacity;
    mod closing;
    mod count;
    mod current_thread;
    mod deque;
    mod duplex;
    mod external;
    mod flag;
    mod foreign;
    mod grant;
    mod idle;
    mod idle_jobs;
    mod inbox;
    mod injector;
    mod item;
    mod join_set;
    mod latch;
    mod lifo;
    mod local_set;
    mod marks;
    mod monitor;
    mod mpsc;
    mod notify;
    mod once;
    mod once_built;
    mod oneshot;
    mod owned;
    mod park;
    mod paused_clock;
    mod plain;
    mod poison;
    mod readiness;
    mod reserved;
    mod ring;
    mod rwlock;
    mod sampler;
    mod semaphore;
    mod shutdown;
    mod spare;
    mod stacks;
    mod stage;
    mod stdio;
    mod task;
    mod task_state;
    mod theft;
    mod ticket_queue;
    mod timer;
    mod wait;
    mod watch;
    mod yields;

    #[global_allocator]
    static ALLOCATOR: poison::Poison = poison::Poison::new();
}
