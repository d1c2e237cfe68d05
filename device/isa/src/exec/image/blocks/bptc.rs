//! Blocks of BC6 and BC7: up to three sets of two end points, in one of several modes (Khronos Data Format Specification 1.3,
//! "BPTC compressed texture image formats"; the tables are those of the specification).

/// Shares of the second end point in 64ths, by the bits of an index.
const SHARES: [&[u32]; 5] = [
    &[],
    &[],
    &[0, 21, 43, 64],
    &[0, 9, 18, 27, 37, 46, 55, 64],
    &[0, 4, 9, 13, 17, 21, 26, 30, 34, 38, 43, 47, 51, 55, 60, 64],
];

/// The set of each texel, two bits for each, of two sets and of three.
const SETS: [[u32; 64]; 2] = [
    [
        0x5050_5050,
        0x4040_4040,
        0x5454_5454,
        0x5450_5040,
        0x5040_4000,
        0x5554_5450,
        0x5554_5040,
        0x5450_4000,
        0x5040_0000,
        0x5555_5450,
        0x5554_4000,
        0x5440_0000,
        0x5555_5440,
        0x5555_0000,
        0x5555_5500,
        0x5500_0000,
        0x5515_0100,
        0x0000_4054,
        0x1501_0000,
        0x0040_5054,
        0x0000_4050,
        0x1505_0100,
        0x0501_0000,
        0x4050_5054,
        0x0040_4050,
        0x0501_0100,
        0x1414_1414,
        0x0514_1450,
        0x0115_5440,
        0x0055_5500,
        0x1501_4054,
        0x0541_4150,
        0x4444_4444,
        0x5500_5500,
        0x1144_1144,
        0x0505_5050,
        0x0550_0550,
        0x1111_4444,
        0x4114_4114,
        0x4411_1144,
        0x1505_5054,
        0x0105_5040,
        0x0504_1050,
        0x0545_5150,
        0x1441_4114,
        0x5005_0550,
        0x4141_1414,
        0x0014_1400,
        0x0004_1504,
        0x0010_5410,
        0x1054_1000,
        0x0415_0400,
        0x5041_0514,
        0x4105_1450,
        0x0541_5014,
        0x1405_4150,
        0x4105_0514,
        0x4150_5014,
        0x4001_1554,
        0x5415_0140,
        0x5050_5500,
        0x0055_5050,
        0x1515_1010,
        0x5454_0404,
    ],
    [
        0xaa68_5050,
        0x6a5a_5040,
        0x5a5a_4200,
        0x5450_a0a8,
        0xa5a5_0000,
        0xa0a0_5050,
        0x5555_a0a0,
        0x5a5a_5050,
        0xaa55_0000,
        0xaa55_5500,
        0xaaaa_5500,
        0x9090_9090,
        0x9494_9494,
        0xa4a4_a4a4,
        0xa9a5_9450,
        0x2a0a_4250,
        0xa594_5040,
        0x0a42_5054,
        0xa5a5_a500,
        0x55a0_a0a0,
        0xa8a8_5454,
        0x6a6a_4040,
        0xa4a4_5000,
        0x1a1a_0500,
        0x0050_a4a4,
        0xaaa5_9090,
        0x1469_6914,
        0x6969_1400,
        0xa085_85a0,
        0xaa82_1414,
        0x50a4_a450,
        0x6a5a_0200,
        0xa9a5_8000,
        0x5090_a0a8,
        0xa8a0_9050,
        0x2424_2424,
        0x00aa_5500,
        0x2492_4924,
        0x2449_9224,
        0x50a5_0a50,
        0x500a_a550,
        0xaaaa_4444,
        0x6666_0000,
        0xa5a0_a5a0,
        0x50a0_50a0,
        0x6928_6928,
        0x44aa_aa44,
        0x6666_6600,
        0xaa44_4444,
        0x54a8_54a8,
        0x9580_9580,
        0x9696_9600,
        0xa854_54a8,
        0x8095_9580,
        0xaa14_1414,
        0x9696_0000,
        0xaaaa_1414,
        0xa050_50a0,
        0xa0a5_a5a0,
        0x9600_0000,
        0x4080_4080,
        0xa9a8_a9a8,
        0xaaaa_aa44,
        0x2a4a_5254,
    ],
];

/// The texels whose index has a bit less, in hexadecimal digits: of the second set of two, and of the second and third of three.
const FIXED: [&[u8; 64]; 3] = [
    b"fffffffffffffffff282288f28228822ff6828ff28222ff66268ff22fffff22f",
    b"33ff83ff88666533338f336a588685ff8f356a8ff3f5ffff3f55585a5a8dfc33",
    b"f883ff38fffffff8f8f3f8f83f6affa8f3faa89a6f8f3668f3ffffffffff3ff8",
];

