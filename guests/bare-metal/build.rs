//! Hands the linker its script.

fn main() {
    println!("cargo::rerun-if-changed=link.ld");
    // Cargo starts the linker in this directory. An absolute path would outlive a checkout that moves: the output of
    // this program is kept in a target directory that all checkouts share.
    println!("cargo::rustc-link-arg-bins=-Tlink.ld");
}
