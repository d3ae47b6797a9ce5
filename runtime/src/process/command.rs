//! The description of a child process to start.

use std::ffi::OsStr;
use std::future::Future;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child as StdChild, Command as StdCommand, ExitStatus, Output, Stdio};

use super::Child;
use super::{exit, orphans};
use crate::util::affinity::while_unpinned;
use crate::util::named_error::named;

/// A program to start as a child process, with its arguments and environment.
///
/// It is a [`std::process::Command`], to which [`as_std`](Self::as_std) and [`as_std_mut`](Self::as_std_mut)
/// give access. One command may start any number of children.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use runtime::process::Command;
///
/// let output = Command::new("sh").args(["-c", "echo $GREETING"]).env("GREETING", "hello").output().await?;
/// assert_eq!(output.stdout, b"hello\n");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct Command {
    std: StdCommand,
    kill_on_drop: bool,
}

/// The program and its environment.
impl Command {
    /// Creates a command that starts `program` without arguments, in the directory and with the variables and
    /// streams of this process.
    ///
    /// A `program` without a slash is looked up in `PATH`: in that of [`env`](Self::env), if it is set there.
    pub fn new<S: AsRef<OsStr>>(program: S) -> Command {
        Self::from(StdCommand::new(program))
    }

    /// Returns the command of the standard library, without `kill_on_drop`.
    pub fn as_std(&self) -> &StdCommand {
        &self.std
    }

    /// Returns the command of the standard library, for settings that have no method here.
    pub fn as_std_mut(&mut self) -> &mut StdCommand {
        &mut self.std
    }

    /// Converts it into a command of the standard library. `kill_on_drop` is lost.
    pub fn into_std(self) -> StdCommand {
        self.std
    }

    /// Adds an argument. No shell reads it, so blanks, quotes and stars reach the program as they are.
    pub fn arg<S: AsRef<OsStr>>(&mut self, arg: S) -> &mut Command {
        self.std.arg(arg);
        self
    }

