//! Allocator of small unique numbers.

use parking_lot::Mutex;

/// The numbers from 1 to `end - 1`. Each is free, or taken by one [`Number`].
#[derive(Debug)]
pub struct Numbers {
    end: u16,
    state: Mutex<FreeNumbers>,
}

#[derive(Debug)]
struct FreeNumbers {
    /// The smallest number that was never taken.
    unused: u16,
    free: Vec<u16>,
}

impl Numbers {
    pub const fn below(end: u16) -> Self {
        Self { end, state: Mutex::new(FreeNumbers { unused: 1, free: Vec::new() }) }
    }

    /// Takes a free number. It stays taken until the result is dropped. `None` if all numbers are taken.
    pub fn take(&'static self) -> Option<Number> {
        let mut state = self.state.lock();
        let number = state.free.pop().or_else(|| {
            let number = Some(state.unused).filter(|&number| number < self.end)?;
            state.unused += 1;
            Some(number)
        });
        number.map(|number| Number { number, of: self })
    }
}

/// A taken number.
#[derive(Debug)]
pub struct Number {
    number: u16,
    of: &'static Numbers,
}

impl Number {
    pub fn get(&self) -> u16 {
        self.number
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        self.of.state.lock().free.push(self.number);
    }
}
