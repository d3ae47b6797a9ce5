//! The queues in which work waits.
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
//! These carry tasks. (A runtime has a second injector, for slow tasks: `scheduler/away/slow.rs`.) Jobs lie
//! in a [`deque`] for each worker, in a [`ticket_queue`] for each FIFO scope, and in a [`locked_list`] if
//! they are rare. From an [`inbox`] one owner takes all items at once; its owner is a set of tasks, not a
//! worker.
//!
//! The queues carry pointers and do not follow them, except to the one link that [`Linked`] describes. An
//! item is in one queue at a time. A queue neither owns nor frees it: the pusher guarantees that the item
//! lives until it has been popped. The popper may then do with the item what the pusher could: an item may
//! stand for a right, and with the item the right goes through the queue ([`Linked`]).
//!
//! A worker looks in its own ring first, because that costs no shared cache line. Every so many ticks it
//! looks in the injector first, so that a busy ring cannot starve the injector. When both are empty, it looks
//! in the rings of other workers. In that way the items of a ring with a stuck owner get out, too.
//!
//! Read [`intrusive_list`] (a batch), [`injector`], [`local`], in this order.

pub mod deque;
pub mod inbox;
pub mod injector;
pub mod intrusive_list;
pub mod local;
pub mod locked_list;
pub mod ticket_queue;

pub use deque::{Deque, Taken};
pub use inbox::Inbox;
pub use injector::Injector;
pub use intrusive_list::{IntrusiveList, Linked, Next};
pub use local::Local;
pub use locked_list::LockedList;
pub use ticket_queue::TicketQueue;
