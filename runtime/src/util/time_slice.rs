//! Asking the kernel for short time slices.
//!
//! A worker mostly runs for some microseconds and sleeps again; when it computes, others wait for its CPU: the relief thread that is to
//! poll tasks in between, and whoever the tasks work for. The kernel lets a thread that runs finish its slice, some milliseconds, before
//! one that has been woken gets its turn. Slices are a matter of when, not of how much: nobody gets more of a CPU by them, nor less.
//!
//! Linux from 6.12 on takes a thread's word for it. Elsewhere, and where the system refuses, nothing happens. Threads and processes
//! that a worker starts have slices of the usual length again.

use std::mem::{size_of, zeroed};

/// Between two looks of a computation (`split.rs`) nobody has to wait.
const SLICE_NANOS: u64 = 100_000;

/// Has the calling thread run in short slices, if it has an ordinary policy.
pub fn shorten() {
    let Some(mut attributes) = read() else { return };
    if attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return;
    }
    attributes.sched_runtime = SLICE_NANOS;
    // It would also take from those that are started the priority above the usual one.
    if attributes.sched_nice >= 0 {
        attributes.sched_flags |= libc::SCHED_FLAG_RESET_ON_FORK as u64;
    }
    // SAFETY: the pointer is valid for a read of the size in its first field.
    // Refused, the thread has slices of the usual length.
    _ = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// What the calling thread has.
fn read() -> Option<libc::sched_attr> {
    // SAFETY: plain data, for which zero is a value.
    let mut attributes: libc::sched_attr = unsafe { zeroed() };
    let size = size_of::<libc::sched_attr>();
    // SAFETY: the pointer is valid for a write of `size` bytes.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    (result == 0).then_some(attributes)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// None where the kernel does not say (before 6.12, or forbidden).
    fn slice() -> Option<u64> {
        read().map(|attributes| attributes.sched_runtime).filter(|&nanos| nanos > 0)
    }

    #[test]
    fn a_thread_gets_short_slices_and_those_it_starts_do_not() {
        let of_both = || {
            let usual = slice();
            shorten();
            (usual, slice(), std::thread::spawn(slice).join().unwrap())
        };
        let (usual, own, of_other) = std::thread::spawn(of_both).join().unwrap();
        if usual.is_some() {
            assert_eq!(own, Some(SLICE_NANOS));
            assert_eq!(of_other, usual);
        }
    }
}
