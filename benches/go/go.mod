module benches

go 1.19
