//! What it takes to build a program that says hello, with all that it depends on: the CPU time of Cargo and
//! its compilers, from nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::usage::Usage;

/// The loads' name, for the command line.
pub const NAME: &str = "build_time";

/// For each peer: its name, and the seconds in debug and in release.
pub type Seconds = Vec<(String, [f64; 2])>;

/// The peers, with what a manifest says of them.
fn peers() -> [(&'static str, String); 2] {
    let runtime = concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime");
    [
        ("runtime", format!("runtime = {{ path = {runtime:?}, features = [\"full\"] }}")),
        ("tokio", "tokio = { version = \"1\", features = [\"full\"] }".to_owned()),
    ]
}

/// Builds the programs of all peers, twice each.
///
/// # Errors
/// Fails if there is no Cargo, or no crate, or no room.
pub fn measure() -> io::Result<Seconds> {
    let folder = Folder::new()?;
    let mut seconds = Seconds::new();
    for (peer, dependency) in peers() {
        let program = folder.0.join(peer);
        write_program(&program, peer, &dependency)?;
        let of = |words: &[&str]| build(&program, words);
        seconds.push((peer.to_owned(), [of(&["build"])?, of(&["build", "--release"])?]));
    }
    Ok(seconds)
}

/// A folder for the programs, which goes when this is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("runtime-build-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The versions are those of this workspace.
fn write_program(folder: &Path, peer: &str, dependency: &str) -> io::Result<()> {
    fs::create_dir_all(folder.join("src"))?;
    fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock"), folder.join("Cargo.lock"))?;
    let package = "[package]\nname = \"hello\"\nversion = \"0.1.0\"\nedition = \"2024\"";
    fs::write(folder.join("Cargo.toml"), format!("{package}\n[workspace]\n[dependencies]\n{dependency}\n"))?;
    let main = format!("#[{peer}::main]\nasync fn main() {{\n    println!(\"hello\");\n}}\n");
    fs::write(folder.join("src/main.rs"), main)
}

/// The CPU seconds of one build. Flags and profiles in this process's environment are no part of it.
fn build(program: &Path, words: &[&str]) -> io::Result<f64> {
    let cargo = || {
        let mut command = Command::new("cargo");
        let foreign = std::env::vars_os().map(|(name, _)| name);
        let foreign = foreign.filter(|name| {
            let name = name.to_string_lossy();
            let is_ours = name.starts_with("CARGO_") && name != "CARGO_HOME";
            is_ours || ["RUSTFLAGS", "RUSTC_BOOTSTRAP", "MAKEFLAGS"].contains(&&*name)
        });
        for name in foreign {
            command.env_remove(name);
        }
        // A crate that Cargo finds by its path would be built incrementally, and a published one never is.
        command.env("CARGO_INCREMENTAL", "0");
        command.current_dir(program).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let run = |command: &mut Command| match command.status()? {
        status if status.success() => Ok(()),
        status => Err(io::Error::other(format!("cargo ended with {status}"))),
    };
    // So that loading is not counted.
    run(cargo().arg("fetch"))?;
    let before = Usage::of_children();
    run(cargo().args(words))?;
    Ok(Usage::of_children().since(before).cpu.as_secs_f64())
}
