//! Runs `Async` operations: what is awaited in tasks and in the future of a `block_on`.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::sync_channel;
use std::task::{Context, Poll};

use runtime::io::{AsyncReadExt, AsyncWriteExt};
use runtime::net::{TcpListener, TcpStream};
use runtime::parallel::{join, mark_blocked};
use runtime::sync::{Notify, Semaphore, mpsc, oneshot};
use runtime::task::{block_in_place, yield_now};
use runtime::time::{sleep, timeout};
use runtime::{Compute, compute};

use super::drops::Forks;
use super::whole::{build, end, end_own};
use super::{Cx, Failed, KEY, OnDrop, Payload, Reach, lock, micros, odd, spin};
use crate::program::*;

/// A step that runs.
pub type Running<'a> = Pin<Box<dyn Future<Output = u64> + Send + 'a>>;

/// The future of a task of `rt`.
pub fn task(cx: Cx, rt: PoolId, body: Arc<Async>) -> impl Future<Output = u64> + Send + 'static {
    let token = cx.token();
    async move {
        let _token = token;
        let cx = cx.into_task(rt, body.id);
        odd::keep_waker(&cx).await;
        run(&cx, &body).await
    }
}

/// The future of a `block_on` of `rt`.
pub fn blocked_on(cx: Cx, rt: PoolId, body: Arc<Async>) -> impl Future<Output = u64> + Send + 'static {
    let token = cx.token();
    async move {
        let _token = token;
        let cx = cx.into_block_on(rt, body.id);
        run(&cx, &body).await
    }
}

/// Runs a step.
pub fn run<'a>(cx: &'a Cx, step: &'a Async) -> Running<'a> {
    Box::pin(async move {
        cx.begin(step.id);
        let value = run_op(cx, step).await;
        cx.end(step.id);
        value
    })
}

/// A future whose panic is its output.
struct Caught<'a, T>(Pin<Box<dyn Future<Output = T> + Send + 'a>>);

fn caught<'a, T>(future: impl Future<Output = T> + Send + 'a) -> Caught<'a, T> {
    Caught(Box::pin(future))
}

impl<T> Future for Caught<'_, T> {
    type Output = Result<T, Payload>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(payload) => Poll::Ready(Err(payload)),
        }
    }
}

/// Waits for a timer, or until the runtime has ended: it panics then.
async fn timer<T: Send>(cx: &Cx, id: Id, future: impl Future<Output = T> + Send) -> Option<T> {
    match caught(future).await {
        Ok(value) => Some(value),
        Err(payload) => {
            if cx.is_cancellation(id, &payload) {
                resume_unwind(payload);
            }
            if cx.is_certain(id) {
                cx.w.fault(format!("[{id}], a timer, panicked: {}", super::text_of(&payload)));
            }
            None
        }
    }
}

async fn pause(cx: &Cx, id: Id, time: Micros) {
    match time {
        0 => yield_now().await,
        time => _ = timer(cx, id, sleep(micros(time))).await,
    }
}

/// Something that is awaited, aborted or dropped.
trait Handle: Future<Output = Result<u64, runtime::task::JoinError>> + Unpin + Send {
    fn stop(&self);
    fn forget(self);
}

impl Handle for runtime::task::JoinHandle<u64> {
    fn stop(&self) {
        self.abort();
    }

    fn forget(self) {}
}

impl Handle for Compute<u64> {
    fn stop(&self) {
        self.abort();
    }

    fn forget(self) {
        self.detach();
    }
}

/// Does with a handle what the program says.
async fn finish(cx: &Cx, id: Id, of: Id, handle: impl Handle, end: End) {
    match end {
        End::Await => _ = cx.settle(id, of, handle.await.map_err(Failed::from)),
        End::Detach => handle.forget(),
        End::Abort(time) => {
            pause(cx, id, time).await;
            handle.stop();
            cx.settle(id, of, handle.await.map_err(Failed::from));
        }
        End::Drop(time) => {
            pause(cx, id, time).await;
            drop(handle);
        }
    }
}

