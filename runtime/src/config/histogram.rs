//! Histograms of durations: the buckets, their bounds, and the counts.

use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The largest precision. It has 1024 buckets for each doubling, and an error below 0.1 %.
const MAX_PRECISION: u32 = 10;
const DEFAULT_PRECISION: u32 = 2;
const DEFAULT_MIN: Duration = Duration::from_nanos(100);
const DEFAULT_MAX: Duration = Duration::from_secs(60);
/// The largest number of buckets. They take 8 MiB for each worker.
const MAX_BUCKETS: usize = 1 << 20;

/// The buckets of a histogram of durations. The default is Tokio's: ten buckets of 100 µs.
///
/// # Examples
/// ```
/// use runtime::runtime::{Builder, HistogramConfiguration};
/// use std::time::Duration;
///
/// let runtime = Builder::new_current_thread()
///     .enable_metrics_poll_time_histogram()
///     .metrics_poll_time_histogram_configuration(HistogramConfiguration::linear(
///         Duration::from_millis(1),
///         100,
///     ))
///     .build()?;
/// assert_eq!(runtime.metrics().poll_time_histogram_num_buckets(), 100);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct HistogramConfiguration(Scale);

#[derive(Debug, Clone, Copy)]
enum Scale {
    Linear { width: u64, buckets: usize },
    Log(LogHistogram),
}

impl HistogramConfiguration {
    /// Makes `num_buckets` buckets of the same width. The last bucket also counts all longer durations.
    ///
    /// [`Builder::build`](crate::Builder::build) returns an error if the width is zero, or if the number is
    /// not in 1 to 1,048,576.
    pub fn linear(bucket_width: Duration, num_buckets: usize) -> Self {
        Self(Scale::Linear { width: nanos(bucket_width), buckets: num_buckets })
    }

    /// Makes buckets whose width grows with the duration, so that the relative error is bounded.
    ///
    /// `configuration` is a [`LogHistogram`] or its builder.
    /// [`Builder::build`](crate::Builder::build) returns an error if it has more than 1,048,576 buckets.
    pub fn log(configuration: impl Into<LogHistogram>) -> Self {
        Self(Scale::Log(configuration.into()))
    }

    /// Returns an error that names the first invalid value.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.0 {
            Scale::Linear { width: 0, .. } => Err("a histogram's bucket_width must not be zero".to_owned()),
            _ => match self.buckets() {
                1..=MAX_BUCKETS => Ok(()),
                n => Err(format!("a histogram must have from 1 to {MAX_BUCKETS} buckets, got {n}")),
            },
        }
    }

    fn buckets(&self) -> usize {
        match self.0 {
            Scale::Linear { buckets, .. } => buckets,
            Scale::Log(log) => log.buckets,
        }
    }

    fn bucket_of(&self, nanos: u64) -> usize {
        match self.0 {
            Scale::Linear { width, buckets } => (nanos / width).min(buckets as u64 - 1) as usize,
            Scale::Log(log) => log.bucket_of(nanos),
        }
    }

    /// Returns the bounds of `bucket` in nanoseconds. The end is exclusive; the last bucket's is `u64::MAX`.
    fn range(&self, bucket: usize) -> Range<u64> {
        let start = |bucket: usize| match self.0 {
            Scale::Linear { width, .. } => width.saturating_mul(bucket as u64),
            Scale::Log(log) => log.start(bucket),
        };
        let end = if bucket + 1 == self.buckets() { u64::MAX } else { start(bucket + 1) };
        start(bucket)..end
    }
}

impl Default for HistogramConfiguration {
    fn default() -> Self {
        Self::linear(Duration::from_micros(100), 10)
    }
}

