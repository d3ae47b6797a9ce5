//! Which foreign wakers wait at two looks in a row; see `driver/foreign.rs`.

use crate::scheduler::shared::Shared;

/// The workers that had foreign wakers to call at the last look, and how many wakers were taken out there by
/// then.
#[derive(Debug, Default)]
pub struct WatchedWakers(Vec<(usize, u64)>);

impl WatchedWakers {
    /// Looks once. Has foreign wakers called elsewhere if a worker has some at two looks, and none was taken
    /// out in between.
    pub fn see_to(&mut self, state: &Shared) {
        let with_wakers = |index| state.processor(index).waking.taken().map(|taken| (index, taken));
        let with_wakers: Vec<_> = state.processors.indices().filter_map(with_wakers).collect();
        for &(index, _) in with_wakers.iter().filter(|seen| self.0.contains(seen)) {
            // If the system refuses the thread, the next look tries again.
            _ = state.wake_apart(index);
        }
        self.0 = with_wakers;
    }
}
