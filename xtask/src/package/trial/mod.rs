//! Each package installed and used where no Rust is: in a folder of its own, and in a root file system with ROCm.

mod containers;
mod recipes;
mod root;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::Artefact;
use super::oci;
use super::stage::{said, tool};
use root::Root;

/// Chip that `rocminfo` names.
const CHIP: &str = "gfx1100";

/// Installs each of `made`, and runs a kernel and ROCm's own programs with what was installed. `rocm` is a tree with ROCm and without
/// Rust.
pub(super) fn all(tree: &Path, folder: &Path, made: &[Artefact], rocm: &Path, version: &str) -> Result<()> {
    for Artefact { name, .. } in made {
        let path = folder.join(name);
        let scratch = tempfile::tempdir()?;
        let belfry = match name {
            name if name.ends_with(".tar.gz") => {
                tool(Command::new("tar").arg("-xzf").arg(&path).arg("-C").arg(scratch.path()))?;
                scratch.path().join(name.trim_end_matches(".tar.gz")).join("bin/belfry")
            }
            name if name.starts_with("belfry_") => {
                tool(Command::new("dpkg-deb").arg("-x").arg(&path).arg(scratch.path()))?;
                scratch.path().join("usr/bin/belfry")
            }
            name if name.ends_with(".whl") => wheel(&path, scratch.path())?,
            name if name.ends_with("-oci.tar") => {
                let image = image(&path, scratch.path())?;
                load(&path, name, version)?;
                image
            }
            name if name.starts_with("belfry-amdgpu-dkms") => {
                let fields = Command::new("dpkg-deb").arg("--info").arg(&path).output()?;
                let text = String::from_utf8_lossy(&fields.stdout);
                ensure!(text.contains("Depends: dkms"), "{name}: {text}");
                say!("{name}: contents looked at; `cargo xtask own-system` installs it in a guest");
                continue;
            }
            _ => continue,
        };
        works(&belfry, scratch.path(), version).with_context(|| format!("{name} does not work"))?;
        say!("{name}: installed, and its GPU added two vectors");
        if let Some(install) = in_a_root(name) {
            let root = Root::of(rocm)?;
            install(&path, &root)?;
            let said = root.run("/", &["belfry", "exec", "--chip", CHIP, "--", "rocminfo"])?;
            ensure!(said.contains(CHIP), "{name}: rocminfo in a root file system says {said}");
            say!("{name}: in a root file system with ROCm and without Rust, rocminfo lists {CHIP}");
            if name.ends_with(".deb") {
                recipes::services(tree, &root)?;
            }
        }
        if name.ends_with(".tar.gz") {
            recipes::ctest(&belfry, scratch.path()).context("CTest's launcher")?;
            recipes::cargo(&belfry, scratch.path()).context("cargo's runner")?;
        }
        if name.ends_with(".whl") {
            plugin(&belfry, scratch.path()).with_context(|| format!("the plugin of pytest in {name}"))?;
            say!("{name}: pytest --belfry found the GPU, and reported what it did");
        }
    }
    Ok(())
}

/// Returns the way to install a package in a root file system, if it is one that is installed there.
fn in_a_root(name: &str) -> Option<fn(&Path, &Root) -> Result<()>> {
    let debian =
        |path: &Path, root: &Root| tool(Command::new("dpkg-deb").arg("-x").arg(path).arg(root.path()));
    let tarball = |path: &Path, root: &Root| {
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(path).arg("--strip-components=1").arg("-C");
        tool(tar.arg(root.folder("usr/local")?))
    };
    let python = |path: &Path, root: &Root| {
        let program = wheel(path, &root.folder("opt/python")?)?;
        let inside = Path::new("/").join(program.strip_prefix(root.path())?);
        symlink(inside, root.folder("usr/local/bin")?.join("belfry")).context("a link in /usr/local/bin")
    };
    match name {
        name if name.ends_with(".tar.gz") => Some(tarball),
        name if name.starts_with("belfry_") => Some(debian),
        name if name.ends_with(".whl") => Some(python),
        _ => None,
    }
}

/// Has podman load an image, and run a program in it: rocminfo if the image has ROCm.
fn load(path: &Path, name: &str, version: &str) -> Result<()> {
    let base = name.strip_prefix(&format!("belfry-{version}")).and_then(|rest| rest.strip_suffix("-oci.tar"));
    let base = base.context("an image of another version")?;
    let (program, expected): (&[&str], _) = match base {
        "" => (&["run", "--mode", "hosted", "--", "vector-add"], "floats verified"),
        _ => (&["belfry", "exec", "--", "rocminfo"], CHIP),
    };
    if containers::podman(path, &format!("belfry:{version}{base}"), program, expected)? {
        say!("{name}: loaded by podman, and {} ran in a container of it", program.last().unwrap_or(&""));
    } else {
        say!("{name}: not loaded by an engine, as there is no podman");
    }
    Ok(())
}

