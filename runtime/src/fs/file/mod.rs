//! An open file. `handle.rs` is the type, `flow.rs` what is read and written at its position, `at.rs` the
//! calls with an offset of their own, `syncs.rs` those that wait for the device.

mod at;
mod flow;
mod handle;
mod syncs;

pub use self::handle::File;
