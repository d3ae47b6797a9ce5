//! The LIFO slot: each task put in is taken out by one taker, which sees what its pusher wrote.
//!
//! Bounds: an owner that pushes twice and pops, two thieves that have seen either task; or a thief and the
//! monitor, which puts what it takes into the injector, where the owner finds it.

mod twin;

use std::ptr::NonNull;
use std::sync::Arc;

use runtime::internals::queue::Injector;
use runtime::internals::scheduler::LifoSlot;
use runtime::internals::task::{Header, Runnable};

use super::once_built::{model, thread};
use super::plain::Plain;
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
        // SAFETY: the caller guarantees the same.
        unsafe { LifoSlot::push(self, task) }
    }

    unsafe fn pop(&self) -> Option<Runnable> {
        // SAFETY: the caller guarantees the same.
        unsafe { LifoSlot::pop(self) }
    }

    fn steal(&self, task: NonNull<Header>) -> Option<Runnable> {
        LifoSlot::steal(self, task)
    }
}

/// Tasks, and beside each a cell that stands for its contents: written before a push, overwritten by the
/// taker of the task.
struct World<S> {
    slot: S,
    tasks: Vec<(NonNull<Header>, Plain<bool>)>,
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
                ((task.into_raw(), Plain::new("a task's contents", false)), life)
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
    model(move || {
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

/// The owner looks stuck and is not; the monitor takes what it saw, and another worker takes that from the
/// injector.
fn owner_against_the_monitor<S: Slot>(slot: impl Fn() -> S + Send + Sync + 'static) {
    model(move || {
        let world = Arc::new((World::new(slot(), 3), Injector::<Header>::new()));
        assert!(world.0.push(0).is_none());
        let monitor = {
            let world = world.clone();
            thread::spawn(move || {
                for task in [0, 1] {
                    if let Some(task) = world.0.slot.steal(world.0.tasks[task].0) {
                        // SAFETY: the runnable owns its task.
                        unsafe { world.1.push(task.into_raw()) };
                    }
                }
            })
        };
        let from_injector = |world: &(Arc<World<S>>, Injector<Header>)| {
            // SAFETY: what is in the injector is `Runnable`s.
            let task = world.1.pop().map(|task| unsafe { Runnable::from_raw(task) });
            task.map(|task| world.0.take(task))
        };
        let thief = {
            let world = world.clone();
            thread::spawn(move || {
                from_injector(&world).into_iter().chain(world.0.steal(1)).collect::<Vec<_>>()
            })
        };
        let mut taken: Vec<_> = world.0.push(1).into_iter().collect();
        taken.extend(world.0.pop());
        taken.extend(world.0.push(2));
        taken.extend(from_injector(&world));
        monitor.join().unwrap();
        taken.extend(thief.join().unwrap());
        taken.extend(world.0.pop());
        taken.extend(std::iter::from_fn(|| from_injector(&world)));
        world.0.assert_all(taken);
    });
}

#[test]
fn each_task_has_one_taker_that_sees_it() {
    owner_against_thieves(LifoSlot::new);
}

#[test]
fn what_the_monitor_takes_is_taken_once() {
    owner_against_the_monitor(LifoSlot::new);
}

#[test]
fn a_twin_without_a_fault_passes() {
    owner_against_thieves(|| Twin::new(Fault::None));
    owner_against_the_monitor(|| Twin::new(Fault::None));
}

/// A twin for each fault, and the model that must refuse it.
macro_rules! refused {
    ($($name:ident: $model:ident($fault:ident), $text:literal;)*) => {$(
        #[test]
        #[should_panic(expected = $text)]
        fn $name() {
            $model(|| Twin::new(Fault::$fault));
        }
    )*};
}

refused! {
    an_owner_that_pops_by_load_and_store: owner_against_thieves(PopsByStore),
        "data race on a task's contents";
    an_owner_that_pushes_over_by_load_and_store: owner_against_thieves(PushesByStore),
        "data race on a task's contents";
    an_owner_that_takes_every_slot_for_empty: owner_against_thieves(ForgetsFlag),
        "a task was lost, or taken twice";
    a_thief_that_takes_by_load_and_store: owner_against_thieves(StealsByStore),
        "data race on a task's contents";
    a_push_into_the_empty_slot_without_release: owner_against_thieves(PushesRelaxed),
        "data race on a task's contents";
    a_push_over_another_without_release: owner_against_thieves(SwapsRelaxed),
        "data race on a task's contents";
    an_owner_that_pops_by_load_and_store_beside_the_monitor: owner_against_the_monitor(PopsByStore),
        "a task was taken twice";
    a_monitor_that_takes_by_load_and_store: owner_against_the_monitor(StealsByStore),
        "a task was taken twice";
    a_thief_without_acquire: owner_against_thieves(StealsRelaxed), "data race on a task's contents";
}
