//! Asking the kernel for time slices of another length.
//!
//! A slice decides when a thread runs, not how much: no thread gets more or less of a CPU by it. From Linux
//! 6.12 on a thread may ask for the length of its slices. The length decides what happens when the thread is
//! woken on a CPU where another thread runs. If the woken thread has asked for shorter slices, it gets its
//! turn at once. Otherwise the running thread may finish its slice, and the kernel looks again only at a
//! tick, up to 4 ms later.
//!
//! On other kernels, and where the system refuses, nothing happens. Threads and processes that are started by
//! a thread with another slice have the usual slice again, unless that thread is above the usual priority
//! (see [`ask`]). The price: the system never lets an unprivileged thread take the flag back that does this
//! (`SCHED_RESET_ON_FORK`), and refuses a later change of its policy that does not set the flag, too.

use std::mem::{size_of, zeroed};

/// For a thread that runs for some microseconds at a time, and needs its turn at once, whatever else runs.
pub const SHORT_NANOS: u64 = 100_000;

/// For a computation, which any other thread may interrupt. It is longer than the slice of threads that do
/// not ask.
pub const LONG_NANOS: u64 = 10_000_000;

/// The slice of threads that do not ask.
pub const USUAL: u64 = 0;

/// Asks for slices of `nanos` nanoseconds for the calling thread, if it has an ordinary policy.
pub fn ask(nanos: u64) {
    let Some(mut attributes) = read() else { return };
    // Kernels without slices to ask for say zero, and would take the flag below all the same.
    if attributes.sched_policy != libc::SCHED_OTHER as u32 || attributes.sched_runtime == 0 {
        return;
    }
    attributes.sched_runtime = nanos;
    // For a thread above the usual priority, the flag would also take that priority from the threads that it
    // starts.
    if attributes.sched_nice >= 0 {
        attributes.sched_flags |= libc::SCHED_FLAG_RESET_ON_FORK as u64;
    }
    // If the system refuses, the thread keeps its slices.
    // SAFETY: the pointer is valid for a read of the size in its first field.
    _ = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// The calling thread's attributes.
fn read() -> Option<libc::sched_attr> {
    // SAFETY: the type is plain data, for which zero is a value.
    let mut attributes: libc::sched_attr = unsafe { zeroed() };
    let size = size_of::<libc::sched_attr>();
    // SAFETY: the pointer is valid for a write of `size` bytes.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    (result == 0).then_some(attributes)
}

/// The calling thread's slice. `None` where the kernel does not say (before 6.12, or forbidden).
#[cfg(test)]
pub fn current_nanos() -> Option<u64> {
    read().map(|attributes| attributes.sched_runtime).filter(|&nanos| nanos > 0)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gets_short_slices_and_those_it_starts_do_not() {
        let of_both = || {
            let usual = current_nanos();
            ask(SHORT_NANOS);
            (usual, current_nanos(), std::thread::spawn(current_nanos).join().unwrap())
        };
        let (usual, own, of_other) = std::thread::spawn(of_both).join().unwrap();
        if usual.is_some() {
            assert_eq!(own, Some(SHORT_NANOS));
        }
        // A thread above the usual priority passes its slice on; see `ask`.
        if usual.is_some() && read().is_some_and(|attributes| attributes.sched_nice >= 0) {
            assert_eq!(of_other, usual);
        }
    }
}
