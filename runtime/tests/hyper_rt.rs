//! What hyper needs of a runtime: streams, an executor, a timer.
#![cfg(feature = "hyper")]

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

use hyper::rt::{Executor as _, Read, ReadBuf, Timer as _, Write};
use runtime::hyper::{Executor, Io, Timer};
use runtime::io::duplex;
use runtime::net::{TcpListener, TcpStream};

fn block_on<F: Future>(future: F) -> F::Output {
    runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Passes a few bytes through hyper's traits alone, in more pieces than one, to the end of the stream.
async fn passes_bytes(mut near: impl Read + Write + Unpin, mut far: impl Read + Write + Unpin) {
    let slices = [std::io::IoSlice::new(b"hello, "), std::io::IoSlice::new(b"world")];
    let mut sent = poll_fn(|cx| Pin::new(&mut near).poll_write_vectored(cx, &slices)).await.unwrap();
    let all = b"hello, world";
    while sent < all.len() {
        sent += poll_fn(|cx| Pin::new(&mut near).poll_write(cx, &all[sent..])).await.unwrap();
    }
    poll_fn(|cx| Pin::new(&mut near).poll_flush(cx)).await.unwrap();
    poll_fn(|cx| Pin::new(&mut near).poll_shutdown(cx)).await.unwrap();
    let mut received: Vec<u8> = Vec::new();
    loop {
        let mut room = [std::mem::MaybeUninit::uninit(); 5];
        let mut buf = ReadBuf::uninit(&mut room);
        poll_fn(|cx| Pin::new(&mut far).poll_read(cx, buf.unfilled())).await.unwrap();
        match buf.filled() {
            [] => break,
            filled => received.extend(filled),
        }
    }
    assert_eq!(received, all);
}

#[test]
fn streams_are_hypers_streams() {
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        assert!(near.is_write_vectored());
        passes_bytes(near, far).await;
        let (near, far) = duplex(64);
        passes_bytes(near, Io::new(far)).await;
    });
}

#[test]
fn the_executor_spawns() {
    block_on(async {
        let (done, is_done) = mpsc::channel();
        Executor::new().execute(async move { done.send(()).unwrap() });
        while is_done.try_recv().is_err() {
            runtime::task::yield_now().await;
        }
    });
}

#[test]
fn the_timer_follows_the_runtimes_clock() {
    let mut builder = runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap().block_on(async {
        let (timer, begin) = (Timer::new(), std::time::Instant::now());
        let start = timer.now();
        timer.sleep(Duration::from_secs(3600)).await;
        timer.sleep_until(start + Duration::from_secs(7200)).await;
        assert!(timer.now() - start >= Duration::from_secs(7200));

        let mut sleep = timer.sleep(Duration::from_secs(1));
        timer.reset(&mut sleep, timer.now() + Duration::from_secs(10));
        let start = timer.now();
        sleep.await;
        assert!(timer.now() - start >= Duration::from_secs(10));
        assert!(begin.elapsed() < Duration::from_secs(60), "no thread has slept");
    });
}

/// Foreign timers can only be replaced.
#[test]
fn a_foreign_sleep_is_replaced() {
    struct Never;
    impl Future for Never {
        type Output = ();
        fn poll(self: Pin<&mut Self>, _: &mut std::task::Context<'_>) -> Poll<()> {
            Poll::Pending
        }
    }
    impl hyper::rt::Sleep for Never {}
    block_on(async {
        let timer = Timer::new();
        let mut sleep: Pin<Box<dyn hyper::rt::Sleep>> = Box::pin(Never);
        timer.reset(&mut sleep, timer.now());
        pin!(sleep).await;
    });
}
