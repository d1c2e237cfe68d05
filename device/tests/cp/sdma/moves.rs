//! Copies, fills and writes of many bytes.

use belfry_abi::sdma::{Op, copy_sub_op};

use super::{Ring, copy, halves, packet, write};
use crate::bench::{Bench, READ_WRITE};

fn bytes(bench: &Bench, at: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    bench.space.read_bytes(at, &mut out).expect("mapped");
    out
}

/// Bytes of which neighbours differ.
fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect()
}

#[test]
fn linear_copies_move_any_number_of_bytes_from_and_to_any_address() {
    let bench = Bench::new(1);
    let mut ring = Ring::new(&bench, 1 << 12);
    let source = pattern(5 << 20);
    let (from, to) = (bench.buffer(&source), bench.alloc(6 << 20, READ_WRITE));
    // The last ones take several turns.
    for (skip, len) in [(0, 1), (1, 3), (3, 4096), (4095, 2), (7, 65_553), (0, 2 << 20), (5, (5 << 20) - 5)] {
        bench.space.write_bytes(to, &vec![0xee; 6 << 20]).expect("mapped");
        ring.submit(&bench, &[copy(from + skip, to + 9, len)]);
        ring.drain(&bench);
        let (skip, len) = (skip as usize, len as usize);
        let copied = bytes(&bench, to, len + 10);
        assert_eq!(copied[9..9 + len], source[skip..skip + len], "{len} bytes");
        assert_eq!((copied[8], copied[9 + len]), (0xee, 0xee), "around {len} bytes");
    }
}

#[test]
fn broadcast_copies_to_two_places() {
    let bench = Bench::new(1);
    let mut ring = Ring::new(&bench, 1 << 12);
    let source = pattern(100_001);
    let from = bench.buffer(&source);
    let to = [(); 2].map(|()| bench.alloc(100_001, READ_WRITE));
    let body = [&[100_000, 0][..], &halves(from), &halves(to[0]), &halves(to[1])].concat();
    let mut broadcast = packet(Op::COPY, 0, &body);
    broadcast[0] |= 1 << 27;
    ring.submit(&bench, &[broadcast]);
    ring.drain(&bench);
    assert!(to.iter().all(|&to| bytes(&bench, to, 100_001) == source));
}

/// A box and the images it is in: position, row and slice in elements.
#[derive(Clone, Copy)]
struct Image {
    at: u64,
    origin: [u32; 3],
    pitch: u32,
    slice: u32,
}

impl Image {
    fn dwords(&self) -> [u32; 5] {
        let ([lo, hi], [x, y, z]) = (halves(self.at), self.origin);
        [lo, hi, x | y << 16, z | (self.pitch - 1) << 13, self.slice - 1]
    }

    /// Number of an element from the image's first on.
    fn element(&self, [x, y, z]: [u32; 3]) -> usize {
        let [x0, y0, z0] = self.origin;
        ((z0 + z) * self.slice + (y0 + y) * self.pitch + x0 + x) as usize
    }
}

#[test]
fn boxes_of_linear_images_are_copied_row_by_row() {
    let bench = Bench::new(1);
    let mut ring = Ring::new(&bench, 1 << 12);
    let (from, to) = (bench.buffer(&pattern(1 << 20)), bench.alloc(1 << 20, READ_WRITE));
    let source = bytes(&bench, from, 1 << 20);
    for (log2, size) in
        [(0u32, [5, 3, 2]), (2, [1, 1, 1]), (2, [100, 40, 3]), (4, [33, 7, 5]), (1, [3, 700, 2])]
    {
        let src = Image { at: from, origin: [3, 2, 1], pitch: 111, slice: 4000 };
        let dst = Image { at: to, origin: [1, 5, 2], pitch: 104, slice: 3000 };
        let [width, height, depth] = size;
        let (src, dst) =
            if height == 700 { (Image { pitch: 5, ..src }, Image { pitch: 4, ..dst }) } else { (src, dst) };
        bench.space.write_bytes(to, &vec![0xee; 1 << 20]).expect("mapped");
        let rect = [(width - 1) | ((height - 1) << 16), depth - 1];
        let body = [&src.dwords()[..], &dst.dwords(), &rect].concat();
        let mut copy = packet(Op::COPY, copy_sub_op::LINEAR_SUB_WIND, &body);
        copy[0] |= log2 << 29;
        ring.submit(&bench, &[copy]);
        ring.drain(&bench);
        let mut expected = vec![0xee; 1 << 20];
        let element = 1 << log2;
        for z in 0..depth {
            for y in 0..height {
                for x in 0..width {
                    let (s, d) = (src.element([x, y, z]) * element, dst.element([x, y, z]) * element);
                    expected[d..d + element].copy_from_slice(&source[s..s + element]);
                }
            }
        }
        assert!(bytes(&bench, to, 1 << 20) == expected, "elements of {element} bytes, box {size:?}");
    }
}

#[test]
fn fills_repeat_an_element_of_their_size() {
    let bench = Bench::new(1);
    let mut ring = Ring::new(&bench, 1 << 12);
    let to = bench.alloc(3 << 20, READ_WRITE);
    // Runtimes count dwords less one times four, the kernel bytes less one: both mean one number of bytes.
    let rows: [(u32, u32, usize); 6] =
        [(0, 0, 1), (0, 70_000, 70_001), (1, 7, 8), (2, 4, 8), (2, 7, 8), (2, (5 << 19) - 4, 5 << 19)];
    for (log2, count, len) in rows {
        bench.space.write_bytes(to, &vec![0xee; 3 << 20]).expect("mapped");
        let mut fill = packet(Op::CONST_FILL, 0, &[&halves(to)[..], &[0x4433_2211, count]].concat());
        fill[0] |= log2 << 30;
        ring.submit(&bench, &[fill]);
        ring.drain(&bench);
        let element = &[0x11, 0x22, 0x33, 0x44][..1 << log2];
        let expected: Vec<u8> = element.iter().copied().cycle().take(len).chain([0xee]).collect();
        assert!(bytes(&bench, to, len + 1) == expected, "{len} bytes of elements of {}", 1 << log2);
    }
}

#[test]
fn writes_carry_their_data() {
    let bench = Bench::new(1);
    let mut ring = Ring::new(&bench, 1 << 16);
    let to = bench.alloc(1 << 16, READ_WRITE);
    let data: Vec<u32> = (0..9000u32).map(|at| at * 3 + 1).collect();
    // More than once around the ring.
    for start in [0, 4, 8, 12] {
        ring.submit(&bench, &[write(to + start, &data), write(to, &[7])]);
        ring.drain(&bench);
        let first = bench.u32s(to, 1);
        assert_eq!((first, bench.u32s(to + start + 4, 8999)), (vec![7], data[1..].to_vec()), "{start}");
    }
}
