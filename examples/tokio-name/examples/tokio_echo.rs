//! An echo server as it is written for Tokio: everything that is sent to it comes back.

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:6142").await?;
    loop {
        let (mut socket, _) = listener.accept().await?;
        tokio::spawn(async move {
            let (mut r, mut w) = socket.split();
            tokio::io::copy(&mut r, &mut w).await
        });
    }
}