    /// Adds several arguments.
    pub fn args<I, S>(&mut self, args: I) -> &mut Command
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.std.args(args);
        self
    }

    /// Sets the name that the program finds as its own, its argument number zero, in place of `program`.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::process::Command;
    ///
    /// let output = Command::new("sh").arg0("me").args(["-c", "echo $0"]).output().await?;
    /// assert_eq!(output.stdout, b"me\n");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub fn arg0<S>(&mut self, arg: S) -> &mut Command
    where
        S: AsRef<OsStr>,
    {
        self.std.arg0(arg);
        self
    }

    /// Sets an environment variable of the child.
    pub fn env<K, V>(&mut self, key: K, val: V) -> &mut Command
    where
        K: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        self.std.env(key, val);
        self
    }

    /// Sets several environment variables of the child.
    pub fn envs<I, K, V>(&mut self, vars: I) -> &mut Command
    where
        I: IntoIterator<Item = (K, V)>,
        K: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        self.std.envs(vars);
        self
    }

    /// Removes an environment variable of the child.
    pub fn env_remove<K: AsRef<OsStr>>(&mut self, key: K) -> &mut Command {
        self.std.env_remove(key);
        self
    }

    /// Removes all environment variables of the child, those of this command included.
    pub fn env_clear(&mut self) -> &mut Command {
        self.std.env_clear();
        self
    }

    /// Sets the child's directory. It is not defined whether a relative path of the program begins there, so
    /// use an absolute path.
    pub fn current_dir<P: AsRef<Path>>(&mut self, dir: P) -> &mut Command {
        self.std.current_dir(dir);
        self
    }

    /// Sets the child's standard input. By default it is that of this process.
    pub fn stdin<T: Into<Stdio>>(&mut self, cfg: T) -> &mut Command {
        self.std.stdin(cfg);
        self
    }

    /// Sets the child's standard output. By default it is that of this process. [`output`](Self::output)
    /// always makes it a pipe.
    pub fn stdout<T: Into<Stdio>>(&mut self, cfg: T) -> &mut Command {
        self.std.stdout(cfg);
        self
    }

    /// Sets the child's standard error stream, as [`stdout`](Self::stdout) sets its output.
    pub fn stderr<T: Into<Stdio>>(&mut self, cfg: T) -> &mut Command {
        self.std.stderr(cfg);
        self
    }

    /// Sets whether the drop of a [`Child`], or of the future of [`status`](Self::status) or
    /// [`output`](Self::output), kills the process. By default the process runs on.
    ///
    /// Only the process itself is killed, not the processes that it has started.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::process::Command;
    /// use std::time::Duration;
    ///
    /// let mut command = Command::new("sleep");
    /// command.arg("1000").kill_on_drop(true);
    /// let limit = Duration::from_millis(10);
    /// assert!(runtime::time::timeout(limit, command.status()).await.is_err(), "and nothing sleeps on");
    /// # });
    /// ```
    pub fn kill_on_drop(&mut self, kill_on_drop: bool) -> &mut Command {
        self.kill_on_drop = kill_on_drop;
        self
    }

    /// Returns the value of [`kill_on_drop`](Self::kill_on_drop), which is `false` by default.
    pub fn get_kill_on_drop(&self) -> bool {
        self.kill_on_drop
    }

    /// Sets the child's user, by number. A failure to become that user is an error of the spawn.
    pub fn uid(&mut self, id: u32) -> &mut Command {
        self.std.uid(id);
        self
    }

    /// Sets the child's group of users, by number, as [`uid`](Self::uid) sets its user.
    pub fn gid(&mut self, id: u32) -> &mut Command {
        self.std.gid(id);
        self
    }

    /// Sets the child's process group, by number. 0 makes a new group, with the child's number.
    ///
    /// A signal that a terminal sends to its group, as Ctrl-C does, does not reach a child in another group.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::process::Command;
    ///
    /// let mut child = Command::new("sleep").arg("1000").process_group(0).spawn()?;
    /// let group = child.id().expect("it runs") as libc::pid_t;
    /// // SAFETY: a call of the system without pointers.
    /// assert_eq!(unsafe { libc::killpg(group, libc::SIGTERM) }, 0);
    /// assert!(!child.wait().await?.success());
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub fn process_group(&mut self, pgroup: i32) -> &mut Command {
        self.std.process_group(pgroup);
        self
    }

    /// Adds a closure that the child calls before it becomes the program. If the closure returns an error, it
    /// is the error of the spawn.
    ///
    /// # Safety
    /// 1. `f` runs in the child between `fork` and `exec`, where the only thread is a copy of the thread that
    ///    called `spawn`. Threads that do not exist there may hold locks, that of the allocator included. So
    ///    `f` must call only what is safe in a signal handler: no allocation, no lock, no panic that
    ///    allocates. 2. `f` must leave the descriptors open that the standard library uses for the child, and
    ///    must not rely on memory that it shares with this process.
    pub unsafe fn pre_exec<F>(&mut self, f: F) -> &mut Command
    where
        F: FnMut() -> io::Result<()> + Send + Sync + 'static,
    {
        // SAFETY: (1), (2).
        unsafe { self.std.pre_exec(f) };
        self
    }
}

/// Starting the program.
impl Command {
    /// Starts the program.
    ///
    /// The calling thread waits until the program has begun or the system says why not. This takes mostly
    /// less than a millisecond, and longer if this process has much memory or the program is on a slow disk.
    /// If that is too long, use [`spawn_blocking`](crate::task::spawn_blocking).
    ///
    /// # Errors
    /// With the name of the program, and the directory if it was set: [`NotFound`](io::ErrorKind::NotFound)
    /// if either is not there, [`PermissionDenied`](io::ErrorKind::PermissionDenied),
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if the system allows no more processes. With the feature
    /// `raw-os-errors` the errors stay as the system reports them.
    ///
    /// If the process was started and cannot be watched, because no descriptors are left or the runtime was
    /// shut down, it is killed.
    ///
    /// # Panics
    /// Outside of a runtime, or if its I/O is not enabled, before anything was started: call it inside
    /// `block_on`, a task, or the scope of `Handle::enter`, and build the runtime with `enable_io` or
    /// `enable_all`.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::process::Command;
    ///
    /// let error = Command::new("no-such-program").spawn().unwrap_err();
    /// assert!(error.to_string().starts_with("spawn no-such-program: "));
    /// assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    /// # });
    /// ```
    #[track_caller]
    pub fn spawn(&mut self) -> io::Result<Child> {
        self.spawn_with(StdCommand::spawn)
    }

