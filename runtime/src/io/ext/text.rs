//! Text that is being read and may end inside of a character.

use std::io::{self, ErrorKind};
use std::mem;
use std::str::{self, Utf8Error};

/// Which of the bytes read stay in the string if reading ends with an error, or is given up.
#[derive(Debug, Clone, Copy)]
pub enum Kept {
    /// No byte: the string is as before.
    Nothing,
    /// All bytes, if they are UTF-8. Otherwise none.
    Whole,
}

/// The bytes of a `String` to which bytes are appended that may not be UTF-8. They leave the string, and come
/// back in the same memory at the end or when this is dropped.
#[derive(Debug)]
pub struct PartialText<'a> {
    /// Empty until the bytes are back.
    string: &'a mut String,
    bytes: Vec<u8>,
    /// The length of the string at first. The bytes below it are UTF-8. Zero once the bytes are back.
    start: usize,
    kept: Kept,
    is_back: bool,
}

impl<'a> PartialText<'a> {
    pub fn new(string: &'a mut String, kept: Kept) -> Self {
        let bytes = mem::take(string).into_bytes();
        Self { string, start: bytes.len(), bytes, kept, is_back: false }
    }

    /// The bytes of the string and the appended ones. The caller only appends to them.
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Puts the bytes back into the string, and returns how many were appended.
    ///
    /// `result` says how reading ended. If it is an error, this returns it.
    ///
    /// # Errors
    /// [`InvalidData`](ErrorKind::InvalidData) if the appended bytes are not UTF-8. The string is as before
    /// then.
    pub fn finish(&mut self, result: io::Result<()>) -> io::Result<usize> {
        let appended = self.bytes.len() - self.start;
        let text = str::from_utf8(&self.bytes[self.start..]);
        let (is_kept, result) = match (result, text) {
            (Ok(()), Ok(_)) => (true, Ok(appended)),
            // An error whose position counts from the beginning of the string.
            (Ok(()), Err(_)) => (false, str::from_utf8(&self.bytes).map(|_| 0).map_err(invalid)),
            (Err(error), text) => (text.is_ok() && matches!(self.kept, Kept::Whole), Err(error)),
        };
        if !is_kept {
            self.bytes.truncate(self.start);
        }
        // SAFETY: both parts are UTF-8. The first part is by the rule at `start`. The second part was
        // checked, and was removed if it is not.
        *self.string = unsafe { String::from_utf8_unchecked(mem::take(&mut self.bytes)) };
        // No byte that is here now is known to be UTF-8.
        self.start = 0;
        self.is_back = true;
        result
    }
}

fn invalid(error: Utf8Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

impl Drop for PartialText<'_> {
    fn drop(&mut self) {
        if !self.is_back {
            // The read was given up, which counts as an error.
            let _ = self.finish(Err(ErrorKind::Other.into()));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn given_up(kept: Kept, appended: &[u8]) -> String {
        let mut string = String::from("é");
        PartialText::new(&mut string, kept).bytes_mut().extend(appended);
        string
    }

    #[test]
    fn text_that_was_given_up_stays_as_far_as_it_was_asked_for() {
        assert_eq!(given_up(Kept::Whole, b"abc"), "éabc");
        assert_eq!(given_up(Kept::Whole, "abcé".as_bytes().split_last().unwrap().1), "é");
        assert_eq!(given_up(Kept::Nothing, b"abc"), "é");
    }

    #[test]
    fn the_memory_of_the_string_is_used() {
        let mut string = String::with_capacity(64);
        let memory = string.as_ptr();
        let mut text = PartialText::new(&mut string, Kept::Whole);
        text.bytes_mut().extend(b"abc");
        assert_eq!(text.finish(Ok(())).unwrap(), 3);
        drop(text);
        assert_eq!((string.as_str(), string.as_ptr()), ("abc", memory));
    }
}
