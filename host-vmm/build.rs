//! Links the `belfry` command without shared libraries, where the C library's archives are there.
//!
//! `belfry exec` stands in front of every program of a build or a test run, so a program that never opens the GPU pays
//! for its start. A third of that start was the dynamic loader's: finding and mapping three libraries, and binding
//! their symbols. Code that needs a shared library is a program of its own (`host-vmm/opencl`).
//!
//! Such a binary is entered at `belfry_start` (`host-vmm/start`), which starts a program at once that was prepared before.

mod static_pie;

use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    for file in ["build.rs", "static_pie.rs"] {
        println!("cargo::rerun-if-changed={file}");
    }
    let Some(mut arguments) = static_pie::arguments()? else { return Ok(()) };
    if static_pie::variable("CARGO_CFG_TARGET_ARCH") == "x86_64" {
        let object = static_pie::entry(Path::new("start/src"))?;
        println!("cargo::rustc-env=BELFRY_START_OBJECT={}", object.display());
        arguments.extend(static_pie::entered_at(&object));
    }
    for argument in arguments {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
    Ok(())
}
