//! Images in the sandbox, samplers, and places in and around images.

use belfry_isa::inst::{Arch, Inst, Operand};

use crate::engine::VGPRS;
use crate::random::Random;
use crate::reference::State;
use crate::reference::state::BASE;

/// Fields of an instruction: dimensions, and LWE.
const DIMENSIONS: u32 = 7 << 4;
const LWE: u32 = 1 << 10;
const DMASK: u32 = 15;

fn is_sample(inst: &Inst) -> bool {
    ["image_sample", "image_gather", "image_get_lod"]
        .iter()
        .any(|start| inst.op.mnemonic().starts_with(start))
}

/// Brings fields into what there is: no images with several samples, and registers of addresses that exist.
pub(super) fn fields(random: &mut Random, inst: &mut Inst) {
    inst.imm = inst.imm & !(DIMENSIONS | LWE) | random.pick(&[0, 1, 1, 2, 3, 4, 5]) << 4;
    let registers = inst.mem.offset.cast_unsigned().to_le_bytes().map(|number| number % (VGPRS as u8 - 4));
    inst.mem.offset = u32::from_le_bytes(registers).cast_signed();
}

/// Puts an image and places in it where the instruction takes them from.
pub(super) fn addresses(random: &mut Random, inst: &Inst, state: &mut State) {
    let Operand::Sgpr(at) = inst.src[1] else { return };
    for (word, value) in (at..).zip(descriptor(random, inst, state.arch)) {
        state.set_sgpr(word, value);
    }
    if let Operand::Sgpr(at) = inst.src[2] {
        // Clamps, filters, comparisons and borders; nothing that is not modelled.
        let clamps = random.word() & 0o77_777 | u32::from(random.one_in(3)) << 15;
        let clamps = clamps | u32::from(random.one_in(4)) << 28 | (random.below(3) as u32) << 29;
        let levels = random.below(512) as u32 | (random.below(1024) as u32) << 13;
        let filters = random.word() & 0xff0_00ff;
        for (word, value) in (at..).zip([clamps, levels, filters, (random.below(3) as u32) << 30]) {
            state.set_sgpr(word, value);
        }
    }
    let Operand::Vgpr(first) = inst.src[0] else { return };
    let others = inst.mem.offset.cast_unsigned().to_le_bytes().map(u32::from);
    let near = u32::from(first)..(u32::from(first) + 13).min(VGPRS as u32);
    let halves = inst.imm >> 9 & 1 != 0;
    for register in near.chain(others) {
        for lane in 0..state.lanes {
            let place = |random: &mut Random| match is_sample(inst) {
                // Also the offsets of some, which are whole numbers.
                true if random.one_in(8) => f32::from_bits(random.word() & 0x3f_3f3f),
                true if random.one_in(3) => random.below(60) as f32 * 0.5 - 4.0,
                true => random.below(90) as f32 / 32.0 - 1.0,
                false => f32::from_bits(random.below(40) as u32),
            };
            let whole = place(random).to_bits();
            // Of halves, a number in each: small whole ones, or what floats are cut off to.
            let value = if halves && is_sample(inst) { random.word() & 0x3fff_3fff } else { whole };
            state.set_vgpr(register, lane, value);
        }
    }
}

/// An image of the sandbox, or none.
fn descriptor(random: &mut Random, inst: &Inst, arch: Arch) -> [u32; 8] {
    let name = inst.op.mnemonic();
    let kind = random.pick(&[0, 8, 9, 9, 10, 11, 12, 13]);
    let format = if name.starts_with("image_atomic") {
        // As many words as the mask has registers for.
        let operands = if name.contains("cmpswap") { 2 } else { 1 };
        if (inst.imm & DMASK).count_ones() > operands { 48 } else { 20 }
    } else {
        match random.below(86) as u32 {
            plain @ 0..72 => 1 + plain,
            block => 109 + block - 72,
        }
    };
    let base = BASE + 2048;
    let (width, height) = (random.below(24) as u32, random.below(4) as u32);
    let selects = if random.one_in(2) { 0b111_110_101_100 } else { random.word() & 0xfff };
    // Rows, or parts of 256 bytes.
    let mode = if random.one_in(3) && !matches!(kind, 8 | 10 | 12) {
        [2, 1][usize::from(arch == Arch::Gfx1201)]
    } else {
        0
    };
    let last = random.below(2) as u32;
    let (first, levels) = match arch {
        Arch::Gfx1201 => (format << 17 | last << 12, last << 15),
        _ => (format << 20 | last << 16, last << 16),
    };
    [
        (base >> 8) as u32,
        (base >> 40) as u32 | first | (width & 3) << 30,
        width >> 2 | height << 14,
        selects | levels | mode << 20 | kind << 28,
        random.below(2) as u32,
        0,
        0,
        0,
    ]
}
