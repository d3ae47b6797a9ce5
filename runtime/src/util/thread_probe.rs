//! Says whether another thread of this process computes, sleeps in the system, or waits for a CPU.

use std::fs;
use std::time::Duration;

/// A thread, by the number that the system gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadProbe(i32);

impl ThreadProbe {
    /// The calling thread.
    pub fn current() -> Self {
        // SAFETY: no preconditions.
        Self(unsafe { libc::gettid() })
    }

    /// The thread's number, to be stored.
    pub fn to_raw(self) -> i32 {
        self.0
    }

    /// The thread with a number of [`to_raw`](Self::to_raw).
    pub fn from_raw(raw: i32) -> Self {
        Self(raw)
    }

    /// The CPU time that the thread has had. `None` if it has ended.
    pub fn cpu_time(self) -> Option<Duration> {
        // Linux names the clock of a thread by the thread's inverted number above the kind of clock. The kind
        // is the scheduler's time of one thread.
        let clock = !self.0 << 3 | 0b110;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes to `time`, which is ours.
        let result = unsafe { libc::clock_gettime(clock, &mut time) };
        (result == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }

    /// Whether the thread runs or could run. False if it sleeps, or has ended.
    pub fn is_runnable(self) -> bool {
        let stat = fs::read_to_string(format!("/proc/self/task/{}/stat", self.0)).unwrap_or_default();
        // The state follows the name. The name is in parentheses and may hold parentheses.
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('R'))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_thread_that_computes_runs_and_gets_time() {
        let probe = ThreadProbe::current();
        let before = probe.cpu_time().unwrap();
        while probe.cpu_time().unwrap() == before {
            std::hint::spin_loop();
        }
        assert!(probe.is_runnable());
        assert_eq!(ThreadProbe::from_raw(probe.to_raw()), probe);
    }

    #[test]
    fn a_thread_that_sleeps_or_has_ended_does_not_run() {
        let (sender, probes) = mpsc::channel();
        let (end, wait) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            sender.send(ThreadProbe::current()).unwrap();
            _ = wait.recv();
        });
        let probe = probes.recv().unwrap();
        while probe.is_runnable() {
            std::thread::yield_now();
        }
        assert!(probe.cpu_time().is_some());
        drop(end);
        thread.join().unwrap();
        while probe.cpu_time().is_some() {
            std::thread::yield_now();
        }
        assert!(!probe.is_runnable());
    }
}
