//! Go, if it is installed: a program of its own, which does what [`child`](super::child) does.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// The peer's name.
pub const NAME: &str = "go";

/// Set for the program; where it finds the client for its server.
pub const PROGRAM: &str = "BENCH_PROGRAM";

/// What it can do.
const LOADS: [&str; 8] = [
    "chained_spawn",
    "ping_pong",
    "spawn_many",
    "spawn_many_worker",
    "spawn_await",
    "yield_many",
    "mpsc_ping",
    "mpsc_stream",
];

/// The program, built anew; nothing if that cannot be done.
pub static BUILT: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let source = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/go"));
    let program = std::env::current_exe().ok()?.with_file_name("report-go");
    let mut go = Command::new("go");
    go.arg("build").arg("-o").arg(&program).current_dir(source).stdin(Stdio::null());
    go.status().is_ok_and(|status| status.success()).then_some(program)
});

/// Whether it takes part in a load.
pub fn takes_part(load: &str) -> bool {
    (LOADS.contains(&load) || load.starts_with("tcp_echo")) && BUILT.is_some()
}

/// Its version, if it takes part at all.
pub fn version() -> Option<String> {
    BUILT.as_ref()?;
    let output = Command::new("go").arg("version").output().ok()?;
    // "go version go1.19.8 linux/amd64"
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.split_whitespace().nth(2)?.replacen("go", "go ", 1))
}