async fn run_op(cx: &Cx, step: &Async) -> u64 {
    let id = step.id;
    let value = id as u64;
    match &step.op {
        AsyncOp::Seq(steps) => {
            let mut value = value;
            for step in steps {
                value = mix(value, run(cx, step).await);
            }
            return value;
        }
        AsyncOp::Yield(times) => {
            for _ in 0..*times {
                yield_now().await;
            }
        }
        AsyncOp::Sleep(time) => _ = timer(cx, id, sleep(micros(*time))).await,
        AsyncOp::Spin(time) => spin(*time),
        AsyncOp::Block(time) => std::thread::sleep(micros(*time)),
        AsyncOp::Panic => cx.boom(id),
        AsyncOp::Spawn { rt, free, body, end } => {
            let future = task(cx.clone(), *rt, body.clone());
            let is_current = cx.seen.runtime == cx.look(*rt);
            let handle =
                if *free && is_current { runtime::spawn(future) } else { cx.handle(*rt).spawn(future) };
            finish(cx, id, body.id, handle, *end).await;
        }
        AsyncOp::Many { rt, count, body } => {
            let spawn = |_| cx.handle(*rt).spawn(task(cx.clone(), *rt, body.clone()));
            let handles: Vec<_> = (0..*count).map(spawn).collect();
            for handle in handles {
                finish(cx, id, body.id, handle, End::Await).await;
            }
        }
        AsyncOp::Blocking { rt, body, end } => {
            let (inner, of, token, rt, body) = (cx.clone(), body.id, cx.token(), *rt, body.clone());
            let closure = move || {
                let _token = token;
                let cx = inner.into_closure(rt, body.id);
                super::calls::call(&cx, &body)
            };
            let handle = cx.handle(rt).spawn_blocking(closure);
            finish(cx, id, of, handle, *end).await;
        }
        AsyncOp::Compute { on, body, end } => {
            let closure = computation(cx.on(on.map(|rt| cx.pool_of_runtime(rt))), body.clone());
            let handle = match on {
                Some(rt) => cx.handle(*rt).compute(closure),
                None => compute(closure),
            };
            finish(cx, id, body.id, handle, *end).await;
        }
        AsyncOp::Endless { rt, forks, body } => {
            let token = cx.token();
            let mut forking = Forks::new(cx);
            let forks = *forks;
            let endless = cx.handle(*rt).compute(move || {
                let _token = token;
                if forks {
                    forking.arm();
                }
                loop {
                    check_second_closure(|| ());
                }
            });
            let value = mix(value, run(cx, body).await);
            drop::<Compute<()>>(endless);
            return value;
        }
        AsyncOp::InPlace(body) => return mix(value, block_in_place(|| super::calls::call(cx, body))),
        AsyncOp::Here(body) => return mix(value, super::calls::call(cx, body)),
        AsyncOp::Both(branches) => {
            let mut value = value;
            for (branch, result) in branches.iter().zip(all(cx, branches).await) {
                let own = cx.settle(id, branch.id, result.map_err(Failed::Panicked));
                value = mix(mix(id as u64, value), own);
            }
            return value;
        }
        AsyncOp::Select(branches) => {
            let (won, result) = first(cx, branches).await;
            cx.settle(id, won, result.map_err(Failed::Panicked));
        }
        AsyncOp::Timeout(time, body) => {
            let limited = timeout(micros(*time), caught(run(cx, body)));
            if let Some(Ok(result)) = timer(cx, id, limited).await {
                cx.settle(id, body.id, result.map_err(Failed::Panicked));
            }
        }
        AsyncOp::Gate { rt, kind, opener, waiter } => gate(cx, id, *rt, *kind, opener, waiter).await,
        AsyncOp::Pipe { rt, bound, count, blocking, body } => {
            pipe(cx, id, *rt, *bound, *count, *blocking, body).await;
        }
        AsyncOp::Hold { lock, is_semaphore, body } => {
            if *is_semaphore {
                let _permit = cx.w.semaphores[*lock].acquire().await.expect("it stays open");
                return mix(value, run(cx, body).await);
            }
            let _guard = cx.w.mutexes[*lock].lock().await;
            return mix(value, run(cx, body).await);
        }
        AsyncOp::Echo { rt, bytes } => {
            if let Err(error) = echo(cx, *rt, *bytes).await {
                if cx.is_certain(id) {
                    cx.w.fault(format!("[{id}]: {error}"));
                }
            }
        }
        AsyncOp::Foreign { late, again } => odd::foreign(cx, *late, *again).await,
        AsyncOp::Pause { rt, kind, body } => {
            let is_told = odd::after_pause(cx, *kind, cx.handle(*rt).clone()).await;
            if !is_told && cx.is_certain(id) {
                cx.w.fault(format!("[{id}], behind a pause, was cut short"));
            }
            return mix(value, run(cx, body).await);
        }
        AsyncOp::Odd { kind, rt, body } => {
            let handle = cx.handle(*rt).clone();
            return mix(value, odd::with_waker(cx, *kind, handle, run(cx, body)).await);
        }
        AsyncOp::Twins { rt, kind, time } => {
            let has_ended = odd::twins(cx, cx.handle(*rt), *kind, *time).await;
            if !has_ended && cx.is_certain(id) {
                cx.w.fault(format!("[{id}], two timers, were cut short"));
            }
        }
        AsyncOp::Drops { rt, drops } => super::drops::spawn(cx, cx.handle(*rt), drops).await,
        AsyncOp::Local(body) => {
            let mut inner = cx.clone();
            inner.seen.local = Some(value + 1);
            return mix(value, KEY.scope(value + 1, async move { run(&inner, body).await }).await);
        }
        AsyncOp::Close(how) => {
            let runtime = lock(&cx.w.runtime).take();
            runtime.into_iter().for_each(|runtime| end_own(&cx.w, runtime, *how));
        }
        AsyncOp::Nested { pool, close, early, body } => {
            let runtime = match build(&cx.w.program, *pool) {
                Ok(builder) => builder,
                Err(error) => {
                    cx.w.fault(format!("[{id}]: {error}"));
                    return value;
                }
            };
            let mut inner = cx.clone();
            inner.reaches = inner.reaches.with(*pool, Reach::Runtime(runtime.handle().clone()));
            inner.tokens = cx.tokens.part();
            let tokens = inner.tokens.clone();
            let handle = runtime.spawn(task(inner, *pool, body.clone()));
            finish(cx, id, body.id, handle, if *early { End::Detach } else { End::Await }).await;
            while cx.w.program.is_awaited && tokens.live() > 0 {
                // Not `yield_now`: a task that is always runnable may keep jobs waiting.
                match cx.w.program.drivers {
                    Drivers::Used => _ = timer(cx, id, sleep(micros(200))).await,
                    Drivers::Idle | Drivers::None => odd::foreign(cx, 200, false).await,
                }
            }
            end(&cx.w, runtime, *close);
        }
        AsyncOp::UntilEnd => loop {
            yield_now().await;
        },
        AsyncOp::Deadlock => {
            let (send, receive) = sync_channel(1);
            cx.w.has_marks.store(true, SeqCst);
            lock(&cx.w.deadlocked).push(send);
            let mark = mark_blocked();
            _ = receive.recv();
            drop(mark);
        }
    }
    value
}

