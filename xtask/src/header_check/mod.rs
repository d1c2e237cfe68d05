//! Proves `belfry-abi` against the C headers that publish its layouts.
//!
//! Every structure becomes a list of `_Static_assert`s over `sizeof` and `offsetof`, every constant one over its value;
//! the C compiler is the judge. The user-visible headers are checked by the test command, the kernel's own headers
//! (`v11_structs.h`, `mes_v11_api_def.h`, the register headers) by `cargo xtask header-check --kernel`.

mod debug;
mod gfx9;
mod hsa;
mod kernel;
mod kfd;
mod syncobj;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// One structure: its C name, its size (`None` where only the fields must agree), and where its fields are.
#[derive(Debug)]
pub struct Layout {
    c_type: &'static str,
    size: Option<usize>,
    fields: Vec<(&'static str, usize)>,
}

/// One constant: its C name and the value this project gives it.
#[derive(Debug)]
pub struct Constant {
    c_name: String,
    value: u64,
}

/// Describes a structure; `field: "c_field"` where the C name differs.
macro_rules! layout {
    (@field $field:ident) => { stringify!($field) };
    (@field $field:ident $c_field:literal) => { $c_field };
    ($c_type:literal, $rust:ty { $($field:ident $(: $c_field:literal)?),* $(,)? }) => {
        $crate::header_check::Layout {
            c_type: $c_type,
            size: Some(core::mem::size_of::<$rust>()),
            fields: vec![$((layout!(@field $field $($c_field)?), core::mem::offset_of!($rust, $field))),*],
        }
    };
}

/// Describes constants that have the same name on both sides.
macro_rules! constants {
    ($($($path:ident)::+),* $(,)?) => {
        vec![$($crate::header_check::Constant {
            c_name: { let path = stringify!($($path)::+); path.rsplit(":").next().unwrap_or(path).trim().to_owned() },
            value: u64::from($($path)::+),
        }),*]
    };
}

pub(crate) use {constants, layout};

/// Macros of a header that cannot be included whole: its definitions of names with a prefix.
#[derive(Debug)]
pub struct Defines {
    /// The file, from the first directory of headers.
    file: &'static str,
    prefix: &'static str,
}

impl Defines {
    /// The definitions, with the lines that they go on to.
    fn text(&self, include_dirs: &[PathBuf]) -> Result<String> {
        let directory = include_dirs.first().context("no directory of headers")?;
        let path = directory.join(self.file);
        let header = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let mut text = String::new();
        let mut goes_on = false;
        for line in header.lines() {
            let name =
                line.trim_start().strip_prefix('#').and_then(|rest| rest.trim_start().strip_prefix("define"));
            let begins = name.is_some_and(|name| name.trim_start().starts_with(self.prefix));
            if begins || goes_on {
                let _ = writeln!(text, "{line}");
                goes_on = line.ends_with('\\');
            }
        }
        ensure!(!text.is_empty(), "{} defines no {}", path.display(), self.prefix);
        Ok(text)
    }
}

/// Facts that one group of headers must agree with.
#[derive(Debug, Default)]
pub struct Group {
    /// Headers, in the form `#include` takes.
    includes: Vec<&'static str>,
    /// Anything the headers need before or after them.
    prelude: String,
    defines: Vec<Defines>,
    layouts: Vec<Layout>,
    constants: Vec<Constant>,
    /// Complete C conditions, with the message for when one does not hold.
    conditions: Vec<(String, String)>,
}

impl Layout {
    /// Compares the fields alone, where versions of the header append fields of their own.
    fn fields_only(self) -> Self {
        Self { size: None, ..self }
    }
}

impl Group {
    /// The C translation unit that holds only if every layout and constant agrees.
    fn source(&self, include_dirs: &[PathBuf]) -> Result<String> {
        let mut text = String::from("#include <stddef.h>\n#include <stdint.h>\n#include <stdbool.h>\n");
        text.push_str(&self.prelude);
        for defines in &self.defines {
            text.push_str(&defines.text(include_dirs)?);
        }
        for include in &self.includes {
            let _ = writeln!(text, "#include {include}");
        }
        for layout in &self.layouts {
            let Layout { c_type, size, fields } = layout;
            if let Some(size) = size {
                let _ = writeln!(text, "_Static_assert(sizeof({c_type}) == {size}, \"size of {c_type}\");");
            }
            for (field, offset) in fields {
                let _ = writeln!(
                    text,
                    "_Static_assert(offsetof({c_type}, {field}) == {offset}, \"{c_type}.{field} is not at {offset}\");"
                );
            }
        }
        for Constant { c_name, value } in &self.constants {
            let _ = writeln!(
                text,
                "_Static_assert((uint64_t)({c_name}) == {value:#x}ull, \"{c_name} is not {value:#x}\");"
            );
        }
        for (condition, message) in &self.conditions {
            let _ = writeln!(text, "_Static_assert({condition}, \"{message}\");");
        }
        Ok(text)
    }

