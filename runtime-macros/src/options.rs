//! What stands in the parentheses of `#[main(...)]` and `#[test(...)]`.
//!
//! Every error points at the option it is about and names what is allowed. Bad options are all reported at
//! once.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, Ident, Lit, Meta, Path, Token};

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
    /// The runtime's name.
    pub name: Option<String>,
    pub flavor: Flavor,
    pub worker_threads: Option<usize>,
    pub start_paused: bool,
    /// Where the user says the crate is.
    pub krate: Option<Path>,
}

/// The options as written: each with the whole `name = value` it came from.
#[derive(Default)]
struct Written {
    name: Option<(String, Meta)>,
    flavor: Option<(Flavor, Meta)>,
    worker_threads: Option<(usize, Meta)>,
    start_paused: Option<(bool, Meta)>,
    krate: Option<(Path, Meta)>,
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
        let metas = Punctuated::<Meta, Token![,]>::parse_terminated.parse2(tokens)?;
        let mut written = Written::default();
        let errors = metas.into_iter().filter_map(|meta| written.add(meta).err());
        if let Some(error) = errors.reduce(both) {
            return Err(error);
        }
        written.check(kind)
    }
}

impl Written {
    fn add(&mut self, meta: Meta) -> Result<(), Error> {
        let name = meta.path().get_ident().map(Ident::to_string).unwrap_or_default();
        match name.as_str() {
            "name" => set(&mut self.name, parse_name, meta),
            "flavor" => set(&mut self.flavor, parse_flavor, meta),
            "worker_threads" => set(&mut self.worker_threads, parse_worker_threads, meta),
            "start_paused" => set(&mut self.start_paused, parse_bool, meta),
            "crate" => set(&mut self.krate, parse_path, meta),
            _ => {
                let name = meta.path().to_token_stream();
                let text = format!(
                    "unknown option `{name}`: expected `name`, `flavor`, `worker_threads`, `start_paused` or `crate`"
                );
                Err(Error::new_spanned(meta.path(), text))
            }
        }
    }

    /// Whether the options make sense together.
    fn check(self, kind: Kind) -> Result<Options, Error> {
        let flavor = self.flavor.map_or(kind.default_flavor(), |(flavor, _)| flavor);
        match (flavor, &self.worker_threads, &self.start_paused) {
            (Flavor::CurrentThread, Some((_, meta)), _) => Err(Error::new_spanned(
                meta,
                "`worker_threads` needs `flavor = \"multi_thread\"`: a `current_thread` runtime has no workers",
            )),
            (Flavor::MultiThread, _, Some((_, meta))) => Err(Error::new_spanned(
                meta,
                "`start_paused` needs `flavor = \"current_thread\"`: only there all tasks can be seen to wait",
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

/// Fills `slot` with the value of `meta`, unless it was filled before.
fn set<T>(
    slot: &mut Option<(T, Meta)>,
    parse: impl FnOnce(&Expr) -> Result<T, Error>,
    meta: Meta,
) -> Result<(), Error> {
    if slot.is_some() {
        return Err(Error::new_spanned(meta, "this option is given twice"));
    }
    let value = parse(&meta.require_name_value()?.value)?;
    *slot = Some((value, meta));
    Ok(())
}

fn parse_name(value: &Expr) -> Result<String, Error> {
    let name = match literal(value) {
        Some(Lit::Str(text)) => Some(text.value()).filter(|name| !name.trim().is_empty()),
        _ => None,
    };
    name.ok_or_else(|| {
        Error::new(value.span(), "`name` must be a text that is not empty, such as `\"requests\"`")
    })
}

fn parse_flavor(value: &Expr) -> Result<Flavor, Error> {
    let flavor = match literal(value) {
        Some(Lit::Str(text)) => match text.value().as_str() {
            "current_thread" => Some(Flavor::CurrentThread),
            "multi_thread" => Some(Flavor::MultiThread),
            _ => None,
        },
        _ => None,
    };
    flavor.ok_or_else(|| {
        let value = value.to_token_stream();
        let text = format!("unknown flavor `{value}`: expected `\"multi_thread\"` or `\"current_thread\"`");
        Error::new_spanned(value, text)
    })
}

fn parse_worker_threads(value: &Expr) -> Result<usize, Error> {
    let count = match literal(value) {
        Some(Lit::Int(count)) => count.base10_parse::<usize>().ok(),
        _ => None,
    };
    match count {
        Some(0) => Err(Error::new(value.span(), "`worker_threads` must be at least 1, got 0")),
        Some(count) => Ok(count),
        None => Err(Error::new(value.span(), "`worker_threads` must be a number, such as `4`")),
    }
}

fn parse_bool(value: &Expr) -> Result<bool, Error> {
    match literal(value) {
        Some(Lit::Bool(is_true)) => Ok(is_true.value),
        _ => Err(Error::new(value.span(), "`start_paused` must be `true` or `false`")),
    }
}

/// Accepts `"a::b"` and plain `a::b`.
fn parse_path(value: &Expr) -> Result<Path, Error> {
    let path = match (literal(value), value) {
        (Some(Lit::Str(text)), _) => text.parse_with(Path::parse_mod_style).ok(),
        (_, Expr::Path(path)) => Some(path.path.clone()),
        _ => None,
    };
    path.ok_or_else(|| Error::new(value.span(), "`crate` must be a path, such as `\"my_facade::runtime\"`"))
}

fn literal(value: &Expr) -> Option<&Lit> {
    match value {
        Expr::Lit(ExprLit { lit, .. }) => Some(lit),
        _ => None,
    }
}

/// Reports `first` and `second`.
pub fn both(mut first: Error, second: Error) -> Error {
    first.combine(second);
    first
}