/// Mode of a block of BC6.
struct Halves {
    number: u32,
    /// Bits of an end point.
    bits: u32,
    /// End points but the first are differences from it, of so many bits in each component.
    has_deltas: bool,
    deltas: [u32; 3],
    /// The fields behind the mode: component, end point (w to z), its first bit and the number of bits in hexadecimal digits, and
    /// `-` where the bits are in the reverse order. With end points y and z there are two sets.
    fields: &'static [u8],
}

const HALVES: [Halves; 14] = [
    Halves {
        number: 0,
        bits: 10,
        has_deltas: true,
        deltas: [5, 5, 5],
        fields: b"gy41+ by41+ bz41+ rw0a+ gw0a+ bw0a+ rx05+ gz41+ gy04+ gx05+ bz01+ gz04+ bx05+ bz11+ by04+ ry05+ bz21+ rz05+ bz31+",
    },
    Halves {
        number: 1,
        bits: 7,
        has_deltas: true,
        deltas: [6, 6, 6],
        fields: b"gy51+ gz41+ gz51+ rw07+ bz01+ bz11+ by41+ gw07+ by51+ bz21+ gy41+ bw07+ bz31+ bz51+ bz41+ rx06+ gy04+ gx06+ gz04+ bx06+ by04+ ry06+ rz06+",
    },
    Halves {
        number: 2,
        bits: 11,
        has_deltas: true,
        deltas: [5, 4, 4],
        fields: b"rw0a+ gw0a+ bw0a+ rx05+ rwa1+ gy04+ gx04+ gwa1+ bz01+ gz04+ bx04+ bwa1+ bz11+ by04+ ry05+ bz21+ rz05+ bz31+",
    },
    Halves {
        number: 3,
        bits: 10,
        has_deltas: false,
        deltas: [10, 10, 10],
        fields: b"rw0a+ gw0a+ bw0a+ rx0a+ gx0a+ bx0a+",
    },
    Halves {
        number: 6,
        bits: 11,
        has_deltas: true,
        deltas: [4, 5, 4],
        fields: b"rw0a+ gw0a+ bw0a+ rx04+ rwa1+ gz41+ gy04+ gx05+ gwa1+ gz04+ bx04+ bwa1+ bz11+ by04+ ry04+ bz01+ bz21+ rz04+ gy41+ bz31+",
    },
    Halves {
        number: 7,
        bits: 11,
        has_deltas: true,
        deltas: [9, 9, 9],
        fields: b"rw0a+ gw0a+ bw0a+ rx09+ rwa1+ gx09+ gwa1+ bx09+ bwa1+",
    },
    Halves {
        number: 10,
        bits: 11,
        has_deltas: true,
        deltas: [4, 4, 5],
        fields: b"rw0a+ gw0a+ bw0a+ rx04+ rwa1+ by41+ gy04+ gx04+ gwa1+ bz01+ gz04+ bx05+ bwa1+ by04+ ry04+ bz11+ bz21+ rz04+ bz41+ bz31+",
    },
    Halves {
        number: 11,
        bits: 12,
        has_deltas: true,
        deltas: [8, 8, 8],
        fields: b"rw0a+ gw0a+ bw0a+ rx08+ rwa2- gx08+ gwa2- bx08+ bwa2-",
    },
    Halves {
        number: 14,
        bits: 9,
        has_deltas: true,
        deltas: [5, 5, 5],
        fields: b"rw09+ by41+ gw09+ gy41+ bw09+ bz41+ rx05+ gz41+ gy04+ gx05+ bz01+ gz04+ bx05+ bz11+ by04+ ry05+ bz21+ rz05+ bz31+",
    },
    Halves {
        number: 15,
        bits: 16,
        has_deltas: true,
        deltas: [4, 4, 4],
        fields: b"rw0a+ gw0a+ bw0a+ rx04+ rwa6- gx04+ gwa6- bx04+ bwa6-",
    },
    Halves {
        number: 18,
        bits: 8,
        has_deltas: true,
        deltas: [6, 5, 5],
        fields: b"rw08+ gz41+ by41+ gw08+ bz21+ gy41+ bw08+ bz31+ bz41+ rx06+ gy04+ gx05+ bz01+ gz04+ bx05+ bz11+ by04+ ry06+ rz06+",
    },
    Halves {
        number: 22,
        bits: 8,
        has_deltas: true,
        deltas: [5, 6, 5],
        fields: b"rw08+ bz01+ by41+ gw08+ gy51+ gy41+ bw08+ gz51+ bz41+ rx05+ gz41+ gy04+ gx06+ gz04+ bx05+ bz11+ by04+ ry05+ bz21+ rz05+ bz31+",
    },
    Halves {
        number: 26,
        bits: 8,
        has_deltas: true,
        deltas: [5, 5, 6],
        fields: b"rw08+ bz11+ by41+ gw08+ by51+ gy41+ bw08+ bz51+ bz41+ rx05+ gz41+ gy04+ gx05+ bz01+ gz04+ bx06+ by04+ ry05+ bz21+ rz05+ bz31+",
    },
    Halves {
        number: 30,
        bits: 6,
        has_deltas: false,
        deltas: [6, 6, 6],
        fields: b"rw06+ gz41+ bz01+ bz11+ by41+ gw06+ gy51+ by51+ bz21+ gy41+ bw06+ gz51+ bz31+ bz51+ bz41+ rx06+ gy04+ gx06+ gz04+ bx06+ by04+ ry06+ rz06+",
    },
];

