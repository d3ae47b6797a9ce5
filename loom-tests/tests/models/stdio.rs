//! Standard input: a task that waits is woken, and no byte is lost, also when the thread leaves at that
//! moment. Standard output: what was written is out when the drains of its runtime have ended, in order, and
//! a task that flushes is woken.
//!
//! Bounds: two bytes; the input's thread leaves as soon as no bytes are wanted, because a model has no time;
//! two runtimes with a drain each.

use std::task::{Context, Poll, Waker};

use loom::sync::{Arc, Mutex};
use runtime::internals::stdio::{Input, Output, never_blocks};
use runtime::io::ReadBuf;

use super::flag::Flag;
use super::once_built::{model, thread};

type Threads = std::sync::Arc<std::sync::Mutex<Vec<thread::JoinHandle<()>>>>;

fn join_all(threads: &Threads) {
    loop {
        let Some(thread) = threads.lock().unwrap().pop() else { break };
        thread.join().unwrap();
    }
}

fn waker(flag: &std::sync::Arc<Flag>) -> Waker {
    let waker = Waker::from(flag.clone());
    never_blocks(&waker);
    waker
}

/// The input of the bytes 1, 2, ..., and the threads that were started for it.
#[derive(Clone)]
struct Counting {
    input: Arc<Input>,
    next: Arc<Mutex<u8>>,
    threads: Threads,
}

impl Counting {
    fn new() -> Self {
        Self { input: Arc::new(Input::new()), next: Arc::new(Mutex::new(1)), threads: Threads::default() }
    }

    fn poll(&self, handle: usize, flag: &std::sync::Arc<Flag>) -> Option<u8> {
        let mut byte = [0];
        let waker = waker(flag);
        let start = || {
            let (input, next) = (self.input.clone(), self.next.clone());
            self.threads.lock().unwrap().push(thread::spawn(move || {
                input.run(|bytes| {
                    let mut next = next.try_lock().expect("two threads read");
                    bytes[0] = *next;
                    *next += 1;
                    Ok(1)
                });
            }));
            Ok(())
        };
        let cx = &mut Context::from_waker(&waker);
        match self.input.poll_read(cx, handle, &mut ReadBuf::new(&mut byte), start) {
            Poll::Ready(result) => {
                result.unwrap();
                Some(byte[0])
            }
            Poll::Pending => None,
        }
    }

    /// Polls, lets the threads end if it must wait, and polls again.
    fn read(&self, handle: usize) -> u8 {
        let (first, second) = (Flag::new(), Flag::new());
        let byte = self.poll(handle, &first).or_else(|| self.poll(handle, &second));
        byte.unwrap_or_else(|| {
            join_all(&self.threads);
            assert!(second.is_set(), "lost wake");
            self.poll(handle, &second).expect("it was woken for a byte")
        })
    }
}

#[test]
fn a_reader_of_the_input_is_woken_although_the_thread_leaves() {
    model(|| {
        let counting = Counting::new();
        let handle = counting.input.enter();
        assert_eq!([counting.read(handle), counting.read(handle)], [1, 2]);
        join_all(&counting.threads);
    });
}

#[test]
fn a_byte_that_a_reader_does_not_wait_for_any_more_is_there_for_the_next() {
    model(|| {
        let counting = Counting::new();
        let first = counting.input.enter();
        let byte = counting.poll(first, &Flag::new());
        counting.input.leave(first);
        let next = counting.input.enter();
        assert_eq!(byte.unwrap_or_else(|| counting.read(next)), 1);
        join_all(&counting.threads);
    });
}

