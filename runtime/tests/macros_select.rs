//! `select!`: order, fairness, patterns, and what handlers may do.

use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn, ready};
use std::rc::Rc;
use std::task::Poll;

fn block_on<F: Future>(future: F) -> F::Output {
    runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Adds its name to the log when dropped.
struct Logged<'a>(&'a str, &'a RefCell<Vec<String>>);

impl Drop for Logged<'_> {
    fn drop(&mut self) {
        self.1.borrow_mut().push(self.0.to_owned());
    }
}

#[test]
fn each_ready_branch_wins_in_some_rounds() {
    block_on(async {
        let mut wins = [0_u32; 4];
        for _ in 0..4000 {
            runtime::select! {
                _ = ready(()) => wins[0] += 1,
                _ = ready(()) => wins[1] += 1,
                _ = ready(()) => wins[2] += 1,
                _ = ready(()) => wins[3] += 1,
            }
        }
        // 1000 each on average, with a standard deviation of 27.
        assert!(wins.iter().all(|&wins| (700..1300).contains(&wins)), "{wins:?}");
    });
}

#[test]
fn biased_polls_from_top_to_bottom() {
    block_on(async {
        for _ in 0..100 {
            let log = RefCell::new(String::new());
            let note = async |letter: char, is_ready: bool| {
                log.borrow_mut().push(letter);
                if !is_ready {
                    pending::<()>().await;
                }
            };
            runtime::select! {
                biased;
                _ = note('a', false) => unreachable!("pending"),
                _ = note('b', true) => {}
                _ = note('c', true) => unreachable!("b is before it"),
            }
            assert_eq!(*log.borrow(), "ab");
        }
    });
}

#[test]
fn a_disabled_branch_is_evaluated_but_not_polled() {
    block_on(async {
        let evaluated = Cell::new(false);
        let is_on = false;
        runtime::select! {
            _ = { evaluated.set(true); poll_fn(|_| -> Poll<()> { panic!("polled") }) }, if is_on => {}
            _ = ready(()) => {}
        }
        assert!(evaluated.get());
    });
}

#[test]
fn preconditions_come_before_all_futures() {
    block_on(async {
        let log = RefCell::new(Vec::new());
        let note = |what: &'static str| {
            log.borrow_mut().push(what);
            true
        };
        runtime::select! {
            biased;
            _ = { note("future 1"); ready(()) }, if note("if 1") => {}
            _ = { note("future 2"); ready(()) }, if note("if 2") => {}
        }
        assert_eq!(*log.borrow(), ["if 1", "if 2", "future 1", "future 2"]);
    });
}

#[test]
fn else_runs_when_every_branch_is_disabled() {
    block_on(async {
        let value = runtime::select! {
            _ = ready(()), if false => 1,
            Some(n) = ready(None) => n,
            Ok::<i32, i32>(n) = ready(Err(5)) => n,
            else => 9,
        };
        assert_eq!(value, 9);
        assert_eq!(runtime::select! { else => 3 }, 3);
        assert_eq!(runtime::select! { biased; else => 4, }, 4);
    });
}

#[test]
#[should_panic = "add an `else` branch"]
fn no_branch_left_and_no_else_panics() {
    block_on(async {
        runtime::select! {
            _ = ready(()), if false => {}
            Some(()) = ready(None) => {}
        }
    });
}

#[test]
fn a_branch_that_does_not_match_leaves_the_others_waiting() {
    block_on(async {
        let mut polls = 0;
        let value = runtime::select! {
            biased;
            // Were it polled again, `ready` would panic.
            Some(n) = ready(None) => n,
            n = async {
                for _ in 0..3 {
                    runtime::task::yield_now().await;
                }
                7
            } => n,
            _ = poll_fn(|_| -> Poll<()> { polls += 1; Poll::Pending }) => 0,
        };
        assert_eq!(value, 7);
        assert_eq!(polls, 3);
    });
}

