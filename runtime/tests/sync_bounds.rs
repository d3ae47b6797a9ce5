//! Which types and futures may cross threads, and panics; most of them are those of `sync`.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::rc::Rc;

use runtime::sync::*;

fn send<T: Send>(_: &T) {}
fn sync<T: Sync>() {}
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
    send_sync::<broadcast::Sender<Value>>();
    send_sync::<broadcast::WeakSender<Value>>();
    send_sync::<broadcast::Receiver<Value>>();
    send_sync::<Mutex<Value>>();
    send_sync::<Notify>();
    send_sync::<futures::Notified<'static>>();
    send_sync::<futures::OwnedNotified>();
    send_sync::<OwnedSemaphorePermit>();
    send_sync::<MutexGuard<'static, i32>>();
    send_sync::<MappedMutexGuard<'static, i32>>();
    send_sync::<OwnedMutexGuard<i32>>();
    send_sync::<OwnedMappedMutexGuard<i32, u8>>();
    send_sync::<Barrier>();
    send_sync::<OnceCell<i32>>();
    send_sync::<SetOnce<i32>>();
    send_sync::<RwLock<i32>>();
    send_sync::<RwLockReadGuard<'static, i32>>();
    send_sync::<RwLockWriteGuard<'static, i32>>();
    send_sync::<RwLockMappedWriteGuard<'static, i32>>();
    send_sync::<OwnedRwLockReadGuard<i32, u8>>();
    send_sync::<OwnedRwLockWriteGuard<i32>>();
    send_sync::<OwnedRwLockMappedWriteGuard<i32, u8>>();
    send_sync::<watch::Sender<i32>>();
    send_sync::<watch::Receiver<i32>>();
}

#[test]
fn what_must_not_cross_does_not() {
    type Cell = std::cell::Cell<i32>;
    assert!(!has!(oneshot::Sender<Rc<i32>>: Send));
    assert!(!has!(oneshot::Receiver<Rc<i32>>: Send));
    assert!(!has!(mpsc::Sender<Rc<i32>>: Send));
    assert!(!has!(mpsc::UnboundedReceiver<Rc<i32>>: Send));
    assert!(!has!(broadcast::Sender<Rc<i32>>: Send));
    assert!(!has!(broadcast::Receiver<Rc<i32>>: Sync));
    assert!(!has!(Mutex<Rc<i32>>: Sync));
    // A shared guard gives out `&T`.
    assert!(!has!(MutexGuard<'static, Cell>: Sync));
    assert!(!has!(MappedMutexGuard<'static, Cell>: Sync));
    assert!(!has!(OwnedMutexGuard<Cell>: Sync));
    assert!(!has!(OwnedMappedMutexGuard<i32, Cell>: Sync));
    assert!(!has!(futures::Notified<'static>: Unpin));
    assert!(!has!(OwnedMappedMutexGuard<Cell, i32>: Sync));
    assert!(!has!(runtime::task::futures::TaskLocalFuture<i32, std::future::Ready<()>>: Unpin));
    // The budget is that of the thread's current task.
    assert!(!has!(runtime::task::coop::RestoreOnPending: Send));
    assert!(!has!(runtime::task::coop::RestoreOnPending: Sync));
    // It is of the thread that has entered the runtime.
    assert!(!has!(runtime::runtime::EnterGuard<'static>: Send));
    sync::<runtime::runtime::EnterGuard<'static>>();
    // Readers share the data between threads, and a writer may become a reader.
    assert!(!has!(RwLock<Cell>: Sync));
    assert!(!has!(OnceCell<Cell>: Sync));
    assert!(!has!(SetOnce<Cell>: Sync));
    assert!(!has!(SetOnce<Rc<i32>>: Send));
    assert!(!has!(RwLockReadGuard<'static, Cell>: Send));
    assert!(!has!(RwLockReadGuard<'static, Cell>: Sync));
    assert!(!has!(RwLockWriteGuard<'static, Cell>: Send));
    assert!(!has!(RwLockMappedWriteGuard<'static, Cell>: Send));
    assert!(!has!(OwnedRwLockReadGuard<Rc<i32>, i32>: Send));
    assert!(!has!(OwnedRwLockReadGuard<i32, Cell>: Sync));
    assert!(!has!(OwnedRwLockWriteGuard<Cell>: Send));
    assert!(!has!(OwnedRwLockMappedWriteGuard<i32, Cell>: Send));
    // The receivers of a watch channel share its value between threads, too.
    assert!(!has!(watch::Sender<Cell>: Send));
    assert!(!has!(watch::Receiver<Cell>: Sync));
    // A `Ref` belongs to its thread.
    assert!(!has!(watch::Ref<'static, i32>: Send));
    sync::<watch::Ref<'static, i32>>();
    assert!(!has!(watch::Ref<'static, Cell>: Sync));
}

#[test]
fn futures_of_sockets_may_be_shared() {
    fn both<T: Send + Sync>(_: &T) {}
    both(&runtime::net::TcpStream::connect("127.0.0.1:1"));
    both(&runtime::net::lookup_host("127.0.0.1:1"));
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = runtime::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        both(&listener.accept());
        let stream = runtime::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        both(&stream.readable());
        both(&stream.peek(&mut [0]));
    });
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
    let (barrier, cell, once) = (Barrier::new(1), OnceCell::new(), SetOnce::<i32>::new());
    send(&barrier.wait());
    send(&cell.get_or_init(|| async { 1 }));
    send(&once.wait());
    let lock = RwLock::new(1);
    send(&lock.read());
    send(&lock.write());
    let (tx, mut rx) = broadcast::channel::<i32>(1);
    send(&tx.closed());
    send(&rx.recv());
    let (tx, mut rx) = watch::channel(1);
    send(&tx.closed());
    send(&rx.changed());
    send(&rx.wait_for(|_| true));
}

#[test]
fn handles_may_be_used_after_a_panic() {
    unwind_safe::<mpsc::Sender<i32>>();
    unwind_safe::<mpsc::Receiver<i32>>();
    unwind_safe::<Notify>();
    unwind_safe::<Semaphore>();
    unwind_safe::<Barrier>();
    unwind_safe::<broadcast::Sender<i32>>();
    unwind_safe::<broadcast::Receiver<i32>>();
    unwind_safe::<runtime::Runtime>();
    unwind_safe::<runtime::Handle>();
    unwind_safe::<runtime::task::JoinHandle<i32>>();
    unwind_safe::<runtime::net::TcpStream>();
    unwind_safe::<runtime::net::TcpListener>();
    unwind_safe::<runtime::net::TcpSocket>();
    unwind_safe::<runtime::io::ReadHalf<std::cell::Cell<u8>>>();
    unwind_safe::<runtime::io::WriteHalf<std::cell::Cell<u8>>>();
    unwind_safe::<watch::Sender<std::cell::Cell<i32>>>();
    unwind_safe::<watch::Receiver<std::cell::Cell<i32>>>();
}
