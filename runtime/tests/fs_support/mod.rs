//! What the tests of files share: a directory of their own, FIFOs, errors that name their path.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::ffi::CString;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};

use runtime::Runtime;
use runtime::fs::File;
use runtime::io::AsyncReadExt;

use crate::support::{self, each_kind};

/// A directory that is removed when dropped.
pub struct Dir(PathBuf);

impl Dir {
    pub fn new() -> Dir {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("runtime-fs-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        // Of an earlier process of this number, which was killed.
        _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Dir(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A file with `bytes` in it.
    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    pub fn fifo(&self, name: &str) -> PathBuf {
        let path = self.join(name);
        let bytes = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: the name ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(bytes.as_ptr(), 0o600) }, 0, "{}", io::Error::last_os_error());
        path
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A FIFO that is open at both ends, so that neither waits for the other.
pub fn both_ends(fifo: &Path) -> std::fs::File {
    std::fs::File::options().read(true).write(true).open(fifo).unwrap()
}

/// Runs what `test` makes on a runtime of each kind, once in `block_on` and once in a task.
pub fn everywhere<F: Future<Output = ()> + Send + 'static>(test: impl Fn() -> F) {
    each_kind(|runtime| {
        runtime.block_on(test());
        runtime.block_on(runtime.spawn(test())).unwrap();
    });
}

pub fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A `current_thread` runtime with a pool of one thread. It reads files of `/proc` there, as they cannot say
/// what is in memory.
pub fn runtime_with_one_blocking_thread() -> Runtime {
    support::builder(0).max_blocking_threads(1).build().unwrap()
}

/// Begins to read 8 bytes, while the pool has something else to do, and drops the future.
pub fn begin_to_read(file: &mut File) {
    begin_to_read_up_to(8, file);
}

/// The same, for so many bytes.
pub fn begin_to_read_up_to(len: usize, file: &mut File) {
    let (go_on, may_go_on) = mpsc::channel::<()>();
    runtime::task::spawn_blocking(move || _ = may_go_on.recv());
    assert!(poll_once(file.read(&mut vec![0; len])).is_pending());
    drop(go_on);
}

/// Checks that `result` is an error of this kind, that its text has each part of `says` (what was tried, with
/// which path), and that its source is the system's error with this number. With the feature `raw-os-errors`
/// it checks the kind and the number only.
#[track_caller]
pub fn check_error<T>(result: io::Result<T>, kind: ErrorKind, number: Option<i32>, says: &[&str]) {
    let error = result.err().expect("an error");
    assert_eq!(error.kind(), kind, "{error}");
    if cfg!(feature = "raw-os-errors") {
        assert_eq!(error.raw_os_error(), number, "{error}");
        return;
    }
    let text = error.to_string();
    says.iter().for_each(|part| assert!(text.contains(part), "{text:?} lacks {part:?}"));
    let source = error.get_ref().and_then(|error| error.source()).expect("the system's error");
    let source = source.downcast_ref::<io::Error>().expect("an `io::Error`");
    assert_eq!((source.raw_os_error(), source.kind()), (number, kind));
}
