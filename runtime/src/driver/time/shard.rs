//! A timer shard: one wheel behind its lock, and a deadline that any thread can read without the lock.
//!
//! The steps TimerRegister, TimerCancel and TimerFire are those of `entry.rs`. A waker is foreign code. So it
//! is cloned before the lock is taken, and woken or dropped after the lock is released.
//!
//! The lock's holder lets go with a plain store (`loom/byte_lock.rs`), because a timer that is made and
//! dropped takes the lock twice. No thread holds it for longer than [`STEPS_PER_LOCK`] steps take. The
//! exceptions are the far list, once in months, and paused clocks.
//!
//! `next_deadline` is written under the lock and read without it. It is never later than the earliest timer
//! of the wheel: TimerRegister lowers it, and only a look at the whole wheel raises it. It may be earlier: a
//! timer that was cancelled or put off leaves its deadline behind. A thread that sleeps until then wakes once
//! for nothing, and corrects it.

use std::fmt;
use std::ptr::{NonNull, null};
use std::task::Waker;

use crate::driver::foreign::ForeignWakes;
use crate::loom::sync::atomic::{AtomicU64, Ordering};
use crate::loom::sync::{ShortGuard, ShortLock};
use crate::util::pad::CachePadded;
use crate::util::wake_list::WakeList;

use super::deadline::{Deadline, NANOS_PER_TICK};
use super::entry::{TimerEntry, TimerState};
use super::slot::{NEVER, Tick};
use super::wheel::{Step, Wheel};

/// The number of timers that are moved or fired before the lock is released for other threads.
const STEPS_PER_LOCK: usize = 64;
/// The number of timers that are looked at to tell the next deadline exactly.
const LOOK_LIMIT: usize = 8;
/// The number of put-off timers that are moved before a sleep may end for them.
const MOVE_LIMIT: usize = 64;

/// The driver has ended. Carries the waker back.
#[derive(Debug)]
pub struct ShutDown(pub Waker);

/// The timer shard in which a timer is registered. Its owner finds the shard by it without the driver.
#[derive(Debug, Clone, Copy)]
pub struct ShardRef(*const Shard);

// SAFETY: it stands for a `&Shard`, and shards are `Sync`.
unsafe impl Send for ShardRef {}
// SAFETY: as above.
unsafe impl Sync for ShardRef {}

impl ShardRef {
    /// The value for a timer that was never registered.
    pub const NONE: ShardRef = ShardRef(null());

    pub fn new(shard: &Shard) -> ShardRef {
        ShardRef(shard)
    }

    /// # Safety
    /// 1. This value was made of a shard that lives for `'a`.
    #[inline]
    pub unsafe fn get<'a>(self) -> &'a Shard {
        // SAFETY: by (1) it points to a live shard, and no code ever has a `&mut` to a shard.
        unsafe { &*self.0 }
    }
}

/// A wheel that any thread may use.
pub struct Shard {
    /// Never later than the earliest timer. It lies apart from the lock, because every thread that is about
    /// to sleep reads it.
    next_deadline: CachePadded<AtomicU64>,
    inner: ShortLock<Inner>,
}

struct Inner {
    wheel: Wheel,
    is_shut_down: bool,
}

impl Shard {
    pub fn new() -> Self {
        Self {
            next_deadline: CachePadded::new(AtomicU64::new(Deadline::MAX)),
            inner: ShortLock::new(Inner { wheel: Wheel::new(), is_shut_down: false }),
        }
    }

    /// The deadline at which the wheel has to be driven; `Deadline::MAX` if there is none.
    pub fn next_deadline(&self) -> Deadline {
        // Relaxed: only the number matters; entries are reached through the lock. The fences in the driver's
        // docs ensure that a later timer is not missed.
        self.next_deadline.load(Ordering::Relaxed)
    }

    /// TimerRegister: registers `entry`. Returns whether it became the earliest of this wheel.
    ///
    /// # Safety
    /// 1. The caller is the owner of `entry`, which is not registered. 2. The entry stays live and at its
    ///    place until its state is no longer `Registered`.
    #[inline(always)]
    pub unsafe fn register(
        &self,
        entry: &TimerEntry,
        deadline: Deadline,
        waker: Waker,
    ) -> Result<bool, ShutDown> {
        let tick = tick_not_before(deadline);
        match self.inner.try_lock() {
            // SAFETY: (1) and (2) are the caller's. (3) The lock was just taken.
            Some(inner) => unsafe { self.register_in(inner, entry, tick, deadline, waker) },
            // SAFETY: (1) and (2) are the caller's.
            None => unsafe { self.wait_and_register(entry, deadline, waker) },
        }
    }

