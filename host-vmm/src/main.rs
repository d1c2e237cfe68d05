//! The belfry binary.
fn main() {}
