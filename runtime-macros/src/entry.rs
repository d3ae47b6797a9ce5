//! From `async fn` to a function that builds a runtime and blocks on the body.
//!
//! ```text
//! async fn main() -> Ret {        fn main() -> Ret {
//!     body                   →        let body = async {
//! }                                       let output: Option<Ret> = None;
//!                                         if let Some(output) = output { return output; }
//!                                         body
//!                                     };
//!                                     <crate>::runtime::Builder::new_multi_thread() … .block_on(body)
//!                                 }
//! ```
//! The two lines before the body do nothing; they let the compiler know what the block gives before it sees
//! the body. So a type error is reported where it is, with the return type as the reason, and not at the
//! `block_on`.
//!
//! An error of ours never takes the function away: it is expanded as well as can be, so that the user sees
//! our error and no others that follow from it.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};

use crate::error::Error;
use crate::function::{Function, is_mark, is_word, transparent};
use crate::manifest;
use crate::options::{Flavor, Kind, Options};

/// The attribute as a whole.
pub fn expand(kind: Kind, options: TokenStream, item: TokenStream) -> TokenStream {
    let function = match Function::parse(item.clone()) {
        Ok(function) => function,
        Err(error) => return with_error(item, &error),
    };
    let (options, bad_option) = match Options::parse(kind, options) {
        Ok(options) => (options, None),
        Err(error) => (Options::default_of(kind), Some(error)),
    };
    let bad_function = check_function(kind, &function).err();

    let Function { attributes, qualifiers, signature, inner_attributes, body, .. } = &function;
    let mark = match kind {
        Kind::Main => None,
        Kind::Test => Some(quote!(#[::core::prelude::v1::test])),
    };
    let body = match function.is_async {
        true => wrapped_body(&function, &options),
        false => body.stream(),
    };
    let expanded = quote! {
        #mark #(#[#attributes])* #qualifiers #(#signature)* {
            #inner_attributes
            #body
        }
    };
    match bad_option.into_iter().chain(bad_function).reduce(Error::and) {
        Some(error) => with_error(expanded, &error),
        None => expanded,
    }
}

fn with_error(mut tokens: TokenStream, error: &Error) -> TokenStream {
    tokens.extend(error.tokens());
    tokens
}

/// Whether the attribute can be applied to this function.
fn check_function(kind: Kind, function: &Function) -> Result<(), Error> {
    if !function.is_async {
        let text = format!("`#[{}]` needs an async function: write `async fn`", kind.name());
        return Err(Error::at(function.fn_span(), text));
    }
    let arguments: Vec<TokenTree> = function.arguments.stream().into_iter().collect();
    if kind == Kind::Main && function.name == "main" && !arguments.is_empty() {
        return Err(Error::about(&arguments, "`main` takes no arguments: see `std::env::args`"));
    }
    match function.attributes.iter().find(|attribute| is_test(attribute)) {
        Some(second) if kind == Kind::Test => {
            let second: Vec<TokenTree> = second.clone().into_iter().collect();
            Err(Error::about(&second, "a second `#[test]`: this one would run the test twice, remove it"))
        }
        _ => Ok(()),
    }
}

/// Whether it is the standard `#[test]`, also by its full path.
fn is_test(attribute: &TokenStream) -> bool {
    let path = attribute.clone().into_iter().take_while(|token| match token {
        TokenTree::Ident(_) => true,
        token => is_mark(token, ':'),
    });
    let names: Vec<String> = path.filter(|token| !is_mark(token, ':')).map(|name| name.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    matches!(names[..], ["test"] | ["core" | "std", "prelude", _, "test"])
}

/// What runs the body on a runtime.
fn wrapped_body(function: &Function, options: &Options) -> TokenStream {
    let builder = builder(options);
    // The user's code cannot see local variables of ours; the underscores keep out of the way of its
    // constants.
    let body = Ident::new("__body", Span::mixed_site());
    let hint = output_hint(function);

    // The user's own braces and statements, with the places they have in the source.
    let statements = function.body.stream();
    let mut block = Group::new(Delimiter::Brace, quote!(#hint #statements));
    block.set_span(function.body.span());
    quote! {
        let #body = async #block;
        #builder
            .build()
            .expect("failed to build the runtime")
            .block_on(#body)
    }
}

/// The `Builder`, with everything set.
fn builder(options: &Options) -> TokenStream {
    let krate = options.krate.clone().unwrap_or_else(find_crate);
    let constructor = match options.flavor {
        Flavor::MultiThread => format_ident!("new_multi_thread"),
        Flavor::CurrentThread => format_ident!("new_current_thread"),
    };
    let name = options.name.as_ref().map(|name| quote!(.name(#name)));
    let worker_threads = options.worker_threads.map(|count| quote!(.worker_threads(#count)));
    let start_paused = options.start_paused.then(|| quote!(.start_paused(true)));
    quote!(#krate::runtime::Builder::#constructor().enable_all() #name #worker_threads #start_paused)
}

/// The crate under the name that the `Cargo.toml` of the crate being compiled gives it.
///
/// If the manifest gives none, the name is `runtime`. This is right in the crate's own tests and examples. In
/// a crate that does not list `runtime`, the compiler then reports that there is no such crate.
fn find_crate() -> TokenStream {
    let name = manifest::name_of("runtime").unwrap_or_else(|| "runtime".to_owned());
    let name = Ident::new(&name, Span::call_site());
    quote!(::#name)
}

/// Statements without effect for the start of the block. They give the block the output type that the
/// function declares.
///
/// None for a type that cannot be named in an expression: `impl Trait`, or `!`.
fn output_hint(function: &Function) -> Option<TokenStream> {
    // Where the output is declared, so that errors about it point there.
    let (ty, place) = match &function.output {
        None => (quote!(()), function.name.span()),
        Some(ty) => (ty.iter().cloned().collect(), ty.first()?.span()),
    };
    if is_never(&ty) || has_impl_trait(&ty) {
        return None;
    }
    let place = place.resolved_at(Span::mixed_site());
    let output = Ident::new("__output", place);
    Some(quote_spanned! {place=>
        let #output: ::core::option::Option<#ty> = ::core::option::Option::None;
        if let ::core::option::Option::Some(#output) = #output {
            return #output;
        }
    })
}

fn is_never(ty: &TokenStream) -> bool {
    matches!(transparent(ty.clone()).as_slice(), [token] if is_mark(token, '!'))
}

/// Whether the keyword `impl` is in the type somewhere.
fn has_impl_trait(ty: &TokenStream) -> bool {
    ty.clone().into_iter().any(|token| match &token {
        TokenTree::Group(group) => has_impl_trait(&group.stream()),
        token => is_word(token, "impl"),
    })
}
