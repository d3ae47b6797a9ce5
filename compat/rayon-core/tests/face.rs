//! Everything that rayon-core 1.13 has, with its bounds. Each function here has Rayon's bounds and nothing
//! more, so that it compiles only if ours ask for no more. The traits that each type has, or must not have,
//! are checked type by type. Most of it need not run.

#![allow(deprecated)]

use std::any::Any;
use std::cell::Cell;
use std::error::Error;
use std::fmt::{Debug, Display};
use std::io;

use rayon_core::*;

mod functions {
    use super::*;

    pub fn join_both<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        join::<A, B, RA, RB>(a, b)
    }

    pub fn join_in_context<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(FnContext) -> RA + Send,
        B: FnOnce(FnContext) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        join_context::<A, B, RA, RB>(a, b)
    }

    pub fn in_scope<'scope, OP, R>(op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R + Send,
        R: Send,
    {
        scope::<'scope, OP, R>(op)
    }

    pub fn in_scope_fifo<'scope, OP, R>(op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
        R: Send,
    {
        scope_fifo::<'scope, OP, R>(op)
    }

    pub fn in_place<'scope, OP, R>(op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R,
    {
        in_place_scope::<'scope, OP, R>(op)
    }

    pub fn in_place_fifo<'scope, OP, R>(op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R,
    {
        in_place_scope_fifo::<'scope, OP, R>(op)
    }

    pub fn detached<F: FnOnce() + Send + 'static>(f: F) {
        spawn::<F>(f)
    }

    pub fn detached_fifo<F: FnOnce() + Send + 'static>(f: F) {
        spawn_fifo::<F>(f)
    }

    pub fn everywhere<OP, R>(op: OP) -> Vec<R>
    where
        OP: Fn(BroadcastContext<'_>) -> R + Sync,
        R: Send,
    {
        broadcast::<OP, R>(op)
    }

    pub fn detached_everywhere<OP>(op: OP)
    where
        OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
    {
        spawn_broadcast::<OP>(op)
    }

    pub const MAX_NUM_THREADS: fn() -> usize = max_num_threads;
    pub const CURRENT_NUM_THREADS: fn() -> usize = current_num_threads;
    pub const CURRENT_THREAD_INDEX: fn() -> Option<usize> = current_thread_index;
    pub const CURRENT_THREAD_HAS_PENDING_TASKS: fn() -> Option<bool> = current_thread_has_pending_tasks;
    pub const YIELD_NOW: fn() -> Option<Yield> = yield_now;
    pub const YIELD_LOCAL: fn() -> Option<Yield> = yield_local;

    #[allow(dead_code)]
    pub fn initialize_for_all(configuration: Configuration) -> Result<(), Box<dyn Error>> {
        initialize(configuration)
    }
}

mod pool {
    // A method's lifetime cannot be given beside that of `&self`.
    use super::*;

    pub fn install<OP, R>(pool: &ThreadPool, op: OP) -> R
    where
        OP: FnOnce() -> R + Send,
        R: Send,
    {
        pool.install::<OP, R>(op)
    }

    pub fn broadcast<OP, R>(pool: &ThreadPool, op: OP) -> Vec<R>
    where
        OP: Fn(BroadcastContext<'_>) -> R + Sync,
        R: Send,
    {
        pool.broadcast::<OP, R>(op)
    }

    pub fn join<A, B, RA, RB>(pool: &ThreadPool, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        pool.join::<A, B, RA, RB>(a, b)
    }

    pub fn scope<'scope, OP, R>(pool: &ThreadPool, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R + Send,
        R: Send,
    {
        pool.scope::<OP, R>(op)
    }

    pub fn scope_fifo<'scope, OP, R>(pool: &ThreadPool, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
        R: Send,
    {
        pool.scope_fifo::<OP, R>(op)
    }

    pub fn in_place_scope<'scope, OP, R>(pool: &ThreadPool, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R,
    {
        pool.in_place_scope::<OP, R>(op)
    }

    pub fn in_place_scope_fifo<'scope, OP, R>(pool: &ThreadPool, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R,
    {
        pool.in_place_scope_fifo::<OP, R>(op)
    }

    pub fn spawn<OP: FnOnce() + Send + 'static>(pool: &ThreadPool, op: OP) {
        pool.spawn::<OP>(op)
    }

