//! What the fork-join loads need from a pool.

use std::num::NonZero;
use std::sync::OnceLock;

use super::ours::{Visited, parallel as ours};
use crate::pin::{pin, unpin};

/// A pool that can divide work. Everything is handed straight to the crate that it stands for.
pub trait ForkJoin: Send + Sync + Sized + 'static {
    /// The crate's name, for tables and command lines.
    const NAME: &'static str;

    /// Where the calling code is on the pool: chili wants this passed from call to call, Rayon finds it by
    /// itself.
    type Here<'s>;

    /// Starts a pool of `workers` threads.
    fn start(workers: usize) -> Self;

    /// Runs `work` on the pool. chili has no such verb; there the calling thread becomes a part of the pool.
    fn run<R: Send>(&self, work: impl FnOnce(&mut Self::Here<'_>) -> R + Send) -> R;

    /// Runs `work` as one half of a `join`, called by a thread that is none of the pool's, in whatever way
    /// costs it least.
    fn call<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.run(|here| Self::join(here, |_| work(), |_| ()).0)
    }

    /// Runs both, perhaps at once; if not, then `first` first.
    fn join<A: Send, B: Send>(
        here: &mut Self::Here<'_>,
        first: impl FnOnce(&mut Self::Here<'_>) -> A + Send,
        second: impl FnOnce(&mut Self::Here<'_>) -> B + Send,
    ) -> (A, B);
}

/// A pool that has scopes as well.
pub trait Scopes: ForkJoin {
    /// A scope, whose jobs may borrow for `'s`.
    type Scope<'s>;

    /// Runs `body` and then waits for everything that it spawned. Called on a worker.
    fn scope<'s, R: Send>(body: impl FnOnce(&Self::Scope<'s>) -> R + Send) -> R;

    /// Spawns a job.
    fn spawn<'s>(scope: &Self::Scope<'s>, job: impl FnOnce(&Self::Scope<'s>) + Send + 's);
}

/// A pool that has scopes whose jobs run in the order in which they were spawned.
pub trait FifoScopes: Scopes {
    /// As [`Scope`](Scopes::Scope).
    type ScopeFifo<'s>;

    /// As [`scope`](Scopes::scope).
    fn scope_fifo<'s, R: Send>(body: impl FnOnce(&Self::ScopeFifo<'s>) -> R + Send) -> R;

    /// As [`spawn`](Scopes::spawn).
    fn spawn_fifo<'s>(scope: &Self::ScopeFifo<'s>, job: impl FnOnce(&Self::ScopeFifo<'s>) + Send + 's);
}

/// Implements all three traits for `$peer` on the module `$api`, which has Rayon's names.
macro_rules! peer {
    ($(#[$doc:meta])* $peer:ident($($field:ty)?), $name:literal, $api:ident, { $($more:item)* }) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $peer($api::ThreadPool $(, $field)?);

        impl ForkJoin for $peer {
            const NAME: &'static str = $name;

            type Here<'s> = ();

            fn start(workers: usize) -> Self {
                let pool = $api::ThreadPoolBuilder::new().num_threads(workers).start_handler(pin).build();
                Self(pool.expect("a pool starts") $(, <$field>::default())?)
            }

            $($more)*

            fn run<R: Send>(&self, work: impl FnOnce(&mut ()) -> R + Send) -> R {
                self.0.install(|| work(&mut ()))
            }

            fn join<A: Send, B: Send>(
                _: &mut (),
                first: impl FnOnce(&mut ()) -> A + Send,
                second: impl FnOnce(&mut ()) -> B + Send,
            ) -> (A, B) {
                $api::join(|| first(&mut ()), || second(&mut ()))
            }
        }

        impl Scopes for $peer {
            type Scope<'s> = $api::Scope<'s>;

            fn scope<'s, R: Send>(body: impl FnOnce(&$api::Scope<'s>) -> R + Send) -> R {
                $api::scope(body)
            }

            fn spawn<'s>(scope: &$api::Scope<'s>, job: impl FnOnce(&$api::Scope<'s>) + Send + 's) {
                scope.spawn(job);
            }
        }

        impl FifoScopes for $peer {
            type ScopeFifo<'s> = $api::ScopeFifo<'s>;

            fn scope_fifo<'s, R: Send>(body: impl FnOnce(&$api::ScopeFifo<'s>) -> R + Send) -> R {
                $api::scope_fifo(body)
            }

            fn spawn_fifo<'s>(
                scope: &$api::ScopeFifo<'s>,
                job: impl FnOnce(&$api::ScopeFifo<'s>) + Send + 's,
            ) {
                scope.spawn_fifo(job);
            }
        }
    };
}

