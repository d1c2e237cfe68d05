//! The chips of the binary: the ones it has, and the ones it does not.

use std::process::{Command, Output};

fn belfry(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_belfry")).args(arguments).output().unwrap()
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn unknown_chip_is_refused_in_one_line_with_those_that_there_are() {
    for arguments in [
        &["run", "--mode", "hosted", "--chip", "gfx9000"][..],
        &["run", "--mode", "qemu", "--chip", "gfx9000"],
        &["exec", "--chip", "gfx9000", "--", "true"],
        &["serve", "--socket", "/nonexistent/socket", "--chip", "gfx9000"],
    ] {
        let output = belfry(arguments);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}");
        let said = text(output.stderr);
        assert_eq!(
            said,
            "belfry: there is no chip \"gfx9000\": choose from gfx1100, gfx942, gfx1201, gfx1151, gfx950\n",
            "{arguments:?}"
        );
    }
    let listed = text(belfry(&["chips"]).stdout);
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["gfx1100", "gfx942", "gfx1201", "gfx1151", "gfx950"], "{listed}");
    for verb in ["run", "exec", "serve"] {
        assert!(
            text(belfry(&[verb, "--help"]).stdout)
                .contains("--chip <NAME[:xccs=N,partition=MODE,cus=N,vram=SIZE]>"),
            "{verb}"
        );
    }
}

#[test]
fn every_chip_runs_programs_and_its_code_is_listed() {
    let listed = text(belfry(&["chips"]).stdout);
    for chip in listed.lines().filter_map(|line| line.split_whitespace().next()) {
        let output = belfry(&["run", "--mode", "hosted", "--chip", chip, "--", "gpuinfo"]);
        let said = text(output.stdout);
        assert!(output.status.success() && said.contains(&format!("GPU {chip}")), "{chip}: {said}");
        let output = belfry(&["run", "--mode", "hosted", "--chip", chip, "--", "vector-add", "1024"]);
        assert!(output.status.success(), "{chip}: {}", text(output.stderr));
        let kernels = concat!(env!("CARGO_MANIFEST_DIR"), "/../guest-runtime/kernels");
        let listing = belfry(&["disasm", &format!("{kernels}/vecadd.{chip}.hsaco")]);
        let lines = text(listing.stdout);
        assert!(lines.starts_with(&format!("target {chip}\n")), "{chip}: {}", text(listing.stderr));
        assert!(lines.contains("s_endpgm"), "{chip}: {lines}");
    }
}

#[test]
fn code_of_another_chip_is_refused_by_name() {
    let kernel = concat!(env!("CARGO_MANIFEST_DIR"), "/../guest-runtime/kernels/vecadd.gfx1100.hsaco");
    let of_run = ["run", "--mode", "hosted", "--chip", "gfx1201", "--", "launch", kernel];
    let of_launch = ["--kernel", "vecadd", "--grid", "64,1,1", "--block", "64,1,1"];
    let output = belfry(&[&of_run[..], &of_launch].concat());
    let said = text(output.stderr) + &text(output.stdout);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("gfx1100") && said.contains("gfx1201"), "{said}");
}

#[test]
fn compressed_code_of_a_family_is_listed() {
    for (family, add) in [
        ("gfx9-4-generic", "v_add_u32_e32"),
        ("gfx11-generic", "v_add_nc_u32_e32"),
        ("gfx12-generic", "v_add_nc_u32_e32"),
    ] {
        let file = format!("{}/tests/generic/add.{family}.co", env!("CARGO_MANIFEST_DIR"));
        assert!(std::fs::read(&file).unwrap().starts_with(b"CCOB"), "{file}");
        let listing = belfry(&["disasm", &file]);
        let lines = text(listing.stdout);
        assert!(lines.starts_with(&format!("target {family}\n")), "{family}: {}", text(listing.stderr));
        for part in ["kernel add\n", add, "s_endpgm"] {
            assert!(lines.contains(part), "{family}: no {part} in\n{lines}");
        }
    }
}
