//! The one file that decides where a call to the file system is made.
//!
//! | surroundings ([`Caller`]) | a short call | a read | a lengthy call, or one that may wait for ever |
//! |---|---|---|---|
//! | `Many`: other threads take over | here | here if in memory, else on the pool | on the pool |
//! | `Single`: a `current_thread` runtime | on the pool | here if in memory, else on the pool | on the pool |
//! | `Outside`: no runtime | here | here | here |
//!
//! # Short calls here
//! A short call here is not marked as blocking (`block_in_place`). The scheduler's monitor finds a worker
//! whose poll hangs in a system call, marked or not, and without the mark other tasks were no later. A mark
//! would cost up to half as much as the call, because the worker first offers the tasks that it holds to
//! other workers. `docs/performance/tried.md` has the figures. The budget is charged for each call, so that a
//! loop of calls yields.
//!
//! # Reads
//! With `RWF_NOWAIT` the system copies what is in the page cache, and fails with `EAGAIN` for the rest. So a
//! task that reads cached files starts no thread. A task that reads from a disk does not hold its worker for
//! each block: a disk works in parallel, with as many reads in flight as the pool has threads. A file system
//! that does not know the flag says so. Its regular files are then read by a short call. Linux 5.9 and 5.10
//! return 0 for such a read although the file goes on (`preadv2(2)`, section BUGS), so the flag is not used
//! there.
//!
//! # Calls that may wait for ever
//! Opening a FIFO waits for the other end. Reading a terminal waits for its user. In a `select!` the other
//! branches must go on meanwhile, so those calls go to the pool, except outside of a runtime. An open looks
//! at the path's kind before. This takes a third of the time of the open itself. `fs::read` then need not ask
//! for the file's size. If the path is replaced in between, the worker hangs, as it does for a slow disk.
//!
//! # Another back end
//! A simulated disk or io_uring would have to replace the functions of this file.

use std::fs::{File as StdFile, FileType, OpenOptions as StdOpenOptions};
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};

use super::system;
use crate::coop;
use crate::io::transfer;
use crate::runtime::handle::Handle;
use crate::runtime::spawn;
use crate::scheduler::context;
use crate::scheduler::elsewhere::call_beside;
use crate::sync::oneshot;
use crate::task::{JoinHandle, spawn_blocking};
use crate::util::as_tokio;

/// The surroundings of the calling code, as far as they matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caller {
    /// A runtime whose other threads take over if this thread hangs; or the thread of a `block_on`, which
    /// belongs to its caller.
    Many,
    /// A `current_thread` runtime. If this thread hangs, the runtime hangs.
    Single,
    /// No runtime, so there is no pool.
    Outside,
}

fn caller() -> Caller {
    match context::current() {
        None if as_tokio::IS_STRICT => panic!("{}", spawn::no_runtime("fs")),
        None => Caller::Outside,
        // SAFETY: the thread has entered this runtime, whose state is valid until the thread leaves it, which
        // is not before this function returns.
        Some(shared) if unsafe { shared.as_ref() }.is_current_thread() => Caller::Single,
        Some(_) => Caller::Many,
    }
}

/// Whether to make a short call here. If so, it spends budget.
///
/// It waits for budget first, and may be dropped then.
async fn is_here() -> bool {
    poll_fn(coop::poll_has_budget).await;
    let is_here = caller() != Caller::Single;
    if is_here {
        coop::spend();
    }
    is_here
}

/// Makes a short call with a path.
pub async fn on_path<T: Send + 'static>(
    path: &Path,
    call: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    if is_here().await {
        return call(path);
    }
    let path = path.to_owned();
    Job::start(move || call(&path)).await?
}

/// Makes a short call with two paths.
pub async fn on_paths<T: Send + 'static>(
    (one, other): (&Path, &Path),
    call: impl FnOnce(&Path, &Path) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    if is_here().await {
        return call(one, other);
    }
    let (one, other) = (one.to_owned(), other.to_owned());
    Job::start(move || call(&one, &other)).await?
}

/// Makes a short call with a value that several threads may use.
pub async fn on_shared<S: Send + Sync + 'static, T: Send + 'static>(
    shared: &Arc<S>,
    call: impl FnOnce(&S) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    if is_here().await {
        return call(shared);
    }
    let shared = shared.clone();
    Job::start(move || call(&shared)).await?
}

/// Makes a call that takes long by its nature.
pub async fn lengthy<T: Send + 'static>(
    call: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match start_lengthy(call) {
        Ok(job) => job.await?,
        Err(call) => call(),
    }
}

/// Starts a call that takes long by its nature. Outside of a runtime it returns the call, and the caller
/// makes it.
pub fn start_lengthy<T: Send + 'static, C: FnOnce() -> T + Send + 'static>(call: C) -> Result<Job<T>, C> {
    match caller() {
        Caller::Outside => Err(call),
        Caller::Many | Caller::Single => Ok(Job::start(call)),
    }
}

/// Makes a call as [`lengthy`] does, with a path.
pub async fn lengthy_on_path<T: Send + 'static>(
    path: &Path,
    call: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let path = path.to_owned();
    lengthy(move || call(&path)).await
}

