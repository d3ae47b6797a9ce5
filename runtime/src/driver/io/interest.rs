//! What a task can wait for on a source ([`Interest`]), and what the system has reported ([`Ready`]).

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Sub};

/// A set of flags that says what a descriptor is ready for.
///
/// A flag is a hint. The operation itself may still answer [`WouldBlock`](std::io::ErrorKind::WouldBlock),
/// for instance because another task was faster.
///
/// # Examples
/// ```
/// use runtime::io::Ready;
///
/// let ready = Ready::READABLE | Ready::READ_CLOSED;
/// assert!(ready.is_readable() && ready.is_read_closed() && !ready.is_writable());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ready(u8);

impl Ready {
    /// No flag.
    pub const EMPTY: Ready = Ready(0);
    /// The descriptor has something to read or accept.
    pub const READABLE: Ready = Ready(1);
    /// The descriptor takes something to write.
    pub const WRITABLE: Ready = Ready(1 << 1);
    /// The reading side is closed: nothing more will come.
    pub const READ_CLOSED: Ready = Ready(1 << 2);
    /// Nothing more can be sent.
    pub const WRITE_CLOSED: Ready = Ready(1 << 3);
    /// Urgent data has come.
    pub const PRIORITY: Ready = Ready(1 << 4);
    /// An error is waiting to be taken.
    pub const ERROR: Ready = Ready(1 << 5);
    /// Every flag.
    pub const ALL: Ready = Ready((1 << 6) - 1);

    /// The flags that no operation takes back, because a closed direction stays closed.
    pub(crate) const FINAL: Ready = Ready(Self::READ_CLOSED.0 | Self::WRITE_CLOSED.0);

    /// Says whether no flag is set.
    pub fn is_empty(self) -> bool {
        self == Ready::EMPTY
    }

    /// Says whether [`READABLE`](Self::READABLE) or [`READ_CLOSED`](Self::READ_CLOSED) is set: a read on a
    /// closed reading side does not block either.
    pub fn is_readable(self) -> bool {
        !(self & (Ready::READABLE | Ready::READ_CLOSED)).is_empty()
    }

    /// Says whether [`WRITABLE`](Self::WRITABLE) or [`WRITE_CLOSED`](Self::WRITE_CLOSED) is set: a write on a
    /// closed writing side does not block either.
    pub fn is_writable(self) -> bool {
        !(self & (Ready::WRITABLE | Ready::WRITE_CLOSED)).is_empty()
    }

    /// Says whether the reading side is closed: nothing more will come.
    pub fn is_read_closed(self) -> bool {
        !(self & Ready::READ_CLOSED).is_empty()
    }

    /// Says whether nothing more can be sent.
    pub fn is_write_closed(self) -> bool {
        !(self & Ready::WRITE_CLOSED).is_empty()
    }

    /// Says whether urgent data has come.
    pub fn is_priority(self) -> bool {
        !(self & Ready::PRIORITY).is_empty()
    }

    /// Says whether an error is waiting to be taken.
    pub fn is_error(self) -> bool {
        !(self & Ready::ERROR).is_empty()
    }

    /// Whether at most the flags for reading and writing are set.
    #[inline]
    pub(crate) fn is_plain(self) -> bool {
        self.0 & !(Ready::READABLE.0 | Ready::WRITABLE.0) == 0
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0 as u64
    }

    pub(crate) fn from_bits(bits: u64) -> Ready {
        Ready(bits as u8 & Ready::ALL.0)
    }

    #[inline]
    pub(crate) fn from_event(event: &mio::event::Event) -> Ready {
        // With epoll, no direction is closed without one of these flags. Mostly none is set.
        if !(event.is_error() | event.is_priority() | event.is_read_closed()) {
            return Ready::of_flags([
                (event.is_readable(), Ready::READABLE),
                (event.is_writable(), Ready::WRITABLE),
            ]);
        }
        Ready::of_flags([
            (event.is_readable(), Ready::READABLE),
            (event.is_writable(), Ready::WRITABLE),
            (event.is_read_closed(), Ready::READ_CLOSED),
            (event.is_write_closed(), Ready::WRITE_CLOSED),
            (event.is_priority(), Ready::PRIORITY),
            (event.is_error(), Ready::ERROR),
        ])
    }

    /// Translates what `epoll_wait` reports, as mio does.
    #[cfg(not(loom))]
    pub(crate) fn from_epoll(events: u32) -> Ready {
        let has = |flag: libc::c_int| events & flag as u32 != 0;
        let is_hung_up = has(libc::EPOLLHUP);
        Ready::of_flags([
            (has(libc::EPOLLIN) || has(libc::EPOLLPRI), Ready::READABLE),
            (has(libc::EPOLLOUT), Ready::WRITABLE),
            (is_hung_up || has(libc::EPOLLIN) && has(libc::EPOLLRDHUP), Ready::READ_CLOSED),
            (
                is_hung_up || has(libc::EPOLLOUT) && has(libc::EPOLLERR) || events == libc::EPOLLERR as u32,
                Ready::WRITE_CLOSED,
            ),
            (has(libc::EPOLLPRI), Ready::PRIORITY),
            (has(libc::EPOLLERR), Ready::ERROR),
        ])
    }

    #[inline]
    fn of_flags<const N: usize>(flags: [(bool, Ready); N]) -> Ready {
        flags.into_iter().filter(|(is_set, _)| *is_set).fold(Ready::EMPTY, |ready, (_, flag)| ready | flag)
    }
}

