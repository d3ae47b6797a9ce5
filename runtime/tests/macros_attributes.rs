//! `#[runtime::main]` and `#[runtime::test]` on functions of every shape.

use std::num::ParseIntError;

#[runtime::test]
async fn a_test_runs_on_a_runtime() {
    let handle = runtime::spawn(async { 1 + 1 });
    assert_eq!(handle.await.unwrap(), 2);
}

#[runtime::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_test_with_workers() {
    runtime::spawn(async {}).await.unwrap();
    assert_eq!(runtime::Handle::current().metrics().num_workers(), 2);
}

#[runtime::test(flavor = "multi_thread")]
async fn a_test_with_the_default_number_of_workers() {
    runtime::spawn(async {}).await.unwrap();
}

#[runtime::test(flavor = "current_thread", start_paused = true)]
async fn a_test_with_a_paused_clock() {
    let began = std::time::Instant::now();
    runtime::time::sleep(runtime::time::Duration::from_secs(3_600)).await;
    assert!(began.elapsed().as_secs() < 600, "{:?}", began.elapsed());
}

#[runtime::test(name = "a test's")]
async fn a_test_with_a_name() {
    assert_eq!(runtime::Handle::current().name(), Some("a test's"));
}

#[runtime::test]
async fn a_test_may_return_a_result() -> Result<(), ParseIntError> {
    let n: u32 = "4".parse()?;
    assert_eq!(n, 4);
    Ok(())
}

#[runtime::test]
async fn a_test_may_return_a_boxed_error() -> Result<(), Box<dyn std::error::Error>> {
    if "4".parse::<u32>()? == 5 {
        return Err("four is five".into());
    }
    Ok(())
}

#[runtime::test]
#[should_panic = "as it should"]
async fn other_attributes_stay() {
    panic!("as it should");
}

#[runtime::test]
#[ignore = "it would fail"]
async fn an_ignored_test_does_not_run() {
    panic!("it ran");
}

mod facade {
    pub mod inner {
        pub use runtime::runtime;
    }
}

#[runtime::test(crate = "facade::inner")]
async fn the_crate_may_be_elsewhere() {}

#[runtime::test(crate = crate::facade::inner)]
async fn the_crate_may_be_given_as_a_path() {}

/// As a crate that wraps the attribute would write it.
macro_rules! test_with_workers {
    ($name:ident, $count:expr, $body:block) => {
        #[::runtime::test(flavor = "multi_thread", worker_threads = $count)]
        async fn $name() $body
    };
}

test_with_workers!(options_may_come_from_a_macro, 2, { assert!(runtime::Handle::current().enter_works()) });

trait EnterWorks {
    fn enter_works(&self) -> bool;
}
impl EnterWorks for runtime::Handle {
    fn enter_works(&self) -> bool {
        let _guard = self.enter();
        true
    }
}

#[runtime::main]
async fn longest<'a, T>(words: &'a [T], default: &'a T) -> &'a T
where
    T: AsRef<str> + 'a,
{
    runtime::task::yield_now().await;
    let mut longest = default;
    for word in words {
        if word.as_ref().len() > longest.as_ref().len() {
            longest = word;
        }
    }
    longest
}

/// As a crate that makes functions from a list would write it.
macro_rules! each {
    ($($function:item)*) => { $(#[runtime::test] $function)* };
}

each! {
    async fn a_whole_function_may_come_from_a_macro() {
        #![allow(unused_mut)]
        let mut one = 1;
        assert_eq!(twice::<_, 2>(|n| n + one, [0; 2]), 2);
    }
}

#[runtime::main]
async fn twice<F: Fn(u8) -> u8, const N: usize>(f: F, numbers: [u8; N]) -> u8
where
    [u8; N]: Sized,
{
    f(f(numbers[0]))
}

#[runtime::main(flavor = "current_thread")]
async fn sum_of(mut numbers: Vec<u32>, (first, second): (u32, u32)) -> u32 {
    numbers.extend([first, second]);
    numbers.into_iter().sum()
}

#[runtime::main]
async fn opaque(n: u32) -> impl Iterator<Item = u32> {
    0..n
}

#[runtime::main]
async fn boxed(n: u32) -> Box<dyn Fn(u32) -> u32> {
    // The declared type makes this an unsized coercion.
    Box::new(move |m| n + m)
}

#[runtime::main]
async fn boxed_in_a_result(n: u32) -> Result<Box<dyn Fn(u32) -> u32>, String> {
    // As above, but inside `Ok`, where it needs the declared type to be known before the body.
    Ok(Box::new(move |m| n + m))
}

#[runtime::main]
async fn never() -> ! {
    runtime::task::yield_now().await;
    panic!("never returns")
}

#[runtime::main]
async fn nothing() {
    if runtime::task::coop::has_budget_remaining() {
        return;
    }
    unreachable!("a new task has a budget")
}

struct Server {
    port: u16,
}

impl Server {
    #[runtime::main(flavor = "current_thread")]
    async fn run(&mut self) -> Option<&mut Self> {
        self.port += 1;
        Self::check(self.port)?;
        Some(self)
    }

    fn check(port: u16) -> Option<()> {
        (port > 80).then_some(())
    }
}

#[test]
fn generics_where_clauses_and_lifetimes() {
    let words = [String::from("a"), String::from("ccc"), String::from("bb")];
    assert_eq!(longest(&words, &String::new()), "ccc");
}

#[test]
fn arguments_and_methods() {
    assert_eq!(sum_of(vec![1, 2], (3, 4)), 10);
    let mut server = Server { port: 80 };
    assert_eq!(server.run().map(|server| server.port), Some(81));
    assert!(Server { port: 1 }.run().is_none());
}

#[test]
fn output_types_of_every_kind() {
    assert_eq!(opaque(3).sum::<u32>(), 3);
    assert_eq!(boxed(1)(2), 3);
    assert_eq!(boxed_in_a_result(1).unwrap()(2), 3);
    nothing();
    assert!(std::panic::catch_unwind(|| never()).is_err());
}

#[test]
fn names_of_the_expansion_do_not_meet_those_of_the_program() {
    #[runtime::main]
    async fn sum(__body: u32, __output: u32) -> u32 {
        __body + __output
    }
    assert_eq!(sum(1, 2), 3);
}
