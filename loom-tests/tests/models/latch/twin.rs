//! A small copy of a worker's latch, with at most one bug in it, and a pool whose worker does not sleep, but
//! says where it would.

use std::ptr::NonNull;

use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicBool, AtomicU32};
use runtime::internals::job::Latch;

use crate::models::poison::name_late_uses;

const UNSET: u32 = 0;
const SLEEPING: u32 = 1;
const SET: u32 = 2;

/// The bug that was put back.
#[derive(Clone, Copy, PartialEq)]
pub enum Fault {
    None,
    /// `LatchSet` is a swap, and the setter looks at the latch after it.
    LooksAfterSwap,
    /// `LatchReadOwner` after `LatchSet`.
    AsksAfterSwap,
    LoadsAndStores,
    SetsRelaxed,
    /// The pool may go before the setter is done with it.
    KeepsNoPool,
    /// `LatchPark` without `LatchSleep`.
    SleepsUnannounced,
    /// `LatchSleep` is a load and a store.
    StoresSleeping,
    /// `LatchWake` is a store.
    WakesByStore,
    LooksRelaxed,
}

/// The token on which the worker sleeps. It orders nothing.
pub struct Pool(AtomicBool);

impl Pool {
    pub fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    pub fn unpark(&self) {
        self.0.swap(true, Relaxed);
    }

    /// Uses the token up, if it is there.
    pub fn is_token_set(&self) -> bool {
        self.0.swap(false, Relaxed)
    }
}

pub struct Twin {
    state: AtomicU32,
    /// Which thread to wake. This is an atomic that is written when the latch is freed, so that loom also
    /// tries the order in which a late read follows.
    pool: AtomicBool,
    owner: NonNull<Pool>,
    fault: Fault,
}

impl Twin {
    pub fn new(owner: &Pool, fault: Fault) -> Self {
        let state = AtomicU32::new(UNSET);
        Self { state, pool: AtomicBool::new(true), owner: NonNull::from(owner), fault }
    }

    /// False where the owner would sleep for ever, unless another thread sets the token.
    pub fn wait(&self, pool: &Pool) -> bool {
        let looks = if self.fault == Fault::LooksRelaxed { Relaxed } else { Acquire };
        loop {
            match self.fault {
                Fault::SleepsUnannounced | Fault::StoresSleeping if self.state.load(looks) == SET => {
                    return true;
                }
                Fault::SleepsUnannounced => {}
                Fault::StoresSleeping => self.state.store(SLEEPING, Relaxed),
                _ if self.state.compare_exchange(UNSET, SLEEPING, Relaxed, looks).is_err() => return true,
                _ => {}
            }
            if !pool.is_token_set() {
                return false;
            }
            match self.fault {
                Fault::WakesByStore => self.state.store(UNSET, Relaxed),
                _ => _ = self.state.compare_exchange(SLEEPING, UNSET, Relaxed, Relaxed),
            }
        }
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        self.pool.store(false, Relaxed);
    }
}

impl Latch for Twin {
    unsafe fn set(this: *const Self) {
        // SAFETY: as the original's, but for the fault.
        let (owner, fault) = unsafe { ((*this).owner, (*this).fault) };
        let sets = if fault == Fault::SetsRelaxed { Relaxed } else { Release };
        // SAFETY: as above.
        let was_asleep = name_late_uses("the latch", || unsafe {
            let was_asleep = match fault {
                Fault::LoadsAndStores => {
                    let before = (*this).state.load(Relaxed);
                    (*this).state.store(SET, Release);
                    before == SLEEPING
                }
                _ => (*this).state.swap(SET, sets) == SLEEPING,
            };
            match fault {
                Fault::LooksAfterSwap => was_asleep && (*this).state.load(Relaxed) == SET,
                Fault::AsksAfterSwap => was_asleep && (*this).pool.load(Relaxed),
                _ => was_asleep,
            }
        });
        if was_asleep {
            // SAFETY: as above.
            name_late_uses("the pool", || unsafe { owner.as_ref() }.unpark());
        }
    }
}
