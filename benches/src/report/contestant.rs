//! A process that is one peer with one load, seen from outside.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use super::child::{READY, VARIABLE};
use super::order::{Numbers, Order, Turn, from_line};
use super::{before, go};
use crate::peer::{Ours, Peer};

/// What a process gets before its turn begins, so that its threads do what they have missed and fall asleep.
const SETTLE: Duration = Duration::from_millis(1);

/// How long a turn may take, or a start.
const PATIENCE: Duration = Duration::from_secs(30);

/// The process. Between its turns it is stopped.
#[derive(Debug)]
pub struct Contestant {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// The command that runs this program again, with an order, under a tool if `tool` is not empty.
pub fn command(order: &Order, tool: &[&str]) -> io::Result<Command> {
    let this = std::env::current_exe()?;
    let (program, order) = match &*order.peer {
        go::NAME => (go::BUILT.as_ref(), order.clone()),
        // The other build knows itself by our name.
        before::NAME => (before::PROGRAM.get(), Order { peer: Ours::NAME.to_owned(), ..order.clone() }),
        _ => (None, order.clone()),
    };
    let program = program.unwrap_or(&this);
    let mut command = match tool {
        [] => Command::new(program),
        [tool, arguments @ ..] => {
            let mut command = Command::new(tool);
            command.args(arguments).arg(program);
            command
        }
    };
    command.env(VARIABLE, order.to_string()).env(go::PROGRAM, &this);
    // SAFETY: the closure runs between `fork` and `exec`. It makes one system call, which touches no memory,
    // and reads `errno`. It takes no lock, allocates nothing, and leaves the descriptors as they are.
    unsafe {
        command.pre_exec(|| {
            // A stopped contestant would stay so, should this program be ended.
            match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        });
    }
    Ok(command)
}

impl Contestant {
    /// Starts the process and waits until its runtime is there.
    pub fn start(order: &Order) -> io::Result<Self> {
        let mut process = command(order, &[])?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = process.stdin.take().expect("it was asked for");
        let output = BufReader::new(process.stdout.take().expect("it was asked for"));
        let mut contestant = Self { process, input, output };
        let line = contestant.line()?;
        if line.trim() != READY {
            return Err(io::Error::other(format!("{line:?} in place of {READY:?}")));
        }
        contestant.signal(libc::SIGSTOP);
        Ok(contestant)
    }

    /// Lets it take a turn.
    pub fn turn(&mut self, turn: Turn) -> io::Result<Numbers> {
        self.signal(libc::SIGCONT);
        sleep(SETTLE);
        writeln!(self.input, "{turn}")?;
        let line = self.line()?;
        self.signal(libc::SIGSTOP);
        from_line(&line).ok_or_else(|| io::Error::other(format!("no numbers: {line:?}")))
    }

    fn line(&mut self) -> io::Result<String> {
        self.wait()?;
        let mut line = String::new();
        match self.output.read_line(&mut line)? {
            0 => Err(io::Error::other(format!("it ended: {}", self.process.wait()?))),
            _ => Ok(line),
        }
    }

    /// Waits until it says something, or ends.
    fn wait(&self) -> io::Result<()> {
        let mut output =
            libc::pollfd { fd: self.output.get_ref().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let patience = i32::try_from(PATIENCE.as_millis()).expect("it is some minutes at most");
        // SAFETY: the pointer is valid for one descriptor, which is open.
        match unsafe { libc::poll(&mut output, 1, patience) } {
            0 => Err(io::Error::other(format!("it says nothing for {} s", PATIENCE.as_secs()))),
            1 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.process.id()).expect("a process id is an `int`");
        // SAFETY: touches no memory. The process has not been waited for, so that the id is its own.
        unsafe { libc::kill(pid, signal) };
    }
}

impl Drop for Contestant {
    fn drop(&mut self) {
        // It has nothing to put in order. Errors mean that it has ended.
        _ = self.process.kill();
        _ = self.process.wait();
    }
}
