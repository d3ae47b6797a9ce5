//! A cheap answer to the question whether a CPU of the machine is idle.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use crate::loom::ASKS_THE_SYSTEM;

/// The file in which Linux says how many threads run or wait for a CPU: the 2 in `0.20 0.18 0.12 2/80 11206`.
const LOAD: &str = "/proc/loadavg";

/// The largest number of CPUs for which the system is asked. It adds up a number of each CPU.
const MOST_CPUS: usize = 64;

/// The knowledge about the machine's CPUs.
///
/// It does not know which CPUs this process may use. The system counts the threads of the whole machine, so
/// this counts all CPUs of the machine, too. A process that is confined to a few CPUs of a machine with idle
/// CPUs is told that there is room.
#[derive(Debug)]
pub struct Crowd {
    /// [`LOAD`], opened at the first look. `None` if the system has no such file, or the machine has too many
    /// CPUs.
    load: OnceLock<Option<File>>,
    /// The number of CPUs that are switched on. Only tests change it.
    cpus: AtomicUsize,
}

impl Crowd {
    pub fn new() -> Self {
        // SAFETY: the call touches no memory of ours.
        let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        Self { load: OnceLock::new(), cpus: AtomicUsize::new(usize::try_from(cpus).unwrap_or(usize::MAX)) }
    }

    /// Whether fewer threads want to run than there are CPUs. The calling thread counts as one of them. True
    /// if the system does not say.
    ///
    /// One system call, which takes half a microsecond on a small machine.
    pub fn has_room(&self) -> bool {
        self.compare(|runnable, cpus| runnable < cpus).unwrap_or(true)
    }

    /// Whether more threads want to run than there are CPUs. The calling thread counts as one of them. False
    /// if the system does not say.
    ///
    /// The same cost as [`has_room`](Self::has_room).
    pub fn is_overrun(&self) -> bool {
        self.compare(|runnable, cpus| runnable > cpus).unwrap_or(false)
    }

    /// Compares how many threads want to run with the number of CPUs.
    fn compare(&self, f: impl FnOnce(usize, usize) -> bool) -> Option<bool> {
        // Relaxed: only a number.
        let cpus = self.cpus.load(Relaxed);
        let is_asked = ASKS_THE_SYSTEM && cpus <= MOST_CPUS;
        let file = self.load.get_or_init(|| if is_asked { File::open(LOAD).ok() } else { None });
        let mut text = [0; 64];
        let length = file.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        runnable(&text[..length]).map(|runnable| f(runnable, cpus))
    }

    /// From now on this acts as if there were `cpus` CPUs.
    #[cfg(test)]
    pub fn pretend_cpus(&self, cpus: usize) {
        self.cpus.store(cpus, Relaxed);
    }
}

/// The number of threads that run or wait for a CPU, from the text of [`LOAD`].
fn runnable(text: &[u8]) -> Option<usize> {
    let counts = text.split(|&byte| byte == b' ').nth(3)?;
    let digits = counts.split(|&byte| byte == b'/').next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_number_of_threads_that_run_is_before_the_slash() {
        assert_eq!(runnable(b"0.20 0.18 0.12 12/80 11206\n"), Some(12));
        for broken in ["", "0.20", "0.20 0.18 0.12 ", "0.20 0.18 0.12 x/80 1"] {
            assert_eq!(runnable(broken.as_bytes()), None, "{broken:?}");
        }
    }

    #[test]
    fn there_is_no_room_while_each_cpu_has_a_thread() {
        let crowd = Crowd::new();
        if crowd.compare(|_, _| true).is_none() {
            // Too many CPUs, or the system does not tell.
            return;
        }
        let (is_over, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let cpus = crowd.cpus.load(Relaxed);
        let spin = |_| {
            let (is_over, begun) = (is_over.clone(), begun.clone());
            std::thread::spawn(move || {
                begun.fetch_add(1, Relaxed);
                while !is_over.load(Relaxed) {}
            })
        };
        let threads: Vec<_> = (0..cpus).map(spin).collect();
        // Before the threads have begun, other threads of this process may leave no room for a moment.
        let began = Instant::now();
        while begun.load(Relaxed) < cpus || crowd.has_room() {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "{:?}",
                std::fs::read_to_string("/proc/loadavg")
            );
        }
        assert!((0..10).all(|_| !crowd.has_room() && crowd.is_overrun()));
        crowd.pretend_cpus(usize::MAX);
        assert!(crowd.has_room() && !crowd.is_overrun());
        is_over.store(true, Relaxed);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn what_cannot_be_told_is_taken_for_room() {
        let crowd = Crowd { load: OnceLock::from(None), cpus: AtomicUsize::new(0) };
        assert!(crowd.has_room() && !crowd.is_overrun());
    }
}
