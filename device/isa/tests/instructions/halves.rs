//! Halves of registers in the VOP3 forms of 16-bit integer operations: `OPSEL`, which LLVM's target description has not.

use super::{lanes, program};

/// Destination, as every other lane has it before; two sources in v0 and v1.
const BEFORE: u32 = 0xabcd_4321;
const END: u32 = 0xbfb0_0000;

fn vop3(opcode: u32, dst: u32, op_sel: u32) -> [u32; 2] {
    [opcode | op_sel << 11 | dst, 0x100 | 0x101 << 9]
}

fn half(word: u32, high: bool) -> u16 {
    (if high { word >> 16 } else { word }) as u16
}

fn sources() -> [[u32; 64]; 3] {
    let a = lanes(|l| l.wrapping_mul(0x9e37_79b9) ^ 0x1234);
    // Small ones in the low half, so that shifts have something left.
    let b = lanes(|l| (l * 0x0101_0000).wrapping_add(0x8001_0000) | (l % 17));
    [a, b, lanes(|_| BEFORE)]
}

/// The half of the destination that is not written, as `v_add_nc_u16` leaves it.
fn other_half(op_sel: u32) -> u32 {
    let words = vop3(0xd703_0000, 2, op_sel);
    let kept = core::cell::Cell::new(0);
    program(&[words[0], words[1], END], &sources(), &[], |wave, _| {
        let mask = if op_sel & 8 != 0 { 0xffff } else { 0xffff_0000 };
        kept.set(wave.vgpr(2, 0) & mask);
    });
    kept.get()
}

#[test]
fn operations_take_and_write_the_halves_that_opsel_says() {
    type Model = fn(u16, u16) -> u16;
    let cases: [(u32, Model); 12] = [
        (0xd705_0000, u16::wrapping_mul),
        (0xd738_0000, |a, b| b << (a & 15)),
        (0xd739_0000, |a, b| b >> (a & 15)),
        (0xd73a_0000, |a, b| (b.cast_signed() >> (a & 15)).cast_unsigned()),
        (0xd762_0000, |a, b| a & b),
        (0xd763_0000, |a, b| a | b),
        (0xd764_0000, |a, b| a ^ b),
        (0xd709_0000, u16::max),
        (0xd70a_0000, |a, b| a.cast_signed().max(b.cast_signed()).cast_unsigned()),
        (0xd70b_0000, u16::min),
        (0xd70c_0000, |a, b| a.cast_signed().min(b.cast_signed()).cast_unsigned()),
        (0xd5e9_0000, |a, _| !a),
    ];
    let [a, b, _] = sources();
    for op_sel in 0..16 {
        let kept = other_half(op_sel & 11);
        for (opcode, model) in cases {
            let unary = opcode == 0xd5e9_0000;
            let op_sel = if unary { op_sel & 9 } else { op_sel & 11 };
            let [first, second] = vop3(opcode, 2, op_sel);
            let second = if unary { second & 0x1ff } else { second };
            program(&[first, second, END], &sources(), &[], |wave, _| {
                for lane in 0..32 {
                    let (a, b) = (a[lane as usize], b[lane as usize]);
                    let result = model(half(a, op_sel & 1 != 0), half(b, op_sel & 2 != 0));
                    let expected = u32::from(result) << if op_sel & 8 != 0 { 16 } else { 0 } | kept;
                    assert_eq!(wave.vgpr(2, lane), expected, "{opcode:#x}, OPSEL {op_sel:#x}, lane {lane}");
                }
            });
        }
    }
}

#[test]
fn comparisons_and_conversions_take_the_halves_that_opsel_says() {
    let [a, b, _] = sources();
    for op_sel in 0..4 {
        let compare = vop3(0xd431_0000, 4, op_sel);
        let widen = [0xd5ea_0002 | (op_sel & 1) << 11, 0x100];
        let code = [compare[0], compare[1], widen[0], widen[1], END];
        program(&code, &sources(), &[0; 6], |wave, _| {
            for lane in 0..32 {
                let (a, b) = (a[lane as usize], b[lane as usize]);
                let (a, b) = (half(a, op_sel & 1 != 0).cast_signed(), half(b, op_sel & 2 != 0).cast_signed());
                assert_eq!(wave.sgpr(4) >> lane & 1 != 0, a < b, "OPSEL {op_sel:#x}, lane {lane}");
                assert_eq!(wave.vgpr(2, lane).cast_signed(), i32::from(a), "OPSEL {op_sel:#x}, lane {lane}");
            }
        });
    }
}

#[test]
fn alignments_take_their_count_from_the_half_that_opsel_says() {
    let [a, b, _] = sources();
    for op_sel in [0, 4] {
        let align = |opcode: u32, dst: u32| [opcode | op_sel << 11 | dst, 0x100 | 0x101 << 9 | 0x101 << 18];
        let (bits, bytes) = (align(0xd616_0000, 2), align(0xd617_0000, 3));
        let code = [bits[0], bits[1], bytes[0], bytes[1], END];
        let vgprs = [a, b, lanes(|_| 0), lanes(|_| 0)];
        program(&code, &vgprs, &[], |wave, _| {
            for lane in 0..32 {
                let (a, b) = (a[lane as usize], b[lane as usize]);
                let (both, count) = (u64::from(a) << 32 | u64::from(b), half(b, op_sel & 4 != 0));
                assert_eq!(
                    wave.vgpr(2, lane),
                    (both >> (count & 31)) as u32,
                    "OPSEL {op_sel:#x}, lane {lane}"
                );
                assert_eq!(
                    wave.vgpr(3, lane),
                    (both >> (count % 4 * 8)) as u32,
                    "OPSEL {op_sel:#x}, lane {lane}"
                );
            }
        });
    }
}
