//! The images that podman and docker load: the binary alone, as it needs no library, or over a root file system.
//!
//! Layout: OCI image specification 1.1, an archive of an image layout with gzip layers. Beside it is the list by which docker before
//! version 25 loads an image, which names the same blobs.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use flate2::{Compression, GzBuilder};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::stage::Stage;
use super::tarball::{archive_into, archive_of_modes};
use super::{hex, sha256};

/// The root file system below the binary: its name and its tree.
pub(super) struct Base<'a> {
    pub(super) name: &'a str,
    pub(super) tree: &'a Path,
}

/// A layer in the blobs: its descriptor, and the hash of its content before it was packed.
struct Layer {
    descriptor: Value,
    diff: String,
}

pub(super) fn write(stage: &Stage, base: Option<&Base<'_>>, into: &Path) -> Result<PathBuf> {
    let scratch = tempfile::tempdir_in(into)?;
    let root = scratch.path().join("root");
    stage.unpack(&root, "usr")?;
    // Programs of any user write there.
    let open = scratch.path().join("open");
    fs::create_dir_all(open.join("tmp"))?;
    let image = scratch.path().join("image");
    let blobs = image.join("blobs/sha256");
    fs::create_dir_all(&blobs)?;
    let mut layers = Vec::new();
    for tree in base.map(|base| base.tree).into_iter().chain([root.as_path()]) {
        layers.push(layer(&blobs, |file| archive_into(file, tree, ".", stage.time))?);
    }
    layers.push(layer(&blobs, |file| archive_of_modes(file, &open, "tmp", (stage.time, "1777")))?);
    let blob = |kind: &str, content: &[u8]| -> Result<Value> {
        let hash = sha256(content);
        fs::write(blobs.join(&hash), content)?;
        Ok(json!({ "mediaType": kind, "digest": format!("sha256:{hash}"), "size": content.len() }))
    };
    let created = timestamp(stage.time)?;
    let (path, start) = if base.is_some() {
        ("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "Cmd")
    } else {
        ("/usr/bin", "Entrypoint")
    };
    let step = json!({ "created": created, "created_by": "cargo xtask package" });
    let config = json!({
        "created": created, "architecture": "amd64", "os": "linux",
        "config": { start: ["/usr/bin/belfry"], "Env": [format!("PATH={path}"), "HOME=/tmp"] },
        "rootfs": { "type": "layers", "diff_ids": layers.iter().map(|layer| &layer.diff).collect::<Vec<_>>() },
        "history": vec![step; layers.len()],
    });
    let config = blob("application/vnd.oci.image.config.v1+json", config.to_string().as_bytes())?;
    let files: Vec<_> = layers.iter().map(|layer| place(&layer.descriptor)).collect();
    let older = |name: &str| json!([{ "Config": place(&config), "RepoTags": [name], "Layers": files }]);
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config, "layers": layers.iter().map(|layer| &layer.descriptor).collect::<Vec<_>>(),
    });
    let mut manifest = blob("application/vnd.oci.image.manifest.v1+json", manifest.to_string().as_bytes())?;
    let suffix = base.map(|base| format!("-{}", base.name)).unwrap_or_default();
    let name = format!("belfry:{}{suffix}", stage.version);
    manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": name });
    let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
    fs::write(image.join("index.json"), index.to_string())?;
    fs::write(image.join("manifest.json"), older(&name).to_string())?;
    fs::write(image.join("oci-layout"), json!({ "imageLayoutVersion": "1.0.0" }).to_string())?;
    let path = into.join(format!("belfry-{}{suffix}-oci.tar", stage.version));
    archive_into(&path, &image, ".", stage.time)?;
    Ok(path)
}

/// Returns the file of an image that a descriptor names; `None` if it names none.
pub(super) fn place(descriptor: &Value) -> Option<String> {
    let hash = descriptor["digest"].as_str()?.strip_prefix("sha256:")?;
    Some(format!("blobs/sha256/{hash}"))
}

/// Packs the archive that `write` writes into the blobs. A root file system is too large to be held in memory.
fn layer(blobs: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<Layer> {
    let archive = tempfile::NamedTempFile::new_in(blobs)?;
    write(archive.path())?;
    let packed = tempfile::NamedTempFile::new_in(blobs)?;
    let writer = Hashing::new(BufWriter::new(packed.as_file()));
    let mut packing = GzBuilder::new().mtime(0).write(writer, Compression::new(6));
    let mut plain = Hashing::new(&mut packing);
    io::copy(&mut BufReader::new(File::open(archive.path())?), &mut plain)?;
    let diff = plain.digest();
    let mut written = packing.finish()?;
    written.flush()?;
    let (size, hash) = (written.bytes, written.digest());
    drop(archive);
    packed.persist(blobs.join(&hash)).context("naming a layer")?;
    let kind = "application/vnd.oci.image.layer.v1.tar+gzip";
    let descriptor = json!({ "mediaType": kind, "digest": format!("sha256:{hash}"), "size": size });
    Ok(Layer { descriptor, diff: format!("sha256:{diff}") })
}

/// A writer that hashes and counts the bytes that go through it.
struct Hashing<W> {
    inner: W,
    hash: Sha256,
    bytes: u64,
}

impl<W> Hashing<W> {
    fn new(inner: W) -> Self {
        Self { inner, hash: Sha256::new(), bytes: 0 }
    }

    fn digest(self) -> String {
        hex(&self.hash.finalize())
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(content)?;
        self.hash.update(&content[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Returns the tree of the root file system `name`, which belfry makes if it is not there.
pub(super) fn tree(belfry: &Path, name: &str) -> Result<PathBuf> {
    let mut command = Command::new(belfry);
    command.args(["image", "--rootfs", name]);
    let output = command.stderr(std::process::Stdio::inherit()).output().context("starting belfry")?;
    anyhow::ensure!(output.status.success(), "belfry image --rootfs {name}: {}", output.status);
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim_end()))
}

/// RFC 3339 of seconds since 1970.
pub(super) fn timestamp(seconds: u64) -> Result<String> {
    Ok(Timestamp::from_second(seconds.try_into()?)?.to_string())
}
