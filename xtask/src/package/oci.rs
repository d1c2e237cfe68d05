//! The image that podman and docker load: the binary alone, as it needs no library.
//!
//! Layout: OCI image specification 1.1, an archive of an image layout with one gzip layer.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::sha256;
use super::stage::Stage;
use super::tarball::{archive, packed};

pub(super) fn write(stage: &Stage, into: &Path) -> Result<PathBuf> {
    let scratch = tempfile::tempdir()?;
    let root = scratch.path().join("root");
    stage.unpack(&root, "usr")?;
    // Programs that are run in the image write there.
    fs::create_dir_all(root.join("tmp"))?;
    let layer = archive(&root, ".", stage.time)?;
    let blobs = scratch.path().join("image/blobs/sha256");
    fs::create_dir_all(&blobs)?;
    let blob = |kind: &str, content: &[u8]| -> Result<Value> {
        let hash = sha256(content);
        fs::write(blobs.join(&hash), content)?;
        Ok(json!({ "mediaType": kind, "digest": format!("sha256:{hash}"), "size": content.len() }))
    };
    let diff = format!("sha256:{}", sha256(&layer));
    let created = timestamp(stage.time)?;
    let layer = blob("application/vnd.oci.image.layer.v1.tar+gzip", &packed(&layer)?)?;
    let config = json!({
        "created": created, "architecture": "amd64", "os": "linux",
        "config": { "Entrypoint": ["/usr/bin/belfry"], "Env": ["PATH=/usr/bin", "HOME=/tmp"] },
        "rootfs": { "type": "layers", "diff_ids": [diff] },
        "history": [{ "created": created, "created_by": "cargo xtask package" }],
    });
    let config = blob("application/vnd.oci.image.config.v1+json", config.to_string().as_bytes())?;
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config, "layers": [layer],
    });
    let mut manifest = blob("application/vnd.oci.image.manifest.v1+json", manifest.to_string().as_bytes())?;
    manifest["annotations"] =
        json!({ "org.opencontainers.image.ref.name": format!("belfry:{}", stage.version) });
    let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
    let image = scratch.path().join("image");
    fs::write(image.join("index.json"), index.to_string())?;
    fs::write(image.join("oci-layout"), json!({ "imageLayoutVersion": "1.0.0" }).to_string())?;
    let path = into.join(format!("belfry-{}-oci.tar", stage.version));
    fs::write(&path, archive(&image, ".", stage.time)?)
        .with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

/// RFC 3339 of seconds since 1970.
pub(super) fn timestamp(seconds: u64) -> Result<String> {
    Ok(Timestamp::from_second(seconds.try_into()?)?.to_string())
}
