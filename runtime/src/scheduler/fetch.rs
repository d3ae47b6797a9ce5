//! A thread comes for work: a sleeping worker is woken, or a spare worker is admitted.

use super::idle::Work;
use super::shared::Shared;
use crate::task::Runnable;

impl Shared {
    /// As [`fetch`](Self::fetch), with PushFence of `idle.rs` before it. For a push into a queue that
    /// the caller does not drain itself.
    pub fn fetch_strictly(&self, work: Work) -> bool {
        self.idle.fence_push();
        self.fetch(work)
    }

    /// ReadCounts to UnparkSleeper, and ClearWaiter, of `idle.rs`, and `Admit` of `away/mod.rs`: wakes or
    /// starts a thread for `work`, unless a worker already searches. Returns whether it did.
    #[inline]
    pub fn fetch(&self, work: Work) -> bool {
        // A cheap test first: mostly no worker is asleep or away.
        (self.idle.has_sleepers() || self.is_any_away()) && self.fetch_for(work)
    }

    fn fetch_for(&self, work: Work) -> bool {
        let pick = self.idle.pick_for(work, self.driver.poller());
        self.unpark_picked(pick.unparks);
        let is_admitted = pick.found_none && self.is_any_away() && self.admit();
        pick.unparks.is_some() || is_admitted
    }

    /// As [`fetch_strictly`](Self::fetch_strictly), for work of any kind. It does not rely on workers that
    /// search.
    pub fn fetch_anyway(&self) {
        self.idle.fence_push();
        if let Some(index) = self.idle.pick_anyway(self.driver.poller()) {
            return self.unpark_picked(Some(index));
        }
        // This thread was counted as a searcher for a moment. Pushers of any kind of work may have relied on
        // it: see `Pick`. The fence of the pick comes before this.
        self.unpark_picked(self.idle.pick_waiter(0));
        self.fetch(Work::Task);
    }

    /// SearcherLook of worker `index`, which may not run every kind of work. Wakes a sleeper with a lower
    /// index. If there is none, wakes a waiter, and admits a spare worker if one is needed.
    pub fn leave_to_lower(&self, index: usize) {
        let picked = self.idle.pick_below(index, self.driver.poller());
        if picked.is_some() {
            return self.unpark_picked(picked);
        }
        // The fence of the pick comes before this.
        self.unpark_picked(self.idle.pick_waiter(0));
        if self.is_any_away() {
            self.admit();
        }
    }

    /// Worker `index` waits for a latch, and may not run the jobs that it was woken for. Picks a worker in
    /// its place.
    pub fn pass_errand_on(&self, index: usize) {
        let pick = self.idle.pass_errand_on(index, self.config.workers, self.driver.poller());
        self.unpark_picked(pick.unparks);
        if pick.found_none {
            self.admit();
        }
    }

    #[inline]
    pub fn unpark_picked(&self, picked: Option<usize>) {
        if let Some(index) = picked {
            self.processor(index).parker.unpark(&self.driver);
        }
    }

    /// Queues a task in the injector, for any worker.
    pub fn inject(&self, task: Runnable) {
        self.injector.push_task(task);
        self.fetch_strictly(Work::Task);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
