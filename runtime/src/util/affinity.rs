//! Keeping threads on CPUs: the kernel's set of CPUs, and the CPU of each worker.
//!
//! A new thread inherits the CPUs of the thread that starts it. So a pinned worker would pin each thread and
//! process that it starts. This crate therefore wraps what it starts in [`unpinned`]. A wrapped thread begins
//! on all CPUs on which the runtime was built. For a pool, or for another runtime, these are the CPUs that
//! the pinned thread had before it was pinned. A worker then pins itself. A process is started while the
//! thread has these CPUs ([`while_unpinned`]). This crate does not touch threads that user code starts.
//!
//! This module does not look again. If CPUs are taken away later, the kernel moves the threads.
//!
//! While a process is started, and for some microseconds while a thread is moved, a thread's set is another
//! one, and a change from outside at that moment is overwritten.
//!
//! A thread that is not pinned can be [moved](move_this_thread) once and is not kept there. From then on
//! the kernel takes the set that the thread had for the thread's own wish. So the thread keeps to that set,
//! even if its control group is given more CPUs later.

use std::cell::OnceCell;
use std::io;
use std::sync::Arc;

use libc::{c_int, c_ulong};

use crate::loom::sync::{Condvar, Mutex};

/// The number of CPUs in one word of a set.
const WORD: usize = c_ulong::BITS as usize;
/// A set's first size in words: that of `cpu_set_t`, 1024 CPUs.
const FIRST_WORDS: usize = size_of::<libc::cpu_set_t>() / size_of::<c_ulong>();
/// A size that no kernel's set reaches. A kernel that refuses a set of this size has another reason.
const MAX_WORDS: usize = (1 << 20) / WORD;

thread_local! {
    /// The CPUs that this thread was allowed before it was pinned, and the CPU on which it was.
    static BEFORE: OnceCell<(Arc<CpuSet>, usize)> = const { OnceCell::new() };
}

/// A set of CPUs, as the kernel takes and gives it: CPU `i` is bit `i % WORD` of word `i / WORD`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuSet {
    words: Vec<c_ulong>,
}

impl CpuSet {
    /// The CPUs that the calling thread may use. If it is pinned, the CPUs that it was allowed before.
    ///
    /// # Errors
    /// The system's error.
    pub fn of_this_thread() -> io::Result<Arc<Self>> {
        if let Some(before) = before() {
            return Ok(before);
        }
        Self::current().map(Arc::new)
    }

    /// The CPUs that the calling thread may use, pinned or not.
    fn current() -> io::Result<Self> {
        Self::ask(|words| {
            // SAFETY: the call writes no more bytes than the second argument says. A set for the kernel is
            // any number of words.
            check(unsafe { libc::sched_getaffinity(0, size_of_val(words), words.as_mut_ptr().cast()) })
        })
    }

    /// The set that `ask` writes. `ask` refuses with EINVAL a set that is too small for all CPUs that the
    /// kernel may have.
    fn ask(ask: impl Fn(&mut [c_ulong]) -> io::Result<()>) -> io::Result<Self> {
        let mut len = FIRST_WORDS;
        loop {
            let mut words = vec![0; len];
            match ask(&mut words) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) && len < MAX_WORDS => len *= 2,
                result => return result.map(|()| Self { words }),
            }
        }
    }

    fn only(cpu: usize) -> Self {
        let mut words = vec![0; cpu / WORD + 1];
        words[cpu / WORD] = 1 << (cpu % WORD);
        Self { words }
    }

    /// The numbers of the CPUs, in ascending order.
    fn cpus(&self) -> Box<[usize]> {
        let has = |cpu: &usize| self.words[cpu / WORD] >> (cpu % WORD) & 1 == 1;
        (0..self.words.len() * WORD).filter(has).collect()
    }

    /// Moves the calling thread to these CPUs.
    ///
    /// # Errors
    /// The system's error, for instance if it has none of these CPUs.
    fn apply(&self) -> io::Result<()> {
        let words = &self.words[..];
        // SAFETY: the call reads no more bytes than the second argument says. The kernel takes missing words
        // for zero.
        check(unsafe { libc::sched_setaffinity(0, size_of_val(words), words.as_ptr().cast()) })
    }
}

