//! `belfry run --sanitize` as a user has it.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use belfry_tests::suite;

fn belfry(arguments: &[&str], place: &Path) -> (Output, String) {
    let mut command = Command::new(suite::belfry().unwrap());
    command.args(["run", "--mode", "hosted"]).args(arguments).current_dir(place).stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
    (output, said)
}

/// A kernel whose waves write to the same bytes of LDS.
const RACE: &str = "
.amdgcn_target \"amdgcn-amd-amdhsa--gfx1100\"
.text
.globl clash
.p2align 8
.type clash,@function
clash:
  v_mov_b32 v1, 0
  ds_store_b32 v1, v0
  s_endpgm
.rodata
.p2align 6
.amdhsa_kernel clash
  .amdhsa_next_free_vgpr 8
  .amdhsa_next_free_sgpr 8
  .amdhsa_group_segment_fixed_size 64
.end_amdhsa_kernel
.amdgpu_metadata
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: clash
    .symbol: clash.kd
    .kernarg_segment_size: 0
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 64
    .private_segment_fixed_size: 0
    .wavefront_size: 32
    .sgpr_count: 8
    .vgpr_count: 8
    .max_flat_workgroup_size: 1024
    .args: []
.end_amdgpu_metadata
";

#[test]
fn nothing_is_found_in_the_examples_of_any_chip() {
    let place = tempfile::tempdir().unwrap();
    for model in belfry_device::chip::MODELS {
        let chip = model.name;
        let (output, said) = belfry(&["--chip", chip, "--sanitize", "--", "all"], place.path());
        assert!(output.status.success(), "{chip}: {said}");
        assert!(said.contains("sanitizer: no rule was broken"), "{chip}: {said}");
    }
}

#[test]
fn findings_are_told_written_suppressed_and_the_exit_status() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    let cache = belfry_image::Cache::open().unwrap();
    let llvm =
        belfry_image::tools::llvm(&cache, belfry_image::Freshness::Cached, &belfry_image::Progress::new());
    std::fs::write(place.join("clash.s"), RACE).unwrap();
    let mut clang = Command::new(llvm.unwrap().join("clang-19"));
    clang.args(["-target", "amdgcn-amd-amdhsa", "-mcpu=gfx1100", "-mcode-object-version=5", "-g"]);
    let status = clang.args(["clash.s", "-o", "clash.hsaco"]).current_dir(place).status().unwrap();
    assert!(status.success());
    let launch = ["--", "launch", "clash.hsaco", "--kernel", "clash", "--grid", "64", "--block", "64"];
    let run = |options: &[&str]| belfry(&[options, &launch].concat(), place);

    for (name, part) in [
        ("report.txt", "lds-race: clash, dispatch 0"),
        ("report.json", "\"rule\": \"lds-race\""),
        ("report.sarif", "\"ruleId\": \"lds-race\""),
        ("report.sarif", "\"startLine\": 9"),
        ("report.xml", "<testcase classname=\"sanitizer\" name=\"lds-race\">"),
    ] {
        let (output, said) = run(&["--sanitize", "--sanitize-report", name]);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("sanitizer: 1 finding\n"), "{said}");
        assert!(said.contains(": ds_store_b32 v1, v0, clash.s:9\n"), "{said}");
        let written = std::fs::read_to_string(place.join(name)).unwrap();
        assert!(written.contains(part), "{name}: {written}");
    }
    std::fs::write(place.join("known"), "# known\nlds-race:cla* # for now\n\n").unwrap();
    for options in [
        &["--sanitize", "--suppressions", "known"][..],
        &["--sanitize=global-race"],
        &["--sanitize", "--sanitize-kernel", "other"],
    ] {
        let (output, said) = run(options);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains("sanitizer: no rule was broken"), "{said}");
    }
    let (output, said) = run(&[]);
    assert!(output.status.success() && !said.contains("sanitizer"), "{said}");

    std::fs::write(place.join("bad"), "lds-race:x\nnonsense\n").unwrap();
    for (options, why) in [
        (&["--sanitize=lds-rice"][..], "\"lds-rice\" is no rule; these are: lds-race, "),
        (&["--sanitize", "--suppressions", "bad"], "bad:2: \"nonsense\" is not RULE:KERNEL"),
        (&["--sanitize", "--suppressions", "nowhere"], "reading nowhere"),
        (&["--sanitize", "--sanitize-report", "no/folder"], "writing no/folder"),
        (&["--suppressions", "known"], "--sanitize"),
    ] {
        let (output, said) = run(options);
        assert!(!output.status.success() && said.contains(why), "{options:?}: {said}");
    }
}
