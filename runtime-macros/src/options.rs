//! What stands in the parentheses of `#[main(...)]` and `#[test(...)]`.
//!
//! Every error points at the option it is about and names what is allowed. Bad options are all reported at
//! once.

use proc_macro2::{Literal, TokenStream, TokenTree};

use crate::error::Error;
use crate::function::{is_mark, is_word, transparent};

/// Which of the two attributes is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Main,
    Test,
}

/// Which kind of runtime to build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    CurrentThread,
    MultiThread,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Main => "main",
            Kind::Test => "test",
        }
    }

    fn default_flavor(self) -> Flavor {
        match self {
            Kind::Main => Flavor::MultiThread,
            Kind::Test => Flavor::CurrentThread,
        }
    }
}

/// The options, checked.
pub struct Options {
    /// The runtime's name, as written.
    pub name: Option<Literal>,
    pub flavor: Flavor,
    pub worker_threads: Option<usize>,
    pub start_paused: bool,
    /// Where the user says the crate is.
    pub krate: Option<TokenStream>,
}

/// One `key = value`.
struct Written {
    tokens: Vec<TokenTree>,
    /// The place of `=` in `tokens`.
    equals: usize,
}

/// The options as written, each with its value.
#[derive(Default)]
struct Given {
    name: Option<(Literal, Written)>,
    flavor: Option<(Flavor, Written)>,
    worker_threads: Option<(usize, Written)>,
    start_paused: Option<(bool, Written)>,
    krate: Option<(TokenStream, Written)>,
}

impl Options {
    /// What holds when nothing is said.
    pub fn default_of(kind: Kind) -> Self {
        Self {
            name: None,
            flavor: kind.default_flavor(),
            worker_threads: None,
            start_paused: false,
            krate: None,
        }
    }

    pub fn parse(kind: Kind, tokens: TokenStream) -> Result<Self, Error> {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut pieces: Vec<&[TokenTree]> = tokens.split(|token| is_mark(token, ',')).collect();
        // Nothing at all, or a comma at the end.
        if pieces.last().is_some_and(|last| last.is_empty()) {
            pieces.pop();
        }
        let mut given = Given::default();
        let errors =
            pieces.into_iter().filter_map(|piece| Written::parse(piece).and_then(|one| given.add(one)).err());
        match errors.reduce(Error::and) {
            Some(error) => Err(error),
            None => given.check(kind),
        }
    }
}

impl Written {
    fn parse(tokens: &[TokenTree]) -> Result<Self, Error> {
        let equals = tokens.iter().position(|token| is_mark(token, '=')).filter(|equals| *equals > 0);
        let equals =
            equals.ok_or_else(|| Error::about(tokens, "expected an option such as `worker_threads = 4`"))?;
        Ok(Self { tokens: tokens.to_vec(), equals })
    }

    fn key(&self) -> &[TokenTree] {
        &self.tokens[..self.equals]
    }

    fn value(&self) -> Vec<TokenTree> {
        transparent(self.tokens[self.equals + 1..].iter().cloned().collect())
    }

    fn error(&self, text: impl Into<String>) -> Error {
        Error::about(&self.tokens, text)
    }

    fn value_error(&self, text: impl Into<String>) -> Error {
        Error::about(&self.tokens[self.equals + 1..], text)
    }
}

impl Given {
    fn add(&mut self, one: Written) -> Result<(), Error> {
        let name: String = one.key().iter().map(ToString::to_string).collect();
        match name.as_str() {
            "name" => set(&mut self.name, parse_name, one),
            "flavor" => set(&mut self.flavor, parse_flavor, one),
            "worker_threads" => set(&mut self.worker_threads, parse_worker_threads, one),
            "start_paused" => set(&mut self.start_paused, parse_bool, one),
            "crate" => set(&mut self.krate, parse_path, one),
            _ => {
                let text = format!(
                    "unknown option `{name}`: expected `name`, `flavor`, `worker_threads`, `start_paused` or \
                     `crate`"
                );
                Err(Error::about(one.key(), text))
            }
        }
    }

    /// Whether the options make sense together.
    fn check(self, kind: Kind) -> Result<Options, Error> {
        let flavor = self.flavor.map_or(kind.default_flavor(), |(flavor, _)| flavor);
        match (flavor, &self.worker_threads, &self.start_paused) {
            (Flavor::CurrentThread, Some((_, written)), _) => Err(written.error(
                "`worker_threads` needs `flavor = \"multi_thread\"`: a `current_thread` runtime has no \
                 workers",
            )),
            (Flavor::MultiThread, _, Some((_, written))) => Err(written.error(
                "`start_paused` needs `flavor = \"current_thread\"`: only there all tasks can be seen to \
                 wait",
            )),
            _ => Ok(Options {
                name: self.name.map(|(name, _)| name),
                flavor,
                worker_threads: self.worker_threads.map(|(count, _)| count),
                start_paused: self.start_paused.is_some_and(|(is_paused, _)| is_paused),
                krate: self.krate.map(|(path, _)| path),
            }),
        }
    }
}

