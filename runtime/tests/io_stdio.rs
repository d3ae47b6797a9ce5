//! Standard input and output, in processes of their own.

mod support;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use runtime::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, stderr, stdin, stdout};
use runtime::{Runtime, task};
use support::{KINDS, build, builder, child_command, each_kind, finish_child, in_child, is_child, run_child};

/// What a child has written to its output between the two marks, beside what the test harness prints there.
fn between_marks(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let (_, rest) = text.split_once("<<").unwrap_or_else(|| panic!("no beginning in {text:?}"));
    let (found, _) = rest.split_once(">>").unwrap_or_else(|| panic!("no end in {text:?}"));
    found.to_owned()
}

#[track_caller]
fn printed(name: &str, variables: &[(&str, &str)]) -> String {
    let output = run_child(name, variables);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    between_marks(&output.stdout)
}

/// Each of several tasks has a handle of its own, and waits for no other handle.
#[test]
fn what_many_handles_write_comes_out_in_the_order_in_which_it_was_written() {
    const NAME: &str = "what_many_handles_write_comes_out_in_the_order_in_which_it_was_written";
    if is_child(NAME) {
        return build(2).block_on(async {
            stdout().write_all(b"<<").await.unwrap();
            let order = std::sync::Arc::new(runtime::sync::Mutex::new(0));
            let tasks: Vec<_> = (0..4)
                .map(|_| {
                    let order = order.clone();
                    runtime::spawn(async move {
                        for _ in 0..500 {
                            let mut next = order.lock().await;
                            stdout().write_all(format!("{next}\n").as_bytes()).await.unwrap();
                            *next += 1;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            stdout().write_all(b">>").await.unwrap();
        });
    }
    let expected: String = (0..2000).map(|number| format!("{number}\n")).collect();
    assert_eq!(printed(NAME, &[]), expected);
}

#[test]
fn what_was_written_comes_out_though_nobody_flushes_and_the_runtime_ends() {
    const NAME: &str = "what_was_written_comes_out_though_nobody_flushes_and_the_runtime_ends";
    if is_child(NAME) {
        let repeated = std::env::var("REPEATED").unwrap().parse().unwrap();
        std::io::stdout().write_all(b"<<").unwrap();
        for _ in 0..repeated {
            each_kind(|runtime| {
                runtime.block_on(async { stdout().write_all(b"a line\nand more;").await.unwrap() });
            });
        }
        return std::io::stdout().write_all(b">>").unwrap();
    }
    let repeated = if cfg!(any(asan, tsan)) { 10 } else { 200 };
    let expected = "a line\nand more;".repeat(3 * repeated);
    assert_eq!(printed(NAME, &[("REPEATED", &repeated.to_string())]), expected);
}

/// The one blocking thread is busy when the runtime ends, so that no thread has begun to write.
#[test]
fn the_end_of_a_runtime_waits_for_output_that_nobody_has_begun_to_write() {
    const NAME: &str = "the_end_of_a_runtime_waits_for_output_that_nobody_has_begun_to_write";
    if is_child(NAME) {
        let runtime = builder(1).max_blocking_threads(1).build().unwrap();
        let (has_begun, begun) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        runtime.spawn_blocking(move || {
            has_begun.send(()).unwrap();
            _ = ends.recv();
        });
        begun.recv().unwrap();
        runtime.block_on(async {
            let text = format!("<<{}>>", "x".repeat(1 << 20));
            stdout().write_all(text.as_bytes()).await.unwrap();
        });
        runtime.spawn(async move {
            // Dropped by the end of the runtime, which ends the closure.
            let _end = end;
            std::future::pending::<()>().await
        });
        drop(runtime);
        // SAFETY: it ends the process, without waiting for threads or flushing.
        unsafe { libc::_exit(0) };
    }
    assert_eq!(printed(NAME, &[]).len(), 1 << 20);
}

#[test]
fn what_was_flushed_is_out_before_the_process_is_killed() {
    const NAME: &str = "what_was_flushed_is_out_before_the_process_is_killed";
    if is_child(NAME) {
        return build(1).block_on(async {
            let mut stdout = stdout();
            stdout.write_all(b"<<no line").await.unwrap();
            stdout.flush().await.unwrap();
            stdout.write_all(b" end>>").await.unwrap();
            stdout.shutdown().await.unwrap();
            stderr().write_all(b"<<errors>>").await.unwrap();
            stderr().flush().await.unwrap();
            let mut errors = stderr();
            errors.write_all(b"<<more>>").await.unwrap();
            errors.flush().await.unwrap();
            // SAFETY: it sends a signal to this process.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        });
    }
    let output = run_child(NAME, &[]);
    assert!(!output.status.success());
    assert_eq!(between_marks(&output.stdout), "no line end");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("<<errors>><<more>>"), "{errors}");
}

/// Runs `future` on the calling thread, without a runtime.
fn block_on_plainly<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(std::sync::Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

#[test]
fn the_standard_streams_need_no_runtime() {
    const NAME: &str = "the_standard_streams_need_no_runtime";
    if is_child(NAME) {
        return block_on_plainly(async {
            let mut text = String::new();
            stdin().read_to_string(&mut text).await.unwrap();
            let text = format!("<<{text}>>");
            if cfg!(feature = "tokio-strict") {
                // Output needs a runtime there, as in Tokio.
                return std::io::stdout().write_all(text.as_bytes()).unwrap();
            }
            let mut stdout = stdout();
            stdout.write_all(text.as_bytes()).await.unwrap();
            stdout.flush().await.unwrap();
        });
    }
    let mut child = child_command(NAME).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"both ways").unwrap();
    assert_eq!(between_marks(&finish_child(child).stdout), "both ways");
}

/// A word from a child to its parent.
fn say_on_stderr(text: &str) {
    // Not `eprintln!`, which the harness could keep to itself.
    _ = writeln!(std::io::stderr(), "{text}");
}

#[track_caller]
fn await_word(child: &mut Child, word: &str) {
    let mut lines = BufReader::new(child.stderr.as_mut().unwrap());
    let mut line = String::new();
    while line.trim() != word {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "the child has not said {word}");
    }
}

fn child_with_input(name: &str) -> (Child, ChildStdin) {
    let mut child = child_command(name).stdin(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take().unwrap();
    (child, input)
}

#[test]
fn input_that_was_waited_for_and_given_up_is_read_by_the_next_handle_of_another_runtime() {
    const NAME: &str = "input_that_was_waited_for_and_given_up_is_read_by_the_next_handle_of_another_runtime";
    if is_child(NAME) {
        build(1).block_on(async {
            let mut input = stdin();
            let reading = input.read_u8();
            runtime::time::timeout(Duration::from_millis(20), reading).await.unwrap_err();
        });
        say_on_stderr("given up");
        return build(0).block_on(async {
            let mut lines = runtime::io::BufReader::new(stdin()).lines();
            let line = lines.next_line().await.unwrap().unwrap();
            stdout().write_all(format!("<<{line}>>\n").as_bytes()).await.unwrap();
            assert_eq!(lines.next_line().await.unwrap(), None);
        });
    }
    let (mut child, mut input) = child_with_input(NAME);
    await_word(&mut child, "given up");
    input.write_all(b"hello\n").unwrap();
    drop(input);
    assert_eq!(between_marks(&finish_child(child).stdout), "hello");
}

#[test]
fn neither_a_runtime_nor_the_process_waits_for_input() {
    const NAME: &str = "neither_a_runtime_nor_the_process_waits_for_input";
    if is_child(NAME) {
        let mut input = stdin();
        for workers in KINDS {
            let runtime = build(workers);
            let task = runtime.spawn(async { stdin().read_u8().await });
            runtime.block_on(async {
                runtime::time::timeout(Duration::from_millis(5), input.read_u8()).await.unwrap_err();
            });
            drop(runtime);
            assert!(task.is_finished());
        }
        return;
    }
    let (child, _input) = child_with_input(NAME);
    let output = finish_child(child);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_reader_of_output_that_goes_away_is_an_error_of_a_later_write() {
    const NAME: &str = "a_reader_of_output_that_goes_away_is_an_error_of_a_later_write";
    if is_child(NAME) {
        say_on_stderr("ready");
        build(1).block_on(async {
            await_line().await;
            let mut stdout = stdout();
            // A process that another test starts at this moment may have the reader's end, too, for a while.
            let error = loop {
                let written = stdout.write_all(b"nobody reads this\n").await;
                let Err(error) = written.and(stdout.flush().await) else {
                    runtime::time::sleep(Duration::from_millis(1)).await;
                    continue;
                };
                break error;
            };
            assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        });
        // The harness would print, and fail.
        return say_on_stderr("done");
    }
    let (mut child, mut input) = child_with_input(NAME);
    await_word(&mut child, "ready");
    drop(child.stdout.take());
    input.write_all(b"\n").unwrap();
    await_word(&mut child, "done");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Blocks the only thread for blocking closures of `runtime` until the result is dropped.
fn block_pool(runtime: &Runtime) -> mpsc::Sender<()> {
    let (has_begun, begun) = mpsc::channel();
    let (end, ends) = mpsc::channel();
    runtime.spawn_blocking(move || {
        has_begun.send(()).unwrap();
        _ = ends.recv();
    });
    begun.recv().unwrap();
    end
}

#[test]
fn a_write_does_not_wait_for_the_stuck_pool_of_another_runtime() {
    const NAME: &str = "a_write_does_not_wait_for_the_stuck_pool_of_another_runtime";
    const FULL: usize = 64 << 10;
    // With `tokio-strict`, output needs a runtime.
    let needs_runtime = cfg!(feature = "tokio-strict");
    if is_child(NAME) {
        std::io::stdout().write_all(b"<<").unwrap();
        let [stuck, other] = [builder(0).max_blocking_threads(1).build().unwrap(), build(0)];
        let _end = block_pool(&stuck);
        let fill = || stuck.block_on(async { stdout().write_all(&[b'x'; FULL]).await.unwrap() });
        let write = async || {
            let mut stdout = stdout();
            stdout.write_all(b"\n").await.unwrap();
            stdout.flush().await.unwrap();
        };
        fill();
        other.block_on(write());
        fill();
        match needs_runtime {
            true => other.block_on(write()),
            false => block_on_plainly(write()),
        }
        return std::io::stdout().write_all(b">>\n").unwrap();
    }
    let line = format!("{}\n", "x".repeat(FULL));
    assert!(printed(NAME, &[]) == line.repeat(2));
}

#[test]
fn output_that_nobody_takes_holds_one_thread_of_each_runtime() {
    const NAME: &str = "output_that_nobody_takes_holds_one_thread_of_each_runtime";
    if is_child(NAME) {
        let fd = std::io::stdout().as_raw_fd();
        // SAFETY: the call sets the size of a pipe, here to one page.
        assert!(unsafe { libc::fcntl(fd, libc::F_SETPIPE_SZ, 4096) } > 0);
        let runtimes = [0, 1].map(|workers| builder(workers).max_blocking_threads(2).build().unwrap());
        let write = |runtime: &Runtime, len| {
            runtime.block_on(async { stdout().write_all(&vec![b'x'; len]).await.unwrap() });
        };
        write(&runtimes[0], 32 << 10);
        for _ in 0..20 {
            runtimes.iter().for_each(|runtime| write(runtime, 1));
        }
        let has_free_thread = |runtime: &Runtime| {
            let (has_run, run) = mpsc::channel();
            runtime.spawn_blocking(move || _ = has_run.send(()));
            run.recv_timeout(Duration::from_secs(10)).is_ok()
        };
        say_on_stderr(if runtimes.iter().all(has_free_thread) { "free" } else { "held" });
        // SAFETY: it ends the process, without waiting for threads or flushing.
        unsafe { libc::_exit(0) };
    }
    let mut child = child_command(NAME).spawn().unwrap();
    await_word(&mut child, "free");
    child.wait().unwrap();
}

async fn await_line() {
    let mut line = String::new();
    runtime::io::BufReader::new(stdin()).read_line(&mut line).await.unwrap();
}

#[test]
fn output_that_nobody_takes_does_not_hold_up_a_shutdown_with_a_limit() {
    const NAME: &str = "output_that_nobody_takes_does_not_hold_up_a_shutdown_with_a_limit";
    if is_child(NAME) {
        let runtime = build(1);
        runtime.block_on(async {
            let mut stdout = stdout();
            stdout.write_all(b"<<").await.unwrap();
            let writing = async {
                loop {
                    stdout.write_all(&[b'x'; 64 << 10]).await.unwrap();
                }
            };
            runtime::time::timeout(Duration::from_millis(50), writing).await.unwrap_err();
        });
        runtime.shutdown_timeout(Duration::from_millis(50));
        return say_on_stderr("shut down");
    }
    let mut child = child_command(NAME).spawn().unwrap();
    await_word(&mut child, "shut down");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn streams_that_somebody_made_non_blocking_are_waited_for() {
    const NAME: &str = "streams_that_somebody_made_non_blocking_are_waited_for";
    const LEN: usize = 1 << 20;
    if is_child(NAME) {
        for fd in [std::io::stdin().as_raw_fd(), std::io::stdout().as_raw_fd()] {
            // SAFETY: these calls get and set flags of a descriptor.
            unsafe { libc::fcntl(fd, libc::F_SETFL, libc::fcntl(fd, libc::F_GETFL) | libc::O_NONBLOCK) };
        }
        return build(1).block_on(async {
            stdout().write_all(b"<<").await.unwrap();
            let mut input = stdin();
            let mut stdout = stdout();
            let copied = runtime::io::copy(&mut input, &mut stdout).await.unwrap();
            assert_eq!(copied, LEN as u64);
            stdout.write_all(b">>").await.unwrap();
        });
    }
    let (child, mut input) = child_with_input(NAME);
    let writer = thread::spawn(move || {
        for piece in vec![b'x'; LEN].chunks(LEN / 8) {
            input.write_all(piece).unwrap();
            thread::yield_now();
        }
    });
    let output = finish_child(child);
    writer.join().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(between_marks(&output.stdout).len(), LEN);
}

#[test]
fn a_large_write_stays_together_beside_others() {
    const NAME: &str = "a_large_write_stays_together_beside_others";
    if is_child(NAME) {
        return build(2).block_on(async {
            stdout().write_all(b"<<").await.unwrap();
            let tasks = [b'a', b'b', b'c'].map(|letter| {
                runtime::spawn(async move { stdout().write_all(&vec![letter; 1 << 20]).await.unwrap() })
            });
            for task in tasks {
                task.await.unwrap();
            }
            stdout().write_all(b">>").await.unwrap();
        });
    }
    let printed = printed(NAME, &[]);
    let mut runs: Vec<(u8, usize)> = Vec::new();
    for letter in printed.bytes() {
        match runs.last_mut() {
            Some((last, len)) if *last == letter => *len += 1,
            _ => runs.push((letter, 1)),
        }
    }
    runs.sort();
    assert_eq!(runs, [(b'a', 1 << 20), (b'b', 1 << 20), (b'c', 1 << 20)]);
}

#[test]
fn handles_know_their_descriptors() {
    use std::os::fd::AsFd;
    assert_eq!([stdin().as_raw_fd(), stdout().as_raw_fd(), stderr().as_raw_fd()], [0, 1, 2]);
    assert_eq!(stdout().as_fd().as_raw_fd(), 1);
}

/// The system takes a part of a line, and std keeps the rest.
#[test]
fn a_flush_ends_when_the_rest_of_a_line_is_out() {
    const NAME: &str = "a_flush_ends_when_the_rest_of_a_line_is_out";
    if !in_child(NAME, &[]) {
        return;
    }
    let (mut reader, writer) = std::io::pipe().unwrap();
    // SAFETY: these calls get and set what belongs to descriptors that are open.
    let (room, stdout_before) = unsafe {
        let room = libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, 4096);
        let stdout_before = libc::dup(libc::STDOUT_FILENO);
        libc::dup2(writer.as_raw_fd(), libc::STDOUT_FILENO);
        libc::fcntl(libc::STDOUT_FILENO, libc::F_SETFL, libc::O_NONBLOCK);
        libc::fcntl(reader.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK);
        (room, stdout_before)
    };
    // At least a page.
    let room = usize::try_from(room).unwrap();
    let mut line = vec![b'x'; room + 500];
    line.push(b'\n');
    let mut bytes = vec![0; 2 * line.len()];
    let read = build(1).block_on(async {
        let mut stdout = stdout();
        stdout.write_all(&line).await.unwrap();
        let mut read = 0;
        while read < room {
            read += reader.read(&mut bytes[read..]).unwrap_or(0);
            task::yield_now().await;
        }
        stdout.flush().await.unwrap();
        read + reader.read(&mut bytes[read..]).unwrap_or(0)
    });
    // SAFETY: as above.
    unsafe { libc::dup2(stdout_before, libc::STDOUT_FILENO) };
    assert_eq!((read, &bytes[..line.len()]), (line.len(), &line[..]));
}
