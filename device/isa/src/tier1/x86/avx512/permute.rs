//! Lanes that come from other lanes: DPP, permutations, swizzles, lanes as scalars.

use core::mem::offset_of;

use super::masks::SAME;
use super::rows::Pair;
use crate::exec::di::{Di, Kind};
use crate::exec::memory::ds::swizzled;
use crate::exec::vector::dpp::{Control, fetches_inactive, has_bound_ctrl};
use crate::exec::vector::lane::lanes_below;
use crate::tier1::analysis::elements::steps;
use crate::tier1::analysis::permuted::{ONES, Sixteen, constant, selected};
use crate::tier1::x86::asm::{At, Gpr, Integer, K0, Mask, Operand, Zmm};
use crate::tier1::x86::body::{Body, EXEC, SCRATCH, WAVE, scalar};
use crate::tier1::x86::encoding::*;
use crate::wave::Wave;

impl Body<'_> {
    /// Returns the lanes of a row's sixteen as other lanes read them: lanes that are off give 0.
    fn given(&mut self, rows: &[Pair], sixteen: u32, (to, off_too): (Zmm, bool)) -> Zmm {
        let (half, chunk) = (sixteen / 2, (sixteen & 1) as u8);
        let from = rows[half as usize].chunk(chunk);
        let exec = self.exec(half, chunk);
        if exec == K0 || off_too {
            return from;
        }
        self.a.evex(VPXORD, to, to, to);
        self.a.masked(VMOVDQA32, to, Zmm(0), from, exec);
        to
    }

    /// The preparation of DPP. Returns true if, of a wave with all lanes, none was taken from EXEC.
    pub(crate) fn permute(&mut self, control: Control, d: &Di) -> bool {
        let from = self.register_rows(d.src[0].value);
        let to: Vec<Pair> =
            (0..self.halves).map(|half| self.rows.define(self.a, d.dst + half, false, |_| 0)).collect();
        self.a.load(Integer::Mov, true, Gpr::Rax, scalar(EXEC));
        self.a.store(true, At(WAVE, offset_of!(Wave, saved_exec) as i32), Gpr::Rax);
        let keeps_exec = control.keeps_exec(d);
        let mut all = true;
        for (half, chunk) in self.sixteens() {
            let n = half * 2 + u32::from(chunk);
            let Some(sixteen) = Sixteen::of(n, |lane| control.source(d, lane)) else {
                unreachable!("they come from one sixteen")
            };
            let to = to[half as usize].chunk(chunk);
            let given = self.given(&from, sixteen.from, (Zmm(0), fetches_inactive(d)));
            self.a.evex(VMOVUPS_LOAD, Zmm(1), Zmm(0), Operand::Words(sixteen.index));
            self.a.evex(VPERMD, to, Zmm(1), given);
            if sixteen.inside.contains(&0) {
                self.a.evex(VPANDD, to, to, Operand::Words(sixteen.inside));
            }
            if !keeps_exec {
                all &= self.take_lanes(control, d, (half, chunk), &sixteen);
            }
        }
        let changes = !keeps_exec && (self.masked || !all);
        if changes {
            self.a.store(self.halves == 2, scalar(EXEC), Gpr::Rdx);
        }
        !changes
    }

    /// Collects the lanes that are left of a sixteen of EXEC in `Rdx`. Returns true if all are, if all were there.
    /// `Zmm(1)` has its index.
    fn take_lanes(&mut self, control: Control, d: &Di, (half, chunk): (u32, u8), from: &Sixteen) -> bool {
        let bound_ctrl = has_bound_ctrl(d);
        let first = half * 32 + u32::from(chunk) * 16;
        let kept: [u32; 16] = core::array::from_fn(|lane| {
            let inside = if bound_ctrl { u32::MAX } else { from.inside[lane] };
            if control.writes(d, first + lane as u32) { inside } else { 0 }
        });
        let source = self.exec(from.from / 2, (from.from & 1) as u8);
        if bound_ctrl || fetches_inactive(d) || source == K0 {
            self.a.evex(VMOVUPS_LOAD, Zmm(2), Zmm(0), Operand::Words(kept));
        } else {
            self.a.evex(VPXORD, Zmm(2), Zmm(2), Zmm(2));
            self.a.masked(VPTERNLOGD.by(0xff), Zmm(2), Zmm(2), Zmm(2), source);
            self.a.evex(VPERMD, Zmm(2), Zmm(1), Zmm(2));
            self.a.evex(VPANDD, Zmm(2), Zmm(2), Operand::Words(kept));
        }
        let (left, exec) = (SCRATCH[0], self.exec(half, chunk));
        self.a.compare(VPTESTMD, left, Zmm(2), Zmm(2), exec);
        self.collect(left, half, chunk);
        !kept.contains(&0)
    }

    /// EXEC as it was before the preparation of DPP. Where it has all lanes it had all of them then.
    pub(crate) fn restore_exec(&mut self) {
        if self.masked {
            let wide = self.halves == 2;
            self.a.load(Integer::Mov, wide, Gpr::Rax, At(WAVE, offset_of!(Wave, saved_exec) as i32));
            self.a.store(wide, scalar(EXEC), Gpr::Rax);
        }
    }

    /// `ds_bpermute_b32`.
    pub(crate) fn backward_permute(&mut self, d: &Di) {
        let address = self.register_rows(d.src[0].value);
        let data = self.register_rows(d.src[1].value);
        let across = d.aux != 31 && self.halves == 2;
        let to: Vec<Pair> = (0..self.halves).map(|half| self.define(d.dst + half)).collect();
        for half in 0..self.halves {
            let tables = if across { [0, 1] } else { [half; 2] };
            // Both sixteens before either is written: they may be those of a source.
            let results = [0, 1].map(|chunk| {
                let result = Zmm(chunk);
                self.index(address[half as usize].chunk(chunk), d.imm, result);
                result
            });
            if across {
                for (chunk, result) in (0..).zip(results) {
                    self.a.compare(VPTESTMD, SCRATCH[0], result, Operand::Constant(32), K0);
                    self.put(Zmm(2), result, K0);
                    self.table(&data, tables[0], result);
                    self.table(&data, tables[1], Zmm(2));
                    self.put(result, Zmm(2), SCRATCH[0]);
                    self.put(to[half as usize].chunk(chunk), result, K0);
                }
                continue;
            }
            self.both(&data, half, results);
            self.put_both(&to, half, results);
        }
    }

    /// The number of a lane that an address names.
    fn index(&mut self, address: Zmm, offset: u32, to: Zmm) {
        let mut from = address;
        if offset != 0 {
            self.a.evex(VPADDD, to, from, Operand::Constant(offset));
            from = to;
        }
        self.a.shift(VPSRLD.by(2), to, from, K0);
    }

    /// Lanes of one half's row, all of which are active, by the numbers in a register.
    fn table(&mut self, data: &[Pair], half: u32, index: Zmm) {
        let row = data[half as usize];
        self.a.evex(VPERMI2D, index, row.chunk(0), row.chunk(1));
    }

    /// Lanes of one half's row by the numbers in two registers; lanes that are off give 0.
    fn both(&mut self, data: &[Pair], half: u32, indices: [Zmm; 2]) {
        let low = self.given(data, half * 2, (Zmm(2), false));
        let high = self.given(data, half * 2 + 1, (Zmm(3), false));
        for index in indices {
            self.a.evex(VPERMI2D, index, low, high);
        }
    }

    fn put_both(&mut self, to: &[Pair], half: u32, results: [Zmm; 2]) {
        for (chunk, result) in (0..).zip(results) {
            let exec = self.exec(half, chunk);
            self.put(to[half as usize].chunk(chunk), result, exec);
        }
    }

    /// `ds_swizzle_b32`.
    pub(crate) fn swizzle(&mut self, d: &Di) {
        let data = self.register_rows(d.src[0].value);
        let to: Vec<Pair> = (0..self.halves).map(|half| self.define(d.dst + half)).collect();
        for half in 0..self.halves {
            let results = [Zmm(0), Zmm(1)];
            for (first, result) in [(0, results[0]), (16, results[1])] {
                let lanes = core::array::from_fn(|lane| swizzled(d.imm, first + lane as u32) & 31);
                self.a.evex(VMOVUPS_LOAD, result, Zmm(0), Operand::Words(lanes));
            }
            self.both(&data, half, results);
            self.put_both(&to, half, results);
        }
    }

    /// `v_permlane16_b32` and `v_permlanex16_b32` by constants.
    pub(crate) fn permute_row(&mut self, other: bool, d: &Di) {
        let data = self.register_rows(d.src[0].value);
        let to: Vec<Pair> = (0..self.halves).map(|half| self.define(d.dst + half)).collect();
        for half in 0..self.halves {
            let results = [Zmm(0), Zmm(1)];
            for (chunk, result) in (0..).zip(results) {
                let Some(sixteen) = Sixteen::of(half * 2 + chunk, |lane| selected(d, other, lane)) else {
                    unreachable!("a row comes from one row")
                };
                let given = self.given(&data, sixteen.from, (Zmm(2), d.aux & 1 != 0));
                self.a.evex(VMOVUPS_LOAD, result, Zmm(0), Operand::Words(sixteen.index));
                self.a.evex(VPERMD, result, result, given);
            }
            self.put_both(&to, half, results);
        }
    }

    /// `v_mbcnt_lo_u32_b32` and `v_mbcnt_hi_u32_b32`.
    pub(crate) fn count_below(&mut self, high: bool, d: &Di) {
        let constant = constant(d, 0);
        for half in 0..self.halves {
            self.rows.unlock();
            self.load_sources(d, 2, half);
            let to = self.define(d.dst + half);
            for chunk in 0..2 {
                let first = half * 32 + u32::from(chunk) * 16;
                let below = core::array::from_fn(|lane| lanes_below(high, first + lane as u32));
                let counts = match constant {
                    Some(mask) => Operand::Words(below.map(|below| (mask & below).count_ones())),
                    None => {
                        let mask = self.register(&d.src[0], false, half, chunk, Zmm(1));
                        self.a.evex(VPANDD, Zmm(1), mask, Operand::Words(below));
                        self.count_ones();
                        Zmm(1).into()
                    }
                };
                let added = self.register(&d.src[1], false, half, chunk, Zmm(0));
                let exec = self.exec(half, chunk);
                self.a.masked(VPADDD, to.chunk(chunk), added, counts, exec);
            }
        }
    }

    /// The numbers of ones in temporary 1, to itself; 2 and 3 are used.
    fn count_ones(&mut self) {
        let (ones, low, table) = (Zmm(1), Zmm(2), Zmm(3));
        let nibbles = Operand::Constant(0x0f0f_0f0f);
        self.a.evex(VMOVUPS_LOAD, table, Zmm(0), Operand::Words(core::array::from_fn(|n| ONES[n & 3])));
        self.a.evex(VPANDD, low, ones, nibbles);
        self.a.evex(VPSHUFB, low, table, low);
        self.a.shift(VPSRLD.by(4), ones, ones, K0);
        self.a.evex(VPANDD, ones, ones, nibbles);
        self.a.evex(VPSHUFB, ones, table, ones);
        self.a.evex(VPADDD, ones, ones, low);
        // The highest byte of the product is the sum of all.
        self.a.evex(VPMULLD, ones, ones, Operand::Constant(0x0101_0101));
        self.a.shift(VPSRLD.by(24), ones, ones, K0);
    }

    /// A lane as a scalar.
    pub(crate) fn read_lane(&mut self, d: &Di) {
        if d.src[1].kind == Kind::Scalar {
            return self.read_any_lane(d);
        }
        let lane = d.src[1].value & (self.halves * 32 - 1);
        let row = self.load_row(d.src[0].value + lane / 32);
        let mut from = row.chunk((lane >> 4 & 1) as u8);
        if lane & 15 != 0 {
            self.a.evex(VPBROADCASTD, Zmm(0), Zmm(0), Operand::Constant(lane & 15));
            self.a.evex(VPERMD, Zmm(1), Zmm(0), from);
            from = Zmm(1);
        }
        self.put_scalar(from, d.dst);
    }

    /// The lane that a scalar register says.
    fn read_any_lane(&mut self, d: &Di) {
        let (number, result, upper) = (Zmm(0), Zmm(1), Zmm(2));
        let rows = self.register_rows(d.src[0].value);
        self.a.evex(VPBROADCASTD, number, Zmm(0), Operand::Splat(scalar(d.src[1].value)));
        self.put(result, number, K0);
        self.table(&rows, 0, result);
        if self.halves == 2 {
            self.put(upper, number, K0);
            self.table(&rows, 1, upper);
            self.a.compare(VPTESTMD, SCRATCH[0], number, Operand::Constant(32), K0);
            self.put(result, upper, SCRATCH[0]);
        }
        self.put_scalar(result, d.dst);
    }

    /// A scalar as a lane, which may be inactive.
    pub(crate) fn write_lane(&mut self, d: &Di) {
        let value = match d.src[0].kind {
            Kind::Scalar => Operand::Splat(scalar(d.src[0].value)),
            _ => Operand::Constant(d.src[0].value),
        };
        let [these, _] = SCRATCH;
        let last = self.halves * 32 - 1;
        if let Some(lane) = constant(d, 1) {
            let lane = lane & last;
            self.load_row(d.dst + lane / 32);
            let to = self.define(d.dst + lane / 32).chunk((lane >> 4 & 1) as u8);
            self.a.immediate(Integer::Mov, false, Gpr::Rax, 1 << (lane & 15));
            self.a.mask(KMOVW_FROM, these, Mask(0), Mask(Gpr::Rax as u8));
            return self.a.masked(VPBROADCASTD, to, Zmm(0), value, these);
        }
        let number = Zmm(0);
        self.a.evex(VPBROADCASTD, number, Zmm(0), Operand::Splat(scalar(d.src[1].value)));
        self.a.evex(VPANDD, number, number, Operand::Constant(last));
        for half in 0..self.halves {
            self.rows.unlock();
            self.load_row(d.dst + half);
            let to = self.define(d.dst + half);
            for chunk in 0..2 {
                let lanes = steps(half * 32 + u32::from(chunk) * 16, 1);
                self.a.compare(VPCMPUD.by(SAME), these, number, Operand::Words(lanes), K0);
                self.a.masked(VPBROADCASTD, to.chunk(chunk), Zmm(0), value, these);
            }
        }
    }

    /// The first lane of all as a scalar.
    pub(crate) fn read_first_lane(&mut self, d: &Di) {
        let row = self.load_row(d.src[0].value);
        self.put_scalar(row.chunk(0), d.dst);
    }

    fn put_scalar(&mut self, from: Zmm, register: u32) {
        self.a.first_lane(Gpr::Rax, from);
        self.a.store(false, scalar(register), Gpr::Rax);
    }
}
