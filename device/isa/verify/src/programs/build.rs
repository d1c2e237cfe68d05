//! Programs at random.

use std::ops::Range;

use belfry_isa::encode::encode;
use belfry_isa::exec::coverage;
use belfry_isa::inst::{Arch, Format, Inst, Op, Operand, WaveSize};
use belfry_isa::tables::Pattern;

use super::case;
use crate::engine::CODE_SIZE;
use crate::random::Random;
use crate::reference::State;
use crate::reference::state::BASE;
use crate::target::{Facts, Target, Words};
use case::Registers;

/// Registers the drawn instructions use; the rest are the frame's.
const FREE: Registers = Registers { vector: 56, scalar: 84, hardware: false };
/// Vector registers an address is made in.
const ADDRESS: u8 = 60;
/// EXEC of the whole program.
const WHOLE: u8 = 88;
/// EXEC before a condition.
const SAVED: u8 = 90;
/// Addition to scratch addresses.
const SCRATCH: u8 = 92;
/// A scratch address.
const SCRATCH_ALONE: u8 = 93;
/// Offset of scalar loads.
const OFFSET: u8 = 94;
/// SOFFSET of buffers.
const SOFFSET: u8 = 95;
/// An address in the sandbox.
const POINTER: u8 = 96;
/// Counter of loops.
const COUNTER: u8 = 98;
/// A buffer descriptor.
const DESCRIPTOR: u8 = 84;

/// A program and where its instructions are.
#[derive(Clone, Debug)]
pub(super) struct Program {
    /// All of the code memory.
    pub(super) code: Vec<u8>,
    /// Bytes of each instruction.
    pub(super) places: Vec<Range<usize>>,
}

/// Patterns a program may be made of, by kind of instruction, so that each kind gets a share.
pub(super) fn drawable(arch: Arch, patterns: impl Iterator<Item = Pattern>) -> Vec<Vec<Pattern>> {
    let complete: Vec<Op> =
        coverage(arch).iter().filter(|entry| entry.is_complete()).map(|entry| entry.op).collect();
    let mut kinds: Vec<(Format, Vec<Pattern>)> = Vec::new();
    // Instructions of images need a descriptor in registers of their own, and the reference has none of them.
    let is_image = |format| matches!(format, Format::Mimg | Format::Vimage | Format::Vsample);
    let known = patterns.filter(|pattern| complete.contains(&pattern.op) && is_drawable(pattern.op));
    for pattern in known.filter(|pattern| !is_image(pattern.format)) {
        match kinds.iter_mut().find(|(format, _)| *format == pattern.format) {
            Some((_, patterns)) => patterns.push(pattern),
            None => kinds.push((pattern.format, vec![pattern])),
        }
    }
    kinds.into_iter().map(|(_, patterns)| patterns).collect()
}

/// Returns true if the operation neither jumps nor stops nor takes registers from `M0`.
fn is_drawable(op: Op) -> bool {
    use Op::*;
    let name = op.mnemonic();
    let jumps = name.contains("branch") || name.contains("pc_b64") || name.contains("subvector");
    let relative = name.contains("movrel") || name.contains("swaprel") || name.contains("gpr_idx");
    // Lanes that meet there store in no stated order.
    let unordered = name.starts_with("ds_store_2addr") || name.starts_with("ds_write2");
    let stops = matches!(
        op,
        S_CALL_B64
            | S_RFE_B64
            | S_ENDPGM
            | S_ENDPGM_SAVED
            | S_BARRIER
            | S_BARRIER_SIGNAL
            | S_BARRIER_SIGNAL_ISFIRST
            | S_BARRIER_WAIT
            | S_GET_BARRIER_STATE
            | S_ALLOC_VGPR
            | S_SLEEP
            | S_SLEEP_VAR
            | S_SENDMSG
            | S_SENDMSGHALT
            | S_TRAP
            | S_SETHALT
            | S_SETKILL
    );
    let waits = name.starts_with("ds_gws");
    !(jumps || relative || unordered || stops || waits)
}

impl Program {
    /// Draws a program.
    pub(super) fn draw(random: &mut Random, target: Target, patterns: &[Vec<Pattern>]) -> Program {
        let mut builder = Builder { random, target, patterns, code: Vec::new(), places: Vec::new() };
        for _ in 0..2 + builder.random.below(5) {
            builder.block();
        }
        let (mut code, places) = (builder.code, builder.places);
        while code.len() < CODE_SIZE {
            code.extend(Facts::of(target.arch).words.end.to_le_bytes());
        }
        Program { code, places }
    }