    /// # Safety
    /// As [`register`](Self::register).
    #[cold]
    #[inline(never)]
    unsafe fn wait_and_register(
        &self,
        entry: &TimerEntry,
        deadline: Deadline,
        waker: Waker,
    ) -> Result<bool, ShutDown> {
        // SAFETY: (1) and (2) are the caller's. (3) The lock is taken for the call.
        unsafe { self.register_in(self.inner.lock(), entry, tick_not_before(deadline), deadline, waker) }
    }

    /// # Safety
    /// As [`register`](Self::register); besides, 3. `inner` holds the lock of this shard.
    #[inline(always)]
    unsafe fn register_in(
        &self,
        mut inner: ShortGuard<'_, Inner>,
        entry: &TimerEntry,
        tick: Tick,
        deadline: Deadline,
        waker: Waker,
    ) -> Result<bool, ShutDown> {
        if inner.is_shut_down {
            return Err(refuse(inner, waker));
        }
        // SAFETY: `begin`: (1) and (2) by our (1); (3) by our (3), the lock of the entry's wheel is held.
        // `insert`: (1) by our (2); (2) by our (1), because an entry that is not registered is in no wheel;
        // (3) all entries of the wheel belong to the lock.
        unsafe {
            entry.begin(tick, waker);
            inner.wheel.insert(NonNull::from(entry));
        }
        // Most timers are later. A tick does not begin before its deadlines.
        let next = self.next_deadline();
        let is_earliest = deadline < next && deadline_of(tick) < next;
        if is_earliest {
            self.next_deadline.store(deadline_of(tick), Ordering::Relaxed);
        }
        drop(inner);
        Ok(is_earliest)
    }

    /// Replaces the waker to be woken by `waker`. Returns false if the timer has fired or the driver has
    /// ended; then no waker will be woken any more.
    ///
    /// # Safety
    /// 1. The caller is the owner of `entry`, which was registered here.
    pub unsafe fn update(&self, entry: &TimerEntry, waker: &Waker) -> bool {
        let new = waker.clone();
        let inner = self.inner.lock();
        let is_registered = entry.state() == TimerState::Registered;
        let left_over = match is_registered {
            // SAFETY: the caller is the owner, by (1). The entry is registered, and by (1) in this wheel,
            // whose lock is held.
            true => unsafe { entry.replace_waker(new) },
            false => new,
        };
        // The waker that is left over is dropped after the lock is released.
        drop(inner);
        drop(left_over);
        is_registered
    }

    /// TimerCancel: takes `entry` out. Returns its waker, or `None` if it is not registered any more.
    ///
    /// # Safety
    /// 1. The caller is the owner of `entry`, which was registered here.
    #[inline(always)]
    pub unsafe fn cancel(&self, entry: &TimerEntry) -> Option<Waker> {
        match self.inner.try_lock() {
            // SAFETY: (1); by it, this is the lock of the entry's wheel.
            Some(inner) => unsafe { Self::cancel_in(inner, entry) },
            // SAFETY: as above.
            None => unsafe { self.wait_and_cancel(entry) },
        }
    }

    /// # Safety
    /// As [`cancel`](Self::cancel).
    #[cold]
    #[inline(never)]
    unsafe fn wait_and_cancel(&self, entry: &TimerEntry) -> Option<Waker> {
        // SAFETY: as in `cancel`.
        unsafe { Self::cancel_in(self.inner.lock(), entry) }
    }

    /// # Safety
    /// As [`cancel`](Self::cancel); besides, `inner` is the lock of that wheel.
    #[inline(always)]
    unsafe fn cancel_in(mut inner: ShortGuard<'_, Inner>, entry: &TimerEntry) -> Option<Waker> {
        if entry.state() != TimerState::Registered {
            return None;
        }
        let entry = NonNull::from(entry);
        // SAFETY: `remove`: (1) the entry is registered, and so by our (1) in this wheel; (2) the lock is
        // held. `release`: (1) the caller's reference keeps the entry live, and it was registered until now;
        // (2) the lock is held; (3) by our (1) the caller is the owner.
        unsafe {
            inner.wheel.remove(entry);
            Some(TimerEntry::release(entry, TimerState::Idle))
        }
    }

