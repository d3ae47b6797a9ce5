//! What the tests of the front door share: runtimes of every kind, waiting for conditions, a guard against
//! hangs, and child processes for what would harm the test process. Locks are parking_lot's: those of std
//! look like races to ThreadSanitizer, which cannot see into what std ships compiled.
#![allow(dead_code, unused_imports, reason = "each test binary uses its part")]

#[path = "../../src/util/joined.rs"]
mod joined;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::pin::Pin;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

pub use joined::joined_scope;
use parking_lot::Mutex;
use runtime::{Builder, Runtime};

/// Longer than any test takes on a loaded machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The kinds of runtime, as number of workers; 0 stands for `current_thread`.
pub const KINDS: [usize; 3] = [0, 1, 3];

pub fn builder(workers: usize) -> Builder {
    let mut builder = match workers {
        0 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.enable_all();
    if workers > 0 {
        builder.worker_threads(workers);
    }
    builder
}

pub fn build(workers: usize) -> Runtime {
    builder(workers).build().unwrap()
}

/// Calls `test` with a runtime of each kind.
pub fn each_kind(test: impl Fn(Runtime)) {
    for workers in KINDS {
        test(build(workers));
    }
}

/// Lets this thread, and those that it starts, run on one CPU only.
pub fn use_one_cpu() {
    // SAFETY: a set of bits, for which zero is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for a write of the size given.
    assert_eq!(unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) }, 0);
    // SAFETY: the indices are within the set.
    let cpu = (0..libc::CPU_SETSIZE as usize).find(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) });
    // SAFETY: as above.
    set = unsafe { std::mem::zeroed() };
    // SAFETY: the index came out of such a set.
    unsafe { libc::CPU_SET(cpu.expect("this thread runs somewhere"), &mut set) };
    // SAFETY: the pointer is valid for a read of the size given.
    assert_eq!(unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) }, 0);
}

/// From now on the kernel refuses a system call to this thread, and to those that it starts, with `error`.
pub fn refuse(call: libc::c_long, error: libc::c_int) {
    let statement = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut program = [
        // The call's number is the first word of what the filter sees.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | error as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the kernel copies the program, which is valid for as many statements as said.
    let results = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter),
        ]
    };
    assert_eq!(results, [0, 0], "{}", std::io::Error::last_os_error());
}

