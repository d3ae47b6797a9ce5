//! External threads: a thread that is no worker runs its own parallel call.
//!
//! An outside thread could send its `join` or `scope` to a worker and wait for it. That costs two wakes of a
//! thread, some microseconds, for a call that may take nanoseconds. So the thread takes part in its own call.
//! It gets a free processor (`processor.rs`), runs the call on its own stack, and shares child jobs as a
//! worker would.
//!
//! An external thread counts in the place of a worker that sleeps. It comes only if more workers sleep than
//! spare workers and external threads take part. Until it leaves, one worker less is woken for child jobs
//! that can wait (`Shared::extra`). So no more threads compute than there are workers. All other work wakes
//! the sleeping workers as usual. The external thread borrows nothing from them.
//!
//! ```text
//! ExternalCounts it counts as an injected job (`injected.rs`), so that the workers stay
//! ExternalTakes  lock; takes a free index
//!                the call
//! ExternalLeaves what its call has left for scopes around it goes to a worker's overflow list; fence; posted
//!                (`idle.rs`)
//! ExternalGives  lock; the index is free
//! ExternalEnds   the injected job has ended
//! ```
//! *One owner*: an index is taken and given back under the lock.
//!
//! *No gap*: a processor is made under the lock, too. So a thread that walks over the first processors finds
//! all of them.
//!
//! *A processor without an owner is empty*: `ExternalLeaves` comes first.
//!
//! An external thread polls no tasks, and no worker relies on it to do so. It is in no number of `idle.rs`,
//! but shows its bit there while it waits for a latch.
//!
//! # What it runs
//! An external thread runs only jobs that its own call has split off. It is a thread of the program: it may
//! hold locks, and the program wants its result soon. Its jobs carry a tag (`job/region.rs`). The tag
//! restricts only this thread's own waits; workers that take some of the jobs go on as usual. The thread does
//! not yield to tasks, because it keeps no worker from its tasks. At the end of its poll interval it only
//! looks for hungry workers. It counts as a thread inside of the runtime (`context::is_inside_runtime`). So a
//! job on it must not wait for the runtime's end, which waits for this thread.
//!
//! **No external threads** take part in these cases:
//! - The runtime has one worker, so no other thread could help.
//! - The runtime has a deadlock handler, which has to know which threads are awake.
//! - The workers have something that the program's threads lack: a stack size, or a hook or handler that is
//!   called when a worker starts.
//! - All workers are awake. Then the first worker that comes for the call takes it.
//!
//! # Rejected
//! Lending the thread the structures of a sleeping worker: until that worker has them back, it would be a
//! worker of another kind.

use crate::job::Tag;
use crate::scheduler::idle::Work;
use crate::scheduler::owner::OwnJobs;
use crate::scheduler::shared::Shared;

impl Shared {
    /// `ExternalTakes`: a job processor for the calling thread, and the tag of its jobs. None in the cases of
    /// the module's docs, and if no index or no tag is free. The thread is no worker and has counted an
    /// injected job.
    pub fn take_external(&self) -> Option<(&OwnJobs, Tag)> {
        if !self.config.takes_external() || self.idle.sleepers() <= self.extra() {
            return None;
        }
        let index = self.external.take(|index| {
            self.idle.cover(index);
            // SAFETY: (1) no other thread knows the job processor yet. (2) The shared state holds it.
            self.processors.make(index, |job_processor| unsafe { job_processor.bind(self.ptr()) });
            self.processors.set_external(index - self.external.first + 1);
        })?;
        let job_processor = self.job_processor(index);
        let Some(tag) = job_processor.external_tag.get() else {
            self.external.give_back(index);
            return None;
        };
        // SAFETY: (1) the index was free, and this thread took it under the lock. It stays this thread's
        // until `give_external_back`. By duty 1 of that method the view is not used afterwards.
        Some((unsafe { job_processor.by_owner() }, tag))
    }

    /// `ExternalLeaves`, `ExternalGives`: the calling thread has left `job_processor`. `has_moved`: it has
    /// moved jobs from there to a worker's overflow list.
    ///
    /// # Safety
    /// 1. `job_processor` is from [`take_external`](Self::take_external), and this is its last use.
    pub unsafe fn give_external_back(&self, job_processor: &OwnJobs, has_moved: bool) {
        if has_moved {
            self.post_strictly(Work::Job);
        }
        // From now on another thread may be the owner.
        self.external.give_back(job_processor.index());
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
