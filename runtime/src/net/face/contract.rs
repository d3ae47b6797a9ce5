//! What a type tells the macros that make its methods.

use crate::io::registered::Registered;

/// A type made of a registered descriptor.
pub(crate) trait Face {
    type Io: mio::event::Source;

    fn registered(&self) -> &Registered<Self::Io>;
}
