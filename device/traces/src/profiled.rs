//! Kernel profiles in a trace, of kernels that were profiled while it was recorded.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use belfry_device::trace::{Kind, Path, Record};

/// One kernel of one process: a GPU, a PASID and the address of its first instruction.
type Of = (u16, u32, u64);

/// Each kernel's last reported counts: a dispatch that ends reports those of all dispatches before it, too.
#[derive(Debug, Default)]
pub(super) struct Profiled(BTreeMap<String, BTreeMap<Of, Counts>>);

#[derive(Debug, Default)]
struct Counts {
    /// By class.
    instructions: BTreeMap<String, u64>,
    lanes: Lanes,
    /// By path.
    memory: BTreeMap<String, Memory>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lanes {
    instructions: u64,
    active: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Memory {
    bytes: u64,
    parts: u64,
    conflicts: u64,
}

impl Profiled {
    /// Takes one event of a kernel's profile.
    pub(super) fn take(&mut self, name: &str, record: &Record) {
        let argument = |name| record.argument(name).unwrap_or(0);
        let of = (record.owner.gpu, record.owner.pasid, argument("entry"));
        let counts = self.0.entry(name.to_owned()).or_default().entry(of).or_default();
        match record.kind {
            Kind::KernelInstructions => {
                counts.instructions.insert(record.text.clone(), argument("count"));
            }
            Kind::KernelLanes => {
                counts.lanes = Lanes { instructions: argument("instructions"), active: argument("active") };
            }
            Kind::KernelMemory => {
                let memory = Memory {
                    bytes: argument("bytes"),
                    parts: argument("parts"),
                    conflicts: argument("conflicts"),
                };
                counts.memory.insert(record.text.clone(), memory);
            }
            _ => {}
        }
    }

    /// Writes a table of all kernels, if there is one, and for each kernel the classes of its instructions.
    pub(super) fn table(&self, out: &mut String) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        writeln!(
            out,
            "\n{:<40} {:>6} {:>13} {:>9} {:>13} {:>9} {:>13} {:>13}",
            "profiled",
            "lanes",
            "global bytes",
            "lines",
            "LDS bytes",
            "conflicts",
            "scalar bytes",
            "private bytes"
        )?;
        for (name, all) in &self.0 {
            let counts = Counts::sum(all.values());
            let lanes = match counts.lanes {
                Lanes { instructions: 0, .. } => "-".to_owned(),
                Lanes { instructions, active } => format!("{:.1}", active as f64 / instructions as f64),
            };
            let of = |path: Path| counts.memory.get(path.name()).copied().unwrap_or_default();
            let (global, lds) = (of(Path::Global), of(Path::Lds));
            writeln!(
                out,
                "{name:<40} {lanes:>6} {:>13} {:>9} {:>13} {:>9} {:>13} {:>13}",
                global.bytes,
                global.parts,
                lds.bytes,
                lds.conflicts,
                of(Path::Scalar).bytes,
                of(Path::Private).bytes
            )?;
            let all: u64 = counts.instructions.values().sum();
            let classes = counts.instructions.iter().map(|(class, count)| {
                format!("{class} {count} ({:.1} %)", *count as f64 * 100.0 / all.max(1) as f64)
            });
            writeln!(out, "  {}", classes.collect::<Vec<_>>().join(", "))?;
        }
        Ok(())
    }
}

impl Counts {
    fn sum<'a>(all: impl Iterator<Item = &'a Self>) -> Self {
        let mut sum = Self::default();
        for counts in all {
            for (class, count) in &counts.instructions {
                let known = sum.instructions.entry(class.clone()).or_default();
                *known = known.saturating_add(*count);
            }
            sum.lanes.instructions = sum.lanes.instructions.saturating_add(counts.lanes.instructions);
            sum.lanes.active = sum.lanes.active.saturating_add(counts.lanes.active);
            for (path, memory) in &counts.memory {
                let known = sum.memory.entry(path.clone()).or_default();
                known.bytes = known.bytes.saturating_add(memory.bytes);
                known.parts = known.parts.saturating_add(memory.parts);
                known.conflicts = known.conflicts.saturating_add(memory.conflicts);
            }
        }
        sum
    }
}
