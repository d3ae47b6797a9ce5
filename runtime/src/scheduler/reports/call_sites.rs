//! The call sites of marked blocking calls, and how many calls there were, so that a flood of them shows.
//!
//! Each worker counts in a table of its own, so a call costs no read-modify-write. The metrics add the tables
//! up. A table has [`MOST`] places, found by the address of the site. Calls at further sites are counted
//! together, without a name.
//!
//! The counters are not those of `loom/mod.rs`, as in `metrics.rs`: no protocol depends on them.

use std::panic::Location;
use std::ptr::NonNull;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::scheduler::metrics::Counter;

/// How many sites a worker tells apart; a power of two.
const MOST: usize = 32;

/// The call sites of one worker. Only that worker writes here.
#[derive(Debug, Default)]
pub struct CallSites {
    places: [CallSite; MOST],
    others: CallSite,
}

/// The counters of one call site.
#[derive(Debug, Default)]
pub struct CallSite {
    /// A `&'static Location`, or null while the place is free. Written once.
    location: AtomicPtr<Location<'static>>,
    /// The number of calls.
    pub calls: Counter,
    /// The number of calls in which a spare worker compensated for the worker.
    pub compensated: Counter,
}

impl CallSites {
    /// The place for `location`, or the common place if no place is left. For the owner.
    pub fn of(&self, location: &'static Location<'static>) -> &CallSite {
        let address = std::ptr::from_ref(location).cast_mut();
        let start = address.addr() / align_of::<Location<'_>>();
        for i in 0..MOST {
            let site = &self.places[(start + i) % MOST];
            // Relaxed: written by this thread.
            let found = site.location.load(Relaxed);
            if found == address {
                return site;
            }
            if found.is_null() {
                // Release: pairs with `iter`.
                site.location.store(address, Release);
                return site;
            }
        }
        &self.others
    }

    /// The sites that were used. `None` stands for all sites without a place.
    pub fn iter(&self) -> impl Iterator<Item = (Option<&'static Location<'static>>, &CallSite)> {
        let named = self.places.iter().filter_map(|site| {
            let location = NonNull::new(site.location.load(Acquire))?;
            // SAFETY: what is not null is a `&'static Location`.
            Some((Some(unsafe { location.as_ref() }), site))
        });
        named.chain(Some((None, &self.others)).filter(|(_, site)| site.calls.get() > 0))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::OnceLock;

    use super::*;

    #[test]
    fn sites_are_told_apart_up_to_a_number() {
        let sites = CallSites::default();
        static LOCATIONS: OnceLock<Vec<Location<'static>>> = OnceLock::new();
        let locations = LOCATIONS.get_or_init(|| vec![*Location::caller(); MOST + 2]);
        for (i, location) in locations.iter().enumerate() {
            (0..=i).for_each(|_| sites.of(location).calls.add(1));
        }
        assert_eq!(sites.iter().filter(|(location, _)| location.is_some()).count(), MOST);
        let named = |(location, site): (Option<&'static Location<'static>>, &CallSite)| {
            let place =
                locations.iter().position(|other| location.is_some_and(|it| std::ptr::eq(it, other)))?;
            Some((place as u64 + 1, site.calls.get()))
        };
        assert!(sites.iter().filter_map(named).all(|(expected, calls)| expected == calls));
        let others = sites.iter().find(|(location, _)| location.is_none()).unwrap();
        assert_eq!(others.1.calls.get(), (MOST as u64 + 1) + (MOST as u64 + 2));
    }
}
