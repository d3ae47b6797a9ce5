//! Calls that hang, and the tasks that go on meanwhile.
#![cfg(feature = "fs")]

mod fs_support;
mod support;

use std::fs::File as StdFile;
use std::os::fd::AsRawFd;
use std::path::Path;

use fs_support::{Dir, both_ends, poll_once};
use runtime::fs;
use runtime::io::AsyncWriteExt;
use support::{build, builder, watchdog};

/// A lease on a file: a thread that opens the file hangs in the call, until the lease is given back. That is
/// the slow disk.
struct Lease(StdFile);

impl Lease {
    /// None if the file system has no leases.
    fn take(path: &Path) -> Option<Lease> {
        // The system tells the lease's holder that a thread waits, by a signal that would end the process.
        // SAFETY: no handler is installed: the signal is ignored from now on.
        unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
        let file = StdFile::options().write(true).open(path).unwrap();
        // SAFETY: the call only asks the system for something.
        let taken = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) } == 0;
        taken.then_some(Lease(file))
    }

    fn give_back(self) {
        // SAFETY: as above.
        assert_eq!(unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) }, 0);
    }
}

#[test]
fn while_a_call_hangs_the_other_tasks_go_on() {
    let _watchdog = watchdog();
    for workers in support::KINDS {
        let runtime = build(workers);
        let dir = Dir::new();
        let path = dir.file("file", "late");
        let Some(lease) = Lease::take(&path) else { return };
        runtime.block_on(async {
            let opening = runtime::spawn(async move { fs::read(path).await });
            // It is given back by a task that the hanging one would hold.
            let other = runtime::spawn(async move {
                for _ in 0..10 {
                    runtime::time::sleep(std::time::Duration::from_millis(1)).await;
                }
                lease.give_back();
            });
            other.await.unwrap();
            assert_eq!(opening.await.unwrap().unwrap(), b"late");
        });
    }
}

#[test]
fn a_fifo_without_another_end_holds_no_branch_of_its_own_task() {
    let _watchdog = watchdog();
    support::each_kind(|runtime| {
        let dir = Dir::new();
        let fifo = dir.fifo("fifo");
        let reader = runtime.block_on(async {
            let mut reading = Box::pin(fs::File::open(fifo.clone()));
            assert!(poll_once(&mut reading).is_pending());
            let mut options = fs::OpenOptions::new();
            options.write(true);
            let (reader, writer) = runtime::join!(reading, options.open(fifo.clone()));
            drop(writer.unwrap());
            reader.unwrap()
        });
        drop(reader);
    });
}

#[test]
fn a_runtime_ends_while_a_call_hangs() {
    let _watchdog = watchdog();
    let dir = Dir::new();
    let path = dir.file("file", "late");
    let Some(lease) = Lease::take(&path) else { return };
    let runtime = build(1);
    let (begins, begun) = std::sync::mpsc::channel();
    let opening = runtime.spawn(async move {
        begins.send(support::thread_number()).unwrap();
        fs::read(path).await
    });
    // In the call, or idle while the pool makes the call.
    support::until_asleep(begun.recv().unwrap());
    runtime.shutdown_timeout(std::time::Duration::from_millis(10));
    lease.give_back();
    drop(opening);
}

/// The write has been promised, and has not begun when the runtime ends.
#[test]
fn a_runtime_ends_while_a_fifo_is_full() {
    let _watchdog = watchdog();
    for workers in [0, 1] {
        let dir = Dir::new();
        let mut fifo = both_ends(&dir.fifo("fifo"));
        // SAFETY: the call sets the size of a pipe, here to one page.
        let size = unsafe { libc::fcntl(fifo.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) };
        std::io::Write::write_all(&mut fifo, &vec![b'x'; size.try_into().unwrap()]).unwrap();
        let runtime = builder(workers).max_blocking_threads(1).build().unwrap();
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let blocks = runtime.spawn_blocking(move || _ = gate.recv());
        let mut file = fs::File::from_std(fifo.try_clone().unwrap());
        runtime.block_on(async { assert_eq!(file.write(b"last").await.unwrap(), 4) });
        drop(file);
        runtime.shutdown_timeout(std::time::Duration::from_millis(10));
        let mut read = vec![0; 4096 + 4];
        std::io::Read::read_exact(&mut fifo, &mut read).unwrap();
        assert!(read.ends_with(b"last"), "the write was made all the same");
        drop((open, blocks));
    }
}
