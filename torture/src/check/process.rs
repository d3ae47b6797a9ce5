//! What the system knows of this process.

use std::fs;

/// Threads that live.
pub fn threads() -> usize {
    entries("/proc/self/task")
}

/// Open descriptors, including the descriptor that reads them.
pub fn descriptors() -> usize {
    entries("/proc/self/fd")
}

fn entries(folder: &str) -> usize {
    fs::read_dir(folder).map_or(0, Iterator::count)
}

/// One line for each thread of a process: name, state, CPU time, where it waits.
pub fn describe_threads(process: u32) -> Vec<String> {
    let folder = format!("/proc/{process}/task");
    let Ok(tasks) = fs::read_dir(folder) else { return Vec::new() };
    let mut lines = Vec::new();
    for task in tasks.flatten() {
        let read = |file| fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let comm = read("comm");
        let stat = read("stat");
        // Behind the name, which may hold anything: state is the first field, user and system time the 12th
        // and 13th.
        let fields: Vec<_> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        let field = |i: usize| fields.get(i).copied().unwrap_or("?");
        let call = read("syscall");
        let call = call.split_whitespace().next().unwrap_or("?").to_owned();
        let wchan = read("wchan");
        lines.push(format!(
            "thread {:<8} {:<16} state {} utime {} stime {} system call {:<4} wchan {}",
            task.file_name().to_string_lossy(),
            comm.trim(),
            field(0),
            field(11),
            field(12),
            name_of_call(&call),
            wchan.trim(),
        ));
    }
    lines.sort();
    lines
}

/// The names of the system calls that a thread of the runtime waits in.
fn name_of_call(number: &str) -> &str {
    let Ok(number) = number.parse::<i64>() else { return number };
    match number {
        libc::SYS_futex => "futex",
        #[cfg(target_arch = "x86_64")]
        libc::SYS_epoll_wait => "epoll_wait",
        libc::SYS_epoll_pwait => "epoll_pwait",
        libc::SYS_clock_nanosleep => "nanosleep",
        libc::SYS_read => "read",
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll => "poll",
        libc::SYS_ppoll => "ppoll",
        libc::SYS_sched_yield => "sched_yield",
        _ => "other",
    }
}

/// CPU time that a process has used, and time that its threads have waited for a CPU, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Run by all its threads.
    pub ran: u64,
    /// Waited, runnable, by all its threads. The system counts a wait when it is over.
    pub waited: u64,
    /// Whether a thread runs, or waits for a CPU or a disk, or the process was stopped.
    pub is_runnable: bool,
}

/// What the threads of `process` that live have used.
pub fn usage(process: u32) -> Usage {
    let mut usage = Usage::default();
    let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { return usage };
    for task in tasks.flatten() {
        let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        let mut numbers = text.split_whitespace().map(|n| n.parse::<u64>().unwrap_or(0));
        usage.ran += numbers.next().unwrap_or(0);
        usage.waited += numbers.next().unwrap_or(0);
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        usage.is_runnable |=
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['R', 'D', 'T']));
    }
    usage
}

/// Lets the calling thread, and the threads that it starts from now on, run on the first `cpus` CPUs that the
/// process may use.
pub fn pin(cpus: usize) {
    // SAFETY: a set of bits, all zeros is one; the calls are given its size, and the indices are within it.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut allowed) != 0 {
            return;
        }
        let mut chosen: libc::cpu_set_t = std::mem::zeroed();
        (0..libc::CPU_SETSIZE as usize)
            .filter(|&cpu| libc::CPU_ISSET(cpu, &allowed))
            .take(cpus)
            .for_each(|cpu| libc::CPU_SET(cpu, &mut chosen));
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &chosen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_and_a_file_are_counted() {
        let (threads_before, files_before) = (threads(), descriptors());
        let file = fs::File::open("/proc/self/stat").unwrap();
        let (send, receive) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || receive.recv());
        // Other tests start and end threads, too: it is one of them for certain only by its name.
        assert!(threads() > 1 && threads_before >= 1);
        assert!(descriptors() > 0 && files_before > 0);
        drop((send, file));
        _ = thread.join();
        let lines = describe_threads(std::process::id());
        assert!(lines.iter().all(|line| line.contains("state")), "{lines:?}");
        assert!(usage(std::process::id()).ran > 0);
    }
}
