//! Links programs that tests carry into guests, and the binary that they test, without shared libraries, as `belfry` is.

#[path = "../host-vmm/static_pie.rs"]
mod static_pie;

use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    for file in ["build.rs", "../host-vmm/static_pie.rs"] {
        println!("cargo::rerun-if-changed={file}");
    }
    let Some(arguments) = static_pie::arguments()? else { return Ok(()) };
    for argument in &arguments {
        println!("cargo::rustc-link-arg-bin=guest-roles={argument}");
        println!("cargo::rustc-link-arg-bin=belfry-under-test={argument}");
    }
    if static_pie::variable("CARGO_CFG_TARGET_ARCH") == "x86_64" {
        let object = static_pie::entry(Path::new("../host-vmm/start/src"))?;
        for argument in static_pie::entered_at(&object) {
            println!("cargo::rustc-link-arg-bin=belfry-under-test={argument}");
        }
    }
    Ok(())
}
