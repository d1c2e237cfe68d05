//! Elements of the lanes between registers and memory that is known to be there.

use super::rows::Pair;
use crate::exec::di::{Di, Kind};
use crate::exec::memory::ds::narrow::{Half, Narrow};
use crate::exec::properties::Moves;
use crate::tier1::analysis::elements::steps;
use crate::tier1::analysis::picks::{
    DOWN, LAST_PICK_OF_FOUR, LOW_DOWN, MIX, MIX_OF_THREE, MIX_PAIRS, PICK, PICK_DOWN, PICK_OF_FOUR,
    PICK_OF_THREE,
};
use crate::tier1::x86::asm::{At, Gpr, Integer, K0, Mask, Operand, Zmm};
use crate::tier1::x86::body::{Body, ODD, SCRATCH, scalar};
use crate::tier1::x86::encoding::*;

/// Distances of sixteen elements that follow each other: of one byte, two bytes, and one to four dwords.
static APART: [[u32; 16]; 6] =
    [steps(0, 1), steps(0, 2), steps(0, 4), steps(0, 8), steps(0, 12), steps(0, 16)];

/// Distances of sixteen elements of `bytes` bytes.
pub(crate) fn apart(bytes: u32) -> &'static [u32; 16] {
    match bytes {
        0..4 => &APART[bytes as usize / 2],
        _ => &APART[(bytes as usize / 4 + 1).min(5)],
    }
}

