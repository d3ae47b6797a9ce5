//! The times of a file.

use std::time::SystemTime;

/// Times of a file for [`File::set_times`](crate::fs::File::set_times). Times that it does not have stay.
///
/// # Examples
/// ```
/// use std::time::SystemTime;
///
/// let times = runtime::fs::FileTimes::new().set_modified(SystemTime::now());
/// ```
///
/// Prior art: `tokio::fs::FileTimes`, `std::fs::FileTimes`.
#[derive(Debug, Clone, Default)]
#[must_use = "has no effect before `File::set_times` has it"]
pub struct FileTimes {
    accessed: Option<SystemTime>,
    modified: Option<SystemTime>,
}

impl FileTimes {
    /// Creates a value that has no time.
    ///
    /// # Examples
    /// ```
    /// let times = runtime::fs::FileTimes::new();
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the time of the last read.
    ///
    /// # Examples
    /// ```
    /// let times = runtime::fs::FileTimes::new().set_accessed(std::time::SystemTime::now());
    /// ```
    pub fn set_accessed(mut self, t: SystemTime) -> Self {
        self.accessed = Some(t);
        self
    }

    /// Sets the time of the last write.
    ///
    /// # Examples
    /// ```
    /// let times = runtime::fs::FileTimes::new().set_modified(std::time::SystemTime::now());
    /// ```
    pub fn set_modified(mut self, t: SystemTime) -> Self {
        self.modified = Some(t);
        self
    }

    pub(super) fn into_std(self) -> std::fs::FileTimes {
        let mut times = std::fs::FileTimes::new();
        if let Some(accessed) = self.accessed {
            times = times.set_accessed(accessed);
        }
        if let Some(modified) = self.modified {
            times = times.set_modified(modified);
        }
        times
    }
}
