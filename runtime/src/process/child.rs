//! A child process.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::process::{Child as StdChild, ExitStatus, Output};

use super::exit::Process;
use super::orphans;
use super::{ChildStderr, ChildStdin, ChildStdout};
use crate::io::{AsyncRead, AsyncReadExt};

/// A child process. [`Command::spawn`](super::Command::spawn) starts it.
///
/// Dropping it leaves the process running, unless [`kill_on_drop`](super::Command::kill_on_drop) was set. The
/// runtime reaps the process when it ends, so that no zombie is left.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use runtime::process::Command;
///
/// let mut child = Command::new("sh").args(["-c", "exit 3"]).spawn()?;
/// println!("started process {:?}", child.id());
/// let status = child.wait().await?;
/// assert_eq!(status.code(), Some(3));
/// assert_eq!(child.id(), None, "its number may belong to another process now");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub struct Child {
    state: ChildState,
    /// The pipe to the child's standard input, if that is [piped](std::process::Stdio::piped). Take the pipe
    /// out to write while another task waits for the child.
    pub stdin: Option<ChildStdin>,
    /// The pipe from the child's standard output, if that is piped.
    pub stdout: Option<ChildStdout>,
    /// The pipe from the child's standard error stream, if that is piped.
    pub stderr: Option<ChildStderr>,
}

enum ChildState {
    /// The process has not been reaped.
    Running(Running),
    Exited(ExitStatus),
}

/// A process that has not been reaped. Its drop leaves it to the orphans.
struct Running {
    /// `None` only in `drop`.
    process: Option<Process>,
    kill_on_drop: bool,
}

impl Child {
    /// Takes over a child of the standard library that has just been started.
    ///
    /// # Errors
    /// If the child or its pipes cannot be watched. The child has been killed then.
    pub(super) fn new(child: StdChild, kill_on_drop: bool) -> io::Result<Self> {
        let process = Process::watch(child).map_err(|(child, error)| {
            orphans::kill(child);
            error
        })?;
        // If this function fails, the drop kills the process.
        let mut running = Running { process: Some(process), kill_on_drop: true };
        let std = running.process().std_mut();
        let stdin = std.stdin.take().map(ChildStdin::from_std).transpose()?;
        let stdout = std.stdout.take().map(ChildStdout::from_std).transpose()?;
        let stderr = std.stderr.take().map(ChildStderr::from_std).transpose()?;
        running.kill_on_drop = kill_on_drop;
        let state = match running.process().earlier_status() {
            Some(status) => ChildState::Exited(status),
            None => ChildState::Running(running),
        };
        Ok(Self { state, stdin, stdout, stderr })
    }

