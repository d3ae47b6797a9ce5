//! Signals whose handler has no `SA_RESTART` end every system call that waits with `EINTR`. Everything goes
//! on all the same, and no caller sees an error for that.
#![cfg(all(feature = "fs", feature = "process"))]

mod fs_support;
mod support;

use std::future::Future;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use fs_support::{Dir, both_ends};
use runtime::fs::File;
use runtime::io::{AsyncReadExt, AsyncWriteExt};
use runtime::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixStream};
use runtime::process::Command;
use runtime::sync::{mpsc, oneshot};
use support::{each_kind, in_child, thread_number, until, watchdog};

/// How often the handler was called.
static HANDLED: AtomicU64 = AtomicU64::new(0);
/// How often each thread has got a signal.
static ROUNDS: AtomicU64 = AtomicU64::new(0);

/// Rounds of signals, between which there are 100 µs: more than a test waits for.
const MOST_ROUNDS: u64 = 300_000;

extern "C" fn count(_: libc::c_int) {
    HANDLED.fetch_add(1, SeqCst);
}

/// Runs `test`, while every other thread of the process gets one signal after the other.
fn under_signals(test: impl FnOnce()) {
    let _watchdog = watchdog();
    // SAFETY: all zero is a valid value: no flag, no signal is masked. The handler only counts.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count as extern "C" fn(libc::c_int) as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..MOST_ROUNDS {
                if is_over.load(SeqCst) {
                    return;
                }
                signal_other_threads();
                ROUNDS.fetch_add(1, SeqCst);
                thread::sleep(Duration::from_micros(100));
            }
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test));
        is_over.store(true, SeqCst);
        result.unwrap_or_else(|payload| std::panic::resume_unwind(payload));
    });
    assert!(HANDLED.load(SeqCst) > 0, "signals were handled");
}

fn signal_other_threads() {
    let own = thread_number();
    for entry in std::fs::read_dir("/proc/self/task").unwrap() {
        // A thread may end meanwhile.
        let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<i32>().ok();
        let Some(thread) = entry.ok().and_then(number) else {
            continue;
        };
        if thread != own {
            // SAFETY: a system call without pointers. A thread that has ended is an error, which is fine.
            _ = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR1) };
        }
    }
}

/// Waits, on this thread, until each thread that waits now has been interrupted a few times.
fn interrupted() {
    let start = ROUNDS.load(SeqCst);
    until("signals go on", || ROUNDS.load(SeqCst) >= start + 4);
}

/// As [`interrupted`], on a thread beside the runtime, so that all of its threads sleep.
async fn interrupted_asleep() {
    let (send, receive) = oneshot::channel();
    let thread = thread::spawn(|| {
        interrupted();
        _ = send.send(());
    });
    receive.await.unwrap();
    thread.join().unwrap();
}

/// Reads to the end, and takes no error for none: `read_to_end` would try again by itself.
async fn read_all(reader: &mut (impl runtime::io::AsyncRead + Unpin)) -> Vec<u8> {
    let (mut all, mut bytes) = (Vec::new(), [0; 4096]);
    loop {
        match reader.read(&mut bytes).await.unwrap() {
            0 => return all,
            count => all.extend_from_slice(&bytes[..count]),
        }
    }
}

/// In a process of its own: runs `test` on a runtime of each kind, in `block_on` and in a task.
fn everywhere<F: Future<Output = ()> + Send + 'static>(name: &str, test: impl Fn() -> F) {
    if !in_child(name, &[]) {
        return;
    }
    under_signals(|| fs_support::everywhere(&test));
}

#[test]
fn threads_that_sleep_are_woken_once_there_is_something_to_do() {
    let name = "threads_that_sleep_are_woken_once_there_is_something_to_do";
    everywhere(name, async || {
        for _ in 0..3 {
            interrupted_asleep().await;
        }
        let (sender, mut receiver) = mpsc::channel(1);
        let closure = runtime::task::spawn_blocking(move || {
            let first = receiver.blocking_recv();
            (first, receiver.blocking_recv())
        });
        interrupted_asleep().await;
        sender.send(1).await.unwrap();
        interrupted_asleep().await;
        drop(sender);
        assert_eq!(closure.await.unwrap(), (Some(1), None));
        // The pool's threads sleep when the next call comes.
        let sum = runtime::compute(|| {
            let (one, other) =
                runtime::parallel::join(|| (0..1000).sum::<u64>(), || (1000..2000).sum::<u64>());
            one + other
        });
        assert_eq!(sum.await.unwrap(), (0..2000).sum::<u64>());
        interrupted_asleep().await;
    });
}

