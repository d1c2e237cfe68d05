//! Immediates the assembler has a notation for.
//!
//! Names and bit positions are those of LLVM 22's `AMDGPUAsmUtils.cpp`, `AMDGPUInstPrinter.cpp` and `SIDefines.h`. What differs
//! between architectures is in [`Notation`].

use std::fmt;
use std::fmt::Write as _;

use super::Out;
use crate::tables::notation::{Notation, Style};

/// `vmcnt(0) lgkmcnt(0)`: counters at their maximum are left out, unless all are.
pub(super) fn wait_count(out: Out<'_, '_>, notation: &Notation, imm: u32) -> fmt::Result {
    let counters = notation.wait_counters.map(|(name, [low, bits, high, more])| {
        let part = |first: u8, bits: u8| imm >> first & ((1 << bits) - 1);
        (name, part(low, bits) | part(high, more) << bits, (1u32 << (bits + more)) - 1)
    });
    let all = counters.iter().all(|(_, value, max)| value == max);
    list(
        out,
        " ",
        counters.iter().filter(|(_, value, max)| all || value != max).map(|(name, value, _)| (*name, *value)),
    )
}

/// `depctr_va_vdst(0)`: fields at their default are left out, unless all are.
pub(super) fn dep_ctr(out: Out<'_, '_>, imm: u32) -> fmt::Result {
    const FIELDS: [(&str, u32, u32); 7] = [
        ("depctr_hold_cnt", 7, 1),
        ("depctr_sa_sdst", 0, 1),
        ("depctr_va_vdst", 12, 4),
        ("depctr_va_sdst", 9, 3),
        ("depctr_va_ssrc", 8, 1),
        ("depctr_va_vcc", 1, 1),
        ("depctr_vm_vsrc", 2, 3),
    ];
    let mask = |width: u32| (1u32 << width) - 1;
    let used = FIELDS.iter().fold(0, |used, &(_, shift, width)| used | mask(width) << shift);
    if imm & !used != 0 {
        return write!(out, "{imm:#x}");
    }
    let fields = FIELDS.map(|(name, shift, width)| (name, imm >> shift & mask(width), mask(width)));
    let all = fields.iter().all(|(_, value, max)| value == max);
    list(
        out,
        " ",
        fields.iter().filter(|(_, value, max)| all || value != max).map(|(name, value, _)| (*name, *value)),
    )
}

fn list<'a>(out: Out<'_, '_>, separator: &str, items: impl Iterator<Item = (&'a str, u32)>) -> fmt::Result {
    for (index, (name, value)) in items.enumerate() {
        if index != 0 {
            out.write_str(separator)?;
        }
        write!(out, "{name}({value})")?;
    }
    Ok(())
}

/// `instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_2)`.
pub(super) fn delay_alu(out: Out<'_, '_>, imm: u32) -> fmt::Result {
    const IDS: [&str; 12] = [
        "NO_DEP",
        "VALU_DEP_1",
        "VALU_DEP_2",
        "VALU_DEP_3",
        "VALU_DEP_4",
        "TRANS32_DEP_1",
        "TRANS32_DEP_2",
        "TRANS32_DEP_3",
        "FMA_ACCUM_CYCLE_1",
        "SALU_CYCLE_1",
        "SALU_CYCLE_2",
        "SALU_CYCLE_3",
    ];
    const SKIPS: [&str; 6] = ["SAME", "NEXT", "SKIP_1", "SKIP_2", "SKIP_3", "SKIP_4"];
    let parts = [
        ("instid0", imm & 15, &IDS[..], "/* invalid instid value */"),
        ("instskip", imm >> 4 & 7, &SKIPS[..], "/* invalid instskip value */"),
        ("instid1", imm >> 7 & 15, &IDS[..], "/* invalid instid value */"),
    ];
    let mut separator = "";
    for (label, value, names, invalid) in parts {
        if value != 0 {
            write!(out, "{separator}{label}({})", names.get(value as usize).unwrap_or(&invalid))?;
            separator = " | ";
        }
    }
    if separator.is_empty() { out.write_char('0') } else { Ok(()) }
}

/// `hwreg(HW_REG_MODE, 0, 4)`.
pub(super) fn hwreg(out: Out<'_, '_>, notation: &Notation, imm: u32) -> fmt::Result {
    let (id, offset, size) = (imm & 63, imm >> 6 & 31, (imm >> 11 & 31) + 1);
    out.write_str("hwreg(")?;
    match notation.hardware_register(id) {
        Some(name) => out.write_str(name)?,
        None => write!(out, "{id}")?,
    }
    if offset != 0 || size != 32 {
        write!(out, ", {offset}, {size}")?;
    }
    out.write_char(')')
}

