//! Whole instructions on a wave's registers: vectors against elements one at a time.

use super::shape::{Element, SHAPES};
use super::*;
use crate::exec::di::{Di, Kind, Source};
use crate::exec::tests::call;
use crate::exec::vector::float::single;
use crate::inst::WaveSize;
use crate::lanes::Backend;
use crate::wave::WaveInit;

/// First registers of A, B, and of C and D.
const PLACES: [u32; 3] = [0, 32, 64];

struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    /// A single of some kind.
    fn single(&mut self, kind: u32) -> u32 {
        let sign = self.next() << 31;
        let fraction = self.next() & 0x7f_ffff;
        let near = 127 - 8 + self.next() % 16;
        match kind {
            // Numbers near one, also with few digits; large and small ones; anything.
            0 => sign | near << 23 | fraction,
            1 => sign | near << 23 | fraction & 0x7c_0000,
            2 => sign | (self.next() % 255) << 23 | fraction,
            3 if self.next().is_multiple_of(3) => sign,
            3 => sign | (67 + self.next() % 120) << 23 | fraction,
            // Around the limits of what has powers, now and then; products that cancel each other, see `wave`; the ends of the
            // formats of few bits; infinities, NaNs and zeros here and there.
            5 if self.next().is_multiple_of(40) => {
                sign | (95 + self.next() % 2 * 60 + self.next() % 5) << 23 | fraction
            }
            5 => sign | (97 + self.next() % 61) << 23 | self.digits(),
            6 => sign | near << 23 | self.digits(),
            7 => {
                sign | [100 + self.next() % 20, 133 + self.next() % 12][self.next() as usize % 2] << 23
                    | self.digits()
            }
            8 => match self.next() % 40 {
                0 => sign | 255 << 23,
                1 => sign | 255 << 23 | fraction | 1,
                2..6 => sign,
                _ => sign | near << 23 | self.digits(),
            },
            _ => self.next() << 16 ^ self.next(),
        }
    }

    /// A single's fraction: none, all, or any of the digits.
    fn digits(&mut self) -> u32 {
        match self.next() % 4 {
            0 => 0,
            1 => 0x7f_ffff,
            _ => self.next() & 0x7f_ffff,
        }
    }

    /// An element of C: of the later kinds a few digits around where it is large for products near one, or where it is cut off.
    fn sum(&mut self, kind: u32) -> u32 {
        match (kind, self.next() % 4) {
            (3, 0) => 0,
            (5.., 0) => self.next() << 31 | (127 + self.next() % 32) << 23 | self.digits(),
            (5.., 1) => self.next() << 31 | (127 - 45 + self.next() % 45) << 23 | self.digits(),
            (5.., 2) => self.next() << 31 | (self.next() % 2 * 254) << 23 | self.digits(),
            // Of some kinds C is much larger than the products.
            (_, 1) => self.single(kind) & !(0xff << 23) | (127 + self.next() % 60) << 23,
            _ => self.single(kind),
        }
    }

    /// An element in its format.
    fn element(&mut self, element: Element, kind: u32) -> u32 {
        use crate::exec::vector::float::byte::Byte;
        use crate::exec::vector::float::{brain, half};
        let value = self.single(kind);
        match element {
            Element::Half => u32::from(half::from_single(value)),
            Element::Brain => u32::from(brain::from_single(value)),
            Element::Fp8 => u32::from(Byte::Fp8Fnuz.encoded(value, kind < 4)),
            Element::Bf8 => u32::from(Byte::Bf8Fnuz.encoded(value, kind < 4)),
            Element::E4m3 => u32::from(Byte::Fp8.encoded(value, kind < 4)),
            Element::E5m2 => u32::from(Byte::Bf8.encoded(value, kind < 4)),
            Element::Byte => self.next() & 0xff,
            Element::Single | Element::Xf32 | Element::Double => value,
        }
    }
}

/// A wave whose registers have random elements of an instruction's formats.
fn wave(shape: &Shape, kind: u32, random: &mut Random) -> Wave {
    let init =
        WaveInit { wave_size: WaveSize::Wave64, exec: u64::MAX, vgpr_count: 256, ..WaveInit::default() };
    let mut wave = Wave::new(&init);
    let sizes = shape.registers();
    for (n, element) in [shape.a, shape.b].into_iter().enumerate() {
        for register in PLACES[n]..PLACES[n] + sizes[n] {
            for lane in 0..64 {
                let per = 32 / element.bits().min(32);
                let mut word = (0..per)
                    .fold(0, |word, sub| word | random.element(element, kind) << (sub * element.bits() % 32));
                if kind == 6 && element.bits() < 32 && !random.next().is_multiple_of(16) {
                    // Odd elements as the even ones, of A with the other sign.
                    let (evens, signs) = match element.bits() {
                        16 => (0xffff, 0x8000),
                        _ => (0x00ff_00ff, 0x0080_0080),
                    };
                    let even = word & evens;
                    word = even | (even ^ if n == 0 { signs } else { 0 }) << element.bits();
                }
                wave.v.set_lane(register * 2 + lane / 32, lane & 31, word);
            }
        }
    }
    for register in PLACES[2]..PLACES[2] + sizes[2] {
        for lane in 0..64 {
            let value = random.sum(kind);
            wave.v.set_lane(register * 2 + lane / 32, lane & 31, value);
        }
    }
    for lane in 0..64 {
        wave.v.set_lane(INDEX * 2 + lane / 32, lane & 31, random.next() ^ random.next() << 16);
    }
    wave
}