fn check(result: c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The CPUs that the calling thread was allowed before it was pinned. `None` if it is not pinned.
fn before() -> Option<Arc<CpuSet>> {
    pinned().map(|(before, _)| before)
}

/// As [`before`], and the CPU on which the thread was pinned.
fn pinned() -> Option<(Arc<CpuSet>, usize)> {
    // While the thread ends, the value may be gone already.
    BEFORE.try_with(|before| before.get().cloned()).ok().flatten()
}

/// The CPU on which the calling thread is, if the system says. Always `None` in a model.
pub fn current_cpu() -> Option<usize> {
    if cfg!(loom) {
        return None;
    }
    // SAFETY: no preconditions.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Moves the calling thread, unless it is pinned, to the CPU that `choose` picks from the CPUs that it may
/// use, in ascending order. Later the kernel may move the thread again. `None` if the thread was left where
/// it is.
pub fn move_this_thread(choose: impl FnOnce(&[usize]) -> Option<usize>) -> Option<usize> {
    if before().is_some() {
        return None;
    }
    let set = CpuSet::current().ok()?;
    let cpu = choose(&set.cpus())?;
    CpuSet::only(cpu).apply().ok()?;
    // The kernel gave this set a moment ago. If it refuses the set now, none of these CPUs is left.
    set.apply().ok()?;
    Some(cpu)
}

/// Wraps the `main` of a thread that the calling thread starts. `main` then runs on the CPUs of `pins`.
/// Without `pins` it runs on the CPUs that the calling thread had before it was pinned, if it is.
pub fn unpinned<R, F: FnOnce() -> R>(pins: Option<&Pins>, main: F) -> impl FnOnce() -> R + use<R, F> {
    let whole = pins.and_then(|pins| pins.whole.clone()).or_else(before);
    move || {
        // If the system refuses, the thread stays where it is. If the system refused from the start, no
        // thread was pinned.
        whole.map(|whole| whole.apply().ok());
        main()
    }
}

/// Runs `f`, which starts a process, on the CPUs that the calling thread had before it was pinned. If it is
/// not, or other code has changed its CPUs since, they stay.
#[cfg(feature = "process")]
pub fn while_unpinned<R>(f: impl FnOnce() -> R) -> R {
    /// Moves the thread back, also if `f` panics.
    struct Back(CpuSet);

    impl Drop for Back {
        fn drop(&mut self) {
            // If these CPUs are gone, the thread stays where it is.
            self.0.apply().ok();
        }
    }

    let _back = pinned().and_then(|(before, cpu)| {
        let now = CpuSet::current().ok()?;
        (*now.cpus() == [cpu] && before.apply().is_ok()).then_some(Back(now))
    });
    f()
}

/// The CPU on which each worker of a runtime is kept.
#[derive(Debug)]
pub struct Pins {
    /// The CPUs that the runtime's other threads may use. `None` if the system did not say.
    whole: Option<Arc<CpuSet>>,
    /// The same CPUs as numbers.
    cpus: Box<[usize]>,
    workers: usize,
    state: Mutex<PinState>,
    /// No worker is pending.
    settled: Condvar,
}

#[derive(Debug)]
struct PinState {
    /// The number of workers, without spare workers, that have not tried yet.
    pending: usize,
    /// The CPU of each worker that is pinned.
    pinned: Box<[Option<usize>]>,
    /// The first refusal, as errno.
    refused: Option<c_int>,
}

impl Pins {
    /// Spreads `workers` over the CPUs that the calling thread may use.
    pub fn new(workers: usize) -> Self {
        Self::on(CpuSet::of_this_thread(), workers)
    }

    fn on(whole: io::Result<Arc<CpuSet>>, workers: usize) -> Self {
        let refused = whole.as_ref().err().map(errno);
        let whole = whole.ok();
        let cpus = whole.as_ref().map(|whole| whole.cpus()).unwrap_or_default();
        let pending = if cpus.is_empty() { 0 } else { workers };
        let state = PinState { pending, pinned: vec![None; workers].into(), refused };
        Self { whole, cpus, workers, state: Mutex::new(state), settled: Condvar::new() }
    }

    /// Keeps the calling thread on the CPU of worker `index`. Spare worker `index` goes to the CPU of worker
    /// `index % workers`. If the system refuses, the thread stays on all CPUs.
    pub fn pin(&self, index: usize) {
        let Some(whole) = self.whole.as_ref().filter(|_| !self.cpus.is_empty()) else {
            return;
        };
        let cpu = self.cpus[index % self.workers % self.cpus.len()];
        let result = CpuSet::only(cpu).apply();
        if result.is_ok() {
            BEFORE.with(|before| _ = before.set((whole.clone(), cpu)));
        }
        let mut state = self.state.lock();
        if let Err(error) = &result {
            state.refused.get_or_insert(errno(error));
        }
        if index < self.workers {
            state.pinned[index] = result.is_ok().then_some(cpu);
            state.pending -= 1;
            if state.pending == 0 {
                self.settled.notify_all();
            }
        }
    }

    /// Waits until all workers are pinned or were refused. The threads of all workers have been started.
    pub fn wait(&self) {
        let mut state = self.state.lock();
        while state.pending > 0 {
            self.settled.wait(&mut state);
        }
    }

    /// The CPU that `worker` was pinned to.
    pub fn cpu(&self, worker: usize) -> Option<usize> {
        self.state.lock().pinned[worker]
    }

    /// The first reason why a thread could not be pinned.
    pub fn refused(&self) -> Option<io::Error> {
        self.state.lock().refused.map(io::Error::from_raw_os_error)
    }
}

fn errno(error: &io::Error) -> c_int {
    error.raw_os_error().expect("the system's errors have a number")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::thread;

    use super::*;
    use crate::util::joined::joined_scope;

    /// Behaves as a kernel for `cpus` CPUs, all of which the thread may use. It refuses a set that is too
    /// small for them.
    fn kernel_of(cpus: usize) -> impl Fn(&mut [c_ulong]) -> io::Result<()> {
        move |words| {
            if words.len() * WORD < cpus {
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
            (0..cpus).for_each(|cpu| words[cpu / WORD] |= 1 << (cpu % WORD));
            Ok(())
        }
    }

    #[test]
    fn a_set_names_its_cpus() {
        for cpu in [0, 1, 63, 64, 1023, 1024, 70_000] {
            assert_eq!(*CpuSet::only(cpu).cpus(), [cpu]);
        }
        let both = CpuSet { words: vec![1 << 5, 1 << 63] };
        assert_eq!(*both.cpus(), [5, 127]);
        assert!(CpuSet { words: vec![0; 4] }.cpus().is_empty());
    }

    #[test]
    fn a_kernel_with_more_cpus_than_a_set_of_fixed_size_holds_is_asked_with_a_larger_one() {
        for cpus in [1, 64, 1024, 1025, 5000, 8192] {
            let set = CpuSet::ask(kernel_of(cpus)).unwrap();
            assert_eq!(*set.cpus(), *(0..cpus).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_kernel_that_refuses_a_set_of_any_size_is_not_asked_for_ever() {
        let error = CpuSet::ask(kernel_of(usize::MAX)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn another_refusal_is_handed_on_at_once() {
        let asked = std::cell::Cell::new(0);
        let result = CpuSet::ask(|_| {
            asked.set(asked.get() + 1);
            Err(io::Error::from_raw_os_error(libc::EPERM))
        });
        assert_eq!((asked.get(), result.unwrap_err().raw_os_error()), (1, Some(libc::EPERM)));
    }

    #[test]
    fn the_real_kernel_takes_what_it_gave_and_longer_sets() {
        thread::spawn(|| {
            let mut set = CpuSet::clone(&CpuSet::of_this_thread().unwrap());
            let cpus = set.cpus();
            assert!(!cpus.is_empty());
            set.words.resize(MAX_WORDS, 0);
            set.apply().unwrap();
            assert_eq!(CpuSet::of_this_thread().unwrap().cpus(), cpus);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_that_is_moved_gets_there_and_may_go_elsewhere_again() {
        thread::spawn(|| {
            let before = CpuSet::current().unwrap();
            for cpu in before.cpus() {
                let mut arrives = (0..1000).map(|_| move_this_thread(|_| Some(cpu)).zip(current_cpu()));
                assert!(arrives.any(|arrived| arrived == Some((cpu, cpu))));
                assert_eq!(CpuSet::current().unwrap(), before);
            }
            assert_eq!(move_this_thread(|_| None), None);
            assert_eq!(move_this_thread(|_| Some(1 << 19)), None);
            assert_eq!(CpuSet::current().unwrap(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn workers_go_round_the_cpus_and_spare_workers_are_beside_their_worker() {
        let whole = CpuSet::of_this_thread().unwrap();
        let cpus = whole.cpus();
        for workers in [1, 2, 3, 5] {
            let pins = Pins::on(Ok(whole.clone()), workers);
            joined_scope(|scope| {
                let pins = &pins;
                for index in 0..3 * workers {
                    let cpu = cpus[index % workers % cpus.len()];
                    let thread = scope.spawn(move || {
                        pins.pin(index);
                        assert_eq!(*CpuSet::current().unwrap().cpus(), [cpu]);
                        assert_eq!(move_this_thread(|_| unreachable!("it is pinned")), None);
                        // The threads that it starts are not kept on its CPU.
                        assert_eq!(CpuSet::of_this_thread().unwrap().cpus(), pins.cpus);
                        let child =
                            thread::spawn(unpinned(None, || CpuSet::of_this_thread().unwrap().cpus()));
                        assert_eq!(child.join().unwrap(), pins.cpus);
                    });
                    thread.join().unwrap();
                }
            });
            pins.wait();
            (0..workers).for_each(|worker| assert_eq!(pins.cpu(worker), Some(cpus[worker % cpus.len()])));
            assert!(pins.refused().is_none());
        }
    }

    #[test]
    fn a_worker_that_is_refused_stays_and_says_why() {
        // No machine has this CPU, so the kernel refuses.
        let nowhere = CpuSet::only(1 << 19);
        let pins = Pins::on(Ok(Arc::new(nowhere)), 2);
        joined_scope(|scope| {
            for index in 0..2 {
                let before = CpuSet::of_this_thread().unwrap();
                let pins = &pins;
                let thread = scope.spawn(unpinned(Some(pins), move || {
                    pins.pin(index);
                    assert_eq!(CpuSet::of_this_thread().unwrap(), before);
                }));
                thread.join().unwrap();
            }
        });
        pins.wait();
        assert_eq!((pins.cpu(0), pins.cpu(1)), (None, None));
        assert_eq!(pins.refused().unwrap().raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn nobody_waits_and_nothing_is_touched_if_the_cpus_are_not_known() {
        for whole in
            [Err(io::Error::from_raw_os_error(libc::ENOSYS)), Ok(Arc::new(CpuSet { words: vec![0] }))]
        {
            let is_refused = whole.is_err();
            let pins = Pins::on(whole, 2);
            pins.wait();
            pins.pin(0);
            pins.pin(3);
            assert_eq!((pins.cpu(0), pins.cpu(1)), (None, None));
            assert_eq!(pins.refused().is_some(), is_refused);
        }
    }
}
