//! Foreign code that the calling thread may not run itself.

use std::io;
use std::panic::Location;

use super::blocking;
use super::reference::Reference;
use super::shared::Shared;
use crate::driver::foreign::ForeignWakes;

impl Shared {
    /// Calls `f` on a thread for blocking closures. After the shutdown has begun there is none, and `f` is
    /// dropped. The caller keeps the state valid.
    #[track_caller]
    pub fn call_elsewhere(&self, f: impl FnOnce() + Send + 'static) {
        let site = Location::caller();
        // SAFETY: (1) the caller keeps the state until this returns.
        let handle = unsafe { Reference::new(self.ptr()) };
        if !self.config.thread_name.is_made() {
            return drop(blocking::spawn_on(&handle, f, site));
        }
        // The function that makes the name of a new thread is foreign, too.
        _ = self.run_apart(move |_| drop(blocking::spawn_on(&handle, f, site)));
    }

    /// Has each of `wakes` called on a thread for blocking closures, so that none waits for another.
    #[cold]
    pub fn wake_elsewhere(&self, wakes: ForeignWakes) {
        for wake in wakes.split() {
            self.call_elsewhere(move || wake.wake_all());
        }
    }

    /// Runs `f` on a thread that is started for it. The end of the runtime waits for that thread. The caller
    /// keeps the state valid.
    ///
    /// # Errors
    /// The system's error if it refuses the thread. `f` was dropped by then.
    pub fn run_apart(&self, f: impl FnOnce(&Shared) + Send + 'static) -> io::Result<()> {
        // SAFETY: (1) the caller keeps the state until this returns.
        let handle = unsafe { Reference::new(self.ptr()) };
        let exit = self.lifecycle.exit();
        exit.enter();
        let main = {
            let exit = exit.clone();
            move || {
                f(handle.shared());
                drop(handle);
                exit.leave();
            }
        };
        self.config.start_helper(main).map(drop).inspect_err(|_| exit.leave())
    }
}
