//! Models: code whose correctness is an order of steps between threads, in every order those steps can take.
//!
//! Each test takes the very file the product is built from and runs it on [loom](https://docs.rs/loom)'s atomics, locks
//! and condition variables, which go through the executions the memory model allows and fail at the first bad one.
