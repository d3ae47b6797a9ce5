//! The calls of `run_until` that go on, by number; see *several calls* in `scheduler.rs`.

use std::task::Waker;

/// The number of calls for which an empty table keeps memory.
const SPARE: usize = 16;

/// The table of calls. A number is free again when its call has ended.
pub(super) struct Calls {
    calls: Vec<Option<Call>>,
    /// The numbers in `calls` that are free.
    free: Vec<usize>,
    /// The number of calls that keep a waker.
    kept: usize,
    /// The call whose waker came into the inbox last. `None` if that call has ended, or if it is not certain.
    last: Option<usize>,
}

struct Call {
    waker: Option<Waker>,
}

impl Calls {
    pub(super) const fn new() -> Self {
        Self { calls: Vec::new(), free: Vec::new(), kept: 0, last: None }
    }

    /// The number of calls that go on.
    pub(super) fn len(&self) -> usize {
        self.calls.len() - self.free.len()
    }

    /// Notes a call, and returns its number.
    pub(super) fn begin(&mut self) -> usize {
        let call = Some(Call { waker: None });
        match self.free.pop() {
            Some(number) => {
                self.calls[number] = call;
                number
            }
            None => {
                self.calls.push(call);
                self.calls.len() - 1
            }
        }
    }

    /// Removes a call. Returns the waker that it has kept.
    pub(super) fn end(&mut self, number: usize) -> Option<Waker> {
        let ended = self.calls[number].take().expect("the call goes on");
        self.free.push(number);
        if self.len() == 0 {
            // The memory for many calls at a time goes with the last of them.
            self.calls.clear();
            self.calls.shrink_to(SPARE);
            self.free.clear();
            self.free.shrink_to(SPARE);
        }
        self.last = self.last.filter(|&last| last != number);
        self.kept -= usize::from(ended.waker.is_some());
        ended.waker
    }

    /// Whether a call has to keep `waker`, in place of what it has kept.
    pub(super) fn must_keep(&self, number: usize, waker: &Waker) -> bool {
        self.len() > 1 && !self.call(number).waker.as_ref().is_some_and(|kept| kept.will_wake(waker))
    }

    /// Whether a call that is not the only one keeps no waker.
    pub(super) fn lacks_waker(&self, number: usize) -> bool {
        self.len() > 1 && self.call(number).waker.is_none()
    }

    /// Keeps a call's waker. Returns the older one.
    pub(super) fn keep(&mut self, number: usize, waker: Waker) -> Option<Waker> {
        let call = self.calls[number].as_mut().expect("the call goes on");
        let older = call.waker.replace(waker);
        self.kept += usize::from(older.is_none());
        older
    }

    /// Takes all wakers out.
    pub(super) fn take_kept(&mut self) -> Vec<Waker> {
        if self.kept == 0 {
            return Vec::new();
        }
        self.kept = 0;
        self.calls.iter_mut().flatten().filter_map(|call| call.waker.take()).collect()
    }

    /// The call whose waker came into the inbox last, if that is certain.
    pub(super) fn last(&self) -> Option<usize> {
        self.last
    }

    pub(super) fn set_last(&mut self, call: Option<usize>) {
        self.last = call;
    }

    fn call(&self, number: usize) -> &Call {
        self.calls[number].as_ref().expect("the call goes on")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_given_again_when_its_call_has_ended() {
        let mut calls = Calls::new();
        assert_eq!([calls.begin(), calls.begin(), calls.begin()], [0, 1, 2]);
        assert!(calls.end(1).is_none());
        assert_eq!((calls.len(), calls.begin(), calls.begin()), (2, 1, 3));
        [2, 0, 3, 1].iter().for_each(|&number| assert!(calls.end(number).is_none()));
        assert_eq!((calls.len(), calls.begin()), (0, 0));
    }

    #[test]
    fn a_call_keeps_its_newest_waker_while_others_go_on() {
        let (mut calls, waker) = (Calls::new(), Waker::noop());
        let other: Waker = std::sync::Arc::new(Ignores).into();
        let first = calls.begin();
        assert!(!calls.must_keep(first, waker), "it is the only one");
        let second = calls.begin();
        assert!(calls.must_keep(first, waker) && calls.keep(first, waker.clone()).is_none());
        assert!(!calls.must_keep(first, waker) && calls.must_keep(first, &other));
        assert!(calls.keep(first, other.clone()).is_some_and(|older| older.will_wake(waker)));
        assert!(calls.keep(second, waker.clone()).is_none());
        assert_eq!(calls.take_kept().len(), 2);
        assert!(calls.take_kept().is_empty() && calls.must_keep(second, waker));
        _ = calls.keep(second, waker.clone());
        assert!(calls.end(second).is_some() && calls.take_kept().is_empty());
    }

    #[test]
    fn a_call_that_has_ended_is_not_the_last() {
        let mut calls = Calls::new();
        let (first, second) = (calls.begin(), calls.begin());
        calls.set_last(Some(second));
        calls.end(first);
        assert_eq!(calls.last(), Some(second));
        calls.end(second);
        assert_eq!(calls.last(), None);
    }

    struct Ignores;

    impl std::task::Wake for Ignores {
        fn wake(self: std::sync::Arc<Self>) {}
    }
}
