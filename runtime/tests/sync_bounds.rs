//! Which types and futures of `sync` may cross threads, and panics.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::rc::Rc;

use runtime::sync::*;

fn send<T: Send>(_: &T) {}
fn send_sync<T: Send + Sync>() {}
fn unwind_safe<T: UnwindSafe + RefUnwindSafe>() {}

/// Answers whether a type has a trait: the inherent constant wins where its bound holds.
macro_rules! has {
    ($ty:ty: $bound:path) => {{
        trait No {
            const HAS: bool = false;
        }
        impl<T: ?Sized> No for T {}
        struct Probe<T: ?Sized>(std::marker::PhantomData<T>);
        #[allow(dead_code)]
        impl<T: ?Sized + $bound> Probe<T> {
            const HAS: bool = true;
        }
        <Probe<$ty>>::HAS
    }};
}

#[test]
fn handles_may_cross_threads_if_their_values_may() {
    type Value = std::cell::Cell<i32>; // `Send`, not `Sync`
    send_sync::<oneshot::Sender<Value>>();
    send_sync::<oneshot::Receiver<Value>>();
    send_sync::<mpsc::Sender<Value>>();
    send_sync::<mpsc::Receiver<Value>>();
    send_sync::<mpsc::WeakSender<Value>>();
    send_sync::<mpsc::OwnedPermit<Value>>();
    send_sync::<mpsc::Permit<'static, Value>>();
    send_sync::<mpsc::UnboundedSender<Value>>();
    send_sync::<mpsc::UnboundedReceiver<Value>>();
    send_sync::<Mutex<Value>>();
    send_sync::<Notify>();
    send_sync::<futures::Notified<'static>>();
    send_sync::<futures::OwnedNotified>();
    send_sync::<OwnedSemaphorePermit>();
    send_sync::<MutexGuard<'static, i32>>();
    send_sync::<MappedMutexGuard<'static, i32>>();
    send_sync::<OwnedMutexGuard<i32>>();
    send_sync::<OwnedMappedMutexGuard<i32, u8>>();
}

#[test]
fn what_must_not_cross_does_not() {
    type Cell = std::cell::Cell<i32>;
    assert!(!has!(oneshot::Sender<Rc<i32>>: Send));
    assert!(!has!(oneshot::Receiver<Rc<i32>>: Send));
    assert!(!has!(mpsc::Sender<Rc<i32>>: Send));
    assert!(!has!(mpsc::UnboundedReceiver<Rc<i32>>: Send));
    assert!(!has!(Mutex<Rc<i32>>: Sync));
    // A shared guard gives out `&T`.
    assert!(!has!(MutexGuard<'static, Cell>: Sync));
    assert!(!has!(MappedMutexGuard<'static, Cell>: Sync));
    assert!(!has!(OwnedMutexGuard<Cell>: Sync));
    assert!(!has!(OwnedMappedMutexGuard<i32, Cell>: Sync));
    assert!(!has!(futures::Notified<'static>: Unpin));
}

#[test]
fn futures_may_be_spawned() {
    let (tx, mut rx) = mpsc::channel::<i32>(1);
    send(&tx.send(1));
    send(&tx.reserve());
    send(&tx.closed());
    send(&rx.recv());
    let mutex = Mutex::new(1);
    send(&mutex.lock());
    let semaphore = Semaphore::new(1);
    send(&semaphore.acquire());
}

#[test]
fn handles_may_be_used_after_a_panic() {
    unwind_safe::<mpsc::Sender<i32>>();
    unwind_safe::<mpsc::Receiver<i32>>();
    unwind_safe::<Notify>();
    unwind_safe::<Semaphore>();
}
