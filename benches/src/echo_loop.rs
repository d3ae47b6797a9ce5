//! The limit of an echo server: one thread around `epoll`, without tasks, timers, or anything else.

use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::thread;

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

/// The listener's token; the connections have those below.
const LISTENER: Token = Token(usize::MAX);

/// Sends back what each client of `listener` sends, for ever, on a thread of its own.
pub fn serve(listener: TcpListener) {
    let serve = move || run(listener).expect("the loop has what it needs");
    thread::Builder::new().name("echo".to_owned()).spawn(serve).expect("a thread starts");
}

fn run(listener: TcpListener) -> io::Result<()> {
    let mut poll = Poll::new()?;
    let mut listener = mio::net::TcpListener::from_std(listener);
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut streams: Vec<Option<TcpStream>> = Vec::new();
    let mut free = Vec::new();
    let mut events = Events::with_capacity(1024);
    let mut buffer = [0; 1024];
    loop {
        match poll.poll(&mut events, None) {
            // By a signal, such as that which lets a stopped process go on.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => result?,
        }
        for event in &events {
            let token = event.token();
            if token == LISTENER {
                while let Ok((mut stream, _)) = listener.accept() {
                    stream.set_nodelay(true)?;
                    let index = free.pop().unwrap_or(streams.len());
                    poll.registry().register(&mut stream, Token(index), Interest::READABLE)?;
                    if index == streams.len() {
                        streams.push(None);
                    }
                    streams[index] = Some(stream);
                }
            } else if let Some(stream) = &mut streams[token.0]
                && !echo(stream, &mut buffer)
            {
                streams[token.0] = None;
                free.push(token.0);
            }
        }
    }
}

/// Sends back what is there. Returns false once the client has gone or the socket has failed; a full send
/// buffer counts as a failure. A read that does not fill the buffer was the last one.
fn echo(stream: &mut TcpStream, buffer: &mut [u8]) -> bool {
    loop {
        match stream.read(buffer) {
            Ok(0) => return false,
            Ok(length) => {
                if stream.write_all(&buffer[..length]).is_err() {
                    return false;
                }
                if length < buffer.len() {
                    return true;
                }
            }
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
}
