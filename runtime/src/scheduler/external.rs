//! External threads: a thread that is no worker runs a parallel call itself.
//!
//! A `join` or `scope` on a thread outside could be sent to a worker, and awaited: two wakes of a thread,
//! some microseconds, for what may take nanoseconds. So the thread takes part in its own call. It gets a
//! processor that nobody has (`processor.rs`), runs the call on its own stack, and shares child jobs as a
//! worker would.
//!
//! It counts in the place of a worker that sleeps: it comes only if more workers sleep than spare workers and
//! external threads take part, and until it goes one worker less is woken for child jobs that can wait
//! (`Shared::extra`). So no more threads compute than there are workers. All else wakes the sleeping workers
//! as ever; nothing of theirs is lent.
//!
//! ```text
//! ExternalRoot   it counts as a root (`jobs.rs`), so that the workers stay
//! ExternalTakes  lock; takes an index that nobody has
//!                the call
//! ExternalLeaves what its call has left for scopes around it goes to a worker's overflow list; fence; posted (`idle.rs`)
//! ExternalGives  lock; the index is free
//! ExternalEnds   the root has ended
//! ```
//! *One owner*: an index is taken and given back under the lock. *All below are there*: a processor is made
//! under it, too, so that whoever walks over the first ones finds no gap. *What nobody owns is empty*:
//! `ExternalLeaves` comes first. It is polled by nobody and polls nothing: it is in no number of `idle.rs`,
//! but shows its bit there while it waits for a latch.
//!
//! # What it runs
//! Only what its own call has split off: it is a stranger's thread, which may hold locks, and wants its
//! result. Its jobs carry a tag (`job/region.rs`) that holds back its own waits, and nobody else's: workers
//! that take some of them go on as ever. It yields to nobody, for it keeps no worker from its tasks: its
//! stride ends in a look for hungry workers only. It counts as a thread inside of the runtime
//! (`context::is_inside_runtime`): what it does there must not wait for the runtime's end, which waits for
//! it.
//!
//! **None are taken** by runtimes with one worker, for nobody could help; by those with a deadlock handler,
//! which have to know who is awake; where threads were given something that a stranger's lacks: a stack size,
//! or a hook or handler that calls them in. Nor while all workers are awake: then a call goes to whoever
//! comes for it first.
//!
//! # Rejected
//! To lend the thread the structures of a worker that sleeps: that worker then is a worker of another kind
//! until it has them back.

use std::sync::OnceLock;

use super::idle::Work;
use super::seat::Seat;
use super::shared::Shared;
use crate::job::Tag;
use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::AtomicUsize;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::util::numbers::{Number, Numbers};

/// Which indices external threads have; see the module's docs.
#[derive(Debug)]
pub struct External {
    is_used: Mutex<Vec<bool>>,
    first: usize,
    /// How many are used: a hint.
    count: AtomicUsize,
}

impl External {
    /// Their indices are `first..first + most`.
    pub fn new(first: usize, most: usize) -> Self {
        Self { is_used: Mutex::new(vec![false; most]), first, count: AtomicUsize::new(0) }
    }

    /// How many take part: a hint.
    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// `ExternalTakes`. `prepare` is called under the lock: those with lower indices are ready then, too.
    fn take(&self, prepare: impl FnOnce(usize)) -> Option<usize> {
        let mut is_used = self.is_used.lock();
        let place = is_used.iter().position(|is_used| !is_used)?;
        prepare(self.first + place);
        is_used[place] = true;
        // Relaxed: a hint; written under the lock.
        self.count.store(self.count.load(Relaxed) + 1, Relaxed);
        Some(self.first + place)
    }

    /// `ExternalGives`.
    fn give_back(&self, index: usize) {
        let mut is_used = self.is_used.lock();
        is_used[index - self.first] = false;
        // Relaxed: as above.
        self.count.store(self.count.load(Relaxed) - 1, Relaxed);
    }
}

/// The numbers of external threads' tags, process-wide: pools share jobs. Of 0 there is none, so that a tag
/// is seen to be one.
static NUMBERS: Numbers = Numbers::below(u16::MAX);

/// A seat's tag for what external threads split off there, once one did.
#[derive(Debug, Default)]
pub struct ExternalTag(OnceLock<Option<Number>>);

impl ExternalTag {
    /// None if all numbers are taken.
    fn get(&self) -> Option<Tag> {
        let number = self.0.get_or_init(|| NUMBERS.take());
        number.as_ref().map(|number| Tag::of_external(number.get()))
    }
}

impl Shared {
    /// `ExternalTakes`: a seat for the calling thread, which is no worker and has counted a root. Says the
    /// tag of its jobs.
    pub fn take_external(&self) -> Option<(&Seat, Tag)> {
        if !self.config.takes_external() || self.idle.sleepers() <= self.extra() {
            return None;
        }
        let index = self.external.take(|index| {
            self.idle.cover(index);
            self.processors.make(index, self.into());
            self.processors.set_external(index - self.external.first + 1);
        })?;
        let seat = self.seat(index);
        let Some(tag) = seat.external_tag.get() else {
            self.external.give_back(index);
            return None;
        };
        Some((seat, tag))
    }

    /// `ExternalLeaves`, `ExternalGives`: the calling thread has left `seat`, and says whether it has moved
    /// jobs from there.
    pub fn give_external_back(&self, seat: &Seat, has_moved: bool) {
        if has_moved {
            self.idle.fence_push();
            self.idle.post_job();
            self.fetch(Work::Job);
        }
        self.external.give_back(seat.index());
    }
}
