//! The wheel, with which `pip install` puts the binary beside Python's own programs.

use std::fs;
use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::stage::{Entry, Stage};

/// The plugin of pytest, and the name by which pytest finds it.
const PLUGIN: &str = include_str!("python/belfry_pytest.py");
const ENTRY_POINTS: &str = "[pytest11]\nbelfry = belfry_pytest\n";

pub(super) fn write(stage: &Stage, into: &Path) -> Result<PathBuf> {
    // The binary is static: any Linux on x86-64 has all that it needs.
    let name = format!(
        "belfry-{}-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64.whl",
        stage.version
    );
    let (data, info) =
        (format!("belfry-{}.data", stage.version), format!("belfry-{}.dist-info", stage.version));
    let mut files: Vec<(String, u32, Vec<u8>)> = Vec::new();
    for Entry { path, mode, content } in &stage.entries {
        let to = match path.strip_prefix("bin/") {
            Some(program) => format!("{data}/scripts/{program}"),
            None => match path.strip_prefix("share/doc/belfry/LICENSE") {
                Some(end) => format!("{info}/licenses/LICENSE{end}"),
                None => format!("{data}/data/{path}"),
            },
        };
        files.push((to, *mode, content.clone()));
    }
    files.push(("belfry_pytest.py".to_owned(), 0o644, PLUGIN.into()));
    files.push((format!("{info}/entry_points.txt"), 0o644, ENTRY_POINTS.into()));
    files.push((format!("{info}/METADATA"), 0o644, metadata(stage).into_bytes()));
    files.push((format!("{info}/WHEEL"), 0o644, tags(&name).into_bytes()));
    files.sort();
    let list: String = files.iter().map(|(path, _, content)| record(path, content)).collect();
    files.push((format!("{info}/RECORD"), 0o644, format!("{list}{info}/RECORD,,\n").into_bytes()));

    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (path, mode, content) in files {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(DateTime::default())
            .unix_permissions(mode);
        archive.start_file(path, options)?;
        archive.write_all(&content)?;
    }
    let path = into.join(name);
    fs::write(&path, archive.finish()?.into_inner())
        .with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

/// A line of RECORD: path, hash in the alphabet of URLs without padding, size.
fn record(path: &str, content: &[u8]) -> String {
    let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(content));
    format!("{path},sha256={hash},{}\n", content.len())
}

fn metadata(stage: &Stage) -> String {
    format!(
        "Metadata-Version: 2.1\nName: belfry\nVersion: {}\nSummary: AMD GPU that exists only in software\n\
         License: MIT OR Apache-2.0\nRequires-Python: >=3\n",
        stage.version
    )
}

/// The file WHEEL, with a line for each platform of the wheel's name.
fn tags(name: &str) -> String {
    let platforms = name.trim_end_matches(".whl").rsplit('-').next().unwrap_or_default();
    let lines: String = platforms.split('.').map(|platform| format!("Tag: py3-none-{platform}\n")).collect();
    format!("Wheel-Version: 1.0\nGenerator: belfry\nRoot-Is-Purelib: false\n{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_wheels() {
        // `printf abc | openssl dgst -sha256 -binary | base64`, in the alphabet of URLs.
        assert_eq!(record("a", b"abc"), "a,sha256=ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0,3\n");
    }

    #[test]
    fn platforms_have_a_line_each() {
        let lines = tags("belfry-1-py3-none-a_1.b_2.whl");
        assert!(lines.ends_with("Tag: py3-none-a_1\nTag: py3-none-b_2\n"), "{lines}");
    }
}
