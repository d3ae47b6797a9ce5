//! The indices of external threads, and the tags of their jobs; see `external.rs`.

use std::sync::OnceLock;

use crate::job::Tag;
use crate::loom::sync::Mutex;
use crate::loom::sync::atomic::AtomicUsize;
use crate::loom::sync::atomic::Ordering::Relaxed;
use crate::util::numbers::{Number, Numbers};

/// Which indices external threads have; see `external.rs`.
#[derive(Debug)]
pub struct External {
    is_used: Mutex<Vec<bool>>,
    pub(super) first: usize,
    /// How many indices are in use: a hint.
    count: AtomicUsize,
}

impl External {
    /// External threads have the indices `first..first + most`.
    pub fn new(first: usize, most: usize) -> Self {
        Self { is_used: Mutex::new(vec![false; most]), first, count: AtomicUsize::new(0) }
    }

    /// How many external threads take part: a hint.
    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// `ExternalTakes`. Calls `prepare` under the lock, so the processors with lower indices are ready then,
    /// too. None if all indices are in use.
    pub(super) fn take(&self, prepare: impl FnOnce(usize)) -> Option<usize> {
        let mut is_used = self.is_used.lock();
        let place = is_used.iter().position(|is_used| !is_used)?;
        prepare(self.first + place);
        is_used[place] = true;
        // Relaxed: a hint; written under the lock.
        self.count.store(self.count.load(Relaxed) + 1, Relaxed);
        Some(self.first + place)
    }

    /// `ExternalGives`.
    pub(super) fn give_back(&self, index: usize) {
        let mut is_used = self.is_used.lock();
        is_used[index - self.first] = false;
        // Relaxed: as above.
        self.count.store(self.count.load(Relaxed) - 1, Relaxed);
    }
}

/// The numbers of external threads' tags. They are unique in the process, because pools share jobs. No tag
/// has the number 0, which stands for no tag.
static NUMBERS: Numbers = Numbers::below(u16::MAX);

/// The tag of the jobs that external threads split off on one job processor. It is set when the first
/// external thread takes the job processor.
#[derive(Debug, Default)]
pub struct ExternalTag(OnceLock<Option<Number>>);

impl ExternalTag {
    /// None if all numbers were taken at the first call. It stays so for this job processor.
    pub(super) fn get(&self) -> Option<Tag> {
        let number = self.0.get_or_init(|| NUMBERS.take());
        number.as_ref().map(|number| Tag::of_external(number.get()))
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
