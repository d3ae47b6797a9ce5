//! A job that has yet to run, as one word.
//!
//! [`JobRef`] is one word, so that a deque can carry it in an atomic. It holds the address of the job's
//! header. Its upper bits, and one of the lower bits, hold the tag of the job's region. A thief may read the
//! tag before it has claimed the job and may follow the address.

use std::ptr::NonNull;

use super::region::{EXTERNAL, Region, TAG, TAG_SHIFT, Tag};

const _: () = assert!(align_of::<JobHeader>() > EXTERNAL);

/// The fields at the beginning of every job.
#[derive(Debug)]
#[repr(C)]
pub struct JobHeader {
    /// Runs the job. # Safety: 1. The job is live, and claimed by the caller: this is called once.
    execute: unsafe fn(NonNull<JobHeader>),
    /// The region in which the job was made, valid until the job has run; or null.
    region: *const Region,
}

impl JobHeader {
    #[inline(always)]
    pub fn new(execute: unsafe fn(NonNull<JobHeader>), region: *const Region) -> Self {
        Self { execute, region }
    }

    /// Writes `execute`.
    ///
    /// # Safety
    /// 1. `this` is memory for a header, the caller's alone.
    #[inline(always)]
    pub(super) unsafe fn set_execute(this: *mut Self, execute: unsafe fn(NonNull<JobHeader>)) {
        // SAFETY: (1).
        unsafe { (&raw mut (*this).execute).write(execute) };
    }

    /// Writes `region`.
    ///
    /// # Safety
    /// 1. As [`set_execute`](Self::set_execute).
    #[inline(always)]
    pub(super) unsafe fn set_region(this: *mut Self, region: *const Region) {
        // SAFETY: (1).
        unsafe { (&raw mut (*this).region).write(region) };
    }
}

/// A job that has yet to run, once.
#[derive(Debug, Clone, Copy)]
pub struct JobRef(*mut JobHeader);

// SAFETY: a job's closure and result are `Send`, by the duty of its maker.
unsafe impl Send for JobRef {}

impl JobRef {
    /// # Safety
    /// 1. `header` begins a job, which is live until it has run. 2. It is run once.
    #[inline(always)]
    pub unsafe fn new(header: NonNull<JobHeader>, tag: Tag) -> Self {
        Self(header.as_ptr().map_addr(|address| {
            debug_assert!(address >> TAG_SHIFT == 0, "{address:#x} is no address of user space");
            // Address and tag have no bit in common. An addition, unlike an `or`, merges with the addition of
            // the deque's mark.
            address + tag.shifted()
        }))
    }

    /// Makes a reference from a word that a queue carried.
    ///
    /// # Safety
    /// 1. `raw` is from [`into_raw`](Self::into_raw). 2. The caller has claimed the word: the queue gives it
    ///    to no other caller. With the word, the caller takes over duty 2 of [`new`](Self::new): the job is
    ///    run once.
    #[inline(always)]
    pub unsafe fn from_raw(raw: *mut JobHeader) -> Self {
        Self(raw)
    }

    /// The word, for a queue. It stands for the reference until [`from_raw`](Self::from_raw).
    #[inline(always)]
    pub fn into_raw(self) -> *mut JobHeader {
        self.0
    }

    /// The tag of the region. Does not follow the address.
    #[inline]
    pub fn tag(self) -> Tag {
        Self::tag_of(self.0)
    }

    /// The [`tag`](Self::tag) of a word that the caller may not have claimed.
    #[inline]
    pub fn tag_of(raw: *mut JobHeader) -> Tag {
        Tag::from_shifted(raw.addr())
    }

    /// Whether this is the job that `header` begins.
    pub fn is(self, header: NonNull<JobHeader>) -> bool {
        self.header() == header
    }

    fn header(self) -> NonNull<JobHeader> {
        // SAFETY: without the tag, the word is the address that `new` got, which is not null.
        unsafe { NonNull::new_unchecked(self.0.map_addr(|address| address & !TAG)) }
    }

    /// Runs the job if it was made in `region`, with this tag. Otherwise returns false.
    ///
    /// # Safety
    /// 1. The caller has claimed the job: it runs it once.
    #[inline(always)]
    pub unsafe fn run_inside(self, region: *const Region, tag: Tag) -> bool {
        // This is the address, if the tag is the same.
        let header = self.0.map_addr(|address| address ^ tag.shifted());
        // SAFETY: (1), and the address is the header's once the tag was found to be none.
        unsafe {
            if header.addr() & TAG != 0 || (*header).region != region {
                return false;
            }
            ((*header).execute)(NonNull::new_unchecked(header));
        }
        true
    }

    /// # Safety
    /// 1. The caller has claimed the job, or no thread runs it before this returns.
    #[inline]
    pub unsafe fn region(self) -> *const Region {
        // SAFETY: (1): the job is live until it has run.
        unsafe { self.header().as_ref() }.region
    }