/// Mode of a block of BC7.
struct Mode {
    /// Sets of end points, and the bits that name the set of each texel.
    sets: u32,
    partition: u32,
    /// Bits that name a component in the place of alpha, and one that exchanges the two indices.
    rotation: u32,
    selection: u32,
    /// Bits of a component of colour, and of alpha.
    color: u32,
    alpha: u32,
    /// Last bits of all components: one for each end point, or for each set, or none.
    last: Last,
    /// Bits of an index, and of that of alpha, if that has one of its own.
    index: u32,
    second: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    None,
    EndPoint,
    Set,
}

const fn mode(
    [sets, partition]: [u32; 2],
    [rotation, selection]: [u32; 2],
    [color, alpha]: [u32; 2],
    last: Last,
    [index, second]: [u32; 2],
) -> Mode {
    Mode { sets, partition, rotation, selection, color, alpha, last, index, second }
}

const MODES: [Mode; 8] = [
    mode([3, 4], [0, 0], [4, 0], Last::EndPoint, [3, 0]),
    mode([2, 6], [0, 0], [6, 0], Last::Set, [3, 0]),
    mode([3, 6], [0, 0], [5, 0], Last::None, [2, 0]),
    mode([2, 6], [0, 0], [7, 0], Last::EndPoint, [2, 0]),
    mode([1, 0], [2, 1], [5, 6], Last::None, [2, 3]),
    mode([1, 0], [2, 0], [7, 8], Last::None, [2, 2]),
    mode([1, 0], [0, 0], [7, 7], Last::EndPoint, [4, 0]),
    mode([2, 6], [0, 0], [5, 5], Last::EndPoint, [2, 0]),
];

/// The bits of a block, from the lowest on.
struct Bits {
    block: u128,
    at: u32,
}

impl Bits {
    fn take(&mut self, count: u32) -> u32 {
        let bits = self.block.checked_shr(self.at).unwrap_or(0) & ((1 << count) - 1);
        self.at += count;
        bits as u32
    }

    /// The index of a texel, which is behind those of the texels before it; one of each set has a bit less.
    fn index(&self, texel: u32, count: u32, (sets, partition): (u32, u32)) -> u32 {
        let is_fixed = |texel: u32| {
            let fixed = |table: usize| {
                let digit = FIXED[table][partition as usize & 63];
                u32::from(if digit > b'9' { digit - b'a' + 10 } else { digit - b'0' }) == texel
            };
            texel == 0
                || match sets {
                    2 => fixed(0),
                    3 => fixed(1) || fixed(2),
                    _ => false,
                }
        };
        let before = (0..texel).map(|texel| count - u32::from(is_fixed(texel))).sum::<u32>();
        Bits { block: self.block, at: self.at + before }.take(count - u32::from(is_fixed(texel)))
    }
}

/// The set of a texel.
fn set(texel: u32, (sets, partition): (u32, u32)) -> usize {
    match sets {
        1 => 0,
        sets => (SETS[sets as usize & 1][partition as usize & 63] >> (2 * texel)) as usize & 3,
    }
}

