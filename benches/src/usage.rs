//! What the process has used so far, and what others have.

use std::time::{Duration, Instant};

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
        Self::of(libc::RUSAGE_SELF)
    }

    /// The usage of the processes that this one has started and waited for.
    pub fn of_children() -> Self {
        Self::of(libc::RUSAGE_CHILDREN)
    }

    fn of(whom: i32) -> Self {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: the pointer is valid for a write of one `rusage`.
        let result = unsafe { libc::getrusage(whom, usage.as_mut_ptr()) };
        assert_eq!(result, 0, "getrusage knows RUSAGE_SELF and RUSAGE_CHILDREN");
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

/// The rest of the machine, watched for a time: a number that was measured beside other work is worth less.
#[derive(Clone, Copy, Debug)]
pub struct Others {
    since: Instant,
    cpu: Duration,
}

impl Others {
    /// Begins to watch.
    pub fn watch() -> Self {
        Self { since: Instant::now(), cpu: Self::cpu() }
    }

    /// How many cores other processes and the host have had in the meantime, on average. After a second it is
    /// good to a few hundredths.
    pub fn cores(&self) -> f64 {
        Self::cpu().saturating_sub(self.cpu).as_secs_f64() / self.since.elapsed().as_secs_f64()
    }

    /// CPU time of all processes, and what the host took away, without this process and the children that it
    /// has waited for.
    fn cpu() -> Duration {
        let stat = std::fs::read_to_string("/proc/stat").expect("Linux tells what the machine did");
        let numbers: Vec<u64> =
            stat.lines().next().into_iter().flat_map(str::split_whitespace).flat_map(str::parse).collect();
        // user, nice, system, idle, waiting, interrupts, soft interrupts, stolen, in hundredths of a second.
        // The two that follow are contained in the first two.
        let busy: u64 = [0, 1, 2, 5, 6, 7].iter().filter_map(|&index| numbers.get(index)).sum();
        Duration::from_millis(10 * busy).saturating_sub(Usage::now().cpu + Usage::of_children().cpu)
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
