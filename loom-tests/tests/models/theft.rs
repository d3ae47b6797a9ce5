//! What the monitor takes from a stuck worker, M4 of `monitor.rs`: beside the owner, which may not be stuck after all, and
//! another thief, each task is taken once, by one who sees it.
//!
//! The queues are real; the monitor's two ways with them are copies of a few lines.
//!
//! Bounds: an owner with three tasks, a thief, the monitor; of the ring, the last slots before the wrap.

use std::sync::Arc;

use loom::thread;
use runtime::internals::queue::{Chain, Injector, Local};

use super::item::{Item, Items};

struct World {
    items: Items,
    ring: Local<Item>,
    thief: Local<Item>,
    /// The monitor's, through which stolen tasks pass.
    hands: Local<Item>,
    injector: Injector<Item>,
}

impl World {
    fn new(items: usize) -> Arc<Self> {
        Arc::new(Self {
            items: Items::new(items),
            ring: Local::new(),
            thief: Local::new(),
            hands: Local::new(),
            injector: Injector::new(),
        })
    }

    /// The owner pushes.
    fn push(&self, value: usize) {
        // SAFETY: one thread is the owner; each value is pushed once, and items live as long as `self`.
        unsafe { self.ring.push_back(self.items.make(value), &self.injector) };
    }

    /// The owner's next: its ring, then the injector.
    fn next(&self) -> Option<usize> {
        // SAFETY: one thread is the owner.
        let item = unsafe { self.ring.pop() }.or_else(|| self.injector.pop());
        item.map(|item| self.items.take(item))
    }

    /// A searcher steals once, and takes what it got.
    fn search(&self) -> Vec<usize> {
        // SAFETY: one thread is the owner of the thief's ring.
        let first = unsafe { self.ring.steal_into(&self.thief) }.map(|(first, _)| first);
        // SAFETY: as above.
        let others = std::iter::from_fn(|| unsafe { self.thief.pop() });
        first.into_iter().chain(others).map(|item| self.items.take(item)).collect()
    }

    /// The monitor empties the ring into the injector.
    fn empty(&self) {
        let mut batch = Chain::new();
        // SAFETY: one thread is the monitor; what it stole is in no queue.
        unsafe {
            while let Some((item, _)) = self.ring.steal_into(&self.hands) {
                batch.push_back(item);
                while let Some(item) = self.hands.pop() {
                    batch.push_back(item);
                }
            }
        }
        if !batch.is_empty() {
            self.injector.push_batch(batch);
        }
    }
}

#[test]
fn a_ring_is_emptied_beside_its_owner_and_a_thief() {
    loom::model(|| {
        let world = World::new(4);
        (0..3).for_each(|value| world.push(value));
        let monitor = {
            let world = world.clone();
            thread::spawn(move || world.empty())
        };
        let thief = {
            let world = world.clone();
            thread::spawn(move || world.search())
        };
        let mut taken: Vec<_> = world.next().into_iter().collect();
        world.push(3);
        taken.extend(world.next());
        monitor.join().unwrap();
        taken.extend(thief.join().unwrap());
        taken.extend(std::iter::from_fn(|| world.next()));
        world.items.assert_all(taken);
    });
}
