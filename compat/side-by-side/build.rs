//! Makes the code around the gRPC service: what `tonic-prost-build` would make of a .proto file, for which it
//! would need `protoc`.

use tonic_build::manual::{Builder, Method, Service};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let hello = Method::builder()
        .name("hello")
        .route_name("Hello")
        .input_type("crate::rpc::Name")
        .output_type("crate::rpc::Greeting")
        .codec_path("tonic_prost::ProstCodec")
        .build();
    Builder::new().compile(&[Service::builder().package("side").name("Greeter").method(hello).build()]);
}
