//! `timeout`, `timeout_at` and `Timeout`.

use std::cell::Cell;
use std::future::{Future, pending, poll_fn, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use runtime::Runtime;
use runtime::time::{Duration, Instant, sleep, timeout, timeout_at};

fn paused() -> Runtime {
    runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn a_future_that_is_ready_is_never_late() {
    paused().block_on(async {
        assert_eq!(timeout(Duration::ZERO, ready(1)).await, Ok(1));
        assert_eq!(timeout_at(Instant::now() - ms(1), ready(2)).await, Ok(2));
        assert_eq!(timeout(Duration::MAX, ready(3)).await, Ok(3));
    });
}

#[test]
fn time_runs_out_at_the_limit() {
    paused().block_on(async {
        for limit in [0, 1, 100, 5_000] {
            let start = Instant::now();
            assert!(timeout(ms(limit), pending::<()>()).await.is_err());
            assert_eq!(start.elapsed(), ms(limit));
            assert!(timeout_at(start + ms(2 * limit), pending::<()>()).await.is_err());
            assert_eq!(start.elapsed(), ms(2 * limit));
        }
    });
}

#[test]
fn the_limit_counts_from_the_call() {
    paused().block_on(async {
        let start = Instant::now();
        let limited = timeout(ms(100), pending::<()>());
        sleep(ms(60)).await;
        assert!(limited.await.is_err());
        assert_eq!(start.elapsed(), ms(100));
    });
}

#[test]
fn a_future_that_ends_in_time_wins() {
    paused().block_on(async {
        let start = Instant::now();
        let slow = async {
            sleep(ms(10)).await;
            7
        };
        assert_eq!(timeout(ms(20), slow).await, Ok(7));
        assert_eq!(start.elapsed(), ms(10));
        // Its limit was cancelled.
        sleep(ms(100)).await;
        assert_eq!(start.elapsed(), ms(110));
    });
}

#[test]
fn without_end_it_waits_for_decades() {
    paused().block_on(async {
        let mut limited = pin!(timeout(Duration::MAX, pending::<()>()));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(limited.as_mut().poll(&mut cx).is_pending());
        sleep(Duration::from_secs(86_400 * 365 * 29)).await;
        assert!(limited.as_mut().poll(&mut cx).is_pending());
    });
}

#[test]
fn in_real_time_the_limit_ends_the_wait_too() {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let start = std::time::Instant::now();
    runtime.block_on(async {
        assert!(timeout(Duration::ZERO, pending::<()>()).await.is_err());
        assert!(timeout(ms(20), pending::<()>()).await.is_err());
    });
    assert!(start.elapsed() >= ms(20) && start.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_future_that_uses_up_the_budget_still_runs_out_of_time() {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limited = runtime.block_on(async {
        runtime::spawn(async {
            let greedy = async {
                loop {
                    runtime::task::coop::consume_budget().await;
                }
            };
            timeout(ms(20), greedy).await
        })
        .await
    });
    assert!(limited.unwrap().is_err());
}

#[test]
fn a_loop_of_elapsed_timeouts_lets_other_tasks_run() {
    paused().block_on(async {
        let rounds = Cell::new(0);
        let mut greedy = pin!(async {
            loop {
                let _ = timeout(Duration::ZERO, pending::<()>()).await;
                rounds.set(rounds.get() + 1);
                assert!(rounds.get() < 100_000, "the budget does not end");
            }
        });
        // The end of the budget ends the poll.
        let is_pending = poll_fn(|cx| Poll::Ready(greedy.as_mut().poll(cx).is_pending())).await;
        assert!(is_pending && rounds.get() > 0);
    });
}

#[test]
fn the_future_can_be_seen_and_taken_back() {
    paused().block_on(async {
        let mut limited = timeout(ms(1), ready(5));
        let _: &std::future::Ready<i32> = limited.get_ref();
        *limited.get_mut() = ready(6);
        assert_eq!(limited.into_inner().await, 6);
    });
}

#[test]
fn a_mutable_reference_leaves_the_future_to_the_caller() {
    paused().block_on(async {
        let mut slow = pin!(async {
            sleep(ms(30)).await;
            9
        });
        assert!(timeout(ms(10), &mut slow).await.is_err());
        assert_eq!(timeout(ms(100), slow).await, Ok(9));
    });
}

#[test]
fn elapsed_is_an_io_error_too() {
    paused().block_on(async {
        let elapsed = timeout(ms(1), pending::<()>()).await.unwrap_err();
        assert_eq!(elapsed.to_string(), "deadline has elapsed");
        assert_eq!(std::io::Error::from(elapsed).kind(), std::io::ErrorKind::TimedOut);
    });
}
