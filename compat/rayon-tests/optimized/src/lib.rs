//! Empty: `.ci/rayon-tests` moves tests into the folder `tests`.
