//! Models: see `tests/models`. Empty unless built with `--cfg loom`.
