//! Tables in the documentation that the code knows better: they must be what the code says.
//!
//! `BLESS=1 cargo test -p belfry-tests --test docs` writes them anew.

use std::fmt::Write as _;
use std::path::Path;

use belfry_abi::kfd::ioctl::{COMMANDS, ioc_nr, ioc_size};
use belfry_kfd_core::ioctl::REFUSED;

/// `docs/ioctls.md` as the driver's own tables give it.
fn ioctls() -> String {
    let mut text = String::from(
        "# KFD ioctls\n\n\
         What the guest driver does with every command of `/dev/kfd`. A number outside the table is answered `ENOTTY`.\n\
         Commands of an older size are extended with zeros, and as much is copied back as the caller has room for.\n\n\
         | number | command | bytes | state |\n| --- | --- | --- | --- |\n",
    );
    for &(name, command) in COMMANDS {
        let state = REFUSED.iter().find(|refused| refused.command == command).map_or_else(
            || "complete".to_owned(),
            |refused| format!("absent: {:?}, {}", refused.errno, refused.reason),
        );
        let _ = writeln!(text, "| {:#04x} | {name} | {} | {state} |", ioc_nr(command), ioc_size(command));
    }
    text
}

#[test]
fn ioctl_table_is_the_drivers() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/ioctls.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, ioctls()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert_eq!(written, ioctls(), "docs/ioctls.md is stale: BLESS=1 cargo test -p belfry-tests --test docs");
}
