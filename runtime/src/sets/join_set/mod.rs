//! Sets of tasks that are awaited together: `set.rs` is the set, `entries.rs` its tasks, `builder.rs` spawns
//! into it with a name.

mod builder;
mod entries;
mod set;

pub use self::builder::Builder;
pub use self::set::JoinSet;
