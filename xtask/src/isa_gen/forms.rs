//! Instruction records to forms: fixed bits, operands, syntax.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};

use super::amend;
use super::operand::{Field, Kind, field, kind};
use super::records::{Bit, Record, Records};
use super::target::{CachePolicy, Target};
use super::unused::{self, Draft};

/// Bits of `TSFlags` (`SIInstrFormats.td`).
mod ts {
    pub(super) const VOP1: usize = 7;
    pub(super) const VOP2: usize = 8;
    pub(super) const VOPC: usize = 9;
    pub(super) const VOP3: usize = 10;
    pub(super) const VOP3P: usize = 12;
    pub(super) const SDWA: usize = 14;
    pub(super) const DPP: usize = 15;
    pub(super) const FLAT: usize = 24;
    pub(super) const GATHER4: usize = 37;
    pub(super) const VOP3_OPSEL: usize = 42;
    pub(super) const IS_PACKED: usize = 49;
    pub(super) const FLAT_GLOBAL: usize = 51;
    pub(super) const FLAT_SCRATCH: usize = 56;
    pub(super) const IS_ATOMIC_NO_RET: usize = 57;
    pub(super) const IS_ATOMIC_RET: usize = 58;
    pub(super) const IS_WMMA: usize = 59;
    pub(super) const IS_SWMMAC: usize = 63;
    /// Encodings with a bit of their own.
    pub(super) const FORMATS: [(usize, &str); 15] = [
        (2, "Sop1"),
        (3, "Sop2"),
        (4, "Sopc"),
        (5, "Sopk"),
        (6, "Sopp"),
        (19, "Smem"),
        (17, "Mubuf"),
        (18, "Mtbuf"),
        (20, "Mimg"),
        (21, "Vimage"),
        (22, "Vsample"),
        (23, "Exp"),
        (28, "LdsDir"),
        (29, "Vinterp"),
        (25, "Ds"),
    ];
}

/// Names of a form's flags, in the order of their bits in `encoding::Flags`.
const FLAGS: [&str; 20] = [
    "W32", "W64", "PACKED", "OPSEL", "WMMA", "RTN", "DEF_VCC", "DEF_EXEC", "USE_VCC", "ACC", "ACC_Y",
    "SDST_IN", "DATA_OUT", "DATA_IN", "OFFEN", "IDXEN", "TFE", "STORES", "ATOMIC", "LDS",
];

/// One encoding of an operation: `encoding::Form`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Form {
    pub(crate) value: u128,
    pub(crate) op: String,
    pub(crate) dual: Option<String>,
    pub(crate) format: &'static str,
    pub(crate) syntax: usize,
    pub(crate) operands: usize,
    pub(crate) flags: u32,
    /// Shape that the text of an image instruction depends on as well.
    pub(crate) image: Option<Image>,
    /// Bit *n*: the family's processor *n* has it.
    pub(crate) processors: u8,
}

/// Shape of an image instruction: `encoding::Image`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Image {
    pub(crate) extra: u32,
    pub(crate) flags: u32,
    pub(crate) data: u32,
    pub(crate) addresses: u32,
    /// Bit *n*: there is an instruction with *n* data registers.
    pub(crate) data_sizes: u32,
    /// Bit *n*: there is an instruction with *n* address registers.
    pub(crate) address_sizes: u32,
}

impl Image {
    fn of(records: &Records<'_>, record: &Record) -> Option<Image> {
        let (base, encoding, data, addresses) = record.image()?;
        let (extra, properties) = records.get(base)?.image_base();
        let flags = properties.into_iter().chain([record.flag(ts::GATHER4)]);
        let flags = flags.enumerate().map(|(bit, set)| u32::from(set) << bit).sum();
        let (mut data_sizes, mut address_sizes) = (0, 0);
        for image in records.images().filter(|image| (image.0, image.1) == (base, encoding)) {
            data_sizes |= 1 << image.2;
            address_sizes |= 1 << image.3;
        }
        Some(Image { extra, flags, data, addresses, data_sizes, address_sizes })
    }
}

/// Values in order of their first use.
#[derive(Debug)]
pub(crate) struct Interned<T> {
    pub(crate) items: Vec<T>,
    index: BTreeMap<T, usize>,
}

impl<T: Ord + Clone> Interned<T> {
    fn new() -> Interned<T> {
        Interned { items: Vec::new(), index: BTreeMap::new() }
    }

    fn index(&mut self, item: T) -> usize {
        if let Some(index) = self.index.get(&item) {
            return *index;
        }
        self.items.push(item.clone());
        self.index.insert(item, self.items.len() - 1);
        self.items.len() - 1
    }
}

