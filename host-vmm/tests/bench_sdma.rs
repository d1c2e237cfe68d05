//! `belfry bench sdma`: every row, and sizes that cannot be.

use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    let belfry = env!("CARGO_BIN_EXE_belfry");
    Command::new(belfry).args(["bench", "sdma"]).args(arguments).output().unwrap()
}

#[test]
fn every_row_has_both_speeds() {
    let output = bench(&["--json", "--size", "1M", "--runs", "2"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((results["bytes"].as_u64(), results["runs"].as_u64()), (Some(1 << 20), Some(2)));
    let rows = results["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["GTT to VRAM", "VRAM to GTT", "VRAM to VRAM", "GTT to GTT", "fill VRAM"]);
    for row in rows {
        assert!(["engine", "processor", "ratio"].iter().all(|key| row[key].as_f64().unwrap() > 0.0), "{row}");
    }
}

#[test]
fn sizes_and_runs_that_cannot_be_are_refused() {
    for (arguments, part) in [
        (["--size", "2G"], "up to 1G"),
        (["--runs", "0"], "1 to 10000"),
        (["--size", "77"], "whole megabytes"),
    ] {
        let output = bench(&arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(part), "{part} in {error}");
    }
}
