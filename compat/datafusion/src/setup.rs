//! What may be chosen on the command line.

use std::str::FromStr;

/// What is served beside the queries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Service {
    /// Each connection gets back what it sends.
    Echo,
    /// HTTP/1 by axum.
    Axum,
}

impl Service {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Axum => "axum",
        }
    }

    pub const fn connections(self) -> usize {
        match self {
            Self::Echo => 16,
            Self::Axum => 64,
        }
    }

    /// Requests a second on each connection.
    pub const fn rate(self) -> u32 {
        match self {
            Self::Echo => 100,
            Self::Axum => 50,
        }
    }
}

impl FromStr for Service {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = [Self::Echo, Self::Axum].into_iter().find(|service| service.name() == name);
        known.ok_or_else(|| format!("the service is `echo` or `axum`, got `{name}`"))
    }
}

/// Where the queries run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Layout {
    /// On the runtime that serves.
    One,
    /// On a runtime of their own.
    Two,
    /// Nowhere: each ran once, to open the tables.
    Idle,
}

impl Layout {
    pub const fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Two => "two",
            Self::Idle => "idle",
        }
    }
}

impl FromStr for Layout {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = [Self::One, Self::Two, Self::Idle].into_iter().find(|layout| layout.name() == name);
        known.ok_or_else(|| format!("the layout is `one`, `two` or `idle`, got `{name}`"))
    }
}