/// A call on the blocking pool, as a future of its result. If the future is dropped, the call is made all the
/// same, unless the runtime ends before it begins.
///
/// The result is an error if the call is not made, because the runtime was shut down, or the system refused a
/// thread.
#[derive(Debug)]
pub enum Job<T> {
    Plain(JoinHandle<T>),
    Sure(oneshot::Receiver<T>),
}

impl<T: Send + 'static> Job<T> {
    /// Starts a call.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn start(call: impl FnOnce() -> T + Send + 'static) -> Self {
        Self::Plain(spawn_blocking(call))
    }

    /// Starts a call that must be made in any case, because its caller was told that it will be. If the call
    /// cannot begin, the thread that drops it makes it, or has it made by a thread of its own if it may wait
    /// for ever: the end of a runtime may have a limit.
    pub fn start_surely(may_wait: bool, call: impl FnOnce() -> T + Send + 'static) -> Self {
        let (sender, receiver) = oneshot::channel();
        let call = move || _ = sender.send(call());
        let surely = Surely { call: Some(call), runtime: may_wait.then(Handle::current) };
        drop(spawn_blocking(move || surely.run()));
        Self::Sure(receiver)
    }
}

/// See [`Job::start_surely`].
struct Surely<F: FnOnce() + Send + 'static> {
    /// There until it begins.
    call: Option<F>,
    /// That of a call that may wait for ever.
    runtime: Option<Handle>,
}

impl<F: FnOnce() + Send + 'static> Surely<F> {
    fn run(mut self) {
        self.call.take().into_iter().for_each(|call| call());
    }
}

impl<F: FnOnce() + Send + 'static> Drop for Surely<F> {
    fn drop(&mut self) {
        match (self.call.take(), &self.runtime) {
            (Some(call), Some(runtime)) => call_beside(Some(runtime.reference().clone()), call),
            (Some(call), None) => call(),
            (None, _) => {}
        }
    }
}

impl<T> Future for Job<T> {
    type Output = io::Result<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        Poll::Ready(match self.get_mut() {
            Self::Plain(handle) => ready!(Pin::new(handle).poll(cx)).map_err(io::Error::from),
            Self::Sure(receiver) => ready!(Pin::new(receiver).poll(cx)).map_err(io::Error::other),
        })
    }
}

/// Returns whether a call on a file of this type may wait without limit for another process.
fn may_wait_for_ever(file: FileType) -> bool {
    !(file.is_file() || file.is_dir())
}

/// A file that was opened, and what is known about it.
#[derive(Debug)]
pub struct Opened {
    pub std: StdFile,
    pub route: Route,
    /// The number of its bytes; 0 if unknown.
    pub size: u64,
}

/// Opens a file by a short call. `None` if the open may wait for ever, or must be made on the pool. The
/// caller then makes the open and its next calls there in one job.
///
/// `is_new` says that the open fails if the file exists.
pub async fn open_here(options: &StdOpenOptions, path: &Path, is_new: bool) -> Option<io::Result<Opened>> {
    if !is_here().await {
        return None;
    }
    // If this fails, the open will say why.
    let found = if is_new { None } else { std::fs::metadata(path).ok() };
    let may_wait = found.as_ref().is_some_and(|found| may_wait_for_ever(found.file_type()));
    if may_wait && caller() == Caller::Many {
        return None;
    }
    let size = found.map_or(0, |found| found.len());
    let opened = |std| Opened { std, route: Route { may_wait: Some(may_wait), ..Route::UNKNOWN }, size };
    Some(options.open(path).map(opened))
}

/// How calls on a file are made, as far as the file has shown.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// Whether a call may wait without limit for another process. `None` until a call has to know it.
    may_wait: Option<bool>,
    /// The file has not refused `RWF_NOWAIT`.
    knows_nowait: bool,
}

impl Route {
    /// The route of a file about which nothing is known.
    pub const UNKNOWN: Self = Self { may_wait: None, knows_nowait: true };

    /// Returns whether to make a short call on `file` here. Otherwise it must be made on the pool.
    fn is_here(&mut self, file: &StdFile) -> bool {
        match caller() {
            Caller::Outside => true,
            Caller::Single => false,
            Caller::Many => !self.may_wait(file),
        }
    }

    /// Whether a call on `file` may wait without limit for another process.
    pub fn may_wait(&mut self, file: &StdFile) -> bool {
        *self.may_wait.get_or_insert_with(|| {
            // A descriptor that cannot be examined is wrong, and a call on it fails at once.
            file.metadata().is_ok_and(|found| may_wait_for_ever(found.file_type()))
        })
    }