/// Installs by pip, in an environment of its own.
fn wheel(path: &Path, scratch: &Path) -> Result<PathBuf> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check"]);
    tool(pip.arg("--root-user-action=ignore").arg("--prefix").arg(scratch).arg(path))?;
    // Debian's pip installs below `local` in a prefix.
    ["bin/belfry", "local/bin/belfry"]
        .map(|program| scratch.join(program))
        .into_iter()
        .find(|program| program.exists())
        .context("pip has installed no program")
}

/// Runs two tests, one of which fails, by pytest from Python's index, with the plugin that was installed.
fn plugin(belfry: &Path, scratch: &Path) -> Result<()> {
    let libraries = scratch.join("pytest");
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore"]);
    tool(pip.arg("--target").arg(&libraries).arg("pytest==8.4.2"))?;
    let site = site_packages(scratch).context("pip has installed no plugin")?;
    // In a folder of their own: pytest looks for tests in everything below, and the cache has links that lead into /sys.
    let tests = scratch.join("tests");
    fs::create_dir(&tests)?;
    fs::write(
        tests.join("test_gpu.py"),
        "import os\ndef test_there():\n    assert len(os.listdir('/sys/class/kfd/kfd/topology/nodes')) == 3\n\
         def test_fails():\n    assert not os.path.exists('/dev/kfd')\n",
    )?;
    let output = Command::new("python3")
        .args([
            "-m",
            "pytest",
            "-q",
            "--belfry",
            "gfx942",
            "--belfry-option=--gpus=2",
            "--junitxml=report.xml",
        ])
        .current_dir(&tests)
        .env("PATH", format!("{}:/usr/bin:/bin", belfry.parent().unwrap_or(scratch).display()))
        .env("PYTHONPATH", std::env::join_paths([libraries, site])?)
        .env("BELFRY_CACHE", scratch.join("cache"))
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let report = fs::read_to_string(tests.join("report.xml")).unwrap_or_default();
    let told = said.contains("1 failed, 1 passed") && said.contains("belfry: gfx942 refused nothing");
    ensure!(
        output.status.code() == Some(1) && told && report.contains("belfry.dispatches"),
        "{}: {said}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Returns the folder below a prefix that has the plugin.
fn site_packages(prefix: &Path) -> Option<PathBuf> {
    let python = |below: &str| fs::read_dir(prefix.join(below)).into_iter().flatten().flatten();
    let versions = python("lib").chain(python("local/lib")).map(|entry| entry.path());
    versions
        .flat_map(|version| ["site-packages", "dist-packages"].map(|name| version.join(name)))
        .find(|site| site.join("belfry_pytest.py").exists())
}

/// Unpacks the image's layers.
fn image(path: &Path, scratch: &Path) -> Result<PathBuf> {
    tool(Command::new("tar").arg("-xf").arg(path).arg("-C").arg(scratch))?;
    let read = |name: &str| -> Result<serde_json::Value> {
        serde_json::from_slice(&fs::read(scratch.join(name))?).with_context(|| name.to_owned())
    };
    let blob = |value: &serde_json::Value| oci::place(value).context("no digest");
    let manifest = read(&blob(&read("index.json")?["manifests"][0])?)?;
    let root = scratch.join("root");
    fs::create_dir(&root)?;
    for layer in manifest["layers"].as_array().context("no layers")? {
        tool(Command::new("tar").arg("-xzf").arg(scratch.join(blob(layer)?)).arg("-C").arg(&root))?;
    }
    Ok(root.join("usr/bin/belfry"))
}

/// Runs a kernel in the program's process, with a cache of its own and without Rust.
fn works(belfry: &Path, scratch: &Path, version: &str) -> Result<()> {
    let programs = scratch.join("no-rust");
    fs::create_dir(&programs)?;
    for name in ["cargo", "rustc"] {
        let program = programs.join(name);
        fs::write(&program, "#!/bin/sh\necho \"$0 was called\" >&2\nexit 1\n")?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    }
    let run = |arguments: &[&str]| -> Result<String> {
        let mut command = Command::new(belfry);
        command.args(arguments).env_clear();
        command.env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
        command.env("HOME", scratch).env("BELFRY_CACHE", scratch.join("cache"));
        said(&mut command, &format!("{} {}", belfry.display(), arguments.join(" ")))
    };
    let text = run(&["--version"])?;
    ensure!(text.contains(version), "--version says {text:?}");
    let text = run(&["run", "--mode", "hosted", "--", "vector-add"])?;
    ensure!(text.contains("floats verified"), "vector-add says {text:?}");
    Ok(())
}
