//! `--profile` as a user has it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use belfry_tests::suite;
use serde_json::Value;

fn belfry(arguments: &[&str], place: &Path) -> (Output, String) {
    let mut command = Command::new(suite::belfry().unwrap());
    command.args(["run", "--mode", "hosted"]).args(arguments).current_dir(place).stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
    (output, said)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn vector_add_is_counted_on_each_chip() {
    let place = tempfile::tempdir().unwrap();
    for model in belfry_device::chip::MODELS {
        let (chip, lanes) = (model.name, u64::from(model.generation.shader.row_lanes));
        let options = ["--chip", chip, "--json", "--profile=profile.json", "--", "vector-add", "4096"];
        let (output, said) = belfry(&options, place.path());
        assert!(output.status.success(), "{chip}: {said}");
        let run: Value = serde_json::from_slice(&output.stdout).unwrap();
        let text = std::fs::read_to_string(place.path().join("profile.json")).unwrap();
        let profile: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(profile["chip"], chip);
        let [kernel] = &profile["processes"][0]["kernels"].as_array().unwrap()[..] else {
            panic!("{chip}: {text}");
        };
        let launches = number(&kernel["launches"]);
        assert_eq!(launches, number(&run["dispatches"]), "{chip}");
        let waves = number(&kernel["waves"]);
        assert_eq!(waves, launches * 4096 / lanes, "{chip}");
        let waits = number(&kernel["instructions_by_class"]["wait"]);
        // The device does not count that a wave gives its registers back at its end.
        let blocks = kernel["blocks"].as_array().unwrap();
        let code = blocks.iter().flat_map(|block| block["code"].as_array().unwrap());
        let gives_back = |site: &&Value| site["text"] == "s_sendmsg sendmsg(MSG_DEALLOC_VGPRS)";
        let given: u64 = code.filter(gives_back).map(|site| number(&site["executions"])).sum();
        let counted = number(&kernel["instructions"]) - waits - given;
        assert_eq!(counted, number(&run["wave_instructions"]), "{chip}");
        // Straight code, but for the comparison with the length: every lane is on.
        assert_eq!(kernel["active_lanes"].as_object().unwrap().len(), 1, "{chip}");
        assert!(kernel["active_lanes"][lanes.to_string()].is_u64(), "{chip}");
        let memory = kernel["memory"].as_array().unwrap();
        // Two loads and a store of a dword for each lane, side by side.
        assert_eq!(memory.len(), 3, "{chip}: {text}");
        for site in memory {
            assert_eq!(number(&site["accesses"]), waves, "{chip}");
            assert_eq!(number(&site["patterns"]["coalesced"]), waves, "{chip}");
            assert_eq!(number(&site["bytes"]), launches * 4096 * 4, "{chip}");
            assert_eq!(number(&site["bytes_of_lines"]), launches * 4096 * 4, "{chip}");
        }
        assert!(kernel["estimate_on_card"]["ns"].as_f64().unwrap() > 0.0, "{chip}");
        let sum: u64 = blocks.iter().map(|block| number(&block["instructions"])).sum();
        assert_eq!(sum, number(&kernel["instructions"]), "{chip}");
    }
}

#[test]
fn text_is_told_on_standard_error_and_kernels_are_chosen() {
    let place = tempfile::tempdir().unwrap();
    let (output, said) = belfry(&["--profile", "--", "vector-add", "4096"], place.path());
    assert!(output.status.success(), "{said}");
    let error = String::from_utf8_lossy(&output.stderr);
    for part in
        ["instructions by class:", "occupancy: ", "a model, not a measurement", "coalesced; 1.00 lines"]
    {
        assert!(error.contains(part), "no {part:?} in {error}");
    }
    let options = ["--profile", "--profile-kernel", "no_such_kernel", "--", "vector-add", "4096"];
    let (_, said) = belfry(&options, place.path());
    assert!(said.contains("profile: no kernel ran"), "{said}");
    let (output, said) = belfry(&["--profile-format", "json", "--", "vector-add"], place.path());
    assert!(!output.status.success() && said.contains("--profile"), "{said}");
}

const VECADD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../host-vmm/tests/kernels/vecadd.gfx1100.hsaco");

/// The lines of a profile's only kernel: of each the executions of its instructions, waits included.
fn lines(profile: &Value) -> BTreeMap<u64, u64> {
    let [process] = &profile["processes"].as_array().unwrap()[..] else { panic!("{profile}") };
    let [kernel] = &process["kernels"].as_array().unwrap()[..] else { panic!("{profile}") };
    assert_eq!(kernel["name"], "vecadd");
    let mut lines = BTreeMap::new();
    for site in
        kernel["blocks"].as_array().unwrap().iter().flat_map(|block| block["code"].as_array().unwrap())
    {
        if let Some(line) = site["line"].as_u64() {
            assert!(site["file"].as_str().unwrap().ends_with("vecadd.cl"), "{site}");
            assert_eq!(site["function"], "vecadd", "{site}");
            *lines.entry(line).or_insert(0) += number(&site["executions"]);
        }
    }
    for site in kernel["memory"].as_array().unwrap() {
        assert!(site["line"].is_u64(), "{site}");
    }
    lines
}

#[test]
fn source_lines_are_those_of_the_kernel_under_run_and_exec() {
    let place = tempfile::tempdir().unwrap();
    let grid = ["--kernel", "vecadd", "--grid", "128", "--block", "64"];
    let (floats, zeros) = ("buf:f32:128:iota", "buf:f32:128:zero");
    let buffers = ["--arg", floats, "--arg", floats, "--arg", zeros, "--arg", "u32:128"];
    let launch = [&["launch", VECADD][..], &grid, &buffers].concat();
    let (output, said) = belfry(&[&["--profile=run.json", "--"][..], &launch].concat(), place.path());
    assert!(output.status.success(), "{said}");

    let mut command = Command::new(suite::belfry().unwrap());
    command.args(["exec", "--quiet", "--vram", "256M", "--profile=exec.json", "--symbols", VECADD, "--"]);
    command.arg(env!("CARGO_BIN_EXE_run-example")).args(&launch);
    let output = command.current_dir(place.path()).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("0, 2, 4, 6, 8, 10, 12, 14"));

    let read = |name: &str| {
        let text = std::fs::read_to_string(place.path().join(name)).unwrap();
        lines(&serde_json::from_str(&text).unwrap())
    };
    let (under_run, under_exec) = (read("run.json"), read("exec.json"));
    // Four waves come to the sum and to the store, which are lines 6 and 7.
    assert!(
        [6, 7].iter().all(|line| under_run.get(line).is_some_and(|count| count % 4 == 0)),
        "{under_run:?}"
    );
    assert_eq!(under_run, under_exec);
}