/// Everything the table file holds.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) target: &'static Target,
    /// Per decoder table: forms by the bits that select them.
    pub(crate) tables: Vec<BTreeMap<u128, Vec<Form>>>,
    pub(crate) kinds: Interned<Kind>,
    pub(crate) fields: Interned<Field>,
    /// Operand lists as (name, kind, field).
    pub(crate) operands: Interned<Vec<(String, usize, usize)>>,
    pub(crate) syntax: Interned<String>,
}

impl Tables {
    /// Tables of a family without forms.
    pub(crate) fn new(target: &'static Target) -> Tables {
        let mut tables = Tables {
            target,
            tables: vec![BTreeMap::new(); target.namespaces.len()],
            kinds: Interned::new(),
            fields: Interned::new(),
            operands: Interned::new(),
            syntax: Interned::new(),
        };
        tables.fields.index(Vec::new());
        tables
    }

    /// Adds the forms of the family's processors, in the order of their bits. Processors that have the same form share it.
    pub(crate) fn add(&mut self, processors: &[Records<'_>]) -> Result<()> {
        let mut forms: BTreeMap<(usize, u128, Form), u8> = BTreeMap::new();
        for (bit, records) in processors.iter().enumerate() {
            for draft in self.drafts(records)? {
                *forms.entry((draft.table.0, draft.mask(), draft.form)).or_default() |= 1 << bit;
            }
        }
        for ((table, mask, form), processors) in forms {
            self.tables[table].entry(mask).or_default().push(Form { processors, ..form });
        }
        for (mask, forms) in self.tables.iter_mut().flatten() {
            forms.sort_by(|left, right| (left.value & mask, left).cmp(&(right.value & mask, right)));
        }
        Ok(())
    }

    /// The forms of one processor, with the bits that select them.
    fn drafts(&mut self, records: &Records<'_>) -> Result<Vec<Draft>> {
        let mut drafts = Vec::new();
        for (name, record) in records.instructions() {
            drafts.push(self.draft(records, name, record).with_context(|| format!("instruction {name}"))?);
        }
        amend::accumulating(records.target, &mut drafts);
        unused::settle(&mut drafts);
        Ok(drafts)
    }

    /// Number of forms that a processor of these bits has.
    pub(crate) fn form_count(&self, processors: u8) -> usize {
        let forms = self.tables.iter().flat_map(BTreeMap::values).flatten();
        forms.filter(|form| form.processors & processors != 0).count()
    }

    /// Mnemonics, halves of VOPD by their own names.
    pub(crate) fn operations(&self) -> BTreeSet<&str> {
        let forms = self.tables.iter().flat_map(BTreeMap::values).flatten();
        forms.flat_map(|form| [Some(form.op.as_str()), form.dual.as_deref()]).flatten().collect()
    }

    fn draft(&mut self, records: &Records<'_>, name: &str, record: &Record) -> Result<Draft> {
        let table = records
            .target
            .namespaces
            .iter()
            .position(|&(size, namespace)| size == record.size() && namespace == record.namespace())
            .context("no decoder table has instructions of its length")?;
        let (operands, destinations) = record.operands();
        let format = format(name, record, &operands[..destinations])?;
        let syntax = Syntax::of(records, name, record, format, &operands)?;
        let (bits, written) = amend::bits(records.target, format, &syntax.op, record);
        let (mut mask, mut value) = (0u128, written);
        for (position, bit) in bits.iter().enumerate() {
            if let Bit::Fixed(set) = bit {
                mask |= 1 << position;
                value |= u128::from(*set) << position;
            }
        }
        let mut flags = flags(record, format, &operands, destinations, &bits);
        if name.starts_with("V_CVT_PKACCUM_") {
            // It keeps bytes of its destination, which LLVM's description does not mention.
            flags.push("ACC");
        }
        if records.target.cache_policy == CachePolicy::Hints && syntax.names().contains("cpol") {
            // The names of the hints differ.
            let atomic = record.flag(ts::IS_ATOMIC_RET) || record.flag(ts::IS_ATOMIC_NO_RET);
            flags.extend(
                [(record.may_store(), "STORES"), (atomic, "ATOMIC")]
                    .into_iter()
                    .filter_map(|(set, flag)| set.then_some(flag)),
            );
        }
        if matches!(format, "Mubuf" | "Mtbuf") {
            let text = &syntax.text;
            let set = [(" offen", "OFFEN"), (" idxen", "IDXEN")]
                .into_iter()
                .filter(|(word, _)| text.contains(word));
            flags.extend(set.map(|(_, flag)| flag));
            if text.ends_with(" tfe") {
                flags.push("TFE");
            }
            if text.ends_with(" lds") {
                flags.push("LDS");
            }
        }
        let flags = FLAGS
            .iter()
            .enumerate()
            .filter(|(_, flag)| flags.contains(flag))
            .fold(0, |set, (bit, _)| set | 1 << bit);
        let operands = self.operand_list(records, &operands, &bits, &syntax)?;
        let unused = unused::candidates(records.target.file, format, &syntax.op, &bits);
        let form = Form {
            value,
            op: syntax.op,
            dual: syntax.dual,
            format,
            syntax: self.syntax.index(syntax.text),
            operands,
            flags,
            image: Image::of(records, record),
            processors: 0,
        };
        Ok(Draft { table: (table, record.size()), fixed: mask, unused, form })
    }

    /// Index of the operand list: operands that have bits, are printed, or decide how modifiers are printed.
    fn operand_list(
        &mut self,
        records: &Records<'_>,
        operands: &[(&str, &str)],
        bits: &[Bit],
        syntax: &Syntax,
    ) -> Result<usize> {
        let used = syntax.names();
        let arrays = ["op_sel", "op_sel_hi", "neg_lo", "neg_hi"].iter().any(|name| used.contains(name));
        let mut list = Vec::new();
        let mut seen = BTreeSet::new();
        for &(definition, name) in operands {
            if !seen.insert(name) {
                continue;
            }
            // LLVM's disassembler does not look at the bit where there is no global data share.
            if name == "gds" && !records.has("FeatureGDS") {
                continue;
            }
            let source = matches!(name, "src0" | "src1" | "src2");
            let field = field(bits, name);
            let wanted = !field.is_empty()
                || used.contains(name)
                || name.ends_with("_modifiers")
                || used.contains(format!("{name}_modifiers").as_str())
                || source && arrays;
            if wanted {
                let kind = kind(records, name, definition)?;
                list.push((name.to_owned(), self.kinds.index(kind), self.fields.index(field)));
            }
        }
        Ok(self.operands.index(list))
    }
}

/// Assembler syntax of an instruction.
struct Syntax {
    op: String,
    dual: Option<String>,
    /// Text after the mnemonic.
    text: String,
}

impl Syntax {
    /// Adds to the record's syntax the text that LLVM's printer writes on its own: encoding suffixes and the implied
    /// `vcc`.
    fn of(
        records: &Records<'_>,
        name: &str,
        record: &Record,
        format: &str,
        operands: &[(&str, &str)],
    ) -> Result<Syntax> {
        let asm = record
            .asm()
            .replace("{_e64}", "_e64")
            .replace("{_e32}", "_e32")
            .replace("{_e64_dpp}", "_e64_dpp");
        ensure!(!asm.contains('{'), "alternatives in {asm}");
        let end = asm.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(asm.len());
        let mnemonic = ["_e64_dpp", "_e64", "_e32"]
            .iter()
            .find_map(|suffix| asm[..end].strip_suffix(suffix))
            .unwrap_or(&asm[..end]);
        let mut text = asm[mnemonic.len()..].to_owned();
        if let Some((definition, first)) = operands.first()
            && records.get(definition).and_then(Record::print_method) == Some("printVOPDst")
        {
            ensure!(text.starts_with(&format!("${first}")), "{asm} does not begin with ${first}");
            text = format!("{} {text}", suffix(record));
        }
        let generation = format!("_{}", records.target.file);
        let base =
            name.strip_suffix(generation.as_str()).or_else(|| name.strip_suffix("_vi")).unwrap_or(name);
        let short =
            ["_e32", "_dpp", "_dpp8"].iter().find_map(|form| base.strip_suffix(form)).unwrap_or_default();
        let carries = matches!(short, "V_ADD_CO_CI_U32" | "V_SUB_CO_CI_U32" | "V_SUBREV_CO_CI_U32");
        if carries {
            text = text.replacen("$vdst", "$vdst, $vcc", 1);
        }
        if carries || short == "V_CNDMASK_B32" && !text.ends_with("vcc") && !text.contains("vcc ") {
            let source = if text.contains("$src1_modifiers") { "$src1_modifiers" } else { "$src1" };
            text = text.replacen(source, &format!("{source}, $vcc"), 1);
        }
        let destinations = record.operands().1;
        if record.flag(ts::VOPC) && destinations == 0 && (record.defines("VCC") || record.defines("VCC_LO")) {
            text = text.replacen("$src0", "$vcc, $src0", 1);
        }
        if format == "Mtbuf" {
            // The printer writes the format after SOFFSET.
            text = text.replace("$format", "").replace("$soffset", "$soffset$format");
        }
        let dual = text.split_once(":: v_dual_").map(|(_, rest)| {
            let end = rest.find(' ').unwrap_or(rest.len());
            format!("v_{}", &rest[..end])
        });
        Ok(Syntax { op: mnemonic.replace("v_dual_", "v_"), dual, text: text.trim_end().to_owned() })
    }