/// `sendmsg(MSG_INTERRUPT)`.
pub(super) fn message(out: Out<'_, '_>, notation: &Notation, imm: u32) -> fmt::Result {
    if notation.style == Style::Gfx9 {
        return message_with_operation(out, notation, imm);
    }
    let id = imm & 0xff;
    match notation.message(id) {
        Some(name) => write!(out, "sendmsg({name})"),
        None if id == imm => write!(out, "sendmsg({id}, 0, 0)"),
        None => write!(out, "{imm}"),
    }
}

/// `sendmsg(MSG_GS, GS_OP_CUT, 1)`: the operation in bits 6:4, the stream in bits 9:8.
fn message_with_operation(out: Out<'_, '_>, notation: &Notation, imm: u32) -> fmt::Result {
    const GS: u32 = 2;
    const GS_DONE: u32 = 3;
    const SYSMSG: u32 = 15;
    let (id, operation, stream) = (imm & 15, imm >> 4 & 7, imm >> 8 & 3);
    let operation_name = match (id, operation) {
        (GS | GS_DONE, 1) => Some("GS_OP_CUT"),
        (GS | GS_DONE, 2) => Some("GS_OP_EMIT"),
        (GS | GS_DONE, 3) => Some("GS_OP_EMIT_CUT"),
        (GS_DONE, 0) => Some("GS_OP_NOP"),
        (SYSMSG, 1) => Some("SYSMSG_OP_ECC_ERR_INTERRUPT"),
        (SYSMSG, 2) => Some("SYSMSG_OP_REG_RD"),
        (SYSMSG, 4) => Some("SYSMSG_OP_TTRACE_PC"),
        _ => None,
    };
    let has_operation = matches!(id, GS | GS_DONE | SYSMSG);
    let has_stream = matches!(id, GS | GS_DONE) && operation != 0;
    let named = notation.message(id).filter(|_| stream == 0 || has_stream);
    match (named, operation_name) {
        (Some(name), Some(operation)) if has_stream => write!(out, "sendmsg({name}, {operation}, {stream})"),
        (Some(name), Some(operation)) => write!(out, "sendmsg({name}, {operation})"),
        (Some(name), None) if !has_operation && operation == 0 => write!(out, "sendmsg({name})"),
        _ if imm == id | operation << 4 | stream << 8 => write!(out, "sendmsg({id}, {operation}, {stream})"),
        _ => write!(out, "{imm}"),
    }
}

/// `gpr_idx(SRC0,DST)`.
pub(super) fn index_mode(out: Out<'_, '_>, mode: u32) -> fmt::Result {
    if mode & !15 != 0 {
        return write!(out, "{mode:#x}");
    }
    out.write_str("gpr_idx(")?;
    let named =
        ["SRC0", "SRC1", "SRC2", "DST"].into_iter().enumerate().filter(|(bit, _)| mode >> bit & 1 != 0);
    for (index, (_, name)) in named.enumerate() {
        out.write_str(if index == 0 { "" } else { "," })?;
        out.write_str(name)?;
    }
    out.write_char(')')
}

/// Part of a register: `BYTE_0`.
pub(super) fn part(part: u8) -> &'static str {
    ["BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD"]
        .get(usize::from(part))
        .unwrap_or(&"")
}

/// Temporal hint of an atomic; `None` for one without a name.
pub(super) fn atomic_hint(th: u8, scope: u8) -> Option<&'static str> {
    const RETURN: u8 = 1;
    const NT: u8 = 2;
    const CASCADE: u8 = 4;
    match th {
        _ if th & CASCADE != 0 && scope < 2 => None,
        _ if th & CASCADE != 0 => Some(if th & NT != 0 { "CASCADE_NT" } else { "CASCADE_RT" }),
        _ if th & NT != 0 => Some(if th & RETURN != 0 { "NT_RETURN" } else { "NT" }),
        RETURN => Some("RETURN"),
        _ => None,
    }
}

/// Temporal hint of a load or store; `None` for one without a name.
pub(super) fn hint(th: u8, scope: u8, stores: bool) -> Option<&'static str> {
    Some(match th {
        1 => "NT",
        2 => "HT",
        3 if scope == 3 => "BYPASS",
        3 if stores => "WB",
        3 => "LU",
        4 => "NT_RT",
        5 => "RT_NT",
        6 => "NT_HT",
        7 if stores => "NT_WB",
        _ => return None,
    })
}

