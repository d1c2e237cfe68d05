//! Files that show a finding again: the command line of the program, the smallest plan, and the finding.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use belfry_device::faults::Plan;
use serde::{Deserialize, Serialize};

use super::ask;
use super::summary::Summary;
use super::verdict::Verdict;
use crate::trial::{Child, ChildError, Finding};

/// The version of the format.
const VERSION: u32 = 1;
/// Largest size of a file in bytes.
const MAX_FILE: u64 = 1 << 20;
/// Number of times that the plan is tried.
const TRIES: u32 = 6;

/// Reason why a finding cannot be written, or shown again.
#[derive(Debug, thiserror::Error)]
pub enum AgainError {
    /// A file or folder.
    #[error("{path}: {source}")]
    File {
        /// The path.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The file is not in the right format.
    #[error("{path} is no finding of `belfry torture --findings`: {why}")]
    Format {
        /// The path.
        path: PathBuf,
        /// Mistake in the file.
        why: String,
    },
    /// There is no child.
    #[error(transparent)]
    Child(#[from] ChildError),
}

/// A file.
#[derive(Debug, Deserialize, Serialize)]
struct Kept {
    /// [`VERSION`].
    version: u32,
    /// The command line of the torture, without the program's own name.
    arguments: Vec<String>,
    /// Time limit of a child for a plan, in seconds.
    limit: u64,
    plan: String,
    finding: Finding,
}

/// Writes a file for each finding into a folder; returns their paths. `limit` is the time that children had for a
/// plan.
///
/// # Errors
///
/// A folder that cannot be made, or written to.
pub fn keep(summary: &Summary, limit: Duration, folder: &Path) -> Result<Vec<PathBuf>, AgainError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| AgainError::File { path, source }
    };
    fs::create_dir_all(folder).map_err(failed(folder))?;
    let mut written = Vec::new();
    for (number, found) in (1..).zip(&summary.found) {
        let kept = Kept {
            version: VERSION,
            arguments: std::env::args().skip(1).collect(),
            limit: limit.as_secs(),
            plan: found.smallest.clone().unwrap_or_else(|| found.plan.clone()),
            finding: found.finding.clone(),
        };
        let path = folder.join(format!("{number}-{}.json", found.finding.kind().replace(' ', "-")));
        let text = serde_json::to_string_pretty(&kept).map_err(std::io::Error::from);
        text.and_then(|text| fs::write(&path, text + "\n")).map_err(failed(&path))?;
        written.push(path);
    }
    Ok(written)
}

fn read(path: &Path) -> Result<(Kept, Plan), AgainError> {
    let failed = |source| AgainError::File { path: path.to_owned(), source };
    let wrong = |why: String| AgainError::Format { path: path.to_owned(), why };
    let mut text = String::new();
    fs::File::open(path)
        .and_then(|file| file.take(MAX_FILE + 1).read_to_string(&mut text))
        .map_err(failed)?;
    if text.len() as u64 > MAX_FILE {
        return Err(wrong(format!("it has more than {MAX_FILE} bytes")));
    }
    let kept: Kept = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if kept.version != VERSION {
        return Err(wrong(format!("it is of version {}, and this program reads {VERSION}", kept.version)));
    }
    if kept.arguments.first().is_none_or(|verb| verb != "torture") {
        return Err(wrong("its command line is not one of torture".into()));
    }
    let plan = kept.plan.parse().map_err(|error| wrong(format!("its plan: {error}")))?;
    Ok((kept, plan))
}

/// Result of showing a finding again.
#[derive(Clone, Debug)]
pub struct Again {
    /// The plan.
    pub plan: String,
    /// The finding of the file.
    pub finding: Finding,
    /// The run that has shown it, with its number and its verdict; `None` if no run has.
    pub shown: Option<(u32, Verdict)>,
    /// The last run.
    pub last: Verdict,
}

/// Runs the plan of a file until its finding shows, a few times at most.
///
/// # Errors
///
/// A file that cannot be read or has no finding, and a child that cannot be started.
pub fn again(path: &Path) -> Result<Again, AgainError> {
    let (Kept { arguments, limit, plan: text, finding, .. }, plan) = read(path)?;
    let mut child = Child::start_as(Duration::from_secs(limit), &arguments)?;
    let mut last = Verdict::default();
    for number in 1..=TRIES {
        last = ask(&mut child, &plan);
        if last.findings.iter().any(|found| found.signature() == finding.signature()) {
            return Ok(Again { plan: text, finding, shown: Some((number, last.clone())), last });
        }
    }
    Ok(Again { plan: text, finding, shown: None, last })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_none_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.json");
        let said = |text: &str| {
            fs::write(&path, text).unwrap();
            read(&path).unwrap_err().to_string()
        };
        let file = |version: u32, verb: &str, plan: &str| {
            format!(
                "{{\"version\":{version},\"arguments\":[\"{verb}\"],\"limit\":20,\"plan\":\"{plan}\",\"finding\":\"Hang\"}}"
            )
        };
        assert!(said("").contains("is no finding of"));
        assert!(said("{\"version\":1}").contains("missing field"));
        assert!(said(&file(2, "torture", "removal@1")).contains("it is of version 2"));
        assert!(said(&file(1, "run", "removal@1")).contains("not one of torture"));
        assert!(said(&file(1, "torture", "nonsense")).contains("its plan: \"nonsense\" is no fault"));
        assert!(said(&" ".repeat(2 << 20)).contains("more than"));
        assert!(read(&folder.path().join("none")).unwrap_err().to_string().contains("none: "));
        fs::write(&path, file(1, "torture", "removal@1")).unwrap();
        read(&path).unwrap();
    }
}
