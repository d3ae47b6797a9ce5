//! Under which name the crate that is being compiled sees `runtime`, from its `Cargo.toml`.
//!
//! A library for TOML would tell, too, but takes longer to build than all of this crate. What Cargo has
//! accepted is known to be TOML, so [`entries`] reads just as much of it as dependencies need: each value
//! with its path of keys. A text that it does not understand has no dependencies, and the name is `runtime`.

use std::iter::Peekable;
use std::path::Path;
use std::str::Chars;
use std::{env, fs};

/// A value with the keys that lead to it: `a.b = "c"` is `(["a", "b"], "c")`.
type Entry = (Vec<String>, String);

/// The name that the `Cargo.toml` of the crate that is being compiled gives to `package`.
pub fn name_of(package: &str) -> Option<String> {
    let folder = env::var_os("CARGO_MANIFEST_DIR")?;
    let mut manifests = Path::new(&folder).ancestors().map(|folder| folder.join("Cargo.toml"));
    let own = fs::read_to_string(manifests.next()?).ok()?;
    let others = manifests.filter_map(|path| fs::read_to_string(path).ok());
    find(package, &own, others)
}

/// The name of `package` in the manifest `own`. `others` are those of the folders above, one of which may be
/// the workspace's.
fn find(package: &str, own: &str, others: impl Iterator<Item = String>) -> Option<String> {
    let own = entries(own);
    let dependencies = || own.iter().filter_map(dependency);
    let has = |name: &str, key: &str, value: &str| {
        dependencies().any(|found| (found.name, found.key, found.value) == (name, Some(key), value))
    };
    let renamed = |name: &str| dependencies().any(|found| found.name == name && found.key == Some("package"));
    let is_own = |name: &str| match renamed(name) {
        true => has(name, "package", package),
        false => name == package && !has(name, "workspace", "true"),
    };
    let direct = dependencies().map(|found| found.name).find(|name| is_own(name));
    let name = direct.map(str::to_owned).or_else(|| {
        let above = others.map(|text| entries(&text));
        let is_root = |entries: &Vec<Entry>| entries.iter().any(|(path, _)| path[0] == "workspace");
        let workspace = if is_root(&own) { own.clone() } else { above.into_iter().find(is_root)? };
        let mut names = workspace.iter().filter_map(shared_dependency).filter_map(|found| {
            let is_renamed = found.key == Some("package") && found.value == package;
            is_renamed.then(|| found.name.to_owned())
        });
        names.find(|name| has(name, "workspace", "true"))
    });
    name.map(|name| name.replace('-', "_"))
}

const KINDS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// What a manifest says of a dependency: `name.key = value`, or `name = value` with the version.
struct Dependency<'a> {
    name: &'a str,
    key: Option<&'a str>,
    value: &'a str,
}

/// The entry, if it is about a dependency of the manifest's package.
fn dependency((path, value): &Entry) -> Option<Dependency<'_>> {
    let path = match path.as_slice() {
        [target, _, rest @ ..] if target == "target" => rest,
        path => path,
    };
    match path {
        [kind, rest @ ..] if KINDS.contains(&kind.as_str()) => of(rest, value),
        _ => None,
    }
}

/// The entry, if it is about a dependency that the packages of a workspace may inherit.
fn shared_dependency((path, value): &Entry) -> Option<Dependency<'_>> {
    match path.as_slice() {
        [workspace, kind, rest @ ..] if workspace == "workspace" && kind == "dependencies" => of(rest, value),
        _ => None,
    }
}

fn of<'a>(path: &'a [String], value: &'a str) -> Option<Dependency<'a>> {
    let (name, keys) = path.split_first()?;
    Some(Dependency { name, key: keys.first().map(String::as_str), value })
}

#[derive(Debug, PartialEq)]
enum Token {
    /// A bare key or value, or a quoted one without its quotes.
    Word(String),
    /// A character with a meaning, or the end of a line.
    Mark(char),
}

/// The values of a TOML text that are no arrays, with their paths.
fn entries(text: &str) -> Vec<Entry> {
    let mut tokens = tokens(text).into_iter().peekable();
    let (mut entries, mut section) = (Vec::new(), Vec::new());
    while let Some(token) = tokens.peek() {
        match token {
            Token::Mark('[') => section = header(&mut tokens),
            Token::Word(_) => entry(&mut tokens, &section, &mut entries),
            Token::Mark(_) => drop(tokens.next()),
        }
    }
    entries
}

/// Reads `[a.b]`, or `[[a.b]]`.
fn header(tokens: &mut impl Iterator<Item = Token>) -> Vec<String> {
    let of_line = tokens.take_while(|token| *token != Token::Mark('\n'));
    of_line.filter_map(|token| if let Token::Word(word) = token { Some(word) } else { None }).collect()
}

/// Reads `a.b = value`.
fn entry(tokens: &mut Peekable<impl Iterator<Item = Token>>, section: &[String], entries: &mut Vec<Entry>) {
    let mut path = section.to_vec();
    for token in tokens.by_ref() {
        match token {
            Token::Word(word) => path.push(word),
            Token::Mark('.') => {}
            Token::Mark('=') => break,
            Token::Mark(_) => return,
        }
    }
    match tokens.next() {
        Some(Token::Word(word)) => entries.push((path, word)),
        Some(Token::Mark('{')) => table(tokens, &path, entries),
        Some(Token::Mark('[')) => skip_array(tokens),
        _ => {}
    }
}

