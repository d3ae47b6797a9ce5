//! Stacks that are used again.
//!
//! loom gives each thread of each schedule a stack, by `mmap`, and unmaps it afterwards. Half of the time of
//! a model went there. So the models have an `mmap` and a `munmap` of their own, which come before those of
//! the C library: a stack that is given back is overwritten and kept, and handed out again with its guard
//! page.

use std::ffi::{c_int, c_void};
use std::sync::Mutex;

use libc::{MAP_FAILED, MAP_STACK, SYS_mmap, SYS_munmap, off_t, size_t, syscall};

use super::poison::FREED;

/// At least as large as a guard page.
const GUARD: usize = 1 << 12;

/// A stack by its address and length.
#[derive(Clone, Copy, PartialEq)]
struct Stack(usize, size_t);

struct Stacks {
    used: Vec<Stack>,
    free: Vec<Stack>,
}

static STACKS: Mutex<Stacks> = Mutex::new(Stacks { used: Vec::new(), free: Vec::new() });

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn mmap(
    address: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: off_t,
) -> *mut c_void {
    let is_stack = address.is_null() && flags & MAP_STACK != 0;
    if is_stack {
        let mut stacks = STACKS.lock().unwrap();
        if let Some(place) = stacks.free.iter().position(|stack| stack.1 == length) {
            let stack = stacks.free.swap_remove(place);
            stacks.used.push(stack);
            return std::ptr::with_exposed_provenance_mut(stack.0);
        }
    }
    // SAFETY: the caller guarantees what the C library asks for, and the system call asks for the same.
    let mapped = unsafe { syscall(SYS_mmap, address, length, protection, flags, file, offset) } as usize;
    let mapped = std::ptr::with_exposed_provenance_mut(mapped);
    if is_stack && mapped != MAP_FAILED {
        STACKS.lock().unwrap().used.push(Stack(mapped.expose_provenance(), length));
    }
    mapped
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(address: *mut c_void, length: size_t) -> c_int {
    {
        let mut stacks = STACKS.lock().unwrap();
        let given_back = Stack(address.addr(), length);
        if let Some(place) = stacks.used.iter().position(|&stack| stack == given_back) {
            stacks.used.swap_remove(place);
            // SAFETY: the caller does not use it any more, and no other thread has it before it is pushed.
            unsafe { address.cast::<u8>().add(GUARD).write_bytes(FREED, length - GUARD) };
            stacks.free.push(given_back);
            return 0;
        }
    }
    // SAFETY: as in `mmap`.
    unsafe { syscall(SYS_munmap, address, length) as c_int }
}