/// Fills `slot` with the value of `one`, unless it was filled before.
fn set<T>(
    slot: &mut Option<(T, Written)>,
    parse: impl FnOnce(&[TokenTree]) -> Result<T, String>,
    one: Written,
) -> Result<(), Error> {
    if slot.is_some() {
        return Err(one.error("this option is given twice"));
    }
    let value = parse(&one.value()).map_err(|text| one.value_error(text))?;
    *slot = Some((value, one));
    Ok(())
}

fn parse_name(value: &[TokenTree]) -> Result<Literal, String> {
    match (value, text(value)) {
        ([TokenTree::Literal(literal)], Some(text)) if !text.trim().is_empty() => Ok(literal.clone()),
        _ => Err("`name` must be a text that is not empty, such as `\"requests\"`".to_owned()),
    }
}

fn parse_flavor(value: &[TokenTree]) -> Result<Flavor, String> {
    match text(value).as_deref() {
        Some("current_thread") => Ok(Flavor::CurrentThread),
        Some("multi_thread") => Ok(Flavor::MultiThread),
        _ => {
            let value: TokenStream = value.iter().cloned().collect();
            Err(format!("unknown flavor `{value}`: expected `\"multi_thread\"` or `\"current_thread\"`"))
        }
    }
}

fn parse_worker_threads(value: &[TokenTree]) -> Result<usize, String> {
    match number(value) {
        Some(0) => Err("`worker_threads` must be at least 1, got 0".to_owned()),
        Some(count) => Ok(count),
        None => Err("`worker_threads` must be a number, such as `4`".to_owned()),
    }
}

fn parse_bool(value: &[TokenTree]) -> Result<bool, String> {
    match value {
        [token] if is_word(token, "true") => Ok(true),
        [token] if is_word(token, "false") => Ok(false),
        _ => Err("`start_paused` must be `true` or `false`".to_owned()),
    }
}

/// Accepts `"a::b"` and plain `a::b`.
fn parse_path(value: &[TokenTree]) -> Result<TokenStream, String> {
    let path: Vec<TokenTree> = match text(value).map(|text| text.parse::<TokenStream>()) {
        Some(Ok(tokens)) => tokens.into_iter().map(|token| at(token, &value[0])).collect(),
        Some(Err(_)) => Vec::new(),
        None => value.to_vec(),
    };
    match is_path(&path) {
        true => Ok(path.into_iter().collect()),
        false => Err("`crate` must be a path, such as `\"my_facade::runtime\"`".to_owned()),
    }
}

/// The token, with the place of another.
fn at(mut token: TokenTree, place: &TokenTree) -> TokenTree {
    token.set_span(place.span());
    token
}

fn is_path(tokens: &[TokenTree]) -> bool {
    let is_separator = |token: Option<&TokenTree>| token.is_some_and(|token| is_mark(token, ':'));
    match tokens {
        [TokenTree::Ident(_)] => true,
        [TokenTree::Ident(_), rest @ ..] => is_separator(rest.first()) && is_path(rest),
        [first, second, rest @ ..] if is_mark(first, ':') => {
            is_mark(second, ':') && !is_separator(rest.first()) && is_path(rest)
        }
        _ => false,
    }
}

/// The inside of a text, with its escapes as they are written.
fn text(value: &[TokenTree]) -> Option<String> {
    let [TokenTree::Literal(literal)] = value else { return None };
    let literal = literal.to_string();
    let inside = literal.strip_prefix('r').unwrap_or(&literal).trim_matches('#');
    Some(inside.strip_prefix('"')?.strip_suffix('"')?.to_owned())
}

/// A number of any base, also one that names its type.
fn number(value: &[TokenTree]) -> Option<usize> {
    let [TokenTree::Literal(literal)] = value else { return None };
    let literal = literal.to_string().replace('_', "");
    let (radix, digits) = match literal.get(..2) {
        Some("0x") => (16, &literal[2..]),
        Some("0o") => (8, &literal[2..]),
        Some("0b") => (2, &literal[2..]),
        _ => (10, literal.as_str()),
    };
    let end = digits.find(|char: char| !char.is_digit(radix)).unwrap_or(digits.len());
    let (digits, suffix) = digits.split_at(end);
    let is_whole =
        ["", "usize", "u8", "u16", "u32", "u64", "u128", "isize", "i8", "i16", "i32", "i64", "i128"]
            .contains(&suffix);
    usize::from_str_radix(digits, radix).ok().filter(|_| is_whole)
}