    /// Operands the syntax names.
    fn names(&self) -> BTreeSet<&str> {
        let name =
            |part: &'_ str| part.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(part.len());
        self.text.split('$').skip(1).map(|part| &part[..name(part)]).collect()
    }
}

/// Encoding suffix of a vector operation.
fn suffix(record: &Record) -> &'static str {
    let single = record.is_single();
    match (record.flag(ts::VOP3), record.flag(ts::DPP)) {
        (true, true) => "_e64_dpp",
        (true, false) if !single => "_e64",
        (true, false) => "",
        (false, true) => "_dpp",
        (false, false) if record.flag(ts::SDWA) => "_sdwa",
        (false, false) if (record.flag(ts::VOP1) || record.flag(ts::VOP2)) && !single => "_e32",
        (false, false) => "",
    }
}

/// `inst::Format` of an instruction.
fn format(name: &str, record: &Record, destinations: &[(&str, &str)]) -> Result<&'static str> {
    if let Some((_, format)) = ts::FORMATS.iter().find(|(bit, _)| record.flag(*bit)) {
        return Ok(format);
    }
    let class = |prefixes: &[&str]| {
        record.superclasses().any(|class| prefixes.iter().any(|prefix| class.starts_with(prefix)))
    };
    let names = |operand: &str| destinations.iter().any(|(_, name)| *name == operand);
    Ok(if record.flag(ts::FLAT) {
        match (record.flag(ts::FLAT_GLOBAL), record.flag(ts::FLAT_SCRATCH)) {
            (true, _) => "Global",
            (_, true) => "Scratch",
            _ => "Flat",
        }
    } else if name.starts_with("V_DUAL_") {
        "Vopd"
    } else if record.flag(ts::VOP3P) || class(&["VOP3Pe", "VOP3P_"]) {
        "Vop3P"
    } else if record.flag(ts::VOP3) || class(&["VOP3_"]) {
        if names("vdst") && names("sdst") { "Vop3Sd" } else { "Vop3" }
    } else if record.flag(ts::VOPC) || class(&["VOPC_"]) {
        "Vopc"
    } else if record.flag(ts::VOP2) || class(&["VOP2_"]) || name == "V_ILLEGAL" {
        // The word 0 looks like a VOP2 and is defined to be no instruction.
        "Vop2"
    } else if record.flag(ts::VOP1) || class(&["VOP1_"]) {
        "Vop1"
    } else {
        bail!("an encoding that is not known")
    })
}

