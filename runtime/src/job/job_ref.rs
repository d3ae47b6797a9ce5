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