/// Red, green, blue and alpha of a texel of BC7.
pub(super) fn color(block: u128, texel: u32) -> [u8; 4] {
    let number = block.trailing_zeros();
    let Some(mode) = MODES.get(number as usize) else { return [0; 4] };
    let mut bits = Bits { block, at: number + 1 };
    let partition = bits.take(mode.partition);
    let (rotation, selection) = (bits.take(mode.rotation), bits.take(mode.selection));
    let points = 2 * mode.sets as usize;
    let mut ends = [[0; 4]; 6];
    for component in 0..4 {
        let count = if component == 3 { mode.alpha } else { mode.color };
        for end in &mut ends[..points] {
            end[component] = bits.take(count);
        }
    }
    let mut more = 0;
    if mode.last != Last::None {
        more = 1;
        let mut last = 0;
        for (number, end) in ends[..points].iter_mut().enumerate() {
            if mode.last == Last::EndPoint || number % 2 == 0 {
                last = bits.take(1);
            }
            *end = end.map(|value| value << 1 | last);
        }
    }
    // The upper bits again below the lowest one.
    let widened = |value: u32, count: u32| match count + more {
        count if count > more => (value << (8 - count) | value >> (2 * count - 8)) & 255,
        _ => 255,
    };
    let sets = (mode.sets, partition);
    let first = 2 * set(texel, sets);
    let index = bits.index(texel, mode.index, sets);
    let mut shares = [SHARES[mode.index as usize][index as usize]; 2];
    if mode.second != 0 {
        let behind = 16 * mode.index - 1;
        let bits = Bits { block, at: bits.at + behind };
        let second = bits.index(texel, mode.second, sets);
        shares[1] = SHARES[mode.second as usize][second as usize];
    }
    if selection != 0 {
        shares.swap(0, 1);
    }
    let mut all: [u8; 4] = core::array::from_fn(|component| {
        let (count, share) = if component == 3 { (mode.alpha, shares[1]) } else { (mode.color, shares[0]) };
        if count == 0 {
            return 255;
        }
        let [one, other] = [first, first + 1].map(|end| widened(ends[end.min(5)][component], count));
        ((one * (64 - share) + other * share + 32) >> 6) as u8
    });
    if rotation != 0 {
        all.swap(rotation as usize - 1, 3);
    }
    all
}

/// Red, green and blue of a texel of BC6, in half precision; nothing for a mode that does not exist.
pub(super) fn halves(block: u128, texel: u32, signed: bool) -> [u16; 3] {
    let mut bits = Bits { block, at: 0 };
    let mut number = bits.take(2);
    if number > 1 {
        number |= bits.take(3) << 2;
    }
    let Some(mode) = HALVES.iter().find(|mode| mode.number == number) else { return [0; 3] };
    let mut ends = [[0u32; 3]; 4];
    let digit = |digit: u8| u32::from(if digit > b'9' { digit - b'a' + 10 } else { digit - b'0' });
    let mut sets = 1;
    for field in mode.fields.chunks(6) {
        let component = match field[0] {
            b'r' => 0,
            b'g' => 1,
            _ => 2,
        };
        let end = usize::from(field[1] - b'w');
        sets = if end > 1 { 2 } else { sets };
        let (first, count) = (digit(field[2]), digit(field[3]));
        let value = bits.take(count);
        let value = if field[4] == b'-' { value.reverse_bits() >> (32 - count) } else { value };
        ends[end & 3][component] |= value << first;
    }
    let partition = if sets == 2 { bits.take(5) } else { 0 };
    let extended = |value: u32, bits: u32| (value << (32 - bits)).cast_signed() >> (32 - bits);
    let mut points = [[0; 3]; 4];
    for (number, end) in ends.iter().enumerate() {
        for component in 0..3 {
            let mut value = end[component];
            if number > 0 && mode.has_deltas {
                let delta = extended(value, mode.deltas[component]);
                value = ends[0][component].wrapping_add_signed(delta) & ((1 << mode.bits) - 1);
            }
            let value = if signed { extended(value, mode.bits) } else { value.cast_signed() };
            points[number][component] = unquantized(value, mode.bits, signed);
        }
    }
    let count = if sets == 2 { 3 } else { 4 };
    let index = bits.index(texel, count, (sets, partition));
    let share = SHARES[count as usize][index as usize].cast_signed();
    let first = 2 * set(texel, (sets, partition));
    core::array::from_fn(|component| {
        let (one, other) = (points[first & 3][component], points[(first + 1) & 3][component]);
        let value = (one * (64 - share) + other * share + 32) >> 6;
        match (signed, value < 0) {
            (false, _) => ((value * 31) >> 6) as u16,
            (true, false) => ((value * 31) >> 5) as u16,
            (true, true) => (((-value * 31) >> 5) as u16) | 0x8000,
        }
    })
}

/// An end point with all its bits.
fn unquantized(value: i32, bits: u32, signed: bool) -> i32 {
    if !signed {
        return match value {
            value if bits >= 15 || value == 0 => value,
            value if value == (1 << bits) - 1 => 0xffff,
            value => ((value << 16) + 0x8000) >> bits,
        };
    }
    let size = value.abs();
    let size = match size {
        size if bits >= 16 || size == 0 => size,
        size if size >= (1 << (bits - 1)) - 1 => 0x7fff,
        size => ((size << 15) + 0x4000) >> (bits - 1),
    };
    if value < 0 { -size } else { size }
}
