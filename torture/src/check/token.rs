//! Tokens: what each closure and future of a program carries, to be dropped exactly once.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64};

const ALIVE: u64 = 0x7000_6C69_7665_0001;
const DEAD: u64 = 0x7000_6465_6164_0002;

/// The tokens of one program, or of a part of it.
#[derive(Debug, Default)]
pub struct Tokens {
    /// The tokens that these are a part of.
    whole: Option<Arc<Tokens>>,
    live: AtomicIsize,
    dropped_twice: AtomicBool,
}

/// One of them.
#[derive(Debug)]
pub struct Token {
    tokens: Arc<Tokens>,
    // If a copy of the bytes is dropped as well, it finds DEAD here, or lies in memory that was freed.
    canary: AtomicU64,
}

impl Tokens {
    /// Tokens of a part.
    pub fn part(self: &Arc<Self>) -> Arc<Self> {
        Arc::new(Self { whole: Some(self.clone()), ..Self::default() })
    }

    fn count(&self, more: isize) {
        self.live.fetch_add(more, SeqCst);
        self.whole.iter().for_each(|whole| whole.count(more));
    }

    fn note_second_drop(&self) {
        self.dropped_twice.store(true, SeqCst);
        self.whole.iter().for_each(|whole| whole.note_second_drop());
    }

    /// Makes a token.
    pub fn token(self: &Arc<Self>) -> Token {
        self.count(1);
        Token { tokens: self.clone(), canary: AtomicU64::new(ALIVE) }
    }

    /// The tokens that have not been dropped.
    pub fn live(&self) -> isize {
        self.live.load(SeqCst)
    }

    /// Whether a token was dropped twice.
    pub fn is_any_dropped_twice(&self) -> bool {
        self.dropped_twice.load(SeqCst)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        if self.canary.swap(DEAD, SeqCst) != ALIVE {
            self.tokens.note_second_drop();
        }
        self.tokens.count(-1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::ManuallyDrop;

    #[test]
    fn a_token_that_is_leaked_stays_live() {
        let tokens = Arc::new(Tokens::default());
        drop(tokens.token());
        assert_eq!(tokens.live(), 0);
        std::mem::forget(tokens.token());
        assert_eq!(tokens.live(), 1);
    }

    #[test]
    fn a_token_of_a_part_is_one_of_the_whole() {
        let whole = Arc::new(Tokens::default());
        let part = whole.part();
        let token = part.token();
        assert_eq!((part.live(), whole.live()), (1, 1));
        drop(token);
        let _other = whole.token();
        assert_eq!((part.live(), whole.live()), (0, 1));
    }

    #[test]
    fn a_token_that_is_dropped_twice_is_noticed() {
        let tokens = Arc::new(Tokens::default());
        let mut token = ManuallyDrop::new(tokens.token());
        // One reference more, for the second drop.
        std::mem::forget(tokens.clone());
        for _ in 0..2 {
            // SAFETY: the memory stays, and so does what it refers to; that the second drop is wrong is the
            // point.
            unsafe { ManuallyDrop::drop(&mut token) };
        }
        assert!(tokens.is_any_dropped_twice());
    }
}
