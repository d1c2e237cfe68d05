//! Rule for choices by a chip: only the places that put a chip together may decide by it.

use std::path::Path;

/// Folders and files where a chip, or its instruction set, may decide: its tables, the roots that put a device or a
/// driver together, and code for several chips at once.
const PLACES: &[&str] = &[
    "device/src/chip/",
    "device/isa/src/tables/",
    "device/isa/src/registers",
    "device/isa/src/inst",
    "device/isa/src/encoding",
    "device/isa/verify/",
    "guest-driver/core/src/asic/",
    // The layouts of examples and the code objects that they are in; the programs of suites for another chip.
    "guest-runtime/src/code_object/",
    "guest-runtime/examples/src/kernels.rs",
    "host-vmm/suite/src/plan.rs",
    "xtask/",
];

/// Lines that choose by a chip where none may; the text before a file's tests counts.
pub(super) fn findings(path: &Path, text: &str) -> Vec<String> {
    let name = path.to_string_lossy();
    let is_test = name.split('/').any(|part| part.starts_with("test") || part == "benches" || part == "fuzz");
    if is_test || name.ends_with("tests.rs") || PLACES.iter().any(|place| name.starts_with(place)) {
        return Vec::new();
    }
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = code.lines().enumerate().filter(|(_, line)| chooses(line));
    lines
        .map(|(number, line)| {
            format!("{name}:{} chooses by a chip: `{}`; let the chip's table say it", number + 1, line.trim())
        })
        .collect()
}

/// Returns true if a line is an arm of a `match` or a comparison that names a chip, its instruction set or
/// its page tables.
fn chooses(line: &str) -> bool {
    let line = line.trim_start();
    if line.starts_with("//") {
        return false;
    }
    let names = ["Arch::Gfx", "PteFormat::Gfx", "\"gfx1", "\"gfx9"].iter().any(|name| line.contains(name));
    let decides = ["=>", "==", "!=", "matches!", "starts_with("].iter().any(|word| line.contains(word));
    names && decides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chip_decides_in_its_own_places_and_in_tests_alone() {
        let text = "match arch {\n    Arch::Gfx1100 => 1,\n    _ => 2,\n}\n";
        let found = findings(Path::new("device/src/cp/aql.rs"), text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("device/src/cp/aql.rs:2 "), "{found:?}");
        assert_eq!(findings(Path::new("device/src/chip/model.rs"), text), [""; 0]);
        assert_eq!(findings(Path::new("device/tests/cp/main.rs"), text), [""; 0]);
        let compared =
            "if agent.name().starts_with(\"gfx12\") {\n#[cfg(test)]\nmod tests {\n a == \"gfx942\";";
        assert_eq!(findings(Path::new("host-vmm/src/run/mod.rs"), compared).len(), 1);
        assert_eq!(findings(Path::new("host-vmm/src/run/mod.rs"), "let arch = Arch::Gfx1100;\n"), [""; 0]);
    }
}
