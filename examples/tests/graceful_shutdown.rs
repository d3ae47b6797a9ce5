//! The `graceful_shutdown` example as its users meet it.

mod common;
#[path = "common/server.rs"]
mod server;

use server::Server;

#[test]
fn an_answer_that_was_begun_is_sent_and_idle_connections_end() {
    let server = Server::start("graceful_shutdown");
    let (mut busy, mut idle) = (server.connect(), server.connect());
    assert_eq!(idle.ask("one"), "done: one\n");
    busy.write("one\ntwo\n");
    assert_eq!(busy.line(), "done: one\n");
    // Both connections have been accepted. The second line came with the first; this leaves time for it to be
    // read.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let ended = server.stop();
    assert_eq!(idle.line(), "");
    assert_eq!(busy.line(), "done: two\n");
    assert_eq!(busy.line(), "");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.stdout, "stopping with 2 connections\nevery answer was sent\n");
}
