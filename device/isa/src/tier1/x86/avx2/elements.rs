//! Elements of eight lanes between rows and memory that is known to be there.

use crate::exec::memory::ds::narrow::{Half, Narrow};
use crate::exec::properties::Moves;
use crate::tier1::x86::asm::{At, Gpr, Integer, Operand, Zmm};
use crate::tier1::x86::body::{Body, WAVE};
use crate::tier1::x86::encoding::*;

use super::cache::Lanes;
use super::opcodes::*;

/// Places of the elements of a wave's lanes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Places {
    /// One after the other, from the address of the first lane on, which is in a register: the register, the number
    /// of the eight lanes that it is of, and the distance in bytes.
    Run(Gpr, i32, i32),
    /// In LDS, at signed distances from a register's address that are in a row.
    Lds(Gpr, u32),
    /// In one span of global memory, the low halves of whose addresses are in a row; see [`Body::in_one_span`].
    Span(u32),
}

/// The host address that elements of a span would have with an address whose low half is 0.
pub(super) const SPAN_FROM: Gpr = Gpr::R8;

/// The distance of an element that is loaded or stored.
const DISTANCE: Gpr = Gpr::Rcx;

impl Body<'_> {
    /// Eight lanes of a row in memory.
    pub(super) fn eight(row: u32, eight: i32) -> At {
        Lanes { eight, masks: WAVE }.row(row)
    }

    /// Groups of eight lanes.
    pub(super) fn eights(&self) -> core::ops::Range<i32> {
        0..self.halves as i32 * 4
    }

    /// Returns the operand for the element of a lane, one of the eight.
    fn place(&mut self, places: Places, eight: i32, lane: i32) -> Operand {
        match places {
            Places::Run(base, first, bytes) => {
                Operand::Memory(At(base, ((eight - first) * 8 + lane) * bytes))
            }
            Places::Lds(base, row) => {
                let At(rows, displacement) = Self::eight(row, eight);
                self.a.load_signed(DISTANCE, At(rows, displacement + lane * 4));
                Operand::Indexed(base, Zmm(DISTANCE as u8))
            }
            Places::Span(row) => {
                let At(rows, displacement) = Self::eight(row, eight);
                self.a.load(Integer::Mov, false, DISTANCE, At(rows, displacement + lane * 4));
                Operand::Indexed(SPAN_FROM, Zmm(DISTANCE as u8))
            }
        }
    }

    /// Rows of eight lanes, the registers from `dst` on, from their elements.
    pub(super) fn load_eight(&mut self, moves: Moves, places: Places, dst: u32, eight: i32) {
        let results = match moves {
            Moves::Part(part) => {
                self.load_part(part, places, eight);
                let row = Operand::Memory(Self::eight(dst, eight));
                match part.half {
                    None => {}
                    Some(Half::Low) => self.a.vex(VPBLENDW.by(0xaa), Zmm(0), Zmm(0), row),
                    Some(Half::High) => {
                        self.a.vex_shift(VPSLLD.by(16), Zmm(0), Zmm(0));
                        self.a.vex(VPBLENDW.by(0x55), Zmm(0), Zmm(0), row);
                    }
                }
                1
            }
            Moves::Dwords(1) => {
                self.dwords(places, eight);
                1
            }
            Moves::Dwords(2) => {
                self.load_twos(places, eight);
                2
            }
            Moves::Dwords(dwords) => {
                self.load_fours(places, eight);
                dwords
            }
            Moves::Atomic(..) => unreachable!("atomics are done by handlers"),
        };
        for n in 0..results {
            let to = Self::eight(dst + n * self.halves, eight);
            self.a.vex(VMOVUPS_STORE, Zmm(n as u8), Zmm(0), Operand::Memory(to));
        }
    }

    /// Dwords to the first register.
    fn dwords(&mut self, places: Places, eight: i32) {
        if let Places::Run(..) = places {
            let at = self.place(places, eight, 0);
            return self.a.vex(VMOVUPS_LOAD, Zmm(0), Zmm(0), at);
        }
        // A gather is slower than that on many processors.
        for (to, first) in [(Zmm(1), 4), (Zmm(0), 0)] {
            let from = self.place(places, eight, first + 3);
            self.a.vex(VPBROADCASTD_VEX, to, Zmm(0), from);
            for lane in (0..3).rev() {
                let from = self.place(places, eight, first + lane);
                self.a.vex(VPINSRD.by(lane as u8), to, to, from);
            }
        }
        self.a.vex(VINSERTF128.by(1), Zmm(0), Zmm(0), Zmm(1));
    }

    /// Bytes or halves to the first register, extended.
    fn load_part(&mut self, part: Narrow, places: Places, eight: i32) {
        if let Places::Run(..) = places {
            let op = match (part.bytes, part.signed) {
                (1, true) => VPMOVSXBD,
                (1, false) => VPMOVZXBD,
                (_, true) => VPMOVSXWD,
                (_, false) => VPMOVZXWD,
            };
            let at = self.place(places, eight, 0);
            return self.a.vex(op, Zmm(0), Zmm(0), at);
        }
        self.dwords(places, eight);
        let unused = 32 - 8 * part.bytes as u8;
        self.a.vex_shift(VPSLLD.by(unused), Zmm(0), Zmm(0));
        self.a.vex_shift(if part.signed { VPSRAD } else { VPSRLD }.by(unused), Zmm(0), Zmm(0));
    }

    /// Pairs to the first two registers.
    fn load_twos(&mut self, places: Places, eight: i32) {
        // Lanes 0, 1, 4, 5, and the others.
        let [low, high] = [Zmm(2), Zmm(3)];
        if let Places::Run(..) = places {
            for (to, lane) in [(high, 6), (low, 4)] {
                let from = self.place(places, eight, lane);
                self.a.vex(VBROADCASTF128, to, Zmm(0), from);
            }
            for (to, lane) in [(high, 2), (low, 0)] {
                let from = self.place(places, eight, lane);
                self.a.vex(VINSERTF128.by(0), to, to, from);
            }
        } else {
            for (to, lane) in [(Zmm(5), 6), (Zmm(4), 4), (high, 2), (low, 0)] {
                let from = self.place(places, eight, lane + 1);
                self.a.vex(VMOVDDUP_LOAD, to, Zmm(0), from);
                let from = self.place(places, eight, lane);
                self.a.vex(VMOVLPS_LOAD, to, to, from);
            }
            self.a.vex(VINSERTF128.by(1), low, low, Zmm(4));
            self.a.vex(VINSERTF128.by(1), high, high, Zmm(5));
        }
        self.a.vex(VSHUFPS.by(0x88), Zmm(0), low, high);
        self.a.vex(VSHUFPS.by(0xdd), Zmm(1), low, high);
    }

    /// Loads elements of 16 bytes, or of twelve and the four bytes after them, to the first four registers.
    fn load_fours(&mut self, places: Places, eight: i32) {
        for lane in (0..8).rev() {
            let to = Zmm(4 + (lane as u8 & 3));
            let from = self.place(places, eight, lane);
            if lane < 4 {
                self.a.vex(VINSERTF128.by(0), to, to, from);
            } else {
                self.a.vex(VBROADCASTF128, to, Zmm(0), from);
            }
        }
        self.transpose([4, 5, 6, 7].map(Zmm));
    }

    /// Four rows of four in each half of four registers: the columns go to the first four.
    fn transpose(&mut self, [a, b, c, e]: [Zmm; 4]) {
        let [t0, t1, t2, t3] = [8, 9, 10, 11].map(Zmm);
        for (to, op, x, y) in [
            (t0, VUNPCKLPS, a, b),
            (t1, VUNPCKHPS, a, b),
            (t2, VUNPCKLPS, c, e),
            (t3, VUNPCKHPS, c, e),
            (Zmm(0), VUNPCKLPD, t0, t2),
            (Zmm(1), VUNPCKHPD, t0, t2),
            (Zmm(2), VUNPCKLPD, t1, t3),
            (Zmm(3), VUNPCKHPD, t1, t3),
        ] {
            self.a.vex(op, to, x, y);
        }
    }

    /// Stores elements of `dwords` dwords from the registers from `src` on, those of lower lanes first.
    pub(super) fn store_eight(&mut self, dwords: u32, places: Places, src: u32, eight: i32) {
        let row = |body: &Self, n: u32| Operand::Memory(Self::eight(src + n * body.halves, eight));
        match (dwords, places) {
            (1, Places::Run(..)) => {
                let from = row(self, 0);
                self.a.vex(VMOVUPS_LOAD, Zmm(0), Zmm(0), from);
                let to = self.place(places, eight, 0);
                self.a.vex(VMOVUPS_STORE, Zmm(0), Zmm(0), to);
            }
            (1, _) => {
                let At(rows, displacement) = Self::eight(src, eight);
                for lane in 0..8 {
                    let Operand::Indexed(base, _) = self.place(places, eight, lane) else {
                        unreachable!("they are not in a run")
                    };
                    self.a.load(Integer::Mov, false, Gpr::Rax, At(rows, displacement + lane * 4));
                    self.a.store_indexed(base, DISTANCE, Gpr::Rax);
                }
            }
            (2, _) => {
                let (low, high) = (Zmm(0), row(self, 1));
                let from = row(self, 0);
                self.a.vex(VMOVUPS_LOAD, low, Zmm(0), from);
                self.a.vex(VUNPCKLPS, Zmm(1), low, high);
                self.a.vex(VUNPCKHPS, Zmm(2), low, high);
                for upper in [false, true] {
                    for (n, from) in [(0, Zmm(1)), (1, Zmm(2))] {
                        let lane = 2 * n + if upper { 4 } else { 0 };
                        let mut from = from;
                        if upper {
                            self.a.vex(VEXTRACTF128.by(1), from, Zmm(0), Zmm(3));
                            from = Zmm(3);
                        }
                        let to = self.place(places, eight, lane);
                        if let Places::Run(..) = places {
                            self.a.vex(VMOVUPS_SHORT_STORE, from, Zmm(0), to);
                        } else {
                            self.a.vex(VMOVLPS_STORE, from, Zmm(0), to);
                            let to = self.place(places, eight, lane + 1);
                            self.a.vex(VMOVHPS_STORE, from, Zmm(0), to);
                        }
                    }
                }
            }
            _ => {
                for n in 0..dwords {
                    let from = row(self, n);
                    self.a.vex(VMOVUPS_LOAD, Zmm(4 + n as u8), Zmm(0), from);
                }
                self.transpose([4, 5, 6, 7].map(Zmm));
                for lane in 0..8 {
                    let mut from = Zmm(lane as u8 & 3);
                    if lane >= 4 {
                        self.a.vex(VEXTRACTF128.by(1), from, Zmm(0), Zmm(4));
                        from = Zmm(4);
                    }
                    let to = self.place(places, eight, lane);
                    if dwords == 4 {
                        self.a.vex(VMOVUPS_SHORT_STORE, from, Zmm(0), to);
                    } else {
                        self.a.vex(VMOVLPS_STORE, from, Zmm(0), to);
                        self.third_dword(from, to);
                    }
                }
            }
        }
    }

    /// The third dword of a register to the third one of an element.
    fn third_dword(&mut self, from: Zmm, to: Operand) {
        let at = match to {
            Operand::Memory(At(base, displacement)) => At(base, displacement + 8),
            _ => {
                let Operand::Indexed(base, _) = to else { unreachable!("elements are in memory") };
                self.a.integer(Integer::Add, true, DISTANCE, base);
                At(DISTANCE, 8)
            }
        };
        self.a.vex(VEXTRACTPS.by(2), from, Zmm(0), Operand::Memory(at));
    }

    /// Loads one element of `base` to all lanes of some eights.
    pub(super) fn load_everywhere(
        &mut self,
        base: Gpr,
        dwords: u32,
        dst: u32,
        eights: core::ops::Range<i32>,
    ) {
        let mut n = dwords;
        while n > 0 {
            // Two are one access, and the last ones are loaded first.
            let two = n.is_multiple_of(2);
            n -= if two { 2 } else { 1 };
            let from = Operand::Splat(At(base, n as i32 * 4));
            let results = [Zmm(0), Zmm(1)];
            if two {
                self.a.vex(VPBROADCASTQ_VEX, Zmm(2), Zmm(0), from);
                self.a.vex(VPSHUFD.by(0xa0), Zmm(0), Zmm(0), Zmm(2));
                self.a.vex(VPSHUFD.by(0xf5), Zmm(1), Zmm(0), Zmm(2));
            } else {
                self.a.vex(VPBROADCASTD_VEX, Zmm(0), Zmm(0), from);
            }
            for (register, result) in (n..n + 1 + u32::from(two)).zip(results) {
                for eight in eights.clone() {
                    let to = Self::eight(dst + register * self.halves, eight);
                    self.a.vex(VMOVUPS_STORE, result, Zmm(0), Operand::Memory(to));
                }
            }
        }
    }
}