    /// Sets the registers of the frame.
    pub(super) fn prepare(&self, random: &mut Random, state: &mut State) {
        state.pc = crate::engine::CODE;
        state.set_sgpr(WHOLE, state.sgpr(126));
        state.set_sgpr(WHOLE + 1, state.sgpr(127));
        state.set_sgpr(SCRATCH, 16);
        state.set_sgpr(SCRATCH_ALONE, 64);
        state.set_sgpr(SOFFSET, 8);
        state.set_pair(POINTER, BASE + 1024);
        let stride = random.below(3) as u32 * 8;
        let base = BASE + 2048;
        let format = random.below(64) as u32;
        state.set_pair(DESCRIPTOR, base | u64::from(stride) << 48);
        state.set_sgpr(DESCRIPTOR + 2, 60 + random.below(400) as u32);
        state.set_sgpr(DESCRIPTOR + 3, 0b111_110_101_100 | format << 12 | (random.below(4) as u32) << 28);
    }
}

struct Builder<'a> {
    random: &'a mut Random,
    target: Target,
    patterns: &'a [Vec<Pattern>],
    code: Vec<u8>,
    places: Vec<Range<usize>>,
}

impl Builder<'_> {
    fn words(&self) -> Words {
        Facts::of(self.target.arch).words
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.places.push(self.code.len()..self.code.len() + bytes.len());
        self.code.extend(bytes);
    }

    fn word(&mut self, word: u32) {
        self.bytes(&word.to_le_bytes());
    }

    fn with_literal(&mut self, word: u32, literal: u32) {
        self.bytes(&(u64::from(word) | u64::from(literal) << 32).to_le_bytes());
    }

    /// `s_movk_i32`.
    fn movk(&mut self, dst: u8, value: u16) {
        self.word(0xb000_0000 | u32::from(dst) << 16 | u32::from(value));
    }

    /// `s_mov_b32` or `s_mov_b64` of a lane mask.
    fn move_mask(&mut self, dst: u8, src: u8) {
        let op = u32::from(self.target.wave == WaveSize::Wave64);
        self.word(0xbe80_0000 | u32::from(dst) << 16 | op << 8 | u32::from(src));
    }

    /// SOPP with a distance in dwords.
    fn sopp(&mut self, op: u32, distance: i32) {
        self.word(0xbf80_0000 | op << 16 | distance as u32 & 0xffff);
    }

    /// `v_and_b32` of a random register and a mask.
    fn masked(&mut self, dst: u8, mask: u32) {
        let src = self.random.below(FREE.vector as usize) as u32;
        self.with_literal(self.words().v_and | u32::from(dst) << 17 | src << 9, mask);
    }

    /// `v_or_b32` with a constant.
    fn or(&mut self, register: u8, value: u32) {
        let register = u32::from(register);
        self.with_literal(self.words().v_or | register << 17 | register << 9, value);
    }

    fn block(&mut self) {
        // Lanes a comparison to EXEC took away come back.
        self.move_mask(126, WHOLE);
        match self.random.below(6) {
            0 | 1 => self.straight(12),
            2 => self.conditional(),
            3 => self.skipped(),
            _ => self.repeated(),
        }
    }

    fn straight(&mut self, most: usize) {
        for _ in 0..1 + self.random.below(most) {
            self.instruction();
        }
    }

    /// Code for the lanes in a mask: `VCC`, as an earlier instruction left it.
    fn conditional(&mut self) {
        self.straight(4);
        let op = self.words().saveexec[usize::from(self.target.wave == WaveSize::Wave64)];
        // s_and_saveexec_b32/b64
        self.word(0xbe80_0000 | u32::from(SAVED) << 16 | op << 8 | 106);
        let from = self.code.len();
        self.sopp(self.words().branches[5], 0);
        self.straight(8);
        self.land(from);
        self.move_mask(126, SAVED);
        self.straight(4);
    }

    /// Lets the branch at `from` go to the end of the code.
    fn land(&mut self, from: usize) {
        let distance = (self.code.len() - from) / 4 - 1;
        self.code[from..from + 2].copy_from_slice(&(distance as u16).to_le_bytes());
    }

    /// Code a branch skips or not.
    fn skipped(&mut self) {
        self.straight(5);
        let from = self.code.len();
        let branches = self.words().branches;
        let op = self.random.pick(&branches);
        self.sopp(op, 0);
        self.straight(8);
        self.land(from);
        self.straight(3);
    }

    /// A loop.
    fn repeated(&mut self) {
        let times = 1 + self.random.below(6) as u16;
        self.movk(COUNTER, times);
        let start = self.code.len();
        self.straight(8);
        // s_addk_i32 -1, s_cmp_lg_u32 0, s_cbranch_scc1
        self.word(self.words().s_addk | 0xffff | u32::from(COUNTER) << 16);
        self.word(0xbf07_8000 | u32::from(COUNTER));
        let distance = (start as i32 - self.code.len() as i32) / 4 - 1;
        self.sopp(self.words().branches[2], distance);
    }

    /// One drawn instruction, and before it the ones that make its addresses.
    fn instruction(&mut self) {
        for _ in 0..20 {
            let kind = self.random.below(self.patterns.len());
            let patterns = &self.patterns[kind];
            let pattern = patterns[self.random.below(patterns.len())];
            let Some(mut inst) = case::instruction(self.random, &pattern, self.target, FREE) else {
                continue;
            };
            // EXEC is the frame's, but for operations that are made to change it.
            if matches!(inst.dst, Operand::Sgpr(126 | 127)) && inst.format != Format::Vopc
                || matches!(inst.dst2, Operand::Sgpr(126 | 127))
            {
                continue;
            }
            self.address(&mut inst);
            let Ok(encoded) = encode(self.target.arch, &inst) else { continue };
            self.bytes(encoded.bytes());
            return;
        }
    }

    /// Gives a memory instruction addresses in the sandbox.
    fn address(&mut self, inst: &mut Inst) {
        let vector = matches!(inst.src[0], Operand::Vgpr(_));
        match inst.format {
            Format::Ds if vector && inst.op != Op::DS_SWIZZLE_B32 => {
                self.masked(ADDRESS, 0x3f8);
                inst.src[0] = Operand::Vgpr(ADDRESS);
                let m0 = self.random.below(256) as u16 * 4;
                self.movk(Facts::of(self.target.arch).m0, m0);
            }
            Format::Ds => {
                let m0 = self.random.below(256) as u16 * 4;
                self.movk(Facts::of(self.target.arch).m0, m0);
            }
            Format::Global | Format::Flat => {
                if inst.src[2].is_some() {
                    inst.src[2] = Operand::Sgpr(POINTER);
                    self.masked(ADDRESS, 0x7f8);
                } else {
                    self.masked(ADDRESS, 0x7f8);
                    self.or(ADDRESS, BASE as u32 | 0x800);
                    // v_mov_b32 of the high half.
                    let high = 128 + (BASE >> 32) as u32;
                    self.word(0x7e00_0200 | u32::from(ADDRESS + 1) << 17 | high);
                }
                if vector {
                    inst.src[0] = Operand::Vgpr(ADDRESS);
                }
            }
            Format::Scratch => {
                let scalar = inst.src[2].is_some();
                inst.mem.offset = inst.mem.offset.abs();
                if vector {
                    self.masked(ADDRESS, 0x18);
                    self.or(ADDRESS, 0x20);
                    inst.src[0] = Operand::Vgpr(ADDRESS);
                }
                if scalar {
                    inst.src[2] = Operand::Sgpr(if vector { SCRATCH } else { SCRATCH_ALONE });
                }
            }
            Format::Smem => {
                let buffer = inst.op.mnemonic().contains("buffer");
                if inst.src[0].is_some() {
                    inst.src[0] = Operand::Sgpr(if buffer { DESCRIPTOR } else { POINTER });
                }
                if inst.src[1].is_some() {
                    let source = self.random.below(FREE.scalar as usize) as u32;
                    // s_and_b32
                    self.with_literal(self.words().s_and | u32::from(OFFSET) << 16 | source, 0xfc);
                    inst.src[1] = Operand::Sgpr(OFFSET);
                }
            }
            Format::Mubuf | Format::Mtbuf if inst.src[1].is_some() => {
                inst.src[1] = Operand::Sgpr(DESCRIPTOR);
                inst.src[2] = Operand::Sgpr(SOFFSET);
                if vector {
                    self.masked(ADDRESS, 0x38);
                    self.masked(ADDRESS + 1, 0x78);
                    inst.src[0] = Operand::Vgpr(ADDRESS);
                }
                let m0 = self.random.below(256) as u16 * 4;
                self.movk(Facts::of(self.target.arch).m0, m0);
            }
            _ => {}
        }
    }
}
