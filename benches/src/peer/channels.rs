//! What this project and Tokio have in `sync` that others lack, under the same names.

use super::{Ours, Service, Tokio};

/// A runtime with Tokio's `sync`.
pub trait Channels: Service {
    /// Sends numbers to all [listeners](Self::Listener).
    type Speaker: Send + Sync + 'static;
    /// Gets every number.
    type Listener: Send + 'static;
    /// Replaces a number.
    type Announcer: Send + Sync + 'static;
    /// Sees the last number.
    type Watcher: Clone + Send + Sync + 'static;
    /// A number behind a lock for readers and writers.
    type Lock: Send + Sync + 'static;

    /// A broadcast channel without listeners.
    fn broadcast(capacity: usize) -> Self::Speaker;

    /// Adds a listener.
    fn listen(speaker: &Self::Speaker) -> Self::Listener;

    /// Sends a number; there must be listeners.
    fn speak(speaker: &Self::Speaker, number: usize);

    /// The next number, or `None` at the end. Panics if the listener has missed one.
    fn hear(listener: &mut Self::Listener) -> impl Future<Output = Option<usize>> + Send;

    /// A watch channel.
    fn watch() -> (Self::Announcer, Self::Watcher);

    /// Replaces the number; there must be watchers.
    fn announce(announcer: &Self::Announcer, number: usize);

    /// The number, once it is another than the last time, or `None` at the end.
    fn changed(watcher: &mut Self::Watcher) -> impl Future<Output = Option<usize>> + Send;

    /// The number.
    fn look(watcher: &Self::Watcher) -> usize;

    /// A lock around 0.
    fn lock() -> Self::Lock;

    /// The number in the lock.
    fn read(lock: &Self::Lock) -> impl Future<Output = usize> + Send;

    /// Adds one to the number in the lock; if it `yields`, it lets other tasks run in between.
    fn write(lock: &Self::Lock, yields: bool) -> impl Future<Output = ()> + Send;
}

macro_rules! channels {
    ($peer:ident, $rt:ident) => {
        impl Channels for $peer {
            type Speaker = ::$rt::sync::broadcast::Sender<usize>;
            type Listener = ::$rt::sync::broadcast::Receiver<usize>;
            type Announcer = ::$rt::sync::watch::Sender<usize>;
            type Watcher = ::$rt::sync::watch::Receiver<usize>;
            type Lock = ::$rt::sync::RwLock<usize>;

            fn broadcast(capacity: usize) -> Self::Speaker {
                ::$rt::sync::broadcast::Sender::new(capacity)
            }

            fn listen(speaker: &Self::Speaker) -> Self::Listener {
                speaker.subscribe()
            }

            fn speak(speaker: &Self::Speaker, number: usize) {
                speaker.send(number).expect("a receiver listens");
            }

            async fn hear(listener: &mut Self::Listener) -> Option<usize> {
                use ::$rt::sync::broadcast::error::RecvError;

                match listener.recv().await {
                    Ok(number) => Some(number),
                    Err(RecvError::Closed) => None,
                    Err(RecvError::Lagged(missed)) => panic!("a listener missed {missed} numbers"),
                }
            }

            fn watch() -> (Self::Announcer, Self::Watcher) {
                ::$rt::sync::watch::channel(0)
            }

            fn announce(announcer: &Self::Announcer, number: usize) {
                announcer.send(number).expect("a receiver watches");
            }

            async fn changed(watcher: &mut Self::Watcher) -> Option<usize> {
                watcher.changed().await.ok()?;
                Some(*watcher.borrow_and_update())
            }

            fn look(watcher: &Self::Watcher) -> usize {
                *watcher.borrow()
            }

            fn lock() -> Self::Lock {
                ::$rt::sync::RwLock::new(0)
            }

            async fn read(lock: &Self::Lock) -> usize {
                *lock.read().await
            }

            async fn write(lock: &Self::Lock, yields: bool) {
                let mut number = lock.write().await;
                if yields {
                    ::$rt::task::yield_now().await;
                }
                *number += 1;
            }
        }
    };
}

channels!(Ours, runtime);
channels!(Tokio, tokio);
