//! What the tests of sockets share.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::future::poll_fn;
use std::path::PathBuf;
use std::task::Poll;

use runtime::net::{TcpListener, TcpStream};

pub fn block_on<F: Future>(future: F) -> F::Output {
    runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Two streams over the loopback: the one that has connected, and the one that was accepted.
pub async fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    (near, far)
}

/// Polls `future` once, which must not be ready.
#[track_caller]
pub fn assert_pending<F: Future>(future: F) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let mut future = std::pin::pin!(future);
        poll_fn(|cx| {
            assert!(future.as_mut().poll(cx).is_pending(), "ready at {caller}");
            Poll::Ready(())
        })
        .await;
    }
}

/// An empty folder, removed when dropped.
pub struct Folder(PathBuf);

impl Folder {
    #[track_caller]
    pub fn new() -> Self {
        let line = std::panic::Location::caller().line();
        let path = std::env::temp_dir().join(format!("runtime-net-{}-{line}", std::process::id()));
        // Of an earlier process of this number, which was killed.
        _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}
