//! Disks for QEMU: the images and the rules of Belfry's own machine.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use belfry_machine::{DiskConfig, DiskFormat};
use serde_json::{Value, json};

use crate::error::GuestError;

const QCOW2_MAGIC: [u8; 4] = *b"QFI\xfb";

/// Returns the options of one disk.
///
/// An image that Belfry's own machine refuses is refused here, too. QEMU gets every file of a chain by name, so that
/// it opens no file because an image names it.
pub(super) fn arguments(number: usize, disk: &DiskConfig) -> Result<[String; 4], GuestError> {
    with_writes(number, disk, if disk.read_only { "readonly=on" } else { "snapshot=on" })
}

/// Returns the options of a disk whose image takes the guest's writes.
pub(super) fn kept(number: usize, disk: &DiskConfig) -> Result<[String; 4], GuestError> {
    with_writes(number, disk, if disk.read_only { "readonly=on" } else { "snapshot=off" })
}

fn with_writes(number: usize, disk: &DiskConfig, writes: &str) -> Result<[String; 4], GuestError> {
    disk.check()?;
    let io = |source| GuestError::Io { what: format!("disk {}", disk.path.display()), source };
    let node = node(&disk.path, disk.format, disk.backing.iter().map(AsRef::as_ref)).map_err(io)?;
    // QEMU needs commas in option values doubled.
    let node = node.to_string().replace(',', ",,");
    Ok([
        "-drive".to_owned(),
        format!("if=none,id=disk{number},{writes},file=json:{node}"),
        "-device".to_owned(),
        // A full host disk is an error for the guest; by default QEMU would stop the guest without a message.
        format!("virtio-blk-pci,drive=disk{number},serial=belfry-{number},werror=report"),
    ])
}

/// Returns an image and, below it, the images that it is an overlay of.
fn node<'a>(
    path: &Path,
    format: DiskFormat,
    mut backing: impl Iterator<Item = &'a Path>,
) -> io::Result<Value> {
    let mut magic = Vec::new();
    File::open(path)?.take(QCOW2_MAGIC.len() as u64).read_to_end(&mut magic)?;
    let device = std::os::unix::fs::FileTypeExt::is_block_device(&path.metadata()?.file_type());
    let driver = if device { "host_device" } else { "file" };
    let file = json!({ "driver": driver, "filename": path });
    let qcow2 = match format {
        DiskFormat::Auto => magic == QCOW2_MAGIC,
        DiskFormat::Raw => false,
        DiskFormat::Qcow2 => true,
    };
    if !qcow2 {
        return Ok(json!({ "driver": "raw", "file": file }));
    }
    let below = match backing.next() {
        Some(path) => node(path, DiskFormat::Auto, &mut backing as &mut dyn Iterator<Item = &Path>)?,
        None => Value::Null,
    };
    Ok(json!({ "driver": "qcow2", "file": file, "backing": below }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_become_drives_that_forget_writes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a,b.img");
        std::fs::write(&path, [0; 1024]).unwrap();
        let [_, drive, _, device] = arguments(1, &DiskConfig::new(&path)).unwrap();
        assert!(drive.starts_with("if=none,id=disk1,snapshot=on,file=json:{"), "{drive}");
        assert!(drive.contains("a,,b.img") && drive.contains(r#""driver":"raw""#), "{drive}");
        assert_eq!(device, "virtio-blk-pci,drive=disk1,serial=belfry-1,werror=report");
        let read_only = DiskConfig { read_only: true, ..DiskConfig::new(&path) };
        assert!(arguments(0, &read_only).unwrap()[1].contains("readonly=on"));
        assert!(kept(0, &read_only).unwrap()[1].contains("readonly=on"));
        let [_, drive, ..] = kept(1, &DiskConfig::new(&path)).unwrap();
        assert!(drive.starts_with("if=none,id=disk1,snapshot=off,file=json:{"), "{drive}");
    }

    #[test]
    fn images_that_are_none_are_refused_before_qemu_starts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("odd.img");
        std::fs::write(&path, [0; 1000]).unwrap();
        let error = arguments(0, &DiskConfig::new(&path)).unwrap_err();
        assert!(error.to_string().contains("whole sectors"), "{error}");
        let missing = DiskConfig::new(directory.path().join("missing"));
        assert!(arguments(0, &missing).unwrap_err().to_string().contains("missing"));
    }
}
