//! Nothing: the tests are beside it, and use Tokio directly.