    /// Reads into `bytes`, from the first on, at the file's position or at `offset`. Returns the number of
    /// bytes, or `None` if the read must be made on the pool.
    pub fn read(
        &mut self,
        file: &StdFile,
        bytes: &mut [MaybeUninit<u8>],
        offset: Option<u64>,
    ) -> Option<io::Result<usize>> {
        if self.asks_for_cached() {
            match uninterrupted(|| system::read_cached(file, bytes, offset)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) if system::is_unknown_flag(&error) => self.knows_nowait = false,
                result => return Some(result),
            }
        }
        self.is_here(file).then(|| {
            uninterrupted(|| match offset {
                None => transfer::read(file, bytes),
                Some(offset) => system::read_at(file, bytes, offset),
            })
        })
    }

    /// Reads as [`read`](Self::read) does, into several slices, at `offset`.
    pub fn read_vectored(
        &mut self,
        file: &StdFile,
        slices: &mut [IoSliceMut<'_>],
        offset: u64,
    ) -> Option<io::Result<usize>> {
        if self.asks_for_cached() {
            match uninterrupted(|| system::read_vectored_at(file, slices, offset, libc::RWF_NOWAIT)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) if system::is_unknown_flag(&error) => self.knows_nowait = false,
                result => return Some(result),
            }
        }
        self.is_here(file).then(|| uninterrupted(|| system::read_vectored_at(file, slices, offset, 0)))
    }

    /// Whether to try with `RWF_NOWAIT`. Outside of a runtime the read is made here anyway.
    fn asks_for_cached(&self) -> bool {
        static IS_RIGHT: LazyLock<bool> = LazyLock::new(system::nowait_is_right);
        self.knows_nowait && *IS_RIGHT && caller() != Caller::Outside
    }

    /// Writes the beginning of `slices`, at the file's position or at `offset`. Returns the number of bytes,
    /// or `None` if the write must be made on the pool.
    pub fn write(
        &mut self,
        file: &StdFile,
        slices: &[IoSlice<'_>],
        offset: Option<u64>,
    ) -> Option<io::Result<usize>> {
        self.is_here(file).then(|| {
            uninterrupted(|| match (slices, offset) {
                ([bytes], None) => transfer::write(file, bytes),
                (_, None) => transfer::write_vectored(file, slices),
                (_, Some(offset)) => system::write_vectored_at(file, slices, offset),
            })
        })
    }

    /// Sets the file's length. `None` if the call must be made on the pool.
    pub fn set_len(&mut self, file: &StdFile, len: u64) -> Option<io::Result<()>> {
        self.is_here(file).then(|| file.set_len(len))
    }
}

/// Repeats `call` while a signal interrupts it.
pub fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// A source of items, which gives its next item here, or many items at once on the pool.
#[derive(Debug)]
pub enum Batches<S, B> {
    Here(S),
    OnPool(Job<(S, B)>),
    /// The source is lost: a call on the pool has no result, because the runtime ended, the system refused
    /// a thread, or the call panicked.
    Lost,
}

/// The result of [`Batches`]: the next item, or a batch.
#[derive(Debug)]
pub enum Batch<T, B> {
    Here(T),
    Fetched(B),
}

impl<S: Send + 'static, B: Send + 'static> Batches<S, B> {
    pub fn new(source: S) -> Self {
        Self::Here(source)
    }

    /// Calls `one` here, or `many` on the pool.
    ///
    /// An error says that the call on the pool could not be made. The source is lost then, and later calls
    /// fail as well.
    pub fn poll_next<T>(
        &mut self,
        cx: &mut Context<'_>,
        one: fn(&mut S) -> T,
        many: fn(&mut S) -> B,
    ) -> Poll<io::Result<Batch<T, B>>> {
        ready!(coop::poll_has_budget(cx));
        loop {
            match self {
                Self::Here(source) if caller() != Caller::Single => {
                    coop::spend();
                    return Poll::Ready(Ok(Batch::Here(one(source))));
                }
                Self::Here(_) => {
                    let Self::Here(mut source) = std::mem::replace(self, Self::Lost) else { unreachable!() };
                    *self = Self::OnPool(Job::start(move || {
                        let batch = many(&mut source);
                        (source, batch)
                    }));
                }
                Self::OnPool(job) => {
                    let made = ready!(Pin::new(job).poll(cx));
                    *self = Self::Lost;
                    let (source, batch) = made?;
                    *self = Self::Here(source);
                    return Poll::Ready(Ok(Batch::Fetched(batch)));
                }
                Self::Lost => {
                    return Poll::Ready(Err(io::Error::other("an earlier call on a blocking thread failed")));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_repeated_while_signals_interrupt_it_and_no_longer() {
        let mut kinds = [ErrorKind::Interrupted, ErrorKind::Interrupted, ErrorKind::WouldBlock].into_iter();
        let result = uninterrupted(|| io::Result::<()>::Err(kinds.next().expect("no more").into()));
        assert_eq!(result.unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(uninterrupted(|| Ok(7)).unwrap(), 7);
    }

    #[test]
    fn a_call_that_must_be_made_is_made_by_its_dropper() {
        let runtime = crate::Runtime::new().unwrap();
        let handle = runtime.handle().clone();
        drop(runtime);
        let _guard = handle.enter();
        let (sender, receiver) = std::sync::mpsc::channel();
        let job = Job::start_surely(false, move || sender.send(7).is_ok());
        assert_eq!(receiver.try_recv(), Ok(7));
        assert!(crate::util::block_on::block_on(job).unwrap());
        assert!(crate::util::block_on::block_on(Job::start(|| ())).is_err(), "the other kind is not");
    }
}
