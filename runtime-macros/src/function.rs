//! The parts of a function that the attributes change or look at. All else stays a sequence of tokens.
//!
//! syn would read all of it, down to the statements of the body, and would take a quarter of the time in
//! which a program with this crate is built from nothing. The attributes need the places of five tokens; the
//! compiler reads the rest, and reports its mistakes, in what they expand to.

use proc_macro2::{Delimiter, Group, Ident, Punct, Spacing, Span, TokenStream, TokenTree};

use crate::error::Error;

/// A function in parts, in the order of the source.
pub struct Function {
    /// Those in front of it, each the content of its brackets.
    pub attributes: Vec<TokenStream>,
    /// Visibility and qualifiers, without `async`.
    pub qualifiers: TokenStream,
    pub is_async: bool,
    /// From `fn` to the body.
    pub signature: Vec<TokenTree>,
    pub name: Ident,
    pub arguments: Group,
    /// The type behind `->`.
    pub output: Option<Vec<TokenTree>>,
    /// The `#![...]` at the beginning of the body.
    pub inner_attributes: TokenStream,
    /// The body without them.
    pub body: Group,
}

impl Function {
    pub fn parse(item: TokenStream) -> Result<Self, Error> {
        let mut tokens = transparent(item);
        let error = |tokens: &[TokenTree]| Error::about(tokens, "expected a function with a body");
        let Some(body) = tokens.pop().and_then(braces) else { return Err(error(&tokens)) };
        let attributes = take_attributes(&mut tokens);
        let Some(start) = tokens.iter().position(|token| is_word(token, "fn")) else {
            return Err(error(&tokens));
        };
        let signature = tokens.split_off(start);
        let is_async = tokens.iter().any(|token| is_word(token, "async"));
        let qualifiers = tokens.into_iter().filter(|token| !is_word(token, "async")).collect();
        let Some(TokenTree::Ident(name)) = signature.get(1).cloned() else { return Err(error(&signature)) };
        let Some((arguments, rest)) = arguments(&signature) else { return Err(error(&signature)) };
        let (inner_attributes, body) = without_inner_attributes(&body);
        Ok(Self {
            attributes,
            qualifiers,
            is_async,
            name,
            arguments,
            output: output(rest),
            signature,
            inner_attributes,
            body,
        })
    }

    /// The place of `fn`.
    pub fn fn_span(&self) -> Span {
        self.signature[0].span()
    }
}

/// The tokens, with a group without delimiters opened if it is all of them or the last. A macro makes such a
/// group of `$item` or `$body:block`.
pub fn transparent(tokens: TokenStream) -> Vec<TokenTree> {
    let mut tokens: Vec<TokenTree> = tokens.into_iter().collect();
    match tokens.as_slice() {
        [TokenTree::Group(group)] if group.delimiter() == Delimiter::None => transparent(group.stream()),
        [.., TokenTree::Group(group)] if group.delimiter() == Delimiter::None => {
            let last = transparent(group.stream());
            tokens.pop();
            tokens.extend(last);
            tokens
        }
        _ => tokens,
    }
}

pub fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

pub fn is_mark(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

fn braces(token: TokenTree) -> Option<Group> {
    match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group),
        _ => None,
    }
}

/// Takes every `#[...]` from the front.
fn take_attributes(tokens: &mut Vec<TokenTree>) -> Vec<TokenStream> {
    let mut attributes = Vec::new();
    while let [mark, TokenTree::Group(group), ..] = tokens.as_slice() {
        if !is_mark(mark, '#') {
            break;
        }
        attributes.push(group.stream());
        tokens.drain(..2);
    }
    attributes
}

/// The parentheses with the arguments, and what follows them. Those between `<` and `>` are part of a type.
fn arguments(signature: &[TokenTree]) -> Option<(Group, &[TokenTree])> {
    let (mut depth, mut is_arrow) = (0, false);
    for (index, token) in signature.iter().enumerate() {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis && depth == 0 => {
                return Some((group.clone(), &signature[index + 1..]));
            }
            TokenTree::Punct(mark) => {
                match mark.as_char() {
                    '<' => depth += 1,
                    '>' if !is_arrow => depth -= 1,
                    _ => {}
                }
                is_arrow = begins_arrow(mark);
            }
            _ => {}
        }
    }
    None
}

fn begins_arrow(mark: &Punct) -> bool {
    mark.as_char() == '-' && mark.spacing() == Spacing::Joint
}

/// The type behind `->`, in what follows the arguments.
fn output(rest: &[TokenTree]) -> Option<Vec<TokenTree>> {
    match rest {
        [TokenTree::Punct(first), _, ty @ ..] if begins_arrow(first) => {
            Some(ty.iter().take_while(|token| !is_word(token, "where")).cloned().collect())
        }
        _ => None,
    }
}

fn without_inner_attributes(body: &Group) -> (TokenStream, Group) {
    let mut tokens: Vec<TokenTree> = body.stream().into_iter().collect();
    let mut attributes = TokenStream::new();
    while let [first, second, TokenTree::Group(_), ..] = tokens.as_slice() {
        if !(is_mark(first, '#') && is_mark(second, '!')) {
            break;
        }
        attributes.extend(tokens.drain(..3));
    }
    let mut rest = Group::new(Delimiter::Brace, tokens.into_iter().collect());
    rest.set_span(body.span());
    (attributes, rest)
}