    /// TimerFire for all timers that are due at `now`. Tasks are woken outside of the lock; foreign wakers go
    /// to `foreign`. Returns how many fired.
    pub fn fire(&self, now: Deadline, foreign: &ForeignWakes) -> usize {
        let mut fired = 0;
        let mut wakers = WakeList::new();
        let mut is_done = false;
        while !is_done {
            let mut inner = self.inner.lock();
            is_done = inner.fire_some(now / NANOS_PER_TICK, &mut wakers);
            if is_done {
                self.correct(&mut inner.wheel);
            }
            drop(inner);
            fired += wakers.len();
            wakers.drain(|waker| foreign.wake(waker));
        }
        fired
    }

    /// The exact deadline of the earliest timer. It may look at many timers.
    pub fn exact_deadline(&self) -> Deadline {
        let mut inner = self.inner.lock();
        // SAFETY: `&mut Wheel` comes only from the lock, to which all entries of the wheel belong.
        let next = deadline_of(unsafe { inner.wheel.exact_tick() });
        self.next_deadline.store(next, Ordering::Relaxed);
        next
    }

    /// As [`fire`](Self::fire), for all timers. Nothing can be registered from now on.
    pub fn shut_down(&self, foreign: &ForeignWakes) {
        let mut wakers = WakeList::new();
        let mut is_done = false;
        while !is_done {
            let mut inner = self.inner.lock();
            inner.is_shut_down = true;
            is_done = inner.end_some(&mut wakers);
            if is_done {
                self.next_deadline.store(Deadline::MAX, Ordering::Relaxed);
            }
            drop(inner);
            wakers.drain(|waker| foreign.wake(waker));
        }
    }

    /// Stores the wheel's next deadline in `next_deadline`. The caller holds the lock.
    fn correct(&self, wheel: &mut Wheel) {
        // SAFETY: `&mut Wheel` comes only from the lock, to which all entries of the wheel belong.
        let next = unsafe {
            wheel.move_put_off(MOVE_LIMIT);
            wheel.next_tick(LOOK_LIMIT)
        };
        self.next_deadline.store(deadline_of(next), Ordering::Relaxed);
    }
}

impl Inner {
    /// Fires until nothing is due, and returns true then. Returns false if other threads should have the
    /// lock, or the list is full.
    fn fire_some(&mut self, now: Tick, wakers: &mut WakeList) -> bool {
        for _ in 0..STEPS_PER_LOCK {
            if wakers.is_full() {
                return false;
            }
            // SAFETY: `&mut Inner` comes only from the lock, to which all entries of the wheel belong.
            match unsafe { self.wheel.step(now) } {
                // SAFETY: (1) the entry was in this wheel, so it is live and was registered. (2) The lock is
                // held, as above. (3) The entry is not used again.
                Step::Due(entry) => wakers.push(unsafe { TimerEntry::release(entry, TimerState::Fired) }),
                Step::Moved => {}
                Step::Done => return true,
            }
        }
        false
    }

    /// Ends timers until there are none, and returns true then. Returns false if the list is full.
    fn end_some(&mut self, wakers: &mut WakeList) -> bool {
        while !wakers.is_full() {
            // SAFETY: as in `fire_some`.
            let Some(entry) = (unsafe { self.wheel.pop_any() }) else { return true };
            // SAFETY: as in `fire_some`.
            wakers.push(unsafe { TimerEntry::release(entry, TimerState::ShutDown) });
        }
        false
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shard").field("next_deadline", &self.next_deadline()).finish_non_exhaustive()
    }
}

/// The first tick at which `deadline` has passed: rounded up, so that no timer fires early.
#[inline]
pub fn tick_not_before(deadline: Deadline) -> Tick {
    // A deadline in the last tick that could be counted counts as never: it is centuries away.
    deadline.checked_add(NANOS_PER_TICK - 1).map_or(NEVER, |end| end / NANOS_PER_TICK)
}

/// When `tick` begins.
#[inline]
fn deadline_of(tick: Tick) -> Deadline {
    tick.saturating_mul(NANOS_PER_TICK)
}

#[cold]
fn refuse(inner: ShortGuard<'_, Inner>, waker: Waker) -> ShutDown {
    drop(inner);
    ShutDown(waker)
}
