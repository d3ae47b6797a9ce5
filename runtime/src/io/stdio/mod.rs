//! The process's standard streams: [`stdin`], [`stdout`], [`stderr`].
//!
//! They may be anything (a terminal, a pipe, a file), and are shared with other processes. So they stay as
//! they are, blocking, and threads that may block use them. Input has a thread of its own ([`input`]). Output
//! uses the threads of the blocking pool ([`output`]).

mod descriptor;
pub mod input;
pub mod output;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll};
use std::thread;

use super::{AsyncRead, AsyncWrite, ReadBuf};
use crate::driver::io::shut_down_error;
use crate::runtime::handle::Handle;
use crate::util::as_tokio;
use input::Input;
use output::{Drain, Output, Owner};

static INPUT: LazyLock<Input> = LazyLock::new(Input::new);
static OUTPUT: LazyLock<Output> = LazyLock::new(Output::new);
static ERRORS: LazyLock<Output> = LazyLock::new(Output::new);

/// Returns a handle to the process's standard input.
///
/// All handles read the one input, and none loses a byte of it. If a read asked for bytes and was dropped, or
/// its handle was, the next read finds the bytes. No runtime is needed.
///
/// A thread of its own waits for the input. It reads by `std::io::stdin()`, when a handle asks, and as much
/// as the handle asks for, up to 2 MiB. Neither the end of a runtime nor the end of the process waits for it.
/// (Tokio's runtime waits until the user presses enter.) With a paused clock, time goes on while a task waits
/// for the input.
///
/// # Examples
/// ```no_run
/// # #[runtime::main]
/// # async fn main() -> std::io::Result<()> {
/// use runtime::io::{AsyncBufReadExt, BufReader};
///
/// let mut lines = BufReader::new(runtime::io::stdin()).lines();
/// while let Some(line) = lines.next_line().await? {
///     println!("{}", line.to_uppercase());
/// }
/// # Ok(())
/// # }
/// ```
pub fn stdin() -> Stdin {
    Stdin { user: INPUT.enter() }
}

/// A handle to the process's standard input. [`stdin`] makes it.
///
/// Reading fails with the system's error, or if the system refuses the thread.
#[derive(Debug)]
pub struct Stdin {
    user: usize,
}

impl AsyncRead for Stdin {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        INPUT.poll_read(cx, self.user, buf, || {
            let thread = thread::Builder::new().name("runtime-stdin".into());
            thread.spawn(|| INPUT.run(|bytes| descriptor::read(&mut io::stdin(), bytes))).map(drop)
        })
    }
}

impl Drop for Stdin {
    fn drop(&mut self) {
        INPUT.leave(self.user);
    }
}

/// Returns a handle to the process's standard output.
///
/// A write goes into a buffer, and returns. Threads of the blocking pool empty the buffer into
/// `std::io::stdout()`. A write waits while 64 KiB are in the buffer. The bytes that one write takes, up to 2
/// MiB, stay together, also beside `println!`. The bytes of all handles come out in the order in which they
/// were written. (Tokio's handles do not know each other.)
///
/// [`flush`](super::AsyncWriteExt::flush) waits until everything that this handle wrote has left the process.
/// The end of a runtime waits for the output that was written on it, as for other blocking closures.
/// `println!` bypasses the buffer, so flush before it.
///
/// If a write fails after it has returned, the handle's next write or flush reports the error.
///
/// # Examples
/// ```
/// # #[runtime::main]
/// # async fn main() -> std::io::Result<()> {
/// use runtime::io::AsyncWriteExt;
///
/// let mut stdout = runtime::io::stdout();
/// stdout.write_all(b"hello\n").await?;
/// stdout.flush().await?;
/// # Ok(())
/// # }
/// ```
pub fn stdout() -> Stdout {
    Stdout { user: OUTPUT.enter() }
}

/// A handle to the process's standard output. [`stdout`] makes it.
#[derive(Debug)]
pub struct Stdout {
    user: usize,
}

/// Returns a handle to the process's standard error output. It works as [`stdout`], for `std::io::stderr()`.
///
/// # Examples
/// ```
/// # #[runtime::main]
/// # async fn main() -> std::io::Result<()> {
/// use runtime::io::AsyncWriteExt;
///
/// runtime::io::stderr().write_all(b"that went wrong\n").await?;
/// # Ok(())
/// # }
/// ```
pub fn stderr() -> Stderr {
    Stderr { user: ERRORS.enter() }
}

/// A handle to the process's standard error output. [`stderr`] makes it.
#[derive(Debug)]
pub struct Stderr {
    user: usize,
}

/// The runtime whose blocking pool drains what is written now. With the feature `tokio-strict` there must be
/// one that was not shut down, as for Tokio.
fn owner_of_drain() -> io::Result<Owner> {
    if as_tokio::IS_STRICT && Handle::current().shared().driver.io().is_some_and(|io| io.is_shutdown()) {
        return Err(shut_down_error());
    }
    Ok(output::owner())
}

/// Implements the writing to one of the two outputs.
macro_rules! standard_output {
    ($ty:ident, $output:ident, $write:expr) => {
        impl AsyncWrite for $ty {
            fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
                let owner = owner_of_drain()?;
                let start = || Drain::start(owner, &$output, $write);
                $output.poll_write(cx, (self.user, owner), buf, start)
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                let owner = owner_of_drain()?;
                let start = || Drain::start(owner, &$output, $write);
                $output.poll_flush(cx, (self.user, owner), start)
            }

            /// Flushes. The stream stays open, for others.
            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_flush(cx)
            }
        }

        impl Drop for $ty {
            fn drop(&mut self) {
                $output.leave(self.user);
            }
        }
    };
}

standard_output!(Stdout, OUTPUT, |bytes, flush| descriptor::write(&mut io::stdout().lock(), bytes, flush));
standard_output!(Stderr, ERRORS, |bytes, flush| descriptor::write(&mut io::stderr().lock(), bytes, flush));

/// The descriptors of the standard streams, which exist as long as the process.
macro_rules! descriptor_of {
    ($($ty:ident: $number:ident;)*) => {$(
        impl AsRawFd for $ty {
            fn as_raw_fd(&self) -> RawFd {
                libc::$number
            }
        }

        impl AsFd for $ty {
            fn as_fd(&self) -> BorrowedFd<'_> {
                // SAFETY: std, too, relies on this descriptor being open as long as the process lives.
                unsafe { BorrowedFd::borrow_raw(libc::$number) }
            }
        }
    )*};
}

descriptor_of! {
    Stdin: STDIN_FILENO;
    Stdout: STDOUT_FILENO;
    Stderr: STDERR_FILENO;
}
