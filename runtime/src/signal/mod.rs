//! Signals from the system: [`ctrl_c`], and every Unix signal in [`unix`].

use std::io;

pub mod unix;

/// Waits for the next Ctrl-C (`SIGINT`).
///
/// From its first poll on, the process no longer ends by that signal, also after this future has ended: the
/// caller decides what happens. A signal that comes between two calls is not seen by the second; a
/// [`unix::Signal`] that lives on misses none.
///
/// # Errors
/// Those of the system, or if the runtime was shut down meanwhile.
///
/// # Panics
/// Outside of a runtime, or if its I/O is not enabled: build it with `enable_io` or `enable_all`.
///
/// # Cancel safety
/// Safe, but for a signal that comes after it was dropped.
///
/// # Examples
/// ```no_run
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// runtime::signal::ctrl_c().await?;
/// println!("good bye");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub async fn ctrl_c() -> io::Result<()> {
    let mut interrupts = unix::signal(unix::SignalKind::interrupt())?;
    interrupts.recv().await.ok_or_else(crate::driver::io::shut_down_error)
}