#[test]
fn gpus_of_a_process_under_exec_have_a_profile_each_and_one_timeline() {
    let place = tempfile::tempdir().unwrap();
    let mut command = Command::new(suite::belfry().unwrap());
    command.args([
        "exec",
        "--quiet",
        "--gpus",
        "2",
        "--vram",
        "256M",
        "--trace",
        "t.json",
        "--profile=p.json",
        "--",
    ]);
    command.arg(env!("CARGO_BIN_EXE_run-example")).args(["peers", "512"]);
    let output = command.current_dir(place.path()).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(place.path().join(name)).unwrap()).unwrap()
    };
    let profile = read("p.json");
    let [process] = &profile["processes"].as_array().unwrap()[..] else { panic!("{profile}") };
    let kernels = process["kernels"].as_array().unwrap();
    let of = |gpu: u64| kernels.iter().filter(|kernel| kernel["gpu"] == gpu).count();
    assert_eq!([of(0), of(1), kernels.len()], [3, 3, 6]);
    for (gpu, link) in process["links"].as_array().unwrap().iter().enumerate() {
        assert_eq!((&link["gpu"], &link["peer"]), (&gpu.into(), &(1 - gpu).into()));
        // Each of 512 words is stored by two kernels; the last one stores the numbers of 20 rounds.
        assert_eq!(link["stored"], 2 * 4 * 512 + 4 * 20, "{link}");
    }
    let trace = read("t.json");
    let numbers: Vec<_> = trace["gpus"].as_array().unwrap().iter().map(|gpu| gpu["number"].clone()).collect();
    assert_eq!(numbers, [0, 1]);
    let ends: Vec<u64> = trace["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["event"] == "dispatch end")
        .map(|event| event["gpu"].as_u64().unwrap_or(0))
        .collect();
    assert_eq!([0, 1].map(|gpu| ends.iter().filter(|of| **of == gpu).count()), [5, 5]);
}