/// `UC_VERSION_GFX11|UC_VERSION_W32_BIT`, with parentheses around all but the last `|`.
pub(super) fn version(out: Out<'_, '_>, imm: u32) -> fmt::Result {
    if imm & 0x1f00 != 0 {
        return write!(out, "{imm:#x}");
    }
    let flags = (imm >> 13).count_ones() as usize;
    out.write_str(&"(("[..flags.saturating_sub(1)])?;
    match imm & 0xff {
        0 => out.write_str("UC_VERSION_GFX7")?,
        4 => out.write_str("UC_VERSION_GFX10")?,
        6 => out.write_str("UC_VERSION_GFX11")?,
        9 => out.write_str("UC_VERSION_GFX12")?,
        other => write!(out, "{other}")?,
    }
    let set = [(13, "W64"), (14, "W32"), (15, "MDP")].into_iter().filter(|(bit, _)| imm >> bit & 1 != 0);
    for (index, (_, name)) in set.enumerate() {
        let close = if index + 1 < flags { ")" } else { "" };
        write!(out, "|UC_VERSION_{name}_BIT{close}")?;
    }
    Ok(())
}

/// `quad_perm:[0,1,2,3]`, `row_shr:1`, ….
pub(super) fn dpp_control(out: Out<'_, '_>, style: Style, ctrl: u16) -> fmt::Result {
    let low = ctrl & 15;
    match ctrl {
        0x130 if style == Style::Gfx9 => out.write_str("wave_shl:1"),
        0x134 if style == Style::Gfx9 => out.write_str("wave_rol:1"),
        0x138 if style == Style::Gfx9 => out.write_str("wave_shr:1"),
        0x13c if style == Style::Gfx9 => out.write_str("wave_ror:1"),
        0x142 if style == Style::Gfx9 => out.write_str("row_bcast:15"),
        0x143 if style == Style::Gfx9 => out.write_str("row_bcast:31"),
        0x150..=0x15f if style == Style::Gfx9 => write!(out, "row_newbcast:{low}"),
        0x160..=0x16f if style == Style::Gfx9 => {
            out.write_str("/* row_xmask is not supported on ASICs earlier than GFX10 */")
        }
        0..=0xff => {
            write!(out, "quad_perm:[{},{},{},{}]", ctrl & 3, ctrl >> 2 & 3, ctrl >> 4 & 3, ctrl >> 6 & 3)
        }
        0x101..=0x10f => write!(out, "row_shl:{low}"),
        0x111..=0x11f => write!(out, "row_shr:{low}"),
        0x121..=0x12f => write!(out, "row_ror:{low}"),
        0x130 => out.write_str("/* wave_shl is not supported starting from GFX10 */"),
        0x134 => out.write_str("/* wave_rol is not supported starting from GFX10 */"),
        0x138 => out.write_str("/* wave_shr is not supported starting from GFX10 */"),
        0x13c => out.write_str("/* wave_ror is not supported starting from GFX10 */"),
        0x140 => out.write_str("row_mirror"),
        0x141 => out.write_str("row_half_mirror"),
        0x142 | 0x143 => out.write_str("/* row_bcast is not supported starting from GFX10 */"),
        0x150..=0x15f => write!(out, "row_share:{low}"),
        0x160..=0x16f => write!(out, "row_xmask:{low}"),
        _ => out.write_str("/* Invalid dpp_ctrl value */"),
    }
}

/// Offset of `ds_swizzle_b32`: a lane permutation.
pub(super) fn swizzle(out: Out<'_, '_>, imm: u32) -> fmt::Result {
    if imm == 0 {
        return Ok(());
    }
    out.write_str(" offset:")?;
    match imm {
        0xe000.. => return write!(out, "swizzle(FFT,{})", imm & 31),
        0xc000.. => return write!(out, "swizzle(ROTATE,{},{})", imm >> 10 & 1, imm >> 5 & 31),
        _ => {}
    }
    if imm & 0xff00 == 0x8000 {
        return write!(
            out,
            "swizzle(QUAD_PERM,{},{},{},{})",
            imm & 3,
            imm >> 2 & 3,
            imm >> 4 & 3,
            imm >> 6 & 3
        );
    }
    if imm & 0x8000 != 0 {
        return write!(out, "{imm}");
    }
    let (and, or, xor) = (imm & 31, imm >> 5 & 31, imm >> 10 & 31);
    let group = 32 - and;
    if and == 31 && or == 0 && xor.is_power_of_two() {
        write!(out, "swizzle(SWAP,{xor})")
    } else if and == 31 && or == 0 && xor > 0 && (xor + 1).is_power_of_two() {
        write!(out, "swizzle(REVERSE,{})", xor + 1)
    } else if group > 1 && group.is_power_of_two() && or < group && xor == 0 {
        write!(out, "swizzle(BROADCAST,{group},{or})")
    } else {
        out.write_str("swizzle(BITMASK_PERM,\"")?;
        let (zeros, ones) = (or ^ xor, (and | or) ^ xor);
        for bit in (0..5).rev() {
            out.write_char(match (zeros >> bit & 1, ones >> bit & 1) {
                (0, 0) => '0',
                (1, 1) => '1',
                (0, _) => 'p',
                _ => 'i',
            })?;
        }
        out.write_str("\")")
    }
}