    /// Returns the system's number of the process. `None` once the process was waited for, or a wait has
    /// failed with `ECHILD`, because the number may belong to another process then.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::process::Command;
    ///
    /// let mut child = Command::new("true").spawn()?;
    /// assert!(child.id().is_some());
    /// child.wait().await?;
    /// assert_eq!(child.id(), None);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub fn id(&self) -> Option<u32> {
        match &self.state {
            ChildState::Running(running) => running.process.as_ref().and_then(Process::id),
            ChildState::Exited(_) => None,
        }
    }

    /// Sends `SIGKILL` to the process, and does not wait for its end. [`wait`](Self::wait) does.
    ///
    /// Does nothing if the process has ended.
    ///
    /// # Errors
    /// The system's errors, for instance if the process has become another user's.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::process::Command;
    /// use std::os::unix::process::ExitStatusExt;
    ///
    /// let mut child = Command::new("sleep").arg("1000").spawn()?;
    /// child.start_kill()?;
    /// assert_eq!(child.wait().await?.signal(), Some(9));
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub fn start_kill(&mut self) -> io::Result<()> {
        match &mut self.state {
            ChildState::Running(running) => running.kill(),
            ChildState::Exited(_) => Ok(()),
        }
    }

    /// Sends `SIGKILL` to the process, and waits for its end.
    ///
    /// # Errors
    /// As for [`start_kill`](Self::start_kill) and [`wait`](Self::wait).
    ///
    /// # Cancel safety
    /// Safe: the first poll kills the process, and a later [`wait`](Self::wait) returns its status.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::process::Command;
    ///
    /// let mut child = Command::new("sleep").arg("60").spawn()?;
    /// child.kill().await?;
    /// assert!(!child.wait().await?.success());
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub async fn kill(&mut self) -> io::Result<()> {
        self.start_kill()?;
        self.wait().await?;
        Ok(())
    }

    /// Waits for the process to end, and returns its status. Later calls return the same status.
    ///
    /// It closes [`stdin`](Self::stdin) first, unless the program has taken it out, because the process might
    /// wait for the end of its input. A process that writes more than a pipe holds (64 KiB) waits for a
    /// reader of [`stdout`](Self::stdout) and [`stderr`](Self::stderr). Read them meanwhile, or use
    /// [`wait_with_output`](Self::wait_with_output).
    ///
    /// It may be called in another runtime than the one that has started the process, and after that runtime
    /// was dropped. Where no runtime is current, a process that a `current_thread` runtime has started is
    /// waited for only while that runtime runs.
    ///
    /// # Errors
    /// The system's errors. `ECHILD` if other code has waited for this process, or if the program ignores
    /// `SIGCHLD`; the process has no [`id`](Self::id) then, and later waits fail in the same way. In another
    /// runtime than the first one also that there are too many descriptors; a later wait may succeed. An
    /// error if the process still runs, its runtime was shut down, and no runtime with I/O is current.
    ///
    /// # Cancel safety
    /// Safe: the next call returns the status. The first poll closes `stdin`.
    ///
    /// # Examples
    /// Asks the process to end, and kills it if it does not within a second:
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::process::Command;
    /// use std::time::Duration;
    ///
    /// let mut child = Command::new("cat").stdin(std::process::Stdio::piped()).spawn()?;
    /// child.stdin.take();
    /// if runtime::time::timeout(Duration::from_secs(1), child.wait()).await.is_err() {
    ///     child.kill().await?;
    /// }
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        let running = match &mut self.state {
            ChildState::Exited(status) => return Ok(*status),
            ChildState::Running(running) => running,
        };
        let status = poll_fn(|cx| running.process().poll_wait(cx)).await?;
        self.has_exited(status);
        Ok(status)
    }

    /// Returns the status of the process if it has ended, and `None` while it runs.
    ///
    /// It leaves [`stdin`](Self::stdin) open.
    ///
    /// # Errors
    /// The system's errors, as for [`wait`](Self::wait).
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::process::Command;
    ///
    /// let mut child = Command::new("sleep").arg("60").spawn()?;
    /// assert_eq!(child.try_wait()?, None);
    /// child.kill().await?;
    /// assert!(child.try_wait()?.is_some());
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let running = match &mut self.state {
            ChildState::Exited(status) => return Ok(Some(*status)),
            ChildState::Running(running) => running,
        };
        let status = running.process().try_wait()?;
        if let Some(status) = status {
            self.has_exited(status);
        }
        Ok(status)
    }

    /// Waits for the process to end, and returns its status with all that it has written.
    ///
    /// It collects only piped streams. [`Command::output`](super::Command::output) pipes both streams itself.
    /// It closes [`stdin`](Self::stdin) first.
    ///
    /// A stream ends when all processes have closed it. So a process that the child has started may keep a
    /// stream open after the child's end.
    ///
    /// The streams stay with the runtime in which the process was started. If that is a `current_thread`
    /// runtime, it has to run, in some `block_on`, until they have ended.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait), and the errors of the reads.
    ///
    /// # Cancel safety
    /// Not safe: the bytes that were read are lost, and the handle is dropped.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use std::process::Stdio;
    /// use runtime::process::Command;
    ///
    /// let child = Command::new("echo").arg("hello").stdout(Stdio::piped()).spawn()?;
    /// let output = child.wait_with_output().await?;
    /// assert!(output.status.success());
    /// assert_eq!(output.stdout, b"hello\n");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub async fn wait_with_output(mut self) -> io::Result<Output> {
        let (mut out, mut err) = (self.stdout.take(), self.stderr.take());
        let (status, stdout, stderr) = crate::try_join!(self.wait(), read_all(&mut out), read_all(&mut err))?;
        Ok(Output { status, stdout, stderr })
    }

    /// Forgets the process, after it was reaped.
    fn has_exited(&mut self, status: ExitStatus) {
        if let ChildState::Running(mut running) =
            std::mem::replace(&mut self.state, ChildState::Exited(status))
        {
            running.process = None;
        }
    }
}

async fn read_all(stream: &mut Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

impl Running {
    fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("taken out only at the end")
    }

    fn kill(&mut self) -> io::Result<()> {
        self.process().kill()?;
        self.kill_on_drop = false;
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        if self.kill_on_drop {
            // An error is ignored, because there is no caller to tell.
            let _ = process.kill();
        }
        orphans::adopt(process);
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Child");
        match &self.state {
            ChildState::Running(running) => {
                debug.field("id", &self.id()).field("kill_on_drop", &running.kill_on_drop)
            }
            ChildState::Exited(status) => debug.field("status", status),
        };
        debug.field("stdin", &self.stdin).field("stdout", &self.stdout).field("stderr", &self.stderr).finish()
    }
}