#[test]
fn timers_neither_fail_nor_go_off_too_early() {
    everywhere("timers_neither_fail_nor_go_off_too_early", async || {
        for millis in [1, 3, 20] {
            let (start, time) = (Instant::now(), Duration::from_millis(millis));
            runtime::time::sleep(time).await;
            assert!(start.elapsed() >= time);
            let never = runtime::time::timeout(time, std::future::pending::<()>());
            assert!(never.await.is_err());
            assert!(start.elapsed() >= 2 * time);
        }
    });
}

#[test]
fn sockets_echo() {
    everywhere("sockets_echo", async || {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = runtime::spawn(async move {
            interrupted_asleep().await;
            let (stream, _) = listener.accept().await.unwrap();
            echo(stream).await;
        });
        let stream = TcpStream::connect(address).await.unwrap();
        exchange(stream).await;
        server.await.unwrap();

        let (one, other) = UnixStream::pair().unwrap();
        let server = runtime::spawn(echo(other));
        exchange(one).await;
        server.await.unwrap();

        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (one, other) = (UdpSocket::bind(any).await.unwrap(), UdpSocket::bind(any).await.unwrap());
        one.connect(other.local_addr().unwrap()).await.unwrap();
        let server = runtime::spawn(async move {
            let mut bytes = [0; 8];
            let (count, from) = other.recv_from(&mut bytes).await.unwrap();
            interrupted_asleep().await;
            other.send_to(&bytes[..count], from).await.unwrap();
        });
        interrupted_asleep().await;
        one.send(b"ping").await.unwrap();
        let mut bytes = [0; 8];
        assert_eq!(one.recv(&mut bytes).await.unwrap(), 4);
        assert_eq!(&bytes[..4], b"ping");
        server.await.unwrap();

        // More datagrams than the other end takes, so that the sender waits.
        let (one, other) = UnixDatagram::pair().unwrap();
        let sender = runtime::spawn(async move {
            for i in 0..1000_u32 {
                one.send(&i.to_ne_bytes()).await.unwrap();
            }
        });
        interrupted_asleep().await;
        for i in 0..1000_u32 {
            let mut bytes = [0; 4];
            assert_eq!(other.recv(&mut bytes).await.unwrap(), 4);
            assert_eq!(u32::from_ne_bytes(bytes), i);
        }
        sender.await.unwrap();
    });
}

/// More than a socket's buffers take, so that both ends wait.
const MUCH: usize = 1 << 20;

async fn echo(stream: impl runtime::io::AsyncRead + runtime::io::AsyncWrite) {
    let (mut reader, mut writer) = runtime::io::split(stream);
    runtime::io::copy(&mut reader, &mut writer).await.unwrap();
    writer.shutdown().await.unwrap();
}

async fn exchange(stream: impl runtime::io::AsyncRead + runtime::io::AsyncWrite + Send + 'static) {
    let (mut reader, mut writer) = runtime::io::split(stream);
    let sent: Arc<[u8]> = (0..MUCH).map(|i| (i % 251) as u8).collect();
    let bytes = sent.clone();
    let writes = runtime::spawn(async move {
        writer.write_all(&bytes[..1]).await.unwrap();
        interrupted_asleep().await;
        writer.write_all(&bytes[1..]).await.unwrap();
        writer.shutdown().await.unwrap();
    });
    interrupted_asleep().await;
    assert!(read_all(&mut reader).await == sent[..], "the echo is what was sent");
    writes.await.unwrap();
}