peer!(
    /// This project.
    Ours(OnceLock<Visited>), "runtime", ours, {
        fn call<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
            let visited = self.1.get_or_init(|| Visited::start(self.0.current_num_threads()));
            visited.join(work)
        }
    }
);
peer!(
    /// Rayon.
    Rayon(), "rayon", rayon, {}
);

/// chili. Its worker count includes the calling thread.
#[derive(Debug)]
pub struct Chili(chili::ThreadPool);

impl ForkJoin for Chili {
    const NAME: &'static str = "chili";

    type Here<'s> = chili::Scope<'s>;

    fn start(workers: usize) -> Self {
        // The first CPU is left to the caller, which is a worker, too.
        pin(1);
        let pool = chili::ThreadPool::with_config(chili::Config {
            thread_count: NonZero::new(workers),
            ..Default::default()
        });
        unpin();
        Self(pool)
    }

    fn run<R: Send>(&self, work: impl FnOnce(&mut chili::Scope<'_>) -> R + Send) -> R {
        pin(0);
        let result = work(&mut self.0.scope());
        unpin();
        result
    }

    /// chili's own `join` runs its second closure first, and the others' the first: a tree that lies in
    /// memory in one order would be walked in the other. So here they change places.
    fn join<A: Send, B: Send>(
        here: &mut chili::Scope<'_>,
        first: impl FnOnce(&mut chili::Scope<'_>) -> A + Send,
        second: impl FnOnce(&mut chili::Scope<'_>) -> B + Send,
    ) -> (A, B) {
        let (b, a) = here.join(second, first);
        (a, b)
    }
}

/// forte. The calling thread becomes a part of the pool, and its worker count includes it. There can be only
/// one in a process.
#[allow(missing_debug_implementations, reason = "forte's pool has none")]
pub struct Forte(&'static forte::ThreadPool);

impl ForkJoin for Forte {
    const NAME: &'static str = "forte";

    type Here<'s> = &'s forte::Worker;

    fn start(workers: usize) -> Self {
        static POOL: forte::ThreadPool = forte::ThreadPool::new();

        // The first CPU is left to the caller, which is a worker, too.
        pin(1);
        POOL.resize_to(workers - 1);
        unpin();
        Self(&POOL)
    }

    fn run<R: Send>(&self, work: impl FnOnce(&mut &forte::Worker) -> R + Send) -> R {
        pin(0);
        let result = self.0.with_worker(|mut here| work(&mut here));
        unpin();
        result
    }

    /// The same order as with chili.
    fn join<A: Send, B: Send>(
        here: &mut &forte::Worker,
        first: impl FnOnce(&mut &forte::Worker) -> A + Send,
        second: impl FnOnce(&mut &forte::Worker) -> B + Send,
    ) -> (A, B) {
        let (b, a) = here.join(|mut here| second(&mut here), |mut here| first(&mut here));
        (a, b)
    }
}

impl Scopes for Forte {
    type Scope<'s> = forte::Scope<'s>;

    fn scope<'s, R: Send>(body: impl FnOnce(&forte::Scope<'s>) -> R + Send) -> R {
        forte::scope(body)
    }

    fn spawn<'s>(scope: &forte::Scope<'s>, job: impl FnOnce(&forte::Scope<'s>) + Send + 's) {
        scope.spawn(job);
    }
}

/// Plain calls, one after the other. What a `join` costs above this time is the pool's cost; half of this
/// time is the limit of two threads.
#[derive(Debug)]
pub struct Plain;

impl ForkJoin for Plain {
    const NAME: &'static str = "plain calls";

    type Here<'s> = ();

    fn start(_: usize) -> Self {
        Self
    }

    fn run<R: Send>(&self, work: impl FnOnce(&mut ()) -> R + Send) -> R {
        work(&mut ())
    }

    fn join<A: Send, B: Send>(
        _: &mut (),
        first: impl FnOnce(&mut ()) -> A + Send,
        second: impl FnOnce(&mut ()) -> B + Send,
    ) -> (A, B) {
        (first(&mut ()), second(&mut ()))
    }
}
