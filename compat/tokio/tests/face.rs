//! Programs written for Tokio, on `runtime`.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// `#[tokio::main]` with arguments, on a function that is called.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn answer() -> usize {
    let ours: runtime::Handle = tokio::runtime::Handle::current();
    assert_eq!(ours.runtime_flavor(), runtime::runtime::RuntimeFlavor::MultiThread);
    assert_eq!(ours.metrics().num_workers(), 2);
    tokio::spawn(async { 42 }).await.unwrap()
}

#[test]
fn the_published_attribute_builds_a_runtime_of_ours() {
    assert_eq!(answer(), 42);
}

#[tokio::test]
async fn a_test_runs_on_a_runtime_of_ours() {
    let ours: runtime::Handle = tokio::runtime::Handle::current();
    assert_eq!(ours.runtime_flavor(), runtime::runtime::RuntimeFlavor::CurrentThread);
}

#[tokio::test(start_paused = true)]
async fn a_paused_test_skips_its_sleeps() {
    let start = tokio::time::Instant::now();
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    assert_eq!(start.elapsed().as_secs(), 3600);
}

#[tokio::test]
async fn the_macros_find_what_they_need_in_ours() {
    tokio::task_local!(static NAME: usize);
    let waits = std::future::pending::<()>();
    tokio::pin!(waits);
    let (one, two) = tokio::join!(async { 1 }, async { 2 });
    let sum = tokio::try_join!(async { Ok::<_, ()>(one) }, async { Ok(two) }).map(|(a, b)| a + b);
    let chosen = tokio::select! {
        () = &mut waits => 0,
        name = NAME.scope(sum.unwrap(), async { NAME.get() }) => name,
    };
    assert_eq!(chosen, 3);
}

/// What the shim is for: a task that was spawned by Tokio's name computes on the workers of its own runtime.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_computes_on_the_workers_it_runs_on() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let task = tokio::spawn(async {
        runtime::compute(|| {
            let call = || CALLS.fetch_add(1, Relaxed);
            runtime::parallel::join(call, call);
            runtime::parallel::current_thread_index()
        })
        .await
    });
    let index = task.await.unwrap().unwrap();
    assert!(index.is_some_and(|index| index < 2), "on worker {index:?}");
    assert_eq!(CALLS.load(Relaxed), 2);
}

/// Some programs compare the system's numbers.
#[tokio::test]
async fn an_address_in_use_is_told_by_its_number() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let error = tokio::net::TcpListener::bind(addr).await.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(98), "EADDRINUSE, not {error:?}");
    drop(listener);
    let error = tokio::net::TcpStream::connect(addr).await.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(111), "ECONNREFUSED, not {error:?}");
}

/// Some programs import these because their editor offered them.
#[test]
fn the_hidden_names_of_the_macros_are_those_of_std() {
    use tokio::macros::support::{Context, Future, Pin, Poll, Result, ready};

    fn through<F: Future>(future: Pin<&mut F>, cx: &mut Context<'_>) -> Poll<Result<F::Output, ()>> {
        Poll::Ready(Ok(ready!(future.poll(cx))))
    }
    let mut context = Context::from_waker(std::task::Waker::noop());
    assert_eq!(through(std::pin::pin!(async { 1 }), &mut context), Poll::Ready(Ok(1)));
}

/// DataFusion's unions call this, with the number of their inputs.
#[test]
fn the_hidden_random_number_is_below_its_bound() {
    use tokio::macros::support::thread_rng_n;

    assert_eq!([thread_rng_n(0), thread_rng_n(1)], [0, 0]);
    let drawn: std::collections::HashSet<u32> = (0..1000).map(|_| thread_rng_n(3)).collect();
    assert_eq!(drawn, [0, 1, 2].into());
}

/// Cargo takes the shim, and says so in the lock file by naming no source.
#[test]
fn no_tokio_comes_from_a_registry() {
    let lock = include_str!("../Cargo.lock");
    let entries: Vec<_> =
        lock.split("[[package]]").filter(|entry| entry.contains("name = \"tokio\"\n")).collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert!(!entries[0].contains("\nsource = "), "{}", entries[0]);
}

/// Tokio's receiver is a future, and is not `must_use`: programs with `deny(warnings)` drop receivers that a
/// function returns.
#[test]
#[deny(unused_must_use)]
fn a_oneshot_receiver_may_be_dropped_where_it_is_returned() {
    fn receiver() -> tokio::sync::oneshot::Receiver<()> {
        tokio::sync::oneshot::channel().1
    }
    receiver();
}