#[test]
fn files_are_read_and_written_whole() {
    everywhere("files_are_read_and_written_whole", async || {
        let dir = Dir::new();
        let (path, copy) = (dir.join("file"), dir.join("copy"));
        let bytes: Vec<u8> = (0..MUCH).map(|i| (i % 251) as u8).collect();
        let mut file = File::create(&path).await.unwrap();
        for chunk in bytes.chunks(4096) {
            file.write_all(chunk).await.unwrap();
        }
        file.sync_all().await.unwrap();
        file.write_all_at(&bytes[7..], 7).await.unwrap();
        // The system interrupts a copy now and then only.
        for _ in 0..50 {
            assert_eq!(runtime::fs::copy(&path, &copy).await.unwrap(), MUCH as u64);
            assert!(std::fs::read(&copy).unwrap() == bytes);
        }
        runtime::fs::write(&copy, &bytes[..1000]).await.unwrap();
        file.set_len(1000).await.unwrap();
        assert!(runtime::fs::read(&path).await.unwrap() == runtime::fs::read(&copy).await.unwrap());
    });
}

/// Unlike a read of a file on a disk, each of these calls waits in a way that a signal ends.
#[test]
fn fifos_are_opened_read_and_written() {
    everywhere("fifos_are_opened_read_and_written", async || {
        let dir = Dir::new();
        let fifo = dir.fifo("fifo");
        let other_end = fifo.clone();
        let writer = thread::spawn(move || {
            interrupted();
            let mut fifo = std::fs::File::options().write(true).open(other_end).unwrap();
            for part in ["one ", "two ", "three"] {
                interrupted();
                fifo.write_all(part.as_bytes()).unwrap();
            }
        });
        let mut file = File::open(&fifo).await.unwrap();
        assert_eq!(read_all(&mut file).await, b"one two three");
        writer.join().unwrap();

        let other_end = fifo.clone();
        let writer = thread::spawn(move || {
            interrupted();
            let mut fifo = std::fs::File::options().write(true).open(other_end).unwrap();
            interrupted();
            fifo.write_all(b"whole").unwrap();
        });
        assert_eq!(runtime::fs::read(&fifo).await.unwrap(), b"whole");
        writer.join().unwrap();

        // More than a pipe holds: the write waits for the reader.
        let mut reader = both_ends(&fifo);
        let mut file = File::options().write(true).open(&fifo).await.unwrap();
        let reads = thread::spawn(move || {
            interrupted();
            let mut bytes = vec![0; MUCH];
            reader.read_exact(&mut bytes).unwrap();
            bytes
        });
        let bytes: Vec<u8> = (0..MUCH).map(|i| (i % 251) as u8).collect();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let count = file.write(rest).await.unwrap();
            rest = &rest[count..];
        }
        file.flush().await.unwrap();
        assert!(reads.join().unwrap() == bytes);
    });
}

#[test]
fn children_are_waited_for() {
    everywhere("children_are_waited_for", async || {
        let mut command = Command::new("sh");
        command.args(["-c", "read word; echo \"$word\"; exit 7"]);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let tells = runtime::spawn(async move {
            interrupted_asleep().await;
            stdin.write_all(b"word\n").await.unwrap();
        });
        let output = child.wait_with_output().await.unwrap();
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(7), &b"word\n"[..]));
        tells.await.unwrap();
        let status = Command::new("sh").args(["-c", "exit 3"]).status().await.unwrap();
        assert_eq!(status.code(), Some(3));
    });
}

#[test]
fn standard_input_is_waited_for() {
    let name = "standard_input_is_waited_for";
    if !in_child(name, &[]) {
        return;
    }
    under_signals(|| {
        each_kind(|runtime| {
            let (reader, mut writer) = std::os::unix::net::UnixStream::pair().unwrap();
            // SAFETY: a system call without pointers. This process is the test's own.
            assert_eq!(unsafe { libc::dup2(reader.as_raw_fd(), 0) }, 0);
            drop(reader);
            let writes = thread::spawn(move || {
                for part in ["one ", "two\n"] {
                    interrupted();
                    writer.write_all(part.as_bytes()).unwrap();
                }
                interrupted();
            });
            let bytes = runtime.block_on(async { read_all(&mut runtime::io::stdin()).await });
            assert_eq!(bytes, b"one two\n");
            writes.join().unwrap();
        });
    });
}