impl BitOr for Ready {
    type Output = Ready;

    fn bitor(self, other: Ready) -> Ready {
        Ready(self.0 | other.0)
    }
}

impl BitOrAssign for Ready {
    fn bitor_assign(&mut self, other: Ready) {
        self.0 |= other.0;
    }
}

impl BitAnd for Ready {
    type Output = Ready;

    fn bitand(self, other: Ready) -> Ready {
        Ready(self.0 & other.0)
    }
}

impl Sub for Ready {
    type Output = Ready;

    fn sub(self, other: Ready) -> Ready {
        Ready(self.0 & !other.0)
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready")
            .field("is_readable", &self.is_readable())
            .field("is_writable", &self.is_writable())
            .field("is_read_closed", &self.is_read_closed())
            .field("is_write_closed", &self.is_write_closed())
            .field("is_priority", &self.is_priority())
            .field("is_error", &self.is_error())
            .finish()
    }
}

/// A set of what to wait for on a descriptor: at least one of reading, writing, urgent data, errors.
///
/// # Examples
/// ```
/// use runtime::io::Interest;
///
/// let both = Interest::READABLE | Interest::WRITABLE;
/// assert_eq!(both.remove(Interest::WRITABLE), Some(Interest::READABLE));
/// assert_eq!(Interest::READABLE.remove(Interest::READABLE), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Interest(u8);

impl Interest {
    /// Something to read, or the end of what the peer sends.
    pub const READABLE: Interest = Interest(1);
    /// Space to write, or the end of what can be sent.
    pub const WRITABLE: Interest = Interest(1 << 1);
    /// Urgent data, or the end of what the peer sends.
    pub const PRIORITY: Interest = Interest(1 << 2);
    /// An error.
    pub const ERROR: Interest = Interest(1 << 3);

    /// Says whether the set contains reading.
    pub const fn is_readable(self) -> bool {
        self.0 & Self::READABLE.0 != 0
    }

    /// Says whether the set contains writing.
    pub const fn is_writable(self) -> bool {
        self.0 & Self::WRITABLE.0 != 0
    }

    /// Says whether the set contains urgent data.
    pub const fn is_priority(self) -> bool {
        self.0 & Self::PRIORITY.0 != 0
    }

    /// Says whether the set contains errors.
    pub const fn is_error(self) -> bool {
        self.0 & Self::ERROR.0 != 0
    }

    /// Returns the union of both sets.
    ///
    /// # Examples
    /// ```
    /// use runtime::io::Interest;
    ///
    /// let both = Interest::READABLE.add(Interest::PRIORITY);
    /// assert!(both.is_readable() && both.is_priority());
    /// assert!(!both.is_writable() && !both.is_error());
    /// ```
    #[must_use]
    pub const fn add(self, other: Interest) -> Interest {
        Interest(self.0 | other.0)
    }

    /// Returns the set without `other`, or `None` if nothing is left.
    ///
    /// # Examples
    /// ```
    /// use runtime::io::Interest;
    ///
    /// let both = Interest::READABLE | Interest::ERROR;
    /// assert_eq!(both.remove(Interest::READABLE), Some(Interest::ERROR));
    /// assert_eq!(both.remove(both), None);
    /// ```
    #[must_use]
    pub fn remove(self, other: Interest) -> Option<Interest> {
        match self.0 & !other.0 {
            0 => None,
            left => Some(Interest(left)),
        }
    }

    /// The flags that end a wait for this interest.
    pub(crate) fn mask(self) -> Ready {
        let mut mask = Ready::EMPTY;
        if self.is_readable() {
            mask |= Ready::READABLE | Ready::READ_CLOSED;
        }
        if self.is_writable() {
            mask |= Ready::WRITABLE | Ready::WRITE_CLOSED;
        }
        if self.is_priority() {
            mask |= Ready::PRIORITY | Ready::READ_CLOSED;
        }
        if self.is_error() {
            mask |= Ready::ERROR;
        }
        mask
    }

    /// What to ask the system for. It reports errors unasked, but it must be asked for something.
    pub(crate) fn to_mio(self) -> mio::Interest {
        let wanted = [
            (self.is_readable(), mio::Interest::READABLE),
            (self.is_writable(), mio::Interest::WRITABLE),
            (self.is_priority(), mio::Interest::PRIORITY),
        ];
        wanted
            .into_iter()
            .filter(|(is_wanted, _)| *is_wanted)
            .map(|(_, interest)| interest)
            .reduce(mio::Interest::add)
            .unwrap_or(mio::Interest::READABLE)
    }
}

impl BitOr for Interest {
    type Output = Interest;

    fn bitor(self, other: Interest) -> Interest {
        self.add(other)
    }
}

impl BitOrAssign for Interest {
    fn bitor_assign(&mut self, other: Interest) {
        *self = self.add(other);
    }
}

impl fmt::Debug for Interest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (self.is_readable(), "READABLE"),
            (self.is_writable(), "WRITABLE"),
            (self.is_priority(), "PRIORITY"),
            (self.is_error(), "ERROR"),
        ];
        let mut separator = "";
        for (_, name) in names.into_iter().filter(|(is_set, _)| *is_set) {
            write!(f, "{separator}{name}")?;
            separator = " | ";
        }
        Ok(())
    }
}
