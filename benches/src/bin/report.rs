//! Measures everything beside its peers and writes the page: `cargo run --release -p benches --bin report`.
//!
//! `--quick` takes two minutes at most, to see that everything works. `--out DIRECTORY` (`docs/performance`)
//! is the folder for `report.md` and its pictures. `--before PROGRAM` measures this program beside one that
//! another commit built, and beside no other peer. Every other word selects the loads with this word in their
//! names. See [`benches::report`].

use std::fs;
use std::io;
use std::path::PathBuf;

use benches::report::run::{self, Options};
use benches::report::{before, child, plot, render};

fn main() -> io::Result<()> {
    benches::client::run_if_asked();
    child::run_if_asked();

    let mut options = Options::default();
    let mut directory = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/performance"));
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => options.is_quick = true,
            "--out" => directory = arguments.next().expect("`--out` is followed by a directory").into(),
            "--before" => {
                let program = arguments.next().expect("`--before` is followed by a program");
                before::PROGRAM.set(program.into()).expect("`--before` is said once");
            }
            flag if flag.starts_with('-') => {
                panic!("unknown option {flag:?}; there are --quick, --out and --before")
            }
            _ => options.filters.push(argument),
        }
    }
    fs::create_dir_all(&directory)?;

    let results = run::run(&options);
    for (name, picture) in plot::pictures(&results) {
        fs::write(directory.join(name).with_extension("svg"), picture)?;
    }
    let page = directory.join("report.md");
    fs::write(&page, render::page(&results))?;
    eprintln!("{}", page.display());
    Ok(())
}
