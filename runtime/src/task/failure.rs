//! Why a task has no output.

use std::io;
use std::sync::Arc;

use crate::util::unwind::{Cancelled, Payload};

/// The reason why a task has no output, as the cell keeps it: without the id, which is in the header.
pub enum Failure {
    Cancelled,
    /// The system refused a thread for a blocking closure, for this reason.
    Refused(Arc<io::Error>),
    Panic(Payload),
}

impl Failure {
    /// The reason why a future unwound: a panic, or the cancellation of a computation.
    pub(super) fn of_unwinding(payload: Payload) -> Self {
        match payload.is::<Cancelled>() {
            true => Self::Cancelled,
            false => Self::Panic(payload),
        }
    }
}
