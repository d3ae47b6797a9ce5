//! A parallel quicksort: the same pivots and the same leaves for every pool.

use super::peer::ForkJoin;

/// Shorter slices are left to the standard library; sorting one takes about 10 µs.
const LEAF: usize = 512;

/// Sorts `data`; called on a worker.
pub fn quicksort<P: ForkJoin>(here: &mut P::Here<'_>, data: &mut [u32]) {
    if data.len() <= LEAF {
        data.sort_unstable();
        return;
    }
    let (low, high) = partition(data);
    P::join(here, |here| quicksort::<P>(here, low), |here| quicksort::<P>(here, high));
}

/// The same on one thread, without a pool.
pub fn sequential(data: &mut [u32]) {
    if data.len() <= LEAF {
        data.sort_unstable();
        return;
    }
    let (low, high) = partition(data);
    sequential(low);
    sequential(high);
}

/// Divides `data` so that nothing in the first part is greater than anything in the second; neither is empty.
///
/// The pivot is the median of the first, the middle and the last. Hoare's scheme.
fn partition(data: &mut [u32]) -> (&mut [u32], &mut [u32]) {
    let (middle, last) = (data.len() / 2, data.len() - 1);
    if data[middle] < data[0] {
        data.swap(middle, 0);
    }
    if data[last] < data[0] {
        data.swap(last, 0);
    }
    if data[last] < data[middle] {
        data.swap(last, middle);
    }
    let pivot = data[middle];
    // Neither index runs away: what one has passed stops the other.
    let (mut low, mut high) = (0, last);
    loop {
        while data[low] < pivot {
            low += 1;
        }
        while data[high] > pivot {
            high -= 1;
        }
        if low >= high {
            return data.split_at_mut(high + 1);
        }
        data.swap(low, high);
        low += 1;
        high -= 1;
    }
}

/// `length` numbers in no order, always the same.
pub fn shuffled(length: usize) -> Vec<u32> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::repeat_with(|| {
        // xorshift64*
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    })
    .take(length)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_sorted_whatever_it_looked_like() {
        let random = shuffled(20_000);
        let few_values = random.iter().map(|value| value % 3).collect();
        let rising: Vec<u32> = (0..20_000).collect();
        let falling = rising.iter().rev().copied().collect();
        for data in [random, few_values, rising, falling, vec![7; 20_000], Vec::new()] {
            let mut expected = data.clone();
            expected.sort();
            let mut sorted = data;
            sequential(&mut sorted);
            assert!(sorted == expected);
        }
    }
}
