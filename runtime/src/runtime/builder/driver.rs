//! I/O and time, and how often a worker looks for them.

use super::settings::Builder;
use crate::util::as_tokio;

/// I/O and time.
impl Builder {
    /// Enables what needs the I/O driver: sockets, pipes, other descriptors, signals and child processes.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
    /// let socket = runtime.block_on(runtime::net::UdpSocket::bind("127.0.0.1:0"))?;
    /// assert_ne!(socket.local_addr()?.port(), 0);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn enable_io(&mut self) -> &mut Self {
        self.has_io = true;
        self
    }

    /// Enables timers: [`time`](crate::time) and all time limits.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = runtime::Builder::new_current_thread().enable_time().build()?;
    /// runtime.block_on(async { runtime::time::sleep(Duration::from_millis(1)).await });
    /// # std::io::Result::Ok(())
    /// ```
    pub fn enable_time(&mut self) -> &mut Self {
        self.has_time = true;
        self
    }

    /// Enables I/O and time.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use runtime::net::UdpSocket;
    ///
    /// let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    /// runtime.block_on(async {
    ///     let socket = UdpSocket::bind("127.0.0.1:0").await?;
    ///     let limit = Duration::from_millis(1);
    ///     assert!(runtime::time::timeout(limit, socket.recv(&mut [0; 16])).await.is_err());
    ///     std::io::Result::Ok(())
    /// })?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn enable_all(&mut self) -> &mut Self {
        self.enable_io().enable_time()
    }

    /// Sets the largest number of rounds that a busy worker makes before it looks for events and timers, at
    /// least 1. The default is 61. In one round a worker polls one task.
    ///
    /// A worker measures its rounds and looks about every 200 µs. This setting only bounds their number. On a
    /// `current_thread` runtime it also bounds the rounds between two looks at the future of `block_on`.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread().event_interval(31).build()?;
    ///
    /// let error = runtime::Builder::new_multi_thread().event_interval(0).build().unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn event_interval(&mut self, rounds: u32) -> &mut Self {
        as_tokio::setter(rounds > 0, "event_interval must be greater than 0");
        self.event_interval = rounds;
        self
    }

    /// Sets after how many rounds, at least 1, a busy worker takes a task from the injector (Tokio's global
    /// queue) before its own tasks. The default is 61. In one round a worker polls one task.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread().global_queue_interval(31).build()?;
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn global_queue_interval(&mut self, rounds: u32) -> &mut Self {
        as_tokio::setter(rounds > 0, "global_queue_interval must be greater than 0");
        self.global_queue_interval = rounds;
        self
    }

    /// Sets how many I/O events the driver takes from the system at once, from 1 to 1,048,576. The default is
    /// 1024.
    ///
    /// The tasks that these events wake are queued before any of them runs.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_current_thread()
    ///     .enable_io()
    ///     .max_io_events_per_tick(256)
    ///     .max_io_events_per_busy_tick(8)
    ///     .build()?;
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn max_io_events_per_tick(&mut self, events: usize) -> &mut Self {
        as_tokio::setter(events > 0, "max_io_events_per_tick must be non-zero");
        self.max_io_events_per_tick = events;
        self
    }

    /// Sets how many I/O events a worker takes at once when it does not wait for them, because it has tasks
    /// to run: from 1 to 1,048,576. The default is the number of
    /// [`max_io_events_per_tick`](Self::max_io_events_per_tick).
    ///
    /// A small number keeps the queues of a busy runtime short. The other events stay with the system until
    /// the next look.
    ///
    /// # Examples
    /// ```
    /// let runtime = runtime::Builder::new_multi_thread()
    ///     .enable_io()
    ///     .max_io_events_per_busy_tick(8)
    ///     .build()?;
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn max_io_events_per_busy_tick(&mut self, events: usize) -> &mut Self {
        as_tokio::setter(events > 0, "max_io_events_per_busy_tick must be non-zero");
        self.max_io_events_per_busy_tick = Some(events);
        self
    }

    /// Starts the runtime with its clock paused; see [`time::pause`](crate::time::pause). Only a
    /// `current_thread` runtime with time enabled can do this; for others [`build`](Self::build) returns an
    /// error. Off by default.
    ///
    /// # Examples
    /// An hour passes at once:
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let runtime = runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    /// let start = Instant::now();
    /// runtime.block_on(async { runtime::time::sleep(Duration::from_secs(3600)).await });
    /// assert!(start.elapsed() < Duration::from_secs(600));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn start_paused(&mut self, is_paused: bool) -> &mut Self {
        self.is_start_paused = is_paused;
        self
    }
}