    pub fn spawn_fifo<OP: FnOnce() + Send + 'static>(pool: &ThreadPool, op: OP) {
        pool.spawn_fifo::<OP>(op)
    }

    pub fn spawn_broadcast<OP>(pool: &ThreadPool, op: OP)
    where
        OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
    {
        pool.spawn_broadcast::<OP>(op)
    }

    pub const NEW: fn(Configuration) -> Result<ThreadPool, Box<dyn Error>> = ThreadPool::new;
    pub const CURRENT_NUM_THREADS: fn(&ThreadPool) -> usize = ThreadPool::current_num_threads;
    pub const CURRENT_THREAD_INDEX: fn(&ThreadPool) -> Option<usize> = ThreadPool::current_thread_index;
    pub const CURRENT_THREAD_HAS_PENDING_TASKS: fn(&ThreadPool) -> Option<bool> =
        ThreadPool::current_thread_has_pending_tasks;
    pub const YIELD_NOW: fn(&ThreadPool) -> Option<Yield> = ThreadPool::yield_now;
    pub const YIELD_LOCAL: fn(&ThreadPool) -> Option<Yield> = ThreadPool::yield_local;
}

mod scopes {
    use super::*;

    macro_rules! spawns {
        ($($scope:ident: $spawn:ident, $spawn_broadcast:ident;)*) => {$(
            pub fn $spawn<'scope, F>(scope: &$scope<'scope>, f: F)
            where
                F: FnOnce(&$scope<'scope>) + Send + 'scope,
            {
                scope.$spawn::<F>(f)
            }

            pub fn $spawn_broadcast<'scope, F>(scope: &$scope<'scope>, f: F)
            where
                F: Fn(&$scope<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
            {
                scope.spawn_broadcast::<F>(f)
            }
        )*};
    }

    spawns! {
        Scope: spawn, spawn_broadcast;
        ScopeFifo: spawn_fifo, spawn_broadcast_fifo;
    }
}

mod building {
    use super::*;

    pub fn every_option<T, P, H>(
        builder: ThreadPoolBuilder,
        name: T,
        panicked: P,
        handler: H,
    ) -> ThreadPoolBuilder
    where
        T: FnMut(usize) -> String + 'static,
        P: Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
        H: Fn(usize) + Send + Sync + Clone + 'static,
    {
        builder
            .thread_name::<T>(name)
            .num_threads(3)
            .use_current_thread()
            .panic_handler::<P>(panicked)
            .stack_size(1 << 20)
            .breadth_first()
            .start_handler::<H>(handler.clone())
            .exit_handler::<H>(handler)
    }

    pub fn with_threads_of_ones_own<F>(
        builder: ThreadPoolBuilder,
        spawn: F,
    ) -> Result<(), ThreadPoolBuildError>
    where
        F: FnMut(ThreadBuilder) -> io::Result<()>,
    {
        // The options are there with any spawner, and a spawner can be replaced.
        let builder = builder.spawn_handler(|_| Ok(())).num_threads(1).spawn_handler::<F>(spawn);
        let _: &dyn Debug = &builder;
        builder.build().map(drop)
    }

    #[allow(dead_code)]
    pub fn global<F>(builder: ThreadPoolBuilder, spawn: F) -> Result<(), ThreadPoolBuildError>
    where
        F: FnMut(ThreadBuilder) -> io::Result<()>,
    {
        builder.spawn_handler::<F>(spawn).build_global()
    }

    pub fn scoped<W, F, R>(builder: ThreadPoolBuilder, wrapper: W, f: F) -> Result<R, ThreadPoolBuildError>
    where
        W: Fn(ThreadBuilder) + Sync,
        F: FnOnce(&ThreadPool) -> R,
    {
        builder.build_scoped::<W, F, R>(wrapper, f)
    }

    pub fn configuration<T, P, H>(name: T, panicked: P, handler: H) -> Result<ThreadPool, Box<dyn Error>>
    where
        T: FnMut(usize) -> String + 'static,
        P: Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
        H: Fn(usize) + Send + Sync + Clone + 'static,
    {
        Configuration::new()
            .thread_name::<T>(name)
            .num_threads(3)
            .panic_handler::<P>(panicked)
            .stack_size(1 << 20)
            .breadth_first()
            .start_handler::<H>(handler.clone())
            .exit_handler::<H>(handler)
            .build()
    }

    pub const INDEX: fn(&ThreadBuilder) -> usize = ThreadBuilder::index;
    pub const NAME: fn(&ThreadBuilder) -> Option<&str> = ThreadBuilder::name;
    pub const STACK_SIZE: fn(&ThreadBuilder) -> Option<usize> = ThreadBuilder::stack_size;
    pub const RUN: fn(ThreadBuilder) = ThreadBuilder::run;