#[test]
fn an_output_that_does_not_match_is_dropped_once() {
    block_on(async {
        let log = RefCell::new(Vec::new());
        runtime::select! {
            biased;
            Ok::<_, Logged>(()) = ready(Err(Logged("refused", &log))) => {}
            kept = ready(Logged("kept", &log)) => {
                assert_eq!(*log.borrow(), ["refused"]);
                assert_eq!(kept.0, "kept");
            }
        }
        assert_eq!(*log.borrow(), ["refused", "kept"]);
    });
}

#[test]
fn patterns_bind_in_every_way() {
    enum Shape {
        Dot,
        Line { from: String, to: String },
    }
    block_on(async {
        let line = || Shape::Line { from: "a".into(), to: "b".into() };

        // By move.
        let moved = runtime::select! {
            Shape::Line { from, to } = ready(line()) => from + &to,
            else => panic!("no match"),
        };
        assert_eq!(moved, "ab");
        // Mutable.
        let longer = runtime::select! { mut text = ready(String::from("a")) => { text.push('c'); text } };
        assert_eq!(longer, "ac");
        // By reference, by mutable reference.
        runtime::select! { ref text = ready(String::from("a")) => assert_eq!(text, "a") }
        runtime::select! { Some(ref mut text) = ready(Some(String::new())) => text.push('d'), else => {} }
        // Through a reference.
        runtime::select! { &n = ready(&5) => assert_eq!(n, 5) }
        // Alternatives, whole and part, ranges, literals.
        runtime::select! { 1 | 2 = ready(2) => {} else => panic!("no match") }
        let whole = runtime::select! { whole @ Some(_) = ready(Some(2)) => whole, else => None };
        assert_eq!(whole, Some(2));
        runtime::select! { (3..=5, "x") = ready((4, "x")) => {} else => panic!("no match") }
        for (shape, is_dot) in [(Shape::Dot, true), (line(), false)] {
            assert_eq!(runtime::select! { Shape::Dot = ready(shape) => true, else => false }, is_dot);
        }
    });
}

#[test]
fn all_futures_are_dropped_before_the_handler_runs() {
    block_on(async {
        let log = RefCell::new(Vec::new());
        let waits = async {
            let _logged = Logged("loser", &log);
            pending::<()>().await;
        };
        let wins = async {
            let _logged = Logged("winner", &log);
            runtime::task::yield_now().await;
        };
        runtime::select! {
            _ = waits => unreachable!("pending"),
            _ = wins => {
                let mut log = log.borrow_mut();
                log.sort();
                assert_eq!(*log, ["loser", "winner"]);
            }
        }
    });
}

#[test]
fn handlers_use_what_the_futures_borrowed() {
    async fn fill(text: &mut String) -> usize {
        text.push('x');
        runtime::task::yield_now().await;
        text.len()
    }
    block_on(async {
        let mut text = String::new();
        let mut rounds = 0;
        while rounds < 3 {
            runtime::select! {
                length = fill(&mut text) => {
                    rounds += 1;
                    text.push('y');
                    assert_eq!(text.len(), length + 1);
                }
                _ = pending::<()>() => { rounds += 1; text.clear(); }
            }
        }
        assert_eq!(text, "xyxyxy");
    });
}

#[test]
fn handlers_leave_loops_and_functions_and_await() {
    async fn question(text: &str) -> Result<i32, std::num::ParseIntError> {
        runtime::select! {
            text = ready(text) => {
                let n: i32 = text.parse()?;
                runtime::task::yield_now().await;
                Ok(n)
            }
        }
    }
    async fn early() -> &'static str {
        runtime::select! { _ = ready(()) => return "early", _ = pending::<()>() => {} }
        "late"
    }
    block_on(async {
        assert_eq!(question("12").await, Ok(12));
        assert!(question("twelve").await.is_err());
        assert_eq!(early().await, "early");

        let mut n = 0;
        let last = 'outer: loop {
            loop {
                n += 1;
                runtime::select! {
                    biased;
                    _ = ready(()), if n < 3 => {}
                    _ = ready(()), if n < 5 => continue 'outer,
                    _ = ready(()) => break 'outer n,
                }
            }
        };
        assert_eq!(last, 5);
    });
}