/// Waits until `condition` holds. Panics with `what` if it does not within [`LIMIT`], as [`Patience`] counts.
#[track_caller]
pub fn until(what: &str, condition: impl Fn() -> bool) {
    let mut patience = Patience::new(LIMIT);
    while !condition() {
        assert!(!patience.is_over(), "still not true: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A waker that calls `f`.
pub fn waker(f: impl Fn() + Send + Sync + 'static) -> Waker {
    struct Calls<F>(F);
    impl<F: Fn() + Send + Sync + 'static> Wake for Calls<F> {
        fn wake(self: Arc<Self>) {
            (self.0)();
        }
    }
    Arc::new(Calls(f)).into()
}

/// Polls a future that is not ready.
#[track_caller]
pub fn wait_with(waker: &Waker, future: Pin<&mut impl Future>) {
    assert!(future.poll(&mut Context::from_waker(waker)).is_pending());
}

/// The system's number of the calling thread.
pub fn thread_number() -> i32 {
    // SAFETY: takes nothing.
    unsafe { libc::gettid() }
}

/// Waits until the thread of this process with that number sleeps, and has not been switched for 5 ms.
#[track_caller]
pub fn until_asleep(thread: i32) {
    // The state, and how often the thread was switched. The rest is about the memory of the process.
    let status = || {
        let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap();
        let lines =
            status.lines().filter(|line| line.starts_with("State:") || line.contains("ctxt_switches:"));
        lines.collect::<Vec<_>>().join("\n")
    };
    until("the thread sleeps", || {
        let before = status();
        thread::sleep(Duration::from_millis(5));
        before.starts_with("State:\tS") && before == status()
    });
}

/// A time to wait, in rounds of a few milliseconds. A round that takes longer than [`ROUND`](Self::ROUND)
/// counts as that long only: the process was stopped, or the machine was so busy that other threads were
/// late, too.
pub struct Patience {
    left: Duration,
    last: Instant,
}

impl Patience {
    pub const ROUND: Duration = Duration::from_millis(20);

    pub fn new(limit: Duration) -> Self {
        Self { left: limit, last: Instant::now() }
    }

    /// Ends a round. Returns whether the time is over.
    pub fn is_over(&mut self) -> bool {
        let now = Instant::now();
        let round = now - std::mem::replace(&mut self.last, now);
        self.left = self.left.saturating_sub(round.min(Self::ROUND));
        self.left.is_zero()
    }
}

/// The rounds of a test: `most`, or fewer where these take longer than a sixth of [`LIMIT`].
pub fn rounds(most: u32) -> impl Iterator<Item = u32> {
    let start = Instant::now();
    (0..most).take_while(move |_| start.elapsed() < LIMIT / 6)
}

/// Counts for [`short_joins`]. After some of them, the next join is one of the few short ones whose second
/// half is published.
pub const NEAR_A_BUDGETS_END: std::ops::Range<usize> = 1000..1100;

/// Makes `count` joins, from which the job processor learns that joins are short here.
pub fn short_joins(count: usize) {
    (0..count).for_each(|_| _ = runtime::parallel::join(|| (), || ()));
}

/// Something that need not be `Send`, for the first closure of a `join` that a worker or an external thread
/// calls. That closure stays on its thread.
pub struct AssertSend<F>(F);

// SAFETY: the tests call `join` in a computation or in an external thread's call, where the first closure
// runs on the calling thread. So the value is made, called and dropped on one thread.
unsafe impl<F> Send for AssertSend<F> {}

impl<F: FnOnce() -> R, R> AssertSend<F> {
    pub fn new(f: F) -> Self {
        Self(f)
    }

    pub fn call(self) -> R {
        (self.0)()
    }
}

/// Aborts the process, with the name of the test, if it is not dropped within twice [`LIMIT`]: a hang then
/// has a name.
pub struct Watchdog {
    _end: mpsc::Sender<()>,
}

pub fn watchdog() -> Watchdog {
    let (end, ended) = mpsc::channel();
    let name = thread::current().name().unwrap_or("unnamed").to_owned();
    thread::spawn(move || {
        if let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(2 * LIMIT) {
            // Not `eprintln!`, which the harness would keep to itself.
            _ = writeln!(std::io::stderr(), "the test {name} hangs");
            std::process::abort();
        }
    });
    Watchdog { _end: end }
}

const CHILD: &str = "RUNTIME_TEST_CHILD";

/// Runs the test `name` again in a process of its own, with `variables` set. True in that process; false in
/// the parent, after the child has succeeded.
#[track_caller]
pub fn in_child(name: &str, variables: &[(&str, &str)]) -> bool {
    if is_child(name) {
        return true;
    }
    let output = run_child(name, variables);
    assert!(
        output.status.success(),
        "the child failed: {}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    false
}

/// Whether this process was started to run the test `name`.
pub fn is_child(name: &str) -> bool {
    std::env::var_os(CHILD).is_some_and(|child| child == name)
}

/// Runs the test `name` in a process of its own until it ends by itself, or is killed because it hangs.
pub fn run_child(name: &str, variables: &[(&str, &str)]) -> Output {
    finish_child(start_child(name, variables))
}

/// Starts a process that runs the test `name`. What it prints waits in pipes: it should not be much.
pub fn start_child(name: &str, variables: &[(&str, &str)]) -> Child {
    child_command(name).envs(variables.iter().copied()).spawn().unwrap()
}

/// The command for a process that runs the test `name`, and prints into pipes.
pub fn child_command(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(CHILD, name)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Waits until `child` ends by itself, or kills it because it hangs.
pub fn finish_child(mut child: Child) -> Output {
    let stdout = drain(child.stdout.take().unwrap());
    let stderr = drain(child.stderr.take().unwrap());
    let start = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if start.elapsed() > LIMIT => {
                child.kill().unwrap();
                break child.wait().unwrap();
            }
            None => thread::sleep(Duration::from_millis(2)),
        }
    };
    Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

fn drain(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut text = Vec::new();
        _ = pipe.read_to_end(&mut text);
        text
    })
}

/// The text of the panic in `f`, which must panic.
#[track_caller]
pub fn panic_of<R>(f: impl FnOnce() -> R) -> String {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)) {
        Ok(_) => panic!("did not panic"),
        Err(payload) => text_of(&*payload),
    }
}

