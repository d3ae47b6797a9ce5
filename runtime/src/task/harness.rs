//! Poll, complete, cancel: the only code that touches a task's future.
//!
//! Foreign code runs here: the future, its destructor, the output's destructor, the join waker. Each runs
//! under its own `catch`, so a panic ends the task and never the worker.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

use super::cell::{Header, Stage, TaskCell};
use super::current::with_id;
use super::failure::Failure;
use super::id::Id;
use super::join::JoinError;
use super::raw::{Runnable, Schedule, drop_reference, free};
use super::state::{AfterPoll, Start};
use super::waker;
use crate::coop;
use crate::util::unwind::{catch, drop_quietly, run_quietly};

/// Polls the task once, or cancels it, and does what follows.
///
/// # Safety
/// 1. The caller owns `SCHEDULED`, and gives it up. 2. The cell is a `TaskCell<F>` of a scheduler `S`.
pub(super) unsafe fn run<F: Future + 'static, S: Schedule>(header: NonNull<Header>) {
    // SAFETY: by (1) the cell is live while we own `SCHEDULED`, and the future is ours to touch; (2) is the
    // caller's.
    unsafe {
        if header.as_ref().state.start_poll() == Start::Cancel {
            return fail::<F, S>(header, Failure::Cancelled);
        }
        match poll_future::<F>(header) {
            Polled::Pending { is_yielding } => after_pending::<F, S>(header, is_yielding),
            Polled::Ready(output) => finish::<F, S>(header, Ok(output)),
            Polled::Panicked(failure) => fail::<F, S>(header, failure),
        }
    }
}

/// Drops the future and ends the task without an output.
///
/// # Safety
/// As [`run`].
#[cold]
pub(super) unsafe fn fail<F: Future + 'static, S: Schedule>(header: NonNull<Header>, failure: Failure) {
    // A panic in the destructor of a task that was cancelled is the task's alone.
    let has_panicked = matches!(failure, Failure::Panic(_));
    // SAFETY: we own `SCHEDULED`, so the cell is live, and the stage is ours. If the assignment unwinds, the
    // stage has the new value.
    let failure = unsafe {
        failure_after(header, failure, S::MAY_BLOCK, &mut || *stage::<F>(header) = Stage::Consumed)
    };
    // SAFETY: passed on; the stage is `Consumed`. We own `SCHEDULED`, so the cell keeps the scheduler.
    unsafe {
        if has_panicked {
            S::after_panic(header.as_ref().scheduler.cast());
        }
        finish::<F, S>(header, Err(failure))
    }
}

/// Calls `drop_future` as [`as_destructor`] does. It may run inside the poll of another task, which spawned
/// this task and had it refused.
///
/// Returns the task's failure: a panic in the destructor is the task's, unless it has panicked before.
///
/// # Safety
/// 1. The caller keeps the cell alive.
unsafe fn failure_after(
    header: NonNull<Header>,
    failure: Failure,
    may_block: bool,
    drop_future: &mut dyn FnMut(),
) -> Failure {
    let mut dropped = Ok(());
    // SAFETY: (1).
    unsafe { as_destructor(header, may_block, &mut || dropped = catch(&mut *drop_future)) };
    match (dropped, failure) {
        (Err(payload), Failure::Panic(first)) => {
            drop_quietly(payload);
            Failure::Panic(first)
        }
        (Err(payload), _) => Failure::Panic(payload),
        (Ok(()), failure) => failure,
    }
}

/// Calls `f`, which does not unwind, as a poll of the task inside of another one, or of none. It is compiled
/// once, not for each future.
///
/// # Safety
/// 1. The caller keeps the cell alive.
#[cold]
unsafe fn in_nested_poll(header: NonNull<Header>, f: &mut dyn FnMut()) {
    coop::suspended(|| coop::poll_task(&waker::borrowed(&header), f));
}

