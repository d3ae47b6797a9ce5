//! Stands in for an unpublished crate that the tests of the published `redis` need.
//!
//! It has one attribute, whose meaning follows from its uses there: `#[async_test]` makes tests of an
//! `async fn`, which Tokio runs.

use proc_macro::{TokenStream, TokenTree};

/// Makes tests of a function: one if it has no argument, one for each value of a `bool`, and one for each
/// kind of connection if it takes a connection.
#[proc_macro_attribute]
pub fn async_test(_: TokenStream, function: TokenStream) -> TokenStream {
    let tokens: Vec<TokenTree> = function.clone().into_iter().collect();
    let is_fn = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word.to_string() == "fn");
    let position = tokens.iter().position(is_fn).expect("the attribute is on a function");
    let name = tokens[position + 1].to_string();
    let Some(TokenTree::Group(arguments)) = tokens.get(position + 2) else {
        panic!("{name} has generics");
    };
    let arguments = arguments.stream().to_string();
    // A function that returns something returns a `Result`.
    let is_dash = |token: &TokenTree| matches!(token, TokenTree::Punct(sign) if sign.as_char() == '-');
    let unwrap = if tokens.get(position + 3).is_some_and(is_dash) { ".unwrap()" } else { "" };

    let test = |kind: &str, body: &str| {
        format!(
            "#[test] fn test_{kind}{name}() {{ \
                 block_on_all(async move {{ {body} }}, RuntimeType::Tokio){unwrap}; \
             }}"
        )
    };
    let tests = if arguments.is_empty() {
        test("", &format!("{name}().await"))
    } else if arguments.contains("bool") {
        test("true_", &format!("{name}(true).await")) + &test("false_", &format!("{name}(false).await"))
    } else {
        let shared = "context.async_connection().await.unwrap()";
        let managed = "context.client.get_connection_manager().await.unwrap()";
        let call = |connection| format!("let context = TestContext::new(); {name}({connection}).await");
        test("shared_", &call(shared))
            + "#[cfg(feature = \"connection-manager\")]"
            + &test("managed_", &call(managed))
    };
    let mut result = function;
    result.extend(tests.parse::<TokenStream>().expect("this is Rust"));
    result
}
