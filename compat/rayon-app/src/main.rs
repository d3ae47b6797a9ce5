//! A program that uses rayon as it is: iterators, sorts, pools. It says which threads did the work, and fails
//! if any of them was not a worker of `runtime`. Nothing here knows of the shim but the `[patch]` in
//! `Cargo.toml`.

use std::collections::BTreeMap;
use std::error::Error;
use std::{fs, thread};

use rayon::prelude::*;

const ITEMS: u32 = 200_000;

/// How many items each thread has seen, by the thread's name.
type Threads = BTreeMap<String, usize>;

fn main() -> Result<(), Box<dyn Error>> {
    // In a task: on the workers that run the tasks.
    let runtime = runtime::Builder::new_multi_thread().worker_threads(2).thread_name("app-worker").build()?;
    let threads = runtime.block_on(async { runtime::spawn(async { work() }).await })?;
    report("in a task of a runtime", &threads, "app-worker")?;

    // Outside of any runtime: on the process-wide pool.
    report("outside of a runtime", &work(), "")?;

    // In a pool that the program made for itself.
    let pool =
        rayon::ThreadPoolBuilder::new().num_threads(3).thread_name(|i| format!("app-pool-{i}")).build()?;
    report("in a pool of its own", &pool.install(work), "app-pool-")?;

    // Whichever thread computed, there are no threads beside these.
    for entry in fs::read_dir("/proc/self/task")? {
        let name = fs::read_to_string(entry?.path().join("comm"))?;
        // A thread without a name has that of the program.
        if !["rayon-app", "app-worker", "runtime-", "app-pool-"].iter().any(|known| name.starts_with(known)) {
            return Err(format!("a thread named {:?} is there", name.trim_end()).into());
        }
    }
    println!("no other threads");
    Ok(())
}

/// Computes by rayon what it also knows without.
fn work() -> Threads {
    let mut threads: Threads = (0..ITEMS)
        .into_par_iter()
        .fold(Threads::new, |threads, _| seen(threads, 1))
        .reduce(Threads::new, |threads, others| {
            others.into_iter().fold(threads, |mut threads, (name, items)| {
                *threads.entry(name).or_default() += items;
                threads
            })
        });
    assert_eq!(threads.values().sum::<usize>(), ITEMS as usize, "each item is seen once");

    // An odd factor makes this a permutation of all `u32`, cut to the first ones.
    let shuffled = || (0..ITEMS).map(|i| i.wrapping_mul(0x9E37_79B1));
    let mut expected: Vec<u32> = shuffled().collect();
    expected.sort_unstable();
    let (mut sorted, mut reversed): (Vec<u32>, Vec<u32>) = (shuffled().collect(), shuffled().collect());
    rayon::join(|| sorted.par_sort(), || reversed.par_sort_unstable_by(|a, b| b.cmp(a)));
    assert!(sorted == expected && reversed.iter().rev().eq(&expected), "par_sort sorts");

    rayon::scope(|scope| scope.spawn(|_| threads = seen(threads.clone(), 0)));
    threads
}

/// Counts items for this thread, which must be the same one to rayon and to `runtime`.
fn seen(mut threads: Threads, items: usize) -> Threads {
    let index = rayon::current_thread_index().expect("rayon's closures run on rayon's threads");
    assert_eq!(runtime::parallel::current_thread_index(), Some(index), "and these are ours");
    let name = thread::current().name().map_or_else(|| format!("unnamed {index}"), str::to_owned);
    *threads.entry(name).or_default() += items;
    threads
}

/// Prints which threads worked. Their names must begin with `prefix`.
fn report(place: &str, threads: &Threads, prefix: &str) -> Result<(), String> {
    println!("{place}: {threads:?}");
    match threads.keys().find(|name| !name.starts_with(prefix)) {
        None => Ok(()),
        Some(name) => Err(format!("{place}, work ran on {name:?}, which is not one of {prefix:?}")),
    }
}
