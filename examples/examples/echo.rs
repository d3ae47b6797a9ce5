//! Sends back whatever a client sends: `cargo run --release --example echo`, then `nc 127.0.0.1 6142`.

#[runtime::main]
async fn main() -> std::io::Result<()> {
    let listener = runtime::net::TcpListener::bind("127.0.0.1:6142").await?;
    loop {
        let (mut socket, _) = listener.accept().await?;
        runtime::spawn(async move {
            let (mut reader, mut writer) = socket.split();
            runtime::io::copy(&mut reader, &mut writer).await
        });
    }
}
