use std::alloc::{Layout, alloc, dealloc};
use std::future::pending;
use std::panic::Location;

use super::*;
use crate::task::{JoinHandle, Runnable, Schedule};

#[test]
fn a_thread_in_no_region_runs_any_job_and_others_those_of_their_tag() {
    let [first, second] = [1, 2].map(Tag::new);
    for job in [Tag::NONE, first, second, Tag::of_external(1)] {
        assert!(Tag::NONE.may_run(job));
        assert_eq!(first.may_run(job), job == first);
        assert_eq!(Tag::of_external(1).may_run(job), job == Tag::of_external(1));
        assert!(!Tag::SOLITARY.may_run(job));
    }
}

#[test]
fn a_tag_is_its_number_and_whether_it_is_an_external_threads() {
    for number in [0, 1, 2, 0x8001, u16::MAX] {
        let (tag, external) = (Tag::new(number), Tag::of_external(number));
        assert_eq!((tag.number(), external.number()), (number, number));
        assert_eq!((tag.is_external(), external.is_external()), (false, true));
        assert_eq!((tag.without_external(), external.without_external()), (tag, Tag::NONE));
        for tag in [tag, external] {
            assert_eq!(Tag::from_shifted(tag.shifted()), tag);
            assert_eq!(tag.shifted() & !TAG, 0);
            assert_eq!(Tag::from_shifted(tag.shifted() | !TAG), tag, "the address is left out");
        }
    }
    assert_eq!((Tag::NONE.number(), Tag::SOLITARY.number()), (0, u16::MAX));
    assert_eq!((TAG >> TAG_SHIFT, TAG << (64 - TAG_SHIFT)), (0xffff, EXTERNAL << (64 - TAG_SHIFT)));
}

/// The scheduler of a task that neither runs nor waits.
struct Idle;

// SAFETY: (1) nothing is scheduled; (2) there is nothing to stay valid.
unsafe impl Schedule for Idle {
    fn is_own_thread(_: NonNull<Self>) -> bool {
        false
    }

    unsafe fn allocate(_: NonNull<Self>, layout: Layout) -> NonNull<u8> {
        // SAFETY: a cell is not of size zero.
        NonNull::new(unsafe { alloc(layout) }).expect("there is memory")
    }

    unsafe fn free(_: NonNull<Self>, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: (2).
        unsafe { dealloc(memory.as_ptr(), layout) }
    }
}

/// A computation that can be cancelled in two ways.
struct Computation {
    task: Option<Runnable>,
    handle: JoinHandle<()>,
    has_begun: AtomicBool,
}

impl Computation {
    fn new() -> Self {
        // SAFETY: (1) the task stays on this thread; (2) the scheduler is no memory.
        let (task, handle) =
            unsafe { crate::task::new(pending(), NonNull::<Idle>::dangling(), Location::caller()) };
        Self { task: Some(task), handle, has_begun: AtomicBool::new(false) }
    }

    /// The question whether this computation should end, of the pool at `pool`.
    fn question_of(&self, pool: NonNull<()>) -> Question {
        let task = self.task.as_ref().expect("it is taken by the drop").header();
        // SAFETY: (1) each test drops the computation last.
        unsafe { Question::new(task, pool, NonNull::from(&self.has_begun)) }
    }

    fn region(&self) -> Region {
        Region::cancellable(self.question_of(NonNull::dangling()))
    }
}

impl Drop for Computation {
    fn drop(&mut self) {
        self.task.take().into_iter().for_each(Runnable::cancel);
    }
}

/// An isolated region with this tag.
fn isolated(parent: *const Region, tag: u16) -> Region {
    // SAFETY: (1) the tests drop inner regions first.
    unsafe { Region::isolated(parent, Tag::new(tag)) }
}

/// A region in which another runtime is current: this one, or none.
fn entered(parent: *const Region, current: Option<NonNull<()>>) -> Region {
    // SAFETY: (1) as above.
    unsafe { Region::entered(parent, Tag::NONE, current) }
}

/// The current runtime of `region`.
fn current_of(region: *const Region) -> Current {
    // SAFETY: (1) the tests pass null or a live region.
    unsafe { Region::current_of(region) }
}

fn pool(number: usize) -> NonNull<()> {
    NonNull::new(std::ptr::without_provenance_mut(number * 64)).expect("numbers begin at one")
}

#[test]
fn a_computation_is_cancelled_by_its_handle_or_by_the_shutdown_of_its_pool() {
    for by_handle in [true, false] {
        let computation = Computation::new();
        let region = computation.region();
        let inner = isolated(&raw const region, 1);
        let innermost = entered(&raw const inner, None);
        let are_cancelled = || [&region, &inner, &innermost].map(Region::is_cancelled);
        assert_eq!(are_cancelled(), [false; 3]);
        if by_handle {
            computation.handle.abort();
        } else {
            computation.has_begun.store(true, Relaxed);
        }
        assert_eq!(are_cancelled(), [true; 3]);
    }
    assert!(!isolated(null(), 1).is_cancelled() && !entered(null(), None).is_cancelled());
}

