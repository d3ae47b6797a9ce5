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
    fn the_extremes_are_found() {
        assert_eq!((minimum(&[2.0, 1.0, 3.0]), maximum(&[2.0, 1.0, 3.0])), (1.0, 3.0));
        assert!(minimum(&[]).is_nan());
    }
}