/// Buckets of a logarithmic scale: the buckets for longer durations are wider.
///
/// This is an *H2 histogram*: with precision p, each doubling of the duration is cut into 2ᵖ buckets of the
/// same width. So the relative error is at most 2⁻ᵖ. The first bucket begins at zero, and the last bucket has
/// no end. The default goes from 100 ns to 60 s with p = 2, in 119 buckets.
///
/// # Examples
/// ```
/// use runtime::runtime::{HistogramConfiguration, LogHistogram};
/// use std::time::Duration;
///
/// let scale = LogHistogram::builder()
///     .min_value(Duration::from_micros(1))
///     .max_value(Duration::from_secs(1))
///     .max_error(0.1)
///     .max_buckets(400)?;
/// let configuration = HistogramConfiguration::log(scale);
/// # Ok::<(), runtime::runtime::InvalidHistogramConfiguration>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogHistogram {
    precision: u32,
    /// The index on the full scale, which begins at zero, of this scale's first bucket.
    first: usize,
    buckets: usize,
}

impl LogHistogram {
    /// Returns a builder with the default values.
    pub fn builder() -> LogHistogramBuilder {
        LogHistogramBuilder::default()
    }

    /// Returns the start of the last bucket, in nanoseconds. That bucket counts all longer durations.
    pub fn max_value(&self) -> u64 {
        self.start(self.buckets - 1)
    }

    fn bucket_of(&self, nanos: u64) -> usize {
        index(nanos, self.precision).saturating_sub(self.first).min(self.buckets - 1)
    }

    fn start(&self, bucket: usize) -> u64 {
        if bucket == 0 { 0 } else { start(self.first + bucket, self.precision) }
    }
}

impl Default for LogHistogram {
    fn default() -> Self {
        LogHistogramBuilder::default().build()
    }
}

/// Returns the bucket of `nanos` on the full scale of this precision.
///
/// Each number below 2ᵖ has its own bucket. For a larger number, the number of leading zeros and the p bits
/// after the first set bit give the bucket.
fn index(nanos: u64, precision: u32) -> usize {
    let shift = nanos.checked_ilog2().unwrap_or(0).saturating_sub(precision);
    ((u64::from(shift) << precision) + (nanos >> shift)) as usize
}

/// Returns the smallest number in bucket `index` of the full scale. Beyond the scale's end it is `u64::MAX`.
fn start(index: usize, precision: u32) -> u64 {
    let (index, per_doubling) = (index as u64, 1_u64 << precision);
    if index < per_doubling {
        return index;
    }
    let shift = (index >> precision) - 1;
    let start = u128::from((index & (per_doubling - 1)) + per_doubling) << shift.min(64);
    u64::try_from(start).unwrap_or(u64::MAX)
}

/// Builds a [`LogHistogram`], which shows an example.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogHistogramBuilder {
    min: Option<Duration>,
    max: Option<Duration>,
    precision: Option<u32>,
}

impl LogHistogramBuilder {
    /// Sets the largest relative error, 0.25 by default.
    ///
    /// The precision becomes the smallest p from 2 to 10 with 2⁻ᵖ ≤ `max_error`. It becomes 10 for a
    /// `max_error` below 2⁻¹⁰, about 0.1 %.
    ///
    /// # Panics
    /// If `max_error` is not between 0 and 1. Both ends are excluded.
    #[track_caller]
    pub fn max_error(mut self, max_error: f64) -> Self {
        assert!(max_error > 0.0, "max_error must be greater than 0, got {max_error}");
        assert!(max_error < 1.0, "max_error must be less than 1, got {max_error}");
        let is_enough = |&p: &u32| 0.5_f64.powi(p as i32) <= max_error;
        self.precision = Some((2..MAX_PRECISION).find(is_enough).unwrap_or(MAX_PRECISION));
        self
    }

    /// Sets the precision p, from 0 to 10 and 2 by default: each doubling of the duration has 2ᵖ buckets.
    ///
    /// # Panics
    /// If `p` is larger than 10.
    #[track_caller]
    pub fn precision_exact(mut self, p: u32) -> Self {
        assert!(p <= MAX_PRECISION, "precision must be <= {MAX_PRECISION}, got {p}");
        self.precision = Some(p);
        self
    }

