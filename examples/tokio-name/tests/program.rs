//! The attribute and the macros under Tokio's name, and the library above them.

use std::io;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{self, Instant};
use tokio_name::{Served, call, serve, sum_below, ticks_during};

const LIMIT: Duration = Duration::from_secs(5);

async fn echo_round() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (served, mut reports) = mpsc::channel(1);
    let (stop, stopped) = oneshot::channel();
    let server = tokio::spawn(serve(listener, served, stopped));

    let (a, b) = tokio::join!(call(address, "hello", LIMIT), async {
        let report = reports.recv().await;
        (report, call(address, "", LIMIT).await)
    });
    assert_eq!(a?, "hello");
    let (report, empty) = b;
    assert!(matches!(report, Some(Served { bytes: 5, .. })), "{report:?}");
    assert_eq!(empty?, "");

    stop.send(()).expect("the server waits for this");
    assert_eq!(server.await??, 2);
    Ok(())
}

#[tokio::test]
async fn echoes_on_one_thread() -> io::Result<()> {
    echo_round().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn echoes_on_two_workers() -> io::Result<()> {
    echo_round().await
}

#[tokio::test]
async fn a_server_nobody_can_stop_any_more_stops() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let (served, _) = mpsc::channel(1);
    let (stop, stopped) = oneshot::channel();
    drop(stop);
    assert_eq!(serve(listener, served, stopped).await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_call_without_an_answer_times_out() -> io::Result<()> {
    // The system connects; no task accepts.
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let error = call(listener.local_addr()?, "hello", Duration::from_millis(10)).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_ticks_takes_no_time() {
    let start = Instant::now();
    let hour = time::sleep(Duration::from_secs(3600) - Duration::from_millis(1));
    let ((), ticks) = ticks_during(hour, Duration::from_secs(60)).await;
    assert_eq!(ticks, 59);
    assert!(start.elapsed() >= Duration::from_secs(3599));
}

#[tokio::test]
async fn blocking_work_comes_back() -> io::Result<()> {
    let (a, b) = tokio::try_join!(sum_below(10), sum_below(100))?;
    assert_eq!((a, b), (45, 4950));
    Ok(())
}

#[tokio::test]
#[should_panic = "add an `else` branch"]
async fn the_macros_are_ours() {
    // Tokio's `select!` panics with another text.
    tokio::select! { Some(()) = async { None } => {} }
}

#[test]
fn a_builder_a_handle_and_a_runtime() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let handle = runtime.handle().clone();
    let task = handle.spawn(async { tokio::task::yield_now().await });
    runtime.block_on(task)?;
    let _guard = runtime.enter();
    assert_eq!(handle.block_on(tokio::spawn(async { 7 }))?, 7);
    Ok(())
}