/// A `join` whose second closure must not find its thread unwinding. In an endless loop there is no world to
/// tell it to.
fn check_second_closure(f: impl Fn() + Send + Sync) {
    join(&f, || {
        if std::thread::panicking() {
            crate::child::stray("a piece of an endless computation runs on a thread that unwinds");
        }
        f();
    });
}

/// The closure of a `compute`.
fn computation(cx: Cx, body: Arc<Call>) -> impl FnOnce() -> u64 + Send + 'static {
    let token = cx.token();
    move || {
        let _token = token;
        let cx = cx.into_job(body.id);
        let _index = cx.claim_index(body.id);
        super::calls::call(&cx, &body)
    }
}

type Ended<'a> = Pin<Box<dyn Future<Output = Vec<Result<u64, Payload>>> + Send + 'a>>;

/// `join!` of any number.
fn all<'a>(cx: &'a Cx, branches: &'a [Async]) -> Ended<'a> {
    Box::pin(async move {
        let Some((head, rest)) = branches.split_first() else { return Vec::new() };
        let (head, mut rest) = runtime::join!(caught(run(cx, head)), all(cx, rest));
        rest.insert(0, head);
        rest
    })
}

type Won<'a> = Pin<Box<dyn Future<Output = (Id, Result<u64, Payload>)> + Send + 'a>>;

/// `select!` of any number, but not of none.
fn first<'a>(cx: &'a Cx, branches: &'a [Async]) -> Won<'a> {
    Box::pin(async move {
        let (head, rest) = branches.split_first().expect("there is a branch");
        if rest.is_empty() {
            return (head.id, caught(run(cx, head)).await);
        }
        runtime::select! {
            result = caught(run(cx, head)) => (head.id, result),
            won = first(cx, rest) => won,
        }
    })
}

