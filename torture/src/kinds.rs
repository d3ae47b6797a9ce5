//! The kinds of operation, each of which can be switched off: `--without shutdown,installs`.
//!
//! A seed makes the same tree whatever is switched off by `--without`: an operation of a kind that is off
//! becomes the sequence of what is below it. So a seed that fails can be tried again with fewer kinds.
//! `--only` chooses among the kinds that are named, so that each of them is frequent.

use std::fmt;
use std::str::FromStr;

macro_rules! kinds {
    ($($variant:ident $name:literal $text:literal)*) => {
        /// A kind of operation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Kind { $(#[doc = $text] $variant,)* }

        impl Kind {
            /// Every kind.
            pub const ALL: &'static [Kind] = &[$(Kind::$variant,)*];

            /// The name on the command line.
            pub fn name(self) -> &'static str {
                match self { $(Kind::$variant => $name,)* }
            }

            /// What it stands for.
            pub fn text(self) -> &'static str {
                match self { $(Kind::$variant => $text,)* }
            }
        }
    };
}

kinds! {
    Shutdown "shutdown" "the end of the runtime in the middle, by drop and by both shutdowns, from anywhere"
    Nested "nested" "runtimes inside of tasks, jobs, closures and threads, with workers or without"
    Single "single" "`current_thread` runtimes, as the program's runtime and nested ones"
    Installs "installs" "`install` into a `ThreadPool`, and pools built inside of pools"
    Isolated "isolated" "`parallel::isolated`"
    Panics "panics" "panics at leaves"
    Unwinding "unwinding" "a `join` whose first closure panics while the second has something to wait for"
    Broadcast "broadcast" "`broadcast` and `spawn_broadcast`"
    Barriers "barriers" "broadcasts at once, in each of which all threads wait for each other"
    Detached "detached" "`parallel::spawn`, `spawn_fifo`, `ThreadPool::spawn`, waited for or not"
    Threads "threads" "threads outside of the runtime that spawn, block and compute"
    InPlace "in-place" "`block_in_place` and `parallel::blocking`"
    BlockOn "block-on" "`Handle::block_on` in jobs, closures and on threads"
    Blocking "blocking" "`spawn_blocking`"
    Unmarked "unmarked" "blocking that is not announced: `std::thread::sleep`, a channel or a thread of `std`"
    Compute "compute" "`compute`"
    Cancel "cancel" "tasks, closures and computations that are aborted or dropped in the middle"
    Endless "endless" "computations that run until they are cancelled"
    Select "select" "`select!`, `timeout` and `join!`"
    Timers "timers" "`sleep`"
    Channels "channels" "`mpsc` channels with and without a bound"
    Locks "locks" "`Mutex`, `Semaphore` held across what is below, a lock of `std` around `isolated`"
    Gates "gates" "one part waits until another has ended: `oneshot`, `Notify`, `Semaphore`"
    Meets "meets" "the first closure of a `join` waits, announced, for the second"
    Tcp "tcp" "an echo over loopback"
    Wakers "wakers" "wakes by other threads, late or after the end; wakers that block, spawn or panic"
    WakerForks "waker-forks" "wakers that call `join`, so that they may wait for a worker"
    Locals "locals" "task-locals: `scope`, `sync_scope`"
    Borrows "borrows" "work inside of `LocalKey::with`"
    Scopes "scopes" "`scope`, `scope_fifo`, and those in place"
    Surroundings "surroundings" "no operation: a check of the current runtime and the task-local in jobs"
    Yields "yields" "`parallel::yield_now` and `yield_local`"
    Relief "relief" "few spare workers or none; off: 512"
    Spares "spares" "programs that need spare workers to run computations while the others wait (see `rules`)"
    Hooks "hooks" "hooks of threads that take time, spawn, panic, wake tasks, fork or wait at the end"
    Names "names" "a `thread_name_fn` that takes time, or panics, so that the thread is refused"
    Sets "sets" "a `LocalSet` polled with a waker that blocks, takes a lock, spawns or panics"
    Levels "levels" "`block_on` in a `LocalSet` or a `LocalRuntime`, several inside of each other"
    Crowds "crowds" "threads in `block_on` of one `current_thread` runtime, whose polls wait for each other"
    Guards "guards" "guards of `Handle::enter` that are dropped inside of a scope"
    ForkingDrops "forking-drops" "destructors that call `join`, also those of cancelled computations"
    Twins "twins" "two timers due at once, where the waker of one blocks until the other has fired"
    Pauses "pauses" "pauses of 200 ms, after which a thread outside wakes, spawns, computes or sends"
    Bare "bare" "programs with neither timers nor sockets, with drivers or without"
    Drops "drops" "destructors of tasks and of closures not run, which block while the runtime ends"
    Deadlocks "deadlocks" "threads that are marked as blocked, and released by the deadlock handler"
}

/// A bit of a set that is no kind, and its name.
const DENSE: u64 = 1 << 63;
const DENSE_NAME: &str = "dense";

/// A set of kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kinds(u64);

impl Kinds {
    /// Every kind.
    pub const ALL: Kinds = Kinds((1 << Kind::ALL.len()) - 1);
    /// None.
    pub const NONE: Kinds = Kinds(0);

    /// Whether `kind` is on.
    pub fn has(self, kind: Kind) -> bool {
        self.0 & 1 << kind as u32 != 0
    }

    /// The set with `kind`.
    pub fn with(self, kind: Kind) -> Self {
        Kinds(self.0 | 1 << kind as u32)
    }

    /// The set without `kind`.
    pub fn without(self, kind: Kind) -> Self {
        Kinds(self.0 & !(1 << kind as u32))
    }

    /// Whether operations are chosen among those of the set only, so that a seed's program is another with
    /// another set.
    pub fn is_dense(self) -> bool {
        self.0 & DENSE != 0
    }

    /// The set, marked as [dense](Self::is_dense).
    pub fn dense(self) -> Self {
        Kinds(self.0 | DENSE)
    }

    /// The kinds that are not in the set.
    pub fn missing(self) -> Vec<&'static str> {
        Kind::ALL.iter().filter(|&&kind| !self.has(kind)).map(|kind| kind.name()).collect()
    }
}

/// Names of kinds, with commas between them.
impl FromStr for Kinds {
    type Err = String;

    fn from_str(names: &str) -> Result<Self, String> {
        let mut kinds = Kinds::NONE;
        for name in names.split(',').filter(|name| !name.is_empty()) {
            if name == DENSE_NAME {
                kinds = kinds.dense();
                continue;
            }
            let kind = Kind::ALL.iter().find(|kind| kind.name() == name);
            kinds = kinds.with(*kind.ok_or_else(|| format!("there is no kind of operation \"{name}\""))?);
        }
        Ok(kinds)
    }
}

impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_on = |kind: &&Kind| self.has(**kind);
        let mut names: Vec<_> = Kind::ALL.iter().filter(is_on).map(|kind| kind.name()).collect();
        names.extend(self.is_dense().then_some(DENSE_NAME));
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_read_as_it_was_written() {
        for text in ["", "shutdown", "installs,tcp", "timers,dense"] {
            let kinds: Kinds = text.parse().unwrap();
            assert_eq!(kinds.to_string().parse(), Ok(kinds));
            assert_eq!(kinds.is_dense(), text.contains("dense"));
        }
        assert_eq!(Kinds::ALL.to_string().parse(), Ok(Kinds::ALL));
    }
}
