//! What the process has used so far.

use std::time::Duration;

/// CPU time and context switches of all threads of this process.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// User and system time.
    pub cpu: Duration,
    /// Times that a thread went to sleep by itself.
    pub voluntary_switches: i64,
}

impl Usage {
    /// The usage up to now.
    pub fn now() -> Self {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: the pointer is valid for a write of one `rusage`.
        let result = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
        assert_eq!(result, 0, "getrusage knows RUSAGE_SELF");
        // SAFETY: the call above succeeded, so it wrote the whole of it.
        let usage = unsafe { usage.assume_init() };
        let time = |time: libc::timeval| {
            Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
        };
        Self { cpu: time(usage.ru_utime) + time(usage.ru_stime), voluntary_switches: usage.ru_nvcsw }
    }

    /// What was used since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            cpu: self.cpu - earlier.cpu,
            voluntary_switches: self.voluntary_switches - earlier.voluntary_switches,
        }
    }
}

/// The resident memory of this process in bytes.
pub fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux tells a process its memory");
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    // SAFETY: `sysconf` reads no memory of ours.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    pages.expect("the second number is the resident pages")
        * usize::try_from(page).expect("a page has a size")
}
