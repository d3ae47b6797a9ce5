//! Files and directories without blocking other tasks.
//!
//! - [`File`] reads, writes and seeks by the traits of [`io`](crate::io). [`OpenOptions`] says how to open
//!   it. [`File::read_at`] and [`File::write_at`] do not change its position.
//! - [`read()`], [`read_to_string`], [`write()`] and [`copy`] handle whole files.
//! - [`read_dir`] lists a directory. [`create_dir`], [`create_dir_all`] and [`DirBuilder`] make one.
//! - The other functions have the names of `std::fs`.
//!
//! Names and meaning are Tokio's. The book's chapter *Files* has more.
//!
//! # Where a call is made
//! The system answers most calls from memory, within a few microseconds. Handing such a call to another
//! thread takes ten microseconds. So a task of a runtime with several workers makes the call itself, on its
//! worker:
//!
//! - **A read takes what is in memory** (`RWF_NOWAIT`). A thread of the blocking pool reads the rest. So one
//!   task can have many reads at once that wait for the disk.
//! - **Writes, and calls about names**, such as [`metadata`], are made on the worker. If one hangs, other
//!   threads take over the worker's other tasks within some milliseconds, as from any task that holds its
//!   thread. The branches of a `select!` or `join!` in the same task wait, and so do those of a `block_on`.
//! - **Calls that take long by their nature** go to the pool: [`File::sync_all`], [`File::sync_data`],
//!   [`copy`], [`remove_dir_all`]. So do calls that may wait for another process for ever: opening a FIFO,
//!   and reading or writing a FIFO, a terminal or a device.
//!
//! On a `current_thread` runtime no other thread could take over. So all calls go to the pool there, except
//! reads of what is in memory, and moves of a file's position. Without a runtime, every call is made on the
//! calling thread.
//!
//! # Errors
//! An error of a function that takes a path names the operation and the path, and keeps its
//! [`kind`](std::io::Error::kind). Its [source](std::error::Error::source) is the system's error, with the
//! system's number. With the feature `raw-os-errors`, which `compat/tokio` asks for, errors are the system's
//! own. Errors of an open [`File`] always are, because a file does not know its path.
//!
//! # Examples
//! ```
//! # #[runtime::main]
//! # async fn main() -> std::io::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("runtime-fs-{}", std::process::id()));
//! runtime::fs::create_dir_all(&dir).await?;
//! runtime::fs::write(dir.join("greeting"), "hello").await?;
//! assert_eq!(runtime::fs::read_to_string(dir.join("greeting")).await?, "hello");
//!
//! let error = runtime::fs::read(dir.join("absent")).await.unwrap_err();
//! assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
//! runtime::fs::remove_dir_all(&dir).await?;
//! # Ok(())
//! # }
//! ```
//
// For readers of the code: only `backend.rs` decides where a call is made. `system.rs` has the system calls
// that std lacks. `entries.rs` and `whole.rs` have the functions. `file/` is `File`: `handle.rs` has its
// methods, `flow.rs` the work of its poll functions, `at.rs` the calls with an offset.

mod backend;
mod dir_builder;
mod entries;
mod file;
mod file_times;
mod open_options;
mod read_dir;
mod system;
mod whole;

pub use self::dir_builder::DirBuilder;
pub use self::entries::{
    canonicalize, create_dir, create_dir_all, hard_link, metadata, read_link, remove_dir, remove_dir_all,
    remove_file, rename, set_permissions, symlink, symlink_metadata, try_exists,
};
pub use self::file::File;
pub use self::file_times::FileTimes;
pub use self::open_options::OpenOptions;
pub use self::read_dir::{DirEntry, ReadDir, read_dir};
pub use self::whole::{copy, read, read_to_string, write};