    /// Sets the shortest duration that the scale tells from zero, 100 ns by default. The first bucket ends at
    /// `duration` or before, unless it is the only bucket. A zero `duration` counts as 1 ns.
    pub fn min_value(mut self, duration: Duration) -> Self {
        self.min = Some(duration);
        self
    }

    /// Sets the duration up to which the error is bounded, 60 s by default. The last bucket begins at
    /// `duration`, or at the next bound after it.
    ///
    /// # Panics
    /// If `duration` is zero.
    #[track_caller]
    pub fn max_value(mut self, duration: Duration) -> Self {
        assert!(!duration.is_zero(), "max value must be greater than 0");
        self.max = Some(duration);
        self
    }

    /// Builds the scale if it needs at most `max_buckets` buckets.
    ///
    /// # Errors
    /// The number of buckets that the scale needs, if it is larger than `max_buckets`.
    pub fn max_buckets(&mut self, max_buckets: usize) -> Result<LogHistogram, InvalidHistogramConfiguration> {
        let log = self.build();
        match log.buckets > max_buckets {
            true => Err(InvalidHistogramConfiguration::TooManyBuckets { required_bucket_count: log.buckets }),
            false => Ok(log),
        }
    }

    /// Builds the scale.
    pub fn build(&self) -> LogHistogram {
        let precision = self.precision.unwrap_or(DEFAULT_PRECISION);
        let (min, max) = (nanos(self.min.unwrap_or(DEFAULT_MIN)), nanos(self.max.unwrap_or(DEFAULT_MAX)));
        let first = index(min, precision).saturating_sub(1);
        let of_max = index(max, precision);
        let last = if start(of_max, precision) < max { of_max + 1 } else { of_max };
        // The scale ends with the numbers.
        let last = last.min(index(u64::MAX, precision));
        LogHistogram { precision, first, buckets: last.saturating_sub(first) + 1 }
    }
}

impl From<LogHistogramBuilder> for LogHistogram {
    fn from(builder: LogHistogramBuilder) -> Self {
        builder.build()
    }
}

/// The reason why no [`LogHistogram`] was built.
#[derive(Debug)]
#[non_exhaustive]
pub enum InvalidHistogramConfiguration {
    /// The scale needs more buckets than the caller allows.
    TooManyBuckets {
        /// The number of buckets that the scale needs.
        required_bucket_count: usize,
    },
}

impl fmt::Display for InvalidHistogramConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::TooManyBuckets { required_bucket_count } = self;
        write!(f, "the histogram would need {required_bucket_count} buckets")
    }
}

impl Error for InvalidHistogramConfiguration {}

/// The counts of one worker's buckets.
#[derive(Debug)]
pub struct Histogram {
    scale: HistogramConfiguration,
    counts: Box<[AtomicU64]>,
}

impl Histogram {
    pub fn new(scale: &HistogramConfiguration) -> Self {
        let counts = (0..scale.buckets()).map(|_| AtomicU64::new(0)).collect();
        Self { scale: scale.clone(), counts }
    }

    pub fn record(&self, duration: Duration) {
        // Relaxed: no other data depends on the count. It is a read-modify-write, because the spare workers
        // of a worker record into the same histogram from their own threads.
        self.counts[self.scale.bucket_of(nanos(duration))].fetch_add(1, Relaxed);
    }

    pub fn buckets(&self) -> usize {
        self.counts.len()
    }

    pub fn range(&self, bucket: usize) -> Range<Duration> {
        let Range { start, end } = self.scale.range(bucket);
        Duration::from_nanos(start)..Duration::from_nanos(end)
    }