/// The outcome of a poll.
enum Polled<T> {
    Pending {
        is_yielding: bool,
    },
    /// The future is gone.
    Ready(T),
    /// The poll panicked, or the destructor after it. In the latter case the future is gone.
    Panicked(Failure),
}

/// Polls the future, and drops it if it is ready.
///
/// # Safety
/// As [`run`], but the caller keeps the ownership.
unsafe fn poll_future<F: Future>(header: NonNull<Header>) -> Polled<F::Output> {
    let waker = waker::borrowed(&header);
    // Outside of `catch`, so that an unwinding destructor of the future does not meet a destructor of the
    // output.
    let mut output = None;
    let (result, is_yielding) = coop::poll_task(&waker, || {
        catch(|| {
            // SAFETY: we own `SCHEDULED`, so no other thread touches the stage. The cell is a `TaskCell<F>`.
            let stage = unsafe { stage::<F>(header) };
            let Stage::Running(future) = stage else {
                unreachable!("a task that is not done has its future");
            };
            // SAFETY: the future was put into the cell before its first poll, and stays there until it is
            // dropped in place.
            let future = unsafe { Pin::new_unchecked(future) };
            if let Poll::Ready(ready) = future.poll(&mut Context::from_waker(&waker)) {
                output = Some(ready);
                // SAFETY: as above; `future` is not used any more.
                unsafe { consume::<F>(header) };
            }
        })
    });
    match (result, output) {
        (Ok(()), Some(output)) => Polled::Ready(output),
        (Ok(()), None) => Polled::Pending { is_yielding },
        (Err(payload), output) => {
            drop_quietly(output);
            Polled::Panicked(Failure::of_unwinding(payload))
        }
    }
}

/// Drops the future, which is there. The stage is `Consumed` afterwards, also if the destructor unwinds. For
/// a future without a destructor that is one write.
///
/// # Safety
/// As [`run`], but the caller keeps the ownership; 3. no thread uses the future any more.
#[inline(always)]
unsafe fn consume<F: Future>(header: NonNull<Header>) {
    struct Consumed<F: Future>(NonNull<Header>, PhantomData<F>);

    impl<F: Future> Drop for Consumed<F> {
        fn drop(&mut self) {
            // SAFETY: the caller of `consume` owns the stage, and what was there is dropped.
            unsafe { (&raw mut *stage::<F>(self.0)).write(Stage::Consumed) };
        }
    }

    // SAFETY: by (1) and (2) the stage is ours. By (3) the future may go.
    unsafe {
        if let Stage::Running(future) = stage::<F>(header) {
            let future = &raw mut *future;
            let _consumed = Consumed::<F>(header, PhantomData);
            future.drop_in_place();
        }
    }
}

/// # Safety
/// As [`run`].
unsafe fn after_pending<F: Future + 'static, S: Schedule>(header: NonNull<Header>, is_yielding: bool) {
    // SAFETY: we own `SCHEDULED`, so the cell is live until `finish_pending` says `Idle` or the ownership is
    // passed on. `adopt`: (1) the cell keeps the scheduler. (2) is our (1). (3) This thread has just polled
    // the task. (4) `is_owned` was asked.
    unsafe {
        let state = &header.as_ref().state;
        let scheduler = header.as_ref().scheduler.cast();
        let next = match is_yielding {
            // A task that yields, or has woken itself, stays `SCHEDULED`: it is queued without a transition.
            true if state.load().is_cancelled() => AfterPoll::Cancel,
            true => AfterPoll::Requeue,
            false if !header.as_ref().is_owned() && !S::adopt(scheduler, header) => AfterPoll::Cancel,
            false => state.finish_pending(),
        };
        match next {
            AfterPoll::Idle => {}
            AfterPoll::Requeue => {
                S::reschedule(scheduler, Runnable::from_raw(header));
            }
            AfterPoll::Cancel => fail::<F, S>(header, Failure::Cancelled),
        }
    }
}

