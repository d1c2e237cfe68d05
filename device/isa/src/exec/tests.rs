//! Every operation of the tables: each backend's lanes against the scalar definition, over a lattice of edge cases.

use super::Lds;
use super::di::{Di, Handler, Kind, Machine, Source, flag};
use crate::exec::vector::cmp::Operands;
use crate::exec::vector::op::{Entry, Format};
use crate::exec::vector::{
    cvt, dot, qsad, trans, vop_clamp, vop_f16, vop_f32, vop_f64, vop_half_count, vop_int,
};
use crate::inst::Op;
use crate::lanes::{Backend, BackendKind};
use crate::mem::{Access, Apertures, Fault, FaultKind, Global, Mapping, Mmu, Tlb};
use crate::wave::{Wave, WaveInit};

struct Nothing;

#[expect(unsafe_code, reason = "maps nothing")]
// SAFETY: it never returns a mapping.
unsafe impl Mmu for Nothing {
    fn translate(&self, va: u64, access: Access) -> Result<Mapping, Fault> {
        Err(Fault::new(va, access, FaultKind::NotPresent))
    }
    fn generation(&self) -> u64 {
        1
    }
    fn context(&self) -> u64 {
        1
    }
}

const EDGES32: [u32; 22] = [
    0,
    1,
    31,
    32,
    33,
    0x7fff,
    0x0080_0000,
    0x007f_ffff,
    0x8000_0001,
    0x3f80_0000,
    0xbf80_0001,
    0x4b00_0001,
    0xcf00_0000,
    0x7f7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_1234,
    0x7f80_0001,
    0xffc5_4321,
    0x8000_0000,
    0x7fff_ffff,
    0xffff_ffff,
];
const EDGES64: [u64; 16] = [
    0,
    1,
    63,
    0x8000_0000_0000_0000,
    0x3ff0_0000_0000_0000,
    0xbff8_0000_0000_0001,
    0x000f_ffff_ffff_ffff,
    0x8000_0000_0000_0001,
    0x0010_0000_0000_0000,
    0x7fef_ffff_ffff_ffff,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_1234,
    0x7ff0_0000_0000_0001,
    0x41df_ffff_ffc0_0000,
    0xffff_ffff_ffff_ffff,
];
const EDGES16: [u16; 16] = [
    0, 1, 15, 0x8000, 0x3c00, 0xbc01, 0x03ff, 0x8001, 0x0400, 0x7bff, 0x7c00, 0xfc00, 0x7e12, 0x7c01, 0x7fff,
    0xffff,
];

fn edges(bits: u32) -> Vec<u64> {
    match bits {
        16 => EDGES16.iter().map(|&x| u64::from(x)).collect(),
        32 => EDGES32.iter().map(|&x| u64::from(x)).collect(),
        _ => EDGES64.to_vec(),
    }
}

/// First rows of the three sources and of the destination.
const ROWS: [u32; 3] = [0, 2, 4];
const DESTINATION: u32 = 6;
const SENTINEL: u32 = 0x5a5a_5a5a;

fn set(wave: &mut Wave, row: u32, lane: u32, bits: u32, value: u64) {
    // The other half of a 16-bit source is noise that must not matter.
    let low = if bits == 16 { value as u32 | 0xdead_0000 } else { value as u32 };
    wave.v.set_lane(row, lane, low);
    if bits == 64 {
        wave.v.set_lane(row + 1, lane, (value >> 32) as u32);
    }
}

#[expect(unsafe_code, reason = "handlers are compiled for a backend the host has")]
pub(crate) fn call(handler: Handler, wave: &mut Wave, di: &Di) {
    let (mut tlb, mut lds) = (Tlb::new(), Lds::new(0));
    let mut machine = Machine {
        global: Global { mmu: &Nothing, tlb: &mut tlb },
        lds: &mut lds,
        apertures: Apertures::default(),
        clock: &|| 0,
        stop: None,
        refetch: false,
        forgets_ended: false,
        wrote_more: false,
        round: crate::exec::waves::round::Round::NONE,
        succession: core::ptr::null_mut(),
    };
    // SAFETY: the handler came from a `Backend`.
    let flow = unsafe { handler(wave, &mut machine, di) };
    assert_eq!(flow, super::di::Flow::NEXT);
}

