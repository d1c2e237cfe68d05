//! Orders of dwords: of elements in memory, and of their dwords in registers. A number names a dword of a register, or of two.

use super::elements::steps;

/// Of eight elements of four dwords in two registers, the first and the second dwords, or the third and the fourth ones.
pub(crate) static PICK_OF_FOUR: [[u32; 16]; 2] = [two_of_four(0), two_of_four(2)];
/// The first and the second dwords, where the second register begins two dwords before its elements do.
pub(crate) static LAST_PICK_OF_FOUR: [u32; 16] = behind_two(two_of_four(0));
/// Of sixteen pairs in two registers, the first dwords, or the second ones.
pub(crate) static PICK: [[u32; 16]; 2] = [steps(0, 2), steps(1, 2)];
/// Dwords of two registers in turn: of the first eight lanes, or the others.
pub(crate) static MIX: [[u32; 16]; 2] = [in_turn(0, 1), in_turn(8, 1)];
/// Pairs of dwords of two registers in turn.
pub(crate) static MIX_PAIRS: [[u32; 16]; 2] = [in_turn(0, 2), in_turn(8, 2)];

const fn two_of_four(first: u32) -> [u32; 16] {
    let mut pick = [0; 16];
    let mut lane = 0;
    while lane < 16 {
        pick[lane] = first + (lane as u32 & 7) * 4 + lane as u32 / 8;
        lane += 1;
    }
    pick
}

const fn behind_two(mut pick: [u32; 16]) -> [u32; 16] {
    let mut lane = 0;
    while lane < 16 {
        pick[lane] += if pick[lane] < 16 { 0 } else { 2 };
        lane += 1;
    }
    pick
}

/// Groups of `size` dwords in turn of two registers, from a lane on.
const fn in_turn(from: u32, size: u32) -> [u32; 16] {
    let mut pick = [0; 16];
    let mut lane = 0;
    while lane < 16 {
        let (group, within) = (lane as u32 / size, lane as u32 % size);
        pick[lane] = from + group / 2 * size + within + (group & 1) * 16;
        lane += 1;
    }
    pick
}

/// Of sixteen elements of three dwords in three registers, their first, second or third dwords: from the first two registers, and from
/// what comes out and the third one.
pub(crate) static PICK_OF_THREE: [[[u32; 16]; 2]; 3] = [of_three(0), of_three(1), of_three(2)];
/// The inverse: a row of memory, from the first two dwords and from what comes out and the third one.
pub(crate) static MIX_OF_THREE: [[[u32; 16]; 2]; 3] = [to_three(0), to_three(1), to_three(2)];
/// The highest lane first; of the eight lower lanes alone.
pub(crate) static DOWN: [u32; 16] = down(15);
pub(crate) static LOW_DOWN: [u32; 16] = down(7);
/// Of pairs of eight lanes in one register and of the eight higher ones in another, the highest lane of each first, the first dwords or the
/// second ones.
pub(crate) static PICK_DOWN: [[u32; 16]; 2] = [of_down(0), of_down(1)];

const fn of_three(n: u32) -> [[u32; 16]; 2] {
    let mut pick = [[0; 16]; 2];
    let mut lane = 0;
    while lane < 16 {
        let word = lane as u32 * 3 + n;
        (pick[0][lane], pick[1][lane]) = if word < 32 { (word, lane as u32) } else { (0, word - 32 + 16) };
        lane += 1;
    }
    pick
}

const fn to_three(row: u32) -> [[u32; 16]; 2] {
    let mut pick = [[0; 16]; 2];
    let mut at = 0;
    while at < 16 {
        let word = row * 16 + at as u32;
        let (lane, n) = (word / 3, word % 3);
        (pick[0][at], pick[1][at]) = if n < 2 { (n * 16 + lane, at as u32) } else { (0, lane + 16) };
        at += 1;
    }
    pick
}

const fn down(from: u32) -> [u32; 16] {
    let mut order = [0; 16];
    let mut at = 0;
    while at < 16 {
        order[at] = (from + 16 - at as u32) % 16;
        at += 1;
    }
    order
}

const fn of_down(n: u32) -> [u32; 16] {
    let mut pick = [0; 16];
    let mut lane = 0;
    while lane < 16 {
        pick[lane] = lane as u32 / 8 * 16 + (7 - lane as u32 % 8) * 2 + n;
        lane += 1;
    }
    pick
}
