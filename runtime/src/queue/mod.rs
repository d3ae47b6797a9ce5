//! Where work waits.
//!
//! ```text
//!            worker, in a task                      any thread
//!                   │ push_back                         │ push, push_batch
//!                   ▼           overflow of half        ▼
//!            Local: one a worker ──────────────▶ Injector: one a runtime
//!           │ pop       │ steal_into                    │ pop, pop_batch_into
//!           ▼           ▼                               ▼
//!         owner    another worker                   any worker
//! ```
//! Beside these is [`inbox`], out of which one owner takes all at once: a set of tasks, not a worker.
//!
//! The queues carry pointers and know nothing of what these point to, except where in it the one link is that
//! the injector needs ([`Linked`]). An item is in one queue at a time, and a queue neither owns nor frees it:
//! the pusher vouches that it lives until it has been popped, and the popper may do with it what the pusher
//! could.
//!
//! A worker looks in its own ring first, for that costs no shared line; every so many ticks in the injector
//! first, so that a busy ring cannot starve it; and in the rings of others when both are empty, which is also
//! the way out for the items of a ring with a stuck owner.
//!
//! Read [`chain`] (a batch), [`injector`], [`local`], in this order.

pub mod chain;
pub mod deque;
pub mod inbox;
pub mod injector;
pub mod line;
pub mod local;
pub mod shelf;

pub use chain::{Chain, Linked, Next};
pub use deque::{Deque, Taken};
pub use inbox::Inbox;
pub use injector::Injector;
pub use line::Line;
pub use local::Local;
pub use shelf::Shelf;