#[test]
fn a_question_knows_its_pool() {
    let computation = Computation::new();
    let question = computation.question_of(pool(1));
    assert!(question.is_of(pool(1)) && !question.is_of(pool(2)));
}

#[test]
fn split_points_ask_the_computation_unless_an_isolated_region_lies_between() {
    let computation = Computation::new();
    let region = computation.region();
    let question: *const Question = region.question().expect("it can be cancelled");
    assert!(!question.is_null());
    let inside = entered(&raw const region, None);
    let deeper = entered(&raw const inside, None);
    for region in [&region, &inside, &deeper] {
        assert!(std::ptr::eq(region.asked_at_splits(), question));
    }
    let isolated = isolated(&raw const region, 1);
    let inside = entered(&raw const isolated, None);
    let alone = entered(null(), None);
    for region in [&isolated, &inside, &alone] {
        assert!(region.question().is_none() && region.asked_at_splits().is_null());
    }
}

#[test]
fn a_region_is_inside_of_each_region_around_it() {
    let outer = isolated(null(), 1);
    let between = entered(&raw const outer, None);
    let inner = isolated(&raw const between, 2);
    let is_inside = |region: &Region| [1, 2, 3].map(|tag| region.is_inside(Tag::new(tag)));
    assert_eq!(
        [&outer, &between, &inner].map(is_inside),
        [[true, false, false], [true, false, false], [true, true, false]]
    );
}

#[test]
fn the_innermost_runtime_that_was_entered_and_not_forgotten_is_current() {
    let outer = entered(null(), Some(pool(1)));
    let between = isolated(&raw const outer, 1);
    let inner = entered(&raw const between, None);
    let innermost = entered(&raw const inner, Some(pool(2)));
    let are_current = || [&outer, &between, &inner, &innermost].map(|region| current_of(region));
    let [first, second] = [1, 2].map(|number| Current::Is(Some(pool(number))));
    assert_eq!(are_current(), [first, first, Current::Is(None), second]);
    let forget = |region: &Region| region.set_current(None);
    [&between, &inner].into_iter().for_each(forget);
    assert_eq!(are_current(), [first, first, first, second]);
    [&outer, &innermost].into_iter().for_each(forget);
    assert_eq!(are_current(), [Current::OfThread; 4]);
    inner.set_current(Some(pool(3)));
    let third = Current::Is(Some(pool(3)));
    assert_eq!(are_current(), [Current::OfThread, Current::OfThread, third, third]);
    assert_eq!(current_of(null()), Current::OfThread);
}

#[test]
fn only_a_part_in_which_a_runtime_is_current_notes_that_it_is_used() {
    let outer = entered(null(), Some(pool(1)));
    let alone = isolated(&raw const outer, 1);
    let inner = entered(&raw const alone, None);
    let mark = |region: *const Region| {
        // SAFETY: (1) the regions outlive the calls.
        unsafe { Region::mark_used(region) };
        [&outer, &alone, &inner].map(Region::is_used)
    };
    assert_eq!(mark(null()), [false; 3]);
    assert_eq!(mark(&alone), [false; 3]);
    assert_eq!(mark(&inner), [false, false, true]);
    assert_eq!(mark(&outer), [true, false, true]);
}

#[test]
fn a_part_knows_the_region_and_the_tag_that_it_was_made_with() {
    let outer = isolated(null(), 1);
    let other = isolated(null(), 1);
    let inner = entered(&raw const outer, Some(pool(1)));
    assert!(inner.is_part_of(&outer, inner.tag));
    assert!(!inner.is_part_of(&other, inner.tag) && !inner.is_part_of(null(), inner.tag));
    assert!(!inner.is_part_of(&outer, Tag::new(7)));
}

#[test]
fn the_first_panic_is_kept_for_the_end_of_the_computation() {
    let number = |payload: Payload| *payload.downcast::<u32>().expect("the tests panic with numbers");
    let computation = Computation::new();
    let region = computation.region();
    let inner = isolated(&raw const region, 1);
    assert!(inner.keep_panic(Box::new(1_u32)).is_none());
    assert_eq!(region.keep_panic(Box::new(2_u32)).map(number), Some(2));
    assert_eq!((inner.take_panic().map(number), region.take_panic().map(number)), (None, Some(1)));
    assert!(region.take_panic().is_none());
    assert!(region.keep_panic(Box::new(3_u32)).is_none(), "there is space again");
    let alone = isolated(null(), 1);
    assert_eq!(alone.keep_panic(Box::new(4_u32)).map(number), Some(4), "it has no computation");
    assert!(alone.take_panic().is_none());
}