fn flags(
    record: &Record,
    format: &str,
    operands: &[(&str, &str)],
    destinations: usize,
    bits: &[Bit],
) -> Vec<&'static str> {
    let has = |name: &str| operands.iter().any(|(_, operand)| *operand == name);
    let out = |name: &str| operands[..destinations].iter().any(|(_, operand)| *operand == name);
    let predicate = |name: &str| record.predicates().any(|predicate| predicate == name);
    let encoded = |name: &str| !field(bits, name).is_empty();
    let flags = [
        (predicate("isWave32"), "W32"),
        (predicate("isWave64"), "W64"),
        (record.flag(ts::IS_PACKED), "PACKED"),
        (record.flag(ts::VOP3_OPSEL), "OPSEL"),
        (record.flag(ts::IS_WMMA) || record.flag(ts::IS_SWMMAC), "WMMA"),
        (record.flag(ts::IS_ATOMIC_RET), "RTN"),
        (record.defines("VCC"), "DEF_VCC"),
        (record.defines("EXEC"), "DEF_EXEC"),
        (record.uses("VCC"), "USE_VCC"),
        (has("src2") && !encoded("src2") || has("src2X"), "ACC"),
        (has("src2Y"), "ACC_Y"),
        (format == "Sopk" && has("sdst") && !out("sdst"), "SDST_IN"),
        (out("vdata") || out("vdst") && matches!(format, "Mimg" | "Vimage"), "DATA_OUT"),
        (has("vdata") && !out("vdata") || has("vdata_in"), "DATA_IN"),
    ];
    flags.into_iter().filter(|(set, _)| *set).map(|(_, flag)| flag).collect()
}
