//! The kernel that runs on the device, and its data.
//!
//! The code object is one LLVM has linked; its pages are mapped where they lie in this kernel, as a loader would map a
//! file. Kernel arguments: LLVM `AMDGPUUsage.rst`, code object version 5.

use core::sync::atomic::Ordering;

use crate::gpu::Gpu;
use crate::memory::{PAGE, poke, word};
use crate::process::{Process, Shared};
use crate::rings::Rings;

#[repr(C, align(4096))]
struct Aligned<T: ?Sized>(T);

/// `c[i] = a[i] + b[i]`, for `i < n`.
static OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!("../../../guest-runtime/kernels/vecadd.gfx1100.hsaco"));
/// Symbol of its descriptor.
const SYMBOL: &[u8] = b"vecadd.kd\0";

/// ELF: where a file's header says its program headers are, and the fields used of both (`elf.h`, `Elf64_*`).
mod elf {
    pub const E_PHOFF: usize = 0x20;
    pub const E_PHNUM: usize = 0x38;
    pub const PH_SIZE: usize = 56;
    pub const P_OFFSET: usize = 8;
    pub const P_VADDR: usize = 16;
    pub const P_FILESZ: usize = 32;
    pub const PT_LOAD: u32 = 1;
    pub const PT_DYNAMIC: u32 = 2;
    pub const DT_STRTAB: u64 = 5;
    pub const DT_SYMTAB: u64 = 6;
    pub const SYM_SIZE: usize = 24;
    pub const ST_VALUE: usize = 8;
}

/// A kernel in a process.
pub struct Kernel {
    /// Address of its descriptor.
    pub descriptor: u64,
}

fn number<const N: usize>(at: usize) -> u64 {
    let bytes = &OBJECT.0[at..at + N];
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Program headers of a type.
fn segments(kind: u32) -> impl Iterator<Item = usize> {
    let (at, count) = (number::<8>(elf::E_PHOFF) as usize, number::<2>(elf::E_PHNUM) as usize);
    (0..count)
        .map(move |index| at + index * elf::PH_SIZE)
        .filter(move |at| number::<4>(*at) == u64::from(kind))
}

/// Offset in the file of an address of the object.
fn in_file(address: u64) -> usize {
    let inside =
        |at: &usize| address.wrapping_sub(number::<8>(at + elf::P_VADDR)) < number::<8>(at + elf::P_FILESZ);
    let at = segments(elf::PT_LOAD).find(inside).expect("an address inside of the code object");
    (address - number::<8>(at + elf::P_VADDR) + number::<8>(at + elf::P_OFFSET)) as usize
}

/// Address of the descriptor in the object.
fn descriptor() -> u64 {
    let dynamic = segments(elf::PT_DYNAMIC).next().expect("a dynamic section");
    let entries = number::<8>(dynamic + elf::P_OFFSET) as usize;
    let tag = |wanted: u64| {
        let at = (entries..).step_by(16).find(|at| number::<8>(*at) == wanted).expect("a table of symbols");
        number::<8>(at + 8)
    };
    let (symbols, strings) = (in_file(tag(elf::DT_SYMTAB)), in_file(tag(elf::DT_STRTAB)));
    let named = |at: &usize| OBJECT.0[strings + number::<4>(*at) as usize..].starts_with(SYMBOL);
    let symbol = (symbols + elf::SYM_SIZE..).step_by(elf::SYM_SIZE).find(named).expect("the kernel's symbol");
    number::<8>(symbol + elf::ST_VALUE)
}

/// Maps the code object's pages into a process.
pub fn load(gpu: &Gpu, process: &mut Process, rings: &mut Rings) -> Kernel {
    let base = process.reserve(16 * PAGE);
    for segment in segments(elf::PT_LOAD) {
        let (address, offset, size) = (
            number::<8>(segment + elf::P_VADDR),
            number::<8>(segment + elf::P_OFFSET),
            number::<8>(segment + elf::P_FILESZ),
        );
        for page in (address & !(PAGE - 1)..address + size).step_by(PAGE as usize) {
            // The linker has made addresses and offsets agree within a page.
            let from = (page + offset).wrapping_sub(address) & !(PAGE - 1);
            process.map(gpu, rings, base + page, OBJECT.0.as_ptr().addr() as u64 + from);
        }
    }
    Kernel { descriptor: base + descriptor() }
}

/// Arguments and vectors.
pub struct Vectors {
    arguments: Shared,
    a: Shared,
    b: Shared,
    c: Shared,
    count: u32,
}

/// Element `i` of each vector, and of their sum; computed by the compiler, there are no floats here.
const ELEMENTS: [[u32; 3]; 256] = {
    let mut elements = [[0; 3]; 256];
    let mut i = 0;
    while i < elements.len() {
        let (a, b) = (i as f32 * 0.5, i as f32 * 2.0);
        elements[i] = [a.to_bits(), b.to_bits(), (a + b).to_bits()];
        i += 1;
    }
    elements
};
/// Offset of the hidden arguments, after three pointers and a count.
const HIDDEN: u64 = 32;

impl Vectors {
    /// Fills vectors, and the arguments that name them.
    pub fn new(gpu: &Gpu, process: &mut Process, rings: &mut Rings, count: u32) -> Self {
        assert!(count as usize <= ELEMENTS.len());
        let bytes = u64::from(count) * 4;
        let mut alloc = |bytes| process.alloc(gpu, rings, bytes);
        let (arguments, a, b, c) = (alloc(PAGE), alloc(bytes), alloc(bytes), alloc(bytes));
        for (i, element) in ELEMENTS.iter().take(count as usize).enumerate() {
            let at = i as u64 * 4;
            word(a.cpu + at).store(element[0], Ordering::Relaxed);
            word(b.cpu + at).store(element[1], Ordering::Relaxed);
        }
        for (at, value) in [(0, a.gpu), (8, b.gpu), (16, c.gpu), (24, count.into())] {
            poke(arguments.cpu + at, value);
        }
        let vectors = Self { arguments, a, b, c, count };
        // hidden_block_count_x, y, z: one; hidden_group_size_x, y, z and no remainders; hidden_grid_dims.
        let hidden = arguments.cpu + HIDDEN;
        for at in [0, 4, 8] {
            word(hidden + at).store(1, Ordering::Relaxed);
        }
        word(hidden + 12).store(u32::from(vectors.workgroup()) | 1 << 16, Ordering::Relaxed);
        word(hidden + 16).store(1, Ordering::Relaxed);
        word(hidden + 64).store(1, Ordering::Relaxed);
        vectors
    }

    /// Address of the arguments in the process.
    pub fn arguments(&self) -> u64 {
        self.arguments.gpu
    }

    /// Work-items.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Work-items of the one workgroup.
    pub fn workgroup(&self) -> u16 {
        self.count as u16
    }

    /// Spoils the result.
    pub fn clear(&self) {
        for i in 0..u64::from(self.count) / 2 {
            poke(self.c.cpu + i * 8, u64::MAX);
        }
    }

    /// Checks every element.
    pub fn verify(&self) {
        for (i, element) in ELEMENTS.iter().take(self.count as usize).enumerate() {
            let sum = word(self.c.cpu + i as u64 * 4).load(Ordering::Acquire);
            assert!(sum == element[2], "element {i} is {sum:#x}");
        }
        // The inputs are as they were.
        let (a, b) = (word(self.a.cpu + 4), word(self.b.cpu + 4));
        assert_eq!([a.load(Ordering::Acquire), b.load(Ordering::Acquire)], ELEMENTS[1][..2]);
    }
}
