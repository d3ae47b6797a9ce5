//! The functions of the user that a runtime calls, and the names of its threads.

use std::io;
use std::sync::Arc;

use super::stall::Stall;
use crate::util::unwind;

pub type Hook = Arc<dyn Fn() + Send + Sync>;

/// Called with a stuck worker.
pub type StallHook = Arc<dyn Fn(&Stall) + Send + Sync>;

/// Called with the index of a pool's thread.
pub type IndexedHook = Arc<dyn Fn(usize) + Send + Sync>;

/// Called with the panic of a detached job.
pub type PanicHandler = Arc<dyn Fn(unwind::Payload) + Send + Sync>;

/// How the runtime's threads are named.
#[derive(Clone)]
pub enum ThreadName {
    Fixed(String),
    /// Called for each thread.
    Made(Arc<dyn Fn() -> String + Send + Sync>),
}

impl ThreadName {
    /// Whether foreign code makes the names.
    pub fn is_made(&self) -> bool {
        matches!(self, Self::Made(_))
    }

    /// The name of the next thread.
    pub fn next(&self) -> io::Result<String> {
        let name = match self {
            Self::Fixed(name) => name.clone(),
            Self::Made(f) => unwind::catch(|| f()).map_err(|payload| {
                unwind::drop_quietly(payload);
                io::Error::other("the function of thread_name_fn panicked")
            })?,
        };
        // With NUL in the name, `std::thread` would panic.
        match name.contains('\0') {
            true => Err(invalid(format!("thread_name must not contain NUL, got {name:?}"))),
            false => Ok(name),
        }
    }
}

/// Functions of the user, which are called at points in a thread's life. The panic hook reports a panic in
/// one of them, and then the panic is swallowed.
#[derive(Clone, Default)]
pub struct Hooks {
    pub thread_start: Option<Hook>,
    pub thread_stop: Option<Hook>,
    pub thread_park: Option<Hook>,
    pub thread_unpark: Option<Hook>,
    pub stall: Option<StallHook>,
}

impl Hooks {
    pub fn on_thread_start(&self) {
        call(&self.thread_start);
    }

    pub fn on_thread_stop(&self) {
        call(&self.thread_stop);
    }

    pub fn has_park(&self) -> bool {
        self.thread_park.is_some()
    }

    pub fn has_unpark(&self) -> bool {
        self.thread_unpark.is_some()
    }

    pub fn has_stall(&self) -> bool {
        self.stall.is_some()
    }

    pub fn on_park(&self) {
        call(&self.thread_park);
    }

    pub fn on_unpark(&self) {
        call(&self.thread_unpark);
    }

    /// Runs on a blocking thread.
    #[allow(dead_code)]
    pub fn on_stall(&self, stall: &Stall) {
        if let Some(hook) = &self.stall {
            unwind::drop_quietly(unwind::catch(|| hook(stall)));
        }
    }
}

fn call(hook: &Option<Hook>) {
    if let Some(hook) = hook {
        unwind::drop_quietly(unwind::catch(|| hook()));
    }
}

/// The error for a setting that is out of its bounds.
pub fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
