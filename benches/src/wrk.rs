//! HTTP requests by `wrk -t1 -c50` if it is installed, else by our own client.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use crate::client::{self, Outcome, Protocol};

const CONNECTIONS: usize = 50;

static IS_INSTALLED: LazyLock<bool> = LazyLock::new(|| {
    Command::new("wrk").arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
});

/// Whether `wrk` can be had.
pub fn is_installed() -> bool {
    *IS_INSTALLED
}

/// Loads the server at `addr` over 50 connections for `time`, which `wrk` takes in whole seconds.
pub fn measure(addr: SocketAddr, time: Duration) -> Outcome {
    if is_installed() { wrk(addr, time) } else { client::measure(addr, Protocol::Http, CONNECTIONS, time) }
}

fn wrk(addr: SocketAddr, time: Duration) -> Outcome {
    let output = Command::new("wrk")
        .args(["-t1", "--latency"])
        .arg(format!("-c{CONNECTIONS}"))
        .arg(format!("-d{}s", time.as_secs().max(1)))
        .arg(format!("http://{addr}/"))
        .stdin(Stdio::null())
        .output()
        .expect("wrk starts");
    let text = String::from_utf8_lossy(&output.stdout);
    // wrk speaks of errors only if there are any, and succeeds all the same.
    assert!(
        output.status.success() && !text.contains("Socket errors") && !text.contains("Non-2xx"),
        "{text}"
    );
    // A line is led by its key, as in "99%    1.52ms", "Requests/sec: 143500.12", "287001 requests in 2.00s".
    let after = |key: &str| {
        let value = text.lines().find_map(|line| line.trim().strip_prefix(key)).map(str::trim);
        value.unwrap_or_else(|| panic!("wrk does not tell {key:?}: {text}"))
    };
    let requests = text.lines().find_map(|line| line.trim().split_once(" requests in "));
    Outcome {
        rate: after("Requests/sec:").parse().expect("a rate"),
        requests: requests
            .and_then(|(count, _)| count.parse().ok())
            .expect("wrk tells how many requests it made"),
        p50: microseconds(after("50%")),
        p99: microseconds(after("99%")),
        p999: f64::NAN,
    }
}

/// Reads "164.00us", "1.52ms" or "1.00s".
fn microseconds(text: &str) -> f64 {
    let digits = text.trim_end_matches(char::is_alphabetic);
    let factor = match &text[digits.len()..] {
        "us" => 1.0,
        "ms" => 1_000.0,
        "s" => 1_000_000.0,
        unit => panic!("unknown unit {unit:?} in {text:?}"),
    };
    digits.parse::<f64>().expect("a number") * factor
}