    pub const MIGRATED: fn(&FnContext) -> bool = FnContext::migrated;
    pub const BROADCAST_INDEX: fn(&BroadcastContext) -> usize = |context| context.index();
    pub const BROADCAST_NUM_THREADS: fn(&BroadcastContext) -> usize = |context| context.num_threads();
}

/// Whether a type has a trait, for traits that it must not have: the method of the type wins over the
/// trait's.
macro_rules! has {
    ($type:ty: $bound:path) => {{
        struct Probe<T: ?Sized>(std::marker::PhantomData<T>);
        #[allow(dead_code)]
        trait Otherwise {
            fn has(&self) -> bool {
                false
            }
        }
        impl<T: ?Sized> Otherwise for Probe<T> {}
        impl<T: ?Sized + $bound> Probe<T> {
            #[allow(dead_code)]
            fn has(&self) -> bool {
                true
            }
        }
        Probe::<$type>(std::marker::PhantomData).has()
    }};
}

#[test]
fn the_types_have_rayons_traits() {
    fn shared<T: Send + Sync + Unpin + Debug>() {}
    shared::<Scope<'static>>();
    shared::<ScopeFifo<'static>>();
    shared::<ThreadPool>();
    shared::<Yield>();
    shared::<ThreadPoolBuildError>();
    fn debug<T: Unpin + Debug>() {}
    debug::<FnContext>();
    debug::<BroadcastContext<'static>>();
    debug::<ThreadPoolBuilder>();
    debug::<ThreadBuilder>();
    debug::<Configuration>();
    fn error<T: Error + Display + 'static>() {}
    error::<ThreadPoolBuildError>();
    fn default<T: Default>() {}
    default::<ThreadPoolBuilder>();
    default::<Configuration>();
    fn copy<T: Copy + Eq>() {}
    copy::<Yield>();

    assert!(has!(ThreadBuilder: Send));
    assert!(!has!(ThreadBuilder: Sync));
    assert!(!has!(FnContext: Send) && !has!(FnContext: Sync));
    assert!(!has!(BroadcastContext<'static>: Send) && !has!(BroadcastContext<'static>: Sync));
    assert!(!has!(ThreadPoolBuilder: Send) && !has!(ThreadPoolBuilder: Sync));
    assert!(!has!(Configuration: Send) && !has!(Configuration: Sync));
}

/// A caller may match without a last arm.
#[test]
fn yield_is_one_of_two() {
    let name = |outcome| match outcome {
        Yield::Executed => "executed",
        Yield::Idle => "idle",
    };
    assert_eq!([Yield::Executed, Yield::Idle].map(name), ["executed", "idle"]);
}

#[test]
fn a_builder_shows_what_was_asked_for() {
    assert_eq!(
        format!("{:?}", ThreadPoolBuilder::new().num_threads(4).panic_handler(|_| ())),
        "ThreadPoolBuilder { num_threads: 4, use_current_thread: false, thread_name: None, \
         panic_handler: Some(<closure>), stack_size: None, start_handler: None, exit_handler: None, \
         breadth_first: false }"
    );
    assert_eq!(format!("{:?}", Configuration::new()), format!("{:?}", ThreadPoolBuilder::new()));
}

#[test]
fn closures_that_just_satisfy_the_bounds_are_accepted() {
    let not_send = std::rc::Rc::new(1);
    assert_eq!(*functions::in_place(|_| std::rc::Rc::clone(&not_send)), 1);
    assert_eq!(*functions::in_place_fifo(|_| std::rc::Rc::clone(&not_send)), 1);
    assert_eq!(functions::join_both(|| 1, || 2), (1, 2));
    assert_eq!(functions::join_in_context(|_| 1, |_| 2), (1, 2));
    functions::in_scope(|s| {
        scopes::spawn(s, |_| ());
        scopes::spawn_broadcast(s, |_, _| ());
    });
    functions::in_scope_fifo(|s| {
        scopes::spawn_fifo(s, |_| ());
        scopes::spawn_broadcast_fifo(s, |_, _| ());
    });
    functions::detached(|| ());
    functions::detached_fifo(|| ());
    functions::detached_everywhere(|_| ());
    assert_eq!(
        functions::everywhere(|context| building::BROADCAST_NUM_THREADS(&context)).len(),
        current_num_threads()
    );
    assert!(functions::MAX_NUM_THREADS() >= functions::CURRENT_NUM_THREADS());
    let off_any_pool = (
        functions::CURRENT_THREAD_INDEX(),
        functions::CURRENT_THREAD_HAS_PENDING_TASKS(),
        functions::YIELD_NOW(),
        functions::YIELD_LOCAL(),
    );
    assert_eq!(off_any_pool, (None, None, None, None));
    assert!(
        functions::join_in_context(|a| building::MIGRATED(&a), |_| ()).0,
        "it ran on a thread of the pool"
    );
}

