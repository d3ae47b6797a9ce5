//! Signals from the system: [`ctrl_c`], and in [`unix`] the other signals that a program may listen to.

use std::io;

pub mod unix;

/// Waits for the next Ctrl-C (`SIGINT`).
///
/// From the first poll on, the signal does not end the process any more, even after this future has ended.
/// The caller decides what happens. A second call does not see a signal that comes between the two calls. A
/// [`unix::Signal`] that lives on also reports such a signal; several signals may be reported as one.
///
/// # Errors
/// The system's errors, or an error if the runtime was shut down meanwhile.
///
/// # Panics
/// Outside of a runtime, or if its I/O is not enabled: build it with `enable_io` or `enable_all`.
///
/// # Cancel safety
/// Safe, except that a signal that comes after the drop is missed.
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