/// The system interrupts none of these calls by itself. But a sandbox may put a supervisor between them and
/// the system, and the wait for the supervisor's answer can be interrupted.
#[test]
fn calls_of_the_driver_that_a_sandbox_interrupts_are_repeated() {
    let name = "calls_of_the_driver_that_a_sandbox_interrupts_are_repeated";
    if !in_child(name, &[]) {
        return;
    }
    let _watchdog = watchdog();
    let runtime = support::build(1);
    let is_eventfd = |fd: &i32| {
        let link = std::fs::read_link(format!("/proc/self/fd/{fd}"));
        link.is_ok_and(|link| link.to_string_lossy().contains("eventfd"))
    };
    let fds: Vec<i32> = support::descriptors().into_iter().filter(is_eventfd).collect();
    let [eventfd] = fds[..] else { panic!("the runtime has one eventfd, got {fds:?}") };
    let (send, receive) = std::sync::mpsc::channel();
    // Started before the filter, which is for the calling thread and those that it starts.
    thread::spawn(move || supervise(receive.recv().unwrap()));
    match filter_driver_calls(eventfd) {
        Ok(listener) => send.send(listener).unwrap(),
        Err(error) => return println!("skipped: calls cannot be supervised: {error}"),
    }

    until("the eventfd's write was interrupted", || {
        let (send, receive) = std::sync::mpsc::channel();
        runtime.spawn(async move { send.send(()).unwrap() });
        receive.recv().unwrap();
        INTERRUPTED_WRITES.load(SeqCst) >= TIMES
    });
    until("the setting of an alarm was interrupted", || {
        support::build(0).block_on(async { runtime::time::sleep(Duration::from_millis(5)).await });
        INTERRUPTED_TIMERS.load(SeqCst) >= TIMES
    });
}

/// How many of the calls of each kind are interrupted.
const TIMES: u64 = 3;
static INTERRUPTED_WRITES: AtomicU64 = AtomicU64::new(0);
static INTERRUPTED_TIMERS: AtomicU64 = AtomicU64::new(0);

/// Has a supervisor answer for this thread's writes to `eventfd` and calls of `timerfd_settime`. Returns the
/// descriptor that the supervisor reads.
fn filter_driver_calls(eventfd: i32) -> std::io::Result<i32> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    // The call's number comes first. The low half of the first argument is at 16 on a little endian machine.
    const FIRST_ARGUMENT: u32 = if cfg!(target_endian = "little") { 16 } else { 20 };
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = [
        step(LOAD, 0, 0, 0),
        step(JUMP_IF_EQUAL, 3, 0, libc::SYS_timerfd_settime as u32),
        step(JUMP_IF_EQUAL, 0, 3, libc::SYS_write as u32),
        step(LOAD, 0, 0, FIRST_ARGUMENT),
        step(JUMP_IF_EQUAL, 0, 1, eventfd as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_USER_NOTIF),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
    // SAFETY: the system copies the program.
    let listener = unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program)
    };
    if listener < 0 { Err(std::io::Error::last_os_error()) } else { Ok(listener as i32) }
}

/// Interrupts the first calls of each kind, and has the system make the others.
fn supervise(listener: i32) {
    loop {
        // SAFETY: all zero is what the system wants to find, and the calls access one value each.
        unsafe {
            let mut call: libc::seccomp_notif = std::mem::zeroed();
            if libc::ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) != 0 {
                continue;
            }
            let mut answer: libc::seccomp_notif_resp = std::mem::zeroed();
            answer.id = call.id;
            let is_write = i64::from(call.data.nr) == libc::SYS_write;
            let count = if is_write { &INTERRUPTED_WRITES } else { &INTERRUPTED_TIMERS };
            match count.load(SeqCst) {
                TIMES => answer.flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
                _ => {
                    count.fetch_add(1, SeqCst);
                    answer.error = -libc::EINTR;
                }
            }
            libc::ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer);
        }
    }
}
