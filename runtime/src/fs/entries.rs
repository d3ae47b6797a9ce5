//! Functions that take paths: metadata, permissions, directories, links, removing and renaming.
//!
//! Each calls the std function of the same name. `backend.rs` decides which thread makes the call.

use std::fs::{Metadata, Permissions};
use std::io;
use std::path::{Path, PathBuf};

use super::backend;
use crate::util::named_error::named;

/// Adds the operation and the path to an error.
pub(super) fn about(what: &'static str, path: &Path, error: io::Error) -> io::Error {
    // With quotes, so that invisible characters of a path are shown.
    named(what, format_args!("{path:?}"), error)
}

fn about_both(what: &'static str, one: &Path, other: &Path, error: io::Error) -> io::Error {
    named(what, format_args!("{one:?} to {other:?}"), error)
}

/// A function that makes one call of std's with a path. `$safety` is its text about cancel safety.
macro_rules! on_path {
    ($($(#[$doc:meta])* $what:literal $name:ident -> $result:ty, $place:ident, $safety:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// The system's errors, with the path.
        ///
        /// # Cancel safety
        #[doc = $safety]
        pub async fn $name(path: impl AsRef<Path>) -> io::Result<$result> {
            let path = path.as_ref();
            let result = backend::$place(path, |path| std::fs::$name(path)).await;
            result.map_err(|error| about($what, path, error))
        }
    )*};
}

on_path! {
    /// Returns the absolute form of a path, with all symbolic links followed.
    ///
    /// # Examples
    /// ```
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// assert_eq!(runtime::fs::canonicalize("/proc/../.").await?.to_str(), Some("/"));
    /// # Ok(())
    /// # }
    /// ```
    "canonicalize" canonicalize -> PathBuf, on_path, "Safe.";

    /// Makes a directory, in a directory that exists.
    ///
    /// # Examples
    /// ```no_run
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// runtime::fs::create_dir("data").await?;
    /// # Ok(())
    /// # }
    /// ```
    "create directory" create_dir -> (), on_path, "Not safe: it may have been made or not.";

    /// Makes a directory, and those above it that do not exist.
    ///
    /// # Examples
    /// ```no_run
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// runtime::fs::create_dir_all("data/2026/may").await?;
    /// # Ok(())
    /// # }
    /// ```
    "create directory" create_dir_all -> (), on_path, "Not safe: any of them may have been made.";

    /// Returns what the system knows of a file or directory: size, times, permissions. It follows symbolic
    /// links.
    ///
    /// # Examples
    /// ```
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// assert!(runtime::fs::metadata("/").await?.is_dir());
    /// # Ok(())
    /// # }
    /// ```
    "metadata of" metadata -> Metadata, on_path, "Safe.";

    /// Returns what the system knows of a file, directory or symbolic link itself.
    ///
    /// # Examples
    /// ```
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// assert!(runtime::fs::symlink_metadata("/proc/self").await?.is_symlink());
    /// # Ok(())
    /// # }
    /// ```
    "metadata of" symlink_metadata -> Metadata, on_path, "Safe.";

    /// Returns the target of a symbolic link.
    ///
    /// # Examples
    /// ```
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let id = runtime::fs::read_link("/proc/self").await?;
    /// assert_eq!(id.to_str(), Some(std::process::id().to_string().as_str()));
    /// # Ok(())
    /// # }
    /// ```
    "read link" read_link -> PathBuf, on_path, "Safe.";

    /// Removes an empty directory.
    ///
    /// # Examples
    /// ```no_run
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// runtime::fs::remove_dir("data").await?;
    /// # Ok(())
    /// # }
    /// ```
    "remove directory" remove_dir -> (), on_path, "Not safe: it may have been removed or not.";

    /// Removes a directory with everything in it. Symbolic links in it are removed, not followed.
    ///
    /// A thread of the blocking pool does this.
    ///
    /// # Examples
    /// ```no_run
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// runtime::fs::remove_dir_all("data").await?;
    /// # Ok(())
    /// # }
    /// ```
    "remove directory" remove_dir_all -> (), lengthy_on_path,
        "Not safe: it goes on, unless it had not begun.";

    /// Removes a file, or one of its names. A process that has the file open can use it until it closes the
    /// file.
    ///
    /// # Examples
    /// ```no_run
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// runtime::fs::remove_file("notes.txt").await?;
    /// # Ok(())
    /// # }
    /// ```
    "remove" remove_file -> (), on_path, "Not safe: it may have been removed or not.";
}

/// Returns whether a path exists. It follows symbolic links.
///
/// # Errors
/// The system's errors, with the path, if the system does not say either way, for instance because a
/// permission is missing.
///
/// # Cancel safety
/// Safe.
///
/// # Examples
/// ```
/// # #[runtime::main]
/// # async fn main() -> std::io::Result<()> {
/// assert!(runtime::fs::try_exists("/").await?);
/// assert!(!runtime::fs::try_exists("/no/such/file").await?);
/// # Ok(())
/// # }
/// ```
pub async fn try_exists(path: impl AsRef<Path>) -> io::Result<bool> {
    let path = path.as_ref();
    let result = backend::on_path(path, |path| path.try_exists()).await;
    result.map_err(|error| about("metadata of", path, error))
}

/// Changes the permissions of a file or directory. It follows symbolic links.
///
/// # Errors
/// The system's errors, with the path.
///
/// # Cancel safety
/// Not safe: the permissions may have been changed or not.
///
/// # Examples
/// ```no_run
/// # #[runtime::main]
/// # async fn main() -> std::io::Result<()> {
/// use std::os::unix::fs::PermissionsExt;
///
/// let permissions = std::fs::Permissions::from_mode(0o600);
/// runtime::fs::set_permissions("secret", permissions).await?;
/// # Ok(())
/// # }
/// ```
pub async fn set_permissions(path: impl AsRef<Path>, perm: Permissions) -> io::Result<()> {
    let path = path.as_ref();
    let result = backend::on_path(path, move |path| std::fs::set_permissions(path, perm)).await;
    result.map_err(|error| about("set permissions of", path, error))
}

/// A function that makes one call with two paths.
macro_rules! on_paths {
    ($(
        $(#[$doc:meta])*
        $what:literal $name:ident($one:ident, $other:ident), $call:path, $safety:literal;
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// The system's errors, with both paths.
        ///
        /// # Cancel safety
        #[doc = $safety]
        pub async fn $name($one: impl AsRef<Path>, $other: impl AsRef<Path>) -> io::Result<()> {
            let ($one, $other) = ($one.as_ref(), $other.as_ref());
            let result = backend::on_paths(($one, $other), |one, other| $call(one, other)).await;
            result.map_err(|error| about_both($what, $one, $other, error))
        }
    )*};
}

on_paths! {
    /// Gives a file another name. A file that has this name already is replaced. Both names must be on one
    /// file system.
    ///
    /// # Examples
    /// ```no_run
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// runtime::fs::rename("settings.new", "settings").await?;
    /// # Ok(())
    /// # }
    /// ```
    "rename" rename(from, to), std::fs::rename,
        "Not safe: it may have been renamed or not, but nothing in between.";

    /// Gives a file a second name, `link`, on the same file system.
    ///
    /// # Examples
    /// ```no_run
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// runtime::fs::hard_link("a", "b").await?;
    /// # Ok(())
    /// # }
    /// ```
    "link" hard_link(original, link), std::fs::hard_link, "Not safe: the name may have been made or not.";

    /// Makes a symbolic link `link` that points to `original`, which need not exist.
    ///
    /// # Examples
    /// ```no_run
    /// # #[runtime::main]
    /// # async fn main() -> std::io::Result<()> {
    /// runtime::fs::symlink("releases/17", "current").await?;
    /// # Ok(())
    /// # }
    /// ```
    "link" symlink(original, link), std::os::unix::fs::symlink,
        "Not safe: the link may have been made or not.";
}

/// Adds the operation and both paths to an error of a copy.
pub(super) fn about_copy(from: &Path, to: &Path, error: io::Error) -> io::Error {
    about_both("copy", from, to, error)
}
