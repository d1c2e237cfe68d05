//! The records of interest in `llvm-tblgen`'s dump.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result};
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::target::{TARGETS, Target};

/// Fields that are read of a record. Records of other kinds lack most of them, or have something else of that
/// name.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Record {
    #[serde(rename = "!superclasses")]
    superclasses: Value,
    #[serde(rename = "Inst")]
    inst: Value,
    #[serde(rename = "AsmString")]
    asm: Value,
    #[serde(rename = "DecoderNamespace")]
    namespace: Value,
    #[serde(rename = "Size")]
    size: Value,
    #[serde(rename = "TSFlags")]
    flags: Value,
    #[serde(rename = "IsSingle")]
    single: Value,
    #[serde(rename = "isPseudo")]
    pseudo: Value,
    #[serde(rename = "isCodeGenOnly")]
    code_gen_only: Value,
    #[serde(rename = "isAsmParserOnly")]
    parser_only: Value,
    #[serde(rename = "OutOperandList")]
    outs: Value,
    #[serde(rename = "InOperandList")]
    ins: Value,
    #[serde(rename = "Predicates")]
    predicates: Value,
    #[serde(rename = "Defs")]
    defs: Value,
    #[serde(rename = "Uses")]
    uses: Value,
    #[serde(rename = "mayStore")]
    may_store: Value,
    #[serde(rename = "PrintMethod")]
    print_method: Value,
    #[serde(rename = "DecoderMethod")]
    decoder_method: Value,
    #[serde(rename = "OperandType")]
    operand_type: Value,
    #[serde(rename = "RegClass")]
    register_class: Value,
    #[serde(rename = "AssemblerMatcherPredicate")]
    matcher: Value,
    #[serde(rename = "AssemblerCondDag")]
    condition: Value,
    #[serde(rename = "Implies")]
    implies: Value,
    #[serde(rename = "Name")]
    name: Value,
    #[serde(rename = "Features")]
    features: Value,
    #[serde(rename = "Objects")]
    objects: Value,
    #[serde(rename = "Modes")]
    modes: Value,
    #[serde(rename = "BaseOpcode")]
    base: Value,
    #[serde(rename = "MIMGEncoding")]
    image_encoding: Value,
    #[serde(rename = "VDataDwords")]
    data: Value,
    #[serde(rename = "VAddrDwords")]
    addresses: Value,
    #[serde(rename = "NumExtraArgs")]
    extra: Value,
    #[serde(rename = "Coordinates")]
    coordinates: Value,
    #[serde(rename = "LodOrClampOrMip")]
    lod: Value,
    #[serde(rename = "Gradients")]
    gradients: Value,
    #[serde(rename = "G16")]
    g16: Value,
    #[serde(rename = "BVH")]
    bvh: Value,
    #[serde(rename = "A16")]
    a16: Value,
}

/// A bit of an instruction.
#[derive(Clone, Debug)]
pub(crate) enum Bit {
    /// Always 0 or 1.
    Fixed(bool),
    /// Bit of an operand's field.
    Of(String, u8),
    /// Not looked at.
    Free,
}

impl Record {
    pub(crate) fn is_a(&self, class: &str) -> bool {
        self.superclasses.as_array().into_iter().flatten().any(|name| name == class)
    }

    pub(crate) fn superclasses(&self) -> impl Iterator<Item = &str> {
        self.superclasses.as_array().into_iter().flatten().filter_map(Value::as_str)
    }

    /// Assembler syntax, with the alternatives LLVM's printer takes.
    pub(crate) fn asm(&self) -> &str {
        self.asm.as_str().unwrap_or_default()
    }

    pub(crate) fn size(&self) -> u64 {
        self.size.as_u64().unwrap_or(0)
    }

    pub(crate) fn namespace(&self) -> &str {
        self.namespace.as_str().unwrap_or_default()
    }

    /// Bit of `TSFlags`.
    pub(crate) fn flag(&self, bit: usize) -> bool {
        self.flags.get(bit).is_some_and(|bit| bit == 1)
    }

    pub(crate) fn is_single(&self) -> bool {
        self.single == 1
    }

    pub(crate) fn bits(&self) -> Vec<Bit> {
        let bit = |value: &Value| match value {
            Value::Number(number) => Bit::Fixed(number.as_u64() == Some(1)),
            Value::Object(object) => {
                let name = object.get("var").or_else(|| object.get("def")).and_then(Value::as_str);
                let index = object.get("index").and_then(Value::as_u64).unwrap_or(0);
                Bit::Of(name.unwrap_or_default().to_owned(), u8::try_from(index).unwrap_or(u8::MAX))
            }
            _ => Bit::Free,
        };
        self.inst.as_array().into_iter().flatten().map(bit).collect()
    }

