//! Disks that `belfry image install-driver` and `belfry run --image` refuse before any guest, by the binary.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// Runs belfry, which must fail by itself (status 125); its output.
#[track_caller]
fn refusal(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_belfry")).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{arguments:?}: {said}");
    said
}

fn names(folder: &Path) -> Vec<std::ffi::OsString> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

/// A qcow2 header of version 3 with a backing file's name, of a disk of 1 MiB.
fn overlay() -> Vec<u8> {
    let mut header = vec![0; 4 << 16];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"QFI\xfb\0\0\0\x03");
    // The backing file's name and its length, and clusters of 64 KiB.
    put(8, &[0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 8, 0, 0, 0, 16]);
    put(24, &(1_u64 << 20).to_be_bytes());
    // One entry of the first table, which is the second cluster; counts of references in the third.
    put(36, &1_u32.to_be_bytes());
    put(40, &(1_u64 << 16).to_be_bytes());
    put(48, &(2_u64 << 16).to_be_bytes());
    put(56, &1_u32.to_be_bytes());
    put(96, &4_u32.to_be_bytes());
    put(100, &104_u32.to_be_bytes());
    put(256, b"base.raw");
    header
}

#[test]
fn what_is_no_disk_to_change_is_refused_and_left() {
    let blank = vec![0; 1 << 20];
    let damaged = [&b"QFI\xfb\0\0\0\x03"[..], &[0xff; 1016]].concat();
    let cases: [(&str, &[u8], u32, &str, &str); 10] = [
        ("empty", b"", 0o644, "", "is empty"),
        ("text", b"no disk\n", 0o644, "", "whole sectors"),
        ("read only", &blank, 0o444, "", "chmod u+w"),
        ("read only by its option", &blank, 0o644, ",ro", "is read only"),
        ("a damaged qcow2", &damaged, 0o644, "", "qcow2 disk image"),
        ("a raw disk as qcow2", &blank, 0o644, ",format=qcow2", "qcow2's magic number"),
        ("an overlay without its backing file", &overlay(), 0o644, "", "add `backing="),
        (
            "an overlay whose backing file is missing",
            &overlay(),
            0o644,
            ",backing=/nowhere/base",
            "/nowhere/base",
        ),
        ("a backing file for no overlay", &blank, 0o644, ",backing=/dev/null", "is no overlay"),
        ("an unknown option", &blank, 0o644, ",colour=red", "colour"),
    ];
    for (what, content, mode, options, why) in cases {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk.img");
        fs::write(&disk, content).unwrap();
        fs::set_permissions(&disk, Permissions::from_mode(mode)).unwrap();
        let argument = format!("{}{options}", disk.display());
        let output = Command::new(env!("CARGO_BIN_EXE_belfry"))
            .args(["image", "install-driver", &argument])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{what}: {said}");
        assert_eq!(fs::read(&disk).unwrap(), content, "{what}");
        assert_eq!(names(folder.path()), ["disk.img"], "{what}");
    }
}

#[test]
fn what_is_no_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    assert!(refusal(&["image", "install-driver", &path]).contains("is no file"));
    assert!(refusal(&["image", "install-driver", "/dev/null"]).contains("is no file"));
    assert!(refusal(&["image", "install-driver", "/nowhere/disk.img"]).contains("/nowhere/disk.img"));
}

#[test]
fn disks_that_the_firmware_does_not_boot_are_refused_before_the_machine_starts() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk.raw");
    let path = disk.display().to_string();
    // An MBR with an EFI system partition and no code.
    let mut uefi = vec![0; 1 << 20];
    uefi[446 + 4] = 0xef;
    uefi[510..512].copy_from_slice(&[0x55, 0xaa]);
    // Code and no such partition.
    let mut bios = vec![0; 1 << 20];
    bios[0] = 0xeb;
    bios[510..512].copy_from_slice(&[0x55, 0xaa]);
    let cases: [(_, &[&str], _); 3] = [
        (vec![0; 1 << 20], &[], "no boot loader"),
        (uefi, &["--firmware", "bios"], "boots by UEFI alone"),
        (bios, &["--firmware", "uefi"], "no EFI system partition"),
    ];
    for (content, firmware, why) in cases {
        fs::write(&disk, content).unwrap();
        for how in [&["--interactive"][..], &["--ssh"], &["--", "true"]] {
            let said = refusal(&[&["run", "--image", &path][..], firmware, how].concat());
            assert!(said.contains(why), "{how:?}: {said}");
        }
    }
    assert!(refusal(&["run", "--firmware", "uefi"]).contains("add --image PATH"));
}
