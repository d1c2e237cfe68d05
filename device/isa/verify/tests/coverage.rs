//! The list of operations in the documents, checked against the operations that the engine lowers and the oracles
//! compare.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use belfry_isa::exec::{self, Coverage};
use belfry_isa::inst::{Arch, Format};
use belfry_isa_verify::cards::{self, Captured};
use belfry_isa_verify::semantics::{self, Report};

const PREAMBLE: &str = "\
# Operations of all chips

[isa-coverage.csv](isa-coverage.csv) has every operation that the decoder has for a chip, with four columns for each chip. A test
found the first three by trying.

*encodings*: the encodings of the operation. They are empty where the chip does not have it.

*lowered*: whether the engine takes it, found by lowering each of its encodings in both wave sizes with vector, scalar and
constant sources, source modifiers, `clamp`, `omod`, and with `MODE` rounding and flushing in other ways. *all* says that
each of these lowers, not that it is right; *none* that nothing does, and that the operation stops its wave with a fault
that names it; else what does not lower is named.

*compared*: what held its results, in the run of the second oracle that is part of `cargo test` (three random cases of each
form and wave size). *reference*: the second, independent interpreter of `device/isa/verify`, in every encoding; *reference
in* some and *backends in* others: the reference does not define those, and the engine's backends were compared with each
other alone. *fault*: it was seen to stop its wave by name. `cargo xtask isa verify` runs many more cases
([isa-oracles.md](isa-oracles.md)).

*word*: whose it is that results are right. *card*: results captured on the chip, to the bit; *neighbour*: those of a chip of another
generation or of the same one, which are taken for this one; *waiting*: such results are there, the operation is not; *choice*: no public source has all of the bits, and
[isa-choices.md](isa-choices.md) says what the engine does; *LLVM*: its description of the hardware; else the *manual*.

`BLESS=1 cargo test -p belfry-isa-verify --test coverage` writes the list and the counts below; without `BLESS` the test checks them.

";

/// Returns the text about operations that are left out on purpose.
fn absent(arch: Arch) -> &'static str {
    match arch {
        Arch::Gfx942 => {
            "\
Fork and join of branches, VSKIP and what belongs to graphics are not there on purpose: compilers for the chip make none of
them."
        }
        Arch::Gfx950 => {
            "\
The same is absent as on gfx942. Of what CDNA4 has alone, absent are the conversions with a scale (`v_cvt_scalef32_*`) and the loads
from LDS that transpose (`ds_read_b64_tr_*`, `ds_read_b96_tr_b6`)."
        }
        Arch::Gfx1100 => {
            "\
Exports (EXP), parameter interpolation (VINTERP, LDSDIR), and what of DS belongs to ray tracing, ordered append and streamout
are not there on purpose: compute programs have no use for them. Of images (MIMG) those with several samples in a texel
and the intersections of rays are absent and stop their wave by name. `v_swap_b16` is absent."
        }
        Arch::Gfx1151 => {
            "\
The same is absent as on gfx1100."
        }
        Arch::Gfx1201 => {
            "\
Exports (VEXPORT, here EXP), parameter interpolation (VINTERP, VDSDIR, here LDSDIR), and what of DS belongs to ray tracing and
streamout are not there on purpose: compute programs have no use for them. Of images (VIMAGE, VSAMPLE) there is the same as on
gfx1100.
VFLAT, VGLOBAL, VSCRATCH and VBUFFER are listed as FLAT, GLOBAL, SCRATCH, MUBUF and MTBUF. Named barriers are not there
because the chip has none: `s_barrier_signal`, `s_barrier_signal_isfirst` and `s_get_barrier_state` are tried with the workgroup's own
barrier, -1. Waves of 64 lanes have no `s_alloc_vgpr`, as on the chip. `ds_bpermute_fi_b32` is absent."
        }
    }
}

fn family(format: Format) -> String {
    format!("{format:?}").to_uppercase()
}

fn lowered(entry: &Coverage) -> String {
    match entry.missing.as_slice() {
        [] => "all".to_owned(),
        missing
            if missing.contains(&"all") || ["wave32", "wave64"].iter().all(|size| missing.contains(size)) =>
        {
            "none".to_owned()
        }
        missing => format!("not {}", missing.join(", ")),
    }
}

/// Returns the name of the side that the oracle compared an operation's results with.
fn compared(report: &Report, name: &str) -> String {
    let encodings: Vec<_> = report
        .operations
        .iter()
        .filter_map(|(encoding, operations)| Some((encoding.as_str(), operations.get(name)?)))
        .collect();
    let of = |wanted: fn(&semantics::Checked) -> bool| -> Vec<&str> {
        encodings.iter().filter(|(_, checked)| wanted(checked)).map(|(encoding, _)| *encoding).collect()
    };
    let reference = of(|checked| checked.reference > 0);
    let backends = of(|checked| checked.reference == 0 && checked.backends > 0);
    match (reference.as_slice(), backends.as_slice()) {
        ([], []) if report.faulted.contains(name) => "fault".to_owned(),
        ([], []) => "nothing".to_owned(),
        (_, []) => "reference".to_owned(),
        ([], _) => "backends".to_owned(),
        (reference, backends) => {
            format!("reference in {}, backends in {}", reference.join(", "), backends.join(", "))
        }
    }
}

