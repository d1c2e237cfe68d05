//! Fields that hardware looks at and that LLVM 22's target description has lost: the tables have them all the same.

use belfry_isa::decode::decode;
use belfry_isa::disasm::Disassembly;
use belfry_isa::encode::encode;
use belfry_isa::exec::Stop;
use belfry_isa::inst::{Arch, Dpp, Format, Inst, Op, Operand, WaveSize};
use belfry_isa::lanes::Backend;
use belfry_isa::tables::patterns;
use belfry_isa::wave::{Wave, WaveInit};

use super::common::Gpu;
use super::{lanes, true16};

/// Decodes two dwords of code and checks that they are encoded again, all bits of them.
fn read(arch: Arch, words: &[u32]) -> Inst {
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let inst = decode(arch, &code).unwrap_or_else(|error| panic!("{words:08x?}: {error}"));
    let again = encode(arch, &inst).unwrap_or_else(|error| panic!("{words:08x?}: {error}"));
    assert_eq!(again.bytes(), code, "{words:08x?}");
    inst
}

fn text(arch: Arch, inst: Inst) -> String {
    Disassembly::new(inst, arch, WaveSize::Wave64).to_string()
}

#[test]
fn dot_products_of_integers_have_halves_on_gfx11_and_gfx12_and_none_on_gfx942() {
    let names = ["v_dot4_i32_iu8", "v_dot4_u32_u8", "v_dot8_i32_iu4", "v_dot8_u32_u4"];
    for arch in [Arch::Gfx1100, Arch::Gfx1201] {
        for (opcode, name) in (0xcc16_0000..).step_by(0x1_0000).zip(names) {
            for (low, high) in (0..8).flat_map(|low| (0..8).map(move |high| (low, high))) {
                // OPSEL, and OPSEL_HI in two parts.
                let first = opcode | low << 11 | (high >> 2) << 14;
                let inst = read(arch, &[first, 0x040e_0501 | (high & 3) << 27]);
                let mods = (u32::from(inst.mods.op_sel), u32::from(inst.mods.op_sel_hi));
                assert_eq!(mods, (low, high), "{name} {arch:?}");
                assert_eq!(text(arch, inst), format!("{name} v0, v1, v2, v3"));
            }
        }
    }
    for opcode in [0xd3a8_0000, 0xd3a9_0000, 0xd3aa_0000, 0xd3ab_0000] {
        let usual = read(Arch::Gfx942, &[opcode | 1 << 14, 0x1c0e_0501]);
        assert_eq!((usual.mods.op_sel, usual.mods.op_sel_hi), (0, 7));
        let code = (u64::from(opcode | 0b101 << 11) | 0x040e_0501 << 32).to_le_bytes();
        assert_eq!(decode(Arch::Gfx942, &code), Ok(usual), "bits that are not looked at");
    }
}

/// Bits of the opcode in an encoding.
fn opcode_bits(format: Format) -> u128 {
    match format {
        Format::Vop1 => 0xff << 9,
        Format::Vop2 => 0x3f << 25,
        Format::Vopc => 0xff << 17,
        _ => 0x3ff << 16,
    }
}

#[test]
fn halves_of_gfx1201_are_those_of_gfx1100() {
    let (mut wrong, mut seen) = (Vec::new(), Vec::new());
    for case in true16::cases() {
        let inst =
            decode(Arch::Gfx1100, &case.bytes).unwrap_or_else(|error| panic!("{}: {error}", case.text));
        let mut code = [0; 16];
        code[..case.bytes.len()].copy_from_slice(&case.bytes);
        let bits = u128::from_le_bytes(code);
        let opcode = opcode_bits(inst.format);
        let same = patterns(Arch::Gfx1201).find(|pattern| {
            (pattern.op, pattern.format) == (inst.op, inst.format)
                && usize::from(pattern.bytes) == case.bytes.len()
                && (pattern.value ^ bits) & pattern.mask & !opcode == 0
        });
        let Some(pattern) = same else { continue };
        let bits = bits & !opcode | pattern.value & opcode;
        match decode(Arch::Gfx1201, &bits.to_le_bytes()) {
            Ok(other) if other.op == inst.op => wrong.extend(case.mistaken(&other)),
            other => wrong.push(format!("{}: {other:?}", case.text)),
        }
        seen.push(inst.op);
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), seen.len(), wrong.join("\n"));
    assert!(seen.len() > 500 && seen.contains(&Op::V_FMAC_F16), "{}", seen.len());
}

#[test]
fn pairs_of_bytes_are_read_from_halves_on_gfx1201() {
    // v_cvt_pk_f32_fp8_e32 v[2:3], v3.l; v3.h; v_cvt_pk_f32_bf8_e32 v[2:3], v3.h; as llvm-mc-22 -mattr=+real-true16 has them.
    for (word, op, op_sel) in [
        (0x7e04_dd03, Op::V_CVT_PK_F32_FP8, 0),
        (0x7e04_dd83, Op::V_CVT_PK_F32_FP8, 1),
        (0x7e04_df83, Op::V_CVT_PK_F32_BF8, 1),
    ] {
        let inst = read(Arch::Gfx1201, &[word]);
        assert_eq!((inst.op, inst.src[0], inst.mods.op_sel), (op, Operand::Vgpr(3), op_sel));
    }
    // The same in VOP3: a register of 256, and OPSEL.
    let inst = read(Arch::Gfx1201, &[0xd5ee_0802, 0x0000_0183]);
    assert_eq!((inst.src[0], inst.mods.op_sel), (Operand::Vgpr(131), 1));
    // gfx942 has whole registers there.
    assert_eq!(read(Arch::Gfx942, &[0x7e04_ad83]).src[0], Operand::Vgpr(131));
}

