//! Queues of tasks. A header in a queue stands for the task's `SCHEDULED`, so a [`Runnable`] goes in and
//! comes out.

use super::cell::Header;
use super::raw::Runnable;
use crate::queue::{Injector, IntrusiveList};

/// A batch of tasks.
impl IntrusiveList<Header> {
    /// [`push_back`](Self::push_back) for a task.
    #[inline]
    pub fn push_task(&mut self, task: Runnable) {
        // SAFETY: a task lives while its `SCHEDULED` is ours, and is in no queue. We give `SCHEDULED` up.
        unsafe { self.push_back(task.into_raw()) };
    }

    /// [`pop_front`](Self::pop_front) for a task.
    #[inline]
    pub fn pop_task(&mut self) -> Option<Runnable> {
        // SAFETY: the task's `SCHEDULED` was pushed with it.
        self.pop_front().map(|task| unsafe { Runnable::from_raw(task) })
    }
}

impl FromIterator<Runnable> for IntrusiveList<Header> {
    #[inline]
    fn from_iter<I: IntoIterator<Item = Runnable>>(tasks: I) -> Self {
        let mut batch = Self::new();
        tasks.into_iter().for_each(|task| batch.push_task(task));
        batch
    }
}

/// An injector of tasks.
impl Injector<Header> {
    /// [`push`](Self::push) for a task.
    #[inline]
    pub fn push_task(&self, task: Runnable) {
        // SAFETY: as in `IntrusiveList::push_task`.
        unsafe { self.push(task.into_raw()) };
    }

    /// [`push_unless_closed`](Self::push_unless_closed) for a task.
    ///
    /// # Errors
    /// The task, if the queue is closed.
    #[inline]
    pub fn push_task_unless_closed(&self, task: Runnable, is_counted: bool) -> Result<(), Runnable> {
        let task = task.into_raw();
        // SAFETY: as in `IntrusiveList::push_task`. If the task is refused, `SCHEDULED` is ours again.
        unsafe {
            match self.push_unless_closed(task, is_counted) {
                true => Ok(()),
                false => Err(Runnable::from_raw(task)),
            }
        }
    }

    /// [`pop`](Self::pop) for a task.
    #[inline]
    pub fn pop_task(&self) -> Option<Runnable> {
        // SAFETY: the task's `SCHEDULED` was pushed with it.
        self.pop().map(|task| unsafe { Runnable::from_raw(task) })
    }
}
