//! Tasks that are parked, and woken all at once, round by round.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use super::{Countdown, in_task};
use crate::peer::Peer;

/// How many tasks are parked, unless the load says something else.
const TASKS: usize = 1_000;

/// 1000 parked tasks, woken by a task: `wakes` in all, rounded down to a multiple of 1000.
pub fn by_task<P: Peer>(peer: &P, wakes: usize) {
    storm_of(peer, TASKS, wakes);
}

/// `tasks` parked tasks, woken by a task, each of them once.
pub fn of_many<P: Peer>(peer: &P, tasks: usize) {
    storm_of(peer, tasks, tasks);
}

fn storm_of<P: Peer>(peer: &P, tasks: usize, wakes: usize) {
    let rounds = wakes / tasks;
    in_task(peer, async move {
        let (finish, all_done) = Countdown::<P>::new(tasks);
        let gathering = start::<P>(tasks, rounds, &finish);
        for round in 1..=rounds {
            gathering.all_are_parked().await;
            gathering.wake_all(round);
        }
        all_done.await.expect("the last task sends");
    });
}

/// 1000 parked tasks, woken by a thread that is no worker: `wakes` in all, rounded down to a multiple of
/// 1000.
pub fn by_thread<P: Peer>(peer: &P, wakes: usize) {
    let rounds = wakes / TASKS;
    let (finish, all_done) = Countdown::<P>::new(TASKS);
    let gathering = peer.block_on(async { start::<P>(TASKS, rounds, &finish) });
    for round in 1..=rounds {
        peer.block_on(gathering.all_are_parked());
        gathering.wake_all(round);
    }
    peer.block_on(async { all_done.await.expect("the last task sends") });
}

fn start<P: Peer>(tasks: usize, rounds: usize, finish: &Countdown<P>) -> Arc<Gathering> {
    let gathering = Arc::new(Gathering::new(tasks));
    for _ in 0..tasks {
        let (gathering, finish) = (gathering.clone(), finish.clone());
        P::spawn(async move {
            for round in 1..=rounds {
                gathering.wait_for(round).await;
            }
            finish.one();
        });
    }
    gathering
}

/// Where tasks wait for the next round.
pub(super) struct Gathering {
    /// How many tasks there are.
    tasks: usize,
    /// The round that has begun last.
    round: AtomicUsize,
    parked: Mutex<Parked>,
}

#[derive(Default)]
struct Parked {
    wakers: Vec<Waker>,
    /// The waker of the caller of [`all_are_parked`](Gathering::all_are_parked).
    witness: Option<Waker>,
}

impl Gathering {
    pub(super) fn new(tasks: usize) -> Self {
        let parked = Parked { wakers: Vec::with_capacity(tasks), witness: None };
        Self { tasks, round: AtomicUsize::new(0), parked: Mutex::new(parked) }
    }

    /// Waits until `round` has begun.
    pub(super) fn wait_for(&self, round: usize) -> impl Future<Output = ()> + Send {
        let mut is_parked = false;
        poll_fn(move |context| {
            // Acquire: pairs with `wake_all`, so that a task sees what was written before its round began.
            if self.round.load(Ordering::Acquire) >= round {
                return Poll::Ready(());
            }
            if !is_parked {
                is_parked = true;
                let mut parked = self.parked.lock().expect("no thread panics with the lock");
                parked.wakers.push(context.waker().clone());
                if parked.wakers.len() == self.tasks
                    && let Some(witness) = parked.witness.take()
                {
                    drop(parked);
                    witness.wake();
                }
            }
            Poll::Pending
        })
    }

    /// Waits until every task waits.
    pub(super) fn all_are_parked(&self) -> impl Future<Output = ()> + Send {
        poll_fn(|context| {
            let mut parked = self.parked.lock().expect("no thread panics with the lock");
            if parked.wakers.len() == self.tasks {
                return Poll::Ready(());
            }
            parked.witness = Some(context.waker().clone());
            Poll::Pending
        })
    }

    /// Begins `round`. The caller has waited for [`all_are_parked`](Self::all_are_parked).
    pub(super) fn wake_all(&self, round: usize) {
        let wakers = {
            let mut parked = self.parked.lock().expect("no thread panics with the lock");
            std::mem::replace(&mut parked.wakers, Vec::with_capacity(self.tasks))
        };
        self.round.store(round, Ordering::Release);
        wakers.into_iter().for_each(Waker::wake);
    }
}
