//! Building a runtime.
//!
//! - `settings.rs`: the builder, and the settings of threads and tasks.
//! - `driver.rs`: the settings of I/O and time.
//! - `hooks.rs`: the closures that the runtime calls.
//! - `build.rs`: checks the settings, and starts the threads.

mod build;
mod driver;
mod hooks;
mod settings;

pub use self::build::{MAX_WORKERS, available_cpus};
pub use self::settings::{Builder, MAX_SPARE_WORKERS};