/// The result a handler left in a lane.
fn result(wave: &Wave, entry: &Entry, lane: u32) -> u64 {
    let low = u64::from(wave.v.lane(DESTINATION, lane));
    match entry.dst_bits {
        16 => {
            assert_eq!(low >> 16, u64::from(SENTINEL >> 16), "the high half is kept");
            low & 0xffff
        }
        32 => low,
        _ => low | u64::from(wave.v.lane(DESTINATION + 1, lane)) << 32,
    }
}

/// Every combination of edge values for the sources there are.
pub(crate) fn combinations(entry: &Entry) -> Vec<[u64; 3]> {
    let list = |n: usize| if n < entry.arity { edges(entry.bits[n]) } else { vec![0] };
    let (first, second, third) = (list(0), list(1), list(2));
    let mut all = Vec::new();
    for &a in &first {
        for &b in &second {
            all.extend(third.iter().map(|&c| [a, b, c]));
        }
    }
    all
}

fn check(op: Op, entry: &Entry, kind: BackendKind) {
    let source = |n: usize| Source { value: ROWS[n], kind: Kind::Vector, ..Source::ZERO };
    let mut wave = Wave::new(&WaveInit::default());
    let handlers = [Some(entry.general), entry.plain, Some(entry.slow)];
    let combinations = combinations(entry);
    for (batch, values) in combinations.chunks(32).enumerate() {
        // Full and partial EXEC in turn.
        let exec = if batch % 2 == 0 { u32::MAX } else { 0x0fff_00f7 };
        wave.s[crate::registers::slot::EXEC] = exec;
        for (lane, value) in (0_u32..).zip(values) {
            for n in 0..entry.arity {
                set(&mut wave, ROWS[n], lane, entry.bits[n], value[n]);
            }
        }
        for handler in handlers.into_iter().flatten() {
            for lane in 0..32 {
                wave.v.set_lane(DESTINATION, lane, SENTINEL);
                wave.v.set_lane(DESTINATION + 1, lane, SENTINEL);
            }
            let mut di = Di::for_test(handler);
            (di.dst, di.src) = (DESTINATION, [source(0), source(1), source(2)]);
            call(handler, &mut wave, &di);
            for (lane, value) in (0_u32..).zip(values) {
                if exec >> lane & 1 == 0 {
                    assert_eq!(
                        wave.v.lane(DESTINATION, lane),
                        SENTINEL,
                        "{op:?} {kind:?}: an inactive lane is written"
                    );
                    continue;
                }
                let expected = (entry.scalar)(value[0], value[1], value[2]);
                let got = result(&wave, entry, lane);
                assert_eq!(got, expected, "{op:?} {kind:?} of {value:#x?}: {got:#x}, not {expected:#x}");
            }
        }
    }
}

/// The handler for a scalar first source, which all lanes share.
fn check_uniform(op: Op, entry: &Entry, kind: BackendKind) {
    let Some(handler) = entry.uniform else { return };
    let source = |n: usize| Source { value: ROWS[n], kind: Kind::Vector, ..Source::ZERO };
    let mut wave = Wave::new(&WaveInit::default());
    for values in combinations(entry).chunks(32) {
        for (lane, value) in (0_u32..).zip(values) {
            for n in 1..entry.arity {
                set(&mut wave, ROWS[n], lane, entry.bits[n], value[n]);
            }
        }
        let first = values[0][0];
        let mut di = Di::for_test(handler);
        let constant = Source { value: first as u32, kind: Kind::Constant, ..Source::ZERO };
        (di.dst, di.src) = (DESTINATION, [constant, source(1), source(2)]);
        call(handler, &mut wave, &di);
        for (lane, value) in (0_u32..).zip(values) {
            let expected = (entry.scalar)(first, value[1], value[2]);
            let got = result(&wave, entry, lane);
            assert_eq!(got, expected, "{op:?} {kind:?} of {first:#x} and {value:#x?}");
        }
    }
}