/// The index's register.
const INDEX: u32 = 120;

fn lowered(number: usize, control: Control, handler: Handler) -> Di {
    let vector = |register: u32| Source { value: register * 2, kind: Kind::Vector, ..Source::ZERO };
    let third = if SHAPES[number].sparse { INDEX } else { PLACES[2] };
    Di {
        dst: PLACES[2] * 2,
        src: [vector(PLACES[0]), vector(PLACES[1]), vector(third)],
        aux: number as u8,
        imm: control.word(),
        ..Di::new(handler)
    }
}

#[test]
fn sums_are_where_rows_of_sixteen_lanes_are_taken_from() {
    for shape in SHAPES.iter().filter(|shape| !shape.is_double()) {
        let [_, _, registers] = shape.registers();
        let mut seen = vec![0; (registers * 64) as usize];
        for (block, i, j) in elements(shape) {
            let (register, lane) = shape.sum_place(block, i, j);
            seen[(register * 64 + lane) as usize] += 1;
            let first = if shape.n == 4 { lane / 16 * 4 } else { block };
            let at = slow::Sixteen { block: first, register: register as usize, sixteen: lane as usize / 16 };
            assert_eq!(at.element(shape, lane % 16), (block, i, j), "{shape:?}");
        }
        assert!(seen.iter().all(|count| *count == 1), "{shape:?}");
    }
}

fn elements(shape: &Shape) -> impl Iterator<Item = (u32, u32, u32)> {
    let (m, n) = (shape.m, shape.n);
    (0..shape.blocks * m * n).map(move |at| (at / n / m, at / n % m, at % n))
}

/// Number of extra tries of each kind of numbers that aims at limits.
const ROUNDS: usize = 6;

#[test]
fn vectors_give_what_elements_one_at_a_time_do() {
    let mut random = Random(1);
    for (number, shape) in SHAPES.iter().enumerate().filter(|(_, shape)| !shape.is_double()) {
        for kind in (0..9).chain([5, 6, 7, 8].repeat(ROUNDS)) {
            let before = wave(shape, kind, &mut random);
            let control = match kind {
                0 => Control::default(),
                _ => Control { cbsz: random.next() % 5, abid: random.next() % 16, blgp: random.next() % 8 },
            };
            let di = lowered(number, control, leave);
            let [_, _, registers] = shape.registers();
            let mut expected = Vec::new();
            for register in 0..registers as usize {
                for sixteen in 0..4 {
                    let per_block = (registers / shape.blocks).max(1);
                    let block = if shape.n == 4 { sixteen as u32 * 4 } else { register as u32 / per_block };
                    expected.push(slow::lanes(
                        &before,
                        &di,
                        shape,
                        slow::Sixteen { block, register, sixteen },
                    ));
                }
            }
            for backend in Backend::all() {
                let mut after = before.clone();
                let di = lowered(number, control, shape.handler(backend.kind()));
                call(di.f, &mut after, &di);
                for (n, expected) in expected.iter().enumerate() {
                    let row = after.v.row(di.dst + n as u32 / 2);
                    assert_eq!(
                        row[n % 2].0,
                        expected.0,
                        "{} kind {kind} {control:?} {n} {backend:?}",
                        shape.name()
                    );
                }
            }
        }
    }
}

fn leave(_w: &mut Wave, _m: &mut crate::exec::di::Machine<'_>, _d: &Di) -> Flow {
    Flow::NEXT
}

