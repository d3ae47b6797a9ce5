//! A call that another thread makes, or this one if the system refuses that thread.

use std::sync::{Arc, Mutex, PoisonError};

/// Makes closures of which the first that is called calls `f`. The others do nothing. `f`, and what it holds,
/// is dropped on the thread that calls it.
pub fn called_once(f: impl FnOnce() + Send + 'static) -> impl Fn() -> Box<dyn FnOnce() + Send> {
    let f = Arc::new(Mutex::new(Some(f)));
    move || {
        let f = f.clone();
        Box::new(move || {
            let f = f.lock().unwrap_or_else(PoisonError::into_inner).take();
            f.into_iter().for_each(|f| f());
        })
    }
}
