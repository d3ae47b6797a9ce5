//! The calls that go through a file in order: reads, writes and moves of its position.
//!
//! If the [`Route`] allows it, the poll function makes the call as one system call, and the call is done when
//! the function returns. Otherwise a [`Job`] makes the call on the blocking pool:
//! - A **read** goes into a buffer of the job. If the read's future is dropped, the bytes stay for the next
//!   read. A write, a move or a change of the length before that read first moves the file back by the number
//!   of bytes that were not taken, unless another handle has moved it since.
//! - A **write** gets a copy of the bytes. The poll function returns at once how many bytes it has copied,
//!   because `Pending` would have to mean that nothing was written. So the next write, flush or sync reports
//!   an error of the write.
//! - A **change of the length** leaves its result here, because its future may be dropped.
//!
//! There is at most one job at a time. The next call waits for it.

use std::fs::File as StdFile;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice, Read, Seek, SeekFrom, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::super::backend::{Job, Route, uninterrupted};
use crate::coop::{self, poll_proceed};
use crate::io::{ReadBuf, transfer};

/// A call on the pool.
#[derive(Debug)]
enum UnderWay {
    Read(Job<io::Result<Fetched>>),
    Write(Job<io::Result<()>>),
    SetLen(Job<io::Result<()>>),
}

/// The bytes of a read on the pool. Empty at the end of the file.
#[derive(Debug)]
struct Fetched {
    bytes: Vec<u8>,
    /// The number of bytes that reads have taken, from the first on.
    taken: usize,
    /// The file's position after the read, if it has one and no other handle moved it meanwhile.
    end: Option<u64>,
}

/// The state of a file's reads, writes and moves.
#[derive(Debug)]
pub struct Flow {
    pub route: Route,
    job: Option<UnderWay>,
    /// The bytes that were read and not taken, or the error of the read.
    fetched: Option<io::Result<Fetched>>,
    /// The error of a write that was reported to its caller as done.
    write_error: Option<io::Error>,
    /// The result of setting the length.
    len_set: Option<io::Result<()>>,
    /// The result of the last move, until `poll_complete` returns it.
    moved: Option<io::Result<u64>>,
    /// The position after the last move that succeeded.
    position: u64,
}

impl Flow {
    pub fn new(route: Route) -> Self {
        let (fetched, write_error, len_set, moved) = (None, None, None, None);
        Self { route, job: None, fetched, write_error, len_set, moved, position: 0 }
    }

    /// Waits until no job is under way.
    pub fn poll_quiet(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.job {
            None => return Poll::Ready(()),
            Some(UnderWay::Read(job)) => self.fetched = Some(ready!(poll_job(job, cx))),
            Some(UnderWay::Write(job)) => self.write_error = ready!(poll_job(job, cx)).err(),
            Some(UnderWay::SetLen(job)) => self.len_set = Some(ready!(poll_job(job, cx))),
        }
        self.job = None;
        Poll::Ready(())
    }

    pub async fn quiet(&mut self) {
        poll_fn(|cx| self.poll_quiet(cx)).await;
    }