/// A numerator that is a signalling NaN stays one, though the quotient is that NaN made quiet.
#[test]
fn fixup_of_a_division_keeps_the_numerators_signalling_nan() {
    let cases: [(Entry, [u64; 3]); 3] = [
        (
            vop_f64::entry(Op::V_DIV_FIXUP_F64, BackendKind::Portable).expect("it is in the table"),
            [0x7ff8_0000_0000_0001, 0x3ff0_0000_0000_0000, 0x7ff0_0000_0000_0001],
        ),
        (
            vop_f32::entry(Op::V_DIV_FIXUP_F32, BackendKind::Portable).expect("it is in the table"),
            [0x7fc0_0001, 0x3f80_0000, 0x7f80_0001],
        ),
        (
            vop_f16::entry(Op::V_DIV_FIXUP_F16, BackendKind::Portable).expect("it is in the table"),
            [0x7e01, 0x3c00, 0x7c01],
        ),
    ];
    for (entry, values) in cases {
        let source = |n: usize| Source { value: ROWS[n], kind: Kind::Vector, ..Source::ZERO };
        for (order, expected) in [(values, values[2]), ([values[2], values[1], values[0]], values[0])] {
            let mut wave = Wave::new(&WaveInit::default());
            for n in 0..3 {
                set(&mut wave, ROWS[n], 0, entry.bits[n], order[n]);
            }
            wave.v.set_lane(DESTINATION, 0, SENTINEL);
            let mut di = Di::for_test(entry.slow);
            (di.dst, di.src) = (DESTINATION, [source(0), source(1), source(2)]);
            di.flags = flag::SLOW | flag::SIGNALS | flag::LAST_FIRST;
            call(entry.slow, &mut wave, &di);
            assert_eq!(result(&wave, &entry, 0), expected, "{order:x?}");
        }
    }
}

/// A pair of multiply-adds, of which each overwrites what the other reads.
#[test]
fn pairs_read_before_they_write() {
    for backend in Backend::all() {
        let kind = backend.kind();
        let handler = crate::exec::vector::op::dual_pair::<vop_f32::V_FMAC_F32, vop_f32::V_FMAC_F32>(kind);
        let entry = vop_f32::entry(Op::V_FMAC_F32, kind).expect("it is in the table");
        let mut wave = Wave::new(&WaveInit::default());
        for values in combinations(&entry).chunks(32) {
            for (lane, value) in (0_u32..).zip(values) {
                // x in row 0, y in row 1: x += y * z, y += x * z.
                for (row, bits) in (0..3).zip(value) {
                    wave.v.set_lane(row, lane, *bits as u32);
                }
            }
            let row = |value: u32| Source { value, kind: Kind::Vector, ..Source::ZERO };
            let mut di = Di::for_test(handler);
            (di.dst, di.dst2, di.src, di.imm) = (0, 1, [row(1), row(0), row(2)], 2);
            call(handler, &mut wave, &di);
            for (lane, &[x, y, z]) in (0_u32..).zip(values) {
                let expected = [(entry.scalar)(y, z, x) as u32, (entry.scalar)(x, z, y) as u32];
                let got = [wave.v.lane(0, lane), wave.v.lane(1, lane)];
                assert_eq!(got, expected, "{kind:?} of {x:#x} {y:#x} {z:#x}");
            }
        }
    }
}