#[test]
fn doubles_are_chains_of_fused_operations() {
    let (number, shape) = named("v_mfma_f64_4x4x4_4b_f64", true).unwrap();
    for backend in Backend::all() {
        let mut wave = wave(shape, 0, &mut Random(2));
        let write = |wave: &mut Wave, register: u32, lane: u32, value: f64| {
            let bits = value.to_bits();
            wave.v.set_lane(register * 2 + lane / 32, lane & 31, bits as u32);
            wave.v.set_lane(register * 2 + 2 + lane / 32, lane & 31, (bits >> 32) as u32);
        };
        for lane in 0..64 {
            write(&mut wave, PLACES[0], lane, f64::from(lane + 1));
            write(&mut wave, PLACES[1], lane, 1.0 / f64::from(lane + 1));
            write(&mut wave, PLACES[2], lane, 100.0);
        }
        let mut di = lowered(usize::from(number), Control::default(), shape.handler(backend.kind()));
        di.src[2].neg = true;
        call(di.f, &mut wave, &di);
        for (block, i, j) in elements(shape) {
            let lane = 16 * i + 4 * block + j;
            let expected = (0..4u32).fold(-100f64, |sum, k| {
                let (a, b) = (i + 4 * block + 16 * k, j + 4 * block + 16 * k);
                f64::from(a + 1).mul_add(1.0 / f64::from(b + 1), sum)
            });
            let bits = u64::from(wave.v.lane(di.dst + lane / 32, lane & 31))
                | u64::from(wave.v.lane(di.dst + 2 + lane / 32, lane & 31)) << 32;
            assert_eq!(f64::from_bits(bits), expected, "{block} {i} {j} {backend:?}");
        }
    }
}

#[test]
fn a_constant_can_be_c() {
    let (number, shape) = named("v_mfma_f32_16x16x16_f16", true).unwrap();
    let mut wave = wave(shape, 1, &mut Random(3));
    let mut di = lowered(usize::from(number), Control::default(), shape.handler(Backend::detect().kind()));
    di.src[2] = Source { value: 1f32.to_bits(), ..Source::ZERO };
    let expected = slow::lanes(&wave, &di, shape, slow::Sixteen { block: 0, register: 3, sixteen: 2 });
    call(di.f, &mut wave, &di);
    assert_eq!(wave.v.row(di.dst + 7)[0].0, expected.0);
    assert!(!single::is_nan(expected.0[0]));
}

/// Instructions that are done by their own code, with matrices that are kept.
const BLOCKS: [&str; 4] = [
    "v_mfma_f32_16x16x16_f16",
    "v_mfma_f32_32x32x8_f16",
    "v_mfma_f32_16x16x16_bf16",
    "v_mfma_f32_32x32x8_bf16",
];

/// D at places before, in and behind its sources, and C a constant.
#[test]
fn d_may_overlap_what_it_is_made_of() {
    let mut random = Random(4);
    for name in BLOCKS {
        let (number, shape) = named(name, true).unwrap();
        let registers = shape.registers()[2];
        let places = (0..4).chain(28..36).chain(60..68).chain([PLACES[2] + registers, 100]);
        for (place, constant) in places.flat_map(|place| [(place, false), (place, true)]) {
            let before = wave(shape, 6, &mut random);
            for backend in Backend::all() {
                let mut di = lowered(usize::from(number), Control::default(), shape.handler(backend.kind()));
                if constant {
                    di.src[2] = Source { value: 1.5f32.to_bits(), ..Source::ZERO };
                }
                di.dst = place * 2;
                let mut after = before.clone();
                call(di.f, &mut after, &di);
                for register in 0..registers as usize {
                    for sixteen in 0..4 {
                        let at = slow::Sixteen { block: 0, register, sixteen };
                        let expected = slow::lanes(&before, &di, shape, at);
                        let row = after.v.row(di.dst + (register * 2 + sixteen / 2) as u32);
                        assert_eq!(
                            row[sixteen % 2].0,
                            expected.0,
                            "{name} D at {place}, constant {constant}, {register} {sixteen} {backend:?}"
                        );
                    }
                }
            }
        }
    }
}

/// The same registers as other formats and shapes, as they were, and with a bit of A or B changed.
#[test]
fn matrices_are_those_of_the_registers() {
    let mut random = Random(5);
    let (_, first) = named(BLOCKS[0], true).unwrap();
    let mut before = wave(first, 6, &mut random);
    for changed in [None, None, Some(0), None, Some(1), Some(0), Some(1), None] {
        if let Some(side) = changed {
            let (row, lane) = (PLACES[side] * 2 + random.next() % 4, random.next() % 32);
            let word = before.v.lane(row, lane) ^ 1 << (random.next() % 2 * 16 + random.next() % 10);
            before.v.set_lane(row, lane, word);
        }
        for name in BLOCKS {
            let (number, shape) = named(name, true).unwrap();
            for backend in Backend::all() {
                let mut di = lowered(usize::from(number), Control::default(), shape.handler(backend.kind()));
                di.dst = 100 * 2;
                let mut after = before.clone();
                call(di.f, &mut after, &di);
                for register in 0..shape.registers()[2] as usize {
                    for sixteen in 0..4 {
                        let at = slow::Sixteen { block: 0, register, sixteen };
                        let row = after.v.row(di.dst + (register * 2 + sixteen / 2) as u32);
                        assert_eq!(
                            row[sixteen % 2].0,
                            slow::lanes(&before, &di, shape, at).0,
                            "{name} {register} {sixteen} {backend:?}"
                        );
                    }
                }
            }
        }
    }
}
