//! An ELF kernel made by hand, for the tests of this folder and of the whole machine.

/// Makes a 64-bit ELF executable with its code in one segment at 1 MiB, entered there; `pvh`: with a note of that
/// entry point.
pub(crate) fn elf(code: &[u8], pvh: Option<u32>) -> Vec<u8> {
    const START: u64 = 1 << 20;
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    file.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    for value in [START, 64, 0] {
        file.extend(value.to_le_bytes());
    }
    file.extend([0; 4]);
    for value in [64u16, 56, 2, 0, 0, 0] {
        file.extend(value.to_le_bytes());
    }
    // PT_NOTE, which is empty without an entry point, and PT_LOAD.
    let note = 64 + 2 * 56;
    let notes = if pvh.is_some() { 20 } else { 0 };
    for (kind, offset, address, size) in [(4u32, note, 0, notes), (1, note + 20, START, code.len() as u64)] {
        file.extend(kind.to_le_bytes());
        file.extend(7u32.to_le_bytes());
        for value in [offset, address, address, size, size, 1] {
            file.extend(value.to_le_bytes());
        }
    }
    for value in [4u32, 4, 18] {
        file.extend(value.to_le_bytes());
    }
    file.extend(b"Xen\0");
    file.extend(pvh.unwrap_or_default().to_le_bytes());
    file.extend(code);
    file
}
