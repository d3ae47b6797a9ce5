//! The options for making a directory.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::{backend, entries};

/// Makes directories, with options.
///
/// # Examples
/// ```no_run
/// # #[runtime::main]
/// # async fn main() -> std::io::Result<()> {
/// runtime::fs::DirBuilder::new().recursive(true).mode(0o700).create("a/b/c").await?;
/// # Ok(())
/// # }
/// ```
///
/// Prior art: `tokio::fs::DirBuilder`, `std::fs::DirBuilder`.
#[derive(Debug, Default)]
pub struct DirBuilder {
    recursive: bool,
    mode: Option<u32>,
}

impl DirBuilder {
    /// Creates a builder for one directory, in a directory that exists.
    ///
    /// # Examples
    /// ```
    /// let builder = runtime::fs::DirBuilder::new();
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether the directories above are made as well. A directory that exists is then no error. Off by
    /// default.
    ///
    /// # Examples
    /// ```
    /// let mut builder = runtime::fs::DirBuilder::new();
    /// builder.recursive(true);
    /// ```
    pub fn recursive(&mut self, recursive: bool) -> &mut Self {
        self.recursive = recursive;
        self
    }

    /// Sets the permissions. The process's `umask` removes some of them. The default is `0o777`.
    ///
    /// # Examples
    /// ```
    /// let mut builder = runtime::fs::DirBuilder::new();
    /// builder.mode(0o700);
    /// ```
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = Some(mode);
        self
    }

    /// Makes the directory `path`.
    ///
    /// # Errors
    /// The system's errors, with the path.
    ///
    /// # Cancel safety
    /// Not safe: the directory may have been made or not.
    ///
    /// # Examples
    /// ```no_run
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// runtime::fs::DirBuilder::new().create("data").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(self.recursive);
        self.mode.into_iter().for_each(|mode| _ = builder.mode(mode));
        let made = backend::on_path(path, move |path| builder.create(path)).await;
        made.map_err(|error| entries::about("create directory", path, error))
    }
}
