//! `cargo xtask isa-gen`: the encoding tables of `device/isa` from LLVM's target description.
//!
//! LLVM 22's AMDGPU TableGen files say bit by bit how every instruction is encoded and how it is written. Debian 13's source
//! package comes through a private apt (~200 MB), `llvm-tblgen-22 -dump-json` turns it into 490 MB of JSON (about a
//! minute), and of that the records of each family's processors become its table in `device/isa/src/tables/`, in which each form
//! has a mask of the processors that have it. `amend.rs` mends what the description has lost. The tables are committed, and so is
//! `device/isa/src/inst/op.rs`, the operations of all of them.

mod amend;
mod emit;
mod fixtures;
mod forms;
mod operand;
mod records;
mod source;
mod target;
mod unused;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::isa_verify;
use forms::Tables;
use records::AllRecords;
use target::TARGETS;

/// Writes the tables, or with `check` only compares them with the committed ones.
///
/// `json` is a dump made before; `work` is where the source package and the dump are kept.
pub(crate) fn run(root: &Path, json: Option<&Path>, work: Option<&Path>, check: bool) -> Result<()> {
    let json = match json {
        Some(json) => json.to_owned(),
        None => source::dump(&directory(root, work))?,
    };
    note!("reading {}", json.display());
    let records = AllRecords::read(&json)?;
    let (mut files, mut operations) = (Vec::new(), BTreeSet::new());
    for target in &TARGETS {
        let mut tables = Tables::new(target);
        let processors = target.processors().map(|processor| records.of(target, processor));
        tables.add(&processors.collect::<Result<Vec<_>>>()?)?;
        for (bit, processor) in target.processors().enumerate() {
            note!("{processor}: {} encodings", tables.form_count(1 << bit));
        }
        operations.extend(tables.operations().into_iter().map(str::to_owned));
        files.push((format!("tables/{}.rs", target.file), emit::encodings(&tables)));
    }
    files.push(("inst/op.rs".to_owned(), emit::operations(&operations)));
    let sources = root.join("device/isa/src");
    for (name, text) in files {
        let path = sources.join(name);
        if check {
            let committed =
                fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            ensure!(committed == text, "{} is not what the generator gives", path.display());
        } else {
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
    }
    Ok(())
}

/// Writes the fixtures of the disassembly tests.
pub(crate) fn fixtures(root: &Path, work: Option<&Path>) -> Result<()> {
    fixtures::run(root, &directory(root, work))?;
    isa_verify::write_vectors(root)
}

/// Directory in which the source package and the dump are kept.
fn directory(root: &Path, work: Option<&Path>) -> PathBuf {
    work.map_or_else(|| root.join("target/isa-gen"), PathBuf::from)
}
