//! Runtimes: [`Builder`] makes a runtime, [`Runtime`] owns it, and [`Handle`] gives a way in.

pub(crate) mod builder;
pub(crate) mod handle;
mod metrics;
pub(crate) mod spawn;
mod thread;
mod value;

pub use self::builder::Builder;
pub use self::handle::{EnterGuard, Handle, Id, TryCurrentError};
pub use self::metrics::{BlockingSite, RuntimeMetrics};
pub use self::thread::{is_rt_shutdown_err, worker_index};
pub use self::value::Runtime;
pub use crate::config::Stall;
pub use crate::config::observer::TaskMeta;
pub use crate::config::{Flavor as RuntimeFlavor, RngSeed, UnhandledPanic};
pub use crate::config::{
    HistogramConfiguration, InvalidHistogramConfiguration, LogHistogram, LogHistogramBuilder,
};
pub use crate::scheduler::unfinished::{Unfinished, UnfinishedKind, UnfinishedTask};
pub use crate::sets::{LocalOptions, LocalRuntime};
