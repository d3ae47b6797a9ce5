//! Quicksort by `join`, beside the same quicksort on one thread and the sort of the standard library.
//!
//! ```text
//! cargo run --release --example parallel_sort -- 4000000
//! ```
//!
//! Prints the three times, and checks that the results are the same.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use runtime::{Runtime, compute, parallel};

/// How many numbers are sorted, if the command line does not say.
const LENGTH: usize = 4_000_000;

/// The most numbers: four bytes each, and three copies of them.
const MAX_LENGTH: usize = 100_000_000;

/// A slice up to this length is not split any further: sorting it takes some ten microseconds.
const GRAIN: usize = 2_000;

/// A slice up to this length is left to the standard library.
const SMALL: usize = 32;

fn main() -> ExitCode {
    let argument = std::env::args().nth(1);
    let length = match argument.as_deref().map(str::parse) {
        None => LENGTH,
        Some(Ok(length @ 0..=MAX_LENGTH)) => length,
        Some(_) => {
            let argument = argument.unwrap_or_default();
            eprintln!(
                "parallel_sort: the length must be a whole number from 0 to {MAX_LENGTH}, got {argument:?}"
            );
            return ExitCode::from(2);
        }
    };
    let runtime = match Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("parallel_sort: cannot start the runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let numbers = random_numbers(length);
    let (expected, of_std) = timed(numbers.clone(), |numbers| numbers.sort_unstable());
    let (sequential, of_one) = timed(numbers.clone(), quicksort);
    // A computation owns what it works on, and gives it back.
    let sorting = runtime.block_on(async move { compute(move || timed(numbers, parallel_quicksort)).await });
    let (parallel, of_all) = sorting.expect("sorting does not panic");
    assert!(sequential == expected && parallel == expected, "both sorts must order the numbers");

    let workers = runtime.metrics().num_workers();
    println!("{length} numbers");
    println!("std's sort_unstable  {:8.1} ms", milliseconds(of_std));
    println!("quicksort, 1 thread  {:8.1} ms", milliseconds(of_one));
    println!(
        "quicksort by join    {:8.1} ms   {workers} workers, {:.2} times as fast",
        milliseconds(of_all),
        of_one.as_secs_f64() / of_all.as_secs_f64()
    );
    ExitCode::SUCCESS
}

/// Sorts by partitioning around a pivot, both sides in parallel.
fn parallel_quicksort(numbers: &mut [u32]) {
    if numbers.len() <= GRAIN {
        return quicksort(numbers);
    }
    let (low, high) = partition(numbers);
    parallel::join(|| parallel_quicksort(low), || parallel_quicksort(high));
}

/// The same without `join`.
fn quicksort(numbers: &mut [u32]) {
    if numbers.len() <= SMALL {
        return numbers.sort_unstable();
    }
    let (low, high) = partition(numbers);
    quicksort(low);
    quicksort(high);
}

/// Orders `numbers` so that none on the left is greater than one on the right, and splits there; the pivot
/// between them is in its place. There are at least three.
fn partition(numbers: &mut [u32]) -> (&mut [u32], &mut [u32]) {
    let last = numbers.len() - 1;
    // The median of three goes to the end, so that sorted input is no bad case.
    let middle = last / 2;
    let (a, b, c) = (numbers[0], numbers[middle], numbers[last]);
    let median = if (a <= b) == (b <= c) {
        middle
    } else if (b <= a) == (a <= c) {
        0
    } else {
        last
    };
    numbers.swap(median, last);
    let pivot = numbers[last];
    // From both ends, stopping at equal ones, so that many equal numbers are split evenly.
    let (mut low, mut high) = (0, last);
    loop {
        while numbers[low] < pivot {
            low += 1;
        }
        while high > low && numbers[high - 1] > pivot {
            high -= 1;
        }
        if low + 1 >= high {
            break;
        }
        high -= 1;
        numbers.swap(low, high);
        low += 1;
    }
    numbers.swap(low, last);
    let (left, right) = numbers.split_at_mut(low);
    (left, &mut right[1..])
}

/// Sorts `numbers` by `sort`, and returns them with the time that it took.
fn timed(mut numbers: Vec<u32>, sort: impl FnOnce(&mut [u32])) -> (Vec<u32>, Duration) {
    let start = Instant::now();
    sort(&mut numbers);
    (numbers, start.elapsed())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// The same numbers each time: a multiplicative generator, of which the upper half is used.
fn random_numbers(length: usize) -> Vec<u32> {
    let next = |state: &u64| {
        Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    };
    std::iter::successors(Some(42), next).take(length).map(|state| (state >> 32) as u32).collect()
}
