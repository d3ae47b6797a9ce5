//! Leaf futures of the crate take part in the budget: a task that does nothing but one operation, which is
//! always ready, lets others run. Each test is a loop that ends when the task has let others run.

mod support;

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

use runtime::io::{AsyncReadExt, AsyncWriteExt};
use runtime::net::{TcpListener, TcpStream};
use runtime::sync::{Barrier, Mutex, Notify, Semaphore, mpsc, oneshot};
use runtime::task::coop;
use runtime::time::{Duration, Instant};
use support::{build, watchdog};

/// More rounds than any budget allows for, few enough for what the operations use up.
const ENOUGH: usize = 5_000;
/// Likewise, of what has to be prepared one by one.
const FEW: usize = 500;

/// A test for each operation. What stands before it is run once.
macro_rules! yields {
    ($($name:ident: { $($setup:tt)* } $operation:block)*) => {$(
        #[test]
        fn $name() {
            let _watchdog = watchdog();
            for workers in [0, 1] {
                let runtime = build(workers);
                let polls = Arc::new(AtomicUsize::new(0));
                let task = runtime.spawn(counted(polls.clone(), async move {
                    $($setup)*
                    let other_ran = Arc::new(AtomicBool::new(false));
                    let told = other_ran.clone();
                    runtime::spawn(async move { told.store(true, SeqCst) });
                    let begun = polls.load(SeqCst);
                    // Without workers, the other task has the same thread. A worker's other task may run on a
                    // spare worker, before or after this task has returned from its poll.
                    let has_given_way = || match workers {
                        0 => other_ran.load(SeqCst),
                        _ => polls.load(SeqCst) != begun,
                    };
                    let mut rounds = 0;
                    while !has_given_way() {
                        assert!(rounds < ENOUGH, "the budget does not end");
                        rounds += 1;
                        $operation
                    }
                }));
                runtime.block_on(task).unwrap();
            }
        }
    )*};
}

async fn counted<F: Future>(polls: Arc<AtomicUsize>, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        polls.fetch_add(1, SeqCst);
        future.as_mut().poll(cx)
    })
    .await
}

fn ended_channel() -> mpsc::Receiver<u8> {
    mpsc::channel(1).1
}

fn closed_channel() -> mpsc::Sender<u8> {
    mpsc::channel(1).0
}

async fn finished<T>(handles: Vec<T>, is_finished: impl Fn(&T) -> bool) -> Vec<T> {
    while !handles.iter().rev().all(&is_finished) {
        runtime::task::yield_now().await;
    }
    handles
}

/// Two connected sockets; what is written to the second is there for the first.
async fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (client, listener.accept().await.unwrap().0)
}

async fn sockets_with_bytes() -> (TcpStream, TcpStream) {
    let (reader, mut writer) = sockets().await;
    writer.write_all(&[7; ENOUGH]).await.unwrap();
    while reader.peek(&mut [0; ENOUGH]).await.unwrap() < ENOUGH {
        runtime::task::yield_now().await;
    }
    (reader, writer)
}