/// Beginnings of operations, some of whose results are choices of the engine.
const CHOICES: [&str; 41] = [
    "image_sample",
    "image_gather4",
    "image_get_lod",
    "image_get_resinfo",
    "image_load_pck",
    "image_load_mip_pck",
    "image_store_pck",
    "image_store_mip_pck",
    "v_sqrt_",
    "v_exp_",
    "v_log_",
    "v_sin_",
    "v_cos_",
    "v_rsq_",
    "v_rcp_",
    "v_wmma_f",
    "v_wmma_bf",
    "v_swmmac_f",
    "v_swmmac_bf",
    "v_mfma_f",
    "v_mfma_xf",
    "v_smfmac_f",
    "v_trig_preop",
    "v_cube",
    "v_mullit",
    "v_fma_mix",
    "v_cvt_sr_",
    "v_cvt_scalef32_",
    "ds_read_b64_tr_",
    "ds_read_b96_tr_",
    "v_dot",
    "v_div_fixup",
    "v_permlane64",
    "v_movrel",
    "s_movrel",
    "s_scratch_",
    "ds_append",
    "ds_consume",
    "ds_gws",
    "s_trap",
    "s_alloc_vgpr",
];

/// Beginnings of operations that are as LLVM describes the hardware.
const LLVM: [&str; 9] = [
    "ds_permute",
    "ds_bpermute",
    "s_memtime",
    "s_sendmsg_rtn",
    "s_getreg",
    "s_setreg",
    "s_barrier",
    "global_inv",
    "global_wb",
];

/// Returns the source that vouches for the results of an operation.
fn word(cards: &cards::Report, name: &str) -> &'static str {
    let begins = |with: &[&str]| with.iter().any(|start| name.starts_with(start));
    match cards.captured.get(name) {
        Some(Captured::Here) => "card",
        Some(Captured::OnNeighbour) => "neighbour",
        None if cards.near.contains(name) || begins(&CHOICES) => "choice",
        None if begins(&LLVM) => "LLVM",
        None if cards.absent.contains_key(name) => "waiting",
        None => "manual",
    }
}

/// Properties of an operation on a chip: encodings, lowered, compared, word.
type Row = [String; 4];

/// Names of the properties.
const PROPERTIES: [&str; 4] = ["encodings", "lowered", "compared", "word"];

/// Every operation of a chip, by its mnemonic.
fn rows(arch: Arch) -> BTreeMap<&'static str, Row> {
    let report = semantics::run(arch, 3, 7, None);
    let cards = cards::run(arch, true).unwrap();
    let row = |entry: &Coverage| {
        let formats: Vec<String> = entry.formats.iter().map(|format| family(*format)).collect();
        let name = entry.op.mnemonic();
        let word = word(&cards, name).to_owned();
        (name, [formats.join(" "), lowered(entry), compared(&report, name), word])
    };
    exec::coverage(arch).iter().map(row).collect()
}

/// A field of a CSV file (RFC 4180).
fn field(text: &str) -> String {
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// The list: a line for each operation, with the properties on each chip.
fn list(chips: &[(Arch, BTreeMap<&'static str, Row>)]) -> String {
    let columns = chips.iter().flat_map(|(arch, _)| PROPERTIES.map(|name| format!("{} {name}", arch.name())));
    let mut text = format!("mnemonic,{}\n", columns.collect::<Vec<_>>().join(","));
    let names: BTreeSet<&str> = chips.iter().flat_map(|(_, rows)| rows.keys().copied()).collect();
    for name in names {
        let absent = Row::default();
        let cells = chips.iter().flat_map(|(_, rows)| rows.get(name).unwrap_or(&absent));
        let cells: Vec<String> = cells.map(|cell| field(cell)).collect();
        writeln!(text, "{name},{}", cells.join(",")).unwrap();
    }
    text
}

/// The document: the meaning of the columns, and counts for each chip.
fn summary(chips: &[(Arch, BTreeMap<&'static str, Row>)]) -> String {
    let mut text = PREAMBLE.to_owned();
    let names: Vec<&str> = chips.iter().map(|(arch, _)| arch.name()).collect();
    writeln!(text, "| operations | {} |", names.join(" | ")).unwrap();
    writeln!(text, "|---|{}", "---|".repeat(chips.len())).unwrap();
    let mut count = |what: &str, wanted: &dyn Fn(&Row) -> bool| {
        let of = |rows: &BTreeMap<&str, Row>| rows.values().filter(|row| wanted(row)).count().to_string();
        let counts: Vec<String> = chips.iter().map(|(_, rows)| of(rows)).collect();
        writeln!(text, "| {what} | {} |", counts.join(" | ")).unwrap();
    };
    count("all", &|_| true);
    count("lowered in all of their forms", &|row| row[1] == "all");
    count("compared with the reference in every encoding", &|row| row[2] == "reference");
    count("compared across backends in some or all encodings", &|row| row[2].contains("backends"));
    count("lowered, and compared with nothing", &|row| row[1] == "all" && row[2] == "nothing");
    for word in ["card", "neighbour", "choice", "LLVM", "manual", "waiting"] {
        count(&format!("word: {word}"), &|row| row[3] == word);
    }
    for (arch, _) in chips {
        writeln!(text, "\n{}: {}", arch.name(), absent(*arch)).unwrap();
    }
    text
}

#[test]
fn the_documented_list_is_what_was_lowered_and_compared() {
    let chips = Arch::ALL.map(|arch| (arch, rows(arch)));
    check("isa-coverage.csv", &list(&chips));
    check("isa-coverage.md", &summary(&chips));
}

/// Compares a document with its text, or writes it.
fn check(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs").join(file);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let documented = std::fs::read_to_string(&path).unwrap_or_default();
    for (line, (is, should)) in documented.lines().zip(text.lines()).enumerate() {
        assert_eq!(is, should, "docs/{file}:{}: run with BLESS=1 and look at the difference", line + 1);
    }
    assert_eq!(documented.lines().count(), text.lines().count(), "docs/{file}");
}
