//! Keeps threads on CPUs: where a set-up says so, and those of `fork_join` if `BENCH_PIN` is set.
//!
//! On a machine of few CPUs the kernel likes to put a woken thread beside the thread that woke it, and leaves
//! both there for a while. A pool of two then runs on one CPU in some rounds and on two in others, and a load
//! that shares tiny pieces differs sixfold between them. Pinned, every pool has two.

use std::sync::LazyLock;

static IS_ASKED_FOR: LazyLock<bool> = LazyLock::new(|| std::env::var_os("BENCH_PIN").is_some());

/// The CPUs that the program may use.
static PROCESSORS: LazyLock<Vec<usize>> = LazyLock::new(|| {
    let mut set = no_processors();
    // SAFETY: the pointer is valid for a write of the size given.
    let result = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) };
    assert_eq!(result, 0, "a thread may ask where it may run");
    // SAFETY: the indices are within the set.
    (0..libc::CPU_SETSIZE as usize).filter(|&index| unsafe { libc::CPU_ISSET(index, &set) }).collect()
});

/// Keeps this thread, and the threads that it starts, on the `index`th CPU, counted in a circle, if
/// `BENCH_PIN` is set.
pub fn pin(index: usize) {
    if *IS_ASKED_FOR {
        keep_on(index);
    }
}

/// Lets this thread run everywhere again, if `BENCH_PIN` is set.
pub fn unpin() {
    if *IS_ASKED_FOR {
        allow_all();
    }
}

/// How many CPUs the program may use. To be asked first on a thread that is not kept on one.
pub fn processors() -> usize {
    PROCESSORS.len()
}

/// As [`pin`], always.
pub fn keep_on(index: usize) {
    allow(&[PROCESSORS[index % PROCESSORS.len()]]);
}

/// As [`unpin`], always.
pub fn allow_all() {
    allow(&PROCESSORS);
}

fn allow(processors: &[usize]) {
    let mut set = no_processors();
    for &index in processors {
        // SAFETY: the index came out of such a set.
        unsafe { libc::CPU_SET(index, &mut set) };
    }
    // SAFETY: the pointer is valid for a read of the size given.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) };
    assert_eq!(result, 0, "a thread may stay where it was allowed to run");
}

fn no_processors() -> libc::cpu_set_t {
    // SAFETY: a set of bits, for which zero is a value.
    unsafe { std::mem::zeroed() }
}