/// Ends a task whose future is gone: stores `result` for the handle if there is one, sets `DONE`, wakes the
/// handle, drops the life's reference.
///
/// # Safety
/// As [`run`]; 3. the stage is `Consumed`.
#[inline(always)]
unsafe fn finish<F: Future + 'static, S: Schedule>(
    header: NonNull<Header>,
    result: Result<F::Output, Failure>,
) {
    // SAFETY: we own `SCHEDULED` until `try_complete` succeeds. So the cell is live, and the stage and the
    // reserved ones are ours. `release`: (1) the cell keeps the scheduler. (2) is our (1). (3) This thread
    // has polled the task, or dropped its future. (4) A task ends once, and is not polled afterwards.
    unsafe {
        let state = &header.as_ref().state;
        S::release(header.as_ref().scheduler.cast(), header);
        let mut now = state.load();
        if now.has_join() {
            // By (3) the old stage needs no drop.
            (&raw mut *stage::<F>(header)).write(Stage::Finished(result));
        } else if std::mem::needs_drop::<F::Output>() || result.is_err() {
            discard(header, result, S::MAY_BLOCK);
            // The destructor may have taken references.
            now = state.load();
        } else {
            // The output needs no drop.
            std::mem::forget(result);
        }
        let was_last = loop {
            match state.try_complete(now, header.as_ref().reserved.count()) {
                Ok(was_last) => break was_last,
                Err(actual) => {
                    if now.has_join() && !actual.has_join() {
                        // The handle is gone. The output is dropped before `DONE`, because the cell may be
                        // gone after `DONE`.
                        drop_output::<F>(header);
                    }
                    now = actual;
                }
            }
        };
        if now.has_join_waker() {
            wake_handle(header);
        } else if was_last {
            free::<F, S>(header);
        }
    }
}

/// Wakes the task's handle, and drops the life's reference.
///
/// # Safety
/// 1. The caller has set `DONE`, and saw `JOIN_WAKER`, which made the waker its own. 2. It gives up the
///    life's reference, which was kept.
#[inline]
unsafe fn wake_handle(header: NonNull<Header>) {
    // SAFETY: by (1) the waker is ours; by (2) the cell is live until `drop_reference`.
    unsafe {
        let waker = header.as_ref().join_waker.with_mut(|waker| (*waker).take());
        run_quietly(|| waker.expect("JOIN_WAKER says that the waker is set").wake());
        drop_reference(header);
    }
}

/// Drops a result that no handle will ask for, as [`as_destructor`] does.
///
/// # Safety
/// 1. The caller owns `SCHEDULED`.
#[inline(never)]
unsafe fn discard<T>(header: NonNull<Header>, result: Result<T, Failure>, may_block: bool) {
    let mut result = Some(result);
    // SAFETY: by (1) the cell is live.
    unsafe { as_destructor(header, may_block, &mut || drop_quietly(result.take())) };
}

/// Calls `f`, which does not unwind and drops a part of the task on the thread that ends the task. `f` knows
/// the task by its id. It runs as a part of a poll, so that it cannot block the worker. If the task
/// [may block](Schedule::MAY_BLOCK) its thread, that is so only inside the poll of another task.
///
/// # Safety
/// 1. The caller keeps the cell alive.
#[cold]
unsafe fn as_destructor(header: NonNull<Header>, may_block: bool, f: &mut dyn FnMut()) {
    // SAFETY: (1).
    unsafe {
        match may_block {
            true => as_part_of(header, f),
            false => in_nested_poll(header, f),
        }
    }
}

/// Moves the output to `*out`, memory for a `Poll<Result<F::Output, JoinError>>`.
///
/// # Safety
/// 1. The caller is the handle, and saw `DONE` with an acquire. 2. The cell is a `TaskCell<F>`. 3. `out` is
///    valid for writes of that type.
pub(super) unsafe fn take_output<F: Future>(header: NonNull<Header>, out: *mut ()) {
    let out = out.cast::<Poll<Result<F::Output, JoinError>>>();
    // SAFETY: by (1) the stage of a `DONE` task is the handle's while `JOIN` is set; (2) and (3) are the
    // caller's. The output that is read is overwritten, not dropped.
    unsafe {
        let stage = stage::<F>(header);
        let Stage::Finished(Ok(output)) = stage else {
            return out.write(Poll::Ready(Err(take_failure::<F>(header))));
        };
        out.write(Poll::Ready(Ok((&raw const *output).read())));
        (&raw mut *stage).write(Stage::Consumed);
    }
}