async fn gate(cx: &Cx, id: Id, rt: PoolId, kind: GateKind, opener: &Arc<Async>, waiter: &Arc<Async>) {
    let handle = cx.handle(rt).clone();
    let (send, receive) = oneshot::channel::<()>();
    let (send_std, receive_std) = sync_channel::<()>(1);
    let (notify, semaphore) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let open = OnDrop::new({
        let (notify, semaphore) = (notify.clone(), semaphore.clone());
        move || {
            notify.notify_one();
            semaphore.add_permits(1);
            _ = send_std.send(());
            _ = send.send(());
        }
    });
    let opens = task(cx.clone(), rt, opener.clone());
    let opens = handle.spawn(async move {
        let _open = open;
        opens.await
    });
    let (inner, body, token) = (cx.clone(), waiter.clone(), cx.token());
    let inside = handle.clone();
    let result = match kind {
        GateKind::Closure => {
            let waits = handle.spawn_blocking(move || {
                let _token = token;
                _ = receive.blocking_recv();
                let cx = inner.into_closure(rt, body.id);
                inside.block_on(blocked_on(cx, rt, body))
            });
            waits.await
        }
        GateKind::Computation => {
            let waits = handle.compute(move || {
                let _token = token;
                _ = receive.blocking_recv();
                let cx = inner.into_job_of(rt, body.id);
                inside.block_on(blocked_on(cx, rt, body))
            });
            waits.await
        }
        _ => {
            let waits = task(inner, rt, body);
            let waits = handle.spawn(async move {
                let _token = token;
                match kind {
                    GateKind::Notify => notify.notified().await,
                    GateKind::Semaphore => semaphore.acquire().await.expect("it stays open").forget(),
                    GateKind::InPlace => _ = block_in_place(|| receive.blocking_recv()),
                    GateKind::Unmarked => _ = receive_std.recv(),
                    _ => _ = receive.await,
                }
                waits.await
            });
            waits.await
        }
    };
    cx.settle(id, waiter.id, result.map_err(Failed::from));
    cx.settle(id, opener.id, opens.await.map_err(Failed::from));
}

/// A sender with a bound or without.
enum Sender<T> {
    Bounded(mpsc::Sender<T>),
    Unbounded(mpsc::UnboundedSender<T>),
}

impl<T> Sender<T> {
    async fn send(&self, value: T) -> bool {
        match self {
            Sender::Bounded(sender) => sender.send(value).await.is_ok(),
            Sender::Unbounded(sender) => sender.send(value).is_ok(),
        }
    }

    fn blocking_send(&self, value: T) -> bool {
        match self {
            Sender::Bounded(sender) => sender.blocking_send(value).is_ok(),
            Sender::Unbounded(sender) => sender.send(value).is_ok(),
        }
    }
}

async fn pipe(
    cx: &Cx,
    id: Id,
    rt: PoolId,
    bound: Option<usize>,
    count: usize,
    blocking: bool,
    body: &Arc<Async>,
) {
    let (sender, mut bounded, mut unbounded) = match bound {
        Some(bound) => {
            let (sender, receiver) = mpsc::channel(bound);
            (Sender::Bounded(sender), Some(receiver), None)
        }
        None => {
            let (sender, receiver) = mpsc::unbounded_channel();
            (Sender::Unbounded(sender), None, Some(receiver))
        }
    };
    let handle = cx.handle(rt).clone();
    let (inner, body_of, of) = (cx.clone(), body.clone(), body.id);
    let produces = if blocking {
        let (inside, token) = (handle.clone(), cx.token());
        handle.spawn_blocking(move || {
            let _token = token;
            (0..count).all(|i| sender.blocking_send((i, inner.token())));
            drop(sender);
            let cx = inner.into_closure(rt, body_of.id);
            inside.block_on(blocked_on(cx, rt, body_of))
        })
    } else {
        handle.spawn(async move {
            for i in 0..count {
                if !sender.send((i, inner.token())).await {
                    break;
                }
            }
            drop(sender);
            task(inner, rt, body_of).await
        })
    };
    let mut received = 0;
    loop {
        let next = match (&mut bounded, &mut unbounded) {
            (Some(receiver), _) => receiver.recv().await,
            (_, Some(receiver)) => receiver.recv().await,
            (None, None) => unreachable!("there is one of them"),
        };
        let Some((i, _token)) = next else { break };
        if i != received {
            cx.w.fault(format!("[{id}] received {i} as value {received}"));
        }
        received += 1;
    }
    if received != count && cx.is_certain(id) {
        cx.w.fault(format!("[{id}] received {received} values of {count}"));
    }
    cx.settle(id, of, produces.await.map_err(Failed::from));
}

pub async fn echo(cx: &Cx, rt: PoolId, bytes: usize) -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let token = cx.token();
    let server = cx.handle(rt).spawn(async move {
        let _token = token;
        let (mut stream, _) = listener.accept().await?;
        let mut left = bytes;
        let mut buffer = [0; 1024];
        while left > 0 {
            let read = stream.read(&mut buffer).await?;
            if read == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            stream.write_all(&buffer[..read]).await?;
            left -= read;
        }
        std::io::Result::Ok(())
    });
    let mut stream = TcpStream::connect(address).await?;
    let mut back = vec![0; bytes];
    let (mut reader, mut writer) = stream.split();
    let sent: Vec<u8> = (0..bytes).map(|i| i as u8).collect();
    let (wrote, read) = runtime::join!(writer.write_all(&sent), reader.read_exact(&mut back));
    wrote?;
    read?;
    server.await.map_err(|error| std::io::Error::other(error.to_string()))??;
    if back != sent { Err(std::io::Error::other("the echo is not what was sent")) } else { Ok(()) }
}
