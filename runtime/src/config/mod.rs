//! The settings of a runtime, and what its hooks get. This module uses nothing of the scheduler.

mod deadlock;
pub mod histogram;
pub mod hooks;
mod kinds;
pub mod observer;
pub mod settings;
mod stall;

pub use self::deadlock::{Blocked, Deadlock, DeadlockHandler};
pub use self::histogram::{
    HistogramConfiguration, InvalidHistogramConfiguration, LogHistogram, LogHistogramBuilder,
};
pub use self::hooks::{IndexedHook, PanicHandler};
pub use self::kinds::{Flavor, RngSeed, UnhandledPanic};
pub use self::observer::{Observer, TaskMeta};
pub use self::settings::Config;
pub use self::stall::Stall;