#[test]
fn handlers_in_braces_need_no_comma() {
    block_on(async {
        let n = runtime::select! {
            biased;
            _ = pending::<()>() => { 1 }
            _ = pending::<()>(), if true => { 2 },
            _ = pending::<()>(), if 1 + 1 == 2 => 3,
            n = async { 4 } => n
        };
        assert_eq!(n, 4);
    });
}

#[test]
fn a_pinned_future_goes_on_from_round_to_round() {
    block_on(async {
        let slow = async {
            for _ in 0..10 {
                runtime::task::yield_now().await;
            }
            "done"
        };
        runtime::pin!(slow);
        let mut rounds = 0;
        let result = loop {
            runtime::select! {
                result = &mut slow => break result,
                _ = runtime::task::yield_now() => rounds += 1,
            }
        };
        assert_eq!(result, "done");
        assert!(rounds >= 5, "{rounds}");
    });
}

#[test]
fn a_temporary_lives_as_long_as_its_future() {
    struct Countdown(u32);
    impl Future for Countdown {
        type Output = ();
        fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<()> {
            if self.0 == 0 {
                return Poll::Ready(());
            }
            self.0 -= 1;
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    }
    block_on(async {
        runtime::select! { _ = &mut Countdown(2) => {} }
        assert_eq!(runtime::join!(&mut Countdown(2), &mut Countdown(1)), ((), ()));
    });
}

#[test]
fn outputs_need_not_be_send_for_the_task_to_be() {
    fn assert_send<T: Send>(value: T) -> T {
        value
    }
    async fn fails() -> Result<u32, Box<dyn std::error::Error>> {
        Err("failed".into())
    }
    let future = assert_send(async {
        runtime::select! {
            result = fails() => result.unwrap_err().to_string(),
            _ = pending::<()>() => unreachable!("pending"),
        }
    });
    assert_eq!(block_on(future), "failed");
}

#[test]
fn it_works_with_futures_that_are_not_send() {
    block_on(async {
        let shared = Rc::new(Cell::new(0));
        let theirs = shared.clone();
        runtime::select! { _ = async move { theirs.set(1) } => shared.set(shared.get() + 1) }
        assert_eq!(shared.get(), 2);
    });
}

#[test]
fn names_of_the_expansion_do_not_meet_those_of_the_program() {
    block_on(async {
        let (output, disabled, future, is_pending, branches, first, cx) = (1, 2, 3, 4, 5, 6, 7);
        #[allow(non_snake_case)]
        let B0 = 8;
        let sum = runtime::select! {
            n = async { output + disabled + future + is_pending }, if branches == 5 => n + first + cx + B0,
        };
        assert_eq!(sum, 31);
    });
}

#[test]
fn selects_nest() {
    block_on(async {
        let n = runtime::select! {
            n = async { runtime::select! { n = ready(1) => n, _ = pending::<()>() => 0 } } => {
                runtime::select! { Some(more) = ready(Some(10)) => n + more, else => 0 }
            }
            _ = pending::<()>() => 0,
        };
        assert_eq!(n, 11);
    });
}

#[test]
fn a_select_loop_yields_when_the_budget_is_used_up() {
    block_on(async {
        let handle = runtime::spawn(async {
            let mut rounds = 0_u64;
            // `ready` knows no budget; `consume_budget` does, and in each round one of both is taken.
            loop {
                runtime::select! {
                    biased;
                    _ = runtime::task::coop::consume_budget() => rounds += 1,
                    // Chosen only if a round polls branches without a budget.
                    _ = ready(()) => return Err(rounds),
                }
                if rounds == 1000 {
                    return Ok(());
                }
            }
        });
        assert_eq!(handle.await.unwrap(), Ok(()));
    });
}

#[test]
fn sixty_four_branches() {
    macro_rules! select_64 {
        ($last:expr; $($n:tt)*) => {
            runtime::select! {
                $( _ = pending::<()>(), if $n % 2 == 0 => $n, )*
                n = $last => n,
            }
        };
    }
    block_on(async {
        let n = select_64!(async { runtime::task::yield_now().await; 64 };
            1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
            33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63);
        assert_eq!(n, 64);
    });
}
