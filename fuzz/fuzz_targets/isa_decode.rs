//! Random bytes through the decoder and the disassembler: a decoded instruction fits its bytes, and everything prints.

#![no_main]

use belfry_fuzz::chips::Choice;
use belfry_isa::decode::decode_for;
use belfry_isa::disasm::{Disassembly, disassemble};
use belfry_isa::encode::{encode, unused_bits};
use belfry_isa::inst::{Arch, Inst, WaveSize};
use libfuzzer_sys::fuzz_target;

const ADDRESS: u64 = 0x7_0000_0000;

fuzz_target!(|input: &[u8]| {
    let Some((&[chip, first], code)) = input.split_first_chunk() else { return };
    let arch = Choice::of(chip).model.generation.arch;
    let wave = if first & 1 == 0 { WaveSize::Wave32 } else { WaveSize::Wave64 };
    let mut offset = 0;
    for line in disassemble(arch, wave, code, ADDRESS) {
        assert_eq!(line.address, ADDRESS + offset as u64, "lines follow each other");
        let rest = &code[offset..];
        let length = match line.inst {
            Ok(inst) => instruction((arch, wave), rest, &inst),
            Err(_) => rest.len().min(4),
        };
        assert_eq!(line.words().len(), length.div_ceil(4), "dwords of {line}");
        assert!(line.inst.is_ok() || line.text().starts_with(".long "), "{line}");
        assert_eq!(line.inst, decode_for(arch, wave, rest), "the line at {offset:#x}");
        offset += length;
    }
    assert_eq!(offset, code.len(), "the listing covers the code");
});

/// Checks an instruction; its length.
fn instruction((arch, wave): (Arch, WaveSize), rest: &[u8], inst: &Inst) -> usize {
    let length = usize::from(inst.size);
    assert!(
        matches!(length, 4 | 8 | 12 | 16 | 20) && length <= rest.len(),
        "{length} bytes of {}",
        rest.len()
    );
    let text = Disassembly::new(*inst, arch, wave).to_string();
    assert!(text.starts_with(|c: char| c.is_ascii_lowercase()), "{text:?}");
    assert!(text.chars().all(|c| c.is_ascii_graphic() || c == ' ' || c == '…'), "{text:?}");
    // Bytes after an instruction do not belong to it, and none of its own can be missing.
    let (whole, _) = rest.split_at(length);
    assert_eq!(decode_for(arch, wave, whole).as_ref(), Ok(inst), "{text} alone");
    if let Ok(part) = decode_for(arch, wave, &whole[..length - 4]) {
        panic!("{text} without its last dword is {part:?}");
    }
    encoded((arch, wave), inst, &text);
    unused((arch, wave), inst, whole);
    if let Some(target) = inst.branch_target(ADDRESS) {
        assert!(target.is_multiple_of(4), "{text} goes to {target:#x}");
    }
    length
}

/// Bits that no operand has change nothing, with any value.
fn unused((arch, wave): (Arch, WaveSize), inst: &Inst, whole: &[u8]) {
    let unused = unused_bits(arch, inst).to_le_bytes();
    for fill in [0x00, 0xff, 0x80, 0x55] {
        let mut code = whole.to_vec();
        for (byte, unused) in code.iter_mut().zip(unused) {
            *byte = *byte & !unused | fill & unused;
        }
        assert_eq!(
            decode_for(arch, wave, &code).as_ref(),
            Ok(inst),
            "{whole:x?} with {fill:#x} in {unused:x?}"
        );
    }
}

/// An instruction encodes to one that decodes to itself.
fn encoded((arch, wave): (Arch, WaveSize), inst: &Inst, text: &str) {
    let encoded = encode(arch, inst).unwrap_or_else(|error| panic!("{text} does not encode: {error}"));
    let again = decode_for(arch, wave, encoded.bytes());
    assert_eq!(again.as_ref(), Ok(inst), "{text} encoded as {:x?}", encoded.bytes());
}
