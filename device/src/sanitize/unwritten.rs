//! Global memory that nothing has written since its allocation.
//!
//! Stores of the host are not seen here. Therefore a driver fills memory that it hands out with marks, which
//! depend on the address. Memory that still has its marks when it is read was not written. If an engine
//! copies such memory, the copy gets the marks of its new address.

use belfry_isa::exec::{About, Place, Touch};
use belfry_isa::mem::Access;

use super::Sanitizer;
use super::finding::Rule;
use super::group::{Group, doing};

/// Bytes that are read together.
pub(crate) const LINE: usize = 64;
/// Marks that a line must have before one of them counts, as the value of one dword may equal its mark by
/// chance.
const ENOUGH: u32 = 2;

/// The mark of the dword at an address (`splitmix64`): equal in each run, so that runs repeat.
fn mark(va: u64) -> u32 {
    let mut mixed = (va >> 2).wrapping_add(0x6265_6c66_7279_5f75).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ mixed >> 31) as u32
}

impl Sanitizer {
    /// Returns true if a driver is to fill memory that it hands out with [marks](Self::mark).
    #[must_use]
    pub fn marks_memory(&self) -> bool {
        self.checks(Rule::MemoryUninitialized)
    }

    /// Fills bytes with the marks of unwritten memory at a GPU virtual address. The address is a multiple of
    /// 4.
    pub fn mark(va: u64, bytes: &mut [u8]) {
        for (at, dword) in (va..).step_by(4).zip(bytes.chunks_mut(4)) {
            dword.copy_from_slice(&mark(at).to_le_bytes()[..dword.len()]);
        }
    }
}

/// Gives the marks of their new address to marked bytes that were copied from one address to another.
///
/// The addresses differ by a multiple of 4; otherwise the copy counts as written.
pub(crate) fn carry_marks(from: u64, to: u64, bytes: &mut [u8]) {
    if (from ^ to) & 3 != 0 {
        return;
    }
    let skipped = (from.wrapping_neg() & 3) as usize;
    let mut rest = bytes.get_mut(skipped..).unwrap_or_default();
    let mut at = skipped as u64;
    while rest.len() >= 4 {
        let va = from.wrapping_add(at);
        let left = LINE - (va as usize & (LINE - 1));
        let (part, later) = rest.split_at_mut(left.min(rest.len()));
        let (dwords, _) = part.as_chunks_mut::<4>();
        let is_marked =
            |n: usize, dword: &[u8; 4]| *dword == mark(va.wrapping_add(n as u64 * 4)).to_le_bytes();
        let marked = dwords.iter().enumerate().filter(|(n, dword)| is_marked(*n, dword)).count();
        if marked >= ENOUGH as usize {
            for (n, dword) in dwords.iter_mut().enumerate().filter(|(n, dword)| is_marked(*n, dword)) {
                *dword = mark(to.wrapping_add(at + n as u64 * 4)).to_le_bytes();
            }
        }
        at += left as u64;
        rest = later;
    }
}

/// The dwords of the line at an address that have their marks, one bit each; 0 if there are too few.
fn marked(va: u64, line: &[u8; LINE]) -> u32 {
    let dwords = (va..).step_by(4).zip(line.chunks_exact(4));
    let bits = dwords.enumerate().map(|(at, (va, dword))| u32::from(dword == mark(va).to_le_bytes()) << at);
    let all = bits.fold(0, |all, bit| all | bit);
    if all.count_ones() < ENOUGH { 0 } else { all }
}

/// Lines, of which the last one that was read is remembered.
struct Lines<'a> {
    read: &'a dyn Fn(u64) -> Option<[u8; LINE]>,
    last: Option<(u64, u32)>,
}

impl Lines<'_> {
    /// Returns true if a byte's dword has its mark.
    fn is_marked(&mut self, va: u64) -> bool {
        let line = va & !(LINE as u64 - 1);
        let marks = match self.last {
            Some((last, marks)) if last == line => marks,
            _ => (self.read)(line).map_or(0, |bytes| marked(line, &bytes)),
        };
        self.last = Some((line, marks));
        marks >> ((va - line) / 4) & 1 != 0
    }

    /// Returns true if all dwords of a range have their marks.
    fn all_marked(&mut self, va: u64, bytes: u32) -> bool {
        let Some(last) = va.checked_add(u64::from(bytes).saturating_sub(1)) else { return false };
        bytes != 0 && (va & !3..=last).step_by(4).all(|va| self.is_marked(va))
    }

    /// Returns true if an access reads a dword that has its mark.
    fn reads(&mut self, touch: &Touch) -> bool {
        let depends = match touch.access {
            Access::Read => true,
            Access::Atomic => !touch.replaces,
            Access::Write | Access::Execute => false,
        };
        let Place::Global(va) = touch.place else { return false };
        let Some(last) = va.checked_add(u64::from(touch.bytes).saturating_sub(1)) else { return false };
        depends && (va & !3..=last).step_by(4).any(|va| self.is_marked(va))
    }
}