    /// Takes the error of a write that was reported as done.
    pub fn take_write_error(&mut self) -> io::Result<()> {
        self.write_error.take().map_or(Ok(()), Err)
    }

    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        file: &Arc<StdFile>,
        buf: &mut ReadBuf<'_>,
        most: usize,
    ) -> Poll<io::Result<()>> {
        let coop = ready!(poll_proceed(cx));
        loop {
            ready!(self.poll_quiet(cx));
            if let Some(fetched) = self.fetched.take() {
                coop.made_progress();
                let mut fetched = fetched?;
                fetched.move_to(buf);
                self.fetched = (!fetched.is_empty()).then_some(Ok(fetched));
                return Poll::Ready(Ok(()));
            }
            let len = buf.remaining().min(most);
            if len == 0 {
                return Poll::Ready(Ok(()));
            }
            let route = &mut self.route;
            // SAFETY: (1) a system call that reads initialises as many bytes as it says, from the first on. A
            // read that is left to the pool says 0. (2) The call writes nothing but initialised bytes.
            let is_done = unsafe {
                transfer::fill(buf, |bytes| match route.read(file, &mut bytes[..len], None) {
                    Some(result) => result.map(|count| (count, true)),
                    None => Ok((0, false)),
                })
            };
            if is_done.as_ref().is_ok_and(|is_done| !is_done) {
                self.fetch(file, len);
                continue;
            }
            coop.made_progress();
            return Poll::Ready(is_done.map(drop));
        }
    }

    /// Begins a read on the pool.
    fn fetch(&mut self, file: &Arc<StdFile>, len: usize) {
        let file = file.clone();
        self.job = Some(UnderWay::Read(Job::start(move || {
            let mut bytes = vec![0; len];
            let position = || (&*file).stream_position().ok();
            let begin = position();
            let count = uninterrupted(|| (&*file).read(&mut bytes))?;
            bytes.truncate(count);
            // Some devices do not move.
            let is_ours = |end: &u64| begin.is_some_and(|begin| [begin, begin + count as u64].contains(end));
            Ok(Fetched { bytes, taken: 0, end: position().filter(is_ours) })
        })));
    }

    /// Moves the file back to behind the bytes that were taken, and forgets the others, or the error of that
    /// read. If another handle has moved the file since the read, the file stays there. The bytes stay for
    /// the next read if the file has no position, as a FIFO, or does not say it, as some devices.
    ///
    /// Other devices, and descriptors such as an eventfd's, say that each move has succeeded, and do not move.
    /// So a move counts only if the position shows it.
    ///
    /// # Errors
    /// The system's, for a file that says its position and cannot be moved. The bytes stay then, too.
    pub fn move_back(&mut self, file: &StdFile) -> io::Result<()> {
        if let Some(Ok(fetched)) = &self.fetched {
            if !fetched.is_empty() && !fetched.give_back(file)? {
                return Ok(());
            }
        }
        self.fetched = None;
        Ok(())
    }

    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        file: &Arc<StdFile>,
        slices: &[IoSlice<'_>],
        most: usize,
    ) -> Poll<io::Result<usize>> {
        let coop = ready!(poll_proceed(cx));
        ready!(self.poll_quiet(cx));
        coop.made_progress();
        self.take_write_error()?;
        self.move_back(file)?;
        // A call takes the first slices whose sum is at most `most`. A slice that is too long goes alone, and
        // only its beginning. Empty slices before it must not keep it from being the first.
        let slices = &slices[slices.iter().take_while(|slice| slice.is_empty()).count()..];
        let mut total = 0_usize;
        let fit = slices.iter().take_while(|slice| {
            total = total.saturating_add(slice.len());
            total <= most
        });
        let fitting = fit.count();
        let first;
        let slices = match (fitting, slices.first()) {
            (0, Some(slice)) => {
                first = [IoSlice::new(&slice[..most])];
                &first[..]
            }
            _ => &slices[..fitting],
        };
        if slices.is_empty() {
            return Poll::Ready(Ok(0));
        }
        Poll::Ready(match self.route.write(file, slices, None) {
            Some(result) => result,
            None => Ok(self.write_later(file, slices)),
        })
    }

    /// Starts a job that writes a copy of `slices`. Returns their length.
    fn write_later(&mut self, file: &Arc<StdFile>, slices: &[IoSlice<'_>]) -> usize {
        let bytes = slices.iter().flat_map(|slice| slice.iter().copied()).collect::<Vec<_>>();
        let (file, len) = (file.clone(), bytes.len());
        let may_wait = self.route.may_wait(&file);
        self.job = Some(UnderWay::Write(Job::start_surely(may_wait, move || (&*file).write_all(&bytes))));
        len
    }

    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_quiet(cx));
        Poll::Ready(self.take_write_error())
    }

    /// Sets the file's length. If the future is dropped, the next call waits for this one.
    pub async fn set_len(&mut self, file: &Arc<StdFile>, len: u64) -> io::Result<()> {
        poll_fn(coop::poll_has_budget).await;
        self.move_back(file)?;
        if let Some(result) = self.route.set_len(file, len) {
            coop::spend();
            return result;
        }
        let file = file.clone();
        self.job = Some(UnderWay::SetLen(Job::start(move || file.set_len(len))));
        self.quiet().await;
        self.len_set.take().unwrap_or(Ok(()))
    }

    /// Moves the file's position. This is done on the calling thread, because it needs no device.
    pub fn start_seek(&mut self, file: &StdFile, position: SeekFrom) -> io::Result<()> {
        if self.job.is_some() {
            let text = "a read or write is under way: call `poll_complete` before `start_seek`";
            return Err(io::Error::other(text));
        }
        // A move that fails must not lose the position, so there are two calls.
        let moved = self.move_back(file).and_then(|()| (&*file).seek(position));
        self.moved = Some(moved);
        Ok(())
    }

    pub fn poll_complete(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        ready!(coop::poll_has_budget(cx));
        ready!(self.poll_quiet(cx));
        coop::spend();
        if let Some(moved) = self.moved.take() {
            self.position = moved?;
        }
        Poll::Ready(Ok(self.position))
    }
}

fn poll_job<T: Send + 'static>(job: &mut Job<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
    Pin::new(job).poll(cx).map(|made| made?)
}

impl Fetched {
    fn move_to(&mut self, buf: &mut ReadBuf<'_>) {
        let rest = &self.bytes[self.taken..];
        let count = rest.len().min(buf.remaining());
        buf.put_slice(&rest[..count]);
        self.taken += count;
    }

    fn is_empty(&self) -> bool {
        self.taken == self.bytes.len()
    }

    /// Moves the file back to behind the bytes that were taken, unless another handle has moved it. Returns
    /// false if another read would not find the bytes.
    fn give_back(&self, mut file: &StdFile) -> io::Result<bool> {
        // No `Vec` is longer than `i64::MAX`.
        let ahead = (self.bytes.len() - self.taken) as i64;
        match file.stream_position() {
            Err(_) => Ok(false),
            Ok(position) if self.end != Some(position) => Ok(true),
            // The read has not moved the file.
            Ok(position) if position < ahead as u64 => Ok(false),
            Ok(position) => Ok(file.seek(SeekFrom::Current(-ahead))? != position),
        }
    }
}
