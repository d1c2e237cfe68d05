//! `case.toml`: the programs of a case, how each is compiled, and the chips it is run on.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

/// The chips that programs run on where a manifest names none.
pub(super) const CHIPS: [&str; 3] = ["gfx1100", "gfx1201", "gfx942"];

/// Seconds that a program may take.
const LIMIT: u32 = 240;

/// A folder's programs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    #[serde(rename = "program")]
    pub(super) programs: Vec<Program>,
}

/// A program, and how it is run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Program {
    /// Its source in the folder: `.hip` and `.cpp` are compiled by `hipcc`, `.c` by `cc`.
    pub(super) source: String,
    /// The compiler's options beside the usual ones.
    #[serde(default)]
    pub(super) options: Vec<String>,
    /// Code objects that it loads by the names of their sources, `k.hsaco` for `k.cl`, from the folder that it runs in.
    #[serde(default, rename = "object")]
    pub(super) objects: Vec<Object>,
    #[serde(default = "all_chips")]
    pub(super) chips: Vec<String>,
    /// As `belfry exec --tier` takes them.
    #[serde(default = "usual_tier")]
    pub(super) tiers: Vec<String>,
    /// Options of `belfry exec`.
    #[serde(default)]
    pub(super) exec: Vec<String>,
    #[serde(default)]
    pub(super) arguments: Vec<String>,
    /// Environment variables of the program, as `NAME=VALUE`.
    #[serde(default)]
    pub(super) environment: Vec<String>,
    /// A text in the program's output, instead of a last line that ends with `PASS` and of exit status 0.
    pub(super) says: Option<String>,
    /// Seconds that it may take.
    #[serde(default = "usual_limit")]
    pub(super) limit: u32,
}

/// A source of code for the GPU: `.cl`, `.ll` or `.s`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Object {
    pub(super) source: String,
    #[serde(default)]
    pub(super) options: Vec<String>,
}

fn all_chips() -> Vec<String> {
    CHIPS.map(str::to_owned).to_vec()
}

fn usual_tier() -> Vec<String> {
    vec!["auto".to_owned()]
}

fn usual_limit() -> u32 {
    LIMIT
}

impl Manifest {
    /// Reads the manifest of a folder; without one, each `*.hip` in it is a program for all chips.
    pub(super) fn of(folder: &Path) -> Result<Self> {
        let path = folder.join("case.toml");
        if !path.exists() {
            return Self::of_sources(folder);
        }
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Self> {
        let manifest: Self = toml::from_str(text)?;
        ensure!(!manifest.programs.is_empty(), "it has no [[program]]");
        for program in &manifest.programs {
            let source = &program.source;
            ensure!(
                !program.chips.is_empty() && !program.tiers.is_empty(),
                "{source} runs on no chip or tier"
            );
            if let Some(chip) = program.chips.iter().find(|chip| !CHIPS.contains(&chip.as_str())) {
                anyhow::bail!("{source}: there is no chip {chip}: choose from {}", CHIPS.join(", "));
            }
        }
        Ok(manifest)
    }

    fn of_sources(folder: &Path) -> Result<Self> {
        let mut programs = Vec::new();
        for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "hip")
                && let Some(source) = path.file_name().and_then(|name| name.to_str())
            {
                programs.push(Program::usual(source));
            }
        }
        programs.sort_by(|a, b| a.source.cmp(&b.source));
        ensure!(!programs.is_empty(), "{} has neither case.toml nor *.hip", folder.display());
        Ok(Self { programs })
    }
}

impl Program {
    /// A source without anything said about it.
    fn usual(source: &str) -> Self {
        Self {
            source: source.to_owned(),
            options: Vec::new(),
            objects: Vec::new(),
            chips: all_chips(),
            tiers: usual_tier(),
            exec: Vec::new(),
            arguments: Vec::new(),
            environment: Vec::new(),
            says: None,
            limit: LIMIT,
        }
    }

    /// Returns true if a run passes, by its output and by its success (status 0).
    pub(super) fn passes(&self, success: bool, printed: &str) -> bool {
        match &self.says {
            Some(says) => printed.contains(says.as_str()),
            None => success && printed.trim_end().lines().next_back().is_some_and(passes),
        }
    }
}

/// Returns true if a last line ends with the word `PASS`.
fn passes(line: &str) -> bool {
    line.split_whitespace().next_back() == Some("PASS")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_has_programs_with_usual_values() {
        let text = "[[program]]\nsource = \"a.hip\"\nchips = [\"gfx942\"]\n\
                    [[program]]\nsource = \"h.hip\"\ntiers = [\"0\", \"1\"]\nlimit = 9\nsays = \"fault\"\n\
                    [[program.object]]\nsource = \"k.cl\"\noptions = [\"-mwavefrontsize64\"]\n";
        let manifest = Manifest::parse(text).unwrap();
        let [a, h] = manifest.programs.as_slice() else { panic!("{manifest:?}") };
        assert_eq!(
            (a.chips.as_slice(), a.tiers.as_slice(), a.limit),
            (&["gfx942".into()][..], &["auto".into()][..], LIMIT)
        );
        assert_eq!((h.chips.len(), h.tiers.len(), h.limit), (3, 2, 9));
        assert_eq!(h.objects[0].options, ["-mwavefrontsize64"]);
    }

    #[test]
    fn manifest_with_mistakes_is_refused() {
        for (text, why) in [
            ("", "missing field"),
            ("program = []", "no [[program]]"),
            ("[[program]]\nsource = \"a.hip\"\nchip = [\"gfx942\"]", "unknown field"),
            ("[[program]]\nsource = \"a.hip\"\nchips = [\"gfx90\"]", "there is no chip gfx90"),
            ("[[program]]\nsource = \"a.hip\"\ntiers = []", "no chip or tier"),
        ] {
            let error = Manifest::parse(text).unwrap_err();
            assert!(format!("{error:#}").contains(why), "{text}: {error:#}");
        }
    }

    #[test]
    fn program_passes_by_its_last_line_and_status() {
        let mut program = Program::usual("a.hip");
        assert!(program.passes(true, "MODE 0\n21-wave64 gfx1100: 3 ok, 0 wrong -> PASS\n"));
        for printed in ["", "-> FAIL\n", "-> PASS\nDIFF a\n", "no PASSage\n", "BYPASS"] {
            assert!(!program.passes(true, printed), "{printed}");
        }
        assert!(!program.passes(false, "-> PASS\n"));
        program.says = Some("Memory access fault".into());
        assert!(program.passes(false, "x\nMemory access fault by GPU node-1\n"));
        assert!(!program.passes(true, "-> PASS\n"));
    }

    #[test]
    fn folder_without_a_manifest_has_its_hip_programs() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Manifest::of(folder.path()).is_err());
        for name in ["b.hip", "a.hip", "model.h", "k.cl"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let manifest = Manifest::of(folder.path()).unwrap();
        assert_eq!(
            manifest.programs.iter().map(|program| &*program.source).collect::<Vec<_>>(),
            ["a.hip", "b.hip"]
        );
        assert!(manifest.programs.iter().all(|program| program.chips == CHIPS && program.tiers == ["auto"]));
    }
}
