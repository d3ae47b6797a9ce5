//! The runtime's ends of a child's pipes.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use crate::io::Interest;
use crate::io::registered::{Fd, Registered, WatchMode};
use crate::net::face::{bytes, descriptor};
use crate::net::unix::pipe::end::{self, End};

/// An end of a pipe with its conversions. `$watch` says how the driver watches it.
macro_rules! pipe {
    ($(#[$doc:meta])* $type:ident, $watch:expr) => {
        $(#[$doc])*
        pub struct $type {
            io: Registered<End>,
        }

        impl $type {
            #[doc = concat!("Takes over a [`std::process::", stringify!($type), "`].")]
            /// This sets it to non-blocking mode.
            ///
            /// # Errors
            /// The system's errors, or an error if the runtime was shut down. The pipe is closed then.
            ///
            /// # Panics
            /// Outside of a runtime, or if its I/O is not enabled: call it inside `block_on`, a task, or the
            /// scope of `Handle::enter`, and build the runtime with `enable_io` or `enable_all`.
            #[track_caller]
            pub fn from_std(inner: std::process::$type) -> io::Result<Self> {
                let fd = OwnedFd::from(inner);
                end::set_nonblocking(&fd, true)?;
                Ok(Self { io: Registered::new(Fd(fd), $watch)? })
            }

            /// Returns the descriptor in blocking mode, as most programs expect it.
            ///
            /// # Errors
            /// The system's errors. The descriptor is closed then.
            pub fn into_owned_fd(self) -> io::Result<OwnedFd> {
                let fd = self.io.into_inner()?.0;
                end::set_nonblocking(&fd, false)?;
                Ok(fd)
            }
        }

        impl TryFrom<$type> for Stdio {
            type Error = io::Error;

            /// Makes the pipe a standard stream of another child, in blocking mode.
            fn try_from(pipe: $type) -> io::Result<Stdio> {
                pipe.into_owned_fd().map(Stdio::from)
            }
        }

        impl $crate::net::face::Face for $type {
            type Io = End;

            fn registered(&self) -> &Registered<End> {
                &self.io
            }
        }

        descriptor::descriptor!($type, io);
    };
}

pipe!(
    /// The writing end of a child's standard input.
    ///
    /// The methods of [`AsyncWriteExt`](crate::io::AsyncWriteExt) write to it. Dropping it closes the pipe,
    /// and the child finds the end of its input. `shutdown` does nothing.
    ///
    /// A write fails with [`BrokenPipe`](io::ErrorKind::BrokenPipe) if the child has ended or has closed its
    /// input.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::io::AsyncWriteExt;
    /// use runtime::process::Command;
    /// use std::process::Stdio;
    ///
    /// let mut child = Command::new("wc").arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    /// let mut stdin = child.stdin.take().expect("it is piped");
    /// stdin.write_all(b"hello").await?;
    /// drop(stdin);
    /// let output = child.wait_with_output().await?;
    /// assert_eq!(output.stdout.trim_ascii(), b"5");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    ChildStdin,
    WatchMode::pipe("ChildStdin", Interest::WRITABLE)
);

pipe!(
    /// The reading end of a child's standard output.
    ///
    /// The methods of [`AsyncReadExt`](crate::io::AsyncReadExt) read from it. The stream ends when all
    /// processes have closed the other end: the child, and the processes that it has started with the same
    /// output.
    ///
    /// # Examples
    /// The output of one child is the input of another:
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::process::Command;
    /// use std::process::Stdio;
    ///
    /// let mut echo = Command::new("echo").arg("hello").stdout(Stdio::piped()).spawn()?;
    /// let stdout: Stdio = echo.stdout.take().expect("it is piped").try_into()?;
    /// let output = Command::new("tr").args(["a-z", "A-Z"]).stdin(stdout).output().await?;
    /// assert_eq!(output.stdout, b"HELLO\n");
    /// assert!(echo.wait().await?.success());
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    ChildStdout,
    WatchMode::pipe("ChildStdout", Interest::READABLE)
);

pipe!(
    /// The reading end of a child's standard error stream.
    ///
    /// The methods of [`AsyncReadExt`](crate::io::AsyncReadExt) read from it, as from [`ChildStdout`].
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::io::AsyncReadExt;
    /// use runtime::process::Command;
    /// use std::process::Stdio;
    ///
    /// let mut child = Command::new("sh").args(["-c", "echo oops >&2"]).stderr(Stdio::piped()).spawn()?;
    /// let mut text = String::new();
    /// child.stderr.take().expect("it is piped").read_to_string(&mut text).await?;
    /// assert_eq!(text, "oops\n");
    /// assert!(child.wait().await?.success());
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    ChildStderr,
    WatchMode::pipe("ChildStderr", Interest::READABLE)
);

bytes::async_write!(ChildStdin, self => Ok(()));
bytes::async_read!(ChildStdout);
bytes::async_read!(ChildStderr);
