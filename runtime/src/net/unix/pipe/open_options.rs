//! The options with which a FIFO is opened.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::end::{Access, check_is_pipe};
use super::{Receiver, Sender};

/// Opens FIFOs: pipes that are files.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let path = std::env::temp_dir().join(format!("runtime-fifo-{}", std::process::id()));
/// # let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
/// # // SAFETY: reads a string that ends with a zero byte.
/// # assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
/// use runtime::io::{AsyncReadExt, AsyncWriteExt};
/// use runtime::net::unix::pipe;
///
/// let mut receiver = pipe::OpenOptions::new().open_receiver(&path)?;
/// let mut sender = pipe::OpenOptions::new().open_sender(&path)?;
/// sender.write_all(b"hello").await?;
/// let mut buf = [0; 5];
/// receiver.read_exact(&mut buf).await?;
/// # std::fs::remove_file(path)?;
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    read_write: bool,
    unchecked: bool,
}

impl OpenOptions {
    /// Creates options that are all off.
    pub fn new() -> OpenOptions {
        Self::default()
    }

    /// Sets whether an end is opened for both directions, so that the other end always exists. A receiver
    /// then never finds the end of the stream, and a sender need not wait for a receiver.
    pub fn read_write(&mut self, value: bool) -> &mut Self {
        self.read_write = value;
        self
    }

    /// Sets whether files that are not FIFOs are opened, too.
    pub fn unchecked(&mut self, value: bool) -> &mut Self {
        self.unchecked = value;
        self
    }

    /// Opens a FIFO for reading, without waiting for a sender.
    ///
    /// # Errors
    /// The system's errors, unchanged. [`InvalidInput`](io::ErrorKind::InvalidInput) if the file is not a
    /// FIFO.
    ///
    /// # Panics
    /// Outside of a runtime, or if its I/O is not enabled: build it with `enable_io` or `enable_all`.
    #[track_caller]
    pub fn open_receiver<P: AsRef<Path>>(&self, path: P) -> io::Result<Receiver> {
        Receiver::register(self.open(path.as_ref(), Access::Read)?)
    }

    /// Opens a FIFO for writing.
    ///
    /// # Errors
    /// The system's errors, unchanged: `ENXIO` if no process has opened the FIFO for reading.
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if the file is not a FIFO.
    ///
    /// # Panics
    /// Outside of a runtime, or if its I/O is not enabled: build it with `enable_io` or `enable_all`.
    #[track_caller]
    pub fn open_sender<P: AsRef<Path>>(&self, path: P) -> io::Result<Sender> {
        Sender::register(self.open(path.as_ref(), Access::Write)?)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<OwnedFd> {
        let file = File::options()
            .read(access == Access::Read || self.read_write)
            .write(access == Access::Write || self.read_write)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)?;
        if !self.unchecked {
            check_is_pipe(file.as_fd())?;
        }
        Ok(file.into())
    }
}
