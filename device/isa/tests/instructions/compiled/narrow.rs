//! Loads of 8 and 16 bits in every back end and tier, against the bytes that memory has.

use belfry_isa::exec::Stop;
use belfry_isa::inst::WaveSize;
use belfry_isa::lanes::Backend;

use super::{Access, Case, GLOBAL, PAGE, PAGES, Runner, byte, cases, element, pattern};

/// v_mov_b32_e32 v9, v8; s_endpgm.
const AFTER: [u32; 2] = [0x7e12_0308, 0xbfb0_0000];

/// Loads with addresses of any segment; llvm-mc-19 -mcpu=gfx1100.
const FLAT: [Access; 3] = [
    ("flat_load_u16 v8, v[0:1]", [0xdc48_0000, 0x087c_0000]),
    ("flat_load_d16_hi_b16 v8, v[0:1] offset:2", [0xdc8c_0002, 0x087c_0000]),
    ("flat_load_d16_i8 v8, v[0:1]", [0xdc7c_0000, 0x087c_0000]),
];

/// The register of a lane after a load from this place of memory on.
fn loaded(text: &str, old: u32, at: u32) -> u32 {
    let word = |bytes: [u32; 2]| u32::from(byte(bytes[0])) | u32::from(byte(bytes[1])) << 8;
    let value = match text {
        _ if text.contains("u8") => u32::from(byte(at)),
        _ if text.contains("i8") => i32::from(byte(at).cast_signed()).cast_unsigned(),
        _ if text.contains("_i16") => i32::from(word([at, at + 1]) as i16).cast_unsigned(),
        _ => word([at, at + 1]),
    };
    match text {
        _ if text.contains("d16_hi") => value << 16 | old & 0xffff,
        _ if text.contains("d16") => value & 0xffff | old & 0xffff_0000,
        _ => value,
    }
}

/// Runs a case and compares the register that is loaded. Returns false where an active lane's element is not in memory.
fn check(runner: &mut Runner, backend: Backend, case: &Case) -> bool {
    let (text, size) = (runner.access.0, runner.size);
    let count = if size == WaveSize::Wave32 { 32 } else { 64 };
    let offset = text.split("offset:").nth(1).map_or(0, |digits| digits.parse::<u32>().unwrap());
    let is_active = |lane: u32| case.exec >> lane & 1 != 0;
    let place = |lane: u32| case.addresses[lane as usize].wrapping_add(offset);
    if (0..count).any(|lane| is_active(lane) && place(lane) > PAGES * PAGE - element(text)) {
        return false;
    }
    let found = runner.run(case);
    assert_eq!(found.stop, Stop::EndProgram, "{backend:?} {text} {size:?} {case:x?}");
    for lane in 0..count {
        let old = pattern(8, lane);
        let expected = if is_active(lane) { loaded(text, old, place(lane)) } else { old };
        let register = found.registers[8 * count as usize + lane as usize];
        assert_eq!(register, expected, "{backend:?} {text} {size:?} lane {lane} {case:x?}");
    }
    true
}

#[test]
fn parts_of_registers_are_those_of_memory() {
    let is_narrow = |access: &&Access| access.0.contains("load") && element(access.0) <= 2;
    let accesses: Vec<Access> = GLOBAL.iter().filter(is_narrow).chain(&FLAT).copied().collect();
    assert_eq!(accesses.len(), 11);
    for (backend, &access) in Backend::all().flat_map(|backend| accesses.iter().map(move |a| (backend, a))) {
        for size in [WaveSize::Wave32, WaveSize::Wave64] {
            let mut runner = Runner::new(backend, access, size, (&[], &AFTER));
            let all = cases(true, element(access.0), &[0, 15, 16, 31]);
            let checked = all.iter().filter(|case| !case.hides && check(&mut runner, backend, case)).count();
            assert!(checked > 100, "{} {size:?}: {checked} cases", access.0);
        }
    }
}