impl Body<'_> {
    /// The sixteens of lanes, by the half they are in.
    pub(crate) fn sixteens(&self) -> impl Iterator<Item = (u32, u8)> + use<> {
        (0..self.halves * 2).map(|n| (n / 2, (n & 1) as u8))
    }

    /// As [`Body::sixteens`], the last one first.
    pub(crate) fn sixteens_down(&self) -> Vec<(u32, u8)> {
        let mut all: Vec<_> = self.sixteens().collect();
        all.reverse();
        all
    }

    /// The base of GLOBAL with SADDR, in `Rdx`.
    pub(crate) fn scalar_base(&mut self, d: &Di) {
        match d.src[2].kind {
            Kind::Scalar => self.a.load(Integer::Mov, true, Gpr::Rdx, scalar(d.src[2].value)),
            _ => self.a.immediate(Integer::Mov, false, Gpr::Rdx, d.src[2].value),
        }
    }

    /// Returns the rows of one half among the rows of some registers.
    pub(crate) fn of_half(&self, rows: &[Pair], half: u32) -> Vec<Pair> {
        rows.iter().skip(half as usize).step_by(self.halves as usize).copied().collect()
    }

    /// Returns true if a load keeps parts of its registers.
    pub(crate) fn keeps(moves: Moves) -> bool {
        matches!(moves, Moves::Part(Narrow { half: Some(_), .. }))
    }

    /// Loads the parts of its registers that a load keeps, before there is a way out.
    pub(crate) fn load_kept(&mut self, moves: Moves, dst: u32, registers: u32) {
        if self.masked || Self::keeps(moves) {
            for row in 0..registers * self.halves {
                self.load_row(dst + row);
            }
        }
    }

    /// Returns places for the registers that a load fills.
    pub(crate) fn define_all(&mut self, dst: u32, registers: u32) -> Vec<Pair> {
        (0..registers * self.halves).map(|row| self.define(dst + row)).collect()
    }

    /// A mask for a gather or a scatter, which clear it: the lanes that EXEC has.
    pub(crate) fn lanes_of(&mut self, half: u32, chunk: u8) -> Mask {
        let (to, exec) = (ODD, self.exec(half, chunk));
        if exec == K0 {
            self.a.mask(KXNORW, to, to, to);
        } else {
            self.a.mask(KMOVW, to, Mask(0), exec);
        }
        to
    }

    /// Rows from elements of all lanes that follow each other from `base` on.
    pub(crate) fn load_elements(&mut self, base: Gpr, moves: Moves, to: &[Pair]) {
        let lanes: Vec<_> = self.sixteens().collect();
        self.load_run(base, moves, to, &lanes);
    }

    /// As the function above, for some sixteens of lanes, the first of which has its element at `base`; the last one
    /// is loaded first.
    pub(crate) fn load_run(&mut self, base: Gpr, moves: Moves, to: &[Pair], lanes: &[(u32, u8)]) {
        for (first, &(half, chunk)) in (0..).zip(lanes).collect::<Vec<_>>().into_iter().rev() {
            let to = self.of_half(to, half);
            match moves {
                Moves::Part(part) => {
                    let op = match (part.bytes, part.signed) {
                        (1, true) => VPMOVSXBD,
                        (1, false) => VPMOVZXBD,
                        (_, true) => VPMOVSXWD,
                        (_, false) => VPMOVZXWD,
                    };
                    let at = Operand::Memory(At(base, first * 16 * part.bytes as i32));
                    self.a.evex(op, Zmm(1), Zmm(0), at);
                    self.part(part, to[0].chunk(chunk), Zmm(1), K0);
                }
                _ => self.load_sixteen(base, first, chunk, &to),
            }
        }
    }

    /// Sixteen elements of dwords. Each row of memory is loaded once, the last one first: to the registers that are loaded, which nothing
    /// else needs any more.
    pub(crate) fn load_sixteen(&mut self, base: Gpr, sixteen: i32, chunk: u8, to: &[Pair]) {
        let registers: Vec<Zmm> = to.iter().map(|to| to.chunk(chunk)).collect();
        for (n, &row) in registers.iter().enumerate().rev() {
            let at = At(base, (sixteen * to.len() as i32 + n as i32) * 64);
            self.a.evex(VMOVUPS_LOAD, row, Zmm(0), Operand::Memory(at));
        }
        match *registers {
            [_] => {}
            [a, b] => {
                self.mix(Zmm(0), &PICK[0], a, b);
                self.mix(Zmm(1), &PICK[1], a, b);
                self.put(a, Zmm(0), K0);
                self.put(b, Zmm(1), K0);
            }
            [a, b, c] => {
                for (n, result) in [(0, Zmm(1)), (1, Zmm(2)), (2, a)] {
                    self.mix(Zmm(0), &PICK_OF_THREE[n][0], a, b);
                    self.mix(result, &PICK_OF_THREE[n][1], Zmm(0), c);
                }
                self.put(c, a, K0);
                self.put(a, Zmm(1), K0);
                self.put(b, Zmm(2), K0);
            }
            [a, b, c, e] => {
                self.mix(Zmm(1), &PICK_OF_FOUR[0], a, b);
                self.mix(Zmm(2), &PICK_OF_FOUR[0], c, e);
                self.mix(Zmm(0), &PICK_OF_FOUR[1], a, b);
                self.mix(a, &PICK_OF_FOUR[1], c, e);
                self.a.evex(VSHUFI64X2.by(0x44), c, Zmm(0), a);
                self.a.evex(VSHUFI64X2.by(0xee), e, Zmm(0), a);
                self.a.evex(VSHUFI64X2.by(0x44), a, Zmm(1), Zmm(2));
                self.a.evex(VSHUFI64X2.by(0xee), b, Zmm(1), Zmm(2));
            }
            _ => unreachable!("elements have one to four dwords"),
        }
    }

    /// The first pairs of sixteen elements of four dwords; nothing after the last one is read.
    pub(crate) fn load_pairs_of_fours(&mut self, base: Gpr, [first, second]: [Pair; 2], chunk: u8) {
        for (half, [low, high], pick) in
            [(Zmm(1), [0, 64], PICK_OF_FOUR[0]), (Zmm(2), [128, 184], LAST_PICK_OF_FOUR)]
        {
            self.a.evex(VMOVUPS_LOAD, Zmm(0), Zmm(0), Operand::Memory(At(base, low)));
            self.a.evex(VMOVUPS_LOAD, half, Zmm(0), Operand::Words(pick));
            self.a.evex(VPERMI2D, half, Zmm(0), Operand::Memory(At(base, high)));
        }
        self.a.evex(VSHUFI64X2.by(0x44), first.chunk(chunk), Zmm(1), Zmm(2));
        self.a.evex(VSHUFI64X2.by(0xee), second.chunk(chunk), Zmm(1), Zmm(2));
    }

    fn gather(&mut self, to: Zmm, base: Gpr, index: Zmm, mask: Mask) {
        self.a.masked(VPGATHERDD, to, Zmm(0), Operand::Indexed(base, index), mask);
    }

    /// Sixteen elements whose distances from `base`, and from it `offset`, are in `index`; temporary 2 is used. Of parts whole
    /// dwords are read.
    pub(crate) fn gather_sixteen(
        &mut self,
        (base, offset, index): (Gpr, u32, Zmm),
        moves: Moves,
        to: &[Pair],
        (half, chunk): (u32, u8),
    ) {
        for (n, to) in to.iter().enumerate() {
            let mut from = base;
            if offset + n as u32 > 0 {
                from = Gpr::Rcx;
                self.a.address(from, At(base, offset as i32 + n as i32 * 4));
            }
            let mask = self.lanes_of(half, chunk);
            let Moves::Part(part) = moves else {
                self.gather(to.chunk(chunk), from, index, mask);
                continue;
            };
            self.gather(Zmm(2), from, index, mask);
            let unused = 32 - 8 * part.bytes as u8;
            self.a.shift(VPSLLD.by(unused), Zmm(2), Zmm(2), K0);
            self.a.shift(if part.signed { VPSRAD } else { VPSRLD }.by(unused), Zmm(2), Zmm(2), K0);
            let exec = self.exec(half, chunk);
            self.part(part, to.chunk(chunk), Zmm(2), exec);
        }
    }

    /// Sixteen elements of global memory whose distances from `base` are in temporary 1, the others of which are used: two dwords are one
    /// access, and the last ones of elements are loaded first, as are the highest lanes where elements are more than a dword.
    pub(crate) fn gather_down(&mut self, base: Gpr, moves: Moves, to: &[Pair], lanes: (u32, u8)) {
        if to.len() % 2 == 1 {
            let last = to.len() - 1;
            self.gather_sixteen((base, last as u32 * 4, Zmm(1)), moves, &to[last..], lanes);
        }
        for (n, pair) in to.as_chunks::<2>().0.iter().enumerate().rev() {
            self.gather_pairs((base, n as i32 * 8), pair.map(|to| to.chunk(lanes.1)), lanes);
        }
    }

    /// Pairs of dwords of sixteen lanes, as [`Body::gather_down`]. A processor takes the elements of a gather in their order, as far as it takes
    /// one after the other; so that is the opposite of the lanes'.
    fn gather_pairs(&mut self, (base, offset): (Gpr, i32), to: [Zmm; 2], (half, chunk): (u32, u8)) {
        let [low, _] = SCRATCH;
        let exec = self.exec(half, chunk);
        if exec != K0 {
            // A gather clears its mask.
            self.a.evex(VPXORD, Zmm(2), Zmm(2), Zmm(2));
            self.a.masked(VPBROADCASTD, Zmm(2), Zmm(0), Operand::Constant(u32::MAX), exec);
            self.reverse(Zmm(3), &DOWN, Zmm(2));
            self.a.compare(VPTESTMD, ODD, Zmm(3), Zmm(3), K0);
            self.a.mask_by(KSHIFTRW, low, ODD, 8);
        }
        let mut from = base;
        if offset > 0 {
            from = Gpr::Rcx;
            self.a.address(from, At(base, offset));
        }
        for (result, order, mask) in [(Zmm(3), &DOWN, ODD), (Zmm(0), &LOW_DOWN, low)] {
            if exec == K0 {
                self.a.mask(KXNORW, mask, mask, mask);
            }
            self.reverse(Zmm(2), order, Zmm(1));
            self.a.masked(VPGATHERDQ, result, Zmm(0), Operand::Indexed(from, Zmm(2)), mask);
        }
        for (to, pick) in to.into_iter().zip(&PICK_DOWN) {
            self.a.masked(VMOVUPS_LOAD, to, Zmm(0), Operand::Words(*pick), exec);
            self.a.masked(VPERMI2D, to, Zmm(0), Zmm(3), exec);
        }
    }

    /// Lanes of a register in another order.
    fn reverse(&mut self, to: Zmm, order: &'static [u32; 16], from: Zmm) {
        self.a.evex(VMOVUPS_LOAD, to, Zmm(0), Operand::Words(*order));
        self.a.evex(VPERMD, to, to, from);
    }

    /// Moves a loaded part, extended to a dword, to its place in the register.
    fn part(&mut self, part: Narrow, to: Zmm, value: Zmm, mask: Mask) {
        // Bits of the destination or of the value, and bits of the destination that stay.
        let (either, high, low) = (0xec, 0xffff_0000, 0xffff);
        match part.half {
            None => self.put(to, value, mask),
            Some(Half::Low) => {
                if part.signed {
                    self.a.evex(VPANDD, value, value, Operand::Constant(low));
                }
                self.a.masked(VPTERNLOGD.by(either), to, value, Operand::Constant(high), mask);
            }
            Some(Half::High) => {
                self.a.shift(VPSLLD.by(16), value, value, K0);
                self.a.masked(VPTERNLOGD.by(either), to, value, Operand::Constant(low), mask);
            }
        }
    }

    /// Loads one element of `base` to all lanes of some sixteens.
    pub(crate) fn load_same_of(&mut self, base: Gpr, to: &[Pair], lanes: &[(u32, u8)]) {
        let halves = self.halves as usize;
        let of_lanes =
            |rows: &[Pair]| lanes.iter().map(|&(half, chunk)| rows[half as usize].chunk(chunk)).collect();
        let to: Vec<Vec<Zmm>> = to.chunks(halves).map(of_lanes).collect();
        self.load_everywhere_of(base, &to);
    }

    /// Loads one element of `base` to sixteen lanes.
    pub(crate) fn load_same(&mut self, base: Gpr, to: &[Pair], chunk: u8) {
        let to: Vec<Vec<Zmm>> = to.iter().map(|to| vec![to.chunk(chunk)]).collect();
        self.load_everywhere_of(base, &to);
    }

    /// Dwords that follow each other, each to some registers; two are one access, and the last ones are loaded first.
    fn load_everywhere_of(&mut self, base: Gpr, to: &[Vec<Zmm>]) {
        if to.len() % 2 == 1 {
            let last = to.len() - 1;
            for &to in &to[last] {
                self.a.evex(VPBROADCASTD, to, Zmm(0), Operand::Splat(At(base, last as i32 * 4)));
            }
        }
        for (n, pair) in to.as_chunks::<2>().0.iter().enumerate().rev() {
            self.a.evex(VPBROADCASTQ, Zmm(0), Zmm(0), Operand::Splat(At(base, n as i32 * 8)));
            // Each dword twice: the first one of two, or the second one.
            for (to, order) in pair.iter().zip([0xa0, 0xf5]) {
                for &to in to {
                    self.a.evex(VPSHUFD.by(order), to, Zmm(0), Zmm(0));
                }
            }
        }
    }

    /// Rows to elements of all lanes that follow each other from `base` on.
    pub(crate) fn store_elements(&mut self, base: Gpr, moves: Moves, from: &[Pair]) {
        for (half, chunk) in self.sixteens() {
            let first = half as i32 * 2 + i32::from(chunk);
            let from = self.of_half(from, half);
            match moves {
                Moves::Part(part) => {
                    let mut value = from[0].chunk(chunk);
                    if part.half == Some(Half::High) {
                        self.a.shift(VPSRLD.by(16), Zmm(0), value, K0);
                        value = Zmm(0);
                    }
                    let op = if part.bytes == 1 { VPMOVDB } else { VPMOVDW };
                    let at = Operand::Memory(At(base, first * 16 * part.bytes as i32));
                    self.a.evex(op, value, Zmm(0), at);
                }
                _ => self.store_sixteen(base, first, chunk, &from),
            }
        }
    }

    /// Sixteen elements of dwords, the first row of memory first.
    fn store_sixteen(&mut self, base: Gpr, sixteen: i32, chunk: u8, from: &[Pair]) {
        let at = |n: usize| Operand::Memory(At(base, (sixteen * from.len() as i32 + n as i32) * 64));
        match *from {
            [from] => self.a.evex(VMOVUPS_STORE, from.chunk(chunk), Zmm(0), at(0)),
            [even, odd] => {
                for (n, pick) in MIX.iter().enumerate() {
                    self.mix(Zmm(0), pick, even.chunk(chunk), odd.chunk(chunk));
                    self.a.evex(VMOVUPS_STORE, Zmm(0), Zmm(0), at(n));
                }
            }
            [a, b, c] => {
                for (n, [first, second]) in MIX_OF_THREE.iter().enumerate() {
                    self.mix(Zmm(0), first, a.chunk(chunk), b.chunk(chunk));
                    self.mix(Zmm(1), second, Zmm(0), c.chunk(chunk));
                    self.a.evex(VMOVUPS_STORE, Zmm(1), Zmm(0), at(n));
                }
            }
            [a, b, c, e] => {
                for (half, pick) in MIX.iter().enumerate() {
                    self.mix(Zmm(0), pick, a.chunk(chunk), b.chunk(chunk));
                    self.mix(Zmm(1), pick, c.chunk(chunk), e.chunk(chunk));
                    for (n, pairs) in MIX_PAIRS.iter().enumerate() {
                        self.mix(Zmm(2), pairs, Zmm(0), Zmm(1));
                        self.a.evex(VMOVUPS_STORE, Zmm(2), Zmm(0), at(half * 2 + n));
                    }
                }
            }
            _ => unreachable!("elements have one to four dwords"),
        }
    }

    /// Stores sixteen elements of four dwords to the place in a register and, each by the step in another register,
    /// after it.
    pub(crate) fn store_fours(&mut self, (place, step): (Gpr, Gpr), chunk: u8, from: &[Pair]) {
        let [a, b, c, e] = *from else { unreachable!("elements have four dwords") };
        for pick in &MIX {
            self.mix(Zmm(0), pick, a.chunk(chunk), b.chunk(chunk));
            self.mix(Zmm(1), pick, c.chunk(chunk), e.chunk(chunk));
            for pairs in &MIX_PAIRS {
                self.mix(Zmm(2), pairs, Zmm(0), Zmm(1));
                for element in 0..4 {
                    let to = Operand::Memory(At(place, 0));
                    self.a.evex(VEXTRACTI32X4.by(element), Zmm(2), Zmm(0), to);
                    self.a.integer(Integer::Add, true, place, step);
                }
            }
        }
    }

    /// Dwords of two registers, as `pick` numbers them.
    fn mix(&mut self, to: Zmm, pick: &'static [u32; 16], first: Zmm, second: Zmm) {
        self.a.evex(VMOVUPS_LOAD, to, Zmm(0), Operand::Words(*pick));
        self.a.evex(VPERMI2D, to, first, second);
    }

    /// Sixteen dwords to where `index` says from `base` on, the lowest lane's first.
    pub(crate) fn scatter_sixteen(&mut self, base: Gpr, index: Zmm, from: Zmm, (half, chunk): (u32, u8)) {
        let mask = self.lanes_of(half, chunk);
        self.scatter(base, index, from, mask);
    }

    fn scatter(&mut self, base: Gpr, index: Zmm, from: Zmm, mask: Mask) {
        self.a.masked(VPSCATTERDD, from, Zmm(0), Operand::Indexed(base, index), mask);
    }

    /// Compares sixteen lanes, those of EXEC, to the mask of lanes that differ, after others.
    pub(crate) fn unlike(&mut self, op: Evex, a: Zmm, b: impl Into<Operand>, lanes: (u32, u8)) {
        let [all, these] = SCRATCH;
        let exec = self.exec(lanes.0, lanes.1);
        let to = if lanes == (0, 0) { all } else { these };
        self.a.compare(op, to, a, b, exec);
        if to == these {
            self.a.mask(KORW, all, all, these);
        }
    }

    /// Leaves for `to` if a lane was [`Body::unlike`] what it should be.
    pub(crate) fn leave_if_unlike(&mut self, to: crate::tier1::x86::asm::Label) {
        let [all, _] = SCRATCH;
        self.a.mask(KORTESTW, all, Mask(0), all);
        self.a.jump_if(crate::tier1::x86::asm::Condition::NotEqual, to);
    }

    /// The first active lane of a register, whose rows are `rows`, to all lanes of `to`, and to a general register.
    pub(crate) fn first_active(&mut self, rows: &[Pair], to: Zmm, number: Gpr) {
        if !self.masked {
            self.a.first_lane(number, rows[0].chunk(0));
            return self.a.evex(VPBROADCASTD, to, Zmm(0), rows[0].chunk(0));
        }
        let sixteens: Vec<_> = self.sixteens().collect();
        for (half, chunk) in sixteens.into_iter().rev() {
            let exec = self.exec(half, chunk);
            // The destination is in `ModRM.rm`; lanes after those that are put side by side stay.
            self.a.masked(VPCOMPRESSD, rows[half as usize].chunk(chunk), Zmm(0), to, exec);
        }
        self.a.first_lane(number, to);
        self.a.evex(VPBROADCASTD, to, Zmm(0), to);
    }
}