    pub fn count(&self, bucket: usize) -> u64 {
        self.counts[bucket].load(Relaxed)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Checks that each bucket begins where the bucket before it ends, and holds the numbers in its bounds.
    #[track_caller]
    fn assert_consistent(scale: &HistogramConfiguration) {
        assert_eq!(scale.range(0).start, 0);
        for bucket in 0..scale.buckets() {
            let range = scale.range(bucket);
            assert!(range.start < range.end, "{scale:?}, {bucket}: {range:?}");
            assert_eq!(scale.bucket_of(range.start), bucket, "{scale:?}: {range:?}");
            assert_eq!(scale.bucket_of(range.end - 1), bucket, "{scale:?}: {range:?}");
            if bucket > 0 {
                assert_eq!(scale.range(bucket - 1).end, range.start);
            }
        }
        assert_eq!(scale.range(scale.buckets() - 1).end, u64::MAX);
    }

    #[test]
    fn buckets_lie_side_by_side_and_hold_what_is_between_their_bounds() {
        assert_consistent(&HistogramConfiguration::default());
        assert_consistent(&HistogramConfiguration::linear(Duration::from_nanos(1), 1));
        for p in 0..=MAX_PRECISION {
            for (min, max) in
                [(0, 1), (1, 1), (1, 1 << 20), (100, 60_000_000_000), (999, 1_000_000), (1, u64::MAX)]
            {
                let builder = LogHistogram::builder()
                    .precision_exact(p)
                    .min_value(Duration::from_nanos(min))
                    .max_value(Duration::from_nanos(max));
                let log = builder.build();
                assert_consistent(&HistogramConfiguration::log(log));
                let range = |bucket| HistogramConfiguration::log(log).range(bucket);
                assert!(log.buckets == 1 || range(0).end <= min.max(1), "{log:?}");
                assert!(log.max_value() >= max.min(1 << 63), "{log:?}");
                for bucket in 1..log.buckets - 1 {
                    let Range { start, end } = range(bucket);
                    assert!(end - start <= (start >> p).max(1), "{log:?}, {bucket}: {start} to {end}");
                }
            }
        }
    }

    #[test]
    fn the_default_scale_goes_from_100_ns_to_a_minute_with_an_error_of_a_quarter() {
        let log = LogHistogram::default();
        assert_eq!(log.buckets, 119);
        assert!(log.max_value() >= 60_000_000_000);
        assert_eq!(LogHistogram::builder().max_error(0.25).build(), log);
        assert_eq!(LogHistogram::builder().max_error(0.0000001).build().precision, MAX_PRECISION);
    }

    #[test]
    fn scales_that_cannot_be_are_refused_with_the_value() {
        let refused = |scale: HistogramConfiguration| scale.check().unwrap_err();
        assert!(refused(HistogramConfiguration::linear(Duration::ZERO, 1)).contains("zero"));
        let second = Duration::from_secs(1);
        assert!(refused(HistogramConfiguration::linear(second, 0)).contains("got 0"));
        assert!(refused(HistogramConfiguration::linear(second, usize::MAX)).contains("18446744073709551615"));
        let error = LogHistogram::builder().max_buckets(10).unwrap_err();
        assert_eq!(error.to_string(), "the histogram would need 119 buckets");
        // A duration that the scale cannot hold.
        assert!(LogHistogram::builder().max_value(Duration::MAX).build().buckets > 119);
        // The shortest duration is larger than the longest.
        assert_eq!(
            LogHistogram::builder().min_value(second).max_value(Duration::from_nanos(1)).build().buckets,
            1
        );
    }

    #[test]
    fn what_is_recorded_is_counted_in_its_bucket() {
        let histogram = Histogram::new(&HistogramConfiguration::default());
        for micros in [0, 99, 100, 899, 900, 1_000_000] {
            histogram.record(Duration::from_micros(micros));
        }
        let counts: Vec<_> = (0..histogram.buckets()).map(|bucket| histogram.count(bucket)).collect();
        assert_eq!(counts, [2, 1, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(histogram.range(1), Duration::from_micros(100)..Duration::from_micros(200));
    }
}
