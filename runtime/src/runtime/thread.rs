//! What a program can ask about the calling thread, and about an error.

use std::io;

#[cfg(doc)]
use super::{Builder, Handle, RuntimeMetrics};
use crate::driver::io::is_shut_down_error;
use crate::scheduler::{Worker, context};

/// Returns whether an I/O error says that the runtime of a socket, or of another descriptor, was shut down.
///
/// # Examples
/// ```
/// use runtime::net::UdpSocket;
/// use runtime::runtime::{Runtime, is_rt_shutdown_err};
///
/// let (first, second) = (Runtime::new()?, Runtime::new()?);
/// let socket = first.block_on(UdpSocket::bind("127.0.0.1:0"))?;
/// drop(first);
/// let error = second.block_on(socket.recv(&mut [0; 16])).unwrap_err();
/// assert!(is_rt_shutdown_err(&error));
/// # std::io::Result::Ok(())
/// ```
pub fn is_rt_shutdown_err(error: &io::Error) -> bool {
    is_shut_down_error(error)
}

/// Returns the index of the worker that the calling thread is, or `None` if it is no worker of a runtime.
///
/// The index is that of [`RuntimeMetrics`]' methods, from 0 to [`num_workers`](RuntimeMetrics::num_workers)
/// less 1. A thread that drives a `current_thread` runtime in a `block_on`, also by [`Handle::block_on`], has
/// index 0. A thread that waits beside it for a future of its own has none. The result is also `None` in
/// closures of `spawn_blocking`, in the future of a `block_on` of a runtime with workers, and on [spare
/// workers](Builder::spare_workers), which the metrics do not number.
///
/// A task may be on another worker after each `.await`.
///
/// # Examples
/// ```
/// let runtime = runtime::Builder::new_multi_thread().worker_threads(4).spare_workers(0).build()?;
/// assert_eq!(runtime.block_on(async { runtime::runtime::worker_index() }), None);
/// let task = runtime.spawn(async { runtime::runtime::worker_index() });
/// assert!(runtime.block_on(task).unwrap().is_some_and(|index| index < 4));
/// # std::io::Result::Ok(())
/// ```
///
/// Prior art: `tokio::runtime::worker_index`.
pub fn worker_index() -> Option<usize> {
    context::with_worker(|worker| worker.and_then(Worker::public_index))
}