/// The output, and what was written to it.
struct Recorded {
    output: Arc<Output>,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Recorded {
    fn new() -> Self {
        Self { output: Arc::new(Output::new()), written: Arc::default() }
    }

    fn drain(&self, owner: usize, threads: &Threads) {
        let (output, written) = (self.output.clone(), self.written.clone());
        threads.lock().unwrap().push(thread::spawn(move || {
            output.drain(owner, |bytes, flush| {
                let mut written = written.try_lock().expect("two drains write");
                written.extend(bytes);
                Ok(flush)
            });
        }));
    }

    fn write(&self, handle: usize, owner: usize, byte: u8, threads: &Threads) {
        let start = || self.drain(owner, threads);
        let cx = &mut Context::from_waker(Waker::noop());
        let result = self.output.poll_write(cx, (handle, owner), &[byte], start);
        assert!(matches!(result, Poll::Ready(Ok(1))));
    }
}

#[test]
fn what_was_written_on_a_runtime_is_out_when_its_drains_have_ended() {
    model(|| {
        let recorded = std::sync::Arc::new(Recorded::new());
        let other = thread::spawn({
            let recorded = recorded.clone();
            move || {
                let threads = Threads::default();
                let handle = recorded.output.enter();
                recorded.write(handle, 2, b'x', &threads);
                join_all(&threads);
                assert!(recorded.written.lock().unwrap().contains(&b'x'), "a byte stayed behind");
            }
        });
        let threads = Threads::default();
        let handle = recorded.output.enter();
        recorded.write(handle, 1, b'a', &threads);
        recorded.write(handle, 1, b'b', &threads);
        join_all(&threads);
        let written = recorded.written.lock().unwrap().clone();
        let own: Vec<_> = written.iter().filter(|byte| **byte != b'x').collect();
        assert_eq!(own, [&b'a', &b'b'], "a byte stayed behind");
        other.join().unwrap();
        assert_eq!(recorded.written.lock().unwrap().len(), 3);
    });
}

#[test]
fn a_flush_is_woken_when_all_is_out() {
    model(|| {
        let recorded = Recorded::new();
        let threads = Threads::default();
        let handle = recorded.output.enter();
        recorded.write(handle, 1, b'a', &threads);
        let flag = Flag::new();
        let waker = waker(&flag);
        let flush = || {
            let start = || recorded.drain(1, &threads);
            recorded.output.poll_flush(&mut Context::from_waker(&waker), (handle, 1), start).is_ready()
        };
        if !flush() {
            join_all(&threads);
            assert!(flag.is_set(), "lost wake");
            assert!(flush(), "woken for nothing");
        }
        assert_eq!(*recorded.written.lock().unwrap(), *b"a");
        join_all(&threads);
    });
}

/// The part that input and output share: a worker that is started for work, and ends when there is none.
mod small {
    use loom::sync::{Arc, Mutex};

    use super::{Threads, join_all};
    use crate::models::once_built::{model, thread};

    #[derive(Default)]
    struct State {
        work: u8,
        is_started: bool,
    }

    fn work(state: &Mutex<State>, looks_once_more: bool) {
        loop {
            let mut locked = state.lock().unwrap();
            if locked.work == 0 {
                if !looks_once_more {
                    drop(locked);
                    locked = state.lock().unwrap();
                }
                locked.is_started = false;
                return;
            }
            locked.work -= 1;
        }
    }

    fn check(looks_once_more: bool) {
        model(move || {
            let state = Arc::new(Mutex::new(State::default()));
            let threads = Threads::default();
            for _ in 0..2 {
                let must_start = {
                    let mut state = state.lock().unwrap();
                    state.work += 1;
                    !std::mem::replace(&mut state.is_started, true)
                };
                if must_start {
                    let state = state.clone();
                    let worker = thread::spawn(move || work(&state, looks_once_more));
                    threads.lock().unwrap().push(worker);
                }
            }
            join_all(&threads);
            assert_eq!(state.lock().unwrap().work, 0, "work stayed behind");
        });
    }

    #[test]
    fn twin_without_a_bug() {
        check(true);
    }

    #[test]
    #[should_panic(expected = "work stayed behind")]
    fn twin_that_ends_without_the_look_that_found_nothing() {
        check(false);
    }
}
