module lbcf.tkestack.io/tests/interop/gobigip

go 1.26.8

require github.com/scottdware/go-bigip v0.0.0-20240809002616-deb9b0aff84a
