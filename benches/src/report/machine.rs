//! The machine, the versions of the peers, and what it lacks.

use std::fs;
use std::process::Command;

use super::count::{HAS_PERF, HAS_VALGRIND};
use super::go;
use crate::{pin, wrk};

/// The lock file of the workspace, as it was when this was built.
const LOCK: &str = include_str!("../../../Cargo.lock");

/// The crates whose versions matter.
const CRATES: [&str; 8] = ["tokio", "smol", "async-executor", "rayon", "chili", "forte", "hyper", "mio"];

/// What stands at the top of the page.
pub fn describe() -> Vec<(String, String)> {
    let line = |name: &str, value: Option<String>| (name.to_owned(), value.unwrap_or("unknown".to_owned()));
    let cpu = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let model = text.lines().find_map(|line| line.strip_prefix("model name"))?;
        Some(model.trim_start_matches(['\t', ' ', ':']).to_owned())
    });
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_owned());
    let memory = fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let kilobytes: f64 = text.lines().next()?.split_whitespace().nth(1)?.parse().ok()?;
        Some(format!("{:.0} GiB", kilobytes / f64::from(1 << 20)))
    });
    let versions = CRATES.iter().filter_map(|name| Some(format!("{name} {}", version(LOCK, name)?)));
    let versions = versions.chain(go::version());
    vec![
        line("Processor", cpu),
        line("Processors", Some(pin::processors().to_string())),
        line("Memory", memory),
        line("Kernel", kernel.map(|kernel| format!("Linux {kernel}"))),
        line("C library", output("getconf", "GNU_LIBC_VERSION")),
        line("Compiler", output("rustc", "--version")),
        line("Allocator", Some("the C library's, for all".to_owned())),
        line("Peers", Some(versions.collect::<Vec<_>>().join(", "))),
    ]
}

fn output(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The version of a crate in a lock file, where name and version are lines that follow each other.
fn version<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let wanted = format!("name = \"{name}\"");
    let mut lines = lock.lines();
    lines.find(|line| *line == wanted)?;
    lines.next()?.strip_prefix("version = \"")?.strip_suffix('"')
}

/// What is not measured on this machine, and why.
pub fn left_out() -> Vec<String> {
    let mut missing = Vec::new();
    if !*HAS_VALGRIND {
        missing.push("Instructions: `valgrind` is not installed.".to_owned());
    }
    if !*HAS_PERF {
        missing.push("System calls and wakes: `perf` is not installed, or may not trace.".to_owned());
    }
    if go::BUILT.is_none() {
        missing.push("Go: not installed, or `benches/go` does not build.".to_owned());
    }
    if !wrk::is_installed() {
        missing.push("`wrk` is not installed: the HTTP client is our own.".to_owned());
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_stands_below_its_name() {
        let lock = "[[package]]\nname = \"tokio-util\"\nversion = \"0.7.1\"\n\n\
                    [[package]]\nname = \"tokio\"\nversion = \"1.54.1\"\n";
        assert_eq!(version(lock, "tokio"), Some("1.54.1"));
        assert_eq!(version(lock, "smol"), None);
        // All of them are there.
        assert!(CRATES.iter().all(|name| version(LOCK, name).is_some()));
    }
}
