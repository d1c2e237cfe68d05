//! LLVM's sources and `llvm-tblgen`'s dump of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::llvm;

/// Source package with the target description.
const PACKAGE: &str = "llvm-toolchain-22";
/// Release of Debian that has it.
const DEBIAN: &str = "trixie";
/// Program that reads it, of the same release.
const TBLGEN: &str = "llvm-tblgen-22";

/// The JSON dump in `work`, made when it is not there.
pub(crate) fn dump(work: &Path) -> Result<PathBuf> {
    let json = work.join("amdgpu.json");
    if json.exists() {
        return Ok(json);
    }
    let tree = tree(work)?;
    let target = tree.join("llvm/lib/Target/AMDGPU");
    let partial = work.join("amdgpu.json.partial");
    note!("{TBLGEN} -dump-json AMDGPU.td (about a minute)");
    run(Command::new(llvm::program(TBLGEN)?)
        .current_dir(&target)
        .args(["-dump-json", "AMDGPU.td", "-I", ".", "-I", "../../../include", "-o"])
        .arg(fs::canonicalize(work)?.join("amdgpu.json.partial")))?;
    fs::rename(&partial, &json)?;
    Ok(json)
}

/// The unpacked source tree in `work`, fetched when it is not there.
pub(crate) fn tree(work: &Path) -> Result<PathBuf> {
    let unpacked = |work: &Path| -> Result<Option<PathBuf>> {
        for entry in fs::read_dir(work)? {
            let path = entry?.path();
            if path.join("llvm/lib/Target/AMDGPU/AMDGPU.td").exists() {
                return Ok(Some(path));
            }
        }
        Ok(None)
    };
    fs::create_dir_all(work).with_context(|| format!("creating {}", work.display()))?;
    if let Some(tree) = unpacked(work)? {
        return Ok(tree);
    }
    let archive = fetch(work)?;
    note!("unpacking {}", archive.display());
    run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(work).args(["--wildcards"]).args([
        "*/llvm/lib/Target/AMDGPU/*",
        "*/llvm/include/*",
        "*/llvm/test/MC/Disassembler/AMDGPU/*",
        "*/llvm/test/MC/AMDGPU/*",
    ]))?;
    unpacked(work)?.context("the source package holds no AMDGPU target")
}

/// Fetches the source package through an apt of its own, from the mirror of Debian that this machine's apt uses.
fn fetch(work: &Path) -> Result<PathBuf> {
    let apt = fs::canonicalize(work)?.join("apt");
    for directory in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(apt.join(directory))?;
    }
    let sources = apt.join("sources.list");
    fs::write(&sources, source_lines()?)?;
    let option = |key: &str, path: &Path| format!("{key}={}", path.display());
    let apt_get = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command
            .current_dir(work)
            .args(["-o", &option("Dir::Etc::SourceList", &sources), "-o", "Dir::Etc::SourceParts=/dev/null"])
            .args(["-o", &option("Dir::State::Lists", &apt.join("lists"))])
            .args(["-o", &option("Dir::Cache", &apt.join("cache"))])
            .args(arguments);
        command
    };
    run(&mut apt_get(&["-q", "update"]))?;
    run(&mut apt_get(&["-q", "source", "--tar-only", "--download-only", PACKAGE]))?;
    for entry in fs::read_dir(work)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with(PACKAGE) && name.contains(".orig.tar") && !name.ends_with(".asc") {
            return Ok(path);
        }
    }
    bail!("apt-get fetched no archive of {PACKAGE}")
}

/// A `deb-src` line for the mirror that the machine's apt has binaries from, of the release that has the package.
fn source_lines() -> Result<String> {
    let output = Command::new("apt-get")
        .args(["indextargets", "--format", "$(SITE)|$(COMPONENT)|$(SIGNED_BY)", "Created-By: Packages"])
        .output()
        .context("running apt-get indextargets")?;
    ensure!(output.status.success(), "apt-get indextargets failed");
    let mut lines: Vec<String> = String::from_utf8(output.stdout)?
        .lines()
        .filter_map(|line| {
            let mut fields = line.split('|');
            let (site, component) = (fields.next()?, fields.next()?);
            let signed = fields.next().filter(|key| key.starts_with('/'));
            let signed = signed.map_or_else(String::new, |key| format!("[signed-by={key}] "));
            // Only Debian's own archive has the package; others need not have sources at all.
            (component == "main" && site.contains("debian") && !site.contains("security"))
                .then(|| format!("deb-src {signed}{site} {DEBIAN} {component}\n"))
        })
        .collect();
    lines.sort();
    lines.dedup();
    ensure!(!lines.is_empty(), "apt has no Debian repository configured");
    Ok(lines.concat())
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("running {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}
