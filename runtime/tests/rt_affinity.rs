//! `pin_workers`: each worker is kept on one CPU of those that the process may use, and no other thread is.

mod support;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use parking_lot::Mutex;
use runtime::parallel::{ThreadPoolBuilder, broadcast};
use runtime::{Builder, Runtime};
use support::{Gate, builder, panic_of, refuse, until, watchdog};

/// A set of CPUs, for more of them than any kernel has.
type Mask = [u64; 1024];

/// The CPUs that the calling thread may use.
fn affinity() -> Vec<usize> {
    let mut mask: Mask = [0; 1024];
    // SAFETY: writes no more bytes than the second argument says.
    let result = unsafe { libc::sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr().cast()) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    (0..mask.len() * 64).filter(|cpu| mask[cpu / 64] >> (cpu % 64) & 1 == 1).collect()
}

/// Has the calling thread run on these CPUs only.
fn set_affinity(cpus: &[usize]) {
    let mut mask: Mask = [0; 1024];
    cpus.iter().for_each(|cpu| mask[cpu / 64] |= 1 << (cpu % 64));
    // SAFETY: reads no more bytes than the second argument says.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast()) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Runs `f` on a thread of its own, which it may keep from CPUs or system calls.
fn on_a_thread<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
    thread::spawn(f).join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
}

/// Runs `f` on a worker of `runtime`.
#[track_caller]
fn on_a_worker<R: Send + 'static>(runtime: &Runtime, f: impl FnOnce() -> R + Send + 'static) -> R {
    runtime.block_on(runtime.spawn(async { f() })).unwrap()
}

/// The CPUs that each worker may use, by its own words.
fn workers(runtime: &Runtime) -> Vec<Vec<usize>> {
    on_a_worker(runtime, || broadcast(|_| affinity()))
}

fn pinned(workers: usize) -> Builder {
    let mut builder = builder(workers);
    builder.pin_workers(true);
    builder
}

#[track_caller]
fn assert_pinned(runtime: &Runtime, cpus: &[usize]) {
    let metrics = runtime.metrics();
    // Said at once, before anything has been asked of the workers.
    let told: Vec<_> = (0..metrics.num_workers()).map(|worker| metrics.worker_cpu(worker)).collect();
    for (worker, may_use) in workers(runtime).into_iter().enumerate() {
        let cpu = cpus[worker % cpus.len()];
        assert_eq!((told[worker], &may_use[..]), (Some(cpu), &[cpu][..]), "worker {worker}");
    }
    assert!(metrics.pin_error().is_none());
}

#[test]
fn each_worker_is_on_the_cpu_that_the_metric_tells() {
    let _watchdog = watchdog();
    for workers in [1, 2, 3, 7] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let start = seen.clone();
        let runtime = pinned(workers).on_thread_start(move || start.lock().push(affinity())).build().unwrap();
        assert_pinned(&runtime, &affinity());
        // When the user's hook is called, the thread is where it belongs.
        until("all workers have begun", || seen.lock().len() >= workers);
        assert!(seen.lock().iter().all(|cpus| cpus.len() == 1), "{seen:?}");
    }
}

#[test]
fn nothing_is_pinned_unless_asked_for() {
    let _watchdog = watchdog();
    let all = affinity();
    let mut taken_back = pinned(2);
    taken_back.pin_workers(false);
    for mut builder in [builder(2), taken_back] {
        let runtime = builder.build().unwrap();
        assert!(workers(&runtime).iter().all(|cpus| *cpus == all));
        assert!((0..2).all(|worker| runtime.metrics().worker_cpu(worker).is_none()));
        assert!(runtime.metrics().pin_error().is_none());
    }
}

#[test]
fn a_current_thread_runtime_is_not_pinned() {
    let _watchdog = watchdog();
    on_a_thread(|| {
        let all = affinity();
        let runtime = pinned(0).build().unwrap();
        runtime.block_on(async { runtime::spawn(async {}).await.unwrap() });
        assert_eq!(affinity(), all);
        assert!(runtime.metrics().worker_cpu(0).is_none() && runtime.metrics().pin_error().is_none());
    });
}

#[test]
fn the_metric_wants_a_worker_that_is_there() {
    let _watchdog = watchdog();
    for builder in [&mut builder(2), &mut pinned(2)] {
        let runtime = builder.build().unwrap();
        let text = panic_of(|| runtime.metrics().worker_cpu(2));
        assert!(text.contains("2 workers") && text.contains("number 2"), "{text}");
    }
}

