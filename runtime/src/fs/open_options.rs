//! The options for opening a file.

use std::fs::OpenOptions as StdOpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::backend::{self, Opened, Route};
use super::entries;
use super::file::File;

/// Opens files, with options: for reading, writing, or both, and what to do if the file exists or not.
///
/// New options open nothing until at least one of [`read`](Self::read), [`write`](Self::write) and
/// [`append`](Self::append) is set.
///
/// # Examples
/// ```no_run
/// # #[runtime::main]
/// # async fn main() -> std::io::Result<()> {
/// use runtime::fs::OpenOptions;
///
/// let file = OpenOptions::new().read(true).write(true).create(true).open("counter").await?;
/// # Ok(())
/// # }
/// ```
///
/// Prior art: `tokio::fs::OpenOptions`, `std::fs::OpenOptions`.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    std: StdOpenOptions,
    creates_new: bool,
}

impl OpenOptions {
    /// Creates options that are all off.
    ///
    /// # Examples
    /// ```
    /// let options = runtime::fs::OpenOptions::new();
    /// ```
    pub fn new() -> OpenOptions {
        StdOpenOptions::new().into()
    }

    /// Sets whether the file can be read.
    ///
    /// # Examples
    /// ```
    /// let mut options = runtime::fs::OpenOptions::new();
    /// options.read(true);
    /// ```
    pub fn read(&mut self, read: bool) -> &mut OpenOptions {
        self.std.read(read);
        self
    }

    /// Sets whether the file can be written. A write overwrites the bytes at its place, and the rest of the
    /// file stays.
    ///
    /// # Examples
    /// ```
    /// let mut options = runtime::fs::OpenOptions::new();
    /// options.write(true);
    /// ```
    pub fn write(&mut self, write: bool) -> &mut OpenOptions {
        self.std.write(write);
        self
    }

    /// Sets whether each write goes to the end of the file, wherever the end is by then.
    ///
    /// # Examples
    /// ```
    /// let mut options = runtime::fs::OpenOptions::new();
    /// options.append(true).create(true);
    /// ```
    pub fn append(&mut self, append: bool) -> &mut OpenOptions {
        self.std.append(append);
        self
    }

    /// Sets whether the file is emptied when it is opened. It needs [`write`](Self::write).
    ///
    /// # Examples
    /// ```
    /// let mut options = runtime::fs::OpenOptions::new();
    /// options.write(true).truncate(true);
    /// ```
    pub fn truncate(&mut self, truncate: bool) -> &mut OpenOptions {
        self.std.truncate(truncate);
        self
    }

    /// Sets whether the file is made if it does not exist. It needs [`write`](Self::write) or
    /// [`append`](Self::append).
    ///
    /// # Examples
    /// ```
    /// let mut options = runtime::fs::OpenOptions::new();
    /// options.write(true).create(true);
    /// ```
    pub fn create(&mut self, create: bool) -> &mut OpenOptions {
        self.std.create(create);
        self
    }

    /// Sets whether opening makes the file, and fails if the file exists, in one step.
    ///
    /// [`create`](Self::create) and [`truncate`](Self::truncate) have no effect then.
    ///
    /// # Examples
    /// ```
    /// let mut options = runtime::fs::OpenOptions::new();
    /// options.write(true).create_new(true);
    /// ```
    pub fn create_new(&mut self, create_new: bool) -> &mut OpenOptions {
        self.std.create_new(create_new);
        self.creates_new = create_new;
        self
    }

    /// Sets the permissions of a file that is made. The process's `umask` removes some of them. The default
    /// is `0o666`.
    ///
    /// # Examples
    /// ```
    /// let mut options = runtime::fs::OpenOptions::new();
    /// options.mode(0o600).write(true).create(true);
    /// ```
    pub fn mode(&mut self, mode: u32) -> &mut OpenOptions {
        self.std.mode(mode);
        self
    }

    /// Sets further flags of `open(2)`, such as `libc::O_NOFOLLOW`, besides those of the other options.
    ///
    /// # Examples
    /// ```
    /// let mut options = runtime::fs::OpenOptions::new();
    /// options.read(true).custom_flags(libc::O_NOFOLLOW);
    /// ```
    pub fn custom_flags(&mut self, flags: i32) -> &mut OpenOptions {
        self.std.custom_flags(flags);
        self
    }

    /// Opens the file at `path`.
    ///
    /// # Errors
    /// The system's errors, with the path. [`InvalidInput`](io::ErrorKind::InvalidInput) if options
    /// contradict each other, or the path contains NUL.
    ///
    /// # Cancel safety
    /// Not safe if the file may be made or emptied: this may have happened or not. Otherwise safe.
    ///
    /// # Examples
    /// ```
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let file = runtime::fs::OpenOptions::new().read(true).open("/proc/self/status").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let path = path.as_ref();
        let opened = match backend::open_here(&self.std, path, self.creates_new).await {
            Some(result) => result.map(|Opened { std, route, .. }| File::with_route(std, route)),
            None => {
                let (options, path) = (self.std.clone(), path.to_owned());
                let opened = backend::lengthy(move || options.open(path)).await;
                opened.map(|std| File::with_route(std, Route::UNKNOWN))
            }
        };
        opened.map_err(|error| entries::about("open", path, error))
    }
}

/// Opening a file.
impl File {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// The system's errors, with the path.
    ///
    /// # Cancel safety
    /// Safe: if the file was opened, it is closed.
    ///
    /// # Examples
    /// ```
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let file = runtime::fs::File::open("/proc/self/status").await?;
    /// assert!(file.metadata().await?.is_file());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open(path: impl AsRef<Path>) -> io::Result<File> {
        Self::options().read(true).open(path).await
    }

    /// Opens a file for writing. The file is made if it does not exist, and emptied if it does.
    ///
    /// # Errors
    /// The system's errors, with the path.
    ///
    /// # Cancel safety
    /// Not safe: the file may have been made and emptied or not.
    ///
    /// # Examples
    /// ```no_run
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// use runtime::io::AsyncWriteExt;
    ///
    /// let mut file = runtime::fs::File::create("notes.txt").await?;
    /// file.write_all(b"first").await?;
    /// file.flush().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create(path: impl AsRef<Path>) -> io::Result<File> {
        Self::options().write(true).create(true).truncate(true).open(path).await
    }

    /// Makes a file and opens it for reading and writing.
    ///
    /// # Errors
    /// [`AlreadyExists`](io::ErrorKind::AlreadyExists) if the file exists; the system's errors, with the
    /// path.
    ///
    /// # Cancel safety
    /// Not safe: the file may have been made or not.
    ///
    /// # Examples
    /// ```no_run
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let file = runtime::fs::File::create_new("lock").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create_new<P: AsRef<Path>>(path: P) -> io::Result<File> {
        Self::options().read(true).write(true).create_new(true).open(path).await
    }

    /// Returns a new [`OpenOptions`].
    ///
    /// # Examples
    /// ```no_run
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let log = runtime::fs::File::options().append(true).open("log").await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }
}

impl From<StdOpenOptions> for OpenOptions {
    fn from(std: StdOpenOptions) -> OpenOptions {
        // Std does not tell which options are set.
        OpenOptions { std, creates_new: false }
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}