pub fn text_of(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// The file and line of the panic in `f`, which must panic. One at a time: the panic hook is the process's.
pub fn place_of_panic<R>(f: impl FnOnce() -> R) -> (String, u32) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock();
    let place = Arc::new(Mutex::new(None));
    let before = std::panic::take_hook();
    let (thread, seen) = (thread::current().id(), place.clone());
    std::panic::set_hook(Box::new(move |info| {
        if thread::current().id() == thread {
            *seen.lock() = info.location().map(|place| (place.file().to_owned(), place.line()));
        }
    }));
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
    std::panic::set_hook(before);
    assert!(result.is_err(), "did not panic");
    let place = place.lock().take();
    place.expect("a panic has a place")
}

/// Counts how often its tokens are dropped.
#[derive(Clone, Default)]
pub struct Drops(Arc<AtomicUsize>);

impl Drops {
    pub fn token(&self) -> DropToken {
        DropToken(self.0.clone())
    }

    pub fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

pub struct DropToken(Arc<AtomicUsize>);

impl Drop for DropToken {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Threads of this process.
pub fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Bytes of address space that this process uses.
pub fn address_space() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').next().unwrap().parse::<u64>().unwrap() * 4096
}

/// Sets the soft limit of this process.
pub fn limit(resource: libc::__rlimit_resource_t, soft: u64) {
    let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard_limit(resource) };
    // SAFETY: reads one `rlimit`.
    assert_eq!(unsafe { libc::setrlimit(resource, &limit) }, 0);
}

/// A stack so large that no old one is used again for it, and that [`NoThreads`] refuses.
pub const HUGE_STACK: usize = 1 << 30;

/// Has the system refuse threads with a [`HUGE_STACK`] until it is dropped.
///
/// It does not refuse every thread. The measured address space may be too large by 64 MiB for each thread
/// that has just been started: the C library takes twice the memory that it wants for such a thread's heap,
/// and gives back what it does not need. (Threads that have ended do the opposite: their stacks are kept for
/// others of that size, but huge ones are not.)
pub struct NoThreads;

impl NoThreads {
    pub fn begin() -> Self {
        limit(libc::RLIMIT_AS, address_space() + HUGE_STACK as u64 / 2);
        // Threads that were coming have come, or memory was given back in between.
        while has_room(HUGE_STACK) {
            limit(libc::RLIMIT_AS, address_space() + HUGE_STACK as u64 / 2);
        }
        Self
    }
}

/// Whether the system gives this process so many bytes of address space.
fn has_room(size: usize) -> bool {
    let (anywhere, none, flags) = (std::ptr::null_mut(), libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANON);
    // SAFETY: a mapping of its own, which is not used, and is taken back.
    unsafe {
        let place = libc::mmap(anywhere, size, none, flags, -1, 0);
        place != libc::MAP_FAILED && libc::munmap(place, size) == 0
    }
}

impl Drop for NoThreads {
    fn drop(&mut self) {
        limit(libc::RLIMIT_AS, hard_limit(libc::RLIMIT_AS));
    }
}

pub fn hard_limit(resource: libc::__rlimit_resource_t) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes one `rlimit`.
    assert_eq!(unsafe { libc::getrlimit(resource, &mut limit) }, 0);
    limit.rlim_max
}

/// Whether a sanitizer's shadow takes so much address space that a limit on it says nothing.
pub fn has_shadow_memory() -> bool {
    address_space() > 1 << 40
}

/// The open descriptors of this process.
///
/// Under ThreadSanitizer without pipes, of which the runtime has none. At its first report, also one that a
/// suppression matches, the sanitizer starts a program that names functions, and keeps a pipe to that program
/// and one back.
pub fn descriptors() -> BTreeSet<i32> {
    let is_known = |link: PathBuf| !cfg!(tsan) || !link.to_string_lossy().starts_with("pipe:");
    let paths = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let paths: Vec<PathBuf> = paths.collect();
    // The directory itself was open while it was read: of what is closed there is no link.
    let open = paths.iter().filter(|path| std::fs::read_link(path).is_ok_and(is_known));
    open.map(|path| path.file_name().unwrap().to_str().unwrap().parse().unwrap()).collect()
}

/// A blocking door: closed until it is opened, once for all.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, parking_lot::Condvar)>);

impl Gate {
    pub fn open(&self) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
    }

    pub fn wait(&self) {
        let mut open = self.0.0.lock();
        while !*open {
            self.0.1.wait(&mut open);
        }
    }

    pub fn is_open(&self) -> bool {
        *self.0.0.lock()
    }
}
