//! Makes the code around the gRPC service: what `tonic-prost-build` would make of a .proto file, for which it
//! would need `protoc`.

use tonic_build::manual::{Builder, Method, Service};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let service = [
        ("append", "Append"),
        ("vote", "Vote"),
        ("snapshot", "Snapshot"),
        ("write", "Write"),
        ("read", "Read"),
        ("state", "State"),
    ]
    .into_iter()
    .fold(Service::builder().package("cluster").name("Node"), |service, (name, route)| {
        let method = Method::builder()
            .name(name)
            .route_name(route)
            .input_type("crate::wire::Json")
            .output_type("crate::wire::Json")
            .codec_path("tonic_prost::ProstCodec");
        service.method(method.build())
    });
    Builder::new().compile(&[service.build()]);
}
