//! Numbers for tables.

/// The least of `values`; NaN if there is none.
pub fn minimum(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::min)
}

/// The greatest of `values`; NaN if there is none.
pub fn maximum(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::max)
}

/// The middle of `values`, which are put in order; NaN if there is none.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => values[length / 2],
        length => (values[length / 2 - 1] + values[length / 2]) / 2.0,
    }
}

/// The quantile `part`, from 0 to 1, of `values`: its place in their order is rounded down. Puts `values` in
/// order; NaN if there is none.
pub fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values.get((last as f64 * part) as usize).copied().unwrap_or(f64::NAN)
}

/// A time of so many nanoseconds, with three digits and a unit.
pub fn readable(nanoseconds: f64) -> String {
    let (value, unit) = match nanoseconds {
        ..1e3 => (nanoseconds, "ns"),
        ..1e6 => (nanoseconds / 1e3, "µs"),
        _ => (nanoseconds / 1e6, "ms"),
    };
    let decimals = match value {
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&mut []).is_nan());
    }

    #[test]
    fn a_quantile_leaves_its_part_below_it() {
        let mut values: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|part| quantile(&mut values, part)), [0.0, 50.0, 99.0, 100.0]);
        assert!(quantile(&mut [], 0.5).is_nan());
    }

    #[test]
    fn a_readable_time_has_three_digits() {
        let times = [0.814, 6.79, 42.63, 330.4, 14_400.0, 34_700_000.0, 2_000_000_000.0].map(readable);
        assert_eq!(times, ["0.81 ns", "6.79 ns", "42.6 ns", "330 ns", "14.4 µs", "34.7 ms", "2000 ms"]);
    }

    #[test]
    fn the_extremes_are_found() {
        assert_eq!((minimum(&[2.0, 1.0, 3.0]), maximum(&[2.0, 1.0, 3.0])), (1.0, 3.0));
        assert!(minimum(&[]).is_nan());
    }
}
