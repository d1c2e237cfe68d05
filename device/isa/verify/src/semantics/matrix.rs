//! Matrices that say something: numbers of a format whose products are about as large as each other, or as C.

use belfry_isa::inst::Inst;

use crate::random::Random;
use crate::reference::State;

/// Bits, bits of the exponent, and its bias.
fn format(kind: &str) -> Option<(u32, u32, u32)> {
    Some(match kind {
        "f32" | "xf32" => (32, 8, 127),
        "f16" => (16, 5, 15),
        "bf16" => (16, 8, 127),
        "fp8" => (8, 4, 8),
        "bf8" => (8, 5, 16),
        _ => return None,
    })
}

/// An element whose exponent is within `spread` of zero, if the format has it; now and then zero.
fn element(random: &mut Random, (bits, exponent, bias): (u32, u32, u32), spread: usize, sparse: bool) -> u32 {
    let noise = random.long() as u32 & (u32::MAX >> (32 - bits));
    if sparse && random.one_in(3) {
        return noise >> (bits - 1) << (bits - 1) & if bits == 8 { 0 } else { u32::MAX };
    }
    let most = (1u32 << exponent) - 2;
    let power = (bias + random.below(2 * spread + 1) as u32).saturating_sub(spread as u32).min(most);
    let fraction = bits - 1 - exponent;
    let digits = if sparse { 1 } else { fraction.min(1 + random.below(24) as u32) };
    let kept = (noise & ((1 << fraction) - 1)) >> (fraction - digits) << (fraction - digits);
    noise >> (bits - 1) << (bits - 1) | power << fraction | kept
}

/// Fills the registers of `v_mfma_*_f8f6f4`: numbers without NaNs, and scales around 1 that are far from it now and then.
fn fill_small(random: &mut Random, state: &mut State, inst: &Inst) {
    let spread = random.pick(&[2usize, 6, 14, 40]);
    for (n, shift) in [(0, 0), (1, 8)] {
        // Of six and four bits every word is a row of numbers.
        let kind = [(8, 4, 7), (8, 5, 15)].get((inst.imm >> shift & 7) as usize).copied();
        if let (Some(base), Some(kind)) = (state.vector_register(inst.src[n]), kind) {
            for register in base..(base + 8).min(state.v.len() as u32) {
                for lane in 0..state.lanes {
                    let byte = |random: &mut Random| element(random, kind, spread, false) & 0xff;
                    let word = (0..4).fold(0, |word, n| word | byte(random) << (8 * n));
                    state.set_vgpr(register, lane, word);
                }
            }
        }
    }
    if let Some(base) = state.vector_register(inst.src[2]) {
        for register in base..(base + 16).min(state.v.len() as u32) {
            for lane in 0..state.lanes {
                let value = element(random, (32, 8, 127), 2 * spread, false);
                state.set_vgpr(register, lane, value);
            }
        }
    }
    let Some(scales) = inst.dual else { return };
    let wild = random.one_in(4);
    for source in [scales.src[0], scales.src[1]] {
        let Some(register) = state.vector_register(source) else { continue };
        for lane in 0..state.lanes {
            let power = |random: &mut Random| match wild && random.one_in(16) {
                true => random.below(256) as u32,
                false => 127 + random.below(2 * spread + 1) as u32 - spread as u32,
            };
            let word = (0..4).fold(0, |word, n| word | power(random) << (8 * n));
            state.set_vgpr(register, lane, word);
        }
    }
}

/// Fills the registers of `v_mfma_*` and `v_smfmac_*`.
pub(super) fn fill(random: &mut Random, state: &mut State, inst: &Inst) {
    let name = inst.op.mnemonic();
    if !["v_mfma_", "v_smfmac_"].iter().any(|start| name.starts_with(start)) {
        return;
    }
    // Indexed registers mean nothing to them.
    state.mode &= !(1 << 27);
    if random.one_in(5) {
        return;
    }
    if name.ends_with("f8f6f4") {
        fill_small(random, state, inst);
        return;
    }
    let kinds: Vec<&str> = name.split('_').skip(4).filter(|word| format(word).is_some()).collect();
    let (Some(first), Some(last)) = (kinds.first(), kinds.last()) else { return };
    let (spread, sparse) = (random.pick(&[2usize, 6, 6, 14, 100]), random.one_in(3));
    let is_sparse = name.starts_with("v_smfmac");
    let sums = if is_sparse { inst.dst } else { inst.src[2] };
    for (operand, kind, spread) in [
        (inst.src[0], *first, spread),
        (inst.src[1], *last, spread),
        (sums, "f32", random.pick(&[spread, 2 * spread, 40])),
    ] {
        let (Some(base), Some(kind)) = (state.vector_register(operand), format(kind)) else { continue };
        for register in base..(base + 32).min(state.v.len() as u32) {
            for lane in 0..state.lanes {
                let word = (0..32 / kind.0)
                    .fold(0, |word, n| word | element(random, kind, spread, sparse) << (n * kind.0 % 32));
                state.set_vgpr(register, lane, word);
            }
        }
    }
    if is_sparse && let Some(index) = state.vector_register(inst.src[2]) {
        for lane in 0..state.lanes {
            let word = random.long() as u32;
            state.set_vgpr(index, lane, word);
        }
    }
}
