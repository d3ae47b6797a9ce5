//! Mistakes that the compiler reports where they are in the user's source.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};

/// One mistake, or several that are reported together.
#[derive(Debug)]
pub struct Error(Vec<Mistake>);

#[derive(Debug)]
struct Mistake {
    /// The first and the last token that the compiler underlines.
    place: (Span, Span),
    text: String,
}

impl Error {
    pub fn at(span: Span, text: impl Into<String>) -> Self {
        Self(vec![Mistake { place: (span, span), text: text.into() }])
    }

    /// An error about `tokens`, or about the attribute itself if there are none.
    pub fn about(tokens: &[TokenTree], text: impl Into<String>) -> Self {
        match (tokens.first(), tokens.last()) {
            (Some(first), Some(last)) => {
                Self(vec![Mistake { place: (first.span(), last.span()), text: text.into() }])
            }
            _ => Self::at(Span::call_site(), text),
        }
    }

    /// Reports both.
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// What the macro gives beside the function. The compiler underlines from the place of the first token to
    /// that of the last.
    pub fn tokens(&self) -> TokenStream {
        let mistakes = self.0.iter().map(|Mistake { place: (start, end), text }| {
            let end = quote_spanned!(*end=> { #text });
            let call = quote_spanned!(*start=> ::core::compile_error!);
            quote!(#call #end)
        });
        mistakes.collect()
    }
}
