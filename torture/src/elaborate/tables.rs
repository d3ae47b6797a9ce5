//! Which operation a gene's number chooses.

use crate::genome::KINDS;
use crate::kinds::{Kind, Kinds};

macro_rules! table {
    ($name:ident, $choose:ident: $($variant:ident $weight:literal $($kind:ident)?,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum $name { $($variant,)* }

        /// What a gene's number chooses: among all operations, or among the operations of the kinds that are
        /// on.
        pub(super) fn $choose(number: u16, kinds: Kinds) -> $name {
            const TABLE: &[($name, u32, Option<Kind>)] =
                &[$(($name::$variant, $weight, table!(@kind $($kind)?)),)*];
            let is_on = |kind: Option<Kind>| !kinds.is_dense() || kind.is_none_or(|kind| kinds.has(kind));
            let entries = || TABLE.iter().filter(|entry| is_on(entry.2));
            let all: u32 = entries().map(|entry| entry.1).sum();
            let mut left = u32::from(number % KINDS) * all / u32::from(KINDS);
            for &(name, weight, _) in entries() {
                if left < weight {
                    return name;
                }
                left -= weight;
            }
            unreachable!("the weights are added up")
        }
    };
    (@kind) => { None };
    (@kind $kind:ident) => { Some(Kind::$kind) };
}

// The first is what proptest shrinks to.
table! { Awaited, awaited:
    Seq 40, Yield 40, Sleep 30 Timers, Spin 30, Block 15 Unmarked, Panic 20 Panics, Spawn 110, Many 30,
    Blocking 50 Blocking,
    Compute 140 Compute, Endless 50 Endless, InPlace 90 InPlace, Here 90, Both 20 Select, Select 20 Select,
    Timeout 15 Timers, Gate 50 Gates, Pipe 25 Channels, Hold 30 Locks, Echo 12 Tcp, Foreign 25 Wakers,
    Odd 20 Wakers,
    Local 20 Locals, Close 12 Shutdown, Nested 25 Nested, UntilEnd 12 Shutdown, Deadlock 8 Deadlocks,
    Pause 12 Pauses, Twins 12 Twins, Drops 20 Drops,
}

table! { Called, called:
    Seq 40, Spin 60, Block 25 Unmarked, Panic 25 Panics, Catch 35, Join 140, Scope 90 Scopes,
    Isolated 50 Isolated,
    Install 100 Installs, Broadcast 25 Broadcast, Barriers 25 Barriers, Detached 40 Detached,
    BlockOn 120 BlockOn, InPlace 30 InPlace,
    Blocking 10 InPlace, Meet 60 Meets, Yield 10 Yields, Task 25, Thread 30 Threads, Nested 30 Nested,
    OwnPool 12 Installs,
    Local 20 Locals, Borrow 20 Borrows, Locked 15 Locks, UntilEnd 15 Shutdown, Close 10 Shutdown,
    Unwound 40 Unwinding, Pause 12 Pauses, Set 20 Sets, Levels 25 Levels, Crowd 15 Crowds,
    Guards 25 Guards, Guarded 30 ForkingDrops,
}