/// Takes the failure that is there in place of an output.
///
/// # Safety
/// 1. and 2. of [`take_output`].
#[cold]
#[inline(never)]
unsafe fn take_failure<F: Future>(header: NonNull<Header>) -> JoinError {
    // SAFETY: as in `take_output`; the failure that is read is overwritten, not dropped. By (1) the handle's
    // reference keeps the cell.
    unsafe {
        let stage = stage::<F>(header);
        let Stage::Finished(Err(failure)) = stage else {
            panic!("a `JoinHandle` was polled after it had given its result");
        };
        let failure = (&raw const *failure).read();
        (&raw mut *stage).write(Stage::Consumed);
        JoinError::new(header.as_ref().id, header.as_ref().spawned_at, failure)
    }
}

/// Drops the output before `DONE`, if the handle has not taken it.
///
/// # Safety
/// 1. and 2. of [`take_output`].
unsafe fn drop_output<F: Future>(header: NonNull<Header>) {
    // SAFETY: as in `take_output`.
    unsafe {
        if !matches!(stage::<F>(header), Stage::Consumed) {
            drop_output_that_is_there::<F>(header);
        }
    }
}

/// Drops the output of a task that is `DONE`, for its handle, if that has not taken it. Wakers of the task
/// that the destructor clones or drops use a reserve that begins and ends here, because the task's has ended.
///
/// # Safety
/// 1. and 2. of [`take_output`].
pub(super) unsafe fn drop_output_after_end<F: Future>(header: NonNull<Header>) {
    // SAFETY: `stage` and `drop_output_that_is_there`: (1), (2). `begin_again`, `count`: (1) the caller is
    // the handle, by (2). The handle's reference keeps the cell.
    unsafe {
        // Mostly the handle has taken it.
        if matches!(stage::<F>(header), Stage::Consumed) {
            return;
        }
        let Header { state, reserved, .. } = header.as_ref();
        reserved.begin_again();
        drop_output_that_is_there::<F>(header);
        state.drop_references(reserved.count());
    }
}

/// Drops the output. Its destructor knows the task by its id. If this thread polls another task, the
/// destructor is a part of that poll, so it cannot block the worker.
///
/// # Safety
/// 1. and 2. of [`take_output`].
#[cold]
#[inline(never)]
unsafe fn drop_output_that_is_there<F: Future>(header: NonNull<Header>) {
    // SAFETY: as in `take_output`; the caller keeps the cell alive.
    unsafe {
        let mut result = Some(std::mem::replace(stage::<F>(header), Stage::Consumed));
        as_part_of(header, &mut || drop_quietly(result.take()));
    }
}

/// Calls `f`, which does not unwind, with the task's id; and as a part of a poll if this thread polls a task.
///
/// # Safety
/// 1. The caller keeps the cell alive.
unsafe fn as_part_of(header: NonNull<Header>, f: &mut dyn FnMut()) {
    // SAFETY: (1).
    unsafe {
        match coop::is_polling_task() {
            true => in_nested_poll(header, f),
            false => with_id(Some(Id(header.as_ref().id)), f),
        }
    }
}

/// # Safety
/// 1. The cell is a live `TaskCell<F>`. 2. No other thread touches the stage while the result is used.
unsafe fn stage<'a, F: Future>(header: NonNull<Header>) -> &'a mut Stage<F> {
    // SAFETY: (1) and (2).
    unsafe { &mut *(*header.cast::<TaskCell<F>>().as_ptr()).stage.with_mut(|stage| stage) }
}
