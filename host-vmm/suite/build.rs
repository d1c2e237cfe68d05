//! Lists the sources of `tests/programs` that the suite is made of, so that the library carries them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Folders of `tests/programs` that are the suite's, and the extensions of its files there.
const FOLDERS: [(&str, &[&str]); 8] = [
    ("hip", &["hip", "h"]),
    ("hsa", &["c", "cl", "h"]),
    ("libdrm", &["c", "h"]),
    ("opencl", &["c", "h"]),
    ("process", &["hip", "c", "h"]),
    ("rccl", &["hip"]),
    ("thunk", &["c", "cl", "h"]),
    ("vulkan", &["c", "comp", "h"]),
];
/// Header that all of them share.
const SHARED: &str = "cases.h";

fn main() -> io::Result<()> {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or(io::ErrorKind::NotFound)?);
    let programs = manifest.join("../../tests/programs").canonicalize()?;
    let mut files = vec![SHARED.to_owned()];
    for (folder, extensions) in FOLDERS {
        // Files that come and go change the folder.
        println!("cargo::rerun-if-changed={}", programs.join(folder).display());
        for entry in fs::read_dir(programs.join(folder))? {
            let path = entry?.path();
            let extension = path.extension().and_then(|extension| extension.to_str());
            if let (Some(extension), Some(name)) =
                (extension, path.file_name().and_then(|name| name.to_str()))
                && extensions.contains(&extension)
            {
                files.push(format!("{folder}/{name}"));
            }
        }
    }
    files.sort();
    let mut list = String::from("&[\n");
    for name in &files {
        let path = programs.join(name);
        let _ = writeln!(list, "    ({name:?}, include_str!({:?})),", path.display().to_string());
    }
    list.push(']');
    let output = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    fs::write(Path::new(&output).join("files.rs"), list)
}