    /// Starts the program by `with`, as [`spawn`](Self::spawn) does by [`std::process::Command::spawn`].
    ///
    /// `with` may wait for the child, and return it at once. The number of the process is free for another one
    /// from then on. If that is another child of this process, the returned `Child` watches that one, and its
    /// drop may kill it.
    ///
    /// # Errors
    /// The errors of `with`, otherwise as for [`spawn`](Self::spawn).
    ///
    /// # Panics
    /// As for [`spawn`](Self::spawn).
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::process::Command;
    ///
    /// let mut child = Command::new("true").spawn_with(|std| {
    ///     println!("starting {std:?}");
    ///     std.spawn()
    /// })?;
    /// assert!(child.wait().await?.success());
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    #[track_caller]
    pub fn spawn_with(
        &mut self,
        with: impl FnOnce(&mut StdCommand) -> io::Result<StdChild>,
    ) -> io::Result<Child> {
        exit::require_runtime();
        orphans::sweep();
        let child =
            while_unpinned(|| with(&mut self.std)).map_err(|error| named("spawn", self.subject(), error))?;
        Child::new(child, self.kill_on_drop).map_err(|error| named("spawn", self.subject(), error))
    }

    /// The subject of an error: the program, and the directory where it was to be started.
    fn subject(&self) -> String {
        let program = self.std.get_program().to_string_lossy();
        match self.std.get_current_dir() {
            Some(dir) => format!("{program} in {}", dir.display()),
            None => program.into_owned(),
        }
    }

    /// Starts the program at once, and returns a future that waits for its status.
    ///
    /// Its pipes are closed when the future is first polled. The drop of the future leaves the process
    /// running, unless [`kill_on_drop`](Self::kill_on_drop) was set.
    ///
    /// # Errors
    /// The errors of [`spawn`](Self::spawn) and [`Child::wait`], when the future is awaited.
    ///
    /// # Panics
    /// As for [`spawn`](Self::spawn).
    ///
    /// # Cancel safety
    /// Not safe: the status is lost.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let status = runtime::process::Command::new("true").status().await?;
    /// assert!(status.success());
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    #[track_caller]
    pub fn status(&mut self) -> impl Future<Output = io::Result<ExitStatus>> + use<> {
        let child = self.spawn();
        async {
            let mut child = child?;
            // Otherwise the process might wait for a reader that will never read.
            (child.stdin, child.stdout, child.stderr) = (None, None, None);
            child.wait().await
        }
    }

    /// Starts the program at once, and returns a future that waits for its status and all that it writes.
    ///
    /// From now on the program's output and error stream are pipes, whatever was set. Its input is that of
    /// this process, unless set.
    ///
    /// # Errors
    /// The errors of [`spawn`](Self::spawn) and [`Child::wait_with_output`], when the future is awaited.
    ///
    /// # Panics
    /// As for [`spawn`](Self::spawn).
    ///
    /// # Cancel safety
    /// Not safe: status and output are lost.
    ///
    /// # Examples
    /// ```
    /// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use runtime::process::Command;
    ///
    /// let output = Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]).output().await?;
    /// assert_eq!((output.stdout, output.stderr), (b"out\n".to_vec(), b"err\n".to_vec()));
    /// assert_eq!(output.status.code(), Some(3));
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    #[track_caller]
    pub fn output(&mut self) -> impl Future<Output = io::Result<Output>> + use<> {
        self.std.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.spawn();
        async { child?.wait_with_output().await }
    }
}

impl From<StdCommand> for Command {
    /// Takes over a command of the standard library, without `kill_on_drop`.
    fn from(std: StdCommand) -> Command {
        Command { std, kill_on_drop: false }
    }
}
