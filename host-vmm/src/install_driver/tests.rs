//! Tests of the guest's script on trees of files, and of the reading of its words.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use super::*;

/// Runs `guest.sh look` on a tree; returns its answer.
fn look(tree: &TempDir) -> Answer {
    let script = tree.path().join("guest.sh");
    fs::write(&script, SCRIPT).unwrap();
    let mut command = Command::new("sh");
    command.arg(&script).arg("look").env("BELFRY_ROOT", tree.path());
    let output = command.output().unwrap();
    Answer::parse(&String::from_utf8(output.stdout).unwrap())
}

/// Makes a tree of files, each with its content.
fn tree(files: &[(&str, &str)]) -> TempDir {
    let tree = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = tree.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    tree
}

const TOOLS: [(&str, &str); 4] =
    [("usr/bin/dpkg", ""), ("usr/sbin/dkms", ""), ("usr/bin/gcc", ""), ("usr/bin/make", "")];
const KERNEL: [(&str, &str); 3] = [
    ("lib/modules/6.12.107+deb13-amd64/modules.builtin", ""),
    ("boot/config-6.12.107+deb13-amd64", "CONFIG_DRM=m\n"),
    ("usr/src/linux-headers-6.12.107+deb13-amd64/Makefile", ""),
];
const CLOUD: [(&str, &str); 2] = [
    ("lib/modules/6.12.107+deb13-cloud-amd64/modules.builtin", ""),
    ("boot/config-6.12.107+deb13-cloud-amd64", "# CONFIG_DRM is not set\n"),
];
const OLD: [(&str, &str); 2] =
    [("lib/modules/6.1.0-40-amd64/modules.builtin", ""), ("boot/config-6.1.0-40-amd64", "CONFIG_DRM=m\n")];

#[test]
fn kernels_are_found_and_those_that_cannot_have_the_driver_are_told() {
    let answer = look(&tree(&[&TOOLS[..], &KERNEL, &CLOUD, &OLD].concat()));
    assert_eq!(answer.kernels, ["6.12.107+deb13-amd64"]);
    assert_eq!(
        answer.skipped,
        [
            "6.1.0-40-amd64: it is older than 6.12",
            "6.12.107+deb13-cloud-amd64: it has no CONFIG_DRM, as Debian's cloud kernels"
        ]
    );
    assert_eq!((answer.missing, answer.refused), (Vec::new(), None));
}

#[test]
fn kernel_without_a_configuration_is_judged_by_its_modules() {
    let builtin = ("lib/modules/7.2.13-amd64/modules.builtin", "");
    let drm = ("lib/modules/7.2.13-amd64/kernel/drivers/gpu/drm/drm.ko.xz", "");
    assert_eq!(look(&tree(&[&TOOLS[..], &[builtin, drm]].concat())).kernels, ["7.2.13-amd64"]);
    let refused = look(&tree(&[&TOOLS[..], &[builtin]].concat())).refused.unwrap();
    assert!(refused.contains("7.2.13-amd64: it has no modules of DRM"), "{refused}");
}

#[test]
fn what_building_lacks_is_named() {
    let answer = look(&tree(&[&TOOLS[..1], &KERNEL[..2]].concat()));
    assert_eq!(answer.missing, ["dkms", "gcc", "make", "linux-headers-6.12.107+deb13-amd64"]);
    assert_eq!((answer.kernels.len(), answer.refused), (1, None));
}

#[test]
fn trees_that_cannot_have_the_driver_are_refused_with_the_fix() {
    let cases = [
        (tree(&KERNEL), "no dpkg"),
        (tree(&TOOLS), "no kernel below /lib/modules"),
        (tree(&[&TOOLS[..], &CLOUD].concat()), "install linux-image-amd64 of Debian 13"),
        (tree(&[&TOOLS[..], &OLD].concat()), "older than 6.12"),
        // A folder that a removed kernel left behind.
        (tree(&[&TOOLS[..], &[("lib/modules/6.12.1/updates/x.ko", "")]].concat()), "no kernel below"),
    ];
    for (tree, why) in cases {
        let refused = look(&tree).refused.unwrap_or_else(|| panic!("not refused: {why}"));
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn lines_of_others_mean_nothing() {
    let answer = Answer::parse("Reading database\nkernel 6.12\nkernels 1\n\nrefused it is full; free some\n");
    assert_eq!((answer.kernels.as_slice(), answer.skipped.len()), (&["6.12".to_owned()][..], 0));
    assert_eq!(answer.refused.as_deref(), Some("it is full; free some"));
}

#[test]
fn what_a_system_says_does_nothing_to_the_terminal() {
    let answer = Answer::parse("kernel 6.12\nskipped 6.1\u{1b}]0;title\u{7} (old)\r\nrefused \u{9b}2J\n");
    assert_eq!(answer.kernels, ["6.12"]);
    assert_eq!(answer.skipped, ["6.1\u{fffd}]0;title\u{fffd} (old)\u{fffd}"]);
    assert_eq!(answer.refused.as_deref(), Some("\u{fffd}2J"));
}