yields! {
    mpsc_send: { let (tx, mut rx) = mpsc::channel(2); } {
        tx.send(1).await.unwrap();
        assert_eq!(rx.try_recv(), Ok(1));
    }
    mpsc_send_timeout: { let (tx, mut rx) = mpsc::channel(2); } {
        tx.send_timeout(1, Duration::from_secs(60)).await.unwrap();
        assert_eq!(rx.try_recv(), Ok(1));
    }
    mpsc_send_to_nobody: { let tx = closed_channel(); } {
        assert!(tx.send(1).await.is_err());
    }
    mpsc_reserve: { let (tx, _rx) = mpsc::channel::<u8>(2); } {
        drop(tx.reserve().await.unwrap());
    }
    mpsc_reserve_many: { let (tx, _rx) = mpsc::channel::<u8>(2); } {
        drop(tx.reserve_many(2).await.unwrap());
    }
    mpsc_reserve_more_than_there_are: { let (tx, _rx) = mpsc::channel::<u8>(2); } {
        assert!(tx.reserve_many(3).await.is_err());
    }
    mpsc_reserve_owned: { let (tx, _rx) = mpsc::channel::<u8>(2); } {
        drop(tx.clone().reserve_owned().await.unwrap());
    }
    mpsc_closed: { let tx = closed_channel(); } {
        tx.closed().await;
    }
    mpsc_unbounded_closed: { let tx = mpsc::unbounded_channel::<u8>().0; } {
        tx.closed().await;
    }
    mpsc_recv: { let (tx, mut rx) = mpsc::unbounded_channel(); } {
        tx.send(1).unwrap();
        assert_eq!(rx.recv().await, Some(1));
    }
    mpsc_recv_of_an_ended_channel: { let mut rx = ended_channel(); } {
        assert_eq!(rx.recv().await, None);
    }
    mpsc_recv_many: { let (tx, mut rx) = mpsc::unbounded_channel(); } {
        tx.send(1).unwrap();
        assert_eq!(rx.recv_many(&mut Vec::new(), 10).await, 1);
    }
    mpsc_recv_many_of_an_ended_channel: { let mut rx = ended_channel(); } {
        assert_eq!(rx.recv_many(&mut Vec::new(), 10).await, 0);
    }
    mpsc_recv_many_of_none: { let (_tx, mut rx) = mpsc::unbounded_channel::<u8>(); } {
        assert_eq!(rx.recv_many(&mut Vec::new(), 0).await, 0);
    }
    oneshot_recv: {} {
        let (tx, rx) = oneshot::channel();
        tx.send(1).unwrap();
        assert_eq!(rx.await, Ok(1));
    }
    oneshot_recv_from_nobody: {} {
        let rx = oneshot::channel::<u8>().1;
        assert!(rx.await.is_err());
    }
    oneshot_closed: { let mut tx = oneshot::channel::<u8>().0; } {
        tx.closed().await;
    }
    semaphore_acquire: { let semaphore = Semaphore::new(2); } {
        drop(semaphore.acquire().await.unwrap());
    }
    semaphore_acquire_many_owned: { let semaphore = Arc::new(Semaphore::new(2)); } {
        drop(semaphore.clone().acquire_many_owned(2).await.unwrap());
    }
    semaphore_acquire_none: { let semaphore = Semaphore::new(0); } {
        drop(semaphore.acquire_many(0).await.unwrap());
    }
    semaphore_acquire_of_a_closed_one: {
        let semaphore = Semaphore::new(2);
        semaphore.close();
    } {
        assert!(semaphore.acquire().await.is_err());
    }
    mutex_lock: { let mutex = Mutex::new(1); } {
        assert_eq!(*mutex.lock().await, 1);
    }
    mutex_lock_owned: { let mutex = Arc::new(Mutex::new(1)); } {
        assert_eq!(*mutex.clone().lock_owned().await, 1);
    }
    notify_notified: { let notify = Notify::new(); } {
        notify.notify_one();
        notify.notified().await;
    }
    notify_notified_owned: { let notify = Arc::new(Notify::new()); } {
        notify.notify_one();
        notify.clone().notified_owned().await;
    }
    barrier_wait_that_was_released_in_the_same_poll: { let barrier = Barrier::new(2); } {
        let mut first = pin!(barrier.wait());
        assert!(poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx).is_pending())).await);
        assert!(barrier.wait().await.is_leader());
        assert!(!first.await.is_leader());
    }
    time_sleep: {} {
        runtime::time::sleep(Duration::ZERO).await;
    }
    time_sleep_until: { let past = Instant::now(); } {
        runtime::time::sleep_until(past).await;
    }
    time_interval: { let mut interval = runtime::time::interval(Duration::from_nanos(1)); } {
        interval.tick().await;
    }
    time_timeout_in_the_past: { let past = Instant::now(); } {
        assert!(runtime::time::timeout_at(past, std::future::pending::<()>()).await.is_err());
    }
    join_handle: {
        let handles = (0..FEW).map(|i| runtime::spawn(async move { i })).collect();
        let mut handles = finished(handles, |handle| handle.is_finished()).await;
    } {
        handles.pop().unwrap().await.unwrap();
    }
    join_handle_of_a_closure: {
        let handles = (0..FEW).map(|i| runtime::task::spawn_blocking(move || i)).collect();
        let mut handles = finished(handles, |handle| handle.is_finished()).await;
    } {
        handles.pop().unwrap().await.unwrap();
    }
    compute: {
        let handles = (0..FEW).map(|i| runtime::compute(move || i)).collect();
        let mut handles = finished(handles, |handle: &runtime::Compute<_>| handle.is_finished()).await;
    } {
        handles.pop().unwrap().await.unwrap();
    }
    consume_budget: {} {
        runtime::task::coop::consume_budget().await;
    }
    io_duplex_read: {
        let (mut reader, mut writer) = runtime::io::duplex(ENOUGH);
        writer.write_all(&[7; ENOUGH]).await.unwrap();
    } {
        assert_eq!(reader.read_u8().await.unwrap(), 7);
    }
    io_duplex_read_at_the_end: { let mut reader = runtime::io::duplex(1).0; } {
        assert_eq!(reader.read(&mut [0]).await.unwrap(), 0);
    }
    io_duplex_write: { let (_reader, mut writer) = runtime::io::duplex(ENOUGH); } {
        writer.write_u8(7).await.unwrap();
    }
    io_duplex_write_to_nobody: { let mut writer = runtime::io::duplex(1).1; } {
        assert_eq!(writer.write(&[7]).await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
    io_empty: {} {
        assert_eq!(runtime::io::empty().read(&mut [0]).await.unwrap(), 0);
    }
    io_repeat: {} {
        assert_eq!(runtime::io::repeat(7).read_u8().await.unwrap(), 7);
    }
    io_sink: {} {
        runtime::io::sink().write_all(&[7]).await.unwrap();
    }
    net_lookup_of_an_address: { let addr = SocketAddr::from(([127, 0, 0, 1], 80)); } {
        assert_eq!(runtime::net::lookup_host(addr).await.unwrap().next(), Some(addr));
    }
    net_bind: {} {
        TcpListener::bind("127.0.0.1:0").await.unwrap();
    }
    net_accept: {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
    } {
        // In the queue at once.
        let client = std::net::TcpStream::connect(addr).unwrap();
        let (_server, peer) = listener.accept().await.unwrap();
        assert_eq!(peer, client.local_addr().unwrap());
    }
    net_read: { let (mut reader, _writer) = sockets_with_bytes().await; } {
        assert_eq!(reader.read_u8().await.unwrap(), 7);
    }
    net_read_at_the_end: { let mut reader = sockets().await.0; } {
        assert_eq!(reader.read(&mut [0]).await.unwrap(), 0);
    }
    net_peek: { let (reader, _writer) = sockets_with_bytes().await; } {
        assert_eq!(reader.peek(&mut [0]).await.unwrap(), 1);
    }
    net_readable: { let (reader, _writer) = sockets_with_bytes().await; } {
        reader.readable().await.unwrap();
    }
    net_write: { let (_reader, mut writer) = sockets().await; } {
        writer.write_all(&[7]).await.unwrap();
    }
    net_writable: { let (_reader, writer) = sockets().await; } {
        writer.writable().await.unwrap();
    }
    net_poll_write_ready: { let (_reader, writer) = sockets().await; } {
        poll_fn(|cx| writer.poll_write_ready(cx)).await.unwrap();
    }
    net_async_io: { let (_reader, writer) = sockets().await; } {
        writer.async_io(runtime::io::Interest::WRITABLE, || Ok(())).await.unwrap();
    }
    signal_recv: {
        use runtime::signal::unix::{SignalKind, signal};
        let mut signals = signal(SignalKind::user_defined1()).unwrap();
    } {
        // SAFETY: `signals` listens to it.
        assert_eq!(unsafe { libc::raise(libc::SIGUSR1) }, 0);
        assert_eq!(signals.recv().await, Some(()));
    }
}

#[test]
fn an_operation_that_is_given_back_after_its_poll_leaves_no_budget_there() {
    let proceed = || coop::poll_proceed(&mut Context::from_waker(Waker::noop()));
    let mut kept = None;
    build(0).block_on(poll_fn(|_| {
        kept = Some(proceed());
        Poll::Ready(())
    }));
    drop(kept);
    assert!((0..1_000).all(|_| proceed().map(|coop| coop.made_progress()).is_ready()));
}
