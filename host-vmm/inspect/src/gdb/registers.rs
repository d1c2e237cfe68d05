//! Registers of waves under the numbers that GDB knows them by.

use std::fmt::Write as _;

use belfry_tools::inspect::{RegisterName, WaveDetails};
use gdbstub::arch::{Arch, RegId, Registers};

use crate::windows::{LDS, PRIVATE, REGISTERS};

/// Lanes of a vector register in the description, as many as a wave64 has. The upper half of a wave32's register is 0.
const LANES: usize = 64;
/// Bytes of a vector register.
pub(super) const VECTOR: usize = LANES * 4;
/// Scalar registers of the description.
const SGPRS: usize = 106;
/// General registers of x86-64.
const GENERAL: usize = 16;
/// The number of `rip`.
const RIP: usize = GENERAL;
/// 32-bit registers after `rip`: flags and segments.
const SHORT: usize = 7;
/// 80-bit registers of the x87.
const X87: usize = 8;
/// 32-bit registers that control the x87.
const CONTROL: usize = 8;
/// The first register of the wave.
const OWN: usize = RIP + 1 + SHORT + X87 + CONTROL;

/// A register of a wave that GDB asks for by its number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Register {
    /// A register of x86-64, with its number and its bytes. All are 0 but `rip` and the one that stands in for frames.
    Foreign(usize, usize),
    /// `s0` and the scalar registers after it.
    Scalar(usize),
    /// `vcc`, `exec`: 64 bits.
    Pair(&'static str),
    /// Another scalar register: 32 bits.
    Single(&'static str),
    /// The selected lane, which may be written.
    Lane,
    /// `v0` and the vector registers after it; after 256 of them, `a0` and the registers after it.
    Vector(usize),
}

const PAIRS: [&str; 2] = ["exec", "vcc"];
const SINGLES: [&str; 5] = ["m0", "scc", "mode", "status", "trapsts"];

impl RegId for Register {
    fn from_raw_id(id: usize) -> Option<(Self, Option<std::num::NonZeroUsize>)> {
        let foreign = |size| (Self::Foreign(id, size), size);
        let own = id.wrapping_sub(OWN);
        let after = |first: usize| own.wrapping_sub(first);
        let (register, size) = match id {
            0..=RIP => foreign(8),
            _ if id <= RIP + SHORT => foreign(4),
            _ if id <= RIP + SHORT + X87 => foreign(10),
            _ if id < OWN => foreign(4),
            _ if own < SGPRS => (Self::Scalar(own), 4),
            _ if after(SGPRS) < PAIRS.len() => (Self::Pair(PAIRS[after(SGPRS)]), 8),
            _ if after(SGPRS + PAIRS.len()) < SINGLES.len() => {
                (Self::Single(SINGLES[after(SGPRS + PAIRS.len())]), 4)
            }
            _ if after(SGPRS + PAIRS.len() + SINGLES.len()) == 0 => (Self::Lane, 4),
            _ => (Self::Vector(after(SGPRS + PAIRS.len() + SINGLES.len() + 1)), VECTOR),
        };
        // As many vector registers as any chip has.
        (register != Self::Vector(512) && id < OWN + 1024)
            .then_some((register, std::num::NonZeroUsize::new(size)))
    }
}

/// The registers of the architecture that GDB believes in.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Foreign {
    /// The wave's next instruction.
    pub(super) pc: u64,
    /// The private memory of its frame.
    pub(super) frame: u64,
}

impl Foreign {
    /// A register by its number, with its size in bytes.
    pub(super) fn bytes(&self, number: usize, size: usize) -> Vec<u8> {
        let value = match number {
            RIP => self.pc,
            // rbx, rdi, rsp, rbp: registers that the locations of variables in symbol files for GDB are written with.
            1 => REGISTERS,
            5 => LDS,
            7 => PRIVATE,
            6 => self.frame,
            _ => 0,
        };
        let mut bytes = value.to_le_bytes().to_vec();
        bytes.resize(size, 0);
        bytes
    }
}

impl Registers for Foreign {
    type ProgramCounter = u64;

    fn pc(&self) -> u64 {
        self.pc
    }

    fn gdb_serialize(&self, mut write_byte: impl FnMut(Option<u8>)) {
        for number in 0..OWN {
            let Some((_, Some(size))) = Register::from_raw_id(number) else { continue };
            self.bytes(number, size.get()).into_iter().for_each(|byte| write_byte(Some(byte)));
        }
    }

    fn gdb_deserialize(&mut self, _bytes: &[u8]) -> Result<(), ()> {
        Err(())
    }
}

/// Architecture of the GPU for GDB.
#[derive(Debug)]
pub(crate) enum Gpu64 {}

impl Arch for Gpu64 {
    type Usize = u64;
    type Registers = Foreign;
    type BreakpointKind = usize;
    type RegId = Register;
}

