//! The `echo` example is the program that the README and the book show.

#[test]
fn the_readme_and_the_book_show_the_example() {
    let example = include_str!("../examples/echo.rs");
    let (_, program) = example.split_once("\n\n").expect("the program follows its description");
    for (name, page) in [
        ("README.md", include_str!("../../README.md")),
        ("docs/src/introduction.md", include_str!("../../docs/src/introduction.md")),
    ] {
        assert!(page.contains(program), "{name} does not show examples/echo.rs");
    }
}
