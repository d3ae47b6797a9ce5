//! What is written for which input, and what is said about mistakes.

use proc_macro2::{Delimiter, Group, TokenStream};
use quote::quote;

use crate::entry::expand;
use crate::options::Kind;

/// The expansion as text, with single spaces.
fn expansion(kind: Kind, options: TokenStream, item: TokenStream) -> String {
    expand(kind, options, item).to_string()
}

fn assert_error(kind: Kind, options: TokenStream, item: TokenStream, text: &str) {
    let expansion = expansion(kind, options, item);
    assert!(expansion.contains("compile_error"), "no error: {expansion}");
    let expansion = expansion.replace('\\', "");
    assert!(expansion.contains(text), "not {text:?}: {expansion}");
}

fn assert_contains(expansion: &str, parts: &[TokenStream]) {
    for part in parts {
        assert!(expansion.contains(&part.to_string()), "no `{part}` in {expansion}");
    }
    assert!(!expansion.contains("compile_error"), "{expansion}");
}

#[test]
fn main_has_workers_and_a_test_has_none() {
    let main = expansion(
        Kind::Main,
        quote!(),
        quote!(
            async fn main() {}
        ),
    );
    assert_contains(&main, &[quote!(::runtime::runtime::Builder::new_multi_thread().enable_all().build())]);
    let test = expansion(
        Kind::Test,
        quote!(),
        quote!(
            async fn works() {}
        ),
    );
    assert_contains(&test, &[quote!(#[::core::prelude::v1::test]), quote!(Builder::new_current_thread())]);
}

#[test]
fn options_reach_the_builder() {
    let options = quote!(flavor = "multi_thread", worker_threads = 4, crate = "a::b");
    let test = expansion(
        Kind::Test,
        options,
        quote!(
            async fn works() {}
        ),
    );
    assert_contains(
        &test,
        &[quote!(a::b::runtime::Builder::new_multi_thread().enable_all().worker_threads(4usize).build())],
    );
    let options = quote!(name = "a b", flavor = "current_thread", start_paused = true, crate = self::c,);
    let main = expansion(
        Kind::Main,
        options,
        quote!(
            async fn main() {}
        ),
    );
    assert_contains(
        &main,
        &[quote!(
            self::c::runtime::Builder::new_current_thread().enable_all().name("a b").start_paused(true)
        )],
    );
}

#[test]
fn attributes_and_the_signature_stay() {
    let item = quote! {
        /// Says so.
        #[ignore]
        pub(crate) async fn first<'a, T>(of: &'a [T]) -> Option<&'a T> where T: Copy { of.first() }
    };
    let expanded = expansion(Kind::Main, quote!(), item);
    assert_contains(
        &expanded,
        &[
            quote!(#[doc = r" Says so."] #[ignore]),
            quote!(pub(crate) fn first<'a, T>(of: &'a [T]) -> Option<&'a T> where T: Copy),
        ],
    );
}

#[test]
fn an_opaque_output_gets_no_hint() {
    for item in [
        quote!(
            async fn f() -> Box<impl Sized> {}
        ),
        quote!(
            async fn f() -> ! {
                loop {}
            }
        ),
    ] {
        assert!(!expansion(Kind::Main, quote!(), item).contains("Option"));
    }
}

#[test]
fn bad_options_are_told() {
    let cases = [
        (
            quote!(threads = 4),
            "unknown option `threads`: expected `name`, `flavor`, `worker_threads`, `start_paused` or \
             `crate`",
        ),
        (quote!(name = " "), "`name` must be a text that is not empty"),
        (quote!(name = 4), "`name` must be a text"),
        (quote!(a::b = 1), "unknown option"),
        (
            quote!(flavor = "single"),
            "unknown flavor `\"single\"`: expected `\"multi_thread\"` or `\"current_thread\"`",
        ),
        (quote!(flavor = 3), "unknown flavor"),
        (quote!(flavor), "expected"),
        (quote!(worker_threads = 0), "must be at least 1, got 0"),
        (quote!(worker_threads = "4"), "must be a number"),
        (quote!(worker_threads = -1), "must be a number"),
        (quote!(worker_threads = 99999999999999999999999), "must be a number"),
        (quote!(worker_threads = 1, worker_threads = 1), "given twice"),
        (quote!(flavor = "current_thread", worker_threads = 1), "`worker_threads` needs"),
        (quote!(start_paused = true), "`start_paused` needs"),
        (quote!(flavor = "current_thread", start_paused = 1), "must be `true` or `false`"),
        (quote!(crate = "a b"), "must be a path"),
        (quote!(crate = 1), "must be a path"),
        (quote!(= 3), "expected"),
    ];
    for (options, text) in cases {
        assert_error(
            Kind::Main,
            options,
            quote!(
                async fn main() {}
            ),
            text,
        );
    }
    assert_error(
        Kind::Test,
        quote!(worker_threads = 1),
        quote!(
            async fn works() {}
        ),
        "`worker_threads` needs",
    );
}

#[test]
fn every_bad_option_is_told_at_once() {
    let expanded = expansion(
        Kind::Main,
        quote!(name = 1, worker_threads = 0),
        quote!(
            async fn main() {}
        ),
    );
    assert_eq!(expanded.matches("compile_error").count(), 2);
}

#[test]
fn bad_functions_are_told() {
    assert_error(
        Kind::Main,
        quote!(),
        quote!(
            fn main() {}
        ),
        "write `async fn`",
    );
    assert_error(
        Kind::Test,
        quote!(),
        quote!(
            fn works() {}
        ),
        "`#[test]` needs an async function",
    );
    assert_error(
        Kind::Main,
        quote!(),
        quote!(
            async fn main(a: u8) {}
        ),
        "`main` takes no arguments",
    );
    assert_error(
        Kind::Main,
        quote!(),
        quote!(
            struct Main;
        ),
        "expected",
    );
    for second in
        [quote!(#[test]), quote!(#[core::prelude::v1::test]), quote!(#[::std::prelude::rust_2024::test])]
    {
        assert_error(Kind::Test, quote!(), quote!(#second async fn works() {}), "a second `#[test]`");
    }
}

#[test]
fn a_function_with_an_error_is_still_there() {
    let expanded = expansion(
        Kind::Main,
        quote!(name = 1),
        quote!(
            async fn main() {
                body();
            }
        ),
    );
    assert!(expanded.contains("fn main ()") && !expanded.contains("async fn"), "{expanded}");
    assert!(expanded.contains("block_on"), "{expanded}");
}

#[test]
fn only_main_refuses_arguments() {
    let expanded = expansion(
        Kind::Main,
        quote!(),
        quote!(
            async fn run(of: u8) -> u8 {
                of
            }
        ),
    );
    assert_contains(&expanded, &[quote!(fn run(of: u8) -> u8)]);
}

#[test]
fn every_part_of_a_function_finds_its_place() {
    let item = quote! {
        #[inline]
        pub async unsafe extern "C" fn f<F: Fn(u8) -> u8, const N: usize>(
            f: F,
            [a; N]: [u8; N]
        ) -> Wide<{ N }>
        where
            F: Copy,
        {
            #![allow(unused)]
            f(a)
        }
    };
    let head = quote! {
        #[inline]
        pub unsafe extern "C" fn f<F: Fn(u8) -> u8, const N: usize>(f: F, [a; N]: [u8; N]) -> Wide<{ N }>
        where
            F: Copy,
        { #![allow(unused)] let __body = async }
    };
    let expanded = expansion(Kind::Main, quote!(), item);
    let head = head.to_string();
    assert!(expanded.contains("Option < Wide < { N } > >") && expanded.contains("f (a)"), "{expanded}");
    assert!(expanded.starts_with(head.trim_end_matches([' ', '}'])), "{expanded}");
}

/// A macro puts what it was given into groups without delimiters.
#[test]
fn what_a_macro_was_given_may_be_part_of_the_function() {
    let group = |tokens| Group::new(Delimiter::None, tokens);
    let (body, never) = (group(quote!({ body() })), group(quote!(!)));
    let item = group(quote!(async fn f() -> #never #body));
    let count = group(quote!(0x1_0u8));
    let expanded = expansion(Kind::Main, quote!(worker_threads = #count), quote!(#item));
    assert_contains(&expanded, &[quote!(.worker_threads(16usize))]);
    assert!(expanded.contains("body ()") && !expanded.contains("Option"), "{expanded}");
}
