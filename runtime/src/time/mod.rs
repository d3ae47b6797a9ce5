//! Waiting: until an instant, for a while, no longer than a while, and again and again.
//!
//! - [`sleep`] and [`sleep_until`] wait once. The [`Sleep`] that they return can be [reset](Sleep::reset).
//! - [`timeout`] and [`timeout_at`] give up waiting for another future.
//! - [`interval`] and [`interval_at`] tick.
//! - [`pause`], [`advance`] and [`resume`] let a test decide what time it is; [`Instant`] follows.
//!
//! Timers count eighths of a millisecond, or whole milliseconds once the clock has been paused. They never
//! fire early. Rounding makes them less than one such unit late. They are later if the task's worker is busy,
//! or if several timers [share a wake](sleep()). Making and dropping a timer takes no allocation and no lock
//! that another worker uses.
//!
//! All of them need a runtime with time enabled, and panic without one.
//!
//! # Examples
//! ```
//! use runtime::time::{Duration, sleep, timeout};
//! # runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
//! let slow = async {
//!     sleep(Duration::from_secs(60)).await;
//!     "done"
//! };
//! assert!(timeout(Duration::from_secs(1), slow).await.is_err());
//! # });
//! ```

mod clock;
pub mod error;
mod instant;
mod interval;
mod sleep;
mod timeout;

pub use std::time::Duration;

pub use clock::{advance, pause, resume};
pub use instant::Instant;
pub use interval::{Interval, MissedTickBehavior, interval, interval_at};
pub use sleep::{Sleep, sleep, sleep_until};
pub use timeout::{Timeout, timeout, timeout_at};
