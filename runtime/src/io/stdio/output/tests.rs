use std::io::ErrorKind;
use std::task::Waker;

use super::*;
use crate::io::locked::tests::{waker_that_blocks, waker_that_cannot_be_cloned};
use crate::util::unwind::catch;

/// Writes for a handle that need not wait. Returns whether a drain was to be pushed.
fn write(output: &Output, handle: usize, bytes: &[u8]) -> io::Result<bool> {
    let mut is_pushed = false;
    let cx = &mut Context::from_waker(Waker::noop());
    match output.poll_write(cx, (handle, 0), bytes, || is_pushed = true) {
        Poll::Ready(Ok(n)) => assert_eq!(n, bytes.len()),
        Poll::Ready(Err(error)) => return Err(error),
        Poll::Pending => panic!("the buffer is full"),
    }
    Ok(is_pushed)
}

fn flush(output: &Output, handle: usize) -> Poll<io::Result<()>> {
    output.poll_flush(&mut Context::from_waker(Waker::noop()), (handle, 0), || {})
}

/// Drains with one of these results for each batch. Returns the batches, each with whether it was to be
/// flushed.
fn drain(output: &Output, results: &[io::Result<bool>]) -> Vec<(String, bool)> {
    let mut results = results.iter();
    let mut batches = Vec::new();
    output.drain(0, |bytes, flush| {
        batches.push((String::from_utf8(bytes.to_vec()).unwrap(), flush));
        match results.next() {
            Some(Ok(is_whole)) => Ok(*is_whole),
            Some(Err(error)) => Err(copy_of(error)),
            None => Ok(flush),
        }
    });
    batches
}

#[test]
fn what_all_handles_write_is_one_batch_in_its_order_and_pushes_one_drain() {
    let output = Output::new();
    let (a, b) = (output.enter(), output.enter());
    assert!(write(&output, a, b"1").unwrap());
    assert!(!write(&output, b, b"2").unwrap());
    assert!(!write(&output, a, b"3").unwrap());
    output.leave(a);
    assert_eq!(drain(&output, &[]), [("123".into(), false)]);
    assert!(write(&output, b, b"4").unwrap(), "the drain has ended");
}

#[test]
fn a_flush_waits_for_the_handles_own_bytes_and_asks_the_stream_only_if_it_must() {
    let output = Output::new();
    let (a, b) = (output.enter(), output.enter());
    assert!(flush(&output, a).is_ready(), "nothing was written");
    write(&output, a, b"line\n").unwrap();
    drain(&output, &[Ok(true)]);
    assert!(flush(&output, a).is_ready(), "the stream has held nothing back");
    write(&output, b, b"word").unwrap();
    drain(&output, &[Ok(false)]);
    assert!(flush(&output, a).is_ready() && flush(&output, b).is_pending());
    assert_eq!(drain(&output, &[]), [(String::new(), true)]);
    assert!(flush(&output, b).is_ready());
}

#[test]
fn a_handle_whose_waker_cannot_be_cloned_pushes_the_drain_it_has_begun() {
    let output = Output::new();
    let handle = output.enter();
    write(&output, handle, b"word").unwrap();
    drain(&output, &[Ok(false)]);
    let waker = waker_that_cannot_be_cloned();
    let mut is_pushed = false;
    let cx = &mut Context::from_waker(&waker);
    let panic = catch(|| _ = output.poll_flush(cx, (handle, 0), || is_pushed = true)).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"no clones"));
    assert!(is_pushed);
}

#[test]
fn an_error_is_told_to_those_whose_bytes_may_be_lost() {
    let output = Output::new();
    let [early, held_back, failed, late] = [(); 4].map(|()| output.enter());
    write(&output, early, b"line\n").unwrap();
    drain(&output, &[Ok(true)]);
    write(&output, held_back, b"word").unwrap();
    drain(&output, &[Ok(false)]);
    write(&output, failed, b"lost").unwrap();
    let mut is_first = true;
    output.drain(0, |_, _| {
        if is_first {
            write(&output, late, b"in time").unwrap();
        }
        match std::mem::take(&mut is_first) {
            true => Err(io::Error::from_raw_os_error(libc::EPIPE)),
            false => Ok(true),
        }
    });
    write(&output, early, b"x").unwrap();
    write(&output, late, b"x").unwrap();
    assert_eq!(write(&output, held_back, b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    assert!(write(&output, held_back, b"x").is_ok(), "told once");
    let Poll::Ready(Err(error)) = flush(&output, failed) else { panic!("bytes are lost") };
    assert_eq!(error.raw_os_error(), Some(libc::EPIPE));
    assert!(flush(&output, failed).is_ready());
}

#[test]
fn a_failed_flush_is_told_to_the_flusher() {
    let output = Output::new();
    let handle = output.enter();
    write(&output, handle, b"word").unwrap();
    assert!(flush(&output, handle).is_pending());
    drain(&output, &[Err(ErrorKind::StorageFull.into())]);
    assert!(
        matches!(flush(&output, handle), Poll::Ready(Err(error)) if error.kind() == ErrorKind::StorageFull)
    );
}

#[test]
fn a_full_buffer_makes_writers_wait() {
    let output = Output::new();
    let handle = output.enter();
    write(&output, handle, &vec![b'x'; FULL]).unwrap();
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(output.poll_write(cx, (handle, 0), b"y", || {}).is_pending());
    assert!(output.poll_write(cx, (handle, 0), b"", || {}).is_ready());
    assert_eq!(drain(&output, &[])[0].0.len(), FULL);
    assert!(output.poll_write(cx, (handle, 0), b"y", || {}).is_ready());
}

#[test]
fn a_character_is_not_cut() {
    let text = "aé😀";
    let taken: Vec<_> = (3..=8).map(|most| whole_characters(text.as_bytes(), most)).collect();
    assert_eq!(taken, [3, 3, 3, 3, 7, 7]);
    assert_eq!(whole_characters("éé".as_bytes(), 3), 2);
    assert_eq!(whole_characters(&[0x80; 9], 5), 5, "no text");
    assert_eq!(whole_characters(b"abcdef", 5), 5);
}

#[test]
fn a_waker_that_blocks_keeps_no_drain_from_its_work() {
    let output = Output::new();
    let (a, b) = (output.enter(), output.enter());
    write(&output, a, b"word").unwrap();
    drain(&output, &[Ok(false)]);
    let (waker, gate) = waker_that_blocks();
    let mut is_pushed = false;
    let cx = &mut Context::from_waker(&waker);
    assert!(output.poll_flush(cx, (a, 0), || is_pushed = true).is_pending());
    assert!(is_pushed);
    assert_eq!(drain(&output, &[]), [(String::new(), true)]);
    gate.await_arrival();
    assert!(flush(&output, a).is_ready());
    assert!(write(&output, b, b"next").unwrap(), "the drain has ended");
    gate.open();
}
