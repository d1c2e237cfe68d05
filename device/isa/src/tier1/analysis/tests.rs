//! Neutral modules stay neutral.

use std::fs;
use std::path::{Path, PathBuf};

/// The code of a file, without its comments and its inline tests.
fn code(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Names of back ends and their parts that code has as segments of its paths.
fn back_ends(code: &str) -> Vec<&str> {
    let words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
    words
        .filter(|word| matches!(*word, "x86" | "avx2" | "avx512" | "asm" | "Assembler" | "Evex" | "Zmm"))
        .collect()
}

#[test]
fn analyses_and_templates_name_no_back_end() {
    assert_eq!(back_ends("use crate::tier1::x86::asm::{At, Zmm};"), ["x86", "asm", "Zmm"]);
    let tier1 = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tier1");
    let folders = ["analysis", "analysis/recipe"].map(|folder| fs::read_dir(tier1.join(folder)).unwrap());
    let mut files: Vec<PathBuf> = folders.into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.is_file());
    assert!(files.len() > 10, "{files:?}");
    files.retain(|file| !file.ends_with("tests.rs"));
    files.extend([tier1.join("masm.rs"), tier1.join("scalar.rs")]);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(back_ends(&code(&text)), [""; 0], "{}", file.display());
    }
}
