//! `v_rcp_f32` and `v_rsq_f32` of sixteen lanes: the single below the exact result, and the [bit](Faithful) that says whether cards
//! give the next one.

use super::curves::kept;
use crate::exec::di::Di;
use crate::exec::vector::reciprocal::Faithful;
use crate::tier1::x86::asm::{Gpr, K0, Operand, Place, Zmm};
use crate::tier1::x86::body::{Body, SCRATCH, SIGN};
use crate::tier1::x86::encoding::*;

/// Classes of `vfpclassps`: denormals, and all that is no normal number.
const DENORMAL: u8 = 0x20;
const NOT_NORMAL: u8 = 0xbf;

const ONE: u32 = 0x3f80_0000;

impl Body<'_> {
    /// The bits of the places in temporary 1 to temporary `to`, 0 or 1; 2 is used.
    fn bits(&mut self, of: Faithful, to: Zmm, half: u32, chunk: u8) {
        let (place, t) = (Zmm(1), Zmm(2));
        self.a.shift(VPSRLD.by(3), t, place, K0);
        self.a.place(Gpr::Rax, Place::Bits(of));
        let lanes = self.lanes_of(half, chunk);
        self.a.masked(VPGATHERDD, to, Zmm(0), Operand::Indexed(Gpr::Rax, t), lanes);
        self.a.evex(VPANDD, t, place, Operand::Constant(7));
        self.a.evex(VPSRLVD, to, to, t);
        self.a.evex(VPANDD, to, to, Operand::Constant(1));
    }

    /// Reciprocals to temporary 3; all others are used.
    pub(crate) fn reciprocals(&mut self, d: &Di, half: u32, chunk: u8) {
        let ([t1, t2, t3], [k, _]) = ([Zmm(1), Zmm(2), Zmm(3)], SCRATCH);
        let a = self.register(&d.src[0], true, half, chunk, Zmm(0));
        self.a.evex(VPANDD, t1, a, Operand::Constant(0x7f_ffff));
        self.bits(Faithful::Reciprocal, t3, half, chunk);
        // Denormals are zeros.
        self.a.compare(VFPCLASSPS.by(DENORMAL), k, Zmm(0), a, K0);
        self.put(t1, a, K0);
        self.a.masked(VPANDD, t1, a, Operand::Constant(SIGN), k);
        self.a.evex(VPBROADCASTD, t2, Zmm(0), Operand::Constant(ONE));
        self.a.evex(VDIVPS.rounded(3), t2, t2, t1);
        self.a.compare(VFPCLASSPS.by(NOT_NORMAL), k, Zmm(0), t2, K0);
        self.a.masked(VPXORD, t3, t3, t3, k);
        self.a.evex(VPADDD, t3, t3, t2);
        self.a.compare(VFPCLASSPS.by(DENORMAL), k, Zmm(0), t3, K0);
        self.a.masked(VPANDD, t3, t3, Operand::Constant(SIGN), k);
    }

    /// Reciprocal roots of positive normal numbers, in a temporary; all others are used.
    pub(crate) fn reciprocal_roots(&mut self, d: &Di, half: u32, chunk: u8) -> Zmm {
        let [t1, t2, t3] = [Zmm(1), Zmm(2), Zmm(3)];
        let a = self.register(&d.src[0], true, half, chunk, Zmm(0));
        // The mantissa, and whether the exponent is odd.
        self.a.evex(VPANDD, t1, a, Operand::Constant(0xff_ffff));
        self.a.evex(VPXORD, t1, t1, Operand::Constant(0x80_0000));
        self.bits(Faithful::ReciprocalRoot, t3, half, chunk);
        self.a.evex(VMOVUPS_STORE, t3, Zmm(0), kept(0));
        // The number from one to four, the root of its reciprocal, which is off by less than a unit, and what it lacks:
        // of that the sign is exact, since both products are made without a rounding.
        self.a.evex(VPADDD, t1, t1, Operand::Constant(ONE));
        self.a.evex(VPBROADCASTD, t2, Zmm(0), Operand::Constant(ONE));
        self.a.evex(VDIVPS, t2, t2, t1);
        self.a.evex(VSQRTPS, t2, Zmm(0), t2);
        self.a.evex(VMULPS, t3, t1, t2);
        self.a.evex(VFMSUB213PS, t1, t2, t3);
        self.a.evex(VFNMADD213PS, t3, t2, Operand::Constant(ONE));
        self.a.evex(VFNMADD231PS, t3, t1, t2);
        self.a.shift(VPSRAD.by(31), t3, t3, K0);
        self.a.evex(VPADDD, t2, t2, t3);
        self.a.evex(VPADDD, t2, t2, kept(0));
        // Half of the even exponent that is not greater.
        self.a.evex(VPADDD, t1, a, Operand::Constant(ONE.wrapping_neg()));
        self.a.evex(VPANDD, t1, t1, Operand::Constant(0xff00_0000));
        self.a.shift(VPSRAD.by(1), t1, t1, K0);
        self.a.evex(VPSUBD, t2, t2, t1);
        t2
    }
}