    /// Number of assertions.
    fn len(&self) -> usize {
        self.layouts
            .iter()
            .map(|layout| layout.fields.len() + usize::from(layout.size.is_some()))
            .sum::<usize>()
            + self.constants.len()
            + self.conditions.len()
    }

    /// Compiles the assertions against headers below `include_dirs`; returns the number that held.
    fn check(&self, name: &str, include_dirs: &[PathBuf]) -> Result<usize> {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join(format!("{name}.c"));
        fs::write(&file, self.source(include_dirs)?)?;
        let mut command = Command::new("cc");
        command.args(["-std=gnu11", "-fsyntax-only", "-w"]);
        for include_dir in include_dirs {
            ensure!(include_dir.is_dir(), "no header directory {}", include_dir.display());
            command.arg("-I").arg(include_dir);
        }
        let output =
            command.arg(&file).output().context("running the C compiler `cc` (install build-essential)")?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let errors: Vec<&str> = text.lines().filter(|line| line.contains("error")).take(20).collect();
            bail!("{name}: the layouts disagree with the headers:\n{}", errors.join("\n"));
        }
        Ok(self.len())
    }
}

/// Checks the user-visible headers: `linux/kfd_ioctl.h` below `linux`, `hsa/*.h` below `hsa`.
///
/// Returns the number of assertions that held.
///
/// # Errors
///
/// A layout that disagrees with the headers, and a compiler that does not run.
pub fn check_user(linux: &Path, hsa: &Path) -> Result<usize> {
    // The kernel's user headers come with their own asm directory, which the C library's must not shadow.
    let mut linux_dirs = vec![linux.to_path_buf()];
    linux_dirs.extend([linux.join("x86_64-linux-gnu")].into_iter().filter(|dir| dir.is_dir()));
    let mut held = kfd::group().check("kfd", &linux_dirs)?;
    held += debug::group().check("debug", &linux_dirs)?;
    held += syncobj::group().check("syncobj", &linux_dirs)?;
    held += hsa::group().check("hsa", &[hsa.to_path_buf()])?;
    Ok(held)
}

/// Checks the kernel's own headers; `include` is `drivers/gpu/drm/amd/include` of a Linux tree.
///
/// Returns the number of assertions that held.
///
/// # Errors
///
/// A layout that disagrees with the headers, and a compiler that does not run.
pub fn check_kernel(include: &Path) -> Result<usize> {
    let mut held = 0;
    for (name, group) in kernel::groups().into_iter().chain(gfx9::groups()) {
        held += group.check(name, &[include.to_path_buf()])?;
    }
    Ok(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_reports_a_wrong_offset_and_a_wrong_constant() {
        let wrong = Group {
            prelude: "struct pair { int first; int second; };\n#define SEVEN 7\n".into(),
            layouts: vec![Layout {
                c_type: "struct pair",
                size: Some(8),
                fields: vec![("first", 0), ("second", 8)],
            }],
            constants: vec![Constant { c_name: "SEVEN".into(), value: 8 }],
            ..Group::default()
        };
        let error = wrong.check("wrong", &[]).unwrap_err().to_string();
        assert!(error.contains("struct pair.second is not at 8"), "{error}");
        assert!(error.contains("SEVEN is not 0x8"), "{error}");
    }
}