#[test]
fn the_count_of_an_alignment_is_half_a_register_on_gfx942() {
    let (a, b) = (lanes(|l| l.wrapping_mul(0x9e37_79b9)), lanes(|l| 0x8421_0000 ^ l));
    let count = lanes(|l| (l % 32) | ((31 - l % 32) << 16));
    for backend in Backend::all() {
        for high in [false, true] {
            // v_nop with DPP and with SDWA; v_alignbit_b32 v4, v0, v1, v2; v_alignbyte_b32 v5, v0, v1, v2; s_endpgm.
            let op_sel = u32::from(high) << 13;
            let nops = [0x7e00_00fa, 0xff00_e400, 0x7e00_00f9, 0x0606_0600];
            let aligned = [0xd1ce_0004u32 | op_sel, 0x040a_0300, 0xd1cf_0005 | op_sel, 0x040a_0300];
            let words = [&nops[..], &aligned, &[0xbf81_0000]].concat();
            let mut gpu = Gpu::of(Arch::Gfx942, backend, 1 << 18);
            let pc = gpu.buffer(&words);
            let mut wave = Wave::new(&WaveInit {
                arch: Arch::Gfx942,
                pc,
                exec: u64::MAX,
                wave_size: WaveSize::Wave64,
                vgprs: &[a, b, count],
                vgpr_count: 16,
                accum_offset: 8,
                ..WaveInit::default()
            });
            assert_eq!(gpu.step(&mut wave, 10), Stop::EndProgram);
            for lane in 0..64 {
                let both = u64::from(a[lane]) << 32 | u64::from(b[lane]);
                let count = if high { count[lane] >> 16 } else { count[lane] };
                let lane = lane as u32;
                assert_eq!(wave.vgpr(4, lane), (both >> (count & 31)) as u32, "{high}, lane {lane}");
                assert_eq!(wave.vgpr(5, lane), (both >> (8 * (count & 3))) as u32, "{high}, lane {lane}");
            }
        }
    }
}

#[test]
fn v_nop_of_gfx942_has_the_dword_of_dpp_and_sdwa() {
    let dpp = read(Arch::Gfx942, &[0x7e00_00fa, 0xff00_e400]);
    assert!(matches!((dpp.op, dpp.size, dpp.dpp), (Op::V_NOP, 8, Some(Dpp::Dpp16(_)))), "{dpp:?}");
    let sdwa = decode(Arch::Gfx942, &[0xf9, 0, 0, 0x7e, 0, 6, 6, 6]);
    assert!(sdwa.is_ok_and(|sdwa| (sdwa.op, sdwa.size) == (Op::V_NOP, 8)), "{sdwa:?}");
    assert_eq!(read(Arch::Gfx942, &[0x7e00_0000]).size, 4);
    // Without that dword they are no instruction, and v_clrexcp has no such forms.
    for word in [0x7e00_00f9u32, 0x7e00_00fa, 0x7e00_6af9, 0x7e00_6afa] {
        let alone = decode(Arch::Gfx942, &word.to_le_bytes());
        assert!(alone.is_err(), "{word:#x} is {alone:?}");
    }
    assert!(decode(Arch::Gfx942, &[0xf9, 0x6a, 0, 0x7e, 0, 6, 6, 6]).is_err(), "v_clrexcp with SDWA");
}

#[test]
fn atomics_return_to_accumulation_registers_with_every_scope() {
    for (words, expected) in [
        ([0xdd35_8000, 0x01ff_0402], "global_atomic_add_f32 a1, v[2:3], a4, off sc0"),
        ([0xdf37_8000, 0x01ff_0402], "global_atomic_add_f32 a1, v[2:3], a4, off sc0 nt sc1"),
        ([0xdd39_8000, 0x0188_0402], "global_atomic_pk_add_f16 a1, v2, a4, s[8:9] sc0"),
        ([0xdf3d_0000, 0x0280_0402], "flat_atomic_add_f64 a[2:3], v[2:3], a[4:5] sc0 sc1"),
        ([0xdf41_0000, 0x0280_0402], "flat_atomic_min_f64 a[2:3], v[2:3], a[4:5] sc0 sc1"),
        ([0xdf45_8000, 0x02ff_0402], "global_atomic_max_f64 a[2:3], v[2:3], a[4:5], off sc0 sc1"),
        ([0xdd3d_8000, 0x02ff_0402], "global_atomic_add_f64 a[2:3], v[2:3], a[4:5], off sc0"),
    ] {
        assert_eq!(text(Arch::Gfx942, read(Arch::Gfx942, &words)), expected);
    }
}