#[test]
fn spare_workers_are_on_the_cpus_of_workers() {
    let _watchdog = watchdog();
    let all = affinity();
    let runtime = pinned(2).build().unwrap();
    let thread = || thread::current().id();
    let workers = on_a_worker(&runtime, move || broadcast(|_| thread()));
    let gate = Gate::default();
    let seen = Arc::new(Mutex::new(Vec::new()));
    // Two on the workers, four on spare workers: so there are tasks on both CPUs even if an extra spare
    // worker comes and gets no task.
    let tasks: Vec<_> = (0..6)
        .map(|_| {
            let (gate, seen) = (gate.clone(), seen.clone());
            runtime.spawn(async move {
                seen.lock().push((thread(), affinity()));
                runtime::task::block_in_place(|| gate.wait());
            })
        })
        .collect();
    until("all tasks are blocked", || seen.lock().len() == 6);
    gate.open();
    tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
    let seen = seen.lock();
    let relief: Vec<_> = seen.iter().filter(|(thread, _)| !workers.contains(thread)).collect();
    // On a busy machine a worker may have the CPU only after all tasks are taken.
    assert!(relief.len() >= 4, "{relief:?}");
    assert!(relief.iter().all(|(_, cpus)| cpus.len() == 1), "{relief:?}");
    let cpus: BTreeSet<_> = relief.iter().map(|(_, cpus)| cpus[0]).collect();
    assert_eq!(cpus, all.iter().copied().take(2).collect());
}

#[test]
fn blocking_threads_have_all_cpus_whichever_thread_starts_them() {
    let _watchdog = watchdog();
    let all = affinity();
    // By a worker.
    let runtime = pinned(2).build().unwrap();
    let closure = on_a_worker(&runtime, || runtime::task::spawn_blocking(affinity));
    assert_eq!(runtime.block_on(closure).unwrap(), all);
    // By a thread that a worker has started, which inherits the worker's CPU.
    let runtime = pinned(2).build().unwrap();
    let handle = runtime.handle().clone();
    let thread =
        on_a_worker(&runtime, || thread::spawn(move || (affinity(), handle.spawn_blocking(affinity))));
    let (inherited, closure) = thread.join().unwrap();
    assert_eq!((inherited.len(), runtime.block_on(closure).unwrap()), (1, all.clone()));
    // By a worker of another runtime.
    let other = builder(1).build().unwrap();
    let handle = other.handle().clone();
    let closure = on_a_worker(&runtime, move || handle.spawn_blocking(affinity));
    assert_eq!(other.block_on(closure).unwrap(), all);
}

/// How many CPUs a program may use that a worker starts.
#[cfg(feature = "process")]
fn cpus_of_a_child(runtime: &Runtime) -> usize {
    let status = runtime
        .spawn(async { runtime::process::Command::new("cat").arg("/proc/self/status").output().await });
    let output = runtime.block_on(status).unwrap().unwrap();
    cpus_in_status(&String::from_utf8(output.stdout).unwrap())
}

#[cfg(feature = "process")]
#[test]
fn a_child_that_a_worker_starts_has_all_cpus_and_the_worker_stays() {
    let _watchdog = watchdog();
    let runtime = pinned(2).enable_all().build().unwrap();
    let before = workers(&runtime);
    assert_eq!(cpus_of_a_child(&runtime), affinity().len());
    // A panic on the way is no exception.
    let panics = |_: &mut std::process::Command| panic!("on purpose");
    let task = runtime.spawn(async move { runtime::process::Command::new("cat").spawn_with(panics) });
    assert!(runtime.block_on(task).unwrap_err().is_panic());
    assert_eq!(workers(&runtime), before);
}

#[cfg(feature = "process")]
#[test]
fn a_child_has_the_cpus_that_other_code_has_given_to_the_worker() {
    let _watchdog = watchdog();
    let all = affinity();
    let runtime = pinned(1).enable_all().build().unwrap();
    // Not the one on which the worker is kept, if there is another one.
    let cpu = all[all.len() - 1];
    on_a_worker(&runtime, move || set_affinity(&[cpu]));
    assert_eq!(cpus_of_a_child(&runtime), 1);
    assert_eq!(on_a_worker(&runtime, affinity), [cpu]);
}

#[test]
fn pools_and_runtimes_that_are_built_on_a_worker_have_all_cpus() {
    let _watchdog = watchdog();
    let all = affinity();
    let outer = pinned(2).build().unwrap();
    let pool = on_a_worker(&outer, || ThreadPoolBuilder::new().num_threads(2).build().unwrap());
    assert_eq!(pool.broadcast(|_| affinity()), [all.clone(), all.clone()]);
    let in_scope = on_a_worker(&outer, || {
        let wrapper = |thread: runtime::parallel::ThreadBuilder| thread.run();
        ThreadPoolBuilder::new().num_threads(1).build_scoped(wrapper, |pool| pool.install(affinity)).unwrap()
    });
    assert_eq!(in_scope, all);
    let inner = on_a_worker(&outer, || builder(2).build().unwrap());
    assert!(workers(&inner).iter().all(|cpus| *cpus == all));
    let inner = on_a_worker(&outer, || pinned(3).build().unwrap());
    assert_pinned(&inner, &all);
    let closure = on_a_worker(&inner, || runtime::task::spawn_blocking(affinity));
    assert_eq!(inner.block_on(closure).unwrap(), all);
}

#[test]
fn the_process_wide_pool_has_all_cpus_whichever_thread_needs_it_first() {
    let _watchdog = watchdog();
    if support::in_child("the_process_wide_pool_has_all_cpus_whichever_thread_needs_it_first", &[]) {
        let outer = pinned(1).build().unwrap();
        let single = Builder::new_current_thread().build().unwrap();
        // A `current_thread` runtime computes on that pool.
        let computation = on_a_worker(&outer, {
            let handle = single.handle().clone();
            move || handle.compute(affinity)
        });
        assert_eq!(single.block_on(computation).unwrap(), affinity());
    }
}