/// The description of the registers in XML. It is the same for all chips: registers that one does not have are 0.
pub(super) fn description() -> String {
    let mut xml = "<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\"><target version=\"1.0\">\
                   <architecture>i386:x86-64</architecture><osabi>none</osabi><feature name=\"org.gnu.gdb.i386.core\">"
        .to_owned();
    let mut register = |name: &str, bits: usize, kind: &str, group: &str| {
        let group = if group.is_empty() { String::new() } else { format!(" group=\"{group}\"") };
        let _ = write!(xml, "<reg name=\"{name}\" bitsize=\"{bits}\" type=\"{kind}\"{group}/>");
    };
    // What x86-64 has to have, in a group of its own.
    let general = "rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15";
    general.split(' ').for_each(|name| register(name, 64, "int64", "foreign"));
    register("rip", 64, "code_ptr", "");
    "eflags cs ss ds es fs gs".split(' ').for_each(|name| register(name, 32, "int32", "foreign"));
    (0..X87).for_each(|number| register(&format!("st{number}"), 80, "i387_ext", "foreign"));
    let control = "fctrl fstat ftag fiseg fioff foseg fooff fop";
    control.split(' ').for_each(|name| register(name, 32, "int", "foreign"));
    xml += "</feature><feature name=\"org.belfry.amdgpu\"><vector id=\"lanes_u32\" type=\"uint32\" count=\"64\"/>\
            <vector id=\"lanes_f32\" type=\"ieee_single\" count=\"64\"/><union id=\"lanes\"><field name=\"u32\" \
            type=\"lanes_u32\"/><field name=\"f32\" type=\"lanes_f32\"/></union>";
    let mut register = |name: &str, bits: usize, kind: &str, group: &str| {
        let _ = write!(xml, "<reg name=\"{name}\" bitsize=\"{bits}\" type=\"{kind}\" group=\"{group}\"/>");
    };
    (0..SGPRS).for_each(|number| register(&format!("s{number}"), 32, "uint32", "general"));
    PAIRS.iter().for_each(|name| register(name, 64, "uint64", "general"));
    SINGLES.iter().for_each(|name| register(name, 32, "uint32", "general"));
    register("lane", 32, "uint32", "general");
    for kind in ["v", "a"] {
        (0..256).for_each(|number| register(&format!("{kind}{number}"), VECTOR * 8, "lanes", "vector"));
    }
    xml + "</feature></target>"
}

/// The bytes of a register; a register that the wave does not have is 0.
pub(super) fn read(
    wave: Option<&WaveDetails>,
    register: Register,
    (lane, foreign): (u32, &Foreign),
) -> Vec<u8> {
    let word = |value: u64| (value as u32).to_le_bytes().to_vec();
    let special = |name: &str| {
        let wave = wave?;
        let upper = name.to_ascii_uppercase();
        let status = wave.status.iter().find(|(known, ..)| *known == upper).map(|(_, bits, _)| bits.0);
        status.or_else(|| wave.special.iter().find(|known| known.name == upper).map(|known| known.value.0))
    };
    match register {
        Register::Foreign(number, size) => foreign.bytes(number, size),
        Register::Scalar(number) => {
            word(wave.and_then(|wave| wave.sgprs.get(number)).map_or(0, |value| value.0))
        }
        Register::Pair("exec") => wave.map_or(0, |wave| wave.view.exec.0).to_le_bytes().to_vec(),
        Register::Pair(name) => special(name).unwrap_or(0).to_le_bytes().to_vec(),
        Register::Single(name) => word(special(name).unwrap_or(0)),
        Register::Lane => word(lane.into()),
        Register::Vector(number) => {
            let mut bytes: Vec<u8> = lanes(wave, number).flat_map(|value| value.to_le_bytes()).collect();
            bytes.resize(VECTOR, 0);
            bytes
        }
    }
}

/// Parts of a register that is written, in a wave of `lanes` lanes; empty for a register that cannot be written.
pub(super) fn written(register: Register, value: &[u8], lanes: u32) -> Vec<(RegisterName, u64)> {
    let (words, _) = value.as_chunks::<4>();
    let word = |at: usize| words.get(at).map(|bytes| u64::from(u32::from_le_bytes(*bytes)));
    let both = || Some(word(0)? | word(1)? << 32);
    let one = |name, value: Option<u64>| value.map(|value| (name, value)).into_iter().collect();
    match register {
        Register::Foreign(RIP, _) => one(RegisterName::Pc, both()),
        Register::Scalar(number) => {
            u8::try_from(number).map_or(Vec::new(), |number| one(RegisterName::Scalar(number), word(0)))
        }
        Register::Pair("exec") => one(RegisterName::Exec, both()),
        Register::Pair("vcc") => one(RegisterName::Vcc, both()),
        Register::Single("m0") => one(RegisterName::M0, word(0)),
        Register::Single("scc") => one(RegisterName::Scc, word(0)),
        Register::Vector(number) => {
            let name = |lane| match u8::try_from(number) {
                Ok(number) => RegisterName::Vector(number, lane),
                Err(_) => RegisterName::Accumulation((number - 256) as u8, lane),
            };
            (0..lanes).filter_map(|lane| Some((name(lane), word(lane as usize)?))).collect()
        }
        Register::Foreign(..) | Register::Pair(_) | Register::Single(_) | Register::Lane => Vec::new(),
    }
}

/// The lanes of a vector register, by its number in the description.
pub(super) fn lanes(wave: Option<&WaveDetails>, number: usize) -> impl Iterator<Item = u32> {
    let name = if number < 256 { format!("v{number}") } else { format!("a{}", number - 256) };
    let found = wave.and_then(|wave| wave.vgprs.iter().find(|(known, _)| *known == name));
    found.into_iter().flat_map(|(_, values)| values.iter().map(|value| value.0 as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_description() {
        let xml = description();
        for (number, part) in xml.split("<reg name=\"").skip(1).enumerate() {
            let name = part.split('"').next().unwrap();
            let bits: usize =
                part.split("bitsize=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
            let (register, size) = Register::from_raw_id(number).unwrap();
            assert_eq!(size.unwrap().get() * 8, bits, "{name}");
            let own = match register {
                Register::Foreign(..) => None,
                Register::Scalar(number) => Some(format!("s{number}")),
                Register::Pair(name) | Register::Single(name) => Some(name.to_owned()),
                Register::Lane => Some("lane".to_owned()),
                Register::Vector(number @ 256..) => Some(format!("a{}", number - 256)),
                Register::Vector(number) => Some(format!("v{number}")),
            };
            assert!(own.is_none_or(|own| own == name), "{number}: {name} is {register:?}");
        }
    }
}
