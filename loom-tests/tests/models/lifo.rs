//! The LIFO slot: each task put in is taken out by one taker, who sees what its pusher wrote.
//!
//! Bounds: an owner that pushes twice and pops, two thieves that have seen either task.

mod twin;

use std::ptr::NonNull;
use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;
use runtime::internals::scheduler::LifoSlot;
use runtime::internals::task::{Header, Runnable};

use super::task::board::{Board, Life};
use twin::{Fault, Twin};

/// What the real slot and its twins have in common.
trait Slot: Send + Sync + 'static {
    /// # Safety
    /// 1. The caller is the owner.
    unsafe fn push(&self, task: Runnable) -> Option<Runnable>;

    /// # Safety
    /// 1. The caller is the owner.
    unsafe fn pop(&self) -> Option<Runnable>;

    fn steal(&self, task: NonNull<Header>) -> Option<Runnable>;
}

impl Slot for LifoSlot {
    unsafe fn push(&self, task: Runnable) -> Option<Runnable> {
        // SAFETY: the caller's word is the same.
        unsafe { LifoSlot::push(self, task) }
    }

    unsafe fn pop(&self) -> Option<Runnable> {
        // SAFETY: the caller's word is the same.
        unsafe { LifoSlot::pop(self) }
    }

    fn steal(&self, task: NonNull<Header>) -> Option<Runnable> {
        LifoSlot::steal(self, task)
    }
}

/// Tasks, and beside each a cell that stands for its contents: written before a push, overwritten by who takes the task.
struct World<S> {
    slot: S,
    tasks: Vec<(NonNull<Header>, UnsafeCell<bool>)>,
    lives: Vec<Arc<Life>>,
    board: Arc<Board>,
}

// SAFETY: the cells are what the models watch.
unsafe impl<S: Slot> Send for World<S> {}
// SAFETY: as above.
unsafe impl<S: Slot> Sync for World<S> {}

impl<S: Slot> World<S> {
    fn new(slot: S, tasks: usize) -> Arc<Self> {
        let board = Board::new();
        let (tasks, lives) = (0..tasks)
            .map(|_| {
                let (task, life) = board.newborn();
                ((task.into_raw(), UnsafeCell::new(false)), life)
            })
            .unzip();
        Arc::new(Self { slot, tasks, lives, board })
    }

    fn push(&self, i: usize) -> Option<usize> {
        let (task, content) = &self.tasks[i];
        // SAFETY: whether we are alone is what the cell checks.
        content.with_mut(|content| unsafe { *content = true });
        // SAFETY: each task is pushed once, by its only owner; one thread owns the slot.
        unsafe { self.slot.push(Runnable::from_raw(*task)) }.map(|task| self.take(task))
    }

    fn pop(&self) -> Option<usize> {
        // SAFETY: one thread owns the slot.
        unsafe { self.slot.pop() }.map(|task| self.take(task))
    }

    fn steal(&self, i: usize) -> Option<usize> {
        self.slot.steal(self.tasks[i].0).map(|task| self.take(task))
    }

    fn take(&self, task: Runnable) -> usize {
        let task = task.into_raw();
        let i = self.tasks.iter().position(|(other, _)| *other == task).expect("one of the tasks");
        // SAFETY: whether we are alone is what the cell checks.
        let had_content = self.tasks[i].1.with_mut(|content| unsafe { std::mem::take(&mut *content) });
        assert!(had_content, "a task was taken twice");
        i
    }

    /// Panics unless every task was taken; then ends them.
    fn assert_all(&self, mut taken: Vec<usize>) {
        taken.sort_unstable();
        assert_eq!(taken, (0..self.tasks.len()).collect::<Vec<_>>(), "a task was lost, or taken twice");
        for (task, _) in &self.tasks {
            // SAFETY: taken, once, and not given on.
            unsafe { Runnable::from_raw(*task) }.cancel();
        }
        self.lives.iter().for_each(|life| life.assert_ended());
        self.board.assert_freed();
    }
}

/// The owner pushes over what thieves are about to take, and pops.
fn owner_against_thieves<S: Slot>(slot: impl Fn() -> S + Send + Sync + 'static) {
    loom::model(move || {
        let world = World::new(slot(), 3);
        assert!(world.push(0).is_none());
        let thieves = [[0, 1], [1, 2]].map(|seen| {
            let world = world.clone();
            thread::spawn(move || seen.into_iter().filter_map(|i| world.steal(i)).collect::<Vec<_>>())
        });
        let mut taken: Vec<_> = world.push(1).into_iter().collect();
        taken.extend(world.pop());
        taken.extend(world.push(2));
        for thief in thieves {
            taken.extend(thief.join().unwrap());
        }
        taken.extend(world.pop());
        assert!(world.pop().is_none());
        world.assert_all(taken);
    });
}

#[test]
fn each_task_has_one_taker_who_sees_it() {
    owner_against_thieves(LifoSlot::new);
}

#[test]
fn a_twin_without_a_fault_passes() {
    owner_against_thieves(|| Twin::new(Fault::None));
}

/// A twin for each fault, and the model that must refuse it.
macro_rules! refused {
    ($($name:ident: $fault:ident;)*) => {$(
        #[test]
        #[should_panic]
        fn $name() {
            owner_against_thieves(|| Twin::new(Fault::$fault));
        }
    )*};
}

refused! {
    an_owner_that_pops_by_load_and_store: PopsByStore;
    an_owner_that_pushes_over_by_load_and_store: PushesByStore;
    an_owner_that_takes_every_slot_for_empty: ForgetsFlag;
    a_thief_that_takes_by_load_and_store: StealsByStore;
    a_push_into_the_empty_slot_without_release: PushesRelaxed;
    a_push_over_another_without_release: SwapsRelaxed;
    a_thief_without_acquire: StealsRelaxed;
}