#[test]
fn the_monitor_has_all_cpus_whichever_thread_starts_it() {
    let _watchdog = watchdog();
    // The monitors of other tests are in other processes.
    if support::in_child("the_monitor_has_all_cpus_whichever_thread_starts_it", &[]) {
        let outer = pinned(2).build().unwrap();
        let _inner = on_a_worker(&outer, || pinned(2).build().unwrap());
        let monitors = || {
            let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap().path());
            let has_name = |name: String| name.trim_end() == "runtime-monitor";
            let is_monitor = |path: &PathBuf| std::fs::read_to_string(path.join("comm")).is_ok_and(has_name);
            threads.filter(is_monitor).map(|path| cpus_in_proc(&path)).collect::<Vec<_>>()
        };
        // A thread has its name and its CPUs a moment after it was started.
        until("both monitors have all CPUs", || monitors() == [affinity().len(); 2]);
    }
}

#[test]
fn the_default_number_of_workers_is_not_that_of_a_pinned_worker() {
    let _watchdog = watchdog();
    // The number is kept from the first query on, so this is a process without an earlier query.
    if support::in_child("the_default_number_of_workers_is_not_that_of_a_pinned_worker", &[]) {
        let cpus = thread::available_parallelism().unwrap().get();
        let runtime = pinned(2).build().unwrap();
        let inner = on_a_worker(&runtime, || {
            assert_eq!(thread::available_parallelism().unwrap().get(), 1);
            Builder::new_multi_thread().build().unwrap()
        });
        assert_eq!(inner.metrics().num_workers(), cpus);
    }
}

#[test]
fn a_narrowed_set_is_not_left() {
    let _watchdog = watchdog();
    on_a_thread(|| {
        // Each CPU alone, also a CPU that does not come first.
        for cpu in affinity() {
            on_a_thread(move || {
                set_affinity(&[cpu]);
                let runtime = pinned(3).build().unwrap();
                assert_pinned(&runtime, &[cpu]);
                let closure = on_a_worker(&runtime, || runtime::task::spawn_blocking(affinity));
                assert_eq!(runtime.block_on(closure).unwrap(), [cpu]);
                // And what must go on on one CPU does.
                on_a_worker(&runtime, || {
                    let inner = runtime::spawn(async { runtime::task::yield_now().await });
                    runtime::task::block_in_place(|| runtime::Handle::current().block_on(inner)).unwrap();
                    assert_eq!(runtime::parallel::join(|| 1, || 2), (1, 2));
                });
            });
        }
    });
}

#[test]
fn the_thread_that_builds_stays_where_it_was() {
    let _watchdog = watchdog();
    let before = affinity();
    let _runtime = pinned(2).build().unwrap();
    assert_eq!(affinity(), before);
}

#[test]
fn a_build_that_fails_half_way_waits_for_nobody() {
    let _watchdog = watchdog();
    let started = AtomicUsize::new(0);
    let name = move || if started.fetch_add(1, SeqCst) < 2 { "name".to_owned() } else { "a\0b".to_owned() };
    let error = pinned(3).thread_name_fn(name).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn refused_by_the_system_the_runtime_runs_unpinned_and_says_why() {
    let _watchdog = watchdog();
    // The C library, too, asks where a thread may run when it is asked for its stack; ENOSYS is an answer
    // that it takes.
    let refusals = [(libc::SYS_sched_setaffinity, libc::EPERM), (libc::SYS_sched_getaffinity, libc::ENOSYS)];
    for (call, error) in refusals {
        let all = affinity();
        let (runtime, in_blocking, on_workers) = on_a_thread(move || {
            refuse(call, error);
            let runtime = pinned(3).build().unwrap();
            let closure = on_a_worker(&runtime, || runtime::task::spawn_blocking(own_cpus_in_proc));
            let in_blocking = runtime.block_on(closure).unwrap();
            let on_workers = on_a_worker(&runtime, || broadcast(|_| own_cpus_in_proc()));
            (runtime, in_blocking, on_workers)
        });
        let metrics = runtime.metrics();
        assert!((0..3).all(|worker| metrics.worker_cpu(worker).is_none()));
        assert_eq!(metrics.pin_error().unwrap().raw_os_error(), Some(error));
        assert_eq!(in_blocking, all.len());
        assert_eq!(on_workers, [all.len(); 3]);
    }
}

/// How many CPUs the calling thread may use, from a file: the system call may be refused.
fn own_cpus_in_proc() -> usize {
    cpus_in_proc("/proc/thread-self".as_ref())
}

/// How many CPUs the thread with this directory may use.
fn cpus_in_proc(thread: &Path) -> usize {
    cpus_in_status(&std::fs::read_to_string(thread.join("status")).unwrap())
}

fn cpus_in_status(status: &str) -> usize {
    let mask = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:")).unwrap();
    mask.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit.count_ones() as usize).sum()
}
