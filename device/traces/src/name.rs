//! Names of processes and of kernels.

use std::collections::BTreeMap;

use belfry_device::trace::{Kind, Record};

/// Returns the names of processes, by GPU and PASID: the driver reports each one once.
pub(crate) fn processes(records: &[Record]) -> BTreeMap<(u16, u32), String> {
    let opened = records.iter().filter(|record| record.kind == Kind::ProcessOpened);
    let called = |record: &Record| format!("{} ({})", record.text, record.argument("pid").unwrap_or(0));
    opened.map(|record| ((record.owner.gpu, record.owner.pasid), called(record))).collect()
}

/// Returns a name for a kernel that has no known name: `kernel` and its address.
#[must_use]
pub fn kernel(address: u64) -> String {
    format!("kernel {address:#x}")
}

/// Returns the name of a function as its source has it: of a mangled C++ name (Itanium C++ ABI, chapter 5.1), or of
/// one that is not mangled.
#[must_use]
pub fn demangled(name: &str) -> String {
    let symbol = cpp_demangle::Symbol::new(name).ok();
    symbol.and_then(|symbol| symbol.demangle().ok()).unwrap_or_else(|| name.to_owned())
}