    /// Operands as (definition, name), destinations first, with the number of destinations.
    pub(crate) fn operands(&self) -> (Vec<(&str, &str)>, usize) {
        let mut operands = arguments(&self.outs);
        let count = operands.len();
        operands.extend(arguments(&self.ins));
        (operands, count)
    }

    pub(crate) fn predicates(&self) -> impl Iterator<Item = &str> {
        definitions(&self.predicates)
    }

    pub(crate) fn defines(&self, register: &str) -> bool {
        definitions(&self.defs).any(|name| name == register)
    }

    pub(crate) fn uses(&self, register: &str) -> bool {
        definitions(&self.uses).any(|name| name == register)
    }

    pub(crate) fn may_store(&self) -> bool {
        self.may_store == 1
    }

    pub(crate) fn print_method(&self) -> Option<&str> {
        self.print_method.as_str()
    }

    pub(crate) fn decoder_method(&self) -> &str {
        self.decoder_method.as_str().unwrap_or_default()
    }

    /// Of an image instruction: its base opcode, encoding, data registers and address registers.
    pub(crate) fn image(&self) -> Option<(&str, &str, u32, u32)> {
        let encoding = self.image_encoding["def"].as_str()?;
        Some((self.base["def"].as_str()?, encoding, number(&self.data), number(&self.addresses)))
    }

    /// Of an image base opcode: arguments before the coordinates, and its properties in the order of `encoding::Image`.
    pub(crate) fn image_base(&self) -> (u32, [bool; 6]) {
        let properties = [&self.coordinates, &self.lod, &self.gradients, &self.g16, &self.bvh, &self.a16];
        (number(&self.extra), properties.map(|property| *property == 1))
    }

    pub(crate) fn operand_type(&self) -> &str {
        self.operand_type.as_str().unwrap_or_default()
    }
}

/// Arguments of an operand list.
fn arguments(list: &Value) -> Vec<(&str, &str)> {
    let arguments = list["args"].as_array().map(Vec::as_slice).unwrap_or_default();
    arguments
        .iter()
        .filter_map(|argument| Some((argument[0]["def"].as_str()?, argument[1].as_str()?)))
        .collect()
}

/// A `bits<n>` field.
fn number(bits: &Value) -> u32 {
    let bits = bits.as_array().map(Vec::as_slice).unwrap_or_default();
    bits.iter().enumerate().map(|(position, bit)| u32::from(*bit == 1) << position).sum()
}

fn definitions(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(|entry| entry["def"].as_str())
}

/// The dump, reduced to the records that the tables need.
#[derive(Debug)]
pub(crate) struct AllRecords(BTreeMap<String, Record>);

impl AllRecords {
    /// Reads the dump.
    pub(crate) fn read(path: &Path) -> Result<AllRecords> {
        let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
        let mut reader = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 20, file));
        Dump.deserialize(&mut reader).map(AllRecords).with_context(|| format!("reading {}", path.display()))
    }

    /// The records as a processor sees them.
    pub(crate) fn of(&self, target: &'static Target, processor: &str) -> Result<Records<'_>> {
        let named = self.0.values().find(|record| record.name == processor && record.features.is_array());
        let mut pending: Vec<String> = named
            .map(|record| definitions(&record.features).map(str::to_owned).collect())
            .with_context(|| format!("no processor {processor}"))?;
        let mut features = BTreeSet::new();
        while let Some(feature) = pending.pop() {
            if let Some(record) = self.0.get(&feature) {
                pending.extend(definitions(&record.implies).map(str::to_owned));
            }
            features.insert(feature);
        }
        Ok(Records { records: &self.0, target, features })
    }
}

/// Records of the dump, as one processor has them.
#[derive(Debug)]
pub(crate) struct Records<'a> {
    records: &'a BTreeMap<String, Record>,
    pub(crate) target: &'static Target,
    features: BTreeSet<String>,
}