pub(crate) type Table = (&'static [Op], fn(Op, BackendKind) -> Option<Entry>);

const TABLES: [Table; 12] = [
    (vop_int::ALL, vop_int::entry),
    (vop_clamp::ALL, vop_clamp::entry),
    (vop_half_count::ALL, vop_half_count::entry),
    (vop_f32::ALL, vop_f32::entry),
    (vop_f64::ALL, vop_f64::entry),
    (vop_f16::ALL, vop_f16::entry),
    (trans::ALL, trans::entry),
    (cvt::ALL, cvt::entry),
    (dot::ALL, dot::entry),
    (dot::gfx12::ALL, dot::gfx12::entry),
    (dot::gfx9::ALL, dot::gfx9::entry),
    (qsad::ALL, qsad::entry),
];

/// The tables but for that of results that saturate.
pub(crate) fn tables_without_clamp() -> impl Iterator<Item = Table> {
    TABLES.into_iter().filter(|(ops, _)| *ops != vop_clamp::ALL)
}

#[test]
fn lanes_equal_the_scalar_definition() {
    for backend in Backend::all() {
        println!("backend {:?}", backend.kind());
        for (ops, entry) in TABLES {
            for &op in ops {
                let entry =
                    entry(op, backend.kind()).unwrap_or_else(|| panic!("{op:?} is not in its own table"));
                check(op, &entry, backend.kind());
                check_uniform(op, &entry, backend.kind());
            }
        }
    }
}

#[test]
fn formats_fit_the_operands() {
    for (ops, entry) in TABLES {
        for &op in ops {
            let Some(entry) = entry(op, BackendKind::Portable) else { panic!("{op:?}") };
            let bits = |format: Format| match format {
                Format::Bits => None,
                Format::F16 => Some(16),
                Format::F32 => Some(32),
                Format::F64 => Some(64),
            };
            assert!(bits(entry.output).is_none_or(|bits| bits == entry.dst_bits), "{op:?}");
            assert!(bits(entry.input).is_none_or(|bits| bits == entry.bits[0]), "{op:?}");
        }
    }
}

#[test]
fn comparisons_by_lanes_equal_the_scalar_definition() {
    let pairs: Vec<[u32; 2]> = EDGES32.iter().flat_map(|&a| EDGES32.iter().map(move |&b| [a, b])).collect();
    for backend in Backend::all() {
        for operands in [Operands::U32, Operands::I32, Operands::F32] {
            for outcomes in 0..16 {
                let comparison = crate::exec::vector::cmp::entry(operands, outcomes, backend.kind());
                for pairs in pairs.chunks(32) {
                    let mut wave = Wave::new(&WaveInit::default());
                    for (lane, pair) in (0_u32..).zip(pairs) {
                        wave.v.set_lane(0, lane, pair[0]);
                        wave.v.set_lane(1, lane, pair[1]);
                    }
                    let source = |row: u32| Source { value: row, kind: Kind::Vector, ..Source::ZERO };
                    let mut masks = [0; 2];
                    for (mask, handler) in masks.iter_mut().zip([comparison.handler, comparison.slow]) {
                        let mut di = Di::for_test(handler);
                        (di.dst, di.aux, di.src) =
                            (10, comparison.outcomes, [source(0), source(1), Source::ZERO]);
                        call(handler, &mut wave, &di);
                        *mask = wave.sgpr(10);
                    }
                    assert_eq!(
                        masks[0],
                        masks[1],
                        "{outcomes:#x} {operands:?} {:?} of {pairs:x?}",
                        backend.kind()
                    );
                }
            }
        }
    }
}

/// The steps that compilers divide by give the correctly rounded quotient for all operands.
#[test]
fn division_by_scale_fmas_fixup_is_exact() {
    let step =
        |name: Op| crate::exec::vector::carry::entry(name, BackendKind::Portable).map(|entry| entry.handler);
    let (Some(scale), Some(fmas)) = (step(Op::V_DIV_SCALE_F32), step(Op::V_DIV_FMAS_F32)) else {
        panic!("no division")
    };
    let row = |row: u32| Source { value: row, kind: Kind::Vector, ..Source::ZERO };
    let mut wave = Wave::new(&WaveInit::default());
    let run = |wave: &mut Wave, handler: Handler, dst: u32, dst2: u32, imm: u32, src: [u32; 3]| {
        let mut di = Di::for_test(handler);
        (di.dst, di.dst2, di.imm, di.src) = (dst, dst2, imm, src.map(row));
        call(handler, wave, &di);
    };
    let vcc = crate::registers::slot::VCC as u32;
    for &n in &EDGES32 {
        for &d in &EDGES32 {
            let fma = crate::exec::vector::float::single::fma;
            wave.v.set_lane(0, 0, n);
            wave.v.set_lane(1, 0, d);
            run(&mut wave, scale, 2, 254, 254, [1, 1, 0]);
            run(&mut wave, scale, 3, vcc, 254, [0, 1, 0]);
            let (scaled_d, scaled_n) = (wave.v.lane(2, 0), wave.v.lane(3, 0));
            let negative = scaled_d ^ 0x8000_0000;
            let mut reciprocal = crate::exec::vector::reciprocal::reciprocal(scaled_d);
            let error = fma(negative, reciprocal, 0x3f80_0000);
            reciprocal = fma(error, reciprocal, reciprocal);
            let mut quotient = crate::exec::vector::float::single::binary(scaled_n, reciprocal, |a, b| a * b);
            let rest = fma(negative, quotient, scaled_n);
            quotient = fma(rest, reciprocal, quotient);
            let rest = fma(negative, quotient, scaled_n);
            for (register, value) in [(4, rest), (5, reciprocal), (6, quotient)] {
                wave.v.set_lane(register, 0, value);
            }
            run(&mut wave, fmas, 7, 254, vcc, [4, 5, 6]);
            let result = crate::exec::vector::float::single::div_fixup(wave.v.lane(7, 0), d, n);
            let expected = f32::from_bits(n) / f32::from_bits(d);
            let denormal = expected != 0.0 && expected.abs() < f32::MIN_POSITIVE;
            let close = result.abs_diff(expected.to_bits()) <= u32::from(denormal);
            assert!(
                close || expected.is_nan() && f32::from_bits(result).is_nan(),
                "{n:#x} / {d:#x}: {result:#x}, not {expected:?}"
            );
        }
    }
}
