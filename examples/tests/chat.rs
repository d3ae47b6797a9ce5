//! The `chat` example as its users meet it, and the tutorial that builds it.

mod common;
#[path = "common/server.rs"]
mod server;

use server::Server;

#[test]
fn what_one_client_writes_goes_to_the_others() {
    let server = Server::start("chat");
    let (mut first, mut second) = (server.connect(), server.connect());
    // Each is there once it has got an answer.
    first.ask("/metrics");
    second.ask("/metrics");
    first.write("hello\n");
    assert_eq!(second.line(), format!("{}: hello\n", first.address()));
    second.write("hello yourself\n");
    assert_eq!(first.line(), format!("{}: hello yourself\n", second.address()));
}

#[test]
fn primes_are_counted_and_a_new_count_replaces_the_old() {
    let server = Server::start("chat");
    let mut first = server.connect();
    assert_eq!(first.ask("/primes 10000"), "1229 primes\n");
    assert_eq!(first.ask("/primes 0"), "0 primes\n");
    assert_eq!(first.ask("/primes many"), "invalid digit found in string\n");
    first.write("/primes 4000000000\n");
    assert_eq!(first.ask("/primes 100"), "25 primes\n");
}

#[test]
fn a_stall_is_reported_and_holds_up_no_other_client() {
    // A second worker may serve the other client at once. Then nothing waits, and it is no stall.
    let server = Server::start_with_workers("chat", 1);
    let (mut first, mut second) = (server.connect(), server.connect());
    first.ask("/metrics");
    second.ask("/metrics");
    first.write("/stall\n");
    assert_eq!(second.line(), format!("{}: /stall\n", first.address()));
    assert_eq!(second.ask("/primes 100"), "25 primes\n");
    // Is answered when the stall is over.
    first.ask("/metrics");
    let ended = server.stop();
    let line = include_str!("../examples/chat.rs")
        .lines()
        .position(|line| line.contains("clients.spawn("))
        .expect("the example spawns clients");
    assert!(ended.stderr.contains(&format!("stall: the task of line {} ", line + 1)), "{ended:?}");
}

#[test]
fn the_server_tells_its_clients_that_it_stops() {
    let server = Server::start("chat");
    let (mut first, mut second) = (server.connect(), server.connect());
    first.ask("/metrics");
    second.ask("/metrics");
    first.write("/primes 4000000000\n");
    // The line has been read when the next one is answered.
    first.ask("/metrics");
    let ended = server.stop();
    for client in [&mut first, &mut second] {
        assert_eq!(client.line(), "the server is stopping\n");
        assert_eq!(client.line(), "", "the connection is closed");
    }
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.stdout, "stopping, clients: 2\nall clients have left\n");
}

#[test]
fn the_tutorial_ends_with_the_example() {
    let example = include_str!("../examples/chat.rs");
    let (_, program) = example.split_once("\n\n").expect("the program follows its description");
    let tutorial = include_str!("../../docs/src/tutorial.md");
    assert!(tutorial.contains(program), "docs/src/tutorial.md does not end with examples/chat.rs");
}
