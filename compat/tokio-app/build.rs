//! Makes what the program's source refers to: the database that `query!` asks about each query while the
//! program is compiled, and the code around the gRPC service. The program itself makes a database of its own.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};
use tonic_build::manual::{self, Method, Service};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=schema.sql");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("Cargo sets OUT_DIR")?);

    let database = out.join("schema.db");
    tokio::runtime::Runtime::new()?.block_on(make(&database))?;
    println!("cargo::rustc-env=DATABASE_URL=sqlite:{}", database.display());

    // What `tonic-prost-build` would make of a .proto file, for which it would need `protoc`.
    manual::Builder::new().out_dir(out).compile(&[primes()]);
    Ok(())
}

/// Makes an empty database with the program's tables.
async fn make(database: &Path) -> Result<(), Box<dyn Error>> {
    match fs::remove_file(database) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let options = SqliteConnectOptions::new().filename(database).create_if_missing(true);
    let mut connection = options.connect().await?;
    sqlx::raw_sql(include_str!("schema.sql")).execute(&mut connection).await?;
    Ok(connection.close().await?)
}

fn primes() -> Service {
    let method = || Method::builder().input_type("crate::rpc::Below").codec_path("tonic_prost::ProstCodec");
    Service::builder()
        .package("app")
        .name("Primes")
        .method(method().name("count").route_name("Count").output_type("crate::rpc::Count").build())
        .method(
            method()
                .name("list")
                .route_name("List")
                .output_type("crate::rpc::Prime")
                .server_streaming()
                .build(),
        )
        .build()
}