    /// Whether a thread that waits inside the isolated region with `tag` (or in none) may run the job: also
    /// if the job is part of another region inside of that one.
    ///
    /// # Safety
    /// 1. No thread runs the job before this returns.
    pub unsafe fn is_for(self, tag: Tag) -> bool {
        // SAFETY: (1): the job is live until it has run, and its region, too.
        let is_inside = || unsafe { self.region().as_ref().is_some_and(|region| region.is_inside(tag)) };
        tag.may_run(self.tag()) || is_inside()
    }

    /// # Safety
    /// 1. The caller has claimed the job: it runs it once.
    #[inline]
    pub unsafe fn run(self) {
        let header = self.header();
        // SAFETY: (1).
        unsafe { (header.as_ref().execute)(header) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;
    use std::ptr::null;

    use super::*;

    /// A job that counts how often it runs.
    #[repr(C)]
    struct Counted {
        header: JobHeader,
        runs: Cell<u32>,
    }

    impl Counted {
        fn new(region: *const Region) -> Self {
            Self { header: JobHeader::new(Self::execute, region), runs: Cell::new(0) }
        }

        fn header(&self) -> NonNull<JobHeader> {
            NonNull::from(self).cast()
        }

        fn job_ref(&self, tag: Tag) -> JobRef {
            // SAFETY: (1) the tests run a job while it lives; (2) it may run any number of times.
            unsafe { JobRef::new(self.header(), tag) }
        }

        unsafe fn execute(header: NonNull<JobHeader>) {
            // SAFETY: the header is that of a `Counted`, which is live.
            let runs = unsafe { &header.cast::<Self>().as_ref().runs };
            runs.set(runs.get() + 1);
        }
    }

    fn tags() -> [Tag; 7] {
        let numbers = [0, 1, u16::MAX].map(Tag::new);
        let [external, another, last] = [0, 1, u16::MAX].map(Tag::of_external);
        [numbers[0], numbers[1], numbers[2], external, another, last, Tag::SOLITARY]
    }

    #[test]
    fn a_word_holds_a_job_and_its_tag() {
        let region = NonNull::<u64>::dangling().as_ptr().cast_const().cast();
        let (job, another) = (Counted::new(region), Counted::new(null()));
        for (i, tag) in tags().into_iter().enumerate() {
            let raw = job.job_ref(tag).into_raw();
            assert_eq!(JobRef::tag_of(raw), tag);
            // SAFETY: (1) and (2) the word is this thread's.
            let job_ref = unsafe { JobRef::from_raw(raw) };
            assert_eq!(job_ref.tag(), tag);
            assert!(job_ref.is(job.header()) && !job_ref.is(another.header()));
            // SAFETY: `region`: (1) no thread runs it. `run`: (1) the job is live.
            unsafe {
                assert_eq!(job_ref.region(), region);
                job_ref.run();
            }
            assert_eq!((job.runs.get() as usize, another.runs.get()), (i + 1, 0));
        }
    }

    #[test]
    fn a_job_runs_inside_of_its_own_region_with_its_own_tag_alone() {
        // SAFETY: (1) null.
        let [region, another] = [1, 1].map(|n| unsafe { Region::isolated(null(), Tag::new(n)) });
        let (region, another) = (&raw const region, &raw const another);
        let job = Counted::new(region);
        for (i, tag) in tags().into_iter().enumerate() {
            let job_ref = job.job_ref(tag);
            // SAFETY: (1) the job is live.
            let run_inside = |region, tag| unsafe { job_ref.run_inside(region, tag) };
            assert!(!run_inside(another, tag) && !run_inside(null(), tag));
            assert!(tags().into_iter().all(|another| another == tag || !run_inside(region, another)));
            assert_eq!(job.runs.get() as usize, i);
            assert!(run_inside(region, tag));
            assert_eq!(job.runs.get() as usize, i + 1);
        }
    }

    #[test]
    fn a_job_is_for_a_thread_that_waits_in_its_region_or_around_it() {
        // SAFETY: (1) null; then the outer region, which outlives this one.
        let outer = unsafe { Region::isolated(null(), Tag::new(1)) };
        // SAFETY: (1) the outer region outlives this one.
        let inner = unsafe { Region::isolated(&raw const outer, Tag::new(2)) };
        let is_for = |region: *const Region, tag, waiting| {
            let job = Counted::new(region);
            // SAFETY: (1) no thread runs it.
            unsafe { job.job_ref(tag).is_for(waiting) }
        };
        let [first, second, third] = [1, 2, 3].map(Tag::new);
        assert_eq!(
            [first, second, third].map(|tag| is_for(&raw const outer, first, tag)),
            [true, false, false]
        );
        assert_eq!(
            [first, second, third].map(|tag| is_for(&raw const inner, second, tag)),
            [true, true, false]
        );
        assert!(
            is_for(&raw const inner, second, Tag::NONE),
            "a thread that waits in no region takes any job"
        );
        assert!(!is_for(null(), Tag::NONE, first) && is_for(null(), Tag::NONE, Tag::NONE));
    }
}