impl Records<'_> {
    pub(crate) fn get(&self, name: &str) -> Option<&Record> {
        self.records.get(name)
    }

    /// The processor's instructions, as its disassembler knows them.
    pub(crate) fn instructions(&self) -> impl Iterator<Item = (&str, &Record)> {
        self.records.iter().map(|(name, record)| (name.as_str(), record)).filter(|(name, record)| {
            record.inst.is_array()
                && self.target.namespaces.iter().any(|(_, namespace)| *namespace == record.namespace())
                && [&record.pseudo, &record.code_gen_only, &record.parser_only].iter().all(|flag| **flag != 1)
                && record
                    .predicates()
                    .all(|predicate| self.holds(predicate) || is_true16_alone(name, predicate))
                && !self.has_halves_instead(name)
        })
    }

    /// Returns true if an instruction only names whole registers where the processor has the one that names their halves.
    /// LLVM's disassembler falls back on it for bits that no operand has.
    fn has_halves_instead(&self, name: &str) -> bool {
        name.contains("_fake16") && self.holds("UseRealTrue16Insts")
    }

    /// Every image instruction, including variants that only differ in the number of registers they name.
    pub(crate) fn images(&self) -> impl Iterator<Item = (&str, &str, u32, u32)> {
        self.records.values().filter_map(Record::image)
    }

    /// Returns true if the processor has a feature.
    pub(crate) fn has(&self, feature: &str) -> bool {
        self.features.contains(feature)
    }

    /// Returns true if the processor satisfies an assembler predicate.
    pub(crate) fn holds(&self, predicate: &str) -> bool {
        let Some(record) = self.records.get(predicate) else { return false };
        record.matcher != 1 || record.condition.is_null() || self.condition(&record.condition)
    }

    fn condition(&self, condition: &Value) -> bool {
        if condition["kind"] == "dag" {
            let arguments = condition["args"].as_array().map(Vec::as_slice).unwrap_or_default();
            let mut values = arguments.iter().map(|argument| self.condition(&argument[0]));
            return match condition["operator"]["def"].as_str() {
                Some("all_of") => values.all(|value| value),
                Some("any_of") => values.any(|value| value),
                _ => !values.next().unwrap_or(false),
            };
        }
        // Both wave sizes: a form's predicates tell its wave size.
        let name = condition["def"].as_str().unwrap_or_default();
        name.starts_with("FeatureWavefrontSize") || self.features.contains(name)
    }

    /// Register class of an operand definition, which is one itself or wraps one.
    ///
    /// The class of a lane mask depends on the wave size and keeps its name, other classes are those that the processor has.
    pub(crate) fn register_class<'b>(&'b self, operand: &'b str) -> Option<&'b str> {
        let class = self.any_class(operand)?;
        let record = self.get(class)?;
        if record.is_a("RegisterClass") || class.starts_with("SReg_1") {
            return Some(class);
        }
        let by_mode = || definitions(&record.modes).zip(definitions(&record.objects));
        let holds = |mode: &str| {
            mode != DEFAULT_MODE
                && self.get(mode).is_some_and(|mode| mode.predicates().all(|name| self.holds(name)))
        };
        let own = by_mode().find(|(mode, _)| holds(mode));
        own.or_else(|| by_mode().find(|(mode, _)| *mode == DEFAULT_MODE)).map(|(_, class)| class)
    }

    /// Register class of an operand definition, which can stand for one class of several.
    fn any_class<'b>(&'b self, operand: &'b str) -> Option<&'b str> {
        let record = self.get(operand)?;
        let own = record.is_a("RegisterClass") || record.is_a("RegClassByHwMode");
        if own { Some(operand) } else { record.register_class["def"].as_str() }
    }

    /// Name of the function that reads an operand: its own, or that of its register class.
    pub(crate) fn decoder_method(&self, operand: &str) -> &str {
        let own = self.get(operand).map_or("", Record::decoder_method);
        if !own.is_empty() {
            return own;
        }
        self.any_class(operand).and_then(|class| self.get(class)).map_or("", Record::decoder_method)
    }
}

/// The mode of processors that no other mode fits.
const DEFAULT_MODE: &str = "DefaultMode";

/// Returns true if an instruction exists only if registers have names for their halves, which LLVM does not use by
/// itself for each processor that has the instruction.
fn is_true16_alone(name: &str, predicate: &str) -> bool {
    predicate == "UseRealTrue16Insts" && name.starts_with("V_MOV_B16_")
}

/// Reads the top level of the dump entry by entry and keeps the records that may be needed.
struct Dump;

impl<'de> DeserializeSeed<'de> for Dump {
    type Value = BTreeMap<String, Record>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Dump {
    type Value = BTreeMap<String, Record>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("llvm-tblgen's JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        const CLASSES: [&str; 10] = [
            "MIMG",
            "MIMGBaseOpcode",
            "DAGOperand",
            "RegisterClass",
            "RegClassByHwMode",
            "HwMode",
            "Predicate",
            "SubtargetFeature",
            "ProcessorModel",
            "Processor",
        ];
        let mut records = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            if key.starts_with('!') {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let record: Record = map.next_value()?;
            let mut namespaces = TARGETS.iter().flat_map(|target| target.namespaces);
            let instruction = namespaces.any(|(_, namespace)| *namespace == record.namespace());
            if instruction || CLASSES.iter().any(|class| record.is_a(class)) {
                records.insert(key, record);
            }
        }
        Ok(records)
    }
}
