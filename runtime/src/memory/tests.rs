use std::alloc::Layout;

use super::block::{AHEAD, BATCH, Batch, bytes_of_batch, class_of};
use super::depot::{LINKED, MOST_KEPT};
use super::magazine::{Class, OUTSIDE};
use super::*;
use crate::loom::sync::atomic::Ordering::Relaxed;

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

#[test]
fn a_freed_block_is_used_again_for_its_class_only() {
    let (magazine, depot) = (Magazine::new(), Depot::new());
    let (small, large) = (layout(104, 8), layout(105, 8));
    let block = magazine.allocate(small, &depot);
    // SAFETY: each block is freed once, with its layout.
    unsafe {
        magazine.free(block, small, &depot);
        let larger = magazine.allocate(large, &depot);
        assert_ne!(larger, block);
        assert_eq!(magazine.allocate(small, &depot), block);
        magazine.free(block, small, &depot);
        magazine.free(larger, large, &depot);
    }
}

#[test]
fn blocks_go_round_by_way_of_the_depot() {
    let (magazine, other, depot) = (Magazine::new(), Magazine::new(), Depot::new());
    let layout = layout(104, 8);
    let mut blocks: Vec<_> = (0..1000).map(|_| magazine.allocate(layout, &depot)).collect();
    blocks.sort();
    for &block in &blocks {
        // SAFETY: each block is freed once, with its layout.
        unsafe { magazine.free(block, layout, &depot) };
    }
    let kept = depot.batches.lock().kept;
    assert_eq!(kept / bytes_of_batch(class_of(layout).unwrap()), 1000 / BATCH as usize - 1);
    let mut again: Vec<_> = (0..600).map(|_| other.allocate(layout, &depot)).collect();
    again.extend((0..250).map(|_| allocate_outside(layout, &depot)));
    let known = again.iter().filter(|block| blocks.binary_search(block).is_ok()).count();
    assert!(known >= 840, "{known} of 850 blocks came from the depot");
    again.sort();
    again.dedup();
    assert_eq!(again.len(), 850);
    for block in again {
        // SAFETY: each block is freed once, with its layout.
        unsafe { other.free(block, layout, &depot) };
    }
}

#[test]
fn a_thread_outside_gets_what_workers_gave_up_and_what_it_freed() {
    let (magazine, depot) = (Magazine::new(), Depot::new());
    let layout = layout(520, 8);
    let mut known: Vec<_> = (0..4 * BATCH).map(|_| magazine.allocate(layout, &depot)).collect();
    // SAFETY: each block is freed once, with its layout.
    known.iter().for_each(|&block| unsafe { magazine.free(block, layout, &depot) });
    known.sort();
    let count_kept = || {
        let count = |class: &Class| {
            let spare = class.spare.replace(Batch::EMPTY);
            let count = class.count_in_use() + spare.count;
            class.spare.set(spare);
            count
        };
        OUTSIDE.with(|magazine| count(&magazine.classes[class_of(layout).unwrap()]))
    };
    for _ in 0..2 {
        let blocks: Vec<_> = (0..2 * BATCH).map(|_| allocate_outside(layout, &depot)).collect();
        assert!(blocks.iter().all(|block| known.binary_search(block).is_ok()));
        assert_eq!((count_kept(), depot.batches.lock().kept), (0, 0));
        // SAFETY: each block is freed once, with its layout.
        blocks.iter().for_each(|&block| unsafe { free_outside(block, layout, &depot) });
        assert_eq!(count_kept(), 2 * BATCH);
    }
}

#[test]
fn a_batch_of_the_depot_knows_what_is_further_on() {
    let (magazine, depot) = (Magazine::new(), Depot::new());
    let layout = layout(104, 8);
    // As if a thread outside had taken blocks.
    depot.to_link.store(LINKED, Relaxed);
    let blocks: Vec<_> = (0..4 * BATCH).map(|_| magazine.allocate(layout, &depot)).collect();
    // SAFETY: each block is freed once, with its layout.
    blocks.iter().for_each(|&block| unsafe { magazine.free(block, layout, &depot) });
    let mut batch = depot.take(class_of(layout).unwrap());
    let mut list = Vec::new();
    while let Some(block) = batch.pop() {
        // SAFETY: it is ours, and begins with its links.
        list.push((block, unsafe { block.as_ref() }.far));
    }
    assert_eq!(list.len(), BATCH as usize);
    for (place, &(_, far)) in list.iter().enumerate().skip(1) {
        assert_eq!(far, list.get(place + AHEAD).map(|&(block, _)| block), "at {place}");
    }
    assert_eq!(depot.to_link.load(Relaxed), LINKED - 2);
    for (block, _) in list {
        // SAFETY: each block is freed once, with its layout.
        unsafe { magazine.free(block.cast(), layout, &depot) };
    }
}

#[test]
fn a_depot_keeps_a_bounded_number_of_bytes() {
    let (magazine, depot) = (Magazine::new(), Depot::new());
    let layout = layout(1000, 8);
    let blocks: Vec<_> = (0..2 * MOST_KEPT / 1000).map(|_| magazine.allocate(layout, &depot)).collect();
    for block in blocks {
        // SAFETY: each block is freed once, with its layout.
        unsafe { magazine.free(block, layout, &depot) };
    }
    let kept = depot.batches.lock().kept;
    assert!(kept <= MOST_KEPT && kept > MOST_KEPT / 2, "{kept} bytes are kept");
}

#[test]
fn large_and_aligned_blocks_pass_through() {
    let (magazine, depot) = (Magazine::new(), Depot::new());
    for layout in [layout(4096, 8), layout(64, 64)] {
        for block in [magazine.allocate(layout, &depot), allocate_outside(layout, &depot)] {
            assert_eq!(block.as_ptr() as usize % layout.align(), 0);
            // SAFETY: freed once, with its layout.
            unsafe { magazine.free(block, layout, &depot) };
        }
    }
}
