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
//! the body. So an error of types is reported where it is, with the return type as the reason, and not at the
//! `block_on`.
//!
//! An error of ours never takes the function away: it is expanded as well as can be, so that the user sees
//! our error and no others that follow from it.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{
    Attribute, Error, ItemFn, Path, ReturnType, Signature, Type, TypeImplTrait, parse_quote,
    parse_quote_spanned,
};

use crate::options::{Flavor, Kind, Options, both};

/// The attribute as a whole.
pub fn expand(kind: Kind, options: TokenStream, item: TokenStream) -> TokenStream {
    let mut function = match syn::parse2::<ItemFn>(item.clone()) {
        Ok(function) => function,
        Err(error) => return with_error(item, error),
    };
    let (options, bad_option) = match Options::parse(kind, options) {
        Ok(options) => (options, None),
        Err(error) => (Options::default_of(kind), Some(error)),
    };
    let bad_function = check_function(kind, &function).err();

    if function.sig.asyncness.is_some() {
        wrap_body(&mut function, &options);
    }
    let mark = match kind {
        Kind::Main => None,
        Kind::Test => Some(quote!(#[::core::prelude::v1::test])),
    };
    let expanded = quote!(#mark #function);
    match bad_option.into_iter().chain(bad_function).reduce(both) {
        Some(error) => with_error(expanded, error),
        None => expanded,
    }
}

fn with_error(mut tokens: TokenStream, error: Error) -> TokenStream {
    tokens.extend(error.into_compile_error());
    tokens
}

/// Whether the attribute can be applied to this function.
fn check_function(kind: Kind, function: &ItemFn) -> Result<(), Error> {
    let sig = &function.sig;
    if sig.asyncness.is_none() {
        let text = format!("`#[{}]` needs an async function: write `async fn`", kind.name());
        return Err(Error::new_spanned(sig.fn_token, text));
    }
    if kind == Kind::Main && sig.ident == "main" && !sig.inputs.is_empty() {
        return Err(Error::new_spanned(&sig.inputs, "`main` takes no arguments: see `std::env::args`"));
    }
    match function.attrs.iter().find(|attribute| is_test(attribute)) {
        Some(second) if kind == Kind::Test => Err(Error::new_spanned(
            second,
            "a second `#[test]`: this one would run the test twice, remove it",
        )),
        _ => Ok(()),
    }
}

/// Whether it is the standard `#[test]`, also by its full path.
fn is_test(attribute: &Attribute) -> bool {
    let names: Vec<String> =
        attribute.path().segments.iter().map(|segment| segment.ident.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    matches!(names[..], ["test"] | ["core" | "std", "prelude", _, "test"])
}

/// Makes the function a plain one that runs its body on a runtime.
fn wrap_body(function: &mut ItemFn, options: &Options) {
    function.sig.asyncness = None;
    let builder = builder(options);
    // The user's code cannot see local variables of ours; the underscores keep out of the way of its
    // constants.
    let body = Ident::new("__body", Span::mixed_site());
    let hint = output_hint(&function.sig);

    // The user's own braces and statements, with the places they have in the source.
    let block = &mut function.block;
    block.stmts.splice(0..0, hint);
    function.block = parse_quote!({
        let #body = async #block;
        #builder
            .build()
            .expect("failed to build the runtime")
            .block_on(#body)
    });
}

/// The `Builder`, with everything set.
fn builder(options: &Options) -> TokenStream {
    let krate = match &options.krate {
        Some(path) => path.to_token_stream(),
        None => find_crate().to_token_stream(),
    };
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
fn find_crate() -> Path {
    match crate_name("runtime") {
        Ok(FoundCrate::Name(name)) => {
            let name = Ident::new(&name, Span::call_site());
            parse_quote!(::#name)
        }
        // Its own tests and examples, which see it by its name; or a crate that does not list it, and would
        // be told so.
        Ok(FoundCrate::Itself) | Err(_) => parse_quote!(::runtime),
    }
}

/// Statements without effect, which give the block they begin the output type that the function declares.
///
/// None for a type that cannot be named in an expression: `impl Trait`, or `!`.
fn output_hint(sig: &Signature) -> Vec<syn::Stmt> {
    let ty: Type = match &sig.output {
        ReturnType::Default => parse_quote!(()),
        ReturnType::Type(_, ty) => (**ty).clone(),
    };
    if matches!(ty, Type::Never(_)) || has_impl_trait(&ty) {
        return Vec::new();
    }
    // Where the output is declared, so that errors about it point there.
    let place = match &sig.output {
        ReturnType::Default => sig.ident.span(),
        ReturnType::Type(_, ty) => ty.span(),
    };
    let place = place.resolved_at(Span::mixed_site());
    let output = Ident::new("__output", place);
    let hint: syn::Block = parse_quote_spanned!(place=> {
        let #output: ::core::option::Option<#ty> = ::core::option::Option::None;
        if let ::core::option::Option::Some(#output) = #output {
            return #output;
        }
    });
    hint.stmts
}

fn has_impl_trait(ty: &Type) -> bool {
    struct Finder(bool);
    impl Visit<'_> for Finder {
        fn visit_type_impl_trait(&mut self, _: &TypeImplTrait) {
            self.0 = true;
        }
    }
    let mut finder = Finder(false);
    finder.visit_type(ty);
    finder.0
}