/// Reads the rest of `{ a = value, b = value }`.
fn table(tokens: &mut Peekable<impl Iterator<Item = Token>>, path: &[String], entries: &mut Vec<Entry>) {
    while let Some(token) = tokens.peek() {
        match token {
            Token::Word(_) => entry(tokens, path, entries),
            Token::Mark('}') => return drop(tokens.next()),
            Token::Mark(_) => drop(tokens.next()),
        }
    }
}

/// Reads the rest of `[value, value]`.
fn skip_array(tokens: &mut impl Iterator<Item = Token>) {
    let mut depth = 1;
    while depth > 0 {
        match tokens.next() {
            Some(Token::Mark('[')) => depth += 1,
            Some(Token::Mark(']')) => depth -= 1,
            Some(_) => {}
            None => return,
        }
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let mut chars = text.chars().peekable();
    let mut tokens = Vec::new();
    while let Some(char) = chars.next() {
        match char {
            '#' => while chars.next_if(|char| *char != '\n').is_some() {},
            '"' | '\'' => tokens.push(Token::Word(quoted(&mut chars, char))),
            char if is_bare(char) => {
                let mut word = String::from(char);
                while let Some(char) = chars.next_if(|char| is_bare(*char)) {
                    word.push(char);
                }
                tokens.push(Token::Word(word));
            }
            ' ' | '\t' | '\r' => {}
            char => tokens.push(Token::Mark(char)),
        }
    }
    tokens
}

fn is_bare(char: char) -> bool {
    char.is_alphanumeric() || "_-+:".contains(char)
}

/// Reads a text up to the quotes that end it, one or three. An escape keeps its backslash: no name has any.
fn quoted(chars: &mut Peekable<Chars<'_>>, quote: char) -> String {
    let mut quotes = 1;
    while quotes < 3 && chars.next_if_eq(&quote).is_some() {
        quotes += 1;
    }
    // Two quotes are an empty text.
    if quotes == 2 {
        return String::new();
    }
    let (mut text, mut seen) = (String::new(), 0);
    while let Some(char) = chars.next() {
        text.push(char);
        seen = if char == quote { seen + 1 } else { 0 };
        if seen == quotes {
            break;
        }
        if char == '\\' && quote == '"' {
            text.extend(chars.next());
        }
    }
    text.truncate(text.len().saturating_sub(seen));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(own: &str, others: &[&str]) -> Option<String> {
        find("runtime", own, others.iter().map(|text| text.to_string()))
    }

    #[test]
    fn a_dependency_has_the_name_of_its_crate_or_another() {
        let plain = [
            "[dependencies]\nruntime = \"0.1\"",
            "[dev-dependencies]\nruntime = { path = \"../runtime\" }",
            "[dependencies.runtime]\nversion = \"0.1\"",
            "[target.'cfg(unix)'.dependencies]\nruntime = \"0.1\" # for files",
            "dependencies.runtime.version = \"0.1\"",
        ];
        for text in plain {
            assert_eq!(name(text, &[]).as_deref(), Some("runtime"), "{text}");
        }
        let renamed = [
            "[dependencies]\nmy-name = { version = \"0.1\", package = \"runtime\" }",
            "[dependencies]\n\"my-name\" = { features = [\n\"a\", # }\n\"b\",\n], package = 'runtime' }",
            "[dependencies.my-name]\nfeatures = [\"a\", [1.5]]\npackage = \"\"\"runtime\"\"\"",
            "[target.x86_64-unknown-linux-gnu.build-dependencies]\nmy-name.package = \"runtime\"",
            "[dependencies]\nruntime = { package = \"other\" }\nmy-name = { package = \"runtime\" }",
            "[profile.release]\nratio = 1.5\n[dependencies]\nmy-name = { package = \"runtime\" }",
        ];
        for text in renamed {
            assert_eq!(name(text, &[]).as_deref(), Some("my_name"), "{text}");
        }
    }

    #[test]
    fn a_dependency_is_looked_up_in_the_workspace_that_it_comes_from() {
        let root = "[workspace]\n[workspace.dependencies]\ntokio = { package = \"runtime\", path = \"r\" }";
        let own = "[dependencies]\ntokio.workspace = true";
        assert_eq!(name(own, &["[package]", root]).as_deref(), Some("tokio"));
        assert_eq!(name("[dependencies]\ntokio = { workspace = true }", &[root]).as_deref(), Some("tokio"));
        assert_eq!(name(&format!("{root}\n{own}"), &[]).as_deref(), Some("tokio"));
        // What other packages depend on is not this one's.
        assert_eq!(name("[dependencies]\nother.workspace = true", &[root]), None);
        assert_eq!(name("[dependencies]\ntokio = \"1\"", &[root]), None);
    }

    #[test]
    fn any_text_has_an_end() {
        let texts = [
            "",
            "=",
            "[",
            "[[",
            "a",
            "a =",
            "a = {",
            "a = [",
            "a = {b = {c",
            "\"",
            "'''",
            "\"\\",
            "a = \"\"\"\"\"",
            "a = 1979-05-27T07:32:00Z\n[b]\nc = +1e5",
            "}]=.",
            "a.=.b",
            "[dependencies]\n= { package",
        ];
        for text in texts {
            assert_eq!(name(text, &[text]), None, "{text}");
        }
        let tricky = "a = \"\\\"x # [b]\" # c\n[d]\ne = '\\'\nf = \"\"\"g\"\"\"\nh = \"\"";
        let values: Vec<_> =
            entries(tricky).into_iter().map(|(path, value)| (path.join("."), value)).collect();
        let expected = [("a", "\\\"x # [b]"), ("d.e", "\\"), ("d.f", "g"), ("d.h", "")];
        assert_eq!(values, expected.map(|(path, value)| (path.to_owned(), value.to_owned())));
    }
}
