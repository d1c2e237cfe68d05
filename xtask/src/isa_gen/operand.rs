//! Operand records: where their bits are, how they are read and printed.

use anyhow::{Context, Result, bail};

use super::records::{Bit, Records};

/// Way to read and print an operand: `encoding::Kind`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind {
    pub(crate) decode: &'static str,
    pub(crate) width: u8,
    pub(crate) imm: &'static str,
    pub(crate) inline: bool,
    pub(crate) print: String,
    pub(crate) class: String,
}

/// Place of a field: runs of (first bit in the instruction, first bit in the field, length).
pub(crate) type Field = Vec<(u8, u8, u8)>;

/// Runs of bits that belong to the operand.
pub(super) fn field(bits: &[Bit], name: &str) -> Field {
    let mut field = Field::new();
    for (position, bit) in bits.iter().enumerate() {
        let Bit::Of(operand, index) = bit else { continue };
        let position = u8::try_from(position).unwrap_or(u8::MAX);
        if operand != name {
            continue;
        }
        match field.last_mut() {
            Some((first, start, length)) if *first + *length == position && *start + *length == *index => {
                *length += 1;
            }
            _ => field.push((position, *index, 1)),
        }
    }
    field
}

/// Finds the way to read and print an operand.
pub(super) fn kind(records: &Records<'_>, name: &str, definition: &str) -> Result<Kind> {
    let record = records.get(definition).with_context(|| format!("no operand {definition}"))?;
    let class = records.register_class(definition);
    let print = match record.print_method() {
        _ if record.operand_type() == "OPERAND_PCREL" => "Branch",
        Some("printOperandAndFPInputMods") => "FpMods",
        Some("printOperandAndIntInputMods") if name.ends_with("_modifiers") => "IntMods",
        _ if name.ends_with("_modifiers") => "Mods",
        None | Some("printOperand" | "printRegularOperand" | "printVOPDst") => "Operand",
        Some(lambda) if lambda.contains("printNamedInt") => named_number(lambda)?,
        Some(lambda) if lambda.starts_with('[') => "NamedBit",
        Some("printFORMAT") => "BufferFormat",
        Some("printAVLdSt32Align2RegOp") => "First",
        Some(method) => method.strip_prefix("print").unwrap_or(method),
    };
    let imm = record.operand_type();
    let imm = if imm == "OPERAND_INLINE_SPLIT_BARRIER_INT32" { "OPERAND_REG_INLINE_C_INT32" } else { imm };
    let inline = imm.starts_with("OPERAND_REG_INLINE_C_V2");
    let imm = imm.strip_prefix("OPERAND_REG_").map_or(Ok("None"), |kind| {
        let kind = ["IMM_", "INLINE_C_", "INLINE_AC_"].iter().find_map(|prefix| kind.strip_prefix(prefix));
        let kind = kind.context("constants of no type")?.trim_end_matches("_SPLAT");
        Ok(match kind {
            "INT16" => "Int16",
            "INT32" => "Int32",
            "INT64" => "Int64",
            "FP16" => "Fp16",
            "FP32" => "Fp32",
            "FP64" => "Fp64",
            "BF16" => "Bf16",
            "V2INT16" => "V2Int16",
            "V2FP16" => "V2Fp16",
            "V2BF16" => "V2Bf16",
            "V2INT32" => "Int32",
            "V2FP32" => "Fp32",
            _ => bail!("constants of type {kind}"),
        })
    })?;
    let (decode, width) = decode(records.decoder_method(definition), class)?;
    // Only here do memory instructions reach accumulation registers.
    let decode = if decode == "AvMemory" && !records.holds("isGFX90APlus") { "Vgpr" } else { decode };
    let class = class.unwrap_or_default().to_owned();
    Ok(Kind { decode, width, imm, inline, print: print.to_owned(), class })
}

/// `encoding::Print` of a number that is printed after its name, which is quoted in the printer's code.
fn named_number(lambda: &str) -> Result<&'static str> {
    Ok(match lambda.split('"').nth(1).unwrap_or_default() {
        "offset" => "SMEMOffsetMod",
        "offset0" => "Offset0",
        "offset1" => "Offset1",
        "row_mask" => "DppRowMask",
        "bank_mask" => "DppBankMask",
        "byte_sel" => "ByteSel",
        "cbsz" => "CBSZ",
        "abid" => "ABID",
        "dmask" => "DMask",
        "wait_exp" => "WaitEXP",
        "wait_vdst" => "WaitVDST",
        "wait_va_vdst" => "WaitVAVDst",
        "wait_vm_vsrc" => "WaitVMVSrc",
        name => bail!("the number {name}"),
    })
}

/// `encoding::Decode` of an operand and the registers it occupies.
fn decode(method: &str, class: Option<&str>) -> Result<(&'static str, u8)> {
    // `SReg_64_XEXEC`: 64 bits. `SReg_1` is a lane mask, whose width is the wave's.
    let bits = |class: &str| class.split('_').find_map(|part| part.parse::<u16>().ok());
    let registers = |bits: u16| if bits == 1 { 0 } else { u8::try_from(bits / 32).unwrap_or(0).max(1) };
    let width = class.and_then(bits).map_or(0, registers);
    let (name, arguments) = method.split_once('<').unwrap_or((method, ""));
    let operand_width = arguments.trim_end_matches('>').parse().map_or(width, registers);
    Ok(match name {
        "decodeSrcRegOrImm9" | "decodeSrcReg9" => ("Src", operand_width),
        "decodeOperand_VSrcT16" => ("Src", operand_width),
        // Of sources that can only be vector registers LLVM drops the bit that says so.
        "decodeOperand_VGPR_16" => ("Src", 1),
        "decodeOperand_VSrc_f64" => ("Src", 2),
        "decodeAVLdSt" => ("AvMemory", operand_width),
        "decodeAV10" => ("Av", operand_width),
        "decodeSrcAV10" => ("SrcAv", operand_width),
        "decodeSrcA9" | "decodeSrcRegOrImmA9" => ("SrcAgpr", operand_width),
        "decodeSDWASrc16" | "decodeSDWASrc32" => ("SdwaSrc", width.max(1)),
        "decodeSDWAVopcDst" => ("SdwaVopcDst", width),
        "DecodeVGPR_16_Lo128RegisterClass" => ("VgprT16", width),
        "decodeOperand_VSrcT16_Lo128" => ("SrcT16", width),
        "decodeBoolReg" => ("Bool", width),
        // Any source can be encoded, although only constants and `M0` have a meaning.
        "decodeSplitBarrier" => ("Src", 1),
        "decodeOperandVOPDDstY" => ("VopdDstY", width),
        "decodeOperand_KImmFP" => ("Literal", width),
        _ if name.starts_with("Decode") && name.ends_with("RegisterClass") => by_class(class, width),
        "" | "decodeSOPPBrTarget" | "decodeSMEMOffset" | "decodeDpp8FI" | "decodeVersionImm" => {
            by_class(class, width)
        }
        _ => bail!("decoder method {method}"),
    })
}

/// `encoding::Decode` of an operand that its register class tells.
fn by_class(class: Option<&str>, width: u8) -> (&'static str, u8) {
    match class {
        Some(class) if class.starts_with("SReg") => ("Sgpr", width),
        Some(class) if class.starts_with("AReg") || class.starts_with("AGPR") => ("Agpr", width),
        Some(_) => ("Vgpr", width),
        None => ("Imm", 0),
    }
}