impl Group {
    /// Checks if an instruction reads memory that nothing has written; reports its first such access.
    pub(super) fn unwritten(&self, index: usize, about: &About<'_>) {
        let grid = &self.grid;
        if (about.touches.is_empty() && about.scalar.is_none()) || !grid.sanitizer.marks_memory() {
            return;
        }
        let mut lines = Lines { read: &*grid.sight.read_line, last: None };
        // Compilers make wide loads of neighbouring bytes, and do not use all of them.
        let scalar = about.scalar.filter(|&(va, bytes)| lines.all_marked(va, bytes));
        let touch = about.touches.iter().find(|touch| lines.reads(touch));
        let (lane, what) = match (scalar, touch) {
            (Some((va, bytes)), _) => (None, format!("reads {bytes} bytes at {va:#x}")),
            (None, Some(touch)) => (Some(touch.lane), doing(touch)),
            (None, None) => return,
        };
        let known = grid.lock();
        grid.found(Rule::MemoryUninitialized, (about.pc, 0), || {
            let number = self.first + index as u32;
            (known.here(number, about.pc, lane, self.text(about.inst), what), None)
        });
    }
}

/// Returns true if the dword at an address has its mark; `read` reads a line.
pub(crate) fn is_unwritten(va: u64, read: &dyn Fn(u64) -> Option<[u8; LINE]>) -> bool {
    Lines { read, last: None }.is_marked(va)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(va: u64, bytes: u32, access: Access, replaces: bool) -> Touch {
        Touch { lane: 0, place: Place::Global(va), bytes, access, replaces }
    }

    #[test]
    fn dwords_count_that_have_their_marks() {
        let mut line = [0; LINE];
        Sanitizer::mark(0x1000, &mut line);
        assert_eq!(marked(0x1000, &line), 0xffff);
        assert_eq!(marked(0x1040, &line), 0, "marks of another place");
        line[9] ^= 1;
        assert_eq!(marked(0x1000, &line), 0xfffb);
        line[8..].fill(0);
        assert_eq!(marked(0x1000, &line), 3);
        line[0] ^= 1;
        assert_eq!(marked(0x1000, &line), 0, "one may be there by chance");
    }

    #[test]
    fn copies_of_marks_have_those_of_their_place() {
        // In the middle of lines, with a part of a dword at either end.
        let (from, to) = (0x1006, 0x8fee);
        let mut bytes = vec![0; 200];
        Sanitizer::mark(from + 2, &mut bytes[2..198]);
        bytes[40..80].fill(9);
        carry_marks(from, to, &mut bytes);
        let mut expected = vec![0; 200];
        Sanitizer::mark(to + 2, &mut expected[2..198]);
        // The dwords that were partly written are unchanged.
        let before = |at: usize| mark(from + at as u64).to_le_bytes();
        expected[40..80].fill(9);
        expected[38..40].copy_from_slice(&before(38)[..2]);
        expected[80..82].copy_from_slice(&before(78)[2..]);
        assert_eq!(bytes, expected);
        // Another offset in its dword, and dwords without neighbours.
        let mut bytes = [0; LINE];
        Sanitizer::mark(from & !3, &mut bytes);
        let before = bytes;
        carry_marks(from & !3, to + 1, &mut bytes);
        assert_eq!(bytes, before);
        let mut bytes = [0; 8];
        Sanitizer::mark(0x1000, &mut bytes[..4]);
        let before = bytes;
        carry_marks(0x1000, 0x2000, &mut bytes);
        assert_eq!(bytes, before, "one may be there by chance");
    }

    #[test]
    fn what_depends_on_memory_reads_it() {
        let mut line = [0; LINE];
        Sanitizer::mark(0x1000, &mut line);
        line[..8].fill(0);
        let line_at = |va| (va == 0x1000).then_some(line);
        let reads = |touch| Lines { read: &line_at, last: None }.reads(&touch);
        assert!(reads(read(0x1008, 4, Access::Read, false)));
        assert!(reads(read(0x1000, 16, Access::Read, false)), "a part of it");
        assert!(reads(read(0x100b, 1, Access::Read, false)), "a byte");
        assert!(reads(read(0x103c, 16, Access::Read, false)), "two lines, one of which is nowhere");
        assert!(reads(read(0x1008, 4, Access::Atomic, false)));
        assert!(!reads(read(0x1000, 8, Access::Read, false)));
        assert!(!reads(read(0x1008, 4, Access::Atomic, true)));
        assert!(!reads(read(0x1008, 4, Access::Write, true)));
        assert!(!reads(read(0x1040, 4, Access::Read, false)));
        let all = |va, bytes| Lines { read: &line_at, last: None }.all_marked(va, bytes);
        assert!(all(0x1008, 8) && !all(0x1004, 8) && !all(0x103c, 8) && !all(0x1040, 4));
        assert!(is_unwritten(0x1008, &line_at) && !is_unwritten(0x1000, &line_at));
    }
}
