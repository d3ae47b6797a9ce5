//! A module for each of Tokio's files, with its doc comments and without its code; `.ci/tokio-tests` adds
//! them.
