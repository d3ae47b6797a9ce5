//! The attribute macros of the `runtime` crate: `#[runtime::main]` and `#[runtime::test]`.
//!
//! Both keep the function's body as it is, in an async block, and put code around it that builds a runtime
//! and blocks on that block. `function.rs` splits the function, `options.rs` reads what stands in the
//! parentheses, `manifest.rs` finds the name of the crate, `entry.rs` writes the code, and `error.rs` the
//! compile errors.

mod entry;
mod error;
mod function;
mod manifest;
mod options;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

use crate::options::Kind;

/// Runs an async `main` on a new runtime.
///
/// The function waits for its body, then the runtime is shut down, which drops the tasks that are still
/// running. With no options the runtime has one worker for each CPU that it may use, and I/O and timers are
/// enabled. Any async function may be marked, not only `main`; each call then builds a runtime.
///
/// The body is not a task: it runs on the calling thread, while tasks run on the workers. A server that does
/// its work in the body pays for the way between them;
/// [`spawn`](https://docs.rs/runtime/latest/runtime/fn.spawn.html) it instead.
///
/// # Options
/// - `name = "requests"`: the runtime's name, which `Handle::name` returns.
/// - `flavor = "multi_thread"` (the default) or `"current_thread"`: the workers are new threads, or all tasks
///   run on the calling thread while it waits.
/// - `worker_threads = 4`: how many workers a `multi_thread` runtime has; at least 1. Without it, what
///   `RUNTIME_WORKER_THREADS` or `TOKIO_WORKER_THREADS` says, otherwise what the process's limits allow.
/// - `start_paused = true`: the clock stands still, and jumps to the next timer whenever all tasks wait. Only
///   with `flavor = "current_thread"`.
/// - `crate = "path"`: where to find this crate, if not under the name it has in `Cargo.toml`; for macros
///   that expand to this attribute, and for crates that re-export this one.
///
/// # Panics
/// The function panics if the runtime cannot be built, for example because the system refuses a thread. Use
/// `Builder` to handle that.
///
/// # Examples
/// ```
/// #[runtime::main]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let four: u32 = "4".parse()?;
///     assert_eq!(four, 4);
///     Ok(())
/// }
/// ```
/// With options:
/// ```
/// #[runtime::main(flavor = "multi_thread", worker_threads = 2)]
/// async fn main() {
///     println!("hello");
/// }
/// ```
/// The first example without the macro:
/// ```
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let body = async {
///         let four: u32 = "4".parse()?;
///         assert_eq!(four, 4);
///         Ok(())
///     };
///     runtime::runtime::Builder::new_multi_thread()
///         .enable_all()
///         .build()
///         .expect("failed to build the runtime")
///         .block_on(body)
/// }
/// ```
/// The function must be async, and `main` takes no arguments:
/// ```compile_fail
/// #[runtime::main]
/// fn main() {}
/// ```
/// ```compile_fail
/// #[runtime::main]
/// async fn main(arguments: Vec<String>) {}
/// ```
/// Options must exist, once each, and make sense together:
/// ```compile_fail
/// #[runtime::main(threads = 4)]
/// async fn main() {}
/// ```
/// ```compile_fail
/// #[runtime::main(worker_threads = 4, worker_threads = 4)]
/// async fn main() {}
/// ```
/// ```compile_fail
/// #[runtime::main(flavor = "single")]
/// async fn main() {}
/// ```
/// ```compile_fail
/// #[runtime::main(worker_threads = 0)]
/// async fn main() {}
/// ```
/// ```compile_fail
/// #[runtime::main(flavor = "current_thread", worker_threads = 2)]
/// async fn main() {}
/// ```
/// ```compile_fail
/// #[runtime::main(start_paused = true)]
/// async fn main() {}
/// ```
#[proc_macro_attribute]
pub fn main(options: TokenStream, item: TokenStream) -> TokenStream {
    entry::expand(Kind::Main, options.into(), item.into()).into()
}

/// Runs an async test on a new runtime.
///
/// As [`#[main]`](macro@main), with two differences: it marks the function as a test (no second `#[test]` is
/// needed, nor allowed), and the default flavor is `current_thread`, so that tests that run in parallel do
/// not start a set of workers each. `worker_threads` therefore needs `flavor = "multi_thread"` with it. Other
/// attributes, such as `#[ignore]` and `#[should_panic]`, stay with the function; it may return a `Result`,
/// as any test may.
///
/// # Options
/// Those of [`#[main]`](macro@main).
///
/// # Panics
/// As [`#[main]`](macro@main).
///
/// # Examples
/// ```no_run
/// #[runtime::test]
/// async fn one_and_one_is_two() {
///     let handle = runtime::spawn(async { 1 + 1 });
///     assert_eq!(handle.await.unwrap(), 2);
/// }
///
/// #[runtime::test(flavor = "multi_thread", worker_threads = 2)]
/// async fn numbers_are_parsed() -> Result<(), std::num::ParseIntError> {
///     assert_eq!("4".parse::<u32>()?, 4);
///     Ok(())
/// }
///
/// #[runtime::test(start_paused = true)]
/// async fn an_hour_takes_no_time() {
///     // A sleep of an hour is over at once.
/// }
/// ```
/// A second `#[test]`, and a function that is not async, are refused:
/// ```compile_fail
/// #[runtime::test]
/// #[test]
/// async fn twice() {}
/// ```
/// ```compile_fail
/// #[runtime::test]
/// fn not_async() {}
/// ```
/// So is a number of workers for a runtime that has none:
/// ```compile_fail
/// #[runtime::test(worker_threads = 2)]
/// async fn which_flavor() {}
/// ```
#[proc_macro_attribute]
pub fn test(options: TokenStream, item: TokenStream) -> TokenStream {
    entry::expand(Kind::Test, options.into(), item.into()).into()
}
