//! `--profile` as a user has it.

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
    for (chip, lanes) in [("gfx1100", 32), ("gfx1201", 32), ("gfx942", 64)] {
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
