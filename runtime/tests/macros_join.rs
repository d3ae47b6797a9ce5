//! `join!` and `try_join!`: outputs, order, sharing of the budget, early errors; and the forms of `pin!`.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::{Future, pending, poll_fn, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

fn block_on<F: Future>(future: F) -> F::Output {
    runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Is ready with `output` after `polls` polls.
async fn after<T>(polls: u32, output: T) -> T {
    for _ in 0..polls {
        runtime::task::yield_now().await;
    }
    output
}

#[test]
fn no_branch_one_branch_a_last_comma() {
    block_on(async {
        runtime::join!();
        runtime::join!(biased;);
        assert_eq!(runtime::join!(ready(1)), (1,));
        assert_eq!(runtime::join!(biased; ready(1), ready("a"),), (1, "a"));
        assert_eq!(runtime::try_join!(ready(Ok::<_, ()>(1)),), Ok((1,)));
        let empty: Result<(), ()> = runtime::try_join!();
        assert_eq!(empty, Ok(()));
    });
}

#[test]
fn many_branches_that_end_at_different_times() {
    block_on(async {
        let outputs = runtime::join!(
            after(9, 'a'),
            after(0, 'b'),
            after(8, 'c'),
            after(1, 'd'),
            after(7, 'e'),
            after(2, 'f'),
            after(6, 'g'),
            after(3, 'h'),
            after(5, 'i'),
            after(4, 'j'),
            after(5, 'k'),
            after(0, 'l'),
        );
        let text = format!("{outputs:?}").replace(['\'', ',', ' '], "");
        assert_eq!(text, "(abcdefghijkl)");
    });
}

/// The names of the branches in the order in which four polls of three pending branches reach them.
async fn order_of_polls(is_biased: bool) -> String {
    let log = RefCell::new(String::new());
    let branch = |name: char| {
        let mut left = 4;
        let log = &log;
        poll_fn(move |cx| {
            log.borrow_mut().push(name);
            left -= 1;
            cx.waker().wake_by_ref();
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
    };
    if is_biased {
        runtime::join!(biased; branch('a'), branch('b'), branch('c'));
    } else {
        runtime::join!(branch('a'), branch('b'), branch('c'));
    }
    log.into_inner()
}

#[test]
fn the_branch_polled_first_moves_on() {
    assert_eq!(block_on(order_of_polls(false)), "abcbcacababc");
    assert_eq!(block_on(order_of_polls(true)), "abcabcabcabc");
}

#[test]
fn a_greedy_branch_leaves_budget_to_the_others() {
    block_on(async {
        let (is_over, polite) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
        let greedy = async {
            while !is_over.get() {
                runtime::task::coop::consume_budget().await;
            }
        };
        let other = async {
            for _ in 0..10 {
                runtime::task::coop::consume_budget().await;
                polite.set(polite.get() + 1);
            }
            is_over.set(true);
        };
        runtime::join!(greedy, other);
        assert_eq!(polite.get(), 10);
    });
}

#[test]
fn a_branch_is_dropped_when_it_is_ready() {
    block_on(async {
        let alive = Rc::new(());
        let watch = Rc::downgrade(&alive);
        // Keeps what it owns also when it is ready, unlike an async block.
        let short = poll_fn(move |_| Poll::Ready(Rc::strong_count(&alive)));
        let long = async {
            runtime::task::yield_now().await;
            watch.strong_count()
        };
        assert_eq!(runtime::join!(short, long), (1, 0));
    });
}

#[test]
fn the_first_error_drops_the_rest() {
    struct SetOnDrop<'a>(&'a Cell<bool>);
    impl Drop for SetOnDrop<'_> {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    block_on(async {
        let (was_output_dropped, was_future_dropped) = (Cell::new(false), Cell::new(false));
        let waits = async {
            let _guard = SetOnDrop(&was_future_dropped);
            pending::<Result<(), &str>>().await
        };
        let result = runtime::try_join!(async { Ok(SetOnDrop(&was_output_dropped)) }, waits, async {
            after(3, ()).await;
            Err::<(), _>("refused")
        },);
        assert_eq!(result.err(), Some("refused"));
        assert!(was_output_dropped.get() && was_future_dropped.get());
    });
}

#[test]
fn try_join_waits_for_all_values() {
    async fn all() -> Result<u32, String> {
        let (a, b, c) =
            runtime::try_join!(biased; after(3, Ok::<_, String>(1)), after(0, Ok(2)), after(1, Ok(3)))?;
        Ok(a + b + c)
    }
    assert_eq!(block_on(all()), Ok(6));
}

#[test]
fn outputs_without_values() {
    block_on(async {
        let result: Result<(Infallible, u8), &str> =
            runtime::try_join!(ready(Err("never a value")), ready(Ok(1)));
        assert_eq!(result, Err("never a value"));
        let result: Result<(u8, u8), Infallible> = runtime::try_join!(ready(Ok(1)), ready(Ok(2)));
        assert_eq!(result, Ok((1, 2)));
    });
}

#[test]
fn branches_borrow_from_the_function_around() {
    block_on(async {
        let (mut left, mut right) = (vec![1], vec![2]);
        let shared = String::from("n");
        runtime::join!(
            async {
                after(1, ()).await;
                left.push(shared.len());
            },
            async { right.push(shared.len()) },
        );
        assert_eq!((left, right), (vec![1, 1], vec![2, 1]));
    });
}

#[test]
fn branches_are_made_by_into_future() {
    struct Request;
    impl IntoFuture for Request {
        type Output = u32;
        type IntoFuture = std::future::Ready<u32>;
        fn into_future(self) -> Self::IntoFuture {
            ready(200)
        }
    }
    block_on(async {
        assert_eq!(runtime::join!(Request, Request), (200, 200));
        assert_eq!(runtime::select! { status = Request => status }, 200);
    });
}

#[test]
fn pin_takes_variables_and_declarations() {
    block_on(async {
        let a = after(1, 'a');
        let b = after(2, 'b');
        runtime::pin!(a, b);
        let _: &Pin<&mut _> = &a;
        assert_eq!(runtime::join!(&mut a, &mut b), ('a', 'b'));

        runtime::pin! {
            let c = after(1, 'c');
            let d = after(1, 'd');
        }
        assert_eq!((c.await, d.as_mut().await), ('c', 'd'));

        runtime::pin!();
    });
}

#[test]
fn a_pinned_value_lives_to_the_end_of_its_block() {
    let alive = Rc::new(());
    {
        let value = alive.clone();
        runtime::pin!(value);
        assert_eq!(Rc::strong_count(&alive), 2);
        let _ = value;
    }
    assert_eq!(Rc::strong_count(&alive), 1);
}
