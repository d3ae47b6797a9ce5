//! Deadlines, and the units in which they are rounded.

/// Nanoseconds since the driver began. `u64::MAX` means never.
pub type Deadline = u64;

/// The length of a wheel's tick. A millisecond is a whole number of ticks.
pub const NANOS_PER_TICK: u64 = 125_000;

/// Timers are rounded up to a multiple of this once the clock has been paused.
pub const NANOS_PER_MILLI: u64 = 1_000_000;
const _: () = assert!(NANOS_PER_MILLI % NANOS_PER_TICK == 0);