/// ` format:[BUF_FMT_32_FLOAT]`.
pub(super) fn buffer_format(out: Out<'_, '_>, format: u8) -> fmt::Result {
    // Element layouts in order of their number, each with the interpretations it has.
    const ALL: &str = "UNORM SNORM USCALED SSCALED UINT SINT";
    const FORMATS: [(&str, &str); 16] = [
        ("8", ALL),
        ("16", "UNORM SNORM USCALED SSCALED UINT SINT FLOAT"),
        ("8_8", ALL),
        ("32", "UINT SINT FLOAT"),
        ("16_16", "UNORM SNORM USCALED SSCALED UINT SINT FLOAT"),
        ("10_11_11", "FLOAT"),
        ("11_11_10", "FLOAT"),
        ("10_10_10_2", "UNORM SNORM UINT SINT"),
        ("2_10_10_10", ALL),
        ("8_8_8_8", ALL),
        ("32_32", "UINT SINT FLOAT"),
        ("16_16_16_16", "UNORM SNORM USCALED SSCALED UINT SINT FLOAT"),
        ("32_32_32", "UINT SINT FLOAT"),
        ("32_32_32_32", "UINT SINT FLOAT"),
        ("", ""),
        ("", ""),
    ];
    match format {
        1 => Ok(()),
        0 => out.write_str(" format:[BUF_FMT_INVALID]"),
        _ => {
            let mut names = FORMATS
                .iter()
                .flat_map(|(layout, kinds)| kinds.split_whitespace().map(move |kind| (layout, kind)));
            match names.nth(usize::from(format) - 1) {
                Some((layout, kind)) => write!(out, " format:[BUF_FMT_{layout}_{kind}]"),
                None => write!(out, " format:{format}"),
            }
        }
    }
}

/// ` format:[BUF_DATA_FORMAT_32,BUF_NUM_FORMAT_FLOAT]`: those that are the default are left out.
pub(super) fn split_format(out: Out<'_, '_>, format: u8) -> fmt::Result {
    const DATA: [&str; 16] = [
        "INVALID",
        "8",
        "16",
        "8_8",
        "32",
        "16_16",
        "10_11_11",
        "11_11_10",
        "10_10_10_2",
        "2_10_10_10",
        "8_8_8_8",
        "32_32",
        "16_16_16_16",
        "32_32_32",
        "32_32_32_32",
        "RESERVED_15",
    ];
    const NUMBER: [&str; 8] = ["UNORM", "SNORM", "USCALED", "SSCALED", "UINT", "SINT", "RESERVED_6", "FLOAT"];
    let (data, number) = (usize::from(format & 15), usize::from(format >> 4 & 7));
    if (data, number) == (1, 0) {
        return Ok(());
    }
    out.write_str(" format:[")?;
    if data != 1 {
        write!(out, "BUF_DATA_FORMAT_{}", DATA[data])?;
        out.write_str(if number == 0 { "" } else { "," })?;
    }
    if number != 0 {
        write!(out, "BUF_NUM_FORMAT_{}", NUMBER[number])?;
    }
    out.write_char(']')
}

/// Target of `exp`.
pub(super) fn export_target(out: Out<'_, '_>, target: u32) -> fmt::Result {
    match target {
        0..=7 => write!(out, " mrt{target}"),
        8 => out.write_str(" mrtz"),
        12..=16 => write!(out, " pos{}", target - 12),
        20 => out.write_str(" prim"),
        21..=22 => write!(out, " dual_src_blend{}", target - 21),
        _ => write!(out, " invalid_target_{target}"),
    }
}
