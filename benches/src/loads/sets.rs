//! Sets of tasks, and tasks that stay on a thread. Written once for each crate, because the methods of these
//! types are too many for a [`Peer`](crate::peer::Peer).

/// The loads on one crate.
macro_rules! loads {
    ($module:ident, $peer:ty) => {
        /// The loads on this crate.
        pub mod $module {
            use ::$module::task::{JoinSet, LocalSet, spawn_local, yield_now};

            use crate::loads::Load;
            use crate::peer::Peer;

            /// The loads, with the number of operations in one iteration.
            pub fn all() -> [(&'static str, usize, Load<$peer>); 3] {
                [
                    ("join_set", 10_000, join_set),
                    ("local_spawn", 10_000, local_spawn),
                    ("local_wake", 10_000, local_wake),
                ]
            }

            /// A task spawns `tasks` tasks in a set and joins them.
            pub fn join_set(peer: &$peer, tasks: usize) {
                let joins = async move {
                    let mut set = JoinSet::new();
                    for i in 0..tasks {
                        set.spawn(async move { i });
                    }
                    let mut sum = 0;
                    while let Some(result) = set.join_next().await {
                        sum += result.expect("the task ends");
                    }
                    assert_eq!(sum, tasks * (tasks - 1) / 2);
                };
                peer.block_on(async { <$peer as Peer>::spawn_and_wait(joins).await });
            }

            /// `tasks` tasks of a local set are spawned and joined.
            pub fn local_spawn(peer: &$peer, tasks: usize) {
                let local = LocalSet::new();
                peer.block_on(local.run_until(async move {
                    let mut handles: Vec<_> = (0..tasks).map(|i| spawn_local(async move { i })).collect();
                    for (i, handle) in handles.drain(..).enumerate() {
                        assert_eq!(handle.await.expect("the task ends"), i);
                    }
                }));
            }

            /// Pairs of tasks of a local set wake each other, `wakes` times in all.
            pub fn local_wake(peer: &$peer, wakes: usize) {
                const PAIRS: usize = 10;
                let local = LocalSet::new();
                for _ in 0..PAIRS {
                    let (there, back) = (notify(), notify());
                    let (theirs, ours) = (there.clone(), back.clone());
                    local.spawn_local(async move {
                        for _ in 0..wakes / PAIRS / 2 {
                            theirs.notified().await;
                            ours.notify_one();
                        }
                    });
                    local.spawn_local(async move {
                        for _ in 0..wakes / PAIRS / 2 {
                            there.notify_one();
                            back.notified().await;
                        }
                        yield_now().await;
                    });
                }
                peer.block_on(local);
            }

            fn notify() -> std::rc::Rc<::$module::sync::Notify> {
                std::rc::Rc::new(::$module::sync::Notify::new())
            }
        }
    };
}

loads!(runtime, crate::peer::Ours);
loads!(tokio, crate::peer::Tokio);

pub use self::runtime as ours;