#[test]
fn a_pool_has_the_same_and_a_thread_of_another_is_no_part_of_it() {
    let name = std::rc::Rc::new("of a pool");
    let pool = building::configuration(move |i| format!("{name} {i}"), |_| (), |_| ()).unwrap();
    assert_eq!(pool::CURRENT_NUM_THREADS(&pool::NEW(Configuration::new().num_threads(2)).unwrap()), 2);
    let other = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    assert_eq!(pool::CURRENT_NUM_THREADS(&pool), 3);
    let of = |pool: &ThreadPool| {
        (
            pool::CURRENT_THREAD_INDEX(pool),
            pool::CURRENT_THREAD_HAS_PENDING_TASKS(pool),
            pool::YIELD_NOW(pool),
            pool::YIELD_LOCAL(pool),
        )
    };
    assert_eq!(of(&pool), (None, None, None, None));
    pool::install(&other, || assert_eq!(of(&pool), (None, None, None, None)));
    pool::install(&pool, || {
        assert!(of(&pool).0.is_some_and(|index| index < 3));
        assert!(matches!(of(&pool), (Some(_), Some(_), Some(_), Some(_))));
        assert!(std::thread::current().name().unwrap().starts_with("of a pool "));
    });
    assert_eq!(pool::broadcast(&pool, |context| building::BROADCAST_INDEX(&context)), [0, 1, 2]);
    assert_eq!(pool::join(&pool, || 1, || 2), (1, 2));
    assert_eq!(pool::scope(&pool, |_| 1) + pool::scope_fifo(&pool, |_| 2), 3);
    assert_eq!(pool::in_place_scope(&pool, |_| 1) + pool::in_place_scope_fifo(&pool, |_| 2), 3);
    pool::spawn(&pool, || ());
    pool::spawn_fifo(&pool, || ());
    pool::spawn_broadcast(&pool, |_| ());
}

#[test]
fn builders_take_each_option() {
    let builder = building::every_option(ThreadPoolBuilder::new(), |i| i.to_string(), |_| (), |_| ());
    assert!(format!("{builder:?}").contains("use_current_thread: true"));
    let spawned = Cell::new(0);
    let spawner = |thread: ThreadBuilder| {
        spawned.set(spawned.get() + 1);
        std::thread::spawn(|| thread.run());
        Ok(())
    };
    building::with_threads_of_ones_own(ThreadPoolBuilder::new(), spawner).unwrap();
    assert_eq!(spawned.get(), 1);

    let indices = std::sync::Mutex::new(Vec::new());
    let sum = building::scoped(
        ThreadPoolBuilder::new().num_threads(2).thread_name(|i| format!("scoped {i}")).stack_size(1 << 20),
        |thread| {
            indices.lock().unwrap().push((building::INDEX(&thread), building::STACK_SIZE(&thread)));
            assert!(building::NAME(&thread).unwrap().starts_with("scoped "));
            building::RUN(thread);
        },
        |pool| pool.broadcast(|context| context.index()).into_iter().sum::<usize>(),
    );
    assert_eq!(sum.unwrap(), 1);
    let mut indices = indices.into_inner().unwrap();
    indices.sort_unstable();
    assert_eq!(indices, [(0, Some(1 << 20)), (1, Some(1 << 20))]);
}

/// What a failing spawner says comes out.
#[test]
fn errors_say_what_rayons_say() {
    let refuse = |_| Err(io::Error::other("no more threads"));
    let refused = ThreadPoolBuilder::new().spawn_handler(refuse).build().unwrap_err();
    assert_eq!(refused.to_string(), "no more threads");
    assert_eq!(refused.source().unwrap().to_string(), "no more threads");

    let twice = || ThreadPoolBuilder::new().num_threads(2).use_current_thread().build();
    let (_first, second) = (twice().unwrap(), twice().unwrap_err());
    assert_eq!(second.to_string(), "The current thread is already part of another thread pool.");
    assert!(second.source().is_none());
}
